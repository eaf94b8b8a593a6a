/* SPDX-License-Identifier: GPL-2.0-only */
/* What all controllers need of the kernel's sockets. */
#ifndef HEADWAY_SOCKET_BPF_H
#define HEADWAY_SOCKET_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define NSEC_PER_SEC 1000000000ULL
#define NSEC_PER_USEC 1000ULL
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008

char gpl[] SEC("license") = "GPL";

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *inet_csk(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

#endif

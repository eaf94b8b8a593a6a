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

/* How many arguments this kernel gives cong_control, set by the loader: socket and rate sample, and since Linux
 * 6.10 the ACK number and flags between them. */
const volatile u64 cong_control_arguments SEC(".rodata.arguments") = 4;

/*
 * Returns the rate sample of cong_control. The load from where the kernel gives nothing is behind a branch of
 * which the verifier knows that it is not taken. The compiler would make one load of the two.
 */
static __always_inline const struct rate_sample *rate_sample(unsigned long long *arguments)
{
	const struct rate_sample *sample;

	if (cong_control_arguments == 2)
		asm volatile("%0 = *(u64 *)(%1 + 8)" : "=r"(sample) : "r"(arguments));
	else
		asm volatile("%0 = *(u64 *)(%1 + 24)" : "=r"(sample) : "r"(arguments));
	return sample;
}

/* The head of hw_cong_control, whose body follows. */
#define CONG_CONTROL(sk, rs)                                                                    \
	static __always_inline void on_ack(struct sock *(sk), const struct rate_sample *(rs));  \
	SEC("struct_ops")                                                                       \
	void hw_cong_control(unsigned long long *arguments)                                     \
	{                                                                                       \
		on_ack((struct sock *)arguments[0], rate_sample(arguments));                    \
	}                                                                                       \
	static __always_inline void on_ack(struct sock *(sk), const struct rate_sample *(rs))

static __always_inline struct tcp_sock *tcp_sk(struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *inet_csk(struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* What programs that read and write options of TCP need (linux/bpf.h). */
#ifndef HEADWAY_SOCK_OPS_BPF_H
#define HEADWAY_SOCK_OPS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>

#define TCP_SYN 2

/* Events of a connection. */
#define BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB 4
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB 5
#define BPF_SOCK_OPS_PARSE_HDR_OPT_CB 13
#define BPF_SOCK_OPS_HDR_OPT_LEN_CB 14
#define BPF_SOCK_OPS_WRITE_HDR_OPT_CB 15
/* Those that it has only if a program asks for them: packets with unknown options arrive;
 * options are written. */
#define EVENT_PARSE (1 << 5)
#define EVENT_WRITE (1 << 6)
/* No such option (asm-generic/errno.h). */
#define ENOMSG 42
/* The space of options is asked for to compute the largest segment. */
#define BPF_WRITE_HDR_TCP_CURRENT_MSS 1
/* Bytes of an experimental option by which it is searched: kind, length and identifier (RFC 6994). */
#define OPTION_START 4

struct tcp {
	__be16 source;
	__be16 destination;
	__be32 sequence;
	__be32 acknowledgement;
	__u8 offset;
	__u8 flags;
	__be16 window;
	__u16 check;
	__be16 urgent;
};

void *bpf_cast_to_kern_ctx(void *context) __ksym;
void *bpf_rdonly_cast(const void *object, __u32 type) __ksym;

#define AS(pointer, type) ((type *)bpf_rdonly_cast(pointer, bpf_core_type_id_kernel(type)))

#endif

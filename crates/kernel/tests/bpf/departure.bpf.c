// SPDX-License-Identifier: GPL-2.0-only
/*
 * Moves the departure that TCP has set, as the module headway_ls does with each ACK, if `moves` is set; else it
 * sets the pace, which decides the departure after that one. The kernel takes the second only (tests/verifier.rs).
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char gpl[] SEC("license") = "GPL";

const volatile u32 moves SEC(".rodata.options") = 0;

SEC("struct_ops")
void BPF_PROG(cong_control, struct sock *sk)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	if (moves)
		tp->tcp_wstamp_ns = tp->tcp_clock_cache;
	else
		sk->sk_pacing_rate = 1000000;
}

SEC("struct_ops")
u32 BPF_PROG(ssthresh, struct sock *sk)
{
	return 2;
}

SEC("struct_ops")
u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return 2;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops headway_departs = {
	.cong_control = (void *)cong_control,
	.ssthresh = (void *)ssthresh,
	.undo_cwnd = (void *)undo_cwnd,
	.name = "headway_departs",
};

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reno, except that min_tso_segs returns zero once in a while, which stalls a connection for good.
 *
 * tcp_write_xmit() then splits an empty buffer off the first one and stops there. Nothing is in flight, so
 * the probe timer expires next, and tcp_write_wakeup() sends the empty buffer. No receiver acknowledges it,
 * and the retransmission timer sends nothing else.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

/* Calls per zero. */
#define PERIOD 2000

char gpl[] SEC("license") = "GPL";

u32 calls;

extern u32 tcp_reno_ssthresh(struct sock *sk) __ksym;
extern u32 tcp_reno_undo_cwnd(struct sock *sk) __ksym;
extern void tcp_reno_cong_avoid(struct sock *sk, u32 ack, u32 acked) __ksym;

SEC("struct_ops")
u32 BPF_PROG(ssthresh, struct sock *sk)
{
	return tcp_reno_ssthresh(sk);
}

SEC("struct_ops")
u32 BPF_PROG(undo_cwnd, struct sock *sk)
{
	return tcp_reno_undo_cwnd(sk);
}

SEC("struct_ops")
void BPF_PROG(cong_avoid, struct sock *sk, u32 ack, u32 acked)
{
	tcp_reno_cong_avoid(sk, ack, acked);
}

SEC("struct_ops")
u32 BPF_PROG(min_tso_segs, struct sock *sk)
{
	return __sync_fetch_and_add(&calls, 1) % PERIOD == PERIOD - 1 ? 0 : 1;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops headway_zero = {
	.ssthresh = (void *)ssthresh,
	.undo_cwnd = (void *)undo_cwnd,
	.cong_avoid = (void *)cong_avoid,
	.min_tso_segs = (void *)min_tso_segs,
	.name = "headway_zero",
};

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Segments of a fixed gap, made as TCP Rapid makes its gaps (rapid.bpf.c): TCP asks min_tso_segs before each
 * attempt to send, and the pace at which a segment leaves decides when the next one does. No estimate, no
 * adaptation, and no answer to losses: `headway-bench gaps` times what arrives at the next hop.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "gaps.bpf.h"
#include "socket.bpf.h"

/* Linux does not pace this many segments at the beginning of a connection. */
#define UNPACED 10
/* Segments in flight that the window admits where it does not keep them single; no wire
 * here holds that many. */
#define WINDOW 1000

/* Set by the loader before the programs are verified (src/pace.rs). */
struct pace_options {
	/* From the start of a segment to the start of the next one of its connection, in ns. */
	u64 gap;
	/* Whether a window one segment above what is in flight keeps segments single; else the
	 * interface has to. */
	u64 by_window;
};

const volatile struct pace_options options SEC(".rodata.options") = { .gap = NSEC_PER_SEC };

/* State of a connection; the kernel has 104 bytes for it. */
struct pace {
	/* When the next segment is due, in ns. */
	u64 due;
	u32 snd_nxt;
};

static __always_inline struct pace *pace_of(struct sock *sk)
{
	return (struct pace *)inet_csk(sk)->icsk_ca_priv;
}

static __always_inline void pace_set_window(struct tcp_sock *tp)
{
	const u32 in_flight = tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;

	tp->snd_cwnd = options.by_window ? in_flight + 1 : WINDOW;
}

/* TCP takes from the time that the pace gives what the departure is late, at most half of it. */
static __always_inline void pace_set_rate(struct sock *sk, u64 wait, u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const u64 late = tp->tcp_wstamp_ns < now ? now - tp->tcp_wstamp_ns : 0;

	sk->sk_pacing_rate = tp->mss_cache * NSEC_PER_SEC / (wait + (late < wait ? late : wait));
}

SEC("struct_ops")
u32 BPF_PROG(hw_min_tso_segs, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct pace *pace = pace_of(sk);
	const u64 now = tp->tcp_clock_cache;
	const u64 gap = options.gap;

	/* Attempts that come to nothing do not count: segments have left when the numbers advance. */
	pace->due += (tp->snd_nxt - pace->snd_nxt + tp->mss_cache - 1) / tp->mss_cache * gap;
	pace->snd_nxt = tp->snd_nxt;
	note_departure(sk, 0, 0);
	pace_set_window(tp);
	if (tp->tcp_wstamp_ns > now)
		return 1;
	/* After a stall the schedule is not caught up with, as with Rapid. */
	if (tp->data_segs_out < UNPACED || pace->due + most_late(gap) < now)
		pace->due = now;
	note_departure(sk, pace->due, gap);
	pace_set_rate(sk, pace->due + gap > now ? pace->due + gap - now : 1, now);
	return 1;
}

SEC("struct_ops")
void BPF_PROG(hw_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct pace *pace = pace_of(sk);

	pace->due = tp->tcp_clock_cache;
	pace->snd_nxt = tp->snd_nxt;
	pace_set_rate(sk, options.gap, pace->due);
	__sync_val_compare_and_swap(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	pace_set_window(tp);
}

SEC("struct_ops")
void BPF_PROG(hw_cong_control, struct sock *sk)
{
	pace_set_window(tcp_sk(sk));
}

SEC("struct_ops")
u32 BPF_PROG(hw_ssthresh, struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

SEC("struct_ops")
u32 BPF_PROG(hw_undo_cwnd, struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops hw_pace = {
	.init = (void *)hw_init,
	.cong_control = (void *)hw_cong_control,
	.ssthresh = (void *)hw_ssthresh,
	.undo_cwnd = (void *)hw_undo_cwnd,
	.min_tso_segs = (void *)hw_min_tso_segs,
	.name = "hw_pace",
};

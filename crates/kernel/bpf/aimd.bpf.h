/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Plain AIMD with a floor of two segments, as a baseline: Reno (RFC 5681, RFC 3168) or DCTCP (RFC 8257),
 * selected by ALGORITHM.
 *
 * It differs from the kernel's own in what the engine does for all algorithms: the window is cut at once and
 * once per round, and alpha has 20 bits. Without these results would not be comparable (ls-aimd 2.11).
 */
#ifndef HEADWAY_AIMD_BPF_H
#define HEADWAY_AIMD_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "intf.h"
#include "cut.h"
#include "ls_aimd.h"

/* Minimum window and ssthresh in segments: with less, ACKs might not come (RFC 5681 3.1). */
#define AIMD_FLOOR 2
/* Restart window after idle, in segments: the initial window (RFC 6928). */
#define AIMD_RESTART_WINDOW 10

struct algorithm {
	/* In segments; `credit` counts acknowledged segments that have not grown the window yet. */
	u32 cwnd;
	u32 credit;
	u32 ssthresh;
	/* Before the last reduction, to undo a spurious one. */
	u32 prior_cwnd;
	u32 prior_ssthresh;
	u32 mss;
	/* alpha times 16; segments acknowledged in this round, and the marked ones among them. */
	u32 alpha;
	u32 total;
	u32 marked;
	u32 round_end;
	/* The last reduction. */
	struct hw_cut cut;
	/* Smoothed as in LS-AIMD; only for telemetry, so ns in 32 bits suffice. */
	u32 rtt;
};

static __always_inline void algorithm_init(struct algorithm *a, u32 window, u32 ssthresh, u32 mss, u32 next)
{
	*a = (struct algorithm){
		.cwnd = window,
		.ssthresh = ssthresh,
		.prior_cwnd = window,
		.prior_ssthresh = ssthresh,
		.mss = mss,
		.alpha = DCTCP_ONE << DCTCP_GAIN_SHIFT,
		.round_end = next,
	};
}

static __always_inline void aimd_reduce_to(struct algorithm *a, u32 window)
{
	a->prior_cwnd = a->cwnd;
	a->prior_ssthresh = a->ssthresh;
	a->ssthresh = hw_max(window, AIMD_FLOOR);
	a->cwnd = a->ssthresh;
	a->credit = 0;
}

static __always_inline void aimd_on_mark(struct algorithm *a, u32 in_flight)
{
	u64 base = hw_min(a->cwnd, hw_max(in_flight, AIMD_FLOOR));
	u64 cut = base / 2;

	if (ALGORITHM == LS_DCTCP)
		cut = (base * a->alpha) >> (DCTCP_FRACTION_BITS + DCTCP_GAIN_SHIFT + 1);
	aimd_reduce_to(a, base - cut);
}

static __always_inline void aimd_count_marks(struct algorithm *a, const struct ls_ack *ack)
{
	a->total += ack->acked;
	a->marked += ack->marked;
	if (!a->total || hw_before(ack->una, a->round_end))
		return;
	a->alpha = dctcp_average(a->alpha, dctcp_fraction(a->marked, a->total), DCTCP_GAIN_SHIFT);
	a->total = 0;
	a->marked = 0;
	a->round_end = ack->next;
}

static __always_inline void aimd_grow(struct algorithm *a, u32 acked)
{
	if (a->cwnd < a->ssthresh) {
		u32 used = hw_min(acked, a->ssthresh - a->cwnd);

		a->cwnd += used;
		acked -= used;
	}
	a->credit += acked;
	if (a->credit >= a->cwnd) {
		u32 grown = a->credit / hw_max(a->cwnd, 1);

		a->credit -= grown * a->cwnd;
		a->cwnd += grown;
	}
}

/* A round in which marks cut the window does not grow it. After a timeout, ACKs for resent
 * segments grow it. */
static __always_inline u32 algorithm_on_ack(struct algorithm *a, const struct ls_ack *ack)
{
	u32 cut = hw_cut_for_mark(&a->cut, ack->marked, ack->una, ack->next);

	if (ack->rtt)
		a->rtt = a->rtt ? a->rtt - (a->rtt >> LS_RTT_SHIFT) + (ack->rtt >> LS_RTT_SHIFT) : ack->rtt;
	if (ALGORITHM == LS_DCTCP)
		aimd_count_marks(a, ack);
	if (cut)
		aimd_on_mark(a, ack->in_flight);
	else if (a->cut.cause != HW_MARK && ack->cwnd_limited && !ack->in_recovery)
		aimd_grow(a, ack->acked);
	return cut;
}

static __always_inline u32 algorithm_on_loss(struct algorithm *a, u32 in_flight, u32 una, u32 next)
{
	if (!hw_cut_for_loss(&a->cut, una, next))
		return 0;
	aimd_reduce_to(a, hw_min(a->cwnd, hw_max(in_flight, AIMD_FLOOR)) / 2);
	return 1;
}

static __always_inline u32 algorithm_on_timeout(struct algorithm *a, u32 una, u32 next)
{
	u32 cut = hw_cut_for_timeout(&a->cut, una, next);

	if (cut)
		aimd_reduce_to(a, a->cwnd / 2);
	a->cwnd = 1;
	return cut;
}

static __always_inline void algorithm_undo(struct algorithm *a)
{
	a->cwnd = hw_max(a->cwnd, a->prior_cwnd);
	a->ssthresh = hw_max(a->ssthresh, a->prior_ssthresh);
}

static __always_inline void algorithm_set_mss(struct algorithm *a, u32 mss)
{
	a->mss = mss;
}

static __always_inline void algorithm_restart(struct algorithm *a)
{
	if (a->cwnd <= AIMD_RESTART_WINDOW)
		return;
	a->ssthresh = hw_max(a->ssthresh, a->cwnd / 4 * 3);
	a->cwnd = AIMD_RESTART_WINDOW;
	a->credit = 0;
}

static __always_inline u32 algorithm_mss(const struct algorithm *a)
{
	return a->mss;
}

static __always_inline u32 algorithm_cwnd(const struct algorithm *a)
{
	return a->cwnd;
}

static __always_inline u32 algorithm_ssthresh(const struct algorithm *a)
{
	return a->ssthresh;
}

/* Always ACK-clocked. */
static __always_inline u64 algorithm_gap(const struct algorithm *a)
{
	return 0;
}

static __always_inline u32 algorithm_submss(const struct algorithm *a)
{
	return 0;
}

static __always_inline void algorithm_record(const struct algorithm *a, struct hw_record *r)
{
	r->window = ((u64)a->cwnd * a->mss) << HW_Q9;
	r->ssthresh = a->ssthresh < TCP_INFINITE_SSTHRESH ? ((u64)a->ssthresh * a->mss) << HW_Q9 : LS_UNLIMITED;
	r->rtt_pace = a->rtt;
	r->add = a->mss << HW_Q9;
	r->scale = LS_SCALE_ONE;
	r->alpha = a->alpha >> DCTCP_GAIN_SHIFT;
	r->submss = 0;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* LS-AIMD as an algorithm for the engine: a wrapper around the shared arithmetic. ALGORITHM
 * selects Reno or DCTCP. */
#ifndef HEADWAY_LS_BPF_H
#define HEADWAY_LS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "ls_aimd.h"
#include "intf.h"

/* Options, set by the loader before the programs are verified; each is the command-line flag of that name. */
struct ls_options {
	/* The most segments that the receiver acknowledges with one ACK, 1 to 16: below this window segments
	 * are paced one by one. */
	u32 delta;
	/* Scale C of the increase in units of 2^-16, 1 to 65536; 0 makes it follow the fraction of marks. */
	u32 scale;
	/* Minimum window in bytes, 1 to 65536. */
	u32 floor;
};

const volatile struct ls_options options SEC(".rodata.options") = {
	.delta = 2,
	.scale = 0,
	.floor = LS_FLOOR,
};

/* Restart window after idle, in segments: the initial window (RFC 6928). */
#define LS_RESTART_WINDOW 10

struct algorithm {
	struct ls_state ls;
};

static __always_inline struct ls_config config(void)
{
	return (struct ls_config){
		.algorithm = ALGORITHM,
		.delta = options.delta,
		.scale = options.scale,
		.floor = options.floor,
		/* The kernel sets the departure of a segment when the one before it leaves, and no program
		 * can move it. */
		.fixed_departures = 1,
	};
}

/* Adopts a window and, if the connection had another controller before, its ssthresh, both in segments. */
static __always_inline void algorithm_init(struct algorithm *a, u32 window, u32 ssthresh, u32 mss, u32 next)
{
	struct ls_config c = config();

	ls_init(&a->ls, &c, window, mss, next);
	if (ssthresh < TCP_INFINITE_SSTHRESH)
		ls_set_ssthresh(&a->ls, &c, ((u64)ssthresh * mss) << HW_Q9);
}

static __always_inline u32 algorithm_on_ack(struct algorithm *a, const struct ls_ack *ack)
{
	struct ls_config c = config();

	return ls_on_ack(&a->ls, &c, ack);
}

static __always_inline u32 algorithm_on_loss(struct algorithm *a, u32 in_flight, u32 una, u32 next)
{
	struct ls_config c = config();

	return ls_on_loss(&a->ls, &c, in_flight, una, next);
}

static __always_inline u32 algorithm_on_timeout(struct algorithm *a, u32 una, u32 next)
{
	struct ls_config c = config();

	return ls_on_timeout(&a->ls, &c, una, next);
}

static __always_inline void algorithm_undo(struct algorithm *a)
{
	struct ls_config c = config();

	ls_undo(&a->ls, &c);
}

static __always_inline void algorithm_set_mss(struct algorithm *a, u32 mss)
{
	struct ls_config c = config();

	ls_set_mss(&a->ls, &c, mss);
}

/* A small window stays as it is (ls-aimd 2.20); a large one grows back fast to three quarters
 * of its former size. */
static __always_inline void algorithm_restart(struct algorithm *a)
{
	struct ls_config c = config();
	u64 window = ((u64)LS_RESTART_WINDOW * a->ls.mss) << HW_Q9;

	if (a->ls.window <= window)
		return;
	ls_set_ssthresh(&a->ls, &c, hw_max(a->ls.ssthresh, a->ls.window / 4 * 3));
	a->ls.window = window;
	a->ls.credit = 0;
}

static __always_inline u32 algorithm_mss(const struct algorithm *a)
{
	return a->ls.mss;
}

static __always_inline u32 algorithm_cwnd(const struct algorithm *a)
{
	struct ls_config c = config();

	return ls_cwnd(&a->ls, &c);
}

/* In segments; at least two, because of the way the kernel uses it. */
static __always_inline u32 algorithm_ssthresh(const struct algorithm *a)
{
	if (a->ls.ssthresh == LS_UNLIMITED)
		return TCP_INFINITE_SSTHRESH;
	return hw_max(a->ls.ssthresh / ((u64)a->ls.mss << HW_Q9), 2);
}

/* Time between departures in ns; zero while the sender is ACK-clocked, and before the first RTT sample. */
static __always_inline u64 algorithm_gap(const struct algorithm *a)
{
	return a->ls.submss ? ls_gap(&a->ls, a->ls.mss) : 0;
}

static __always_inline u32 algorithm_submss(const struct algorithm *a)
{
	return a->ls.submss;
}

static __always_inline void algorithm_record(const struct algorithm *a, struct hw_record *r)
{
	r->window = a->ls.window;
	r->ssthresh = a->ls.ssthresh;
	r->rtt_pace = a->ls.rtt;
	r->add = a->ls.add;
	r->scale = a->ls.scale;
	r->alpha = a->ls.alpha >> DCTCP_GAIN_SHIFT;
	r->submss = a->ls.submss;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* LS-AIMD as the engine's algorithm: everything is in the shared arithmetic. ALGORITHM says which of its two. */
#ifndef HEADWAY_LS_BPF_H
#define HEADWAY_LS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "ls_aimd.h"
#include "intf.h"

/* What the loader sets before the programs are verified; each is the flag of that name. */
struct ls_options {
	/* Segments for which the receiver may send one acknowledgement, 1 to 16: below so many, segments are paced one by one. */
	u32 delta;
	/* Scale C of the increase in units of 2^-16, 1 to 65536; 0 makes it follow the fraction of marks. */
	u32 scale;
	/* Least window in bytes, 1 to 65536. */
	u32 floor;
};

const volatile struct ls_options options SEC(".rodata.options") = {
	.delta = 2,
	.scale = 0,
	.floor = LS_FLOOR,
};

/* Segments that a connection may start again with after silence: the initial window (RFC 6928). */
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
		/* The kernel sets a departure when the one before it leaves, and lets no program move it. */
		.fixed_departures = 1,
	};
}

/* Adopts a window and, of a connection that had another controller before, a threshold, both in segments. */
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

/* A small window stays (ls-aimd 2.20); a large one grows back fast to three quarters of what it was. */
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

/* In segments, and for what the kernel does with it at least two. */
static __always_inline u32 algorithm_ssthresh(const struct algorithm *a)
{
	if (a->ls.ssthresh == LS_UNLIMITED)
		return TCP_INFINITE_SSTHRESH;
	return hw_max(a->ls.ssthresh / ((u64)a->ls.mss << HW_Q9), 2);
}

/* Time between departures, ns; zero while acknowledgements clock segments out, and before there is a round-trip time. */
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

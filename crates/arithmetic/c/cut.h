/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * When to cut the window again: at most once per window of data for marks and once for losses; a loss also
 * cuts a window that marks have already cut (RFC 8257 3.5).
 *
 * The record of a cut is cleared once everything in flight at that time is acknowledged. Sequence numbers
 * wrap, so a cut made 2^31 bytes ago would otherwise look like one still in the future.
 */
#ifndef HEADWAY_CUT_H
#define HEADWAY_CUT_H

#include "numbers.h"

/* The reason for the last cut. */
enum hw_cause {
	HW_CAUSE_NONE,
	HW_MARK,
	HW_LOSS,
};

/* Packed, so that the state of a connection fits into the space the kernel reserves for it. */
struct hw_cut {
	/* The next sequence number to be sent at the time of the cut; ACKs up to it cover data
	 * sent before the cut. */
	hw_u32 end;
	/* One of enum hw_cause. */
	hw_u16 cause;
} __attribute__((packed, aligned(2)));

HW_INLINE void hw_cut_record(struct hw_cut *cut, hw_u16 cause, hw_u32 next)
{
	cut->cause = cause;
	cut->end = next;
}

/*
 * Handles an ACK up to `una` for `marked` segments: returns whether to cut the window, and if so records a
 * cut up to `next`.
 */
HW_INLINE int hw_cut_for_mark(struct hw_cut *cut, hw_u32 marked, hw_u32 una, hw_u32 next)
{
	if (hw_before(cut->end, una))
		cut->cause = HW_CAUSE_NONE;
	if (!marked || cut->cause != HW_CAUSE_NONE)
		return 0;
	hw_cut_record(cut, HW_MARK, next);
	return 1;
}

/* The same for a loss. */
HW_INLINE int hw_cut_for_loss(struct hw_cut *cut, hw_u32 una, hw_u32 next)
{
	if (cut->cause == HW_LOSS && hw_before(una, cut->end))
		return 0;
	hw_cut_record(cut, HW_LOSS, next);
	return 1;
}

/* The same for a timeout, which needs no further cut after one for marks or losses. */
HW_INLINE int hw_cut_for_timeout(struct hw_cut *cut, hw_u32 una, hw_u32 next)
{
	int due = cut->cause == HW_CAUSE_NONE || !hw_before(una, cut->end);

	hw_cut_record(cut, HW_LOSS, due ? next : cut->end);
	return due;
}

#endif

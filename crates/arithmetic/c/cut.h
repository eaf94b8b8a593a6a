/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * When a window is cut again: once for the marks of a window of data, once for its losses, and for losses also after marks (RFC 8257 3.5).
 *
 * What was cut for is forgotten when all that was in flight then is acknowledged: sequence numbers wrap, and a reduction of 2^31 bytes ago
 * would look like one that is yet to come.
 */
#ifndef HEADWAY_CUT_H
#define HEADWAY_CUT_H

#include "numbers.h"

/* What a window was cut for. */
enum hw_cause {
	HW_NOTHING,
	HW_MARK,
	HW_LOSS,
};

/* Packed, so that what a connection remembers fits into the room that the kernel has for it. */
struct hw_cut {
	/* The next sequence number to be sent when the window was cut; acknowledgements up to it tell of what was sent before. */
	hw_u32 end;
	/* One of enum hw_cause. */
	hw_u16 cause;
} __attribute__((packed, aligned(2)));

HW_INLINE void hw_cut_note(struct hw_cut *cut, hw_u16 cause, hw_u32 next)
{
	cut->cause = cause;
	cut->end = next;
}

/* An acknowledgement up to `una` arrived: whether the window is to be cut for its `marked` segments, and is noted as cut up to `next`. */
HW_INLINE int hw_cut_for_mark(struct hw_cut *cut, hw_u32 marked, hw_u32 una, hw_u32 next)
{
	if (hw_before(cut->end, una))
		cut->cause = HW_NOTHING;
	if (!marked || cut->cause != HW_NOTHING)
		return 0;
	hw_cut_note(cut, HW_MARK, next);
	return 1;
}

/* The same for losses. */
HW_INLINE int hw_cut_for_loss(struct hw_cut *cut, hw_u32 una, hw_u32 next)
{
	if (cut->cause == HW_LOSS && hw_before(una, cut->end))
		return 0;
	hw_cut_note(cut, HW_LOSS, next);
	return 1;
}

/* The same for a timeout, for which a cut for marks suffices. */
HW_INLINE int hw_cut_for_timeout(struct hw_cut *cut, hw_u32 una, hw_u32 next)
{
	int due = cut->cause == HW_NOTHING || !hw_before(una, cut->end);

	hw_cut_note(cut, HW_LOSS, due ? next : cut->end);
	return due;
}

#endif

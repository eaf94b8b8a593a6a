/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The gaps of one p-stream, as the sender made and the receiver saw them.
 */
#ifndef HEADWAY_RAPID_GAPS_H
#define HEADWAY_RAPID_GAPS_H

#include "numbers.h"

/* Packets in a p-stream, at most: the longest that ever controlled a connection (variant
 * V5 of rapid 2.25). */
#define RAPID_MAX_PACKETS 192
/* Longest send gap, in ns: 18 minutes. It keeps all sums and products of gaps below 2^63. */
#define RAPID_MAX_GAP (1ULL << 40)

/* Gaps in ns; entry i of both arrays belongs to the same packet. Only begin <= i < end are valid. */
struct rapid_gaps {
	hw_u32 begin;
	hw_u32 end;
	hw_u64 send[RAPID_MAX_PACKETS];
	hw_u64 receive[RAPID_MAX_PACKETS];
};

/* Forces the valid range into the arrays and returns its length. */
HW_INLINE hw_u32 rapid_gaps_bound(struct rapid_gaps *gaps)
{
	gaps->end = (hw_u32)hw_min(gaps->end, RAPID_MAX_PACKETS);
	gaps->begin = (hw_u32)hw_min(gaps->begin, gaps->end);
	return gaps->end - gaps->begin;
}

#endif

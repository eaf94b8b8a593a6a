/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A moving average of the fraction of marked segments (RFC 8257 4.2), with more bits than the kernel's
 * own: at small windows each sample is a single bit, and at low congestion ten bits round the average to
 * zero (ls-aimd 2.11).
 */
#ifndef HEADWAY_DCTCP_ALPHA_H
#define HEADWAY_DCTCP_ALPHA_H

#include "numbers.h"

/* Fraction bits of the share of marked segments. */
#define DCTCP_FRACTION_BITS 20
/* All segments are marked. */
#define DCTCP_ONE (1U << DCTCP_FRACTION_BITS)
/* The newest window of data weighs 1/16 in alpha (RFC 8257 4.2, ls-aimd 2.11). */
#define DCTCP_GAIN_SHIFT 4

/*
 * Moves `average` towards `fraction` with weight 2^-shift. The average is kept multiplied by 2^shift so that
 * no bits are lost. Both have DCTCP_FRACTION_BITS. Without marks the average decays to exactly zero.
 */
HW_INLINE hw_u32 dctcp_average(hw_u32 average, hw_u32 fraction, hw_u32 shift)
{
	hw_u32 old = (average + (1U << (shift - 1))) >> shift;

	/* Below half a unit the decay would round to zero and the average would never reach zero. */
	if (!old)
		old = average;
	return average - old + fraction;
}

/* The share of `marked` among `total` segments; zero if `total` is zero. */
HW_INLINE hw_u32 dctcp_fraction(hw_u32 marked, hw_u32 total)
{
	if (!total)
		return 0;
	return (hw_u32)(((hw_u64)marked << DCTCP_FRACTION_BITS) / total);
}

#endif

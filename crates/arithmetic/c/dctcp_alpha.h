/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A moving average of the fraction of segments that are marked (RFC 8257 4.2), with more bits than the kernel's own: at small
 * windows the average is made of single bits, and at low congestion ten bits round it to zero (ls-aimd 2.11).
 */
#ifndef HEADWAY_DCTCP_ALPHA_H
#define HEADWAY_DCTCP_ALPHA_H

#include "numbers.h"

/* Bits of fraction of a marked fraction. */
#define DCTCP_FRACTION_BITS 20
/* Everything is marked. */
#define DCTCP_ONE (1U << DCTCP_FRACTION_BITS)
/* Weight 1/16 of the newest window of data in alpha (RFC 8257 4.2, ls-aimd 2.11). */
#define DCTCP_GAIN_SHIFT 4

/*
 * Moves `average`, which is kept multiplied by 2^shift so that nothing is lost, by 2^-shift towards `fraction`. Both have
 * DCTCP_FRACTION_BITS. It comes to rest at exactly zero when nothing is marked.
 */
HW_INLINE hw_u32 dctcp_average(hw_u32 average, hw_u32 fraction, hw_u32 shift)
{
	hw_u32 old = (average + (1U << (shift - 1))) >> shift;

	/* Too little to lose a whole unit: without this it would stay there. */
	if (!old)
		old = average;
	return average - old + fraction;
}

/* The fraction of `marked` in `total` segments; zero if there are none. */
HW_INLINE hw_u32 dctcp_fraction(hw_u32 marked, hw_u32 total)
{
	if (!total)
		return 0;
	return (hw_u32)(((hw_u64)marked << DCTCP_FRACTION_BITS) / total);
}

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Binary logarithm and power of two in fixed point.
 *
 * The logarithm computes its fraction bit by bit: squaring a number between 1 and 2 doubles its logarithm,
 * and the integer part of the result is the next bit (C. S. Turner, A Fast Binary Logarithm Algorithm, 2010).
 */
#ifndef HEADWAY_FIXED_LOG2_H
#define HEADWAY_FIXED_LOG2_H

#include "numbers.h"

/* The width of a 64-bit word: no shift needs more steps. Bounds loops for the BPF verifier. */
#define HW_WORD 64

/* lg(x) of x > 0, both with `p` bits of fraction, 1 <= p <= 30; rounded down. x must be below 2^63. */
HW_FUNCTION hw_s64 hw_log2(hw_u64 x, hw_u32 p)
{
	const hw_u64 one = 1ULL << p;
	hw_s64 y = 0;
	hw_u64 bit = one >> 1;
	hw_u32 i;

	for (i = 0; i < HW_WORD && x < one; i++) {
		x <<= 1;
		y -= (hw_s64)one;
	}
	for (i = 0; i < HW_WORD && x >= 2 * one; i++) {
		x >>= 1;
		y += (hw_s64)one;
	}
	for (i = 0; i < p && i < HW_WORD; i++) {
		x = (x * x) >> p;
		if (x >= 2 * one) {
			x >>= 1;
			y += (hw_s64)bit;
		}
		bit >>= 1;
	}
	return y;
}

/* 2^-x for x >= 0, both with 16 bits of fraction; within 0.3 %. */
HW_INLINE hw_u32 hw_exp2_negative(hw_u32 x)
{
	hw_u32 whole = x >> 16;
	hw_u32 fraction = x & 0xffff;

	/* Between powers of two the curve lies below a straight line; 0.17 f (1 - f) is the
	 * parabola that fits best. */
	hw_u64 sag = ((hw_u64)fraction * (65536 - fraction) >> 16) * 11141 >> 16;

	if (whole >= 17)
		return 0;
	return (hw_u32)((65536 - fraction / 2 - sag) >> whole);
}

#endif

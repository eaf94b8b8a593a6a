/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Products of 128 bits and their quotients, also for machines without such integers: BPF has none.
 */
#ifndef HEADWAY_WIDE_H
#define HEADWAY_WIDE_H

#include "numbers.h"

#if !defined(HW_PORTABLE) && (!defined(__SIZEOF_INT128__) || defined(__bpf__))
#define HW_PORTABLE
#endif

struct hw_wide {
	hw_u64 high;
	hw_u64 low;
};

HW_INLINE struct hw_wide hw_multiply(hw_u64 a, hw_u64 b)
{
#ifndef HW_PORTABLE
	__extension__ const unsigned __int128 product = (unsigned __int128)a * b;

	return (struct hw_wide){ .high = product >> 64, .low = product };
#else
	const hw_u64 low = (a & 0xffffffff) * (b & 0xffffffff);
	const hw_u64 left = (a >> 32) * (b & 0xffffffff);
	const hw_u64 right = (a & 0xffffffff) * (b >> 32);
	/* Three numbers of 32 bits each. */
	const hw_u64 middle = (low >> 32) + (left & 0xffffffff) + (right & 0xffffffff);

	return (struct hw_wide){
		.high = (a >> 32) * (b >> 32) + (left >> 32) + (right >> 32) + (middle >> 32),
		.low = middle << 32 | (low & 0xffffffff),
	};
#endif
}

HW_INLINE struct hw_wide hw_add_wide(struct hw_wide wide, hw_u64 summand)
{
	wide.low += summand;
	wide.high += wide.low < summand;
	return wide;
}

/* a b / 2^shift rounded to the nearest integer, halves up, 1 <= shift <= 63; the largest number
 * if that is larger. */
HW_INLINE hw_u64 hw_product(hw_u64 a, hw_u64 b, hw_u32 shift)
{
	const struct hw_wide wide = hw_add_wide(hw_multiply(a, b), 1ULL << (shift - 1));

	if (wide.high >> shift)
		return ~0ULL;
	return wide.high << (64 - shift) | wide.low >> shift;
}

/*
 * One digit of 32 bits of the quotient of `*rest`, shifted by a digit and with the digit `next`, and a
 * `divisor` whose highest bit is set; the remainder becomes `*rest`, which must be below `divisor` (Knuth,
 * The Art of Computer Programming, 4.3.1, algorithm D).
 */
HW_INLINE hw_u64 hw_digit(hw_u64 *rest, hw_u64 next, hw_u64 divisor)
{
	const hw_u64 high = divisor >> 32;
	const hw_u64 low = divisor & 0xffffffff;
	hw_u64 digit = *rest / high;
	hw_u64 remainder = *rest % high;
	hw_u32 k;

	/* The digit of the two leading ones is at most two too large. */
	for (k = 0; k < 2; k++) {
		if (remainder >> 32 || (digit <= 0xffffffff && digit * low <= (remainder << 32 | next)))
			break;
		digit--;
		remainder += high;
	}
	*rest = (*rest << 32 | next) - digit * divisor;
	return digit;
}

/* Zeros before the highest bit of a number that is not 0. Not all compilers of BPF have an
 * instruction for that. */
HW_INLINE hw_u32 hw_leading_zeros(hw_u64 number)
{
#ifndef HW_PORTABLE
	return __builtin_clzll(number | 1);
#else
	hw_u32 zeros = 0;
	hw_u32 step;

	for (step = 32; step; step /= 2) {
		if (!(number >> (64 - step))) {
			number <<= step;
			zeros += step;
		}
	}
	return zeros;
#endif
}

/* The quotient rounded down, or the largest number if that or infinity is larger. */
HW_INLINE hw_u64 hw_divide(struct hw_wide wide, hw_u64 divisor)
{
	hw_u32 shift;
	hw_u64 rest, high;

	if (wide.high >= divisor)
		return ~0ULL;
	if (!wide.high)
		return wide.low / divisor;
	shift = hw_leading_zeros(divisor);
	if (shift) {
		divisor <<= shift;
		wide.high = wide.high << shift | wide.low >> (64 - shift);
		wide.low <<= shift;
	}
	rest = wide.high;
	high = hw_digit(&rest, wide.low >> 32, divisor);
	return high << 32 | hw_digit(&rest, wide.low & 0xffffffff, divisor);
}

/* a b / divisor rounded to the nearest integer, halves up, or the largest number if that or
 * infinity is larger. */
HW_FUNCTION hw_u64 hw_scale(hw_u64 a, hw_u64 b, hw_u64 divisor)
{
	return hw_divide(hw_add_wide(hw_multiply(a, b), divisor / 2), divisor);
}

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exports what wide.h does in BPF, so that tests can compare it with what it does elsewhere. */
#define HW_PORTABLE
#include "wide.h"

hw_u64 headway_portable_scale(hw_u64 a, hw_u64 b, hw_u64 divisor);
hw_u64 headway_portable_product(hw_u64 a, hw_u64 b, hw_u32 shift);

hw_u64 headway_portable_scale(hw_u64 a, hw_u64 b, hw_u64 divisor)
{
	return hw_scale(a, b, divisor);
}

hw_u64 headway_portable_product(hw_u64 a, hw_u64 b, hw_u32 shift)
{
	return hw_product(a, b, shift);
}

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Types and helpers for integer arithmetic that compiles as BPF, in a kernel module and in user space.
 *
 * No headers are needed. BPF has neither floating point nor signed 64-bit division, and its loops
 * need constant bounds.
 */
#ifndef HEADWAY_NUMBERS_H
#define HEADWAY_NUMBERS_H

typedef unsigned char hw_u8;
typedef unsigned short hw_u16;
typedef unsigned int hw_u32;
typedef int hw_s32;
typedef unsigned long long hw_u64;
typedef long long hw_s64;

/* A function of a header; where exports.c compiles it, it is a symbol as well. */
#ifdef HW_EXPORTS
#define HW_INLINE extern inline __attribute__((always_inline))
#else
#define HW_INLINE static inline __attribute__((always_inline, unused))
#endif

/* A function with loops. As BPF it is not inlined, so it is verified once, for any arguments, and
 * not at every call. */
#ifdef __bpf__
#define HW_FUNCTION __attribute__((noinline, used))
#else
#define HW_FUNCTION HW_INLINE
#endif

/* An argument that is never null; only the BPF verifier needs this. HW_GIVEN says it to those before Linux 6.8,
 * which do not read HW_NONNULL. */
#ifdef __bpf__
#define HW_NONNULL __attribute__((btf_decl_tag("arg:nonnull")))
#define HW_GIVEN(pointer) \
	if (!(pointer))   \
	return 0
#else
#define HW_NONNULL
#define HW_GIVEN(pointer)
#endif

/*
 * Hides the value of a variable from the compiler of BPF. Otherwise it walks through an array with a pointer
 * and checks the index beside it, and the verifier cannot relate the two.
 */
#ifdef __bpf__
#define HW_OPAQUE(variable) asm volatile("" : "+r"(variable))
#else
#define HW_OPAQUE(variable) ((void)0)
#endif

/* Fraction bits of a window in bytes: its smallest step is 2^-9 B (ls-aimd 2.1). */
#define HW_Q9 9

HW_INLINE hw_u64 hw_min(hw_u64 a, hw_u64 b)
{
	return a < b ? a : b;
}

HW_INLINE hw_u64 hw_max(hw_u64 a, hw_u64 b)
{
	return a > b ? a : b;
}

/* Returns sum / count rounded to the nearest integer, halves up; `count` is at least 1. Division of 32 bits
 * is several times faster. */
HW_INLINE hw_u64 hw_rounded_quotient(hw_u64 sum, hw_u32 count)
{
	hw_u64 raised = sum + count / 2;

	if (raised >> 32)
		return raised / count;
	return (hw_u32)raised / count;
}

/* Whether sequence number `a` comes before `b`; both wrap. */
HW_INLINE int hw_before(hw_u32 a, hw_u32 b)
{
	return (hw_s32)(a - b) < 0;
}

#endif

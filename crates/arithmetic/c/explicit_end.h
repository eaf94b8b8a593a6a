/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The ends of a connection whose routers tell its sender how fast to send: what a sender writes into the congestion
 * header, and what becomes of its window (xcp-rcp 2.1 to 2.3, 2.12).
 *
 * Sizes are in bytes on the wire, as routers count them; times in ns, those of the header in s with 28 fraction bits;
 * rates in b/s, those of the header in B/s.
 */
#ifndef HEADWAY_EXPLICIT_END_H
#define HEADWAY_EXPLICIT_END_H

#include "explicit_state.h"
#include "wide.h"

#define EXPLICIT_NS_PER_S 1000000000ULL
/* Fraction bits of RTT and X in the header. */
#define EXPLICIT_HEADER_BITS 28
/* Fraction bits of a window in bytes (2.15). */
#define EXPLICIT_WINDOW_BITS 8
/* Largest window in bytes: the most that TCP can advertise (RFC 7323). */
#define EXPLICIT_LARGEST_WINDOW (65535ULL << 14)
/* Fraction bits of what rounding takes from requests. */
#define EXPLICIT_REQUEST_BITS 16
/* Bits of a difference of rates in b/s that requests are computed for; of larger ones the lowest bits are left out. */
#define EXPLICIT_CHANGE_BITS 46
/* Largest segment in bytes that requests are computed for. */
#define EXPLICIT_LARGEST_SEGMENT (1ULL << 16)
/* Largest change of throughput that the header can carry, in B/s; the least is its negative. */
#define EXPLICIT_LARGEST_DELTA 0x7fffffffLL

/* The window of a sender: one segment at least, EXPLICIT_LARGEST_WINDOW at most. */
struct explicit_window {
	/* In bytes, with EXPLICIT_WINDOW_BITS. */
	hw_u64 bytes;
	/* What feedback added beyond these, in units of 1e-9 of the last bit. */
	hw_u64 rest;
	/* A full segment in bytes. */
	hw_u64 segment;
};

/* What rounding took from the requests of a sender of XCP, in B/s with EXPLICIT_REQUEST_BITS. */
struct explicit_request {
	hw_s64 remainder;
};

/* Converts a time that is known for the header: at least 1, because 0 means that it is not. */
HW_INLINE hw_u32 explicit_header_time(hw_u64 ns)
{
	return hw_max(hw_min(hw_scale(ns, 1ULL << EXPLICIT_HEADER_BITS, EXPLICIT_NS_PER_S), ~0U), 1);
}

/* Throughput of a window of `bytes` per `srtt`, in b/s, rounded down. */
HW_INLINE hw_u64 explicit_throughput(hw_u64 bytes, hw_u64 srtt)
{
	return hw_divide(hw_multiply(bytes * 8, EXPLICIT_NS_PER_S), srtt);
}

/* Time between packets of `bytes` at a rate in b/s, X; 0 at rate 0. */
HW_INLINE hw_u64 explicit_spacing(hw_u64 bytes, hw_u64 rate)
{
	return rate ? hw_scale(bytes * 8, EXPLICIT_NS_PER_S, rate) : 0;
}

/* How many bits a number has beyond `bits`. */
HW_INLINE hw_u32 explicit_excess(hw_u64 number, hw_u32 bits)
{
	const hw_u32 length = 64 - hw_leading_zeros(number);

	return length > bits ? length - bits : 0;
}

/*
 * The change of throughput in B/s that the next packet asks for: its share of the change from `rate` to `desired`, in
 * b/s, of which all segments of one `srtt` ask for the whole (2.1). `srtt` is not 0.
 */
HW_FUNCTION hw_s64 explicit_request(struct explicit_request *request HW_NONNULL, hw_u64 rate, hw_u64 desired, hw_u64 srtt,
				    hw_u32 segment)
{
	const hw_u64 change = desired > rate ? desired - rate : rate - desired;
	const struct hw_wide bits = hw_multiply(rate, srtt);
	/* Beyond 2^46 b/s, and beyond 2^64 in the divisor, the lowest bits of both do not matter. */
	const hw_u32 shift = hw_max(explicit_excess(change, EXPLICIT_CHANGE_BITS), bits.high ? explicit_excess(bits.high, 0) : 0);
	const hw_u64 divisor = shift ? bits.high << (64 - shift) | bits.low >> shift : bits.low;
	const struct hw_wide numerator = hw_multiply((change >> shift) * hw_min(segment, EXPLICIT_LARGEST_SEGMENT),
						     EXPLICIT_NS_PER_S << EXPLICIT_REQUEST_BITS);
	/* Far above what the header can carry, far below what a sum could overflow. */
	const hw_s64 part = hw_min(hw_divide(numerator, hw_max(divisor, 1)), 1ULL << 62);
	const hw_s64 share = (desired > rate ? part : -part) + request->remainder;
	const hw_s64 whole = (share + (1LL << (EXPLICIT_REQUEST_BITS - 1))) >> EXPLICIT_REQUEST_BITS;

	request->remainder = 0;
	if (whole > EXPLICIT_LARGEST_DELTA)
		return EXPLICIT_LARGEST_DELTA;
	if (whole < -EXPLICIT_LARGEST_DELTA)
		return -EXPLICIT_LARGEST_DELTA;
	request->remainder = share - whole * (1LL << EXPLICIT_REQUEST_BITS);
	return whole;
}

/* Sets the window in bytes with EXPLICIT_WINDOW_BITS, within its limits, and forgets the rest. */
HW_INLINE void explicit_window_set(struct explicit_window *window, hw_u64 bytes)
{
	const hw_u64 least = hw_min(window->segment, EXPLICIT_LARGEST_WINDOW) << EXPLICIT_WINDOW_BITS;

	window->bytes = hw_min(hw_max(bytes, least), EXPLICIT_LARGEST_WINDOW << EXPLICIT_WINDOW_BITS);
	window->rest = 0;
}

/*
 * Applies XCP's feedback in B/s: the window changes by feedback x RTT (2.2). Without an RTT (0) it stays. Returns whether
 * it changed: functions of BPF that are not inlined return a number.
 */
HW_FUNCTION hw_u32 explicit_window_change(struct explicit_window *window HW_NONNULL, hw_s64 feedback, hw_u64 srtt)
{
	const hw_u64 size = feedback < 0 ? -feedback : feedback;
	struct hw_wide change = hw_multiply(hw_min(size, ~0U) << EXPLICIT_WINDOW_BITS, srtt);
	hw_u64 steps, rest, bytes;

	if (!srtt || !feedback)
		return 0;
	if (feedback < 0) {
		/* Rounded up, because the rest is never negative: size = steps - rest. */
		change = hw_add_wide(change, EXPLICIT_NS_PER_S - 1 - window->rest);
		steps = hw_divide(change, EXPLICIT_NS_PER_S);
		rest = EXPLICIT_NS_PER_S - 1 - (change.low - steps * EXPLICIT_NS_PER_S);
		bytes = window->bytes > steps ? window->bytes - steps : 0;
	} else {
		change = hw_add_wide(change, window->rest);
		steps = hw_divide(change, EXPLICIT_NS_PER_S);
		rest = change.low - steps * EXPLICIT_NS_PER_S;
		bytes = steps > ~window->bytes ? ~0ULL : window->bytes + steps;
	}
	explicit_window_set(window, bytes);
	if (window->bytes == bytes)
		window->rest = rest;
	return 1;
}

/*
 * Applies RCP's feedback in B/s: the window becomes rate x RTT (2.12). Without an RTT or a rate (0) it stays; at
 * EXPLICIT_ANY_RATE no router of RCP was on the path, and it is as large as can be (2.16).
 */
HW_INLINE void explicit_window_rate(struct explicit_window *window, hw_u32 rate, hw_u64 srtt)
{
	if (!srtt || !rate)
		return;
	explicit_window_set(window, rate == EXPLICIT_ANY_RATE ?
					    ~0ULL :
					    hw_scale((hw_u64)rate << EXPLICIT_WINDOW_BITS, srtt, EXPLICIT_NS_PER_S));
}

/* The window in whole segments, rounded up. Who sends in whole segments is slowed down to the fraction by its pace. */
HW_INLINE hw_u64 explicit_window_segments(const struct explicit_window *window)
{
	const hw_u64 segment = window->segment << EXPLICIT_WINDOW_BITS;

	return (window->bytes + segment - 1) / segment;
}

/*
 * The rate of a sender in b/s; 0 while it is not known. That of RCP is what routers say, in B/s, also where it is less than
 * a segment per round trip; a sender of XCP has at least one.
 */
HW_INLINE hw_u64 explicit_sender_rate(hw_u32 version, hw_u32 told, const struct explicit_window *window, hw_u64 srtt)
{
	if (version == EXPLICIT_VERSION_RCP && told)
		return (hw_u64)told * 8;
	return srtt ? explicit_throughput(window->bytes >> EXPLICIT_WINDOW_BITS, srtt) : 0;
}

/* A rate in b/s as a pace in bytes of payload per second, of which a full segment has `payload`; 1 at least. */
HW_INLINE hw_u64 explicit_pace(const struct explicit_window *window, hw_u64 rate, hw_u32 payload)
{
	return hw_max(hw_scale(rate, payload, window->segment * 8), 1);
}

/* A sum of changes as the header carries it. */
HW_INLINE hw_s64 explicit_delta(hw_s64 sum)
{
	if (sum > EXPLICIT_LARGEST_DELTA)
		return EXPLICIT_LARGEST_DELTA;
	return sum < -EXPLICIT_LARGEST_DELTA ? -EXPLICIT_LARGEST_DELTA : sum;
}

#endif

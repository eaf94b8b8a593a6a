/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The ends of a connection whose routers tell its sender how fast to send: what a sender writes into the
 * congestion header, and what becomes of its window (xcp-rcp 2.1 to 2.3, 2.12).
 *
 * Sizes are in bytes on the wire, as routers count them; times in ns, those of the header in s with 28
 * fraction bits; rates in b/s, those of the header in B/s.
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
/* Bits of a difference of rates in b/s that requests are computed for; of larger ones the lowest
 * bits are left out. */
#define EXPLICIT_CHANGE_BITS 46
/* Largest segment in bytes that requests are computed for. */
#define EXPLICIT_LARGEST_SEGMENT (1ULL << 16)
/* Largest change of throughput that the header can carry, in B/s; the least is its negative. */
#define EXPLICIT_LARGEST_DELTA 0x7fffffffLL
/* Linux does not pace this many segments at the beginning of a connection. */
#define EXPLICIT_UNPACED 10
/* Least window in whole segments: with one, receivers that wait for a second would set the pace. */
#define EXPLICIT_LEAST_WHOLE 2
/*
 * The most segments after an idle period. RCP hears the rate of now with its first ACK, as at the beginning;
 * XCP would need seconds to be as fast again.
 */
#define EXPLICIT_RESTART_RCP 1
#define EXPLICIT_RESTART_XCP 10
/*
 * Window of a sender of RCP that its rate paces, as a multiple of rate x RTT. It limits nothing unless the
 * RTT grows by this much within one. But a sender whose packets are all lost stops, and a send buffer that
 * TCP derives from it does not hold seconds of data.
 */
#define EXPLICIT_PACED_WINDOW 4
/* Weight of an RTT sample: 2^-3 (RFC 6298). */
#define EXPLICIT_RTT_SHIFT 3
/* Shortest delayed-ACK timer of a receiver, in ns. */
#define EXPLICIT_DELAYED_ACK 40000000ULL

/* The window of a sender: one segment at least, EXPLICIT_LARGEST_WINDOW at most. */
struct explicit_window {
	/* In bytes, with EXPLICIT_WINDOW_BITS. */
	hw_u64 bytes;
	/* What feedback added beyond these, in units of 1e-9 of the last bit. */
	hw_u64 rest;
	/* A full segment in bytes. */
	hw_u64 segment;
	/* What rounding took from the last window in whole segments, less than a segment, in
	 * units of `bytes`. */
	hw_u64 carry;
};

/* The RTT of a sender in ns: smoothed, and the latest sample; 0 before the first. */
struct explicit_rtt {
	hw_u64 smoothed;
	hw_u64 latest;
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
 * The share of a packet in the change from `rate` to `desired`, in b/s, of which all segments of one `srtt`
 * ask for the whole (2.1); in B/s with EXPLICIT_REQUEST_BITS. `srtt` is not 0.
 */
HW_FUNCTION hw_s64 explicit_share(hw_u64 rate, hw_u64 desired, hw_u64 srtt, hw_u32 segment)
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

	return desired > rate ? part : -part;
}

/* The change of throughput in B/s that the next packet asks for, whose share is `part`. */
HW_INLINE hw_s64 explicit_request(struct explicit_request *request, hw_s64 part)
{
	const hw_s64 share = part + request->remainder;
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
 * Applies XCP's feedback in B/s: the window changes by feedback x RTT (2.2). Without an RTT (0) it stays.
 * Returns whether it changed: functions of BPF that are not inlined return a number.
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
 * Applies RCP's feedback in B/s: the window becomes rate x RTT (2.12). Without an RTT or a rate (0) it stays;
 * at EXPLICIT_ANY_RATE no router of RCP was on the path, and it is as large as can be (2.16).
 */
HW_INLINE void explicit_window_rate(struct explicit_window *window, hw_u32 rate, hw_u64 srtt)
{
	if (!srtt || !rate)
		return;
	explicit_window_set(window, rate == EXPLICIT_ANY_RATE ?
					    ~0ULL :
					    hw_scale((hw_u64)rate << EXPLICIT_WINDOW_BITS, srtt, EXPLICIT_NS_PER_S));
}

/* Reduces the window after an idle period, when the state of the path is unknown (RFC 5681 4.1);
 * returns whether it did. */
HW_INLINE hw_u32 explicit_window_restart(struct explicit_window *window, hw_u32 version)
{
	const hw_u64 segments = version == EXPLICIT_VERSION_RCP ? EXPLICIT_RESTART_RCP : EXPLICIT_RESTART_XCP;
	const hw_u64 most = (window->segment * segments) << EXPLICIT_WINDOW_BITS;

	if (window->bytes <= most)
		return 0;
	explicit_window_set(window, most);
	return 1;
}

/* Whether ACKs clock the segments of a sender in whole segments, not its pacing rate. */
HW_INLINE hw_u32 explicit_is_clocked(const struct explicit_window *window, hw_u32 version)
{
	return version == EXPLICIT_VERSION_XCP &&
	       window->bytes >= EXPLICIT_LEAST_WHOLE * (window->segment << EXPLICIT_WINDOW_BITS);
}

/*
 * The window in whole segments, for the next ACK, of a sender that has sent `sent` segments. That of XCP is
 * rounded down, and what is lost is added at the next ACK, so that it is right on average, and ACKs clock the
 * segments. Windows below two segments, and those of RCP, are rounded up, and the pacing rate carries the
 * fraction. As long as Linux does not pace, it is never more than the window in bytes, or one.
 */
HW_INLINE hw_u64 explicit_window_whole(struct explicit_window *window, hw_u32 version, hw_u32 sent)
{
	const hw_u64 segment = window->segment << EXPLICIT_WINDOW_BITS;
	/* A receiver of RCP may hold one segment back while it waits for another, and must
	 * not set the pace. */
	const hw_u64 held_back = version == EXPLICIT_VERSION_RCP;
	const hw_u64 bytes = window->bytes + window->carry;

	window->carry = 0;
	if (sent < EXPLICIT_UNPACED)
		return hw_max(window->bytes / segment, 1);
	if (!explicit_is_clocked(window, version))
		return hw_max((window->bytes + segment - 1) / segment + held_back, EXPLICIT_LEAST_WHOLE);
	window->carry = bytes % segment;
	return bytes / segment;
}

/*
 * The rate of a sender in b/s; 0 while it is not known. That of RCP is what routers say, in B/s, also where
 * it is less than a segment per round trip; a sender of XCP has at least one.
 */
HW_INLINE hw_u64 explicit_sender_rate(hw_u32 version, hw_u32 told, const struct explicit_window *window, hw_u64 srtt)
{
	if (version == EXPLICIT_VERSION_RCP && told)
		return (hw_u64)told * 8;
	return srtt ? explicit_throughput(window->bytes >> EXPLICIT_WINDOW_BITS, srtt) : 0;
}

/*
 * The pacing rate of a sender in whole segments, in b/s; 0 while it is not known. One of XCP is faster as
 * soon as the RTT becomes shorter, before the smoothed one does: otherwise queues would oscillate. Where ACKs
 * clock its segments, pacing only separates them and must not be the limit, so it has room for the one
 * segment that may be carried over. With more, such as a quarter of the window, bursts stay together, and
 * queues at 1 Gb/s are up to half as long again.
 */
HW_INLINE hw_u64 explicit_pacing_rate(hw_u32 version, hw_u32 told, const struct explicit_window *window,
				      const struct explicit_rtt *rtt)
{
	hw_u64 bytes = window->bytes >> EXPLICIT_WINDOW_BITS;

	if (version == EXPLICIT_VERSION_RCP || !rtt->smoothed)
		return explicit_sender_rate(version, told, window, rtt->smoothed);
	if (explicit_is_clocked(window, version))
		bytes += window->segment;
	return explicit_throughput(bytes, hw_min(rtt->latest, rtt->smoothed));
}

/* A rate in b/s as a pace in bytes of payload per second, of which a full segment has
 * `payload`; 1 at least. */
HW_INLINE hw_u64 explicit_pace(const struct explicit_window *window, hw_u64 rate, hw_u32 payload)
{
	return hw_max(hw_scale(rate, payload, window->segment * 8), 1);
}

/* Smooths the RTT with a sample in ns, which is not 0. */
HW_INLINE void explicit_rtt_sample(struct explicit_rtt *rtt, hw_u64 sample)
{
	const hw_u64 smoothed = rtt->smoothed;

	rtt->latest = sample;
	rtt->smoothed = smoothed ? smoothed - (smoothed >> EXPLICIT_RTT_SHIFT) + (sample >> EXPLICIT_RTT_SHIFT) : sample;
}

/*
 * Whether a segment that was acknowledged alone may have waited for another that its sender had not sent yet:
 * with `gap` between them, after an RTT of `sample` where `least` was the shortest, in ns.
 */
HW_INLINE hw_u32 explicit_has_waited(hw_u64 gap, hw_u64 sample, hw_u64 least)
{
	return gap >= EXPLICIT_DELAYED_ACK && sample >= least + EXPLICIT_DELAYED_ACK;
}

/* A sum of changes as the header carries it. */
HW_INLINE hw_s64 explicit_delta(hw_s64 sum)
{
	if (sum > EXPLICIT_LARGEST_DELTA)
		return EXPLICIT_LARGEST_DELTA;
	return sum < -EXPLICIT_LARGEST_DELTA ? -EXPLICIT_LARGEST_DELTA : sum;
}

#endif

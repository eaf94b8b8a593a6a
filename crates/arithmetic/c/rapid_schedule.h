/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The send gaps of a p-stream (rapid 2.2), and when its packets really leave a link that is
 * slower than its top rates.
 *
 * With the ratio q = 1 / s between the gaps of neighbouring rates, N = N_r N_p packets of P bytes and the
 * average rate R, the whole stream takes T = N P / R, of which rate k takes
 *
 *     T q^k / (1 + q + ... + q^(N_r - 1)).
 *
 * T is rounded once, and the ends of the rates are rounded in absolute time, so the gaps sum to T exactly.
 * Gaps of the same rate differ by at most 1 ns.
 */
#ifndef HEADWAY_RAPID_SCHEDULE_H
#define HEADWAY_RAPID_SCHEDULE_H

#include "rapid_gaps.h"

/* Rates in a p-stream, at most: the most that were tried (1.6). */
#define RAPID_MAX_RATES 8
/* Fraction bits of the ratio q, and of the weights q^k. */
#define RAPID_RATIO_BITS 16
#define RAPID_RATIO_ONE (1U << RAPID_RATIO_BITS)
/* 1 / 1.15 as published, 223 / 256 (2.20): four rates over a range of 51 %. */
#define RAPID_RATIO (223U << (RAPID_RATIO_BITS - 8))
/* Smallest ratio, that is s = 2: even the eighth weight has nine bits then. */
#define RAPID_MIN_RATIO (RAPID_RATIO_ONE / 2)
/* Bits per byte times ns per second: P bytes per g ns are P RAPID_BIT_NS / g bit/s. */
#define RAPID_BIT_NS 8000000000ULL
/* Largest rate, in bit/s: 550 Gb/s. */
#define RAPID_MAX_RATE (1ULL << 39)
/* Smallest rate, in bit/s: the published initial rate (2.12, 2.14). The longest stream then takes 1007 s. */
#define RAPID_MIN_RATE 100000ULL
/* Largest packet on the wire, in bytes: the largest IP packet and 38 bytes of Ethernet. */
#define RAPID_MAX_PACKET (65535U + 38U)

/* The layout of probing rates in a p-stream. */
struct rapid_shape {
	/* Number of rates N_r, 1 to RAPID_MAX_RATES. */
	hw_u32 rates;
	/* Packets at each rate N_p, at least 1; N_r N_p is at most RAPID_MAX_PACKETS. */
	hw_u32 packets;
	/* Ratio of the gap of a rate to that of the rate below, in units of 2^-16: RAPID_MIN_RATIO to
	 * RAPID_RATIO_ONE. */
	hw_u32 ratio;
};

/* A p-stream to be sent. */
struct rapid_stream {
	/* The average rate, in bit/s. */
	hw_u64 rate;
	/* The gap at each rate, lowest rate first, in ns. */
	hw_u64 gap[RAPID_MAX_RATES];
	/* How many gaps at each rate are 1 ns longer. */
	hw_u32 longer[RAPID_MAX_RATES];
	/* Number of the stream in its connection; wraps. */
	hw_u32 id;
	struct rapid_shape shape;
};

/* Number of packets in a stream. */
HW_INLINE hw_u32 rapid_packets(const struct rapid_shape *shape)
{
	return shape->rates * shape->packets;
}

/* Time that `bytes`, below 2^31, take at `rate`, at least 1 bit/s, in ns, rounded to the nearest. */
HW_INLINE hw_u64 rapid_time(hw_u64 bytes, hw_u64 rate)
{
	return (bytes * RAPID_BIT_NS + rate / 2) / rate;
}

/* The weight of the next rate, both with RAPID_RATIO_BITS. */
HW_INLINE hw_u64 rapid_next_weight(hw_u64 weight, hw_u32 ratio)
{
	return (weight * ratio) >> RAPID_RATIO_BITS;
}

/*
 * Computes the gaps of a p-stream of packets of `packet` bytes with the average `rate`, RAPID_MIN_RATE to
 * RAPID_MAX_RATE. The rates may exceed the line rate; see rapid_depart.
 */
HW_INLINE void rapid_schedule(struct rapid_stream *stream, const struct rapid_shape *shape, hw_u32 packet, hw_u64 rate)
{
	/* 192 packets of 65573 B at 100 kb/s: 40 bits. */
	const hw_u64 time = rapid_time((hw_u64)rapid_packets(shape) * packet, rate);
	hw_u64 weight = RAPID_RATIO_ONE, total = 0, sum = 0, end = 0;
	hw_u32 k;

	*stream = (struct rapid_stream){ .rate = rate, .shape = *shape };
	for (k = 0; k < RAPID_MAX_RATES && k < shape->rates; k++) {
		total += weight;
		weight = rapid_next_weight(weight, shape->ratio);
	}
	weight = RAPID_RATIO_ONE;
	for (k = 0; k < RAPID_MAX_RATES && k < shape->rates; k++) {
		hw_u64 begin = end;

		sum += weight;
		weight = rapid_next_weight(weight, shape->ratio);
		/* 40 bits of time and 19 of weight. */
		end = time * sum / total;
		stream->gap[k] = (end - begin) / shape->packets;
		stream->longer[k] = (hw_u32)((end - begin) % shape->packets);
	}
}

/* The gap before packet `index` of a stream, in ns; the first one is to the last packet of
 * the previous stream. */
HW_INLINE hw_u64 rapid_gap(const struct rapid_stream *stream, hw_u32 index)
{
	hw_u32 k;

	/* The verifier loses the range of a quotient. */
	for (k = 0; k + 1 < RAPID_MAX_RATES && index >= stream->shape.packets; k++)
		index -= stream->shape.packets;
	return stream->gap[k] + (index < stream->longer[k]);
}

/*
 * Returns when a packet of `bytes` that is scheduled for `scheduled` leaves a link of `line` bit/s, in
 * ns; `free` is when the link has sent the packet before. Late packets leave back to back until they
 * have caught up with the schedule, which keeps the average rate of the stream. Estimates use these
 * times, not the schedule (2.2).
 */
HW_INLINE hw_u64 rapid_depart(hw_u64 *free, hw_u64 scheduled, hw_u32 bytes, hw_u64 line)
{
	hw_u64 start = hw_max(scheduled, *free);

	*free = start + rapid_time(bytes, line);
	return start;
}

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The rate from which on receive gaps exceed send gaps (rapid 2.11).
 *
 * A sample is congested if g_r > g_s + max(margin, relative g_s). A run of at least `min_length` congested
 * samples is an excursion. All samples up to the end of an excursion count with the rate of the sample before
 * it, and those after the last one with the last rate; the estimate is their mean, so an excursion that ended
 * lowers it in part only.
 */
#ifndef HEADWAY_EXCURSION_H
#define HEADWAY_EXCURSION_H

#include "rapid_gaps.h"
#include "rapid_schedule.h"

/* Fraction bits of the relative margin. */
#define EXCURSION_FRACTION_BITS 20

struct excursion_settings {
	/* The smallest excess that counts, in ns, and as a share of the send gap in units of 2^-20. */
	hw_u32 margin;
	hw_u32 relative;
	/* Consecutive samples in an excursion, at least 1. */
	hw_u32 min_length;
};

/* Where the available bandwidth lies. */
enum rapid_bound {
	/* The stream was congested from some rate on, or for some time. */
	RAPID_WITHIN,
	/* No excursion: at least the highest rate. */
	RAPID_AT_LEAST,
	/* One excursion from the first sample to the last: at most the lowest rate. */
	RAPID_AT_MOST,
};

struct rapid_estimate {
	/* In bit/s. */
	hw_u64 rate;
	/* One of enum rapid_bound. */
	hw_u32 bound;
};

/* What became of a stream. */
enum rapid_outcome {
	RAPID_ESTIMATED,
	/* Too few samples, before or after denoising. */
	RAPID_TOO_SHORT,
	/* Two packets left at the same time. */
	RAPID_SENDER_GAPS,
};

/* The progress of a search. */
struct excursion {
	/* Sum of the rates of the samples counted so far, in bit/s. */
	hw_u64 sum;
	/* The current sample, the first one not yet counted, and the current run of congested samples. */
	hw_u32 i;
	hw_u32 counted;
	hw_u32 run;
	/* One of enum rapid_bound. */
	hw_u32 bound;
	/* Whether a send gap was zero. */
	hw_u32 impossible;
	/* Bytes of a packet on the wire. */
	hw_u32 packet;
};

/* Counts the samples before `end` with the rate of sample `at`. 192 packets of 65573 B within
 * 1 ns sum to 2^57. */
HW_INLINE void excursion_count(struct excursion *search, const struct rapid_gaps *gaps, hw_u32 end, hw_u32 at)
{
	hw_u64 gap = at < RAPID_MAX_PACKETS ? gaps->send[at] : 0;

	if (!gap) {
		search->impossible = 1;
		return;
	}
	search->sum += search->packet * RAPID_BIT_NS / gap * (end - search->counted);
	search->counted = end;
}

/* Ends a run of congested samples before sample i; it is an excursion if it is long enough. */
HW_INLINE void excursion_end_run(struct excursion *search, const struct rapid_gaps *gaps, hw_u32 min_length)
{
	hw_u32 first = search->i - search->run;

	if (search->run >= hw_max(min_length, 1)) {
		search->bound = search->run == gaps->end - gaps->begin ? RAPID_AT_MOST : RAPID_WITHIN;
		excursion_count(search, gaps, search->i, first > gaps->begin ? first - 1 : first);
	}
	search->run = 0;
}

/* Handles sample i. */
HW_FUNCTION hw_u32 excursion_step(const struct rapid_gaps *gaps HW_NONNULL, struct excursion *search HW_NONNULL,
				  const struct excursion_settings *settings HW_NONNULL)
{
	HW_GIVEN(gaps && search && settings);
	hw_u64 gap, margin;

	if (search->i >= RAPID_MAX_PACKETS)
		return 0;
	gap = gaps->send[search->i];
	/* 40 bits of gap and at most 20 of margin. */
	margin = hw_max(settings->margin, (gap * settings->relative) >> EXCURSION_FRACTION_BITS);
	if (gaps->receive[search->i] > gap + margin)
		search->run++;
	else
		excursion_end_run(search, gaps, settings->min_length);
	search->i++;
	return 0;
}

/* Estimates the available bandwidth from the gaps of one stream of packets of `packet` bytes; returns one of
 * enum rapid_outcome. */
HW_FUNCTION hw_u32 excursion_search(struct rapid_gaps *gaps HW_NONNULL,
				    const struct excursion_settings *settings HW_NONNULL, hw_u32 packet,
				    struct rapid_estimate *estimate HW_NONNULL)
{
	HW_GIVEN(gaps && settings && estimate);
	const hw_u32 samples = rapid_gaps_bound(gaps);
	struct excursion search = {
		.i = gaps->begin,
		.counted = gaps->begin,
		.bound = RAPID_AT_LEAST,
		.packet = packet,
	};
	hw_u32 k;

	if (!samples || samples < 2 * hw_max(settings->min_length, 1))
		return RAPID_TOO_SHORT;
	for (k = 0; k < RAPID_MAX_PACKETS && k < samples; k++)
		excursion_step(gaps, &search, settings);
	excursion_end_run(&search, gaps, settings->min_length);
	if (search.counted < gaps->end)
		excursion_count(&search, gaps, gaps->end, gaps->end - 1);
	if (search.impossible)
		return RAPID_SENDER_GAPS;
	estimate->rate = search.sum / samples;
	estimate->bound = search.bound;
	return RAPID_ESTIMATED;
}

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Start-up (rapid 2.14): from a few packets per RTT to the available bandwidth. The thesis describes none.
 */
#ifndef HEADWAY_RAPID_START_H
#define HEADWAY_RAPID_START_H

#include "rapid_state.h"

/* The average rate of a stream of `packets` packets whose send gaps sum to `length` ns. */
HW_INLINE hw_u64 rapid_average(hw_u32 packets, const struct rapid_config *config, hw_u64 length)
{
	/* 8, 17 and 33 bits. */
	return hw_min((hw_u64)packets * config->packet * RAPID_BIT_NS / hw_max(length, 1), config->line);
}

/* The highest rate of a stream with this average, at most the line rate: the average times
 * (1 + q + .. + q^(N_r - 1)) / (N_r q^(N_r - 1)). */
HW_INLINE hw_u64 rapid_top_rate(const struct rapid_shape *shape, const struct rapid_config *config, hw_u64 average)
{
	hw_u64 weight = RAPID_RATIO_ONE, sum = 0, last = RAPID_RATIO_ONE;
	hw_u32 k;

	for (k = 0; k < RAPID_MAX_RATES && k < shape->rates; k++) {
		sum += weight;
		last = weight;
		weight = rapid_next_weight(weight, shape->ratio);
	}
	/* 40 bits and 19; the eighth weight with s = 2 is 2^9. */
	return hw_min(average * sum / (shape->rates * last), config->line);
}

/*
 * The rule for start-up (2.14): A replaces R_avg. Start-up goes on as long as streams show that more is free
 * than their own average; a lower estimate than R_avg is then only older. Excursions alone do not end it:
 * interrupts of the receiver make some by chance.
 */
HW_INLINE void rapid_start_up(struct rapid *rapid, const struct rapid_config *config,
			      const struct rapid_estimate *estimate, hw_u64 average)
{
	const hw_u64 ceiling = rapid_ceiling(config);

	if (estimate->rate > average + average / RAPID_START_RISE) {
		rapid_set_rate(rapid, config, hw_max(rapid->rate, hw_min(estimate->rate, ceiling)));
		if (rapid->rate >= ceiling)
			rapid_end_start_up(rapid);
		return;
	}
	rapid_set_rate(rapid, config, estimate->rate);
	rapid_end_start_up(rapid);
}

/*
 * Estimates from a stream of start-up with `packets` packets; returns one of enum rapid_outcome. Its rates
 * are so far apart that the time of each as a whole tells whether it is free, to within an interrupt of the
 * receiver, without smoothing, which would blend the rates. A is the highest rate below the first congested
 * one, or what arrived of that.
 */
HW_FUNCTION hw_u32 rapid_estimate_start(struct rapid_gaps *gaps HW_NONNULL, const struct rapid_config *config HW_NONNULL,
					hw_u32 packets, struct rapid_estimate *estimate HW_NONNULL)
{
	HW_GIVEN(gaps && config && estimate);
	const hw_u32 samples = rapid_gaps_bound(gaps);
	const hw_u32 each = packets / RAPID_START_RATES;
	hw_u64 sent = 0, received = 0;
	hw_u32 i, count = 0;

	if (!each || samples < each || samples > packets)
		return RAPID_TOO_SHORT;
	estimate->bound = RAPID_AT_MOST;
	for (i = 0; i < RAPID_MAX_PACKETS && i < samples; i++) {
		sent += gaps->send[i];
		received += gaps->receive[i];
		count++;
		/* The first packets of a connection have no gaps. */
		if ((packets - samples + i + 1) % each)
			continue;
		if (!sent || !received)
			return RAPID_SENDER_GAPS;
		if (8 * received > 9 * sent) {
			estimate->rate = hw_max(estimate->rate, count * config->packet * RAPID_BIT_NS / received);
			estimate->rate = hw_min(estimate->rate, config->line);
			return RAPID_ESTIMATED;
		}
		estimate->rate = hw_min(count * config->packet * RAPID_BIT_NS / sent, config->line);
		estimate->bound = i + 1 == samples ? RAPID_AT_LEAST : RAPID_WITHIN;
		sent = 0;
		received = 0;
		count = 0;
	}
	return RAPID_ESTIMATED;
}

#endif

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
 * The rule for start-up (2.14): R_avg becomes the mean of A over the streams in flight, which were all sent at the
 * R_avg before. Start-up goes on as long as that is a rise. Excursions alone do not end it: interrupts of the
 * receiver make some by chance. Nor does one round trip without a rise, because a burst of cross traffic may
 * have met it.
 */
HW_INLINE void rapid_start_up(struct rapid *rapid, const struct rapid_config *config,
			      const struct rapid_estimate *estimate, hw_u64 average)
{
	const hw_u64 ceiling = rapid_ceiling(config);
	/* A single answer must not stop the flow: the window of TCP after losses. */
	const hw_u64 least = rapid->rtt ? RAPID_MIN_WINDOW * config->packet * RAPID_BIT_NS / rapid->rtt : 0;

	if (hw_before(rapid->acks.stream, rapid->round)) {
		/* After a fall because of a queue, streams before it are ignored. */
		if (!rapid->count)
			return;
	} else {
		/* The first stream that was sent at the present R_avg. */
		if (rapid->rate >= ceiling) {
			rapid_end_start_up(rapid);
			return;
		}
		if (rapid->count && rapid->rate <= rapid->length + rapid->length / RAPID_START_RISE &&
		    rapid_start_fell(rapid))
			return;
		rapid_forget_estimates(rapid);
		rapid->length = average;
		rapid->round = rapid->stream;
	}
	rapid->estimates += estimate->rate;
	rapid->count++;
	rapid_set_rate(rapid, config, hw_min(hw_max(rapid->estimates / rapid->count, least), ceiling));
}

/* Mean gaps of a rate of a stream, in ns. */
struct rapid_pace {
	hw_u64 send;
	hw_u64 receive;
};

/*
 * What is free if `low` is congested, in bit/s. The receive gap is linear in the send gap, P / C + X / C g_s with
 * cross traffic X on a link C, so if a higher rate is there, too, a line through both tells where the gaps are
 * equal. It is at least `free`, and at most what arrived of `low`; without a higher rate it is half way.
 */
HW_INLINE hw_u64 rapid_start_between(hw_u64 free, const struct rapid_pace *low, const struct rapid_pace *high, hw_u64 bits)
{
	const hw_u64 most = bits / low->receive;
	hw_u64 slope = 0, cross;

	if (high->send >= low->send)
		return free ? (free + hw_max(most, free)) / 2 : most;
	if (low->receive > high->receive)
		slope = ((low->receive - high->receive) << RAPID_RATIO_BITS) / (low->send - high->send);
	/* 41 bits of ns, and 17. */
	slope = hw_min(slope, RAPID_RATIO_ONE - RAPID_RATIO_ONE / 16);
	cross = slope * low->send;
	if (cross >= low->receive << RAPID_RATIO_BITS)
		return most;
	return rapid_clamp(bits / (((low->receive << RAPID_RATIO_BITS) - cross) / (RAPID_RATIO_ONE - slope) + 1), free,
			   hw_max(most, free));
}

/* The mean gaps of samples `begin` to `end`, without those whose send gap is more than twice the first one's: an
 * interval across the end of a stream has a gap of the next one's lowest rate in it. Returns whether there are any. */
HW_FUNCTION hw_u32 rapid_start_pace(const struct rapid_gaps *gaps HW_NONNULL, hw_u32 begin, hw_u32 end,
				    struct rapid_pace *pace HW_NONNULL)
{
	HW_GIVEN(gaps && pace);
	const hw_u32 others = end - begin - 1;
	hw_u64 send, receive, most;
	hw_u32 i, count = 1;

	if (begin >= end || begin >= RAPID_MAX_PACKETS)
		return 0;
	send = gaps->send[begin];
	receive = gaps->receive[begin];
	most = 2 * send;
	for (i = 0; i < RAPID_MAX_PACKETS; i++) {
		/* With a comparison for each end, the verifier would read this for every pair of them. */
		if (i - begin - 1 >= others || gaps->send[i] > most)
			continue;
		send += gaps->send[i];
		receive += gaps->receive[i];
		count++;
	}
	pace->send = send / count;
	pace->receive = hw_min(receive / count, RAPID_MAX_GAP);
	return pace->send && pace->receive;
}

/*
 * Estimates from a stream of start-up with `packets` packets; returns one of enum rapid_outcome. Its rates
 * are so far apart that the time of each as a whole tells whether it is free, to within an interrupt of the
 * receiver, without smoothing, which would blend the rates. A is the highest rate below the first congested
 * one, or between both.
 */
HW_FUNCTION hw_u32 rapid_estimate_start(struct rapid_gaps *gaps HW_NONNULL, const struct rapid_config *config HW_NONNULL,
					hw_u32 packets, struct rapid_estimate *estimate HW_NONNULL)
{
	HW_GIVEN(gaps && config && estimate);
	const hw_u32 samples = rapid_gaps_bound(gaps);
	const hw_u32 each = packets / RAPID_START_RATES;
	const hw_u64 bits = config->packet * RAPID_BIT_NS;
	struct rapid_pace low = { 0 }, pace = { 0 };
	hw_u32 k;

	if (!each || samples < each || samples > packets)
		return RAPID_TOO_SHORT;
	estimate->bound = RAPID_AT_MOST;
	for (k = RAPID_START_RATES; k-- > 0;) {
		const hw_u32 end = samples - hw_min(k * each, samples);

		/* The first packets of a connection have no gaps. */
		if (!end)
			continue;
		if (!rapid_start_pace(gaps, end - hw_min(each, end), end, &pace))
			return RAPID_SENDER_GAPS;
		if (low.send)
			break;
		if (8 * pace.receive > 9 * pace.send) {
			low = pace;
		} else {
			estimate->rate = bits / pace.send;
			estimate->bound = k ? RAPID_WITHIN : RAPID_AT_LEAST;
		}
	}
	if (low.send)
		estimate->rate = rapid_start_between(estimate->rate, &low, &pace, bits);
	estimate->rate = hw_min(estimate->rate, config->line);
	return RAPID_ESTIMATED;
}

#endif

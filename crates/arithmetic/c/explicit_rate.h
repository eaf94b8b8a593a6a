/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The rate R of RCP, with and without a capacity, and measures against surges of flows (xcp-rcp 2.12, 2.13,
 * F55, F56). Units as in explicit.h.
 */
#ifndef HEADWAY_EXPLICIT_RATE_H
#define HEADWAY_EXPLICIT_RATE_H

#include "explicit_feedback.h"
#include "fixed_log2.h"

/* Rows of the table of surge measures. */
#define EXPLICIT_ROWS 9
/* Intervals of slow growth after which beta falls again (2.13). */
#define EXPLICIT_CALM 10

/* The stability limit of a beta: the largest growth L of flows in d0 that a bounded queue absorbs (2.13). */
struct explicit_limit {
	/* In units of 2^-16. */
	hw_u32 beta;
	/* lg(1 + L), and the same for L / 1.25 and L / 2; with the fraction. */
	hw_u16 whole;
	hw_u16 safe;
	hw_u16 half;
};

/* From 0.1 to 0.6, with the limits. */
static const struct explicit_limit explicit_limits[EXPLICIT_ROWS] __attribute__((unused)) = {
	{ .beta = 6554, .whole = 2425, .safe = 1945, .half = 1220 }, /* 0.1: 0.0260 */
	{ .beta = 9830, .whole = 3687, .safe = 2961, .half = 1861 }, /* 0.15: 0.0398 */
	{ .beta = 13107, .whole = 4985, .safe = 4008, .half = 2525 }, /* 0.2: 0.0541 */
	{ .beta = 14811, .whole = 5674, .safe = 4566, .half = 2880 }, /* 0.226: 0.0619 */
	{ .beta = 19661, .whole = 7697, .safe = 6207, .half = 3927 }, /* 0.3: 0.0848 */
	{ .beta = 22938, .whole = 9118, .safe = 7364, .half = 4669 }, /* 0.35: 0.1012 */
	{ .beta = 26214, .whole = 10588, .safe = 8563, .half = 5442 }, /* 0.4: 0.1185 */
	{ .beta = 32768, .whole = 13687, .safe = 11104, .half = 7091 }, /* 0.5: 0.1558 */
	{ .beta = 39322, .whole = 17039, .safe = 13868, .half = 8903 }, /* 0.6: 0.1975 */
};

/* Updates the growth of the number of flows, C / R, in d0: its logarithm, which weighs the
 * newest value by 1/4. */
HW_INLINE void explicit_update_growth(struct explicit_queue *queue, hw_u64 previous)
{
	/* From 2^-40 to 2^40. */
	const hw_u64 ratio = hw_scale(previous, EXPLICIT_ONE, queue->rate);
	const hw_s64 growth = hw_log2(hw_min(hw_max(ratio, 1), EXPLICIT_LARGEST_TERM), EXPLICIT_BITS);
	const hw_s64 in_base = explicit_scaled(growth, queue->config.base_rtt, queue->interval);

	queue->growth += explicit_weighed(in_base - queue->growth, EXPLICIT_QUARTER);
}

/* The row of the configured beta: the last one that is not above it, or the first. */
HW_INLINE hw_u32 explicit_base_row(const struct explicit_config *config)
{
	hw_u32 base = 0;
	hw_u32 k;

	for (k = 1; k < EXPLICIT_ROWS; k++) {
		if (explicit_limits[k].beta <= config->beta)
			base = k;
	}
	return base;
}

/*
 * Sets beta and the rate of new flows for the growth of their number. beta becomes the smallest of the
 * table whose limit is above 1.25 times the growth, and the configured one after some intervals of less
 * than half its limit (2.13).
 */
HW_FUNCTION void explicit_handle_surge(struct explicit_queue *queue HW_NONNULL)
{
	const struct explicit_config *config = &queue->config;
	const hw_u32 base = explicit_base_row(config);
	hw_u32 row = base;
	hw_u32 k;

	queue->calm = queue->growth < explicit_limits[base].half ? queue->calm + 1 : 0;
	for (k = 0; k + 1 < EXPLICIT_ROWS && row + 1 < EXPLICIT_ROWS; k++) {
		if (explicit_limits[row].safe <= queue->growth)
			row++;
	}
	if (!(config->flags & EXPLICIT_RAISE_BETA) || queue->calm >= EXPLICIT_CALM)
		queue->beta_row = base;
	else if (row > queue->beta_row)
		queue->beta_row = row;
	if (queue->beta_row < base || queue->beta_row >= EXPLICIT_ROWS)
		queue->beta_row = base;
	queue->record.admits_slowly = config->flags & EXPLICIT_ADMISSION &&
				      queue->growth > explicit_limits[queue->beta_row].whole;
}

/* beta in force, in units of 2^-16. */
HW_INLINE hw_u32 explicit_beta(const struct explicit_queue *queue)
{
	const hw_u32 row = queue->beta_row;

	if (!(queue->config.flags & EXPLICIT_RAISE_BETA) || row >= EXPLICIT_ROWS)
		return queue->config.beta;
	return (hw_u32)hw_max(queue->config.beta, explicit_limits[row].beta);
}

/*
 * R as it is written, in whole B/s: at most 34.4 Gb/s per flow. The largest number would say that no router
 * of RCP was on the path, and a single flow on a faster link would fill its buffer.
 */
HW_INLINE hw_u32 explicit_written(hw_u64 rate)
{
	return (hw_u32)hw_min((rate + EXPLICIT_ONE / 2) >> EXPLICIT_BITS, EXPLICIT_ANY_RATE - 1);
}

/* Sets R, bounded, and what packets get (2.12, 2.13). */
HW_INLINE void explicit_set_rate(struct explicit_queue *queue, hw_u64 rate)
{
	const struct explicit_config *config = &queue->config;
	const hw_u64 low = config->rate_min << EXPLICIT_BITS;

	queue->rate = hw_max(hw_min(rate, explicit_rate_max(config) << EXPLICIT_BITS), low);
	queue->written_rate = explicit_written(queue->rate);
	queue->first_rate = queue->record.admits_slowly ? explicit_written(low) : queue->written_rate;
}

/*
 * The R that a queue starts with: C, or a packet in the first average RTT if C is unknown. It must never be
 * 0, from which it could not grow (2.12). After a law of XCP it is the share of a flow: with C, the flows of
 * XCP would fill the buffer at once, and R would fall to its minimum.
 */
HW_INLINE void explicit_start_rate(struct explicit_queue *queue)
{
	const int shared = !(queue->config.flags & EXPLICIT_PUBLISHED_START);
	const hw_u64 capacity = queue->config.capacity << EXPLICIT_BITS;
	const hw_u64 flows = shared ? hw_max(queue->flows, EXPLICIT_ONE) : EXPLICIT_ONE;
	hw_u64 total = capacity;

	if (!total && shared)
		total = queue->record.input_rate;
	if (!total)
		total = EXPLICIT_FIRST_RATE << EXPLICIT_BITS;
	explicit_set_rate(queue, hw_scale(total, EXPLICIT_ONE, flows));
}

/*
 * The R below which RCP does not fall: a quarter of an equal part of C, so that the queue drains at three
 * quarters of C; the published law takes R to half of one when a second flow comes (E12). Flows send at C
 * at most, and a packet more where an interval is short, so there are at least y / (C + a packet per
 * interval), whatever they say.
 *
 * F does not know how many flows there are. When many begin at once, the input is many times C and stays so
 * until they have heard of a lower R; meanwhile R would fall to its minimum, at which paced senders wait for
 * minutes before they hear of a better one.
 */
HW_INLINE hw_u64 explicit_least_rate(const struct explicit_queue *queue, hw_u64 input_rate)
{
	const hw_u64 capacity = queue->config.capacity << EXPLICIT_BITS;
	const hw_u64 single = input_rate / hw_max(queue->input_packets, 1);
	const hw_u64 flows = hw_max(hw_scale(input_rate, EXPLICIT_ONE, capacity + single), queue->flows);

	if (queue->config.flags & EXPLICIT_PUBLISHED_FALL)
		return 0;
	return hw_scale(capacity / 4, EXPLICIT_ONE, hw_max(flows, EXPLICIT_ONE));
}

/*
 * The change of R by F: R F / C, as there are C / R flows (equation 2.17). Without a capacity F is shared
 * among the flows that X counts, one at least, or y / R if it counts none; y / R is the number of flows times
 * what R has changed by since they heard of it.
 */
HW_INLINE hw_u64 explicit_rate_step(const struct explicit_queue *queue, hw_s64 feedback, hw_u64 input_rate)
{
	const hw_u64 size = explicit_magnitude(feedback);
	const hw_u64 capacity = queue->config.capacity << EXPLICIT_BITS;
	const int knows = !explicit_is_blind_rate(queue->config.law);
	hw_u64 step;

	if (explicit_moves_often(&queue->config) && queue->flows)
		step = hw_scale(size, EXPLICIT_ONE, hw_max(queue->flows, EXPLICIT_ONE));
	else
		step = hw_scale(queue->rate, size, hw_max(knows ? capacity : input_rate, 1));
	return hw_scale(step, explicit_part(queue), EXPLICIT_ONE);
}

/*
 * R less what windows would lose by themselves: two thirds of the growth of d. XCP-b was derived for windows,
 * whose rate falls while the queue grows; rates do not, and its gains alone then let the queue swing. Taking
 * all of it makes paced flows swing, whose RTTs are known late.
 */
HW_INLINE hw_u64 explicit_slowed_rate(const struct explicit_queue *queue)
{
	if (queue->config.flags & EXPLICIT_PUBLISHED_STEPS)
		return queue->rate;
	return hw_scale(queue->rate, 2 * queue->rtt_previous + queue->average_rtt, 3 * queue->average_rtt);
}

/*
 * R += (T / d) times the change by F. Without a capacity R changes at most by a factor of two. R
 * stays if nothing arrived.
 *
 * T / d never exceeds 1, or gains would grow where d is below the shortest interval.
 */
HW_INLINE void explicit_move_rate(struct explicit_queue *queue, hw_s64 feedback, hw_u64 input_rate)
{
	const struct explicit_config *config = &queue->config;
	const hw_u64 previous = queue->rate;
	const hw_u64 step = explicit_rate_step(queue, feedback, input_rate);
	hw_u64 from;

	if (!queue->input_bytes)
		return;
	if (explicit_is_blind_rate(config->law)) {
		from = explicit_slowed_rate(queue);
		explicit_set_rate(queue, feedback >= 0 ? from + hw_min(step, from) : from - hw_min(step, from / 2));
	} else if (feedback >= 0) {
		explicit_set_rate(queue, previous + hw_min(step, EXPLICIT_LARGEST_TERM));
	} else {
		explicit_set_rate(queue, hw_max(previous - hw_min(step, previous),
						hw_min(previous, explicit_least_rate(queue, input_rate))));
	}
	if (config->flags & (EXPLICIT_RAISE_BETA | EXPLICIT_ADMISSION)) {
		explicit_update_growth(queue, previous);
		explicit_handle_surge(queue);
		explicit_set_rate(queue, queue->rate);
	}
}

#endif

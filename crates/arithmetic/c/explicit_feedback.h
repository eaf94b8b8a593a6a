/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The aggregate feedback F of a control interval: XCP, XCP-b, self-tuning kappa, ErrorS and WXCP (xcp-rcp 2.6
 * to 2.11). Units as in explicit.h.
 */
#ifndef HEADWAY_EXPLICIT_FEEDBACK_H
#define HEADWAY_EXPLICIT_FEEDBACK_H

#include "explicit_measure.h"

/* 0.75 with 32 fraction bits. */
#define EXPLICIT_THREE_QUARTERS 3221225472U
/* zeta: B that a retransmission per interval takes off the feedback of an RTT (2.11). */
#define EXPLICIT_ZETA 67U

HW_INLINE hw_u64 explicit_magnitude(hw_s64 value)
{
	return value < 0 ? -(hw_u64)value : (hw_u64)value;
}

/* `magnitude`, cut off at EXPLICIT_LARGEST_TERM, with the sign of `sign`. */
HW_INLINE hw_s64 explicit_signed(hw_u64 magnitude, hw_s64 sign)
{
	const hw_s64 value = (hw_s64)hw_min(magnitude, EXPLICIT_LARGEST_TERM);

	return sign < 0 ? -value : value;
}

/* value times factor / divisor, rounded to the nearest. */
HW_INLINE hw_s64 explicit_scaled(hw_s64 value, hw_u64 factor, hw_u64 divisor)
{
	return explicit_signed(hw_scale(explicit_magnitude(value), factor, divisor), value);
}

/* `value` times a gain in units of 2^-16. */
HW_INLINE hw_s64 explicit_weighed(hw_s64 value, hw_u32 gain)
{
	return explicit_signed(hw_product(explicit_magnitude(value), gain, EXPLICIT_BITS), value);
}

/* value / d, in 1/s; d is the response time. */
HW_INLINE hw_s64 explicit_per_rtt(const struct explicit_queue *queue, hw_s64 value)
{
	return explicit_scaled(value, EXPLICIT_LONGEST_RTT, queue->response);
}

/* value / d in B/s for a value in B or packets; packets have their average size. */
HW_INLINE hw_s64 explicit_queue_rate(const struct explicit_queue *queue, hw_s64 value)
{
	if (queue->config.flags & EXPLICIT_PACKETS)
		value = explicit_scaled(value, queue->packet, EXPLICIT_ONE);
	return explicit_per_rtt(queue, value);
}

/* alpha (C - y), in B/s. */
HW_INLINE hw_s64 explicit_spare(const struct explicit_queue *queue, hw_u64 input_rate)
{
	const hw_s64 spare = (hw_s64)(queue->config.capacity << EXPLICIT_BITS) - (hw_s64)input_rate;

	return explicit_weighed(spare, queue->config.alpha);
}

/* F = alpha (C - y) - beta q / d (2.6). The queue is in bytes, however kappa is measured. */
HW_INLINE hw_s64 explicit_feedback_xcp(const struct explicit_queue *queue, hw_u64 input_rate, hw_u32 beta)
{
	const hw_u64 bytes = explicit_with_overhead(queue, queue->queue_bytes, queue->queue_packets);

	return explicit_spare(queue, input_rate) - explicit_weighed(explicit_per_rtt(queue, (hw_s64)bytes), beta);
}

/* tau = 0.75^n, recomputed once n has changed (2.8). */
HW_FUNCTION void explicit_update_tau(struct explicit_queue *queue HW_NONNULL)
{
	hw_u64 tau = 1ULL << 32;
	hw_u32 k;

	for (k = 0; k < EXPLICIT_LARGEST_N && k < queue->config.n; k++)
		tau = (tau * EXPLICIT_THREE_QUARTERS + (1U << 31)) >> 32;
	queue->tau = tau;
	queue->tau_n = queue->config.n;
}

/* What found no room in this interval, in B or packets, with the fraction; packets have
 * their average size. */
HW_INLINE hw_s64 explicit_lost(const struct explicit_queue *queue)
{
	const hw_u64 packets = hw_min(queue->drops - queue->drops_previous, EXPLICIT_LARGEST) << EXPLICIT_BITS;

	if (queue->config.flags & EXPLICIT_PUBLISHED_DROPS)
		return 0;
	if (queue->config.flags & EXPLICIT_PACKETS)
		return (hw_s64)packets;
	return explicit_signed(hw_scale(packets, queue->packet, EXPLICIT_ONE), 1);
}

/*
 * F = -alpha (q - q') / d - beta (q - kappa) / d (2.8). The change of the queue stands for y - C, so what
 * found no room belongs to it: a full buffer would look like an input that equals the capacity. In short
 * intervals the queue changes by a part of what it would in d.
 */
HW_INLINE hw_s64 explicit_follow(const struct explicit_queue *queue, hw_s64 q)
{
	const hw_s64 moved = q - (hw_s64)queue->queue_previous + explicit_lost(queue);
	const hw_s64 change = explicit_scaled(explicit_weighed(moved, queue->config.alpha), EXPLICIT_ONE, explicit_part(queue));
	const hw_s64 distance = explicit_weighed(q - (hw_s64)queue->kappa, queue->config.beta);

	return -explicit_queue_rate(queue, change) - explicit_queue_rate(queue, distance);
}

/* The weight of the newest queue in an average, for an interval that may be shorter than d. */
HW_INLINE hw_u32 explicit_weight(const struct explicit_queue *queue, hw_u32 weight)
{
	return (hw_u32)hw_max(hw_product(weight, explicit_part(queue), EXPLICIT_BITS), 1);
}

/*
 * XCP-b: fills an empty queue with chi Qmax / d, then follows it (2.8). Without kappa, lambda cannot be below
 * it, so the queue itself is looked at (2.16).
 */
HW_INLINE hw_s64 explicit_feedback_blind(struct explicit_queue *queue, hw_u64 q)
{
	const struct explicit_config *config = &queue->config;
	const hw_u32 chi = config->chi ? config->chi : explicit_chi(config->alpha, config->beta);
	int below;

	if (!queue->tau || queue->tau_n != config->n)
		explicit_update_tau(queue);
	queue->weighted = explicit_average(queue->weighted, q, explicit_weight(queue, EXPLICIT_QUARTER));
	below = queue->kappa ? queue->weighted < hw_product(queue->kappa, queue->tau, 32) : !q;
	if (below)
		return explicit_queue_rate(queue, explicit_weighed((hw_s64)(config->queue_max << EXPLICIT_BITS), chi));
	return explicit_follow(queue, (hw_s64)q);
}

/* Whether the link seems under-utilised (2.9). */
HW_INLINE int explicit_underused(const struct explicit_queue *queue, hw_u64 q)
{
	switch (queue->config.detector) {
	case EXPLICIT_EMPTY:
		return !q;
	case EXPLICIT_EMPTY_FOR_N:
		return queue->empty >= queue->config.n;
	default:
		return queue->weighted < hw_product(queue->kappa, queue->config.tau, EXPLICIT_BITS);
	}
}

/* Moves kappa towards the distance of the queue from its average, or to Qmax if the link is
 * under-utilised (2.9). */
HW_INLINE void explicit_tune(struct explicit_queue *queue, hw_u64 q)
{
	const struct explicit_config *config = &queue->config;
	const hw_u64 top = config->queue_max << EXPLICIT_BITS;
	const hw_u32 rho = explicit_weight(queue, config->rho);
	hw_u64 target = q;

	queue->weighted = explicit_average(queue->weighted, q, rho);
	if (explicit_underused(queue, q))
		target = top;
	target = explicit_magnitude((hw_s64)target - (hw_s64)queue->weighted);
	queue->kappa = explicit_average(queue->kappa, target, rho);
	queue->kappa = hw_min(hw_max(queue->kappa, config->kappa << EXPLICIT_BITS), top);
}

/* epsilon = (beta / alpha) (q - kappa) / d: by how much C exceeds the capacity (equation 4.8). */
HW_INLINE hw_s64 explicit_error(const struct explicit_queue *queue, hw_s64 q)
{
	const hw_s64 rate = explicit_queue_rate(queue, q - (hw_s64)queue->kappa);

	return explicit_scaled(rate, queue->config.beta, queue->config.alpha);
}

/*
 * Integrates epsilon to xi (2.10). With no input kappa grows and xi would run away, so it starts again. It is
 * bounded by what a wrong capacity can cause.
 *
 * A queue below kappa says that more than C - xi / alpha can be had only once the input is that large. Below
 * it senders have not taken what they were granted yet, or cannot: their windows, their applications or
 * losses limit them. xi then waits. Otherwise it would fall as long as they are limited, and the next flow
 * would get what is not there.
 */
HW_INLINE void explicit_integrate(struct explicit_queue *queue, hw_s64 q, hw_s64 spare)
{
	const struct explicit_config *config = &queue->config;
	const hw_u64 largest = hw_max(config->capacity, config->line) << EXPLICIT_BITS;
	const hw_s64 bound = explicit_weighed((hw_s64)largest, config->alpha);
	const hw_s64 epsilon = explicit_error(queue, q);
	const hw_s64 step = explicit_scaled(epsilon + queue->epsilon, explicit_weight(queue, config->psi), 2 * EXPLICIT_ONE);

	if (!queue->input_bytes) {
		queue->xi = 0;
		queue->epsilon = 0;
		queue->record.bounded = 0;
		return;
	}
	queue->epsilon = epsilon;
	if (step >= 0 || spare <= queue->xi || config->flags & EXPLICIT_PUBLISHED_INTEGRATOR)
		queue->xi += step;
	queue->record.bounded = explicit_magnitude(queue->xi) > (hw_u64)bound;
	if (queue->record.bounded)
		queue->xi = queue->xi < 0 ? -bound : bound;
}

/* ErrorS: F = alpha (C - y) - xi - beta (q - kappa) / d (equation 4.11). */
HW_INLINE hw_s64 explicit_feedback_errors(struct explicit_queue *queue, hw_u64 q, hw_u64 input_rate)
{
	const hw_s64 spare = explicit_spare(queue, input_rate);
	hw_s64 distance;

	explicit_tune(queue, q);
	explicit_integrate(queue, (hw_s64)q, spare);
	distance = explicit_queue_rate(queue, (hw_s64)q - (hw_s64)queue->kappa);
	return spare - queue->xi - explicit_weighed(distance, queue->config.beta);
}

/* Adds what the MAC has counted (2.11). */
HW_INLINE void explicit_hear(struct explicit_queue *queue, const struct explicit_heard *heard)
{
	struct explicit_air *air = &queue->air;
	hw_u32 k;

	air->busy += heard->busy;
	air->own += heard->own;
	air->bytes += heard->bytes;
	air->retries += heard->retries;
	if (!heard->source)
		return;
	for (k = 0; k < EXPLICIT_NEIGHBOURS && k < air->neighbours; k++)
		if (air->sources[k] == heard->source)
			return;
	if (k < EXPLICIT_NEIGHBOURS)
		air->sources[air->neighbours++] = heard->source;
}

/*
 * WXCP: F = alpha B / (n + 1) - beta q / d - zeta R / d (equations 2.21 to 2.23), where B is what the interface
 * would send in the idle time at the rate at which it sends in its own, n the stations that it heard, and R its
 * retransmissions per interval, averaged with a weight of 1/4. Begins to count anew.
 */
HW_INLINE hw_s64 explicit_feedback_air(struct explicit_queue *queue)
{
	const hw_u64 q = explicit_with_overhead(queue, queue->queue_bytes, queue->queue_packets);
	struct explicit_air *air = &queue->air;
	const hw_u64 retries = hw_min(air->retries, EXPLICIT_ONE) << EXPLICIT_BITS;
	const hw_u64 idle = queue->interval - hw_min(air->busy, queue->interval);
	hw_u64 available;
	hw_s64 lost;

	if (air->own)
		air->rate = hw_min(hw_scale(hw_min(air->bytes, EXPLICIT_LARGEST) << EXPLICIT_BITS, 1000000000ULL, air->own),
				   EXPLICIT_LARGEST_TERM);
	air->average_retries = explicit_average(air->average_retries, retries, EXPLICIT_QUARTER);
	available = hw_scale(air->rate, idle, queue->interval) / (air->neighbours + 1);
	lost = explicit_per_rtt(queue, (hw_s64)(air->average_retries * EXPLICIT_ZETA));
	air->busy = 0;
	air->own = 0;
	air->bytes = 0;
	air->retries = 0;
	air->neighbours = 0;
	return explicit_weighed((hw_s64)available, queue->config.alpha) -
	       explicit_weighed(explicit_per_rtt(queue, (hw_s64)q), queue->config.beta) - lost;
}

/*
 * F of the law in force. All laws keep lambda and the last queue up to date, so that one can follow
 * another at run time.
 */
HW_INLINE hw_s64 explicit_feedback(struct explicit_queue *queue, hw_u64 q, hw_u64 input_rate, hw_u32 beta)
{
	switch (queue->config.law) {
	case EXPLICIT_BLIND:
	case EXPLICIT_RCP_BLIND:
		return explicit_feedback_blind(queue, q);
	case EXPLICIT_KAPPA:
	case EXPLICIT_RCP_KAPPA:
		explicit_tune(queue, q);
		return explicit_follow(queue, (hw_s64)q);
	case EXPLICIT_ERRORS:
	case EXPLICIT_RCP_ERRORS:
		return explicit_feedback_errors(queue, q, input_rate);
	case EXPLICIT_WXCP:
		queue->weighted = explicit_average(queue->weighted, q, EXPLICIT_QUARTER);
		return explicit_feedback_air(queue);
	default:
		queue->weighted = explicit_average(queue->weighted, q, EXPLICIT_QUARTER);
		return explicit_feedback_xcp(queue, input_rate, beta);
	}
}

#endif

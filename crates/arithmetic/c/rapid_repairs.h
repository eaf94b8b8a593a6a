/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the thesis leaves open: queues that estimates do not show, losses without congestion, capacity that
 * grows. Each is a switch, RAPID_WATCH_QUEUE and RAPID_REOPEN.
 */
#ifndef HEADWAY_RAPID_REPAIRS_H
#define HEADWAY_RAPID_REPAIRS_H

#include "rapid_state.h"

/* The queue that counts as one, in ns: more than the unit of stamps, and more than packets
 * that happen to meet. */
HW_INLINE hw_u64 rapid_long_queue(const struct rapid *rapid, const struct rapid_config *config)
{
	const hw_u64 packets = RAPID_SHORT_QUEUE_PACKETS * rapid_time(config->packet, rapid->rate);

	return hw_max(hw_max(RAPID_SHORT_QUEUE, packets), 2 * (hw_u64)config->unit);
}

/* Whether R_avg may fall because of a queue: once per RTT, because the effect shows only then. What streams
 * in flight will show is older, so they belong to no round. */
HW_INLINE int rapid_may_yield(struct rapid *rapid)
{
	const hw_u64 wait = rapid->rtt ? rapid->rtt : RAPID_DRAIN_TIME;

	if (rapid->delay.clock - rapid->drained < wait)
		return 0;
	rapid->drained = rapid->delay.clock;
	rapid->round = rapid->stream;
	rapid->round_sum = 0;
	rapid->round_estimates = 0;
	return 1;
}

/*
 * Starts anew where a fall left R_avg below the rate of start-up: a p-stream would last for many RTTs, and
 * the next loss would come before R_avg could rise.
 */
HW_INLINE void rapid_start_anew(struct rapid *rapid, const struct rapid_config *config)
{
	hw_u64 packet;

	if (!(config->flags & RAPID_REOPEN) || config->flags & RAPID_LITERAL_START || !rapid->rtt)
		return;
	packet = config->packet * RAPID_BIT_NS / rapid->rtt;
	if (rapid->rate >= RAPID_START_WINDOW * packet)
		return;
	rapid_set_rate(rapid, config, hw_max(rapid->rate, RAPID_MIN_WINDOW * packet));
	if (rapid->phase == RAPID_START_UP)
		return;
	rapid->phase = RAPID_START_UP;
	rapid->falls = 0;
	rapid_forget_estimates(rapid);
	rapid_acks_discard(&rapid->acks, rapid->stream);
}

/* Lowers R_avg because of a queue by a share `above` / `below` for the usual RTT, at most by a quarter. */
HW_INLINE void rapid_yield(struct rapid *rapid, const struct rapid_config *config, hw_u64 above, hw_u64 below)
{
	const hw_u64 quarter = rapid->rate / 4;
	/* In us; 10 s keep the products below 2^63: 39 bits and 24. */
	const hw_u64 rtt = hw_min(rapid->rtt ? rapid->rtt : RAPID_USUAL_RTT, 10000000000ULL) / 1000;
	hw_u64 cut = quarter;

	if (above < below / 4)
		cut = rapid->rate / (below / hw_max(above, 1));
	cut = hw_min(cut * rtt / (RAPID_USUAL_RTT / 1000), quarter);
	rapid_set_rate(rapid, config, rapid->rate - cut);
}

/*
 * Drains a queue that lasts over all of an update's streams; returns whether it did. Behind such a queue
 * packets arrive as they left, so estimates stay high and the queue remains until the buffer overflows. R_avg
 * falls by the share of RAPID_DRAIN_TIME that the queue lasts.
 */
HW_INLINE int rapid_drain(struct rapid *rapid, const struct rapid_config *config)
{
	const hw_u64 queue = rapid_delay_take(&rapid->delay);
	const hw_u64 time = rapid->rtt ? hw_min(rapid->rtt, RAPID_DRAIN_TIME) : RAPID_DRAIN_TIME;

	if (!(config->flags & RAPID_WATCH_QUEUE) || queue < rapid_long_queue(rapid, config))
		return 0;
	if (!rapid_may_yield(rapid))
		return 0;
	rapid_yield(rapid, config, queue, time);
	return 1;
}

/* Counts an estimate of the present round, which begins with the first stream sent after R_avg was last
 * raised by a round and lasts for tau at least; returns whether it ends. */
HW_INLINE int rapid_ends_round(struct rapid *rapid, const struct rapid_config *config,
			       const struct rapid_estimate *estimate)
{
	if (hw_before(rapid->acks.stream, rapid->round))
		return 0;
	if (!rapid->round_estimates)
		rapid->round_begin = rapid->delay.clock;
	rapid->round_sum += estimate->rate;
	rapid->round_estimates++;
	return rapid->round_estimates >= RAPID_ROUND_STREAMS && rapid->delay.clock - rapid->round_begin >= config->tau;
}

/* Ends a round: if much more is free than R_avg, R_avg becomes that at once. Returns whether it did. */
HW_INLINE int rapid_end_round(struct rapid *rapid, const struct rapid_config *config)
{
	const hw_u64 mean = hw_min(rapid->round_sum / rapid->round_estimates, rapid_ceiling(config));
	const hw_u64 distance = mean < rapid->rate ? rapid->rate - mean : mean - rapid->rate;

	rapid->round_sum = 0;
	rapid->round_estimates = 0;
	if (mean < rapid->rate || distance < hw_max(rapid->rate / RAPID_MUCH_FREE, RAPID_DEVIATIONS * rapid->deviation)) {
		rapid->deviation = (7 * rapid->deviation + distance) / 8;
		return 0;
	}
	rapid_set_rate(rapid, config, mean);
	rapid->round = rapid->stream;
	return 1;
}

/*
 * Judges from a packet whether losses mean congestion: packets queued before one was lost, or many are
 * lost. Then R_avg falls at once, at most once per RTT, and not when the episode ends; returns whether
 * it fell. Behind a full buffer the packets that get through arrive as they left, so estimates across
 * holes hide the queue.
 */
HW_INLINE int rapid_judge(struct rapid *rapid, const struct rapid_config *config, const struct rapid_packet *packet)
{
	int queued, many;

	if (++rapid->settled >= RAPID_JUDGED_PACKETS) {
		rapid->settled /= 2;
		rapid->lost /= 2;
	}
	if (!packet->lost)
		return 0;
	queued = rapid_queue(&rapid->delay) >= rapid_long_queue(rapid, config);
	many = rapid->settled >= RAPID_JUDGED_PACKETS / 2 && rapid->lost > rapid->settled / RAPID_MUCH_LOSS;
	if (!queued && !many)
		return 0;
	rapid_acks_restart(&rapid->acks);
	if (!rapid_may_yield(rapid))
		return 0;
	if (many)
		rapid_set_rate(rapid, config, rapid->rate - rapid->rate / 4);
	else
		rapid_yield(rapid, config, 1, 4);
	rapid_end_start_up(rapid);
	rapid_forget_estimates(rapid);
	rapid_start_anew(rapid, config);
	return 1;
}

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A queue of an explicit router: XCP, XCP-b, self-tuning kappa, ErrorS, WXCP and RCP (J. T. Araujo, Explicit
 * congestion control, Porto, 2008).
 *
 * In a nutshell:
 *   - Packets carry a header with the sender's RTT, the time X between its packets, and a field that routers
 *     lower: the change of throughput that the sender asks for (XCP), or the rate that it may have (RCP).
 *   - Every control interval, which is about the average RTT d long, the router compares the input y and the
 *     persistent queue q with the capacity C:
 *
 *         F = alpha (C - y) - beta q / d        XCP shares F among the packets of the next interval
 *         R += R F / C                          RCP writes R into all of them
 *
 *   - XCP gives flows equal parts of a positive F (Cp X per packet) and takes a negative one in proportion to
 *     their rates (Cn size), so their rates converge; shuffling a tenth of y does the same while F is 0.
 *   - XCP-b knows no C: it holds a queue of kappa bytes. Where kappa tunes itself, it follows the deviation
 *     of the queue. ErrorS subtracts the error of C, which it integrates from the standing queue. WXCP goes by the
 *     idle time of a radio channel, and hears of it by explicit_hear.
 *
 *       arrival                     departure                          due
 *     +----------------+          +---------------------+           +--------------------------------------------+
 *     | counts, sums   |  queue   | feedback = min(its  |           | measurement: q = least backlog since then  |
 *     | of X and X RTT | -------> | own, Cp X - Cn size | <-------- | control: d, y -> F or R -> Cp, Cn; record  |
 *     +----------------+          | or R)               |           +--------------------------------------------+
 *                                 +---------------------+
 *
 * How to use it:
 *   - Before every arrival and departure, and whenever explicit_due has come, call explicit_timer until it
 *     returns EXPLICIT_NOTHING, with the backlog as it was until then. After EXPLICIT_CONTROLLED,
 *     queue->record is new.
 *   - After a long silence this takes some thousand calls at most: intervals in which nothing changes
 *     any more are left out.
 *   - Sizes are those of packets without what the link adds to each; config.overhead adds that. A caller
 *     whose sizes include it sets overhead to 0.
 *   - A queue serves one version of the header. Routers with XCP and RCP have two (F43).
 *
 * Units: times in ns; RTT, X and their sums in s with 28 fraction bits; rates in B/s and queues in B with 16,
 * which is called "the fraction". Configurations must have passed explicit_check; then no sum or product
 * overflows. No function allocates. A number in parentheses is a section, as in "xcp-rcp 2.6"; equations have
 * the thesis's numbers.
 */
#ifndef HEADWAY_EXPLICIT_H
#define HEADWAY_EXPLICIT_H

#include "explicit_rate.h"

/* Control intervals that are computed after a silence before the rest is left out: averages with a weight of
 * at least 4 % have then come to rest. */
#define EXPLICIT_SILENT_INTERVALS 1024
/* How often laws of RCP without a capacity move R in d: as often as they measure the queue that
 * they go by (2.5). */
#define EXPLICIT_BLIND_PARTS 2
/* Response times without packets after which RCP takes them for a silence: few flows whose packets are a
 * response time apart leave two or three of them empty by chance. */
#define EXPLICIT_LONGEST_WAIT 4

/* What explicit_timer did. */
enum explicit_event {
	/* Nothing is due. */
	EXPLICIT_NOTHING,
	/* The persistent queue was measured. */
	EXPLICIT_MEASURED,
	/* A control interval ended. */
	EXPLICIT_CONTROLLED,
	/* A control interval goes on, because nothing has arrived. */
	EXPLICIT_CONTINUED,
};

/* What becomes of an arriving packet. */
enum explicit_verdict {
	EXPLICIT_ACCEPTED,
	/* The queue does not serve its version of the header, or there is no such format: it
	 * is to be dropped. */
	EXPLICIT_BAD_VERSION,
	EXPLICIT_BAD_FORMAT,
};

/* There is nothing to share until the end of the control interval. */
HW_INLINE void explicit_forget_share(struct explicit_queue *queue)
{
	queue->positive = 0;
	queue->negative = 0;
	queue->positive_scale = 0;
	queue->negative_scale = 0;
	queue->remainder = 0;
}

/* Adopts a configuration that has passed explicit_check. What the laws before and after have in
 * common stays: d, the queue and its average, kappa if both tune it, xi if both integrate it, R if
 * both write it (F25, F42). */
HW_INLINE void explicit_set_config(struct explicit_queue *queue, const struct explicit_config *config)
{
	const struct explicit_config before = queue->config;
	const hw_u64 least = config->kappa << EXPLICIT_BITS;
	const hw_u64 most = config->queue_max << EXPLICIT_BITS;

	queue->config = *config;
	if ((before.flags ^ config->flags) & EXPLICIT_PACKETS) {
		queue->queue_previous = explicit_persistent(queue);
		queue->weighted = queue->queue_previous;
		queue->kappa = most;
	}
	if (!explicit_tunes(config->law))
		queue->kappa = least;
	else if (!explicit_tunes(before.law))
		queue->kappa = most;
	else
		queue->kappa = hw_max(hw_min(queue->kappa, most), least);
	if (!explicit_integrates(config->law) || !explicit_integrates(before.law)) {
		queue->xi = 0;
		queue->epsilon = 0;
	}
	if (!(config->flags & EXPLICIT_ADMISSION))
		queue->record.admits_slowly = 0;
	if (!explicit_is_rate(config->law)) {
		if (explicit_is_rate(before.law))
			explicit_forget_share(queue);
	} else if (explicit_is_rate(before.law)) {
		explicit_set_rate(queue, queue->rate);
	} else {
		explicit_start_rate(queue);
	}
}

/*
 * Initialises a queue at time `now`. `random`, any number, moves its timers by up to 20 %, so that
 * routers do not act together (2.6). kappa starts at Qmax where it tunes itself, to which an empty
 * queue leads anyway (2.9).
 */
HW_INLINE void explicit_init(struct explicit_queue *queue, const struct explicit_config *config, hw_u64 now, hw_u32 random)
{
	const hw_u64 first = hw_min(EXPLICIT_FIRST_INTERVALS * config->interval_min, EXPLICIT_FIRST_INTERVAL);

	*queue = (struct explicit_queue){ 0 };
	queue->interval = hw_max(first - first / 5 + ((first * 2 / 5 * random) >> 32), config->interval_min);
	queue->step = queue->interval;
	queue->control_due = now + queue->interval;
	queue->queue_due = queue->control_due;
	queue->average_rtt_ns = first;
	queue->average_rtt = (first << EXPLICIT_TIME_BITS) / 1000000000ULL;
	queue->response = queue->average_rtt;
	queue->response_ns = queue->average_rtt_ns;
	queue->packet = 1500ULL << EXPLICIT_BITS;
	/* The law before is XCP, with nothing to keep. */
	explicit_set_config(queue, config);
}

/*
 * A packet of `bytes` arrives; `header` is null if it has none. Returns one of enum explicit_verdict. Every
 * packet counts as input, also one that then finds no room, because the law must see what is offered (2.4).
 */
HW_INLINE hw_u32 explicit_arrive(struct explicit_queue *queue, const struct explicit_header *header, hw_u32 bytes)
{
	const hw_u8 version = explicit_is_rate(queue->config.law) ? EXPLICIT_VERSION_RCP : EXPLICIT_VERSION_XCP;

	explicit_count(queue, bytes, header && header->version == version && header->format == EXPLICIT_STANDARD);
	if (!header)
		return EXPLICIT_ACCEPTED;
	if (header->version != version) {
		queue->rejected++;
		return EXPLICIT_BAD_VERSION;
	}
	if (header->format == EXPLICIT_MINIMAL)
		return EXPLICIT_ACCEPTED;
	if (header->format != EXPLICIT_STANDARD) {
		queue->rejected++;
		return EXPLICIT_BAD_FORMAT;
	}
	if (header->rtt)
		explicit_sum(queue, header->rtt, header->x);
	return EXPLICIT_ACCEPTED;
}

/* A packet that arrived found no room. */
HW_INLINE void explicit_drop(struct explicit_queue *queue)
{
	queue->drops++;
}

/*
 * The change of throughput that a packet is granted, in whole B/s: Cp X - Cn size. What rounding keeps from
 * one packet goes to the next (2.15).
 */
HW_INLINE hw_s32 explicit_round(struct explicit_queue *queue, hw_s64 change, hw_s64 *remainder)
{
	const hw_s64 sum = change + queue->remainder;
	const hw_s64 whole = (sum + EXPLICIT_ONE / 2) >> EXPLICIT_BITS;

	if (whole > 0x7fffffff || whole < -0x7fffffff) {
		*remainder = 0;
		return whole < 0 ? -0x7fffffff : 0x7fffffff;
	}
	*remainder = sum - whole * (hw_s64)EXPLICIT_ONE;
	return (hw_s32)whole;
}

/* Lowers the change of throughput that a packet asks for to what it is granted (2.7). */
HW_INLINE void explicit_grant(struct explicit_queue *queue, struct explicit_header *header, hw_u32 bytes)
{
	const int limited = (queue->config.flags & EXPLICIT_RESIDUES) != 0;
	const hw_s32 asked = (hw_s32)header->feedback;
	hw_u64 give = hw_min(hw_product(queue->positive_scale, header->x, EXPLICIT_TIME_BITS), EXPLICIT_LARGEST_TERM);
	hw_u64 take = hw_min(hw_product(queue->negative_scale, bytes, 16), EXPLICIT_LARGEST_TERM);
	hw_s64 remainder;
	hw_s32 granted;

	if (limited) {
		give = hw_min(give, queue->positive);
		take = hw_min(take, queue->negative);
	}
	granted = explicit_round(queue, (hw_s64)give - (hw_s64)take, &remainder);
	if (granted < asked) {
		header->feedback = (hw_u32)granted;
		queue->remainder = remainder;
	} else {
		const hw_s64 change = (hw_s64)asked * (hw_s64)EXPLICIT_ONE;
		const hw_s64 surplus = (hw_s64)give - (hw_s64)take - change;

		/* It asks for less: what it leaves counts as taken, the rest as given. */
		if (surplus > 0)
			take = hw_min(take + (hw_u64)surplus, queue->negative);
		give = change + (hw_s64)take > 0 ? (hw_u64)(change + (hw_s64)take) : 0;
	}
	if (limited) {
		queue->positive -= hw_min(give, queue->positive);
		queue->negative -= hw_min(take, queue->negative);
	}
}

/*
 * A packet of `bytes` leaves, with the backlog behind it; `header` is null if it has none. Returns whether
 * its field `feedback` was changed (2.7, 2.12).
 */
HW_INLINE hw_u32 explicit_depart(struct explicit_queue *queue, struct explicit_header *header, hw_u32 bytes,
				 hw_u64 backlog_bytes, hw_u32 backlog_packets)
{
	hw_u32 before;

	queue->least_bytes = hw_min(queue->least_bytes, backlog_bytes);
	queue->least_packets = (hw_u32)hw_min(queue->least_packets, backlog_packets);
	if (!header || header->format != EXPLICIT_STANDARD)
		return 0;
	before = header->feedback;
	if (header->version == EXPLICIT_VERSION_RCP)
		/* Of a packet that waited while the law changed, the last R. */
		header->feedback = (hw_u32)hw_min(before, header->rtt ? queue->written_rate : queue->first_rate);
	else if (!header->rtt)
		/* Otherwise the first packet would keep an unbounded request. */
		header->feedback = 0;
	else if (!explicit_is_rate(queue->config.law))
		explicit_grant(queue, header, bytes);
	else if ((hw_s32)before > 0)
		/* It waited while the law changed, and nothing computes what it could have. */
		header->feedback = 0;
	return header->feedback != before;
}

/* Shares F among the packets of the next interval, and shuffles a part of y (2.6). */
HW_INLINE void explicit_share_feedback(struct explicit_queue *queue, hw_s64 feedback, hw_u64 input_rate)
{
	const hw_u64 magnitude = explicit_magnitude(feedback);
	const hw_u64 shuffled = hw_product(input_rate, queue->config.gamma, EXPLICIT_BITS);
	const hw_u64 rest = shuffled > magnitude ? shuffled - magnitude : 0;

	queue->positive = rest + (feedback > 0 ? magnitude : 0);
	queue->negative = rest + (feedback < 0 ? magnitude : 0);
	queue->positive_scale = 0;
	queue->negative_scale = 0;
	if (queue->sum_x)
		queue->positive_scale = hw_scale(queue->positive, EXPLICIT_LONGEST_RTT, queue->sum_x);
	if (queue->input_bytes)
		queue->negative_scale = hw_scale(queue->negative, 1ULL << 16, queue->input_bytes);
}

/* Notes what is known at the end of an interval (1.6). */
HW_INLINE void explicit_note(struct explicit_queue *queue, hw_u64 backlog_bytes, hw_u32 backlog_packets, hw_u64 input_rate,
			     hw_s64 feedback)
{
	struct explicit_record *record = &queue->record;

	record->time = queue->control_due;
	record->interval = queue->interval;
	record->average_rtt = queue->average_rtt_ns;
	record->input_bytes = queue->input_bytes;
	record->input_packets = queue->input_packets;
	record->input_rate = input_rate;
	record->capacity = queue->config.capacity << EXPLICIT_BITS;
	record->backlog_bytes = explicit_with_overhead(queue, backlog_bytes, backlog_packets) >> EXPLICIT_BITS;
	record->backlog_packets = backlog_packets;
	record->queue_bytes = queue->queue_bytes;
	record->queue_packets = queue->queue_packets;
	record->rate = queue->rate;
	record->feedback = feedback;
	record->positive = queue->positive;
	record->negative = queue->negative;
	record->positive_scale = queue->positive_scale;
	record->negative_scale = queue->negative_scale;
	record->weighted = queue->weighted;
	record->kappa = queue->kappa;
	record->tau = queue->tau;
	record->xi = queue->xi;
	record->epsilon = queue->epsilon;
	record->growth = queue->growth;
	record->drops = queue->drops;
	record->rejected = queue->rejected;
	record->law = queue->config.law;
	record->n = queue->config.n;
	record->beta = explicit_beta(queue);
}

/*
 * By how many of its first lengths the control interval can still grow without packets. R stays in intervals
 * without packets (F39), so if flows have less than one in each and empty ones ended, the others would show
 * an input of many times what it is.
 */
HW_INLINE hw_u64 explicit_wait(const struct explicit_queue *queue)
{
	const hw_u64 longest = EXPLICIT_LONGEST_WAIT * queue->response_ns;

	if (!explicit_is_rate(queue->config.law) || queue->input_packets || queue->interval >= longest ||
	    queue->config.flags & EXPLICIT_PUBLISHED_INTERVALS)
		return 0;
	return (longest - queue->interval) / queue->step;
}

/* Begins the next control interval. Averages come to rest in a silence, so only its end is computed. */
HW_INLINE void explicit_next_interval(struct explicit_queue *queue, hw_u64 now)
{
	const struct explicit_config *config = &queue->config;
	hw_u64 interval = queue->response_ns;
	hw_u64 period, silent;

	queue->sum_x = 0;
	queue->sum_xrtt = 0;
	queue->sum_xrtt_low = 0;
	queue->input_bytes = 0;
	queue->input_packets = 0;
	queue->unsaid_bytes = 0;
	queue->unsaid_packets = 0;
	if (explicit_moves_often(config))
		interval /= EXPLICIT_BLIND_PARTS;
	if (config->update_limit && explicit_is_rate(config->law))
		interval = hw_min(interval, config->update_limit);
	interval = hw_min(hw_max(interval, config->interval_min), EXPLICIT_LONGEST_INTERVAL);
	queue->interval = interval;
	queue->step = interval;
	queue->control_due += interval;
	period = interval + explicit_wait(queue) * interval;
	silent = now > queue->control_due ? (now - queue->control_due) / period : 0;
	if (silent > EXPLICIT_SILENT_INTERVALS)
		queue->control_due += (silent - EXPLICIT_SILENT_INTERVALS) * period;
}

/*
 * Ends a control interval. y belongs to the interval that ends, the queue term and the next interval to the
 * new d (2.6). With nothing to share there is no feedback, but averages follow the queue that drains (2.16).
 */
HW_FUNCTION void explicit_control(struct explicit_queue *queue HW_NONNULL, hw_u64 backlog_bytes, hw_u32 backlog_packets,
				  hw_u64 now)
{
	const hw_u64 input_rate = explicit_input_rate(queue);
	hw_s64 feedback;
	hw_u64 q;

	queue->rtt_previous = queue->average_rtt;
	explicit_average_rtt(queue);
	explicit_find_response(queue);
	explicit_average_packet(queue);
	explicit_count_flows(queue);
	q = explicit_persistent(queue);
	queue->empty = q ? 0 : (hw_u32)hw_min(queue->empty + 1, EXPLICIT_LARGEST_N);
	feedback = explicit_feedback(queue, q, input_rate, explicit_beta(queue));
	queue->queue_previous = q;
	queue->drops_previous = queue->drops;
	if (!queue->input_bytes)
		feedback = 0;
	if (explicit_is_rate(queue->config.law))
		explicit_move_rate(queue, feedback, input_rate);
	else
		explicit_share_feedback(queue, feedback, input_rate);
	explicit_note(queue, backlog_bytes, backlog_packets, input_rate, feedback);
	explicit_next_interval(queue, now);
}

/* When explicit_timer has something to do, in ns. */
HW_INLINE hw_u64 explicit_due(const struct explicit_queue *queue)
{
	return hw_min(queue->queue_due, queue->control_due);
}

/*
 * Does one thing that has become due by `now`, as if at the time when it did, and returns one of enum
 * explicit_event. The backlog is the one since the last event of the queue.
 */
HW_INLINE hw_u32 explicit_timer(struct explicit_queue *queue, hw_u64 backlog_bytes, hw_u32 backlog_packets, hw_u64 now)
{
	hw_u64 more;

	backlog_bytes = hw_min(backlog_bytes, EXPLICIT_LARGEST);
	if (explicit_due(queue) > now)
		return EXPLICIT_NOTHING;
	if (queue->queue_due <= queue->control_due) {
		explicit_measure_queue(queue, backlog_bytes, backlog_packets, now);
		return EXPLICIT_MEASURED;
	}
	more = hw_min(explicit_wait(queue), (now - queue->control_due) / queue->step + 1) * queue->step;
	if (more) {
		queue->interval += more;
		queue->control_due += more;
		return EXPLICIT_CONTINUED;
	}
	explicit_control(queue, backlog_bytes, backlog_packets, now);
	return EXPLICIT_CONTROLLED;
}

#endif

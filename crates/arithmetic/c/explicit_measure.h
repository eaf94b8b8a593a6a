/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a router measures: average RTT, input and persistent queue (xcp-rcp 2.4 to 2.6).
 * Units as in explicit.h.
 */
#ifndef HEADWAY_EXPLICIT_MEASURE_H
#define HEADWAY_EXPLICIT_MEASURE_H

#include "explicit_state.h"

/*
 * Shortest time over which the persistent queue is measured, in ns, and the shortest control interval if that
 * is shorter (2.5): a queue of many RTTs ago would be drained once in each of them.
 */
#define EXPLICIT_SHORTEST_MEASUREMENT 2000000ULL
/* The newest queue weighs 1/4 in lambda, in units of 2^-16 (2.8). */
#define EXPLICIT_QUARTER 16384U

/* Moves `average` towards `sample`, both below 2^58, with a weight in units of 2^-16. */
HW_INLINE hw_u64 explicit_average(hw_u64 average, hw_u64 sample, hw_u32 weight)
{
	const hw_u64 rest = EXPLICIT_ONE - weight;
	const hw_u64 low = (sample & 0xffff) * weight + (average & 0xffff) * rest + EXPLICIT_ONE / 2;

	return (sample >> EXPLICIT_BITS) * weight + (average >> EXPLICIT_BITS) * rest + (low >> EXPLICIT_BITS);
}

/* Counts an arrival, whether or not it has a header (2.4) with room for X. */
HW_INLINE void explicit_count(struct explicit_queue *queue, hw_u32 bytes, int says)
{
	queue->input_bytes += bytes;
	queue->input_packets++;
	queue->unsaid_bytes += says ? 0 : bytes;
	queue->unsaid_packets += !says;
}

/* Adds the RTT and X of a packet to the sums. Their product has 56 fraction bits. At 10 Gb/s the lower half
 * of them is all that it has, so it is kept. */
HW_INLINE void explicit_sum(struct explicit_queue *queue, hw_u32 rtt, hw_u32 x)
{
	const hw_u64 product = (hw_u64)x * hw_min(rtt, EXPLICIT_LONGEST_RTT);
	const hw_u64 low = queue->sum_xrtt_low + (product & (EXPLICIT_LONGEST_RTT - 1));

	queue->sum_x += x;
	queue->sum_xrtt += (product >> EXPLICIT_TIME_BITS) + (low >> EXPLICIT_TIME_BITS);
	queue->sum_xrtt_low = low & (EXPLICIT_LONGEST_RTT - 1);
}

/* d = sum of X RTT / sum of X: the mean over flows, not over packets (2.6). Without a sum
 * the last one stays. */
HW_INLINE void explicit_average_rtt(struct explicit_queue *queue)
{
	struct hw_wide sum = hw_multiply(queue->sum_xrtt, EXPLICIT_LONGEST_RTT);

	if (!queue->sum_x)
		return;
	sum = hw_add_wide(sum, queue->sum_xrtt_low + queue->sum_x / 2);
	queue->average_rtt = hw_max(hw_divide(sum, queue->sum_x), 1);
	queue->average_rtt_ns = hw_max((queue->average_rtt * 1000000000ULL) >> EXPLICIT_TIME_BITS, 1);
}

/*
 * The time in which flows react. A paced sender of RCP hears of R at its next packet. With less than a
 * packet per RTT that is later than d, and a law that moves R every d would move it many times before the
 * first of them shows.
 */
HW_INLINE void explicit_find_response(struct explicit_queue *queue)
{
	queue->response = queue->average_rtt;
	queue->response_ns = queue->average_rtt_ns;
	if (!explicit_is_rate(queue->config.law) || !queue->sum_x ||
	    queue->config.flags & EXPLICIT_PUBLISHED_INTERVALS)
		return;
	queue->response = hw_max(queue->response, hw_min(queue->sum_x / queue->input_packets, EXPLICIT_LONGEST_RTT));
	queue->response_ns = hw_max((queue->response * 1000000000ULL) >> EXPLICIT_TIME_BITS, 1);
}

/* The share of a time in ns that the interval lasts, 1 at most, in units of 2^-16. */
HW_INLINE hw_u32 explicit_share_of(const struct explicit_queue *queue, hw_u64 time)
{
	if (queue->interval >= time)
		return EXPLICIT_ONE;
	return (hw_u32)hw_max(hw_scale(queue->interval, EXPLICIT_ONE, time), 1);
}

/*
 * The share of the response time that the interval lasts, in units of 2^-16: what laws of RCP do in an
 * interval is that share of what they would do in the whole time. Without tau it is 1 with RCP, although d
 * has just changed (2.12).
 */
HW_INLINE hw_u32 explicit_part(const struct explicit_queue *queue)
{
	const struct explicit_config *config = &queue->config;
	const int shorter = explicit_is_rate(config->law) && (config->update_limit || explicit_moves_often(config));

	return shorter ? explicit_share_of(queue, queue->response_ns) : EXPLICIT_ONE;
}

/* `bytes` and the overhead of `packets`, in B with the fraction. */
HW_INLINE hw_u64 explicit_with_overhead(const struct explicit_queue *queue, hw_u64 bytes, hw_u64 packets)
{
	return hw_min(bytes + packets * queue->config.overhead, EXPLICIT_LARGEST) << EXPLICIT_BITS;
}

/* The rate of packets of this interval, in B/s, with the fraction. */
HW_INLINE hw_u64 explicit_rate_of(const struct explicit_queue *queue, hw_u64 bytes, hw_u64 packets)
{
	const hw_u64 input = explicit_with_overhead(queue, bytes, packets);

	return hw_min(hw_scale(input, 1000000000ULL, queue->interval), EXPLICIT_LARGEST << EXPLICIT_BITS);
}

/* y in B/s, with the fraction. */
HW_INLINE hw_u64 explicit_input_rate(const struct explicit_queue *queue)
{
	return explicit_rate_of(queue, queue->input_bytes, queue->input_packets);
}

/*
 * The number of flows: in an interval, the X of each sum to its length. Packets without a header count as
 * those of flows that send at R. A silence says nothing about the flows before it. The average is over
 * the time between packets of a flow: flows that hear of a low R together send a packet each at the same
 * time, and then wait.
 */
HW_INLINE void explicit_count_flows(struct explicit_queue *queue)
{
	const hw_u32 bits = EXPLICIT_TIME_BITS - EXPLICIT_BITS;
	const hw_u64 unsaid = explicit_rate_of(queue, queue->unsaid_bytes, queue->unsaid_packets);
	const hw_u64 most = EXPLICIT_LARGEST << EXPLICIT_BITS;
	hw_u64 flows, x;

	if (!queue->input_packets)
		return;
	flows = hw_min(hw_scale(queue->sum_x, 1000000000ULL, queue->interval << bits), most);
	if (queue->rate)
		flows += hw_min(hw_scale(unsaid, EXPLICIT_ONE, queue->rate), most);
	x = hw_scale(flows, queue->interval, queue->input_packets << EXPLICIT_BITS);
	queue->flows = explicit_average(queue->flows, flows, explicit_share_of(queue, hw_max(queue->response_ns, x)));
}

/* The average size of this interval's packets, which counts once queues are in packets (2.9). */
HW_INLINE void explicit_average_packet(struct explicit_queue *queue)
{
	if (queue->input_packets)
		queue->packet = explicit_with_overhead(queue, queue->input_bytes, queue->input_packets) / queue->input_packets;
}

/* The persistent queue q, in B or packets, with the fraction: the numerator of equation 5.7 (2.5). */
HW_INLINE hw_u64 explicit_persistent(const struct explicit_queue *queue)
{
	if (queue->config.flags & EXPLICIT_PACKETS)
		return (hw_u64)queue->queue_packets << EXPLICIT_BITS;
	return explicit_with_overhead(queue, queue->queue_bytes, queue->queue_packets);
}

/*
 * Tq = max(2 ms, (d - backlog / C) / 2), without the backlog if C is unknown (2.5). With control intervals
 * below 2 ms, the shortest of those takes the place of the 2 ms.
 */
HW_INLINE hw_u64 explicit_measurement_time(const struct explicit_queue *queue, hw_u64 bytes, hw_u32 packets)
{
	const hw_u64 shortest = hw_min(queue->config.interval_min, EXPLICIT_SHORTEST_MEASUREMENT);
	hw_u64 drain = 0;

	if (queue->config.capacity)
		drain = hw_scale(explicit_with_overhead(queue, bytes, packets), 1000000000ULL,
				 queue->config.capacity << EXPLICIT_BITS);
	if (drain >= queue->average_rtt_ns)
		return shortest;
	return hw_max((queue->average_rtt_ns - drain) / 2, shortest);
}

/*
 * Measures the persistent queue: the least backlog since the last time (2.5). Nothing changes between two
 * events of a queue, so once a measurement finds what the last one found, it is not repeated until `now` or
 * the end of the control interval.
 */
HW_INLINE void explicit_measure_queue(struct explicit_queue *queue, hw_u64 bytes, hw_u32 packets, hw_u64 now)
{
	const hw_u64 time = explicit_measurement_time(queue, bytes, packets);
	const hw_u64 end = hw_min(now, queue->control_due);
	const int settled = queue->queue_bytes == bytes && queue->least_bytes == bytes &&
			    queue->queue_packets == packets && queue->least_packets == packets;

	queue->queue_bytes = queue->least_bytes;
	queue->queue_packets = queue->least_packets;
	queue->least_bytes = bytes;
	queue->least_packets = packets;
	queue->queue_due += time;
	if (settled && queue->queue_due < end)
		queue->queue_due += (end - queue->queue_due) / time * time;
}

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The RTT of an established connection, and its one-way delays, from timestamps of both
 * directions (RFC 7323).
 *
 * The RTT of the handshake (wan 2.1) may be that of a full queue, and paths change. An end echoes the
 * timestamps that it gets, so the time from the first segment with a timestamp to its echo is the RTT between
 * the middlebox and that end; both ends together are the path. The least of two periods counts, because ends
 * also wait: for more data, for an application, for the timer of delayed ACKs. The owner numbers the periods.
 * Each should begin with a time in which queues are short: an RTT that may grow with a queue, from which
 * windows are computed that may grow with the RTT, would have no bound otherwise.
 *
 * An RTT does not say in which direction a queue is. But an end tells when it sent a segment, too: the time
 * at which that passes minus its timestamp is the delay from that end, and the timestamp of an echo minus the
 * time at which the echoed one passed is the delay towards it, each with the same unknown difference of two
 * clocks, so that only changes count. Timestamps are taken to count milliseconds, as with Linux, macOS and
 * FreeBSD. The owner believes delays that change together with the RTT; those by another clock do not. The
 * first ones are those of the handshake.
 *
 * Segments of one direction are taken to arrive one after another. If two processors have them at once, a
 * sample may be wrong, until two periods later.
 */
#ifndef HEADWAY_FLOW_RTT_H
#define HEADWAY_FLOW_RTT_H

#include "flow_track.h"

/* What a segment is good for. */
enum flow_measures {
	/* It has a new timestamp, whose echo is to be waited for. */
	FLOW_MARKS = 1,
	/* It has the echo that is waited for. */
	FLOW_ECHOES = 2,
	/* It tells when the end on FLOW_FAR_SIDE sent it. */
	FLOW_TELLS = 4,
};

/*
 * Notes the timestamps of a segment behind flow_on_segment(). Returns bits of enum flow_measures; without
 * any, as of most segments, the exact time does not matter.
 */
HW_INLINE hw_u32 flow_on_stamps(struct flow *flow, const struct flow_packet *packet)
{
	struct flow_echo *own = &flow->echo[packet->sender & 1];
	const struct flow_echo *other = &flow->echo[1 - (packet->sender & 1)];
	hw_u32 measures = 0;

	if (!packet->stamped)
		return 0;
	/* An echo of what was never sent is none. */
	if (other->waits && packet->flags & FLOW_ACK && !hw_before(packet->echo, other->mark) &&
	    !hw_before(other->newest, packet->echo) && flow_is_near(flow, packet))
		measures |= FLOW_ECHOES;
	/* Only the first segment with a timestamp: the echo may be that of any which has it. */
	if (!own->began || hw_before(own->newest, packet->stamp)) {
		if (!own->waits && own->began)
			measures |= FLOW_MARKS;
		if (packet->side == FLOW_FAR_SIDE && flow_is_near(flow, packet))
			measures |= FLOW_TELLS;
		own->newest = packet->stamp;
		own->began = 1;
	}
	return measures;
}

/* The mean of those that are in none yet, of which there are some. */
HW_INLINE hw_u32 flow_mean(const struct flow_least *least)
{
	return least->some / (hw_u32)hw_max(least->rest, 1) * FLOW_BLOCK;
}

/* Begins a period with nothing in it. Where nothing was in the one before, that of an older one stays: the
 * connection was silent. */
HW_INLINE void flow_end_least(struct flow_least *least)
{
	if (least->period[0] == FLOW_NO_RTT && least->rest)
		least->period[0] = flow_mean(least);
	least->some = 0;
	least->rest = 0;
	if (least->period[0] == FLOW_NO_RTT)
		return;
	least->period[1] = least->period[0];
	least->period[0] = FLOW_NO_RTT;
}

/* Begins a period if the present one is over. */
HW_INLINE void flow_end_period(struct flow *flow, hw_u32 period)
{
	hw_u32 k;

	if (period == flow->period)
		return;
	flow->period = period;
	for (k = 0; k < 2; k++) {
		flow_end_least(&flow->echo[k].rtt);
		flow_end_least(&flow->delays.way[k]);
	}
}

/* Notes a time in the present period. */
HW_INLINE void flow_note_time(struct flow_least *least, hw_u32 time)
{
	least->total += time;
	least->samples++;
	least->some += time / FLOW_BLOCK;
	least->rest++;
	/* A new connection may have met a queue in its handshake, so its first ones count at once. */
	if (least->rest < FLOW_BLOCK && least->means)
		return;
	least->period[0] = (hw_u32)hw_min(least->period[0], flow_mean(least));
	if (least->rest < FLOW_BLOCK)
		return;
	least->some = 0;
	least->rest = 0;
	least->means = 1;
}

/* Notes a delay from the far end, or towards it, in us and with the difference of both clocks. */
HW_INLINE void flow_note_delay(struct flow_delays *delays, hw_u32 way, hw_u32 delay)
{
	const hw_u32 kept = (way ? delay + delays->clock : delay - delays->clock) + FLOW_MIDDLE;

	if (kept - FLOW_MIDDLE / 2 > FLOW_MIDDLE)
		delays->began = 0;
	else
		flow_note_time(&delays->way[way], kept);
}

/* Notes when a segment of the far end passed. */
HW_INLINE void flow_note_sent(struct flow_delays *delays, hw_u32 stamp, hw_u64 now)
{
	const hw_u32 delay = (hw_u32)(now / 1000) - stamp * FLOW_TICK;

	if (!delays->began) {
		flow_forget_least(&delays->way[0]);
		flow_forget_least(&delays->way[1]);
		delays->clock = delay;
		delays->began = 1;
	}
	flow_note_delay(delays, 0, delay);
}

/* Sets the RTT to the least of both ends, where they are known. */
HW_INLINE void flow_sum_rtt(struct flow *flow)
{
	const hw_u64 first = hw_min(flow->echo[0].rtt.period[0], flow->echo[0].rtt.period[1]);
	const hw_u64 second = hw_min(flow->echo[1].rtt.period[0], flow->echo[1].rtt.period[1]);

	if (first != FLOW_NO_RTT && second != FLOW_NO_RTT)
		flow->rtt = hw_max((first + second) << FLOW_RTT_UNIT, 1);
}

/* Measures in a period with a segment for which flow_on_stamps() returned `measures`, at the
 * exact time in ns. */
HW_INLINE void flow_measure(struct flow *flow, const struct flow_packet *packet, hw_u32 measures, hw_u32 period, hw_u64 now)
{
	struct flow_echo *own = &flow->echo[packet->sender & 1];
	struct flow_echo *other = &flow->echo[1 - (packet->sender & 1)];

	if (measures & (FLOW_ECHOES | FLOW_TELLS))
		flow_end_period(flow, period);
	if (measures & FLOW_ECHOES) {
		const hw_u64 elapsed = now - other->marked;

		other->waits = 0;
		if (elapsed <= FLOW_LARGEST_RTT) {
			flow_note_time(&other->rtt, (hw_u32)(elapsed >> FLOW_RTT_UNIT));
			if (packet->side == FLOW_FAR_SIDE && flow->delays.began)
				flow_note_delay(&flow->delays, 1, packet->stamp * FLOW_TICK - (hw_u32)(other->marked / 1000));
		}
		flow_sum_rtt(flow);
	}
	if (measures & FLOW_TELLS)
		flow_note_sent(&flow->delays, packet->stamp, now);
	if (measures & FLOW_MARKS) {
		own->mark = packet->stamp;
		own->marked = now;
		own->waits = 1;
	}
}

#endif

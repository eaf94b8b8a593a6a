/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The RTT of an established connection, from timestamps of both directions (RFC 7323).
 *
 * The RTT of the handshake (wan 2.1) may be that of a full queue, and paths change. An end echoes the timestamps that it gets, so
 * the time from the first segment with a timestamp to its echo is the RTT between the middlebox and that end; both ends together
 * are the path. The least of two periods counts, because ends also wait: for more data, for an application, for the timer of
 * delayed ACKs. The owner numbers the periods. Each should begin with a time in which queues are short: an RTT that may grow with
 * a queue, from which windows are computed that may grow with the RTT, would have no bound otherwise.
 *
 * Segments of one direction are taken to arrive one after another. If two processors have them at once, a sample may be wrong,
 * until two periods later.
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
};

/*
 * Notes the timestamps of a segment behind flow_on_segment(). Returns bits of enum flow_measures; without any, as of most segments,
 * nobody needs to know the exact time.
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
		own->newest = packet->stamp;
		own->began = 1;
	}
	return measures;
}

/* Begins a period if the present one is over. Without an RTT in it, older ones stay: the connection was silent. */
HW_INLINE void flow_end_period(struct flow *flow, hw_u32 period)
{
	hw_u32 k;

	if (period == flow->period)
		return;
	flow->period = period;
	for (k = 0; k < 2; k++) {
		struct flow_echo *echo = &flow->echo[k];

		if (echo->least[0] == FLOW_NO_RTT)
			continue;
		echo->least[1] = echo->least[0];
		echo->least[0] = FLOW_NO_RTT;
	}
}

/* Notes an RTT of the present second. */
HW_INLINE void flow_note_recent(struct flow_echo *echo, hw_u32 rtt, hw_u64 now)
{
	const hw_u32 second = (hw_u32)(now >> FLOW_SECOND);

	if (second != echo->second) {
		echo->recent[1] = second - echo->second == 1 ? echo->recent[0] : FLOW_NO_RTT;
		echo->recent[0] = FLOW_NO_RTT;
		echo->second = second;
	}
	echo->recent[0] = (hw_u32)hw_min(echo->recent[0], rtt);
}

/* Sets the RTT to the least of both ends, where they are known. */
HW_INLINE void flow_sum_rtt(struct flow *flow)
{
	const hw_u64 first = hw_min(flow->echo[0].least[0], flow->echo[0].least[1]);
	const hw_u64 second = hw_min(flow->echo[1].least[0], flow->echo[1].least[1]);

	if (first != FLOW_NO_RTT && second != FLOW_NO_RTT)
		flow->rtt = hw_max((first + second) << FLOW_RTT_UNIT, 1);
}

/* Measures in a period with a segment for which flow_on_stamps() returned `measures`, at the exact time in ns. */
HW_INLINE void flow_measure(struct flow *flow, const struct flow_packet *packet, hw_u32 measures, hw_u32 period, hw_u64 now)
{
	struct flow_echo *own = &flow->echo[packet->sender & 1];
	struct flow_echo *other = &flow->echo[1 - (packet->sender & 1)];

	if (measures & FLOW_ECHOES) {
		const hw_u64 elapsed = now - other->marked;

		other->waits = 0;
		flow_end_period(flow, period);
		if (elapsed <= FLOW_LARGEST_RTT) {
			other->least[0] = (hw_u32)hw_min(other->least[0], elapsed >> FLOW_RTT_UNIT);
			flow_note_recent(other, (hw_u32)(elapsed >> FLOW_RTT_UNIT), now);
		}
		flow_sum_rtt(flow);
	}
	if (measures & FLOW_MARKS) {
		own->mark = packet->stamp;
		own->marked = now;
		own->waits = 1;
	}
}

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The packets in flight in the order of sending, and which of them an ACK settles (rapid 1.4, T_S).
 *
 * The caller keeps them in a ring whose number of slots is a power of two, and finds each with
 * rapid_flight_first and rapid_flight_end. Segments have numbers that may count segments or bytes;
 * they wrap. After an ACK:
 *
 *     rapid_flight_on_ack(&flight, &ack, config.unit);
 *     while (rapid_flight_take(&flight, &ring[rapid_flight_first(&flight, slots)], &packet))
 *             rapid_on_packet(&rapid, &config, gaps, scratch, &packet);
 *
 * A caller whose loops are bounded may stop early and go on after the next ACK; the packet that caused this
 * one then counts as one without a stamp.
 */
#ifndef HEADWAY_RAPID_FLIGHT_H
#define HEADWAY_RAPID_FLIGHT_H

#include "rapid_acks.h"

/* A packet in flight. */
struct rapid_sent {
	/* Time since the departure before it, in ns. */
	hw_u64 gap;
	/* The number of its segment. */
	hw_u32 segment;
	/* Number of its p-stream, and position in it; how many packets that has. */
	hw_u32 stream;
	hw_u8 index;
	hw_u8 packets;
	/* Of enum rapid_sent_flag. */
	hw_u8 flags;
};

enum rapid_sent_flag {
	/* The segment had left before. */
	RAPID_RETRANSMISSION = 1,
	/* The packet belongs to a p-stream. */
	RAPID_PROBE = 2,
	/* The gap before it is an idle time. */
	RAPID_AFTER_IDLE = 4,
};

/* An acknowledgment. */
struct rapid_ack {
	/* When it arrived, in ns. */
	hw_u64 now;
	/* The first segment that it leaves unacknowledged. */
	hw_u32 una;
	/* The segment that caused it and that was sent only once, if `arrived`; and when that arrived, in
	 * units of the configuration, if `stamped`. */
	hw_u32 segment;
	hw_u32 stamp;
	hw_u32 arrived;
	hw_u32 stamped;
};

struct rapid_flight {
	/* When the latest packet left, in ns. */
	hw_u64 last;
	/* The numbers of the first packet and of the next one, counted from 0; both wrap. */
	hw_u32 first;
	hw_u32 end;
	/* The first segment that is not acknowledged. */
	hw_u32 una;
	/* The segment that caused the latest ACK, while `arrived`, and its stamp. */
	hw_u32 segment;
	hw_u32 stamp;
	hw_u32 arrived;
	/* Whether the receiver has stamped a segment. */
	hw_u32 has_stamps;
	/* Whether a lost packet counts as one without a stamp, and a p-stream with holes
	 * yields an estimate. */
	hw_u32 bridges_holes;
	/* Packets that were forgotten because the ring was full; wraps. */
	hw_u32 forgotten;
};

/* The slot of the first packet in a ring of `slots`. */
HW_INLINE hw_u32 rapid_flight_first(const struct rapid_flight *flight, hw_u32 slots)
{
	return flight->first & (slots - 1);
}

/* The slot of the next packet in a ring of `slots`. */
HW_INLINE hw_u32 rapid_flight_end(const struct rapid_flight *flight, hw_u32 slots)
{
	return flight->end & (slots - 1);
}

/* Whether a ring of `slots` has room for no more packets. */
HW_INLINE int rapid_flight_is_full(const struct rapid_flight *flight, hw_u32 slots)
{
	return flight->end - flight->first >= slots;
}

/* A packet leaves at `now` ns and goes into `slot`, which is that of rapid_flight_end. A full ring forgets
 * its first packet, whose p-stream then has a hole. */
HW_INLINE void rapid_flight_push(struct rapid_flight *flight, struct rapid_sent *slot, hw_u32 slots,
				 const struct rapid_sent *sent, hw_u64 now)
{
	if (rapid_flight_is_full(flight, slots)) {
		flight->first++;
		flight->forgotten++;
	}
	*slot = *sent;
	slot->gap = now - flight->last;
	flight->last = now;
	flight->end++;
}

/* Handles an ACK, with stamps in units of `unit` ns. Call rapid_flight_take afterwards until it returns 0. */
HW_INLINE void rapid_flight_on_ack(struct rapid_flight *flight, const struct rapid_ack *ack, hw_u32 unit)
{
	if (hw_before(flight->una, ack->una))
		flight->una = ack->una;
	flight->arrived = ack->arrived;
	if (!ack->arrived)
		return;
	flight->segment = ack->segment;
	if (ack->stamped) {
		flight->has_stamps = 1;
		flight->stamp = ack->stamp;
	} else if (flight->has_stamps) {
		flight->stamp = 0;
	} else {
		/* The receiver stamps nothing, so the arrival of its ACK has to do. */
		flight->stamp = (hw_u32)hw_max((hw_u32)(ack->now / unit), 1);
	}
}

/* Removes the first packet; `arrived` says whether it is the one that caused the ACK. */
HW_INLINE void rapid_flight_settle(struct rapid_flight *flight, const struct rapid_sent *sent, int arrived,
				   struct rapid_packet *packet)
{
	const int again = sent->flags & RAPID_RETRANSMISSION;
	/* Every segment above a hole is acknowledged by itself, so one that a later one
	 * overtakes is missing. */
	const int lost = !again && !arrived && !hw_before(sent->segment, flight->una);
	const int usable = sent->flags & RAPID_PROBE && (flight->bridges_holes || (!lost && !again));

	flight->first++;
	*packet = (struct rapid_packet){
		.gap = sent->gap,
		.stream = sent->stream,
		.index = sent->index,
		.stamp = arrived ? flight->stamp : 0,
		.unusable = !usable,
		.packets = sent->packets,
		.lost = (hw_u32)lost,
	};
}

/*
 * Returns 1 with the next packet whose fate is known: one that was sent before the segment that caused the
 * ACK, that segment, or one that the ACK covers. `first` is in the slot of rapid_flight_first.
 */
HW_INLINE int rapid_flight_take(struct rapid_flight *flight, struct rapid_sent *first, struct rapid_packet *packet)
{
	int known = 0;
	int arrived = 0;

	if (flight->first == flight->end) {
		flight->arrived = 0;
		return 0;
	}
	if (flight->arrived) {
		known = first->flags & RAPID_RETRANSMISSION || hw_before(first->segment, flight->segment);
		arrived = !known && first->segment == flight->segment;
	}
	if (!known && !arrived) {
		flight->arrived = 0;
		if (!hw_before(first->segment, flight->una))
			return 0;
	}
	if (first->flags & RAPID_AFTER_IDLE) {
		/* An idle time is no gap, so the next p-stream begins without the last one's arrival. */
		first->flags &= (hw_u8)~RAPID_AFTER_IDLE;
		*packet = (struct rapid_packet){ .stream = first->stream, .index = first->index, .unusable = 1 };
		return 1;
	}
	if (arrived)
		flight->arrived = 0;
	rapid_flight_settle(flight, first, arrived, packet);
	return 1;
}

#endif

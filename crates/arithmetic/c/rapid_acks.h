/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * From acknowledged packets to the gaps of complete p-streams (rapid 2.8).
 *
 * The receiver delays ACKs, so only some packets have an arrival time, their *stamp*. Each interval between
 * two stamps is spread evenly over the packets it covers. An interval across the end of a stream completes
 * that stream and leaves its remainder to the next one:
 *
 *     packets  ... 61   62   63 |  0    1    2 ...
 *     stamps       |              |         |
 *                  +--------------+---------+        62 and 63 get two thirds of the first interval, 0 gets one
 *
 * A stream with a hole yields nothing (2.13): a packet that was lost or retransmitted, one sent outside of a
 * stream among its packets, a missing one, or an end that never came. The next stream then begins anew. Gaps
 * of its packets before the first stamp are unknown; the stream has fewer samples than packets.
 */
#ifndef HEADWAY_RAPID_ACKS_H
#define HEADWAY_RAPID_ACKS_H

#include "rapid_gaps.h"

/* A packet whose fate is known. */
struct rapid_packet {
	/* Time from the departure of the packet sent before it, in ns, as they really left; above
	 * RAPID_MAX_GAP it counts as that. */
	hw_u64 gap;
	/* Number of its p-stream, and position in it from 0. */
	hw_u32 stream;
	hw_u32 index;
	/* Arrival time at the receiver in units of the configuration, modulo 2^32; 0 for none. */
	hw_u32 stamp;
	/* Whether the packet belongs to no stream (2.2): a tail of less than a whole stream, or a segment
	 * smaller than the others. Also whether it was lost or retransmitted (2.13), unless its stream is to
	 * yield an estimate all the same; it then counts as a packet without a stamp. */
	hw_u32 unusable;
	/* Packets in its p-stream; 0 for as many as the present shape has. */
	hw_u32 packets;
	/* Whether the packet or its ACK was lost: a later packet is acknowledged, and this one is not. */
	hw_u32 lost;
};

/* An interval between two stamps. Each of its `count` packets gets a share, the first few 1 ns more. */
struct rapid_interval {
	hw_u64 send;
	hw_u64 receive;
	hw_u32 longer_send;
	hw_u32 longer_receive;
	hw_u32 count;
	/* The first ones of its packets that belong to streams with holes. */
	hw_u32 foreign;
};

struct rapid_acks {
	struct rapid_interval interval;
	/* Sum of the send gaps since the latest stamp, in ns. */
	hw_u64 sent;
	/* Sum of the send gaps of the stream that is being filled, in ns. */
	hw_u64 length;
	/* The latest stamp, if there is one. */
	hw_u32 last;
	hw_u32 stamped;
	/* Packets since the latest stamp, and the first ones of them that belong to streams with holes. */
	hw_u32 waiting;
	hw_u32 foreign;
	/* Stream of the latest packet, and the index that the next one must have. */
	hw_u32 stream;
	hw_u32 next;
	/* Whether that stream has a hole. */
	hw_u32 broken;
	/* Packets before the first stamp that are not yet counted to a stream; the ones counted to the stream
	 * that is being filled; its samples; and whether it has been handed out. */
	hw_u32 missing;
	hw_u32 skipped;
	hw_u32 filled;
	hw_u32 complete;
	/* Packets in the stream that is being filled, 0 before it begins; in the latest one; and the number
	 * of streams that began after the one that is being filled. */
	hw_u32 filling;
	hw_u32 packets;
	hw_u32 behind;
	/* Streams before `oldest` are ignored while `discarding`. */
	hw_u32 oldest;
	hw_u32 discarding;
};

/* Forgets everything under way, until the next stream begins. */
HW_INLINE void rapid_acks_restart(struct rapid_acks *acks)
{
	acks->interval.count = 0;
	acks->sent = 0;
	acks->length = 0;
	acks->stamped = 0;
	acks->waiting = 0;
	acks->foreign = 0;
	acks->broken = 1;
	acks->missing = 0;
	acks->skipped = 0;
	acks->filled = 0;
	acks->complete = 0;
	acks->filling = 0;
	acks->behind = 0;
}

/* Ignores all packets of streams before `oldest`. */
HW_INLINE void rapid_acks_discard(struct rapid_acks *acks, hw_u32 oldest)
{
	rapid_acks_restart(acks);
	acks->oldest = oldest;
	acks->discarding = 1;
}

/* Whether a stream is discarded. The rule ends with the first stream that is not, because numbers wrap. */
HW_INLINE int rapid_acks_ignores(struct rapid_acks *acks, hw_u32 stream)
{
	if (acks->discarding && !hw_before(stream, acks->oldest))
		acks->discarding = 0;
	return acks->discarding != 0;
}

/* A stream of `packets` packets begins. Two lengths are known at a time: of the stream that is being filled,
 * and of all those after it. */
HW_INLINE void rapid_acks_begin(struct rapid_acks *acks, hw_u32 packets)
{
	if (acks->behind && packets != acks->packets)
		rapid_acks_restart(acks);
	if (acks->broken) {
		acks->foreign = acks->waiting;
		acks->missing = 0;
		acks->skipped = 0;
		acks->filled = 0;
		acks->length = 0;
		acks->broken = 0;
	}
	if (acks->filling)
		acks->behind++;
	else
		acks->filling = packets;
	acks->packets = packets;
}

/* Follows the position in a stream of `packets` packets; finds holes and beginnings. */
HW_INLINE void rapid_acks_follow(struct rapid_acks *acks, const struct rapid_packet *packet, hw_u32 packets)
{
	if (packet->index) {
		if (packet->stream != acks->stream || packet->index != acks->next)
			rapid_acks_restart(acks);
	} else {
		if (packet->stream != acks->stream + 1 || acks->next != acks->packets)
			rapid_acks_restart(acks);
		rapid_acks_begin(acks, packets);
	}
	acks->stream = packet->stream;
	acks->next = packet->index + 1;
}

/* Closes the interval that ends with a stamp `elapsed` units of `unit` ns after the latest one. */
HW_INLINE void rapid_acks_close(struct rapid_acks *acks, hw_u32 elapsed, hw_u32 unit)
{
	struct rapid_interval *interval = &acks->interval;
	const hw_u32 count = acks->waiting;
	/* 31 bits of units and at most 20 of ns. */
	const hw_u64 receive = (hw_u64)elapsed * unit;

	interval->send = acks->sent / count;
	interval->longer_send = (hw_u32)(acks->sent % count);
	interval->receive = receive / count;
	interval->longer_receive = (hw_u32)(receive % count);
	interval->count = count;
	interval->foreign = acks->foreign;
}

/*
 * Adds the next packet in the order of sending, with stamps in units of `unit` ns. Its stream has `packets`
 * packets unless it says otherwise. Call rapid_take afterwards until it returns 0.
 *
 * A stamp of 0 or from the past is none. The upper half of the numbers is the past, so a gap may last 2^31
 * units: 35 minutes of microseconds. Without a stamp for RAPID_MAX_PACKETS packets everything begins anew, so
 * that one wild stamp does not make all later ones look old.
 */
HW_INLINE void rapid_push(struct rapid_acks *acks, const struct rapid_packet *packet, hw_u32 packets, hw_u32 unit)
{
	if (packet->unusable || rapid_acks_ignores(acks, packet->stream)) {
		rapid_acks_restart(acks);
		acks->stream = packet->stream;
		acks->next = packet->index + 1;
		return;
	}
	if (acks->waiting >= RAPID_MAX_PACKETS)
		rapid_acks_restart(acks);
	rapid_acks_follow(acks, packet, packet->packets ? (hw_u32)hw_min(packet->packets, RAPID_MAX_PACKETS) : packets);
	acks->waiting++;
	acks->sent += hw_min(packet->gap, RAPID_MAX_GAP);
	if (acks->broken)
		acks->foreign = acks->waiting;
	if (!packet->stamp)
		return;
	if (!acks->stamped) {
		acks->missing += acks->waiting - acks->foreign;
	} else {
		hw_u32 elapsed = packet->stamp - acks->last;

		if (elapsed >> 31)
			return;
		rapid_acks_close(acks, elapsed, unit);
	}
	acks->last = packet->stamp;
	acks->stamped = 1;
	acks->waiting = 0;
	acks->foreign = 0;
	acks->sent = 0;
}

/* Moves one sample from the interval to the stream that is being filled. */
HW_FUNCTION hw_u32 rapid_take_one(struct rapid_acks *acks HW_NONNULL, struct rapid_gaps *gaps HW_NONNULL)
{
	HW_GIVEN(acks && gaps);
	struct rapid_interval *interval = &acks->interval;
	hw_u64 send = interval->send;
	hw_u64 receive = interval->receive;
	hw_u32 i = acks->filled;

	interval->count--;
	if (interval->longer_send) {
		interval->longer_send--;
		send++;
	}
	if (interval->longer_receive) {
		interval->longer_receive--;
		receive++;
	}
	if (interval->foreign) {
		interval->foreign--;
		return 0;
	}
	if (i >= RAPID_MAX_PACKETS)
		return 0;
	gaps->send[i] = send;
	gaps->receive[i] = receive;
	acks->length += send;
	acks->filled = i + 1;
	return 0;
}

/*
 * Returns 1 when a stream is complete, with its samples in `gaps` and the sum of its send gaps in `length`; 0
 * when the interval is used up. `gaps` must be the same at each call.
 */
HW_FUNCTION hw_u32 rapid_take(struct rapid_acks *acks HW_NONNULL, struct rapid_gaps *gaps HW_NONNULL)
{
	HW_GIVEN(acks && gaps);
	hw_u32 i;

	if (acks->complete) {
		acks->complete = 0;
		acks->skipped = 0;
		acks->filled = 0;
		acks->length = 0;
		acks->filling = acks->behind ? acks->packets : 0;
		acks->behind -= acks->behind > 0;
	}
	if (!acks->filling)
		return 0;
	if (!acks->filled) {
		hw_u32 more = (hw_u32)hw_min(acks->missing, acks->filling - acks->skipped);

		acks->skipped += more;
		acks->missing -= more;
	}
	for (i = 0; i < RAPID_MAX_PACKETS; i++) {
		if (!acks->interval.count || acks->skipped + acks->filled >= acks->filling)
			break;
		rapid_take_one(acks, gaps);
	}
	if (acks->skipped + acks->filled < acks->filling)
		return 0;
	gaps->begin = 0;
	gaps->end = acks->filled;
	acks->complete = 1;
	return 1;
}

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Connections of TCP as a middlebox sees them: their handshake, the scales of their windows, and
 * their RTT (wan 2.1).
 *
 * The owner has two tables by struct flow_key: connections in their handshake, and established ones, so that
 * a flood of SYNs cannot push out the latter. It looks up what flow_kind() says, and does what the functions
 * return. All of them keep to one rule: a connection about which anything is in doubt is left alone, and its
 * windows pass unchanged.
 */
#ifndef HEADWAY_FLOW_TRACK_H
#define HEADWAY_FLOW_TRACK_H

#include "flow_packet.h"

/* How long a SYN may take to be answered: Linux repeats it for 127 s by default. In ns. */
#define FLOW_HALF_OPEN 127000000000ULL
/* Largest RTT; what is above is a clock that has stepped, or an end that waited. In ns. */
#define FLOW_LARGEST_RTT 60000000000ULL
/* An established connection notes the time of packets that are so far apart: others need not write to
 * its memory. In ns. */
#define FLOW_SEEN_STEP 100000000ULL
/* Sequence numbers that are so far from the expected ones do not belong to the connection. Windows
 * are seldom so large. */
#define FLOW_NEAR (1U << 26)
/* RTTs of periods are kept in 256 ns, so that 32 bits hold FLOW_LARGEST_RTT many times. */
#define FLOW_RTT_UNIT 8
#define FLOW_NO_RTT 0xffffffffU
/* What timestamps count, in us. */
#define FLOW_TICK 1000U
/* One-way delays are kept with this in place of the first one, in us. Clocks that differ by as much as the
 * half of it from then on are other ones than before, or no clocks of FLOW_TICK. */
#define FLOW_MIDDLE (1U << 30)
/* How many times are a mean: fewer would be what jitter has spared, more last longer than a queue is gone.
 * Range 2 to 8, a power of two. */
#define FLOW_BLOCK 4
/* The side of the ends whose clocks tell one-way delays: beyond the link whose queues they are to show. */
#define FLOW_FAR_SIDE 1

/* What to do with a segment. */
enum flow_kind {
	/* It may begin a handshake: flow_on_syn(). */
	FLOW_ASK,
	/* It may answer one: flow_on_answer(). */
	FLOW_ANSWER,
	/* It may complete one, flow_on_third(), or is of an established connection: flow_on_segment(). */
	FLOW_LATER,
};

/* How far a handshake is. */
enum flow_stage {
	FLOW_ASKED,
	FLOW_ANSWERED,
	/* Both ends have sent a SYN without having seen the other's (RFC 9293 3.5). Such a
	 * connection is left alone. */
	FLOW_CROSSED,
};

/* A connection in its handshake. Arrays have an entry for each end of the key; times are in ns. */
struct flow_half {
	/* The first and the latest SYN, and the first and the latest SYN-ACK. */
	hw_u64 first_ask;
	hw_u64 last_ask;
	hw_u64 first_answer;
	hw_u64 last_answer;
	/* Sequence numbers of both. */
	hw_u32 asked;
	hw_u32 answered;
	/* Bytes of data in the SYN (RFC 7413). */
	hw_u32 data;
	/* The timestamp of the first SYN-ACK, where it has one. */
	hw_u32 stamp;
	hw_u16 mss[2];
	hw_u8 scale[2];
	/* The end that sent the SYN, and the side on which it arrived. */
	hw_u8 client;
	hw_u8 side;
	hw_u8 dscp;
	hw_u8 stage;
	hw_u8 stamped;
	hw_u8 unused[5];
};

/*
 * The least mean of FLOW_BLOCK times, and sums for the mean of all. Where there was none, the
 * least is FLOW_NO_RTT.
 *
 * The least of single ones would be one that jitter has spared, which other packets do not see.
 */
struct flow_least {
	/* Of this period and of the one before. */
	hw_u32 period[2];
	/* Of all that were measured; both wrap. */
	hw_u64 total;
	hw_u32 samples;
	/* Parts of those that are not in a mean yet, and how many there are. */
	hw_u32 some;
	hw_u32 rest;
	/* Whether there was a mean. */
	hw_u32 means;
};

/* What is known of the RTT between the middlebox and one end, from timestamps that the other end
 * sends (flow_rtt.h). */
struct flow_echo {
	/* When the segment passed whose timestamp is to be echoed, in ns. */
	hw_u64 marked;
	/* That timestamp, and the newest one. */
	hw_u32 mark;
	hw_u32 newest;
	/* RTTs in units of FLOW_RTT_UNIT. */
	struct flow_least rtt;
	/* Whether `mark` is to be echoed yet, and whether there is a `newest`. */
	hw_u8 waits;
	hw_u8 began;
	hw_u8 unused[2];
};

/* One-way delays between the middlebox and the end on FLOW_FAR_SIDE, by the clock of that end's
 * timestamps (flow_rtt.h). */
struct flow_delays {
	/* From that end and towards it, in us and more than they are by something that is not known. */
	struct flow_least way[2];
	/* When the first segment passed, minus its timestamp, in us; wraps. */
	hw_u32 clock;
	/* Whether there was one. */
	hw_u32 began;
};

/* An established connection. Arrays have an entry for each end of the key. */
struct flow {
	/* RTT in ns, at least 1; 0 if it is not known. That of the handshake, or the least of two
	 * periods (flow_rtt.h). */
	hw_u64 rtt;
	/* Time of its latest packet, in ns, up to FLOW_SEEN_STEP late. */
	hw_u64 seen;
	/* What each end has acknowledged last. */
	hw_u32 acknowledged[2];
	/* The highest sequence number that each end was let to allow (rwm.h). */
	hw_u32 edge[2];
	/* For its owner. */
	hw_u32 class;
	hw_u16 mss[2];
	/* The field of the window that each end has told last. */
	hw_u16 told[2];
	/* Both FLOW_NO_SCALE if the window must not be changed. */
	hw_u8 scale[2];
	/* The end that sent the SYN, and the code point of that. */
	hw_u8 client;
	hw_u8 dscp;
	/* Ends that have sent a FIN, and ends whose edge is known, a bit each. */
	hw_u8 closed;
	hw_u8 has_edge;
	/* Whether a SYN or SYN-ACK was repeated, so that the RTT is one of several. */
	hw_u8 ambiguous;
	/* The side of the end that sent the SYN. */
	hw_u8 side;
	/* The number of the period of the latest RTT. */
	hw_u32 period;
	/* By the end that sends the timestamps. */
	struct flow_echo echo[2];
	struct flow_delays delays;
};

HW_INLINE hw_u32 flow_kind(const struct flow_packet *packet)
{
	if (!(packet->flags & FLOW_SYN))
		return FLOW_LATER;
	return packet->flags & FLOW_ACK ? FLOW_ANSWER : FLOW_ASK;
}

/* Whether two ends have the same address and port: then they cannot be told apart. */
HW_INLINE int flow_is_own(const struct flow_key *key)
{
	return !flow_is_after(key->address[0], key->address[1], key->port[0], key->port[1]) &&
	       !flow_is_after(key->address[1], key->address[0], key->port[1], key->port[0]);
}

/* The scale of an end that has said two: if they differ, it is unknown which one the other end has heard. */
HW_INLINE hw_u8 flow_agreed(hw_u8 before, hw_u8 after)
{
	return before == after ? after : FLOW_NO_SCALE;
}

/* Whether a handshake is too old for what belongs to it, or the clock has stepped back. */
HW_INLINE int flow_is_stale(const struct flow_half *half, hw_u64 now)
{
	return now < half->last_ask || now - half->last_ask > FLOW_HALF_OPEN;
}

/*
 * Begins a handshake, or notes a repeated SYN. `*half` is the entry of the table if `known`, and a new one
 * otherwise. Returns whether it is to be stored.
 */
HW_INLINE int flow_on_syn(struct flow_half *half, int known, const struct flow_packet *packet, hw_u64 now)
{
	const hw_u32 sender = packet->sender & 1;

	if (flow_is_own(&packet->key))
		return 0;
	if (known && !flow_is_stale(half, now)) {
		if (half->client == sender && half->asked == packet->sequence) {
			/* What is repeated after the answer says nothing about how long that took. */
			if (half->stage == FLOW_ASKED)
				half->last_ask = now;
			half->scale[sender] = flow_agreed(half->scale[sender], packet->scale);
			half->data = (hw_u32)hw_max(half->data, packet->data);
			return 1;
		}
		if (half->client != sender && half->stage != FLOW_ANSWERED) {
			half->stage = FLOW_CROSSED;
			return 1;
		}
	}
	*half = (struct flow_half){
		.first_ask = now,
		.last_ask = now,
		.asked = packet->sequence,
		.data = packet->data,
		.mss = { packet->mss, packet->mss },
		.scale = { packet->scale, packet->scale },
		.client = (hw_u8)sender,
		.side = packet->side,
		.dscp = packet->dscp,
		.stage = FLOW_ASKED,
	};
	return 1;
}

/*
 * Notes a SYN-ACK; returns whether it answers the SYN of `*half`, so that no older connection between the
 * same ends exists any more. It must come from the other side: traffic that turns round at the middlebox does
 * not cross what is to be shared.
 */
HW_INLINE int flow_on_answer(struct flow_half *half, const struct flow_packet *packet, hw_u64 now)
{
	const hw_u32 sender = packet->sender & 1;

	if (half->stage == FLOW_CROSSED || half->client == sender || half->side == packet->side || flow_is_stale(half, now) ||
	    packet->acknowledgement - (half->asked + 1) > half->data)
		return 0;
	if (half->stage == FLOW_ANSWERED && half->answered == packet->sequence) {
		half->last_answer = now;
		half->scale[sender] = flow_agreed(half->scale[sender], packet->scale);
		return 1;
	}
	half->stage = FLOW_ANSWERED;
	half->answered = packet->sequence;
	half->first_answer = now;
	half->last_answer = now;
	half->stamp = packet->stamp;
	half->stamped = packet->stamped;
	half->mss[sender] = packet->mss;
	half->scale[sender] = packet->scale;
	return 1;
}

/*
 * The time from a question, which may have been repeated, to its answer. With one that was, it is that from
 * the latest one only if that is at most `previous`, an earlier RTT, and otherwise the larger one; 0 for
 * `previous` if there is none. Returns all bits set if the clock has stepped back.
 */
HW_INLINE hw_u64 flow_elapsed(hw_u64 first, hw_u64 last, hw_u64 answer, hw_u64 previous)
{
	if (answer < last || last < first)
		return ~0ULL;
	return answer - last <= previous ? answer - last : answer - first;
}

HW_INLINE void flow_forget_least(struct flow_least *least)
{
	least->period[0] = FLOW_NO_RTT;
	least->period[1] = FLOW_NO_RTT;
	least->total = 0;
	least->samples = 0;
	least->some = 0;
	least->rest = 0;
	least->means = 0;
}

/*
 * Sets the RTT of a connection to that of its handshake, whose third segment has come, if it can be
 * known. Its two parts are what later ones are compared with, unless a segment was repeated: then they
 * may belong to another one.
 */
HW_INLINE void flow_set_rtt(struct flow *flow, const struct flow_half *half, hw_u64 now, hw_u64 previous)
{
	const hw_u64 far = flow_elapsed(half->first_ask, half->last_ask, half->first_answer, previous);
	const hw_u64 near = flow_elapsed(half->first_answer, half->last_answer, now, previous);
	const int known = far <= FLOW_LARGEST_RTT && near <= FLOW_LARGEST_RTT && far + near <= FLOW_LARGEST_RTT;
	hw_u32 parts[2] = { FLOW_NO_RTT, FLOW_NO_RTT };
	hw_u32 k;

	flow->rtt = known ? hw_max(far + near, 1) : 0;
	if (known && !flow->ambiguous) {
		parts[0] = (hw_u32)(far >> FLOW_RTT_UNIT);
		parts[1] = (hw_u32)(near >> FLOW_RTT_UNIT);
	}
	for (k = 0; k < 2; k++) {
		flow_forget_least(&flow->echo[k].rtt);
		flow_forget_least(&flow->delays.way[k]);
	}
	/* What the client sends is echoed by the server, which is far. */
	flow->echo[0].rtt.period[1] = flow->client ? parts[1] : parts[0];
	flow->echo[1].rtt.period[1] = flow->client ? parts[0] : parts[1];
}

/* Takes the delays of a handshake, if the far end has answered, for the first ones. */
HW_INLINE void flow_begin_delays(struct flow_delays *delays, const struct flow_half *half)
{
	if (!half->stamped || half->side == FLOW_FAR_SIDE)
		return;
	delays->clock = (hw_u32)(half->first_answer / 1000) - half->stamp * FLOW_TICK;
	delays->began = 1;
	delays->way[0].period[1] = FLOW_MIDDLE;
	delays->way[1].period[1] = FLOW_MIDDLE + (hw_u32)((half->first_answer - half->first_ask) / 1000);
}

/*
 * Returns whether a segment completes the handshake of `*half`. Then `*flow` is the connection, to be
 * stored in place of that, with a class that its owner gives it. `previous` is an earlier RTT between the
 * same hosts in ns, or 0.
 */
HW_INLINE int flow_on_third(const struct flow_half *half, const struct flow_packet *packet, hw_u64 now, hw_u64 previous,
			    struct flow *flow)
{
	const hw_u32 sender = packet->sender & 1;
	hw_u8 scaled;

	if (half->stage != FLOW_ANSWERED || half->client != sender || half->side != packet->side || flow_is_stale(half, now) ||
	    (packet->flags & (FLOW_ACK | FLOW_RST)) != FLOW_ACK)
		return 0;
	/* With data in the SYN, both ends may be further already. */
	if (packet->acknowledgement - (half->answered + 1) > FLOW_NEAR || packet->sequence - (half->asked + 1) > FLOW_NEAR)
		return 0;
	/* Only if both say a scale, windows have one (RFC 7323 2.2). */
	scaled = half->scale[0] != FLOW_NO_SCALE && half->scale[1] != FLOW_NO_SCALE;
	/* Field by field: a value of all of them would be built on BPF's stack first. */
	*flow = (struct flow){ 0 };
	flow->seen = now;
	flow->mss[0] = half->mss[0];
	flow->mss[1] = half->mss[1];
	flow->scale[0] = scaled ? half->scale[0] : FLOW_NO_SCALE;
	flow->scale[1] = scaled ? half->scale[1] : FLOW_NO_SCALE;
	flow->client = half->client;
	flow->side = half->side;
	flow->dscp = half->dscp;
	flow->ambiguous = half->first_ask != half->last_ask || half->first_answer != half->last_answer;
	flow_set_rtt(flow, half, now, previous);
	if (!flow->ambiguous)
		flow_begin_delays(&flow->delays, half);
	/* Two branches rather than a variable index, for BPF's stack. */
	if (sender) {
		flow->acknowledged[1] = packet->acknowledgement;
		flow->acknowledged[0] = packet->sequence;
	} else {
		flow->acknowledged[0] = packet->acknowledgement;
		flow->acknowledged[1] = packet->sequence;
	}
	return 1;
}

/*
 * Whether a segment may belong to a connection: a sender that guesses addresses and ports does not guess the
 * sequence number (RFC 5961).
 */
HW_INLINE int flow_is_near(const struct flow *flow, const struct flow_packet *packet)
{
	return packet->sequence - flow->acknowledged[1 - (packet->sender & 1)] + FLOW_NEAR <= 2 * FLOW_NEAR;
}

/*
 * Notes a segment of an established connection; returns whether the connection ends with it: with a reset, or
 * because both ends have sent their FIN.
 */
HW_INLINE int flow_on_segment(struct flow *flow, const struct flow_packet *packet, hw_u64 now)
{
	const hw_u32 sender = packet->sender & 1;

	/* Also if the clock has stepped back. */
	if (now - flow->seen > FLOW_SEEN_STEP)
		flow->seen = now;
	if (packet->flags & FLOW_ACK) {
		flow->told[sender] = packet->window;
		if (hw_before(flow->acknowledged[sender], packet->acknowledgement))
			flow->acknowledged[sender] = packet->acknowledgement;
	}
	if (!(packet->flags & (FLOW_RST | FLOW_FIN)) || !flow_is_near(flow, packet))
		return 0;
	if (packet->flags & FLOW_RST)
		return 1;
	flow->closed |= (hw_u8)(1U << sender);
	return flow->closed == 3;
}

#endif

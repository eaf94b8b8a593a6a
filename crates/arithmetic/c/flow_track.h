/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Connections of TCP as a middlebox sees them: their handshake, the scales of their windows, and their RTT (wan 2.1).
 *
 * The owner has two tables by struct flow_key: connections in their handshake, and established ones, so that a flood of SYNs
 * cannot push out the latter. It looks up what flow_kind() says, and does what the functions return. All of them keep to one
 * rule: a connection about which anything is in doubt is left alone, and its windows pass unchanged.
 */
#ifndef HEADWAY_FLOW_TRACK_H
#define HEADWAY_FLOW_TRACK_H

#include "flow_packet.h"

/* How long a SYN may take to be answered: Linux repeats it for 127 s by default. In ns. */
#define FLOW_HALF_OPEN 127000000000ULL
/* Largest RTT; what is above is a clock that has stepped, or an end that waited. In ns. */
#define FLOW_LARGEST_RTT 60000000000ULL
/* An established connection notes the time of packets that are so far apart: others need not write to its memory. In ns. */
#define FLOW_SEEN_STEP 100000000ULL
/* Sequence numbers that are so far from the expected ones do not belong to the connection. Windows are seldom so large. */
#define FLOW_NEAR (1U << 26)
/* RTTs of periods are kept in 256 ns, so that 32 bits hold FLOW_LARGEST_RTT many times. */
#define FLOW_RTT_UNIT 8
#define FLOW_NO_RTT 0xffffffffU
/* The least RTT of about a second shows a queue that stands: one of a burst is gone meanwhile. In bits of ns, 1.07 s. */
#define FLOW_SECOND 30

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
	/* Both ends have sent a SYN without having seen the other's (RFC 9293 3.5). Such a connection is left alone. */
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
	hw_u16 mss[2];
	hw_u8 scale[2];
	/* The end that sent the SYN, and the side on which it arrived. */
	hw_u8 client;
	hw_u8 side;
	hw_u8 dscp;
	hw_u8 stage;
	hw_u8 unused[6];
};

/* What is known of the RTT between the middlebox and one end, from timestamps that the other end sends (flow_rtt.h). */
struct flow_echo {
	/* When the segment passed whose timestamp is to be echoed, in ns. */
	hw_u64 marked;
	/* That timestamp, and the newest one. */
	hw_u32 mark;
	hw_u32 newest;
	/* The least RTT of this period and of the one before, in units of FLOW_RTT_UNIT; FLOW_NO_RTT without one. */
	hw_u32 least[2];
	/* The same of the second of FLOW_SECOND that has this number, and of the one before it. */
	hw_u32 recent[2];
	hw_u32 second;
	/* Whether `mark` is to be echoed yet, and whether there is a `newest`. */
	hw_u8 waits;
	hw_u8 began;
	hw_u8 unused[2];
};

/* An established connection. Arrays have an entry for each end of the key. */
struct flow {
	/* RTT in ns, at least 1; 0 if it is not known. That of the handshake, or the least of two periods (flow_rtt.h). */
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
};

HW_INLINE hw_u32 flow_kind(const struct flow_packet *packet)
{
	if (!(packet->flags & FLOW_SYN))
		return FLOW_LATER;
	return packet->flags & FLOW_ACK ? FLOW_ANSWER : FLOW_ASK;
}

/* Whether two ends have the same address and port: then nobody can tell them apart. */
HW_INLINE int flow_is_own(const struct flow_key *key)
{
	return !flow_is_after(key->address[0], key->address[1], key->port[0], key->port[1]) &&
	       !flow_is_after(key->address[1], key->address[0], key->port[1], key->port[0]);
}

/* The scale of an end that has said two: if they differ, nobody knows which one the other end has heard. */
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
 * Begins a handshake, or notes a repeated SYN. `*half` is the entry of the table if `known`, and a new one otherwise. Returns
 * whether it is to be stored.
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
 * Notes a SYN-ACK; returns whether it answers the SYN of `*half`, so that no older connection between the same ends exists any
 * more. It must come from the other side: traffic that turns round at the middlebox does not cross what is to be shared.
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
	half->mss[sender] = packet->mss;
	half->scale[sender] = packet->scale;
	return 1;
}

/*
 * The time from a question, which may have been repeated, to its answer. With one that was, it is that from the latest one only
 * if that is at most `previous`, an earlier RTT, and otherwise the larger one; 0 for `previous` if there is none. Returns all
 * bits set if the clock has stepped back.
 */
HW_INLINE hw_u64 flow_elapsed(hw_u64 first, hw_u64 last, hw_u64 answer, hw_u64 previous)
{
	if (answer < last || last < first)
		return ~0ULL;
	return answer - last <= previous ? answer - last : answer - first;
}

/*
 * Sets the RTT of a connection to that of its handshake, whose third segment has come, if it can be known. Its two parts are what
 * later ones are compared with, unless a segment was repeated: then they may belong to another one.
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
	/* What the client sends is echoed by the server, which is far. */
	flow->echo[0].least[0] = FLOW_NO_RTT;
	flow->echo[1].least[0] = FLOW_NO_RTT;
	for (k = 0; k < 2; k++) {
		flow->echo[k].recent[0] = FLOW_NO_RTT;
		flow->echo[k].recent[1] = FLOW_NO_RTT;
	}
	flow->echo[0].least[1] = flow->client ? parts[1] : parts[0];
	flow->echo[1].least[1] = flow->client ? parts[0] : parts[1];
}

/*
 * Returns whether a segment completes the handshake of `*half`. Then `*flow` is the connection, to be stored in place of that,
 * with a class that its owner gives it. `previous` is an earlier RTT between the same hosts in ns, or 0.
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
	*flow = (struct flow){
		.seen = now,
		.mss = { half->mss[0], half->mss[1] },
		.scale = { scaled ? half->scale[0] : FLOW_NO_SCALE, scaled ? half->scale[1] : FLOW_NO_SCALE },
		.client = half->client,
		.side = half->side,
		.dscp = half->dscp,
		.ambiguous = half->first_ask != half->last_ask || half->first_answer != half->last_answer,
	};
	flow_set_rtt(flow, half, now, previous);
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
 * Whether a segment may belong to a connection: whoever only guesses addresses and ports does not guess the sequence number
 * (RFC 5961).
 */
HW_INLINE int flow_is_near(const struct flow *flow, const struct flow_packet *packet)
{
	return packet->sequence - flow->acknowledged[1 - (packet->sender & 1)] + FLOW_NEAR <= 2 * FLOW_NEAR;
}

/*
 * Notes a segment of an established connection; returns whether the connection ends with it: with a reset, or because both
 * ends have sent their FIN.
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

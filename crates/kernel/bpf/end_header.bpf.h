/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What is written into a congestion header and what becomes of one that arrives, whatever carries it
 * (xcp-rcp 1.4, 2.1, 2.3).
 */
#ifndef HEADWAY_END_HEADER_BPF_H
#define HEADWAY_END_HEADER_BPF_H

#include "end.bpf.h"
#include "sock_ops.bpf.h"

#define HEADER_BYTES 20

/* The fields of a header behind its version and format. */
struct fields {
	__be32 rtt;
	__be32 x;
	__be32 feedback;
	__be32 reverse;
};

/* Whether the headers of a connection are TCP options: as those of its peer, or else as the options say. */
static __always_inline int end_uses_option(const struct end *end)
{
	return (end->heard ? end->carrier : options.carrier) == END_OPTION;
}

/* Whether the header of a packet only answers. */
static __always_inline int end_only_answers(const struct end *end, __u32 is_pure)
{
	return end->mode == END_RECEIVES || (is_pure && !end->asking);
}

/* How many headers may leave that only answer, without one from the peer that asks for something. */
static __always_inline hw_u32 end_most_unanswered(const struct end *end)
{
	return end_uses_option(end) ? END_UNANSWERED : 1;
}

/* Whether a packet that leaves is to carry a header: one of data only if the peer is known to know it. */
static __always_inline int end_carries(const struct end *end, __u32 is_pure)
{
	if (end->mode == END_PLAIN || !(end->heard || (end->asking && is_pure)))
		return 0;
	return !end_only_answers(end, is_pure) || end->unanswered < end_most_unanswered(end);
}

/* Counts so many packets that leave with a header. */
static __always_inline void note_sent(struct end *end, __u32 is_pure, hw_u32 packets)
{
	COUNT_BY(sent, packets);
	if (end_only_answers(end, is_pure))
		end->unanswered += packets;
}

/*
 * What the peer is owed, in its version of the header, for each of `packets` that leave with the same header;
 * then it is not owed any more, except what cannot be divided.
 */
static __always_inline hw_u32 take_owed(struct end *end, hw_u32 packets)
{
	hw_s64 sum, rest;
	hw_u64 size;

	if (end->heard != EXPLICIT_VERSION_XCP)
		return __sync_lock_test_and_set(&end->owed_rate, 0);
	sum = __sync_lock_test_and_set(&end->owed_change, 0);
	if (packets < 2)
		return explicit_delta(sum);
	size = sum < 0 ? -sum : sum;
	rest = size % packets;
	__sync_fetch_and_add(&end->owed_change, sum < 0 ? -rest : rest);
	return explicit_delta(sum < 0 ? -(hw_s64)(size / packets) : (hw_s64)(size / packets));
}

/* Fills the fields of a sender. */
static __always_inline void request(struct end *end, struct fields *fields)
{
	hw_u64 demand = options.demand;
	hw_u64 rate;

	if (VERSION == EXPLICIT_VERSION_RCP)
		fields->feedback = bpf_htonl(hw_min(demand / 8, EXPLICIT_ANY_RATE));
	if (!end->rtt.smoothed || end->asking)
		return;
	rate = end_rate(end);
	fields->rtt = bpf_htonl(explicit_header_time(end->rtt.smoothed));
	fields->x = bpf_htonl(explicit_header_time(explicit_spacing(end->window.segment, rate)));
	if (VERSION != EXPLICIT_VERSION_XCP)
		return;
	/* What the application does not use is for others. */
	if (end->app_limited)
		demand = hw_min(demand, rate);
	/* Any rate is not a share of one: the largest change shows that no router lowered it. */
	fields->feedback = bpf_htonl(demand == END_ANY_DEMAND ?
					     EXPLICIT_LARGEST_DELTA :
					     explicit_request(&end->request, explicit_share(rate, demand, end->rtt.smoothed,
											    end->window.segment)));
}

/* Notes the header of so many packets of a connection: those that were merged have the same. */
static __always_inline void note(struct end *end, const struct fields *fields, __u32 version, __u32 format, __u32 carrier,
				 hw_u32 packets)
{
	const __u32 reverse = bpf_ntohl(fields->reverse);
	const __u32 feedback = bpf_ntohl(fields->feedback);

	end->carrier = carrier;
	if (end->heard != version) {
		/* What is owed in one version means something else in the other. */
		end->owed_change = 0;
		end->owed_rate = 0;
		if (!end->heard)
			COUNT(answered);
		end->heard = version;
	}
	end->headers++;
	if (version == VERSION && end->mode != END_RECEIVES) {
		if (VERSION == EXPLICIT_VERSION_XCP)
			__sync_fetch_and_add(&end->change, (hw_s64)(hw_s32)reverse * packets);
		else if (reverse)
			end->rate = reverse;
	}
	if (format != EXPLICIT_STANDARD)
		return;
	end->unanswered = 0;
	if (version == EXPLICIT_VERSION_XCP)
		__sync_fetch_and_add(&end->owed_change, (hw_s64)(hw_s32)feedback * packets);
	else
		end->owed_rate = feedback;
}

#endif

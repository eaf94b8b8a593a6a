/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The congestion header as an experimental TCP option (RFC 6994), for paths that drop its IP protocol.
 *
 *	kind, length 20, identifier, RTT, X, feedback, reverse feedback     a header that asks (Standard)
 *	kind, length 8, identifier, reverse feedback                        one that only answers (Minimal)
 *
 * The identifier says which version it is, the length which format; length and next protocol of the header
 * are known. TCP leaves room for its options in every segment, repeats them in all segments of a buffer, and
 * hands up those of segments that it accepts, so neither the interface nor the peer's largest segment is
 * changed, and nothing has to be checked. It hands them up with the socket locked.
 *
 * SACK blocks have precedence. Beside timestamps, ACKs with three of them have no room for an
 * answer: then it is owed on.
 */
#ifndef HEADWAY_END_OPTION_BPF_H
#define HEADWAY_END_OPTION_BPF_H

#include "end_header.bpf.h"

/* Identifiers of the two versions; they are not registered. */
#define EXPERIMENT_XCP 0x4858
#define EXPERIMENT_RCP 0x4852
/* Bytes of an option that asks and of one that only answers. */
#define OPTION_STANDARD 20
#define OPTION_MINIMAL 8

struct option {
	__u8 kind;
	__u8 length;
	__be16 experiment;
	union {
		struct fields fields;
		/* The reverse feedback of a header that only answers. */
		__be32 answer;
	};
};

/* The packet of an event. */
static __always_inline struct sk_buff *packet_of(struct bpf_sock_ops *event)
{
	return ((struct bpf_sock_ops_kern *)bpf_cast_to_kern_ctx(event))->skb;
}

/* How many segments a packet that arrived was merged from. */
static __always_inline hw_u32 merged(struct bpf_sock_ops *event)
{
	struct sk_buff *packet = packet_of(event);

	if (!packet)
		return 1;
	return hw_max(AS(packet->head + packet->end, struct skb_shared_info)->gso_segs, 1);
}

/* How many segments a packet that leaves will be cut into. */
static __always_inline hw_u32 segments(struct bpf_sock_ops *event)
{
	struct sk_buff *packet = packet_of(event);

	return packet ? hw_max(AS(packet->cb, struct tcp_skb_cb)->tcp_gso_segs, 1) : 1;
}

/* Leaves room for the header in a packet that leaves, or in the largest segment. */
static __always_inline void reserve(struct bpf_sock_ops *event, struct end *end)
{
	const __u32 is_size = event->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS;
	const __u32 is_pure = !is_size && !event->skb_len;

	if (event->skb_tcp_flags & TCP_SYN || !end_carries(end, is_pure))
		return;
	if (bpf_reserve_hdr_opt(event, end_only_answers(end, is_pure) ? OPTION_MINIMAL : OPTION_STANDARD, 0) && !is_size)
		COUNT(too_large);
}

/* Writes it. */
static __always_inline void write(struct bpf_sock_ops *event, struct end *end)
{
	const hw_u32 packets = segments(event);
	__u32 is_pure, version, length;
	struct option option = {};
	hw_u32 owed = 0;
	struct tcp *tcp;

	tcp = event->skb_data;
	if ((void *)(tcp + 1) > event->skb_data_end)
		return;
	is_pure = event->skb_len <= (__u32)(tcp->offset >> 4) * 4;
	version = end_only_answers(end, is_pure) ? end->heard : VERSION;
	if (version == end->heard)
		owed = bpf_htonl(take_owed(end, packets));
	option.kind = options.kind;
	option.experiment = bpf_htons(version == EXPLICIT_VERSION_RCP ? EXPERIMENT_RCP : EXPERIMENT_XCP);
	if (end_only_answers(end, is_pure)) {
		length = OPTION_MINIMAL;
		option.answer = owed;
	} else {
		length = OPTION_STANDARD;
		request(end, &option.fields);
		option.fields.reverse = owed;
	}
	option.length = length;
	note_sent(end, is_pure, packets);
	/* It does not fail where room was left. */
	bpf_store_hdr_opt(event, &option, length, 0);
}

/* Looks for an option with a version's identifier; returns its length, 0 if there is none, 1 if
 * it is a wrong one. */
static __always_inline __u32 find(struct bpf_sock_ops *event, struct option *option, __u16 experiment)
{
	long found;

	option->kind = options.kind;
	option->length = OPTION_START;
	option->experiment = bpf_htons(experiment);
	found = bpf_load_hdr_opt(event, option, sizeof(*option), 0);
	if (found == -ENOMSG)
		return 0;
	return found == OPTION_STANDARD || found == OPTION_MINIMAL ? found : 1;
}

/* Notes the header of a packet that TCP has accepted. */
static __always_inline void parse(struct bpf_sock_ops *event, struct bpf_sock *sk)
{
	const hw_u32 packets = merged(event);
	__u32 version = EXPLICIT_VERSION_XCP;
	__u32 format = EXPLICIT_STANDARD;
	struct option option = {};
	struct end *end;
	__u32 length;

	length = find(event, &option, EXPERIMENT_XCP);
	if (!length) {
		version = EXPLICIT_VERSION_RCP;
		length = find(event, &option, EXPERIMENT_RCP);
	}
	if (!length)
		return;
	if (length == 1) {
		COUNT(malformed);
		return;
	}
	COUNT_BY(received, packets);
	if (length == OPTION_MINIMAL) {
		format = EXPLICIT_MINIMAL;
		option.fields.reverse = option.answer;
	}
	end = bpf_sk_storage_get(&ends, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!end)
		return;
	note(end, &option.fields, version, format, END_OPTION, packets);
	if (end->mode != END_PLAIN)
		bpf_sock_ops_cb_flags_set(event, event->bpf_sock_ops_cb_flags | EVENT_WRITE);
}

SEC("sockops")
int hw_option(struct bpf_sock_ops *event)
{
	struct bpf_sock *sk = event->sk;
	struct end *end;

	if (!sk || bpf_get_netns_cookie(event) != options.namespace)
		return 1;
	switch (event->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(event, event->bpf_sock_ops_cb_flags | EVENT_PARSE);
		return 1;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		parse(event, sk);
		return 1;
	}
	end = bpf_sk_storage_get(&ends, sk, 0, 0);
	if (!end || !end_uses_option(end))
		return 1;
	if (event->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		reserve(event, end);
	else if (event->op == BPF_SOCK_OPS_WRITE_HDR_OPT_CB)
		write(event, end);
	return 1;
}

#endif

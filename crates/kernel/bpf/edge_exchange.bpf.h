/* SPDX-License-Identifier: GPL-2.0-only */
/* Datagrams of UDP. */
#ifndef HEADWAY_EDGE_EXCHANGE_BPF_H
#define HEADWAY_EDGE_EXCHANGE_BPF_H

#include "edge_mark.bpf.h"

/*
 * Counts a datagram. A flow begins with one from the hosts, so that strangers cannot fill the table with what
 * nobody here asked for.
 */
static __noinline int datagram(struct __sk_buff *skb, const struct flow_packet *packet, struct edge_counters *counted)
{
	struct edge_exchange *exchange = bpf_map_lookup_elem(&exchanges, &packet->key);
	const hw_u32 first = 0;
	struct edge_made *place;
	hw_u32 known;

	counted->datagrams++;
	if (exchange) {
		flow_meter_add(&exchange->sent[packet->sender & 1], bpf_ktime_get_ns(), packet->data, merged(skb));
		known = with_ecn(exchange->ecn, packet);
		if (known != exchange->ecn)
			exchange->ecn = (hw_u8)known;
		if (marks_any())
			mark(skb, packet, counted, exchange->number);
		return 0;
	}
	if (packet->side) {
		counted->datagrams_unasked++;
		return 0;
	}
	place = bpf_map_lookup_elem(&made, &first);
	if (!place)
		return 0;
	exchange = &place->exchange;
	__builtin_memset(exchange, 0, sizeof(*exchange));
	exchange->number = __sync_fetch_and_add(&numbered, 1) + 1;
	exchange->client = packet->sender & 1;
	exchange->dscp = packet->dscp;
	exchange->ecn = (hw_u8)with_ecn(0, packet);
	flow_meter_add(&exchange->sent[packet->sender & 1], bpf_ktime_get_ns(), packet->data, merged(skb));
	if (bpf_map_update_elem(&exchanges, &packet->key, exchange, BPF_NOEXIST))
		counted->datagrams_without_room++;
	return 0;
}

#endif

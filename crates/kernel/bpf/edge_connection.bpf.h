/* SPDX-License-Identifier: GPL-2.0-only */
/* Connections of the edge, from their handshake to their end. */
#ifndef HEADWAY_EDGE_CONNECTION_BPF_H
#define HEADWAY_EDGE_CONNECTION_BPF_H

#include "edge_tables.bpf.h"

/* Removes a connection that is there. */
static __always_inline void end(struct edge_counters *counted, const struct flow_key *key,
				const struct edge_connection *connection)
{
	struct edge_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	/* Before it is removed, as its memory may become that of another one. */
	if (event) {
		event->key = *key;
		event->kind = EDGE_ENDED;
		event->flow = connection->flow;
	}
	/* Of two packets at once that end it, one does. */
	if (bpf_map_delete_elem(&established, key)) {
		if (event)
			bpf_ringbuf_discard(event, 0);
		return;
	}
	counted->ended++;
	if (event)
		bpf_ringbuf_submit(event, 0);
	else
		counted->missed++;
}

/* Takes in a SYN or SYN-ACK. */
static __noinline int handshake(const struct flow_packet *packet, struct edge_counters *counted, hw_u64 now)
{
	struct flow_half *half = bpf_map_lookup_elem(&half_open, &packet->key);
	struct flow_half fresh;
	struct edge_connection *older;

	if (flow_kind(packet) == FLOW_ASK) {
		if (half)
			flow_on_syn(half, 1, packet, now);
		else if (flow_on_syn(&fresh, 0, packet, now))
			bpf_map_update_elem(&half_open, &packet->key, &fresh, BPF_ANY);
		return 0;
	}
	if (half && flow_on_answer(half, packet, now)) {
		older = bpf_map_lookup_elem(&established, &packet->key);
		if (older)
			end(counted, &packet->key, older);
	}
	return 0;
}

/*
 * Returns the latest RTT between the hosts of a packet, 0 if there is none; notes one that is not 0 in its
 * place. A function of its own, so that the pair is not on the stack beside all else: three frames have 512
 * bytes, and without a JIT each takes whole multiples of 32.
 */
static __noinline hw_u64 between(const struct flow_packet *packet, hw_u64 rtt)
{
	struct edge_pair pair;
	hw_u64 *previous;

	__builtin_memcpy(&pair, packet->key.address, sizeof(pair));
	if (rtt) {
		bpf_map_update_elem(&earlier, &pair, &rtt, BPF_ANY);
		return rtt;
	}
	previous = bpf_map_lookup_elem(&earlier, &pair);
	return previous ? *previous : 0;
}

/* The class of a connection by the rules that hold now. */
static __always_inline hw_u32 classify(const struct flow_key *key, const struct flow *flow)
{
	const hw_u32 first = 0;
	const struct flow_rules *known = bpf_map_lookup_elem(&rules, &first);

	return known ? flow_classify(known, key, flow->client, flow->dscp) : FLOW_NO_CLASS;
}

/* Makes a connection of a handshake if a segment completes one. */
static __noinline int complete(const struct flow_packet *packet, struct edge_counters *counted, hw_u32 split)
{
	struct flow_half *half = bpf_map_lookup_elem(&half_open, &packet->key);
	const hw_u32 first = 0;
	struct edge_event *event;
	struct edge_made *place = bpf_map_lookup_elem(&made, &first);
	const struct edge_control *said = bpf_map_lookup_elem(&control, &first);
	struct edge_connection *connection;
	struct flow *flow;

	if (!half || !place || !said)
		return 0;
	connection = &place->connection;
	flow = &connection->flow;
	if (!flow_on_third(half, packet, bpf_ktime_get_ns(), between(packet, 0), flow))
		return 0;
	if (!flow->ambiguous)
		between(packet, flow->rtt);
	bpf_map_delete_elem(&half_open, &packet->key);
	/* Its number before the rules: if they change in between, it gets its class anew. */
	connection->rules = said->rules;
	flow->class = classify(&packet->key, flow);
	connection->number = __sync_fetch_and_add(&numbered, 1) + 1;
	connection->ecn = 0;
	connection->split = split;
	__builtin_memset(connection->sent, 0, sizeof(connection->sent));
	if (bpf_map_update_elem(&established, &packet->key, connection, BPF_NOEXIST)) {
		counted->without_room++;
		return 0;
	}
	counted->begun++;
	counted->unlimited += !flow->rtt || flow->scale[0] == FLOW_NO_SCALE;
	counted->without_class += flow->class == FLOW_NO_CLASS;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		counted->missed++;
		return 1;
	}
	event->key = packet->key;
	event->kind = EDGE_BEGUN;
	event->flow = *flow;
	bpf_ringbuf_submit(event, 0);
	return 1;
}

#endif

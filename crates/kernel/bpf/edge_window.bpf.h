/* SPDX-License-Identifier: GPL-2.0-only */
/* Segments of connections, and their windows. */
#ifndef HEADWAY_EDGE_WINDOW_BPF_H
#define HEADWAY_EDGE_WINDOW_BPF_H

#include "edge_connection.bpf.h"
#include "edge_mark.bpf.h"

/* What a connection may have in bytes, as long as the process lives. */
static __always_inline hw_u64 limit(struct edge_counters *counted, const struct edge_control *said,
				    const struct edge_connection *connection, hw_u32 side, hw_u64 now)
{
	const hw_u32 class = connection->flow.class;
	const hw_u32 *treatment;
	hw_u64 share;

	if (class >= EDGE_CLASSES)
		return RWM_UNLIMITED;
	/* The process may have said so on another processor a moment later than this packet arrived. */
	if ((hw_s64)(now - said->alive) > (hw_s64)options.patience) {
		counted->unattended++;
		return RWM_UNLIMITED;
	}
	share = said->shares[side & 1][class];
	if (!share)
		return RWM_UNLIMITED;
	treatment = bpf_map_lookup_elem(&treated, &connection->number);
	if (treatment && (hw_u8)*treatment != EDGE_WEIGHED) {
		counted->exempt += *treatment == EDGE_PASSES;
		return RWM_UNLIMITED;
	}
	if (treatment) {
		const hw_u32 parts = *treatment >> (side & 1 ? EDGE_CLASS_SHIFT + EDGE_WEIGHT_BITS : EDGE_CLASS_SHIFT);

		share = rwm_weighed(share, parts & ((1U << EDGE_WEIGHT_BITS) - 1));
	}
	return rwm_bytes(share, connection->flow.rtt);
}

/* Writes a window into a packet, whose checksum may be left for a NIC to compute. */
static __always_inline int lower(struct __sk_buff *skb, const struct flow_packet *packet, hw_u32 window)
{
	const __u16 old = __builtin_bswap16(packet->window);
	const __u16 new = __builtin_bswap16((__u16)window);

	if (bpf_l4_csum_replace(skb, packet->at + FLOW_TCP_CHECKSUM, old, new, sizeof(new)))
		return 0;
	return !bpf_skb_store_bytes(skb, packet->at + FLOW_TCP_WINDOW, &new, sizeof(new), 0);
}

static __always_inline void segment(struct __sk_buff *skb, struct edge_counters *counted, struct edge_connection *connection,
				    const struct flow_packet *packet)
{
	const hw_u32 first = 0;
	const struct edge_control *said = bpf_map_lookup_elem(&control, &first);
	struct flow *flow = &connection->flow;
	hw_u32 measures, window, known;
	hw_u64 now, bytes;

	if (!said)
		return;
	counted->tracked++;
	/* The time of the last tick is enough for what counts in seconds, and costs a tenth. */
	now = packet->data ? bpf_ktime_get_ns() : bpf_ktime_get_coarse_ns();
	if (packet->data)
		flow_meter_add(&connection->sent[packet->sender & 1], now, packet->data, merged(skb));
	known = with_ecn(connection->ecn, packet);
	if (known != connection->ecn)
		connection->ecn = known;
	if (marks_any())
		mark(skb, packet, counted, connection->number);
	if (flow_on_segment(flow, packet, now)) {
		end(counted, &packet->key, connection);
		return;
	}
	if (connection->rules != said->rules) {
		connection->rules = said->rules;
		flow->class = classify(&packet->key, flow);
	}
	measures = options.follow_rtt ? flow_on_stamps(flow, packet) : 0;
	if (measures)
		flow_measure(flow, packet, measures, said->period, packet->data ? now : bpf_ktime_get_ns());
	bytes = limit(counted, said, connection, packet->side, now);
	if (options.follow_rtt)
		bytes = rwm_beside(bytes, packet->sacked);
	/* An edge that must not move back would keep every window that was rounded up. */
	if (!options.no_shrink)
		bytes = rwm_rounded(bytes, flow->scale[packet->sender & 1], connection->number, now);
	window = rwm_window(flow, packet, bytes, options.no_shrink);
	if (window >= packet->window)
		return;
	if (options.dry_run || lower(skb, packet, window))
		counted->lowered++;
	else
		counted->failed++;
}

#endif

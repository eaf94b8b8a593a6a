/* SPDX-License-Identifier: GPL-2.0-only */
/* Marks of congestion on packets of flows whose window is out of reach (wan F75). */
#ifndef HEADWAY_EDGE_MARK_BPF_H
#define HEADWAY_EDGE_MARK_BPF_H

#include "edge_tables.bpf.h"

/* How many packets the kernel has merged into one. */
static __always_inline hw_u32 merged(const struct __sk_buff *skb)
{
	return (hw_u32)hw_max(skb->gso_segs, 1);
}

/* Bytes of a packet on an Ethernet: 38 for each packet of IP, whatever the interface has in front of it. */
static __always_inline hw_u32 wire_bytes(struct __sk_buff *skb, const struct flow_packet *packet)
{
	const hw_u32 headers = skb->len - (hw_u32)hw_min(packet->data, skb->len);
	const hw_u32 framing = skb->ifindex == options.wan ? options.wan_framing : options.framing;
	const hw_u32 around = framing == FLOW_ETHERNET ? 38 - FLOW_ETHERNET_BYTES : 38;

	return packet->data + merged(skb) * (headers + around);
}

/* Marks a packet of a flow of this number where its class has been too fast. What may not be
 * marked passes as it is. */
static __noinline int mark(struct __sk_buff *skb, const struct flow_packet *packet, struct edge_counters *counted, hw_u64 number)
{
	const hw_u32 first = 0;
	const hw_u64 now = bpf_ktime_get_ns();
	const struct edge_control *said = bpf_map_lookup_elem(&control, &first);
	const struct edge_marking *marks = bpf_map_lookup_elem(&marking, &first);
	const hw_u32 *treatment = bpf_map_lookup_elem(&treated, &number);
	struct edge_queues *all = bpf_map_lookup_elem(&queues, &first);
	/* What arrives on one side goes to the other one. */
	const hw_u32 side = !(packet->side & 1);
	hw_u32 class;
	hw_u64 cost;

	if (!said || !marks || !all || !treatment || (hw_u8)*treatment != EDGE_MARKED)
		return 0;
	class = *treatment >> EDGE_CLASS_SHIFT;
	if (class >= EDGE_CLASSES)
		return 0;
	if ((hw_s64)(now - said->alive) > (hw_s64)options.patience)
		return 0;
	cost = marks->costs[side][class];
	if (!cost || !virtual_queue_add(&all->of[side][class], now, wire_bytes(skb, packet), cost, packet->ecn != FLOW_NOT_ECT))
		return 0;
	if (options.dry_run || bpf_skb_ecn_set_ce(skb))
		counted->marked++;
	return 1;
}

/* Whether there are flows to be marked, and the only look that packets pay for while there are none. */
static __always_inline int marks_any(void)
{
	const hw_u32 first = 0;
	const struct edge_marking *marks = bpf_map_lookup_elem(&marking, &first);

	return marks && marks->flows;
}

/* Notes in `*known` that an end has sent what may be marked, once. */
static __always_inline hw_u32 with_ecn(hw_u32 known, const struct flow_packet *packet)
{
	return packet->ecn == FLOW_NOT_ECT ? known : known | 1U << (packet->sender & 1);
}

#endif

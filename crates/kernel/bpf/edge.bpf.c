// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receive window modulation: two programs at the interface of a router towards its hosts, one for each
 * direction (wan 2.1 to 2.3). There both directions of a connection have the same addresses also if the
 * router translates them. Where connections may be split, there are two more at the interface towards the
 * link, for the halves that go on from here.
 *
 * Packets pass as they are but for the window of segments whose connection was seen from its beginning, and
 * the checksum over it, and but for marks on packets of flows whose window is out of reach and whose ends
 * react to marks (wan F75). The process that loaded the programs says every second that it lives, and what a
 * connection of each class may have; when it has been silent for too long, everything passes as it is. No
 * field of the kernel's own structures is read, so the same object loads where there is no type information.
 */
#include "edge_exchange.bpf.h"
#include "edge_split.bpf.h"
#include "edge_window.bpf.h"

/*
 * Finds the headers of a packet, and reads them, of which some may not be at hand yet. Two functions, so that
 * the verifier follows the paths to the header of TCP once, and neither with those through its options nor with
 * all that comes behind them. What the packet begins with is no argument: the verifier must know it, because the
 * addresses of a packet that begins with IP may not be aligned.
 */
HW_FUNCTION hw_u32 edge_locate(struct __sk_buff *skb, hw_u32 beyond, struct flow_place *place HW_NONNULL)
{
	struct flow_place found_at = {};
	hw_u32 found;

	HW_GIVEN(place);
	found = flow_locate((void *)(long)skb->data, (void *)(long)skb->data_end, beyond ? options.wan_framing : options.framing,
			    &found_at);
	*place = found_at;
	return found <= FLOW_DATAGRAM ? found : FLOW_MALFORMED;
}

HW_FUNCTION hw_u32 edge_read(struct __sk_buff *skb, hw_u32 beyond, const struct flow_place *place HW_NONNULL,
			     struct flow_packet *packet HW_NONNULL)
{
	struct flow_place at;
	hw_u32 found;

	HW_GIVEN(place && packet);
	at = *place;
	/* Headers are within the first bytes; the verifier asks for a bound. */
	if (at.ip.at > EDGE_FARTHEST)
		return FLOW_MALFORMED;
	found = flow_read_at((void *)(long)skb->data, (void *)(long)skb->data_end, beyond ? options.wan_framing : options.framing,
			     &at, packet);
	return found <= FLOW_DATAGRAM ? found : FLOW_MALFORMED;
}

static __always_inline hw_u32 read_once(struct __sk_buff *skb, hw_u32 beyond, struct flow_packet *packet)
{
	struct flow_place place = {};
	const hw_u32 found = edge_locate(skb, beyond, &place);

	return found == FLOW_SEGMENT ? edge_read(skb, beyond, &place, packet) : found;
}

/* Whether headers of a packet are elsewhere, and are at hand now. */
static __always_inline int pull(struct __sk_buff *skb)
{
	const hw_u32 wanted = hw_min(skb->len, EDGE_HEADERS);

	return skb->data_end - skb->data < wanted && !bpf_skb_pull_data(skb, wanted);
}

static __always_inline hw_u32 read(struct __sk_buff *skb, hw_u32 beyond, hw_u32 side, struct flow_packet *packet)
{
	hw_u32 found = read_once(skb, beyond, packet);

	if (found == FLOW_MALFORMED && pull(skb))
		found = read_once(skb, beyond, packet);
	packet->side = side;
	return found;
}

/* Takes in a segment of a connection that crosses the link. */
static __always_inline void follow(struct __sk_buff *skb, struct edge_counters *counted, const struct flow_packet *packet,
				   hw_u32 split)
{
	struct edge_connection *connection;

	if (flow_kind(packet) != FLOW_LATER) {
		handshake(packet, counted, bpf_ktime_get_ns());
		return;
	}
	connection = bpf_map_lookup_elem(&established, &packet->key);
	if (!connection && complete(packet, counted, split))
		connection = bpf_map_lookup_elem(&established, &packet->key);
	if (connection)
		segment(skb, counted, connection, packet);
}

static __always_inline int pass(struct __sk_buff *skb, hw_u32 side)
{
	const hw_u32 first = 0;
	struct edge_counters *counted = bpf_map_lookup_elem(&counters, &first);
	struct flow_packet packet;
	hw_u32 found;

	if (!counted)
		return TCX_NEXT;
	found = read(skb, 0, side, &packet);
	if (found == FLOW_DATAGRAM) {
		counted->found[FLOW_OTHER]++;
		datagram(skb, &packet, counted);
		return TCX_NEXT;
	}
	if (found >= FLOW_FOUND_KINDS)
		return TCX_NEXT;
	counted->found[found]++;
	if (found != FLOW_SEGMENT)
		return TCX_NEXT;
	/* What the relay gets does not cross the link; what it sends in place of that does. */
	if (options.splits && !side && edge_deliver(skb, &packet, counted))
		return TCX_NEXT;
	follow(skb, counted, &packet, 0);
	return TCX_NEXT;
}

/* Takes in a packet at the interface towards the link, if it is a segment of the relay's. */
static __always_inline int pass_beyond(struct __sk_buff *skb, hw_u32 side)
{
	const hw_u32 first = 0;
	struct edge_counters *counted = bpf_map_lookup_elem(&counters, &first);
	struct flow_packet packet;

	if (!counted || read(skb, 1, side, &packet) != FLOW_SEGMENT)
		return TCX_NEXT;
	if (side) {
		if (!edge_socket_of(skb, &packet))
			return TCX_NEXT;
		skb->mark = EDGE_TO_RELAY;
	}
	counted->found[FLOW_SEGMENT]++;
	follow(skb, counted, &packet, 1);
	return TCX_NEXT;
}

SEC("tcx/ingress")
int edge_up(struct __sk_buff *skb)
{
	return pass(skb, 0);
}

/* What the router itself sends, and what comes from other interfaces, does not cross the link. */
SEC("tcx/egress")
int edge_down(struct __sk_buff *skb)
{
	return skb->ingress_ifindex == options.wan ? pass(skb, 1) : TCX_NEXT;
}

SEC("tcx/egress")
int edge_onward(struct __sk_buff *skb)
{
	return skb->mark == EDGE_OF_RELAY ? pass_beyond(skb, 0) : TCX_NEXT;
}

SEC("tcx/ingress")
int edge_back(struct __sk_buff *skb)
{
	return pass_beyond(skb, 1);
}

char gpl[] SEC("license") = "GPL";

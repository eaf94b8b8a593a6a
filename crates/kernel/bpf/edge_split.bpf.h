/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Connections that are split at this router by a relay, which has a socket in place of each end (wan F73).
 *
 * A SYN of a host is given to the relay's listener although its destination is elsewhere, as TPROXY does
 * it; the mark has the router deliver it by a rule that the process has set. All that follows belongs to a
 * socket of this router, so a look for that tells what to deliver, with no table of ours that could be
 * older than the sockets.
 */
#ifndef HEADWAY_EDGE_SPLIT_BPF_H
#define HEADWAY_EDGE_SPLIT_BPF_H

#include "edge_connection.bpf.h"

/* The mark of packets that a socket of this router gets, and of those that the relay sends on
 * (src/edge/mod.rs has the same). */
#define EDGE_TO_RELAY 0x7ed90001U
#define EDGE_OF_RELAY 0x7ed90002U

/* A SYN that comes again so soon was lost on its way to the relay, or not answered: hosts repeat one after
 * 1 and 3 s. In ns. */
#define EDGE_REPEATED 10000000000ULL

/* States of sockets (linux/tcp.h, net/tcp_states.h), and "in the network namespace of the
 * packet" (linux/bpf.h). */
#define EDGE_TIME_WAIT 6
#define EDGE_LISTENS 10
#define EDGE_BEGINS 12
#define EDGE_HERE (-1L)
/* Families of addresses (linux/socket.h), and "whoever the neighbour is" (linux/bpf.h, since Linux 6.3). */
#define EDGE_INET 2
#define EDGE_INET6 10
#define EDGE_ANY_NEIGHBOUR 4

#define EDGE_V4_TUPLE sizeof(((struct bpf_sock_tuple *)0)->ipv4)
#define EDGE_V6_TUPLE sizeof(((struct bpf_sock_tuple *)0)->ipv6)

/* What a packet has to do with sockets of this router. */
enum edge_socket {
	EDGE_NO_SOCKET,
	/* It belongs to a connection, or to one that has just ended. */
	EDGE_SOCKET,
	EDGE_OLD_SOCKET,
	/* It belongs to one whose handshake is not complete. */
	EDGE_NEW_SOCKET,
};

/* Says whose a segment is. */
static __noinline hw_u32 edge_socket_of(struct __sk_buff *skb, const struct flow_packet *packet)
{
	const hw_u32 from = packet->sender & 1;
	const hw_u32 to = 1 - from;
	struct bpf_sock_tuple tuple = {};
	hw_u32 state;
	struct bpf_sock *socket;

	if (packet->key.version == 4) {
		tuple.ipv4.saddr = packet->key.address[from][0];
		tuple.ipv4.daddr = packet->key.address[to][0];
		tuple.ipv4.sport = __builtin_bswap16(packet->key.port[from]);
		tuple.ipv4.dport = __builtin_bswap16(packet->key.port[to]);
		socket = bpf_skc_lookup_tcp(skb, &tuple, EDGE_V4_TUPLE, EDGE_HERE, 0);
	} else {
		__builtin_memcpy(tuple.ipv6.saddr, packet->key.address[from], sizeof(tuple.ipv6.saddr));
		__builtin_memcpy(tuple.ipv6.daddr, packet->key.address[to], sizeof(tuple.ipv6.daddr));
		tuple.ipv6.sport = __builtin_bswap16(packet->key.port[from]);
		tuple.ipv6.dport = __builtin_bswap16(packet->key.port[to]);
		socket = bpf_skc_lookup_tcp(skb, &tuple, EDGE_V6_TUPLE, EDGE_HERE, 0);
	}
	if (!socket)
		return EDGE_NO_SOCKET;
	state = socket->state;
	bpf_sk_release(socket);
	/* One that listens on this port of any address is not meant. */
	if (state == EDGE_LISTENS)
		return EDGE_NO_SOCKET;
	if (state == EDGE_BEGINS)
		return EDGE_NEW_SOCKET;
	return state == EDGE_TIME_WAIT ? EDGE_OLD_SOCKET : EDGE_SOCKET;
}

/* Whether a segment from the hosts will leave for the link, and not for this router or for other hosts. */
static __noinline int edge_crosses(struct __sk_buff *skb, const struct flow_packet *packet)
{
	const hw_u32 from = packet->sender & 1;
	struct bpf_fib_lookup route = {
		.family = packet->key.version == 4 ? EDGE_INET : EDGE_INET6,
		.l4_protocol = FLOW_PROTOCOL_TCP,
		.ifindex = skb->ifindex,
	};

	__builtin_memcpy(route.src, packet->key.address[from], sizeof(route.src));
	__builtin_memcpy(route.dst, packet->key.address[1 - from], sizeof(route.dst));
	return !bpf_fib_lookup(skb, &route, sizeof(route), EDGE_ANY_NEIGHBOUR) && route.ifindex == options.wan;
}

/* Whether a connection that begins with this SYN is to be split. */
static __noinline int edge_is_to_split(const struct flow_packet *packet, const struct edge_splitting *how)
{
	const hw_u32 first = 0;
	const hw_u32 sender = packet->sender & 1;
	const struct edge_control *said = bpf_map_lookup_elem(&control, &first);
	const struct flow_rules *known = bpf_map_lookup_elem(&rules, &first);
	struct edge_host host;

	if (!said || !known || (hw_s64)(bpf_ktime_get_ns() - said->alive) > (hw_s64)options.patience)
		return 0;
	host.class = flow_classify(known, &packet->key, sender, packet->dscp);
	if (host.class >= EDGE_CLASSES)
		return 0;
	if (how->all >> host.class & 1)
		return 1;
	if (!(how->held >> host.class & 1))
		return 0;
	__builtin_memcpy(host.address, packet->key.address[sender], sizeof(host.address));
	return bpf_map_lookup_elem(&small_receivers, &host) != 0;
}

/* Gives a SYN to the listener of the relay; returns whether there is one. */
static __noinline int edge_give(struct __sk_buff *skb, const struct flow_packet *packet, const struct edge_splitting *how)
{
	const int is_v4 = packet->key.version == 4;
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *socket;
	int given;

	if (!how->port[!is_v4])
		return 0;
	if (is_v4) {
		tuple.ipv4.saddr = __builtin_bswap32(0x7f000001);
		tuple.ipv4.daddr = __builtin_bswap32(0x7f000001);
		tuple.ipv4.dport = __builtin_bswap16(how->port[0]);
		socket = bpf_skc_lookup_tcp(skb, &tuple, EDGE_V4_TUPLE, EDGE_HERE, 0);
	} else {
		tuple.ipv6.saddr[3] = __builtin_bswap32(1);
		tuple.ipv6.daddr[3] = __builtin_bswap32(1);
		tuple.ipv6.dport = __builtin_bswap16(how->port[1]);
		socket = bpf_skc_lookup_tcp(skb, &tuple, EDGE_V6_TUPLE, EDGE_HERE, 0);
	}
	if (!socket)
		return 0;
	given = socket->state == EDGE_LISTENS && !bpf_sk_assign(skb, socket, 0);
	bpf_sk_release(socket);
	return given;
}

/*
 * Notes that a SYN is given to the relay. What is to be known is whether SYNs get there, past the firewall of
 * this router, whatever their hosts do with the answers.
 */
static __noinline void edge_note_given(const struct flow_packet *packet, struct edge_counters *counted)
{
	const hw_u64 now = bpf_ktime_get_ns();
	const hw_u64 *before = bpf_map_lookup_elem(&given, &packet->key);

	counted->split++;
	if (before && now - *before < EDGE_REPEATED)
		counted->split_repeated++;
	else
		bpf_map_update_elem(&given, &packet->key, &now, BPF_ANY);
}

/* Has the router deliver a segment that arrived from the hosts, if it belongs to the relay;
 * returns whether it does. */
static __noinline int edge_deliver(struct __sk_buff *skb, const struct flow_packet *packet, struct edge_counters *counted)
{
	const hw_u32 first = 0;
	const hw_u32 whose = edge_socket_of(skb, packet);
	const struct edge_splitting *how;

	if (whose && (whose != EDGE_OLD_SOCKET || flow_kind(packet) != FLOW_ASK)) {
		/* Not so for one that this router listens for itself. */
		if (whose == EDGE_NEW_SOCKET && !bpf_map_delete_elem(&given, &packet->key))
			counted->split_reached++;
		skb->mark = EDGE_TO_RELAY;
		return 1;
	}
	if (flow_kind(packet) != FLOW_ASK)
		return 0;
	how = bpf_map_lookup_elem(&splitting, &first);
	if (!how || !edge_is_to_split(packet, how) || !edge_crosses(skb, packet) || !edge_give(skb, packet, how))
		return 0;
	skb->mark = EDGE_TO_RELAY;
	edge_note_given(packet, counted);
	return 1;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The programs at an interface: insert and remove the congestion header (xcp-rcp 1.4, 2.1, 2.3).
 *
 * Packets that are not TCP over IPv4 or IPv6, on Ethernet, without VLAN tags in the packet, IPv4 options and
 * IPv6 extension headers are left alone.
 */
#ifndef HEADWAY_END_WIRE_BPF_H
#define HEADWAY_END_WIRE_BPF_H

#include "checksum.h"
#include "end_header.bpf.h"
#include "tcp_options.h"

#include <bpf/bpf_core_read.h>

/* Leaves the packet to the next program. */
#define TCX_NEXT (-1)
#define TCX_DROP 2
#define BPF_ADJ_ROOM_NET 0
#define BPF_F_RECOMPUTE_CSUM 1
#define BPF_F_CURRENT_NETNS (-1L)
#define BPF_TCP_LISTEN 10

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define ETHERNET 14
#define IPPROTO_TCP 6
#define TCP_BYTES TCP_HEADER_BYTES
/* Bytes that reordered and repeated packets may be away from the next ones. */
#define NEAR (1U << 24)
/* The checksum is computed later, as between virtual interfaces (linux/skbuff.h). */
#define CHECKSUM_PARTIAL 3
/* More fragments, or an offset. */
#define IP_FRAGMENT 0x3fff

/* Least bytes of a segment that the clamp leaves. */
#define LEAST_MSS 88

struct ipv4 {
	__u8 version_length;
	__u8 tos;
	__be16 total;
	__be16 id;
	__be16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 check;
	__be32 source;
	__be32 destination;
};

struct ipv6 {
	__be32 version_class_flow;
	__be16 payload;
	__u8 next;
	__u8 hops;
	__be32 source[4];
	__be32 destination[4];
};

/* The congestion header on the wire. */
struct wire {
	__u8 protocol;
	__u8 length;
	__u8 version_format;
	__u8 unused;
	struct fields fields;
};

/* The IP header of a packet. */
struct ip {
	union {
		struct ipv4 v4;
		struct ipv6 v6;
	};
	/* Whether it is IPv6; its length; bytes behind it; the next protocol. */
	__u32 is_v6;
	__u32 bytes;
	__u32 payload;
	__u32 protocol;
	__u32 is_fragment;
};

/* Reads the IP header; returns whether it is one that the programs understand. */
static __always_inline int read_ip(struct __sk_buff *packet, struct ip *ip)
{
	__builtin_memset(ip, 0, sizeof(*ip));
	if (packet->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes(packet, ETHERNET, &ip->v4, sizeof(ip->v4)))
			return 0;
		ip->bytes = sizeof(ip->v4);
		ip->payload = bpf_ntohs(ip->v4.total) - (u32)sizeof(ip->v4);
		ip->protocol = ip->v4.protocol;
		ip->is_fragment = (ip->v4.fragment & bpf_htons(IP_FRAGMENT)) != 0;
		return ip->v4.version_length == 0x45 && bpf_ntohs(ip->v4.total) >= sizeof(ip->v4);
	}
	if (packet->protocol == bpf_htons(ETH_P_IPV6)) {
		if (bpf_skb_load_bytes(packet, ETHERNET, &ip->v6, sizeof(ip->v6)))
			return 0;
		ip->is_v6 = 1;
		ip->bytes = sizeof(ip->v6);
		ip->payload = bpf_ntohs(ip->v6.payload);
		ip->protocol = ip->v6.next;
		return 1;
	}
	return 0;
}

/* Writes the IP header back with another protocol, and `bytes` more behind it. */
static __always_inline long write_ip(struct __sk_buff *packet, struct ip *ip, __u8 protocol, int bytes)
{
	__u32 sum;

	if (ip->is_v6) {
		ip->v6.payload = bpf_htons(ip->payload + bytes);
		ip->v6.next = protocol;
		return bpf_skb_store_bytes(packet, ETHERNET, &ip->v6, 8, BPF_F_RECOMPUTE_CSUM);
	}
	/* The sum over a header with the right checksum is the same before and after. */
	sum = (__u16)~ip->v4.check;
	sum += (__u16)~ip->v4.total + (__u16)~bpf_htons(ip->v4.protocol);
	ip->v4.total = bpf_htons(ip->payload + ip->bytes + bytes);
	ip->v4.protocol = protocol;
	sum += ip->v4.total + bpf_htons(protocol);
	ip->v4.check = ~hw_fold(sum);
	return bpf_skb_store_bytes(packet, ETHERNET, &ip->v4, sizeof(ip->v4), 0);
}

SEC("tcx/egress")
int hw_leave(struct __sk_buff *packet)
{
	struct bpf_sock *sk = (struct bpf_sock *)packet->sk;
	struct wire wire = {};
	struct end *end;
	struct tcp tcp;
	struct ip ip;
	__u32 is_pure, version;

	if (!sk)
		return TCX_NEXT;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return TCX_NEXT;
	end = bpf_sk_storage_get(&ends, sk, 0, 0);
	if (!end || !(end->heard || end->asking) || end_uses_option(end))
		return TCX_NEXT;
	if (!read_ip(packet, &ip) || ip.protocol != IPPROTO_TCP || ip.is_fragment)
		return TCX_NEXT;
	if (bpf_skb_load_bytes(packet, ETHERNET + ip.bytes, &tcp, sizeof(tcp)))
		return TCX_NEXT;
	is_pure = ip.payload <= (__u32)(tcp.offset >> 4) * 4;
	if (tcp.flags & TCP_SYN || !end_carries(end, is_pure))
		return TCX_NEXT;
	version = VERSION;
	wire.protocol = IPPROTO_TCP;
	wire.length = HEADER_BYTES;
	if (packet->gso_size || bpf_skb_adjust_room(packet, HEADER_BYTES, BPF_ADJ_ROOM_NET, 0)) {
		COUNT(too_large);
		return TCX_NEXT;
	}
	if (end_only_answers(end, is_pure)) {
		version = end->heard;
		wire.version_format = version << 4 | EXPLICIT_MINIMAL;
	} else {
		wire.version_format = version << 4 | EXPLICIT_STANDARD;
		request(end, &wire.fields);
	}
	if (version == end->heard)
		wire.fields.reverse = bpf_htonl(take_owed(end, 1));
	note_sent(end, is_pure, 1);
	/* Neither fails in a packet whose header was just read and that has room for 20 bytes more. */
	bpf_skb_store_bytes(packet, ETHERNET + ip.bytes, &wire, sizeof(wire), 0);
	write_ip(packet, &ip, options.protocol, HEADER_BYTES);
	return TCX_NEXT;
}

/*
 * Whether the sequence numbers of a packet are near those of its connection, as TCP itself will check more
 * closely: who does not see the connection must not tell it how fast to send (RFC 5961).
 */
static __always_inline int is_near(struct bpf_sock *sk, const struct tcp *tcp)
{
	struct bpf_tcp_sock *tp = bpf_tcp_sock(sk);
	__u32 acknowledged = bpf_ntohl(tcp->acknowledgement);
	__u32 sequence = bpf_ntohl(tcp->sequence);

	if (!tp)
		return 0;
	/* On the same host, an ACK can be faster than the sender's note of what it has sent. */
	return !hw_before(tp->snd_nxt + NEAR, acknowledged) && !hw_before(acknowledged, tp->snd_una - NEAR) &&
	       !hw_before(sequence, tp->rcv_nxt - NEAR) && !hw_before(tp->rcv_nxt + NEAR, sequence);
}

/*
 * Whether the checksum of a segment without data is right, where it has one already. A NAT that does not find
 * TCP behind a header breaks it: TCP would drop everything that follows.
 */
static __always_inline int is_whole(struct __sk_buff *packet, const struct ip *ip, const struct tcp *tcp)
{
	const struct sk_buff *kernel = bpf_cast_to_kern_ctx(packet);
	const __u32 bytes = (__u32)(tcp->offset >> 4) * 4;
	__be32 header[(TCP_BYTES + TCP_OPTIONS_BYTES) / 4] = {};
	__s64 sum;

	if (BPF_CORE_READ_BITFIELD(kernel, ip_summed) == CHECKSUM_PARTIAL)
		return 1;
	if (bytes < TCP_BYTES || ip->payload != HEADER_BYTES + bytes ||
	    bpf_skb_load_bytes(packet, ETHERNET + ip->bytes + HEADER_BYTES, header, bytes))
		return 0;
	sum = bpf_csum_diff(0, 0, header, sizeof(header), bpf_htons(IPPROTO_TCP) + bpf_htons(bytes));
	if (ip->is_v6)
		sum = bpf_csum_diff(0, 0, (__be32 *)ip->v6.source, 2 * sizeof(ip->v6.source), sum);
	else
		sum = bpf_csum_diff(0, 0, (__be32 *)&ip->v4.source, 2 * sizeof(ip->v4.source), sum);
	return hw_fold(sum) == 0xffff;
}

/* Finds the connection of a packet and notes its header. */
static __always_inline void find_and_note(struct __sk_buff *packet, const struct ip *ip, const struct wire *wire,
					  const struct tcp *tcp, __u32 version, __u32 format)
{
	struct bpf_sock_tuple tuple = {};
	struct bpf_sock *sk;
	struct end *end;

	if (ip->is_v6) {
		__builtin_memcpy(tuple.ipv6.saddr, ip->v6.source, 16);
		__builtin_memcpy(tuple.ipv6.daddr, ip->v6.destination, 16);
		tuple.ipv6.sport = tcp->source;
		tuple.ipv6.dport = tcp->destination;
		sk = bpf_sk_lookup_tcp(packet, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	} else {
		tuple.ipv4.saddr = ip->v4.source;
		tuple.ipv4.daddr = ip->v4.destination;
		tuple.ipv4.sport = tcp->source;
		tuple.ipv4.dport = tcp->destination;
		sk = bpf_sk_lookup_tcp(packet, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	}
	if (!sk)
		return;
	/* Before the handshake is complete, the lookup finds the listening socket. */
	if (sk->state != BPF_TCP_LISTEN && !is_near(sk, tcp)) {
		COUNT(strange);
	} else if (sk->state != BPF_TCP_LISTEN) {
		end = bpf_sk_storage_get(&ends, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (end && !end->heard && !is_whole(packet, ip, tcp))
			COUNT(malformed);
		else if (end)
			note(end, &wire->fields, version, format, END_PROTOCOL, 1);
	}
	bpf_sk_release(sk);
}

/* Handles a packet with the protocol of the header. */
static __always_inline int arrive(struct __sk_buff *packet, struct ip *ip)
{
	__u32 version, format;
	struct wire wire;
	struct tcp tcp;

	if (ip->is_fragment || ip->payload < HEADER_BYTES ||
	    bpf_skb_load_bytes(packet, ETHERNET + ip->bytes, &wire, sizeof(wire)) || wire.length != HEADER_BYTES) {
		COUNT(malformed);
		return TCX_DROP;
	}
	if (wire.protocol != IPPROTO_TCP)
		return TCX_NEXT;
	if (ip->payload < HEADER_BYTES + TCP_BYTES ||
	    bpf_skb_load_bytes(packet, ETHERNET + ip->bytes + HEADER_BYTES, &tcp, sizeof(tcp))) {
		COUNT(malformed);
		return TCX_DROP;
	}
	COUNT(received);
	version = wire.version_format >> 4;
	format = wire.version_format & 0xf;
	if ((version == EXPLICIT_VERSION_XCP || version == EXPLICIT_VERSION_RCP) &&
	    (format == EXPLICIT_STANDARD || format == EXPLICIT_MINIMAL))
		find_and_note(packet, ip, &wire, &tcp, version, format);
	else
		COUNT(unknown);
	/* If there is no memory for this, TCP sends the segment again. */
	if (bpf_skb_adjust_room(packet, -HEADER_BYTES, BPF_ADJ_ROOM_NET, 0) ||
	    write_ip(packet, ip, IPPROTO_TCP, -HEADER_BYTES))
		return TCX_DROP;
	return TCX_NEXT;
}

/* Lowers a peer's largest segment, so that ours leave room for the header. */
static __always_inline void clamp(struct __sk_buff *packet, const struct ip *ip, __u32 at, __u32 place)
{
	const __u32 check = ETHERNET + ip->bytes + 16;
	__u32 mtu = 0;
	__u32 limit;
	__be16 old, new;

	if (bpf_skb_load_bytes(packet, at + 2, &old, sizeof(old)) || bpf_check_mtu(packet, 0, &mtu, 0, 0) < 0)
		return;
	limit = hw_min(bpf_ntohs(old), mtu - ip->bytes - TCP_BYTES);
	if (limit < LEAST_MSS + HEADER_BYTES)
		return;
	new = bpf_htons(limit - HEADER_BYTES);
	if (bpf_skb_store_bytes(packet, at + 2, &new, sizeof(new), 0))
		return;
	bpf_l4_csum_replace(packet, check, hw_word_at(place, old), hw_word_at(place, new), 2);
}

/* Finds the option with the peer's largest segment in a SYN. */
static __always_inline void clamp_syn(struct __sk_buff *packet, const struct ip *ip)
{
	const __u32 start = ETHERNET + ip->bytes;
	struct tcp_options offered = {};
	struct tcp tcp;
	__u32 place;

	if (bpf_skb_load_bytes(packet, start, &tcp, sizeof(tcp)) || !(tcp.flags & TCP_SYN))
		return;
	offered.length = (__u32)(tcp.offset >> 4) * 4 - TCP_BYTES;
	if (!offered.length || offered.length > TCP_OPTIONS_BYTES ||
	    bpf_skb_load_bytes(packet, start + TCP_BYTES, offered.bytes, offered.length))
		return;
	place = tcp_find_option(&offered, TCP_OPTION_MSS, TCP_OPTION_MSS_BYTES);
	if (place != TCP_NO_OPTION)
		clamp(packet, ip, start + TCP_BYTES + place, TCP_BYTES + place);
}

SEC("tcx/ingress")
int hw_arrive(struct __sk_buff *packet)
{
	struct ip ip;

	if (!read_ip(packet, &ip))
		return TCX_NEXT;
	if (ip.protocol == options.protocol)
		return arrive(packet, &ip);
	if (ip.protocol == IPPROTO_TCP && !ip.is_fragment)
		clamp_syn(packet, &ip);
	return TCX_NEXT;
}

#endif

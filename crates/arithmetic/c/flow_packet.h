/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What a middlebox reads of a packet of TCP: its connection, and what flow_track.h and rwm.h go by (wan 1.4,
 * 2.1); and of one of UDP: its ends and how large it is.
 *
 * A packet is bytes in network order from `packet` up to `end`, which may be earlier than the end of its
 * data: the headers suffice. It is only read; where it lies is for its owner to know.
 */
#ifndef HEADWAY_FLOW_PACKET_H
#define HEADWAY_FLOW_PACKET_H

#include "ip_wire.h"
#include "tcp_options.h"

/* What a packet begins with. */
enum flow_framing {
	FLOW_IP,
	FLOW_ETHERNET,
};

/* What a packet is. All but the first are for others, and pass as they are. */
enum flow_found {
	/* A segment of TCP that was read. */
	FLOW_SEGMENT,
	/* Something else. */
	FLOW_OTHER,
	/* A part of a packet. */
	FLOW_FRAGMENT,
	/* A packet within another one, or encrypted. */
	FLOW_TUNNEL,
	/* A header that is cut off, contradicts itself, or has flags that no TCP sends. */
	FLOW_MALFORMED,
	FLOW_FOUND_KINDS,
	/* A datagram of UDP, of which key, sender, code point and data were read: for those who do not count
	 * it as something else. */
	FLOW_DATAGRAM = FLOW_FOUND_KINDS,
};

/* What a packet says of congestion (RFC 3168 5): all but the first may be marked, and the last is. */
enum flow_ecn {
	FLOW_NOT_ECT,
	FLOW_ECT_1,
	FLOW_ECT_0,
	FLOW_CE,
};

/* Flags of TCP. */
#define FLOW_FIN 0x01
#define FLOW_SYN 0x02
#define FLOW_RST 0x04
#define FLOW_ACK 0x10

/* Layers of Ethernet: with two VLAN tags, the last type is behind 20 bytes. */
#define FLOW_ETHERNET_BYTES 14
#define FLOW_TAG_BYTES 4
#define FLOW_MOST_TAGS 2
#define FLOW_TYPE_V4 0x0800
#define FLOW_TYPE_V6 0x86dd
#define FLOW_TYPE_TAG 0x8100
#define FLOW_TYPE_OUTER_TAG 0x88a8
/* MPLS, and PPP over Ethernet. */
#define FLOW_TYPE_MPLS 0x8847
#define FLOW_TYPE_MPLS_MULTICAST 0x8848
#define FLOW_TYPE_PPPOE 0x8864

#define FLOW_PROTOCOL_TCP 6
#define FLOW_PROTOCOL_UDP 17
#define FLOW_UDP_BYTES 8
/* Offsets in the header of TCP. */
#define FLOW_TCP_WINDOW 14
#define FLOW_TCP_CHECKSUM 16

/* Scale of the window of an end that did not say one, or whose window is not to be changed. */
#define FLOW_NO_SCALE 0xff
/* Largest scale: higher ones mean this one (RFC 7323 2.3). */
#define FLOW_LARGEST_SCALE 14
/* Largest segment to an end that does not say it (RFC 9293 3.7.1), and the least that Linux sends. */
#define FLOW_DEFAULT_MSS_V4 536
#define FLOW_DEFAULT_MSS_V6 1220
#define FLOW_LEAST_MSS 88
/* Two options without meaning, and timestamps of ten bytes: what segments begin their options
 * with (RFC 7323 A). */
#define FLOW_STAMPS 0x0101080aU
#define FLOW_STAMPS_BYTES 12
/* Two options without meaning, and what a receiver has beyond what it acknowledges (RFC 2018): what follows
 * them; the last byte is the length. With timestamps there is room for three blocks. */
#define FLOW_SACK 0x01010500U
#define FLOW_SACK_BYTES 4
#define FLOW_BLOCK_BYTES 8
#define FLOW_MOST_BLOCKS 3

/*
 * A connection: its two ends, in the same order whichever of them sends. Addresses are in network order, of
 * IPv4 in the first four bytes; unused bytes are zero, so that keys can be compared as bytes.
 */
struct flow_key {
	hw_u32 address[2][4];
	hw_u16 port[2];
	/* Of IP, 4 or 6. */
	hw_u32 version;
};

/* A segment, in the byte order of the machine. */
struct flow_packet {
	struct flow_key key;
	hw_u32 sequence;
	hw_u32 acknowledgement;
	/* Bytes of data. */
	hw_u32 data;
	/* Offset of the header of TCP in the packet. */
	hw_u32 at;
	/* Timestamp and its echo (RFC 7323 3), where `stamped`. */
	hw_u32 stamp;
	hw_u32 echo;
	hw_u16 window;
	/* Largest segment and scale that a SYN says; the scale is FLOW_NO_SCALE without one, and where all
	 * headers are signed. */
	hw_u16 mss;
	hw_u8 scale;
	hw_u8 flags;
	/* Differentiated services code point. */
	hw_u8 dscp;
	/* Which end of the key sent it. */
	hw_u8 sender;
	/* On which side of the middlebox it arrived, 0 or 1: set by the owner. */
	hw_u8 side;
	/* Whether there are timestamps: of segments that are no SYN only where they are the first option. */
	hw_u8 stamped;
	/* Explicit congestion notification: enum flow_ecn. */
	hw_u8 ecn;
	hw_u8 unused;
	/* Bytes that SACKs say have arrived beyond `acknowledgement`: only behind timestamps. */
	hw_u32 sacked;
};

/* Loads four bytes as they lie. Programs of BPF run where the headers of packets are
 * aligned or need not be. */
HW_INLINE hw_u32 flow_load(const hw_u8 *bytes)
{
#ifdef __bpf__
	typedef hw_u32 __attribute__((may_alias)) word;
#else
	typedef hw_u32 __attribute__((may_alias, aligned(1))) word;
#endif
	return *(const word *)bytes;
}

/* Whether what lies behind IP with this protocol is a packet again: IP in IP, GRE, ESP, AH, L2TP. */
HW_INLINE int flow_is_tunnel(hw_u32 protocol)
{
	return protocol == 4 || protocol == 41 || protocol == 47 || protocol == 50 || protocol == 51 || protocol == 115;
}

/* Where the headers of a packet are. */
struct flow_place {
	struct ip_place ip;
	/* Tags before IP: what verifiers know of its address is that it is as aligned as without them. */
	hw_u32 tags;
};

/* Returns where IP begins behind so many tags. */
HW_INLINE hw_u32 flow_start(hw_u32 framing, hw_u32 tags)
{
	return framing == FLOW_ETHERNET ? FLOW_ETHERNET_BYTES + FLOW_TAG_BYTES * (hw_u32)hw_min(tags, FLOW_MOST_TAGS) : 0;
}

/* Counts the tags between Ethernet and IP. */
HW_INLINE hw_u32 flow_skip_ethernet(const hw_u8 *packet, const hw_u8 *end, hw_u32 *tags)
{
	hw_u32 type = 0;
	hw_u32 k;

	for (k = 0; k <= FLOW_MOST_TAGS; k++) {
		const hw_u8 *view = hw_view(packet, end, flow_start(FLOW_ETHERNET, k) - 2, 2);

		if (!view)
			return FLOW_MALFORMED;
		type = hw_read_16(view);
		if (type != FLOW_TYPE_TAG && type != FLOW_TYPE_OUTER_TAG)
			break;
	}
	*tags = k;
	if (type == FLOW_TYPE_V4 || type == FLOW_TYPE_V6)
		return FLOW_SEGMENT;
	if (type == FLOW_TYPE_MPLS || type == FLOW_TYPE_MPLS_MULTICAST || type == FLOW_TYPE_PPPOE)
		return FLOW_TUNNEL;
	return FLOW_OTHER;
}

/* Reads the options of a SYN, of which there are `length` bytes: scale, largest segment and timestamps.
 * Returns whether all are there. */
HW_INLINE int flow_read_options(const hw_u8 *packet, const hw_u8 *end, hw_u32 at, hw_u32 length, struct flow_packet *out)
{
	struct tcp_options options = { .length = length };
	hw_u32 k, place;

	for (k = 0; k < TCP_OPTIONS_BYTES; k += 4) {
		const hw_u8 *view;

		if (k >= length)
			break;
		view = hw_view(packet, end, at + k, 4);
		if (!view)
			return 0;
		options.bytes[k] = view[0];
		options.bytes[k + 1] = view[1];
		options.bytes[k + 2] = view[2];
		options.bytes[k + 3] = view[3];
	}
	place = tcp_find_option(&options, TCP_OPTION_MSS, TCP_OPTION_MSS_BYTES);
	if (place <= TCP_OPTIONS_BYTES - TCP_OPTION_MSS_BYTES)
		out->mss = (hw_u16)hw_max(hw_read_16(options.bytes + place + 2), FLOW_LEAST_MSS);
	place = tcp_find_option(&options, TCP_OPTION_SCALE, TCP_OPTION_SCALE_BYTES);
	if (place <= TCP_OPTIONS_BYTES - TCP_OPTION_SCALE_BYTES)
		out->scale = (hw_u8)hw_min(options.bytes[place + 2], FLOW_LARGEST_SCALE);
	place = tcp_find_option(&options, TCP_OPTION_STAMPS, TCP_OPTION_STAMPS_BYTES);
	if (place <= TCP_OPTIONS_BYTES - TCP_OPTION_STAMPS_BYTES) {
		out->stamp = hw_read_32(options.bytes + place + 2);
		out->echo = hw_read_32(options.bytes + place + 6);
		out->stamped = 1;
	}
	/* Changing the window of a signed header would end the connection. */
	if (tcp_find_option(&options, TCP_OPTION_MD5, TCP_ANY_LENGTH) != TCP_NO_OPTION ||
	    tcp_find_option(&options, TCP_OPTION_AO, TCP_ANY_LENGTH) != TCP_NO_OPTION)
		out->scale = FLOW_NO_SCALE;
	return 1;
}

/* Whether end `a` comes after end `b` in a key. Any order does that is always the same. */
HW_INLINE int flow_is_after(const hw_u32 *a, const hw_u32 *b, hw_u32 port_a, hw_u32 port_b)
{
	if (a[0] != b[0])
		return a[0] > b[0];
	if (a[1] != b[1])
		return a[1] > b[1];
	if (a[2] != b[2])
		return a[2] > b[2];
	if (a[3] != b[3])
		return a[3] > b[3];
	return port_a > port_b;
}

/* Sets the key of a packet, and which of its ends sent it. */
HW_INLINE void flow_set_key(struct flow_packet *out, const hw_u32 *source, const hw_u32 *destination, hw_u32 source_port,
			    hw_u32 destination_port)
{
	struct flow_key *key = &out->key;

	/* Two branches rather than a variable index, for BPF's stack. */
	if (flow_is_after(source, destination, source_port, destination_port)) {
		out->sender = 1;
		__builtin_memcpy(key->address[1], source, 16);
		__builtin_memcpy(key->address[0], destination, 16);
		key->port[1] = (hw_u16)source_port;
		key->port[0] = (hw_u16)destination_port;
	} else {
		__builtin_memcpy(key->address[0], source, 16);
		__builtin_memcpy(key->address[1], destination, 16);
		key->port[0] = (hw_u16)source_port;
		key->port[1] = (hw_u16)destination_port;
	}
}

/* Reads the ends from the header of IP and from the ports, with which TCP and UDP begin. */
HW_INLINE void flow_read_key(const hw_u8 *ip, const hw_u8 *ports, struct flow_packet *out)
{
	hw_u32 source[4] = { 0 };
	hw_u32 destination[4] = { 0 };
	hw_u32 k;

	if (out->key.version == 4) {
		source[0] = flow_load(ip + 12);
		destination[0] = flow_load(ip + 16);
	} else {
		for (k = 0; k < 4; k++) {
			source[k] = flow_load(ip + 8 + 4 * k);
			destination[k] = flow_load(ip + 24 + 4 * k);
		}
	}
	flow_set_key(out, source, destination, hw_read_16(ports), hw_read_16(ports + 2));
}

/* Whether the flags are some that TCP sends: a SYN alone or with ACK, or an ACK, or a reset. */
HW_INLINE int flow_has_sense(hw_u32 flags)
{
	if (flags & FLOW_SYN)
		return !(flags & (FLOW_FIN | FLOW_RST));
	return (flags & (FLOW_RST | FLOW_ACK)) != 0;
}

/* Returns the bytes of the blocks of a SACK that lie beyond what is acknowledged: those before it were
 * received twice (RFC 2883). */
HW_INLINE hw_u32 flow_read_sacked(const hw_u8 *packet, const hw_u8 *end, hw_u32 at, hw_u32 length, hw_u32 acknowledgement)
{
	const hw_u8 *option = length < FLOW_SACK_BYTES ? 0 : hw_view(packet, end, at, FLOW_SACK_BYTES);
	hw_u32 sacked = 0;
	hw_u32 k, bytes;

	if (!option || (hw_read_32(option) & ~0xffU) != FLOW_SACK)
		return 0;
	bytes = (hw_u32)hw_min(option[3] + 2U, length);
	for (k = 0; k < FLOW_MOST_BLOCKS; k++) {
		const hw_u32 begins = FLOW_SACK_BYTES + FLOW_BLOCK_BYTES * k;
		const hw_u8 *block = hw_view(packet, end, at + begins, FLOW_BLOCK_BYTES);
		hw_u32 left, right;

		if (!block || begins + FLOW_BLOCK_BYTES > bytes)
			break;
		left = hw_read_32(block) - acknowledgement;
		right = hw_read_32(block + 4) - acknowledgement;
		if ((hw_s32)left > 0 && (hw_s32)right > (hw_s32)left)
			sacked += right - left;
	}
	return sacked;
}

/* Reads the timestamps of a segment and what SACKs say, of which options begin at `at` and
 * have `length` bytes. */
HW_INLINE void flow_read_stamps(const hw_u8 *packet, const hw_u8 *end, hw_u32 at, hw_u32 length, struct flow_packet *out)
{
	const hw_u8 *view = length < FLOW_STAMPS_BYTES ? 0 : hw_view(packet, end, at, FLOW_STAMPS_BYTES);

	if (!view || hw_read_32(view) != FLOW_STAMPS)
		return;
	out->stamp = hw_read_32(view + 4);
	out->echo = hw_read_32(view + 8);
	out->stamped = 1;
	out->sacked = flow_read_sacked(packet, end, at + FLOW_STAMPS_BYTES, length - FLOW_STAMPS_BYTES, out->acknowledgement);
}

/* Reads the header of TCP behind that of IP. */
HW_INLINE hw_u32 flow_read_tcp(const hw_u8 *packet, const hw_u8 *end, const hw_u8 *ip, const struct ip_place *place,
			       struct flow_packet *out)
{
	const hw_u8 *tcp = hw_view(packet, end, place->at, TCP_HEADER_BYTES);
	hw_u32 bytes;

	if (!tcp)
		return FLOW_MALFORMED;
	bytes = (hw_u32)(tcp[12] >> 4) * 4;
	out->flags = tcp[13];
	if (bytes < TCP_HEADER_BYTES || place->at + bytes > place->end || !flow_has_sense(out->flags))
		return FLOW_MALFORMED;
	flow_read_key(ip, tcp, out);
	out->sequence = hw_read_32(tcp + 4);
	out->acknowledgement = hw_read_32(tcp + 8);
	out->window = (hw_u16)hw_read_16(tcp + FLOW_TCP_WINDOW);
	out->at = place->at;
	out->data = place->end - place->at - bytes;
	out->scale = FLOW_NO_SCALE;
	out->mss = out->key.version == 4 ? FLOW_DEFAULT_MSS_V4 : FLOW_DEFAULT_MSS_V6;
	if (!(out->flags & FLOW_SYN))
		flow_read_stamps(packet, end, place->at + TCP_HEADER_BYTES, bytes - TCP_HEADER_BYTES, out);
	else if (!flow_read_options(packet, end, place->at + TCP_HEADER_BYTES, bytes - TCP_HEADER_BYTES, out))
		return FLOW_MALFORMED;
	return FLOW_SEGMENT;
}

/* Reads the header of UDP behind that of IP. */
HW_INLINE hw_u32 flow_read_udp(const hw_u8 *packet, const hw_u8 *end, const hw_u8 *ip, const struct ip_place *place,
			       struct flow_packet *out)
{
	const hw_u8 *udp = hw_view(packet, end, place->at, FLOW_UDP_BYTES);

	if (!udp || place->at + FLOW_UDP_BYTES > place->end)
		return FLOW_MALFORMED;
	flow_read_key(ip, udp, out);
	out->at = place->at;
	out->data = place->end - place->at - FLOW_UDP_BYTES;
	return FLOW_DATAGRAM;
}

/* Finds the headers of a packet that begins as `framing` says. Returns FLOW_SEGMENT if that of TCP or UDP is
 * behind IP, otherwise what else it is, one of enum flow_found. */
HW_INLINE hw_u32 flow_locate(const hw_u8 *packet, const hw_u8 *end, hw_u32 framing, struct flow_place *place)
{
	hw_u32 found;

	place->tags = 0;
	if (framing == FLOW_ETHERNET) {
		found = flow_skip_ethernet(packet, end, &place->tags);
		if (found != FLOW_SEGMENT)
			return found;
	}
	if (!ip_skip(packet, end, flow_start(framing, place->tags), &place->ip))
		return FLOW_MALFORMED;
	if (place->ip.fragment)
		return FLOW_FRAGMENT;
	if (flow_is_tunnel(place->ip.protocol))
		return FLOW_TUNNEL;
	if (place->ip.protocol != FLOW_PROTOCOL_TCP && place->ip.protocol != FLOW_PROTOCOL_UDP)
		return FLOW_OTHER;
	return FLOW_SEGMENT;
}

/* Reads a packet whose headers have been found, and must all be at hand; returns as flow_read. */
HW_INLINE hw_u32 flow_read_at(const hw_u8 *packet, const hw_u8 *end, hw_u32 framing, const struct flow_place *place,
			      struct flow_packet *out)
{
	const hw_u32 start = flow_start(framing, place->tags);
	const hw_u8 *ip;

	__builtin_memset(out, 0, sizeof(*out));
	/* As long as the shorter of the two headers, that of IPv4; its end was looked at before, but BPF
	 * has forgotten it. */
	ip = hw_view(packet, end, start, IP_V4_BYTES);
	if (!ip)
		return FLOW_MALFORMED;
	out->key.version = ip[0] >> 4;
	if (out->key.version == 4) {
		out->dscp = ip[1] >> 2;
		out->ecn = ip[1] & 3;
	} else {
		ip = hw_view(packet, end, start, IP_V6_BYTES);
		if (!ip)
			return FLOW_MALFORMED;
		out->dscp = (hw_u8)(hw_read_16(ip) >> 6 & 0x3f);
		out->ecn = (hw_u8)(hw_read_16(ip) >> 4 & 3);
	}
	if (place->ip.protocol == FLOW_PROTOCOL_UDP)
		return flow_read_udp(packet, end, ip, &place->ip, out);
	return flow_read_tcp(packet, end, ip, &place->ip, out);
}

/*
 * Reads a packet that begins as `framing` says, one of enum flow_framing, of which all headers must be at
 * hand. Returns one of enum flow_found; `*out` is complete but for the side if that is FLOW_SEGMENT, has some
 * fields if it is FLOW_DATAGRAM, and is otherwise to be ignored.
 */
HW_INLINE hw_u32 flow_read(const hw_u8 *packet, const hw_u8 *end, hw_u32 framing, struct flow_packet *out)
{
	struct flow_place place;
	const hw_u32 found = flow_locate(packet, end, framing, &place);

	return found == FLOW_SEGMENT ? flow_read_at(packet, end, framing, &place, out) : found;
}

#endif

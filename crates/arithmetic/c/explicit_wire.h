/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The congestion header in packets: where it lies behind an IP header, how it is read, and how a router writes into it
 * (xcp-rcp 1.4, 1.5, 2.4). All of this works on bytes in network order, and reads none beyond the length that it is given.
 */
#ifndef HEADWAY_EXPLICIT_WIRE_H
#define HEADWAY_EXPLICIT_WIRE_H

#include "explicit_state.h"

/* Length of the header, and the number under which it follows an IP header: one for experiments (RFC 3692). */
#define EXPLICIT_WIRE_BYTES 20
#define EXPLICIT_PROTOCOL 253
/* Offset of the four bytes that routers write. */
#define EXPLICIT_WIRE_FEEDBACK 12
/* Bytes at the beginning of a packet that are searched: the longest header of IPv4 and a congestion header fit, and so do
 * IPv6 with some extension headers. */
#define EXPLICIT_SEARCHED_BYTES 128
/* Extension headers that are skipped: RFC 8200 names four kinds, each of which occurs once or twice. */
#define EXPLICIT_EXTENSIONS 8

/* What a packet has behind its IP header. */
enum explicit_found {
	/* No congestion header. */
	EXPLICIT_HEADLESS,
	/* One that can be read. */
	EXPLICIT_FOUND,
	/* One that is cut off, of another length than 20, or in a fragment: routers drop the packet (2.4). */
	EXPLICIT_TRUNCATED,
	EXPLICIT_BAD_LENGTH,
	EXPLICIT_FRAGMENT,
};

HW_INLINE hw_u32 explicit_read_16(const hw_u8 *bytes)
{
	return (hw_u32)bytes[0] << 8 | bytes[1];
}

HW_INLINE hw_u32 explicit_read_32(const hw_u8 *bytes)
{
	return explicit_read_16(bytes) << 16 | explicit_read_16(bytes + 2);
}

HW_INLINE void explicit_write_32(hw_u8 *bytes, hw_u32 value)
{
	bytes[0] = (hw_u8)(value >> 24);
	bytes[1] = (hw_u8)(value >> 16);
	bytes[2] = (hw_u8)(value >> 8);
	bytes[3] = (hw_u8)value;
}

/* Reads the header at the beginning of `bytes`; version and format may be unknown. */
HW_INLINE hw_u32 explicit_read(const hw_u8 *bytes, hw_u32 length, struct explicit_header *header)
{
	if (length < EXPLICIT_WIRE_BYTES)
		return EXPLICIT_TRUNCATED;
	if (bytes[1] != EXPLICIT_WIRE_BYTES)
		return EXPLICIT_BAD_LENGTH;
	*header = (struct explicit_header){
		.protocol = bytes[0],
		.version = bytes[2] >> 4,
		.format = bytes[2] & 0xf,
		.rtt = explicit_read_32(bytes + 4),
		.x = explicit_read_32(bytes + 8),
		.feedback = explicit_read_32(bytes + EXPLICIT_WIRE_FEEDBACK),
		.reverse = explicit_read_32(bytes + 16),
	};
	return EXPLICIT_FOUND;
}

/* Writes a header into EXPLICIT_WIRE_BYTES bytes. */
HW_INLINE void explicit_write(const struct explicit_header *header, hw_u8 *bytes)
{
	bytes[0] = header->protocol;
	bytes[1] = EXPLICIT_WIRE_BYTES;
	bytes[2] = (hw_u8)(header->version << 4 | (header->format & 0xf));
	bytes[3] = 0;
	explicit_write_32(bytes + 4, header->rtt);
	explicit_write_32(bytes + 8, header->x);
	explicit_write_32(bytes + EXPLICIT_WIRE_FEEDBACK, header->feedback);
	explicit_write_32(bytes + 16, header->reverse);
}

/* The place behind the IP header: the protocol there, its offset, the end of the packet, and whether it is a fragment. */
struct explicit_place {
	hw_u32 protocol;
	hw_u32 at;
	hw_u32 end;
	hw_u32 fragment;
};

/* Finds the payload of IPv4; returns whether there is one. */
HW_INLINE int explicit_skip_ipv4(const hw_u8 *packet, hw_u32 length, struct explicit_place *place)
{
	if (length < 20)
		return 0;
	place->protocol = packet[9];
	place->at = (packet[0] & 0xfU) * 4;
	place->end = explicit_read_16(packet + 2);
	/* More fragments, or an offset. */
	place->fragment = explicit_read_16(packet + 6) & 0x3fff;
	return place->at >= 20;
}

/* The same for IPv6, behind its extension headers. */
HW_INLINE int explicit_skip_ipv6(const hw_u8 *packet, hw_u32 length, struct explicit_place *place)
{
	hw_u32 k;

	if (length < 40)
		return 0;
	place->protocol = packet[6];
	place->at = 40;
	place->end = 40 + explicit_read_16(packet + 4);
	place->fragment = 0;
	for (k = 0; k < EXPLICIT_EXTENSIONS; k++) {
		const hw_u32 next = place->protocol;
		/* Hop-by-hop options, routing, destination options; fragment. */
		const int sized = next == 0 || next == 43 || next == 60;

		if (!sized && next != 44)
			return 1;
		if (place->at + 8 > length)
			return 0;
		if (!sized) {
			const hw_u32 offset = explicit_read_16(packet + place->at + 2);

			/* A packet may have a fragment header although it is whole (RFC 6946). */
			place->fragment |= offset & 0xfff9;
		}
		place->protocol = packet[place->at];
		place->at += sized ? 8 + 8 * packet[place->at + 1] : 8;
		/* What follows the header of a later fragment is no header. */
		if (place->fragment & 0xfff8)
			return 1;
	}
	return 1;
}

/*
 * Finds the congestion header of a packet of IP, of which `length` bytes are at hand, and reads it. `*at` becomes its
 * offset. What is not IP, or ends within the IP header, has none.
 */
HW_INLINE hw_u32 explicit_find(const hw_u8 *packet, hw_u32 length, struct explicit_header *header, hw_u32 *at)
{
	struct explicit_place place;
	int is_ip = 0;

	if (length && packet[0] >> 4 == 4)
		is_ip = explicit_skip_ipv4(packet, length, &place);
	else if (length && packet[0] >> 4 == 6)
		is_ip = explicit_skip_ipv6(packet, length, &place);
	if (!is_ip || place.protocol != EXPLICIT_PROTOCOL)
		return EXPLICIT_HEADLESS;
	if (place.fragment)
		return EXPLICIT_FRAGMENT;
	length = (hw_u32)hw_min(length, place.end);
	if (place.at > length)
		return EXPLICIT_TRUNCATED;
	*at = place.at;
	return explicit_read(packet + place.at, length - place.at, header);
}

#endif

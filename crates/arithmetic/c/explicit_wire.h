/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The congestion header in packets: where it lies behind an IP header, how it is read, and how a router
 * writes into it (xcp-rcp 1.4, 1.5, 2.4). All of this works on bytes in network order, and reads none beyond
 * the length that it is given.
 */
#ifndef HEADWAY_EXPLICIT_WIRE_H
#define HEADWAY_EXPLICIT_WIRE_H

#include "explicit_state.h"
#include "ip_wire.h"

/* Length of the header, and the number under which it follows an IP header: one for
 * experiments (RFC 3692). */
#define EXPLICIT_WIRE_BYTES 20
#define EXPLICIT_PROTOCOL 253
/* Offset of the four bytes that routers write. */
#define EXPLICIT_WIRE_FEEDBACK 12
/* Bytes at the beginning of a packet that are searched: the longest header of IPv4 and a congestion header
 * fit, and so do IPv6 with some extension headers. */
#define EXPLICIT_SEARCHED_BYTES 128

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
		.rtt = hw_read_32(bytes + 4),
		.x = hw_read_32(bytes + 8),
		.feedback = hw_read_32(bytes + EXPLICIT_WIRE_FEEDBACK),
		.reverse = hw_read_32(bytes + 16),
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
	hw_write_32(bytes + 4, header->rtt);
	hw_write_32(bytes + 8, header->x);
	hw_write_32(bytes + EXPLICIT_WIRE_FEEDBACK, header->feedback);
	hw_write_32(bytes + 16, header->reverse);
}

/*
 * Finds the congestion header of a packet of IP, of which `length` bytes are at hand, and reads it. `*at`
 * becomes its offset. What is not IP, or ends within the IP header, has none.
 */
HW_INLINE hw_u32 explicit_find(const hw_u8 *packet, hw_u32 length, struct explicit_header *header, hw_u32 *at)
{
	struct ip_place place;

	if (!ip_skip(packet, packet + length, 0, &place) || place.protocol != EXPLICIT_PROTOCOL)
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

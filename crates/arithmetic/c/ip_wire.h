/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * IP headers in packets, and what lies behind them. All of this works on bytes in network order, and reads
 * none outside of a packet. In BPF a packet may be memory whose end only the verifier's pointers know.
 */
#ifndef HEADWAY_IP_WIRE_H
#define HEADWAY_IP_WIRE_H

#include "numbers.h"

/* Extension headers that are skipped: RFC 8200 names four kinds, each of which occurs once or twice. */
#define IP_EXTENSIONS 8
#define IP_V4_BYTES 20
#define IP_V6_BYTES 40

/* Returns the place of `bytes` bytes of a packet, or null if it ends before. */
HW_INLINE const hw_u8 *hw_view(const hw_u8 *packet, const hw_u8 *end, hw_u32 at, hw_u32 bytes)
{
#ifdef __bpf__
	const hw_u8 *view = packet + at;

	return view + bytes > end ? 0 : view;
#else
	return (hw_u64)at + bytes > (hw_u64)(end - packet) ? 0 : packet + at;
#endif
}

HW_INLINE hw_u32 hw_read_16(const hw_u8 *bytes)
{
	return (hw_u32)bytes[0] << 8 | bytes[1];
}

HW_INLINE hw_u32 hw_read_32(const hw_u8 *bytes)
{
	return hw_read_16(bytes) << 16 | hw_read_16(bytes + 2);
}

HW_INLINE void hw_write_16(hw_u8 *bytes, hw_u32 value)
{
	bytes[0] = (hw_u8)(value >> 8);
	bytes[1] = (hw_u8)value;
}

HW_INLINE void hw_write_32(hw_u8 *bytes, hw_u32 value)
{
	hw_write_16(bytes, value >> 16);
	hw_write_16(bytes + 2, value);
}

/* The place behind the headers of IP: the protocol there, its offset, the end of the packet, and whether
 * it is a fragment. */
struct ip_place {
	hw_u32 protocol;
	hw_u32 at;
	hw_u32 end;
	hw_u32 fragment;
};

/* Finds the payload of IPv4, whose header begins at `start`; returns whether there is one. */
HW_INLINE int ip_skip_v4(const hw_u8 *packet, const hw_u8 *end, hw_u32 start, struct ip_place *place)
{
	const hw_u8 *header = hw_view(packet, end, start, IP_V4_BYTES);
	hw_u32 bytes;

	if (!header)
		return 0;
	bytes = (header[0] & 0xfU) * 4;
	place->protocol = header[9];
	place->at = start + bytes;
	place->end = start + hw_read_16(header + 2);
	/* More fragments, or an offset. */
	place->fragment = hw_read_16(header + 6) & 0x3fff;
	return bytes >= IP_V4_BYTES;
}

/* The same for IPv6, behind its extension headers. */
HW_INLINE int ip_skip_v6(const hw_u8 *packet, const hw_u8 *end, hw_u32 start, struct ip_place *place)
{
	const hw_u8 *header = hw_view(packet, end, start, IP_V6_BYTES);
	hw_u32 k;

	if (!header)
		return 0;
	place->protocol = header[6];
	place->at = start + IP_V6_BYTES;
	place->end = place->at + hw_read_16(header + 4);
	place->fragment = 0;
	for (k = 0; k < IP_EXTENSIONS; k++) {
		const hw_u32 next = place->protocol;
		/* Hop-by-hop options, routing, destination options; fragment. */
		const int sized = next == 0 || next == 43 || next == 60;

		if (!sized && next != 44)
			return 1;
		header = hw_view(packet, end, place->at, 8);
		if (!header)
			return 0;
		/* A packet may have a fragment header although it is whole (RFC 6946). */
		if (!sized)
			place->fragment |= hw_read_16(header + 2) & 0xfff9;
		place->protocol = header[0];
		place->at += sized ? 8 + 8 * header[1] : 8;
		/* What follows the header of a later fragment is no header. */
		if (place->fragment & 0xfff8)
			return 1;
	}
	return 1;
}

/* Finds the payload of a packet of either version, as the first four bits at `start` say it. */
HW_INLINE int ip_skip(const hw_u8 *packet, const hw_u8 *end, hw_u32 start, struct ip_place *place)
{
	const hw_u8 *first = hw_view(packet, end, start, 1);

	if (first && first[0] >> 4 == 4)
		return ip_skip_v4(packet, end, start, place);
	if (first && first[0] >> 4 == 6)
		return ip_skip_v6(packet, end, start, place);
	return 0;
}

#endif

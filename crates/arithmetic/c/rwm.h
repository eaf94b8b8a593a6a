/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Receive window modulation: how large a window of an established connection may leave a
 * middlebox (wan 2.2, 2.3).
 *
 * A limit in bytes becomes one of the field in the header, in the units of the end that sends it. What its
 * host tells is only ever lowered, so that flow control stays: a window of zero stays zero.
 */
#ifndef HEADWAY_RWM_H
#define HEADWAY_RWM_H

#include "checksum.h"
#include "flow_track.h"
#include "wide.h"

/* Fraction bits of a share of a rate, in bytes per ns. 10 kb/s have 20 bits that count, and
 * 100 Gb/s have 44. */
#define RWM_SHARE_BITS 40
/* A limit that is none, in bytes. */
#define RWM_UNLIMITED (~0ULL)
#define RWM_LARGEST_FIELD 65535
/* Least window in segments, so that delayed ACKs do not set the pace (2.2). */
#define RWM_LEAST_SEGMENTS 2
/* How long a limit is rounded one way, as a power of two in ns: 67 ms are a few RTTs. Range 24 to 30. */
#define RWM_ROUNDING 26
/* 2^32 divided by the golden ratio: its multiples are spread evenly, however many of them are taken. */
#define RWM_SPREAD 0x9e3779b1U
/* A limit of at least so many units is only rounded down, as a power of two: what is lost is
 * 0.8 % in the mean. */
#define RWM_FINE 6

/* The limit of a connection with this RTT in ns and share in bytes per ns, in bytes; none if either is 0. */
HW_INLINE hw_u64 rwm_bytes(hw_u64 share, hw_u64 rtt)
{
	return share && rtt ? hw_product(share, rtt, RWM_SHARE_BITS) : RWM_UNLIMITED;
}

/* Parts of a share that are the whole, as a power of two. */
#define RWM_WHOLE_SHIFT 6

/* So many parts of a share: 0, which is no limit, stays so, and nothing else becomes that. */
HW_INLINE hw_u64 rwm_weighed(hw_u64 share, hw_u32 parts)
{
	return share ? hw_max(share * parts >> RWM_WHOLE_SHIFT, 1) : 0;
}

/*
 * The limit in bytes beside bytes that SACKs say have arrived: what a host allows begins at what it
 * acknowledges, which does not move after a loss, though what has arrived is no longer in flight.
 */
HW_INLINE hw_u64 rwm_beside(hw_u64 bytes, hw_u32 sacked)
{
	return bytes == RWM_UNLIMITED ? bytes : bytes + sacked;
}

/* The largest segment between the ends: the lesser of both, as each says what its link can carry. */
HW_INLINE hw_u32 rwm_segment(const struct flow *flow)
{
	return (hw_u32)hw_min(flow->mss[0], flow->mss[1]);
}

/* `bytes` in units of 2^scale bytes, rounded up. */
HW_INLINE hw_u32 rwm_units(hw_u32 bytes, hw_u32 scale)
{
	return (bytes + (1U << scale) - 1) >> scale;
}

/* The limit of the window field of an end with this scale, 0 to FLOW_LARGEST_SCALE: 1 to 65535. */
HW_INLINE hw_u32 rwm_field(hw_u64 bytes, hw_u32 scale, hw_u32 segment)
{
	const hw_u64 least = hw_max(rwm_units(RWM_LEAST_SEGMENTS * segment, scale), 1);

	return (hw_u32)hw_min(hw_max(bytes >> scale, least), RWM_LARGEST_FIELD);
}

/*
 * `bytes` and up to one unit of the window field of an end with this scale, so that rounding it down now
 * and then gives `bytes` in the mean. A host with buffers of a gigabyte has units of 16 KiB, of which a
 * share may be one and a half. `number` is that of the connection: the windows of several are not rounded
 * up at the same time.
 */
HW_INLINE hw_u64 rwm_rounded(hw_u64 bytes, hw_u32 scale, hw_u64 number, hw_u64 now)
{
	const hw_u32 part = ((hw_u32)(now >> RWM_ROUNDING) + (hw_u32)number) * RWM_SPREAD;

	if (!scale || scale > FLOW_LARGEST_SCALE || bytes >> scale >> RWM_FINE)
		return bytes;
	return bytes + (part >> (32 - scale));
}

/*
 * Raises a window so far that the highest sequence number that its end allows does not move back (RFC 9293
 * 3.8.6), but not above what the end itself tells.
 */
HW_INLINE hw_u32 rwm_without_shrinking(struct flow *flow, const struct flow_packet *packet, hw_u32 window)
{
	const hw_u32 sender = packet->sender & 1;
	const hw_u32 scale = flow->scale[sender] & 0xf;
	const hw_u32 allowed = flow->edge[sender] - packet->acknowledgement;
	const int has_edge = flow->has_edge >> sender & 1;
	hw_u32 edge;

	if (has_edge && (hw_s32)allowed > 0)
		window = (hw_u32)hw_min(packet->window, hw_max(window, rwm_units(allowed, scale)));
	edge = packet->acknowledgement + (window << scale);
	if (!has_edge || hw_before(flow->edge[sender], edge)) {
		flow->edge[sender] = edge;
		flow->has_edge |= (hw_u8)(1U << sender);
	}
	return window;
}

/*
 * The window field with which a segment of a connection is to leave, with a limit in bytes. Windows in SYN
 * and SYN-ACK have no scale and are not for this function; a reset has no window.
 */
HW_INLINE hw_u32 rwm_window(struct flow *flow, const struct flow_packet *packet, hw_u64 bytes, int no_shrink)
{
	const hw_u32 scale = flow->scale[packet->sender & 1];
	hw_u32 window;

	if (scale > FLOW_LARGEST_SCALE || (packet->flags & (FLOW_SYN | FLOW_RST | FLOW_ACK)) != FLOW_ACK)
		return packet->window;
	window = (hw_u32)hw_min(packet->window, rwm_field(bytes, scale, rwm_segment(flow)));
	return no_shrink ? rwm_without_shrinking(flow, packet, window) : window;
}

/*
 * Writes a window into the header of TCP at `tcp`, and what its checksum becomes. Only for packets whose
 * checksum is complete: programs of BPF have helpers that know.
 */
HW_INLINE void rwm_write(hw_u8 *tcp, hw_u32 window)
{
	const hw_u16 old = (hw_u16)hw_read_16(tcp + FLOW_TCP_WINDOW);
	const hw_u16 checksum = (hw_u16)hw_read_16(tcp + FLOW_TCP_CHECKSUM);

	hw_write_16(tcp + FLOW_TCP_WINDOW, window);
	hw_write_16(tcp + FLOW_TCP_CHECKSUM, hw_checksum_after(checksum, old, (hw_u16)window));
}

#endif

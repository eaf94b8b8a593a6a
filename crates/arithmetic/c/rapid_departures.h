/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * When the next packet is due (rapid 2.3). Packets leave in p-streams; each gets its rate when its first
 * packet is next, so that the newest R_avg counts.
 *
 * Times are in ns. The schedule is absolute, so a late packet shortens the gap after it, and the average rate
 * of the stream remains.
 */
#ifndef HEADWAY_RAPID_DEPARTURES_H
#define HEADWAY_RAPID_DEPARTURES_H

#include "rapid.h"
#include "rapid_flight.h"

struct rapid_departures {
	/* The p-stream that is being sent, if there is one, and the index in it of the next packet. */
	struct rapid_stream stream;
	hw_u32 streaming;
	hw_u32 index;
	/* When the latest scheduled packet was due, if there was one. */
	hw_u64 last;
	hw_u32 departed;
	/* Whether it is decided when the next packet is due. */
	hw_u32 decided;
	hw_u64 due;
	/* Whether the next packet is the first after an idle time. */
	hw_u32 after_idle;
};

/* Time from the packet before a p-stream to its last one. */
HW_INLINE hw_u64 rapid_stream_length(const struct rapid_stream *stream)
{
	hw_u64 length = 0;
	hw_u32 k;

	for (k = 0; k < RAPID_MAX_RATES && k < stream->shape.rates; k++)
		length += stream->gap[k] * stream->shape.packets + stream->longer[k];
	return length;
}

/* Begins the next p-stream at `now`; returns when its first packet is due. */
HW_INLINE hw_u64 rapid_begin_stream(struct rapid_departures *departures, struct rapid *rapid,
				    const struct rapid_config *config, hw_u64 now, int idle)
{
	hw_u64 first, behind;

	departures->stream = rapid_next_stream(rapid, config);
	departures->streaming = 1;
	departures->index = 0;
	if (!departures->departed)
		return now;
	first = rapid_gap(&departures->stream, 0);
	behind = idle ? first : rapid_stream_length(&departures->stream);
	departures->after_idle = idle && departures->last + first < now;
	return hw_max(departures->last, now < behind ? 0 : now - behind) + first;
}

/*
 * Returns when the next packet is due; `idle` says that at `now` none waited for its time. That is decided
 * once, unless an idle time comes.
 *
 * Late packets follow back to back until the schedule is caught up with, but a new p-stream is at most one of
 * its length behind. What is left of a p-stream after an idle time is given up, and in start-up what is left of
 * one that is slower than R_avg by now, by more than a mean of answers changes: its answer would be older.
 */
HW_FUNCTION hw_u64 rapid_due(struct rapid_departures *departures HW_NONNULL, struct rapid *rapid HW_NONNULL,
			     const struct rapid_config *config HW_NONNULL, hw_u64 now, hw_u32 idle)
{
	HW_GIVEN(departures && rapid && config);
	const struct rapid_stream *stream = &departures->stream;
	const int outdated = rapid->phase == RAPID_START_UP && stream->rate < rapid->rate - rapid->rate / 4;

	if (departures->decided && !outdated && (!idle || departures->due >= now))
		return departures->due;
	departures->decided = 1;
	if (departures->streaming && !outdated && departures->index < rapid_packets(&stream->shape) && departures->departed) {
		departures->due = departures->last + rapid_gap(stream, departures->index);
		if (!idle || departures->due >= now)
			return departures->due;
	}
	departures->due = rapid_begin_stream(departures, rapid, config, now, idle != 0);
	return departures->due;
}

/*
 * A segment leaves; `flags` is RAPID_RETRANSMISSION or 0. Returns its packet in flight: the next one of the
 * p-stream, but no probe if it is not `full`. What was not scheduled, such as a probe of a closed window,
 * belongs to no p-stream.
 */
HW_INLINE struct rapid_sent rapid_departures_take(struct rapid_departures *departures, hw_u32 segment, hw_u8 flags,
						  int full)
{
	struct rapid_sent sent = { .segment = segment, .flags = flags };

	if (!departures->decided || !departures->streaming)
		return sent;
	if (full)
		sent.flags |= RAPID_PROBE;
	if (departures->after_idle)
		sent.flags |= RAPID_AFTER_IDLE;
	sent.stream = departures->stream.id;
	sent.index = (hw_u8)departures->index;
	sent.packets = (hw_u8)rapid_packets(&departures->stream.shape);
	departures->last = departures->due;
	departures->departed = 1;
	departures->decided = 0;
	departures->after_idle = 0;
	departures->index++;
	return sent;
}

#endif

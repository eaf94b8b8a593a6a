/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The state of a connection of TCP Rapid; units as in rapid.h. */
#ifndef HEADWAY_RAPID_STATE_H
#define HEADWAY_RAPID_STATE_H

#include "rapid_acks.h"
#include "rapid_config.h"
#include "rapid_delay.h"

enum rapid_phase {
	RAPID_START_UP,
	RAPID_STEADY,
};

/* The state of one connection, except for the arrays of gaps: those of two streams, which
 * connections may share. */
struct rapid {
	/* R_avg, in bit/s. */
	hw_u64 rate;
	/* Sums over the estimates since the last update: in bit/s, and the send gaps of
	 * their streams, in ns. */
	hw_u64 estimates;
	hw_u64 length;
	/* The number of those estimates, and of the ones without an excursion. */
	hw_u32 count;
	hw_u32 censored;
	/* The longest queue that those streams found, in ns. */
	hw_u64 queue;
	/* The number of the next p-stream. */
	hw_u32 stream;
	/* One of enum rapid_phase. */
	hw_u32 phase;
	/* Whether a loss episode lasts. */
	hw_u32 recovering;
	/* Streams that yielded an estimate, whole ones that did not, and those of them that the sender sent
	 * back to back; they wrap. */
	hw_u32 estimated;
	hw_u32 refused;
	hw_u32 crowded;
	/* The latest estimate. */
	struct rapid_estimate latest;
	struct rapid_acks acks;
	struct rapid_delay delay;
	/* The RTT, in ns; and when R_avg last fell because of a queue, on the clock of `delay`. */
	hw_u64 rtt;
	hw_u64 drained;
	/* The latest packets, how many were sent again during their time, and whether the loss episode
	 * has seen a timeout. */
	hw_u32 settled;
	hw_u32 lost;
	hw_u32 timed_out;
	/* The round of RAPID_REOPEN: when its first stream was estimated, on the clock of `delay`; the sum of
	 * the estimates in bit/s, and their number; and the first stream that belongs to it. */
	hw_u64 round_begin;
	hw_u64 round_sum;
	/* Mean distance of a round's mean from R_avg, in bit/s: the burstiness of cross traffic. */
	hw_u64 deviation;
	hw_u32 round_estimates;
	hw_u32 round;
	/* How often R_avg fell in this start-up. */
	hw_u32 falls;
};

/* The layout of p-streams at the moment. */
HW_INLINE struct rapid_shape rapid_shape(const struct rapid *rapid, const struct rapid_config *config)
{
	hw_u64 packets;

	if (rapid->phase != RAPID_START_UP)
		return config->shape;
	/* The highest rate, 15/4 R_avg, must last for three interrupts of the receiver, and three units of stamps. */
	packets = rapid_clamp(hw_max(config->coalescing, config->unit) * 45 / (4 * rapid_time(config->packet, rapid->rate)),
			      RAPID_START_PACKETS, RAPID_MAX_START_PACKETS);
	return (struct rapid_shape){ RAPID_START_RATES, (hw_u32)packets, RAPID_START_RATIO };
}

/* The highest R_avg to probe for: above it the p-streams leave back to back, and all gaps
 * are the same (2.2). */
HW_INLINE hw_u64 rapid_ceiling(const struct rapid_config *config)
{
	return config->line - 3 * (config->line >> 6);
}

/* Puts R_avg into its range. */
HW_INLINE void rapid_set_rate(struct rapid *rapid, const struct rapid_config *config, hw_u64 rate)
{
	rapid->rate = rapid_clamp(rate, RAPID_MIN_RATE, config->line);
}

/* Forgets the estimates since the last update. */
HW_INLINE void rapid_forget_estimates(struct rapid *rapid)
{
	rapid->estimates = 0;
	rapid->length = 0;
	rapid->count = 0;
	rapid->censored = 0;
	rapid->queue = 0;
}

/* Ends start-up. Its streams in flight are of another layout, and older than R_avg: they are ignored. */
HW_INLINE void rapid_end_start_up(struct rapid *rapid)
{
	if (rapid->phase != RAPID_START_UP)
		return;
	rapid->phase = RAPID_STEADY;
	rapid_forget_estimates(rapid);
	rapid_acks_discard(&rapid->acks, rapid->stream);
}

/* R_avg did not rise in start-up; the second time ends that. Returns whether it did. */
HW_INLINE int rapid_start_fell(struct rapid *rapid)
{
	if (++rapid->falls < RAPID_START_FALLS)
		return 0;
	rapid_end_start_up(rapid);
	return 1;
}

#endif

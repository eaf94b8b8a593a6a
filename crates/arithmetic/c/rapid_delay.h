/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How long packets queued: the one-way delay of stamped packets over its minimum.
 *
 * The clocks of both ends differ by an unknown time, so only differences count:
 *
 *     delay += (stamp - latest stamp) - (departure - departure of the latest stamped packet)
 *
 * The receiver's interrupts delay a packet by up to their distance, but the last one of each batch hardly. So
 * a queue is the minimum over a time that is longer than this distance.
 */
#ifndef HEADWAY_RAPID_DELAY_H
#define HEADWAY_RAPID_DELAY_H

#include "rapid_acks.h"

/* For so long, and up to as long again, the minimum counts as the delay of an empty path, in ns: longer than
 * flows keep a queue by chance, and short enough for clocks that differ by 10 ppm, 100 us in that time. */
#define RAPID_BASE_TIME 10000000000ULL
/* The fewest packets whose minimum is a queue: as in the smoothing window (1.6). */
#define RAPID_QUEUE_PACKETS 16

/* The minimum over the last `time` ns to twice that: of the current window and the one
 * before. Delays wrap. */
struct rapid_minimum {
	hw_u64 present;
	hw_u64 before;
	/* When the current window began, in ns, and the number of its values. */
	hw_u64 begin;
	hw_u32 count;
};

struct rapid_delay {
	/* When the latest packet left, and the latest stamped one, in ns since the first. */
	hw_u64 clock;
	hw_u64 stamped_at;
	/* The delay of the latest stamped packet minus that of the first one, in ns, modulo 2^64. */
	hw_u64 latest;
	/* Delay of an empty path; the present one; the smallest since rapid_delay_take. */
	struct rapid_minimum base;
	struct rapid_minimum near;
	hw_u64 low;
	/* The latest stamp, if there is one, and the packets since. */
	hw_u32 last;
	hw_u32 stamped;
	hw_u32 waiting;
	/* Whether `low` has a value. */
	hw_u32 fresh;
};

/* The smaller one of two delays, which wrap. */
HW_INLINE hw_u64 rapid_shorter(hw_u64 a, hw_u64 b)
{
	return (hw_s64)(a - b) < 0 ? a : b;
}

HW_INLINE hw_u64 rapid_minimum(const struct rapid_minimum *minimum)
{
	return rapid_shorter(minimum->present, minimum->before);
}

/* Begins with one value. */
HW_INLINE void rapid_minimum_begin(struct rapid_minimum *minimum, hw_u64 delay, hw_u64 now)
{
	*minimum = (struct rapid_minimum){ .present = delay, .before = delay, .begin = now, .count = 1 };
}

/* Adds a value; the next window begins after `time` ns with at least `count` values. */
HW_INLINE void rapid_minimum_add(struct rapid_minimum *minimum, hw_u64 delay, hw_u64 now, hw_u64 time, hw_u32 count)
{
	if (now - minimum->begin >= time && minimum->count >= count) {
		minimum->before = minimum->present;
		minimum->present = delay;
		minimum->begin = now;
		minimum->count = 0;
	}
	minimum->present = rapid_shorter(minimum->present, delay);
	minimum->count++;
}

/*
 * Adds the next packet in the order of sending. `coalescing` is the distance of the
 * receiver's interrupts in ns.
 *
 * A stamp from the past is none, and after RAPID_MAX_PACKETS packets without a stamp everything begins
 * anew, as in rapid_push.
 */
HW_INLINE void rapid_delay_on_packet(struct rapid_delay *delay, const struct rapid_packet *packet, hw_u32 unit,
				     hw_u64 coalescing)
{
	const hw_u32 elapsed = packet->stamp - delay->last;

	delay->clock += hw_min(packet->gap, RAPID_MAX_GAP);
	delay->waiting++;
	if (!packet->stamp)
		return;
	if (!delay->stamped || delay->waiting > RAPID_MAX_PACKETS) {
		delay->latest = 0;
		rapid_minimum_begin(&delay->base, 0, delay->clock);
		rapid_minimum_begin(&delay->near, 0, delay->clock);
		delay->low = 0;
	} else {
		if (elapsed >> 31)
			return;
		delay->latest += (hw_u64)elapsed * unit - (delay->clock - delay->stamped_at);
		rapid_minimum_add(&delay->base, delay->latest, delay->clock, RAPID_BASE_TIME, 1);
		rapid_minimum_add(&delay->near, delay->latest, delay->clock, coalescing, RAPID_QUEUE_PACKETS);
		delay->low = delay->fresh ? rapid_shorter(delay->low, delay->latest) : delay->latest;
	}
	delay->last = packet->stamp;
	delay->stamped = 1;
	delay->stamped_at = delay->clock;
	delay->waiting = 0;
	delay->fresh = 1;
}

/* The queue that the latest packets found, in ns. */
HW_INLINE hw_u64 rapid_queue(const struct rapid_delay *delay)
{
	return rapid_minimum(&delay->near) - rapid_minimum(&delay->base);
}

/* The smallest queue since the last call, in ns: a standing one. */
HW_INLINE hw_u64 rapid_delay_take(struct rapid_delay *delay)
{
	const hw_u64 queue = delay->fresh ? delay->low - rapid_minimum(&delay->base) : 0;

	delay->fresh = 0;
	return queue;
}

#endif

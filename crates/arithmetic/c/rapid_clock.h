/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Whether a receiver's timestamps tell when segments arrived (rapid 2.6, 2.14). A sender cannot ask, and does
 * not trust: it compares the clock of the timestamps with its own, for as long as the connection lasts.
 *
 * - Over a window both clocks must advance by the same time, within a factor of two, because the delays of
 *   ACKs vary. Three windows in a row where they do not, as with timestamps of milliseconds, or frozen on the
 *   way, and the timestamps are none. One alone may be a path that stood still.
 * - No ACK is faster than the fastest one before it by more than the RTT, so a timestamp that says so
 *   comes from a clock that was moved forward. Taken for a delay, that would look like a queue. A clock
 *   that was moved backwards looks like slow ACKs, and its timestamps are from the past until everything
 *   begins anew (rapid_acks.h).
 */
#ifndef HEADWAY_RAPID_CLOCK_H
#define HEADWAY_RAPID_CLOCK_H

#include "numbers.h"

/* The shortest window, in ns: delays of ACKs that vary by 25 ms do not look like another clock. */
#define RAPID_CLOCK_WINDOW 50000000ULL
/* Windows in a row in which the clocks differ, and moves forward, that disprove the timestamps. */
#define RAPID_CLOCK_STRIKES 3

/* What timestamps are good for. */
enum rapid_stamps {
	/* Not known yet. */
	RAPID_STAMPS_UNKNOWN = 0,
	/* They are microseconds. */
	RAPID_STAMPS_USEC = 1,
	/* There are none, or the clock is another one. */
	RAPID_STAMPS_NONE = 2,
};

struct rapid_clock {
	/* When the present window began, in ns; the timestamp at that time. */
	hw_u64 begin;
	hw_u32 first;
	hw_u32 begun;
	/* Time of an arrival minus timestamp, the smallest so far, in us; wraps. */
	hw_u32 least;
	/* One of enum rapid_stamps. */
	hw_u32 stamps;
	/* Windows in a row in which the clocks differed, and moves forward. */
	hw_u32 different;
	hw_u32 moves;
};

/* Judges the present window if it has ended at `now` ns, and begins the next one. */
HW_INLINE void rapid_clock_judge(struct rapid_clock *clock, hw_u32 stamp, hw_u64 now, hw_u64 rtt)
{
	const hw_u64 elapsed = now - clock->begin;
	/* 32 bits of us. */
	const hw_u64 told = (hw_u64)(stamp - clock->first) * 1000;

	if (clock->begun && elapsed < hw_max(RAPID_CLOCK_WINDOW, 2 * rtt))
		return;
	if (!clock->begun) {
		clock->begun = 1;
	} else if (told > elapsed / 2 && told / 2 < elapsed) {
		clock->different = 0;
		clock->stamps = RAPID_STAMPS_USEC;
	} else if (++clock->different >= RAPID_CLOCK_STRIKES) {
		clock->stamps = RAPID_STAMPS_NONE;
	}
	clock->begin = now;
	clock->first = stamp;
}

/* Whether the receiver's clock was moved forward, as an arrival at `now` us shows. */
HW_INLINE int rapid_clock_moved(struct rapid_clock *clock, hw_u32 stamp, hw_u32 now, hw_u64 rtt)
{
	const hw_u32 behind = now - stamp;
	const hw_u32 faster = clock->least - behind;

	if (!faster || faster >> 31)
		return 0;
	clock->least = behind;
	return faster > rtt / 1000;
}

/*
 * An ACK with a timestamp arrived at `now` ns, after an RTT of `rtt` ns at present. Returns whether all that
 * is known of arrivals is void: from now on another clock gives them.
 */
HW_INLINE int rapid_clock_on_ack(struct rapid_clock *clock, hw_u32 stamp, hw_u64 now, hw_u64 rtt)
{
	const hw_u32 before = clock->stamps;
	const hw_u32 now_us = (hw_u32)(now / 1000);
	int moved;

	if (before == RAPID_STAMPS_NONE)
		return 0;
	if (before == RAPID_STAMPS_UNKNOWN)
		clock->least = now_us - stamp;
	moved = rapid_clock_moved(clock, stamp, now_us, rtt);
	if (moved) {
		clock->begin = now;
		clock->first = stamp;
		clock->moves++;
		if (clock->moves >= RAPID_CLOCK_STRIKES)
			clock->stamps = RAPID_STAMPS_NONE;
	} else {
		rapid_clock_judge(clock, stamp, now, rtt);
	}
	return moved || (before == RAPID_STAMPS_USEC) != (clock->stamps == RAPID_STAMPS_USEC);
}

#endif

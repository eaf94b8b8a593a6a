/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * What the packets with data look like that one end of a flow sends: sums of sizes, of times between them,
 * and of bytes in slots of time, and of their squares (wan 2.20, F67).
 *
 * They only ever grow, and wrap, so that a reader gets those of the time between two visits by
 * subtraction. The crate `edge` has the same in floating point (src/classify/meter.rs), and a test that holds
 * one against the other.
 *
 * Packets of one direction are taken to arrive one after another. If two processors have them at
 * once, some may not count.
 */
#ifndef HEADWAY_FLOW_METER_H
#define HEADWAY_FLOW_METER_H

#include "numbers.h"

/* Bytes are counted in slots of this length, in ns. */
#define FLOW_SLOT 100000000ULL
/* A time without packets from which on the sender had nothing to send, in ns. */
#define FLOW_PAUSE 500000000ULL
/* Times between packets are summed in 256 ns: squares of pauses of half a second then need 42 bits, and
 * years of them 64. */
#define FLOW_GAP_UNIT 8
/* Bytes in slots are summed in 4: squares at 100 Gb/s then need 57 bits, and the slots of 12 s 64; nobody
 * looks back further. */
#define FLOW_SLOT_UNIT 2

/* Times are in ns. All but `packets` is to be ignored before the first packet. */
struct flow_meter {
	/* When the first and the latest packet came. */
	hw_u64 first;
	hw_u64 last;
	hw_u64 packets;
	hw_u64 bytes;
	/* Sum of the squares of sizes in bytes. */
	hw_u64 size_squares;
	/* Sums of times between packets that are no pauses, and of their squares. */
	hw_u64 gaps;
	hw_u64 gap_squares;
	/* Sum of the squares of bytes in slots that have ended. */
	hw_u64 slot_squares;
	/* When the slot of the latest packet ends, and its bytes so far. */
	hw_u64 slot_ends;
	hw_u64 slot_bytes;
	/* Slots that have ended, and those of them with packets. */
	hw_u32 slots;
	hw_u32 busy;
	hw_u32 pauses;
	hw_u32 unused;
};

/* Ends the slots before that of `now`, which is not earlier than the latest packet. */
HW_INLINE void flow_meter_end_slots(struct flow_meter *meter, hw_u64 now)
{
	const hw_u64 units = (meter->slot_bytes + (1U << FLOW_SLOT_UNIT) / 2) >> FLOW_SLOT_UNIT;
	hw_u64 ended;

	if (now < meter->slot_ends)
		return;
	/* The one of the latest packet; those after it are empty. */
	ended = (now - meter->slot_ends) / FLOW_SLOT + 1;
	meter->slot_squares += units * units;
	meter->busy += meter->slot_bytes > 0;
	meter->slots += (hw_u32)ended;
	meter->slot_ends += ended * FLOW_SLOT;
	meter->slot_bytes = 0;
}

/*
 * Adds `packets` packets, at least one, with this many bytes of data together, which arrived at once:
 * what the kernel has merged. They count as of equal size. A time that seems to be earlier than the
 * last counts as the same.
 */
HW_INLINE void flow_meter_add(struct flow_meter *meter, hw_u64 now, hw_u32 bytes, hw_u32 packets)
{
	const hw_u32 each = packets > 1 ? bytes / packets : bytes;

	if (!meter->packets) {
		meter->first = now;
		meter->last = now;
		meter->slot_ends = now + FLOW_SLOT;
	} else if (now > meter->last) {
		if (now - meter->last >= FLOW_PAUSE) {
			meter->pauses++;
		} else {
			/* The difference of two rounded times, so that errors do not add up. */
			const hw_u64 gap = (now >> FLOW_GAP_UNIT) - (meter->last >> FLOW_GAP_UNIT);

			meter->gaps += gap;
			meter->gap_squares += gap * gap;
		}
		flow_meter_end_slots(meter, now);
		meter->last = now;
	}
	meter->packets += packets;
	meter->bytes += bytes;
	meter->slot_bytes += bytes;
	meter->size_squares += (hw_u64)each * each * packets;
}

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * A virtual queue: when packets are to be marked, as if they waited for a link that is a little slower
 * than what they share (wan F75). It holds no packets, and marks as CoDel does (RFC 8289 5): nothing
 * for a burst, which leaves the queue empty between one and the next, and more and more often while
 * there is a standing queue.
 *
 * Two processors that have a packet at once may count one of both only. That makes the queue shorter than it
 * is by a packet, which is less than what the link is taken to be slower by.
 */
#ifndef HEADWAY_VIRTUAL_QUEUE_H
#define HEADWAY_VIRTUAL_QUEUE_H

#include "wide.h"

/* Fraction bits of a cost, in ns for a byte. 100 Gb/s have 16 bits that count, and 10 kb/s have 40. */
#define VIRTUAL_COST_BITS 20
/* A longer wait is a queue, in ns (RFC 8289 4.4). */
#define VIRTUAL_THRESHOLD 5000000ULL
/* But two full packets on an Ethernet may always wait, or slow links would mark all. */
#define VIRTUAL_LEAST_BYTES (2 * 1538)
/* One that lasts this long is a standing queue, in ns: the RTT of a long path, so that senders have had the
 * time to react (RFC 8289 4.3). */
#define VIRTUAL_INTERVAL 100000000ULL
/* It holds no more than so many thresholds: senders that do not react cannot make it mark for long after
 * they have stopped. */
#define VIRTUAL_DEPTH 20
/* Marks in a row above which their distance stays what it is. */
#define VIRTUAL_MOST_MARKS 65535

/* All is 0 before the first packet. */
struct virtual_queue {
	/* When it is empty, in ns. */
	hw_u64 empty;
	/* When the next mark is due while there is a standing queue; 0 while there is none. */
	hw_u64 next;
	/* Marks since the standing queue began. */
	hw_u32 marks;
	hw_u32 unused;
};

/* The wait above which there is a queue, in ns, at this cost. */
HW_INLINE hw_u64 virtual_queue_threshold(hw_u64 cost)
{
	return hw_max(VIRTUAL_THRESHOLD, hw_product(VIRTUAL_LEAST_BYTES, cost, VIRTUAL_COST_BITS));
}

/* The square root rounded down. */
HW_INLINE hw_u32 virtual_queue_root(hw_u32 number)
{
	hw_u32 root = 0;
	hw_u32 k;

	for (k = 0; k < 16; k++) {
		const hw_u32 next = root | 0x8000U >> k;

		if ((hw_u64)next * next <= number)
			root = next;
	}
	return root;
}

/* The time to the next mark after this many, 1 to VIRTUAL_MOST_MARKS: in inverse proportion to
 * their square root. */
HW_INLINE hw_u64 virtual_queue_distance(hw_u32 marks)
{
	/* A root with 8 fraction bits. */
	return (VIRTUAL_INTERVAL << 8) / virtual_queue_root(marks << 16);
}

/*
 * Adds a packet of this many bytes on the wire, each of which costs `cost`, at `now` in ns, which is not 0.
 * Returns whether it is to be marked, if it may be.
 */
HW_INLINE int virtual_queue_add(struct virtual_queue *queue, hw_u64 now, hw_u32 bytes, hw_u64 cost, int may)
{
	const hw_u64 before = queue->empty;
	const hw_u64 wait = before > now ? before - now : 0;
	const hw_u64 threshold = virtual_queue_threshold(cost);

	queue->empty = now + hw_min(wait + hw_product(bytes, cost, VIRTUAL_COST_BITS), VIRTUAL_DEPTH * threshold);
	if (wait <= threshold) {
		queue->next = 0;
		queue->marks = 0;
		return 0;
	}
	if (!queue->next)
		queue->next = now + VIRTUAL_INTERVAL;
	if (!may || now < queue->next)
		return 0;
	queue->marks = (hw_u32)hw_min((hw_u64)queue->marks + 1, VIRTUAL_MOST_MARKS);
	queue->next = now + virtual_queue_distance(queue->marks);
	return 1;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* When the segments of a connection are to leave, for the program that passes them to a process which fills
 * the gaps between them (gaps.bpf.c). */
#ifndef HEADWAY_GAPS_BPF_H
#define HEADWAY_GAPS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1

/* Of a connection, in ns of CLOCK_MONOTONIC. */
struct gap_departure {
	/* When the next segment is due; 0 if its controller was not asked. */
	u64 due;
	/* When the latest one was due, and the gap of those after it about which the controller is not asked. */
	u64 last;
	u64 gap;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct gap_departure);
} gap_departures SEC(".maps");

/* Whether gaps are filled, set by the loader (src/gaps.rs). Without, timers make them. */
const volatile u64 fills_gaps SEC(".rodata.gaps") = 0;

/* A segment that leaves late by this much in ns still leaves in time, because the process holds all up for
 * longer: its LATENCY, less what it fills ahead and a look at what is there (net/src/frames/filler.rs). */
#define GAP_SLACK 2500000ULL

/* How late a segment may be before the schedule is given up, where timers may be late by `timers`. */
static __always_inline u64 most_late(u64 timers)
{
	return fills_gaps ? timers + GAP_SLACK : timers;
}

/* The segment that the socket is about to send is due at `due`, 0 if that is not decided now, and others
 * follow it at a distance of `gap`. */
static __always_inline void note_departure(struct sock *sk, u64 due, u64 gap)
{
	struct gap_departure *departure;

	if (!fills_gaps)
		return;
	departure = bpf_sk_storage_get(&gap_departures, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (!departure)
		return;
	departure->due = due;
	if (due)
		departure->gap = gap;
}

/*
 * Returns when a segment is due that leaves at `now`. TCP sends some without asking its controller, five in
 * a thousand, most while the host is late, and then as fast as it can. They follow the one before at its gap,
 * and controllers count them as if they had been asked.
 */
static __always_inline u64 take_departure(struct gap_departure *departure, u64 now)
{
	u64 due = departure->due;

	if (!due) {
		due = departure->gap ? departure->last + departure->gap : now;
		due = due + GAP_SLACK < now ? now - GAP_SLACK : due;
	}
	departure->due = 0;
	departure->last = due;
	return due;
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* When the segments of a connection are to leave, for the program that passes them to a process which fills
 * the gaps between them (gaps.bpf.c). */
#ifndef HEADWAY_GAPS_BPF_H
#define HEADWAY_GAPS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1

/* Of the next segment, in ns of CLOCK_MONOTONIC; 0 if nobody has said it. */
struct gap_departure {
	u64 due;
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

/* The segment that the socket is about to send is due at `due`. */
static __always_inline void note_departure(struct sock *sk, u64 due)
{
	struct gap_departure *departure;

	if (!fills_gaps)
		return;
	departure = bpf_sk_storage_get(&gap_departures, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	if (departure)
		departure->due = due;
}

#endif

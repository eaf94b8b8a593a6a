/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * How many stations an 802.11 station has heard: the n of WXCP (xcp-rcp 2.11).
 */
#ifndef HEADWAY_EXPLICIT_WIRELESS_H
#define HEADWAY_EXPLICIT_WIRELESS_H

#include "numbers.h"

/* Most stations that are told apart. More divide the available bandwidth no further. */
#define EXPLICIT_STATIONS 64

/* The distinct addresses of an interval. */
struct explicit_stations {
	hw_u64 address[EXPLICIT_STATIONS];
	hw_u32 count;
};

/* A frame from `address`, 48 bits, was heard, wherever it goes. */
HW_FUNCTION void explicit_hear(struct explicit_stations *stations HW_NONNULL, hw_u64 address)
{
	hw_u32 k;

	for (k = 0; k < EXPLICIT_STATIONS; k++) {
		if (k >= stations->count) {
			stations->address[k] = address;
			stations->count = k + 1;
			return;
		}
		if (stations->address[k] == address)
			return;
	}
}

#endif

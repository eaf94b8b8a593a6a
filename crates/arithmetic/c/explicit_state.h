/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The congestion header, decoded, and the control block of a queue (xcp-rcp 1.4 to 1.6, 2.0).
 * Units as in explicit.h.
 */
#ifndef HEADWAY_EXPLICIT_STATE_H
#define HEADWAY_EXPLICIT_STATE_H

#include "explicit_config.h"

/* Versions of the header. That of RCP is not published (1.5). */
#define EXPLICIT_VERSION_XCP 2
#define EXPLICIT_VERSION_RCP 15
/* Formats (1.4): in the minimal one, RTT, X and feedback have no meaning. */
#define EXPLICIT_STANDARD 1
#define EXPLICIT_MINIMAL 2
/* The rate that a sender of RCP asks for: any. */
#define EXPLICIT_ANY_RATE 0xffffffffU

/* A congestion header, in the byte order of the machine. */
struct explicit_header {
	/* The sender's RTT, 0 if unknown, and the time between its packets; in s with 28 fraction bits. */
	hw_u32 rtt;
	hw_u32 x;
	/* XCP: the change of throughput that the sender asks for and routers lower, signed. RCP:
	 * the rate. In B/s. */
	hw_u32 feedback;
	/* What the receiver returns, the same unit; routers leave it alone. */
	hw_u32 reverse;
	/* Protocol of the next header. */
	hw_u8 protocol;
	hw_u8 version;
	hw_u8 format;
	hw_u8 unused;
};

/* What is known at the end of a control interval: the records of XCP-b and RCP and what the
 * other laws add (1.6). */
struct explicit_record {
	/* End of the interval and its length, in ns. */
	hw_u64 time;
	hw_u64 interval;
	/* Average RTT d in ns. */
	hw_u64 average_rtt;
	/* Arrived bytes, without overhead, and packets. */
	hw_u64 input_bytes;
	hw_u64 input_packets;
	/* y and C in B/s, with the fraction. */
	hw_u64 input_rate;
	hw_u64 capacity;
	/* The queue at this moment, with overhead, and the persistent one, without; in B. */
	hw_u64 backlog_bytes;
	hw_u64 queue_bytes;
	/* R in B/s, with the fraction; 0 until a law of RCP was set. */
	hw_u64 rate;
	/* F in B/s, with the fraction. */
	hw_s64 feedback;
	/* Rp and Rn in B/s, Cp in B/s/s, with the fraction, and Cn in 1/s, with 32 bits of it. */
	hw_u64 positive;
	hw_u64 negative;
	hw_u64 positive_scale;
	hw_u64 negative_scale;
	/* The average queue, lambda or qbar, and kappa, in B or packets, with the fraction. */
	hw_u64 weighted;
	hw_u64 kappa;
	/* tau of XCP-b, with 32 fraction bits. */
	hw_u64 tau;
	/* xi and epsilon in B/s, with the fraction. */
	hw_s64 xi;
	hw_s64 epsilon;
	/* Growth of the number of flows in d0, lg(1 + L0), with the fraction. */
	hw_s64 growth;
	/* Packets that found no room, and packets with a header of another version or format;
	 * since the beginning. */
	hw_u64 drops;
	hw_u64 rejected;
	hw_u32 backlog_packets;
	hw_u32 queue_packets;
	/* One of enum explicit_law. */
	hw_u32 law;
	hw_u32 n;
	/* beta in force, in units of 2^-16. */
	hw_u32 beta;
	/* Whether new flows get the smallest rate. */
	hw_u32 admits_slowly;
	/* Whether xi is at its bound. */
	hw_u32 bounded;
};

/* Stations that a queue tells apart in an interval: more than can share a channel. */
#define EXPLICIT_NEIGHBOURS 64

/* What the MAC of an 802.11 interface has counted since it was asked last (2.11). */
struct explicit_heard {
	/* How long the channel was busy, also with frames of the interface, and how long with those alone; in ns. */
	hw_u64 busy;
	hw_u64 own;
	/* Bytes of its own that arrived, and its attempts that did not. */
	hw_u64 bytes;
	hw_u32 retries;
	/* The address of a station whose frame it understood, whomever it was for; 0 for none. */
	hw_u32 source;
};

/* What it has counted in this control interval, and what stays: the rate at which the interface sends, in B/s,
 * and the average of its retransmissions per interval; both with the fraction. */
struct explicit_air {
	hw_u64 busy;
	hw_u64 own;
	hw_u64 bytes;
	hw_u64 rate;
	hw_u64 average_retries;
	hw_u32 retries;
	hw_u32 neighbours;
	hw_u32 sources[EXPLICIT_NEIGHBOURS];
};

/* The state of one queue: "xqcb". What packets touch comes first. */
struct explicit_queue {
	/* Sums of X and of X RTT over this interval, in s and s^2 with 28 fraction bits, and the 28
	 * bits below those. */
	hw_u64 sum_x;
	hw_u64 sum_xrtt;
	hw_u64 sum_xrtt_low;
	/* This interval's arrivals. */
	hw_u64 input_bytes;
	hw_u64 input_packets;
	/* Bytes of those whose header has no X, or that have none, and such packets. */
	hw_u64 unsaid_bytes;
	hw_u64 unsaid_packets;
	/* Cp in B/s/s with 16 fraction bits, Cn in 1/s with 32, and what is left of Rp and Rn, in B/s
	 * with the fraction. */
	hw_u64 positive_scale;
	hw_u64 negative_scale;
	hw_u64 positive;
	hw_u64 negative;
	/* What rounding kept from packets, in B/s with the fraction: between -1/2 and 1/2. */
	hw_s64 remainder;
	/* R in B/s with the fraction, and as it is written, 1 at least. */
	hw_u64 rate;
	hw_u32 written_rate;
	/* The rate of flows that do not know their RTT yet. */
	hw_u32 first_rate;
	/* The least backlog since the last measurement, without overhead, and the time of
	 * the next one in ns. */
	hw_u64 least_bytes;
	hw_u64 queue_due;
	hw_u32 least_packets;
	/* The persistent queue (2.5). */
	hw_u32 queue_packets;
	hw_u64 queue_bytes;
	/* End of the control interval, its length, and by how much it grows while nothing arrives; in ns. */
	hw_u64 control_due;
	hw_u64 interval;
	hw_u64 step;
	/* d, in s with 28 fraction bits, and in ns. */
	hw_u64 average_rtt;
	hw_u64 average_rtt_ns;
	/* The time in which flows react, in the same units: d, or with RCP the time between packets of
	 * a flow if longer. */
	hw_u64 response;
	hw_u64 response_ns;
	/* Average size of packets, with overhead and fraction, in B. */
	hw_u64 packet;
	/* Number of flows that had packets in the last such time, with the fraction. */
	hw_u64 flows;
	/* d of the last interval, in s with 28 fraction bits, and drops until then. */
	hw_u64 rtt_previous;
	hw_u64 drops_previous;
	/* Queue of the last interval, lambda or qbar, and kappa, in B or packets with the fraction. */
	hw_u64 queue_previous;
	hw_u64 weighted;
	hw_u64 kappa;
	/* tau of XCP-b with 32 fraction bits, and the n that it was computed for. */
	hw_u64 tau;
	hw_u32 tau_n;
	/* Intervals with an empty queue in a row, up to EXPLICIT_LARGEST_N. */
	hw_u32 empty;
	/* xi and the last epsilon, in B/s with the fraction. */
	hw_s64 xi;
	hw_s64 epsilon;
	/* lg(1 + L0) with the fraction, smoothed; the row of beta in the table, and the intervals since
	 * growth needed it. */
	hw_s64 growth;
	hw_u32 beta_row;
	hw_u32 calm;
	/* Since the beginning. */
	hw_u64 drops;
	hw_u64 rejected;
	struct explicit_config config;
	struct explicit_record record;
	struct explicit_air air;
};

#endif

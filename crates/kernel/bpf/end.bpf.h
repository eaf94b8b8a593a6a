/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The end of a connection whose routers tell its sender how fast to send, XCP or RCP
 * (xcp-rcp 2.1 to 2.3, 2.12).
 *
 * Two kinds of program share the state of a connection, which lives as long as its socket:
 *
 *  TCP ---> end_wire.bpf.h: inserts the congestion header behind the IP header -----------------> interface
 *  TCP <--- end_wire.bpf.h: removes it, notes what it owes the peer and what the peer returned <-- interface
 *	 ^---- end_control.bpf.h: turns what the peer returned into window and pacing rate
 *
 * Or, in place of the programs at the interface, end_option.bpf.h gives TCP the header as one of its options,
 * and notes those that arrive.
 *
 * A sender first sends plain TCP, and beside its first data an ACK with a header. A peer that knows the
 * header answers with headers from then on, and then the sender uses it, too. A peer or a box on the path
 * that does not know it drops that ACK, and nothing is lost.
 */
#ifndef HEADWAY_END_BPF_H
#define HEADWAY_END_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "explicit_end.h"

#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1

/* Options, set by the loader before the programs are verified (src/controller.rs). */
struct end_options {
	/* The rate that senders ask for, in b/s; all bits set for any. */
	hw_u64 demand;
	/* Cookie of the network namespace whose connections may have the header as a TCP
	 * option; 0 for none. */
	hw_u64 namespace;
	/* Number of the header as an IP protocol. */
	hw_u32 protocol;
	/* Whether losses make a sender of XCP Reno (2.2). */
	hw_u32 yields;
	/* The carrier of senders whose peer was not heard. */
	hw_u32 carrier;
	/* Kind of the header as a TCP option. */
	hw_u32 kind;
};

/* What carries the header of a connection. */
enum end_carrier {
	END_PROTOCOL = 0,
	END_OPTION = 1,
};

#define END_ANY_DEMAND (~0ULL)

const volatile struct end_options options SEC(".rodata.options") = {
	.demand = END_ANY_DEMAND,
	.protocol = 253,
	.carrier = END_PROTOCOL,
	.kind = 253,
};

/* Totals over all connections since the programs were loaded (src/telemetry.rs has the same in Rust). */
struct end_counters {
	/* Connections that chose the controller; those closed since, or switched to Reno. */
	hw_u64 connections;
	hw_u64 closed;
	/* Connections switched to Reno: no header came back; no router lowered a request; the
	 * loss policy says so. */
	hw_u64 without_peer;
	hw_u64 without_router;
	hw_u64 yielded;
	/* Connections whose peer knows the header. */
	hw_u64 answered;
	/* Packets that left with a header and arrived with one. */
	hw_u64 sent;
	hw_u64 received;
	/* Packets that left without one: of several segments or too long for the interface; without
	 * room for the option. */
	hw_u64 too_large;
	/* Packets dropped: fragments, and headers that are cut or of another length; options
	 * of another length. */
	hw_u64 malformed;
	/* Packets whose header was ignored: another version or format; sequence numbers far from those
	 * of the connection. */
	hw_u64 unknown;
	hw_u64 strange;
	/* Reductions for losses, and timeouts. */
	hw_u64 loss_cuts;
	hw_u64 timeouts;
};

struct end_counters counters;

#define COUNT_BY(what, number) __sync_fetch_and_add(&counters.what, number)
#define COUNT(what) COUNT_BY(what, 1)

/*
 * So many headers that only answer leave in options without one that asks for something: the peer may have
 * become Reno. As an IP protocol only one does: a peer that has unloaded its programs meanwhile does not see
 * such an ACK, and each costs it a timeout.
 */
#define END_UNANSWERED 100

enum end_mode {
	/* Only answers headers: a receiver without our controller, or a sender that has become Reno. */
	END_RECEIVES = 0,
	/* A sender that does not know yet whether its peer and all boxes on the path know the header. */
	END_ASKS = 1,
	/* A sender that does. */
	END_SENDS = 2,
	/* One that has become Reno because headers do not get through: it does not answer either. */
	END_PLAIN = 3,
};

struct end {
	/* Changed by arriving packets on any CPU. For the peer: its feedback, for XCP the sum since the
	 * last packet to it. */
	hw_s64 owed_change;
	hw_u32 owed_rate;
	/* Version of the headers that the peer sends; 0 before the first. */
	hw_u32 heard;
	/* What carried the latest of them, and so carries the answers. */
	hw_u32 carrier;
	/* What the peer returned: for XCP the sum that was not applied yet, for RCP the latest rate. */
	hw_s64 change;
	hw_u32 rate;
	/* Headers from the peer, wrapping, and those that were sent as answers since the last one that
	 * asked for something. */
	hw_u32 headers;
	hw_u32 unanswered;
	/* Changed with the socket locked. */
	struct explicit_window window;
	/* The window before the last reduction, in bytes with EXPLICIT_WINDOW_BITS. */
	hw_u64 prior;
	struct explicit_rtt rtt;
	struct explicit_request request;
	/* Whether the application, not the window, limits what is sent. */
	hw_u32 app_limited;
	hw_u32 mode;
	/* Whether the next packet without data is to carry a header although the peer was not heard. */
	hw_u32 asking;
	/* How often the sender may still ask, and the next sequence number when it last asked
	 * or heard the peer. */
	hw_u32 questions;
	hw_u32 asked_at;
	/* `headers` when it last heard the peer. */
	hw_u32 headers_heard;
	/* Whether the last header that answered a request was not lowered, and the next sequence number at
	 * the first of such. */
	hw_u32 unlowered;
	hw_u32 unlowered_at;
	/* Timeouts in a row without a header from the peer, and `headers` at the last. */
	hw_u32 silent_timeouts;
	hw_u32 headers_at_timeout;
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct end);
} ends SEC(".maps");

/* The rate of a sender in b/s; 0 while it is not known. */
static __always_inline hw_u64 end_rate(const struct end *end)
{
	return explicit_sender_rate(VERSION, end->rate, &end->window, end->rtt.smoothed);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* What the programs of the edge know: options, the word of the process, and tables. */
#ifndef HEADWAY_EDGE_TABLES_BPF_H
#define HEADWAY_EDGE_TABLES_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "flow_class.h"
#include "flow_meter.h"
#include "flow_rtt.h"
#include "rwm.h"
#include "virtual_queue.h"

/* Leaves the packet to the next program. */
#define TCX_NEXT (-1)
#define BPF_ANY 0
#define BPF_NOEXIST 1

/* A table with the name, of a kind, with at most so many entries. */
#define TABLE(name, kind, most, key_type, value_type) \
	struct { \
		__uint(type, BPF_MAP_TYPE_##kind); \
		__uint(max_entries, most); \
		__type(key, key_type); \
		__type(value, value_type); \
	} name SEC(".maps")

/* The loader sets the sizes of both tables (src/edge/programs.rs). */
#define EDGE_CONNECTIONS 65536
/* 2300 events: those of a second in which 1100 connections begin and end. */
#define EDGE_EVENT_BYTES (1 << 18)
/* Pairs of hosts whose RTT is known, for handshakes that are repeated: some 300 kB. */
#define EDGE_PAIRS 4096
/* Flows of UDP: those of a second in which 1000 hosts ask for ten names each, and take their time. The
 * loader may lower it. */
#define EDGE_EXCHANGES 16384
/* Hosts of a class whose next connections are to be split; one that makes room is found out again. */
#define EDGE_SMALL_RECEIVERS 1024
/* Most SYNs given to a relay that are waited for; a flood costs the older ones. */
#define EDGE_GIVEN 1024
/* As many as a policy has. */
#define EDGE_CLASSES 32
/* Bytes in which all headers of a segment are: Ethernet with two tags, IPv6 with extension headers, and
 * TCP with options. */
#define EDGE_HEADERS 192
/* Where the header of TCP or UDP may begin at most, as 255 words of each of eight extension headers can be. */
#define EDGE_FARTHEST 0x7fff

/* Options, set by the loader before the programs are verified (src/edge/programs.rs). */
struct edge_options {
	/* After so long without a word of the process, windows pass as they are, in ns. */
	hw_u64 patience;
	/* What packets of the interface begin with: enum flow_framing. */
	hw_u32 framing;
	/* The number of the interface where packets arrive that are to count as from the other side. */
	hw_u32 wan;
	/* Whether a sequence number that was allowed stays allowed. */
	hw_u32 no_shrink;
	/* Whether only to count what would be done. */
	hw_u32 dry_run;
	/* Whether to measure the RTT of connections again and again, and not only in their handshake. */
	hw_u32 follow_rtt;
	/* Whether connections may be split, and the framing of the other interface. */
	hw_u32 splits;
	hw_u32 wan_framing;
	hw_u32 unused;
};

const volatile struct edge_options options SEC(".rodata.options") = {
	.patience = 5000000000ULL,
	.framing = FLOW_ETHERNET,
};

/* What the process says. */
struct edge_control {
	/* When it last said so, in ns since the machine was started. */
	hw_u64 alive;
	/* The number of the period of RTTs (flow_rtt.h). */
	hw_u32 period;
	/* The number of the rules: connections that were given a class by others get one anew. */
	hw_u32 rules;
	/* What a connection of a class may have towards each side, in bytes per ns with
	 * RWM_SHARE_BITS; 0 for any. */
	hw_u64 shares[2][EDGE_CLASSES];
};

/* Which packets to mark (src/edge/mod.rs has the same in Rust). Written when it changes; it holds as long as
 * the process lives. */
struct edge_marking {
	/* How many flows are to be marked. While there are none, the others pay nothing. */
	hw_u64 flows;
	/* What a byte of them costs in the virtual queue of their class towards each side; 0
	 * where none is marked. */
	hw_u64 costs[2][EDGE_CLASSES];
};

/*
 * Which connections to split, and where (src/edge/mod.rs has the same in Rust). Written when it changes; it
 * holds as long as the process lives.
 */
struct edge_splitting {
	/* The classes of which all are split, and those of which hosts in `small_receivers` have theirs
	 * split, a bit each. */
	hw_u32 all;
	hw_u32 held;
	/* Ports of the loopback addresses of IPv4 and IPv6 where the relay listens; 0 for none. */
	hw_u16 port[2];
	hw_u32 unused;
};

/* A host of a class. */
struct edge_host {
	hw_u32 address[4];
	hw_u32 class;
};

/* Virtual queues of the classes towards each side. Only the programs write them. */
struct edge_queues {
	struct virtual_queue of[2][EDGE_CLASSES];
};

/* What is done with a flow in place of a lower window. */
enum edge_treatment {
	EDGE_PASSES = 1,
	/* With its class in the bits from EDGE_CLASS_SHIFT on. */
	EDGE_MARKED = 2,
	/* It has a window, of this many parts of what its class has towards both sides: twice
	 * EDGE_WEIGHT_BITS from EDGE_CLASS_SHIFT on. */
	EDGE_WEIGHED = 3,
};

#define EDGE_CLASS_SHIFT 8
#define EDGE_WEIGHT_BITS 12

/* Totals since the programs were loaded (src/edge/mod.rs has the same in Rust). */
struct edge_counters {
	/* Packets by enum flow_found; the first are segments. */
	hw_u64 found[FLOW_FOUND_KINDS];
	/* Segments of connections that are held, those whose window was lowered or would be, and
	 * those it could not be. */
	hw_u64 tracked;
	hw_u64 lowered;
	hw_u64 failed;
	/* Segments that passed as they were because the process was silent. */
	hw_u64 unattended;
	/* Connections that began and ended, those without scales or RTT, without a class, and without
	 * room in the table. */
	hw_u64 begun;
	hw_u64 ended;
	hw_u64 unlimited;
	hw_u64 without_class;
	hw_u64 without_room;
	/* Events that the process did not take in time. */
	hw_u64 missed;
	/* Datagrams of UDP, which count as something else, too; those of flows without room, and those from
	 * the link of no flow. */
	hw_u64 datagrams;
	hw_u64 datagrams_without_room;
	hw_u64 datagrams_unasked;
	/* Segments that the process let pass although their class has a limit. */
	hw_u64 exempt;
	/* Packets that were marked, or would be. */
	hw_u64 marked;
	/* SYNs that were given to the relay; those of them for which there was a socket then, and those that
	 * came again without one. */
	hw_u64 split;
	hw_u64 split_reached;
	hw_u64 split_repeated;
};

/* A connection of TCP (src/edge/mod.rs has the same in Rust, also of the next one). Arrays have an entry for
 * each end of the key. */
struct edge_connection {
	struct flow flow;
	/* Which no other flow has, of TCP or UDP, since the programs were loaded. */
	hw_u64 number;
	struct flow_meter sent[2];
	/* The number of the rules that gave it its class. */
	hw_u32 rules;
	/* The ends that have sent what may be marked, a bit each. */
	hw_u32 ecn;
	/* Whether its end on the side of the hosts is a socket of the relay. */
	hw_u32 split;
	hw_u32 unused;
};

/* Datagrams between two ends. */
struct edge_exchange {
	hw_u64 number;
	struct flow_meter sent[2];
	/* The end that sent the first one, which came from the hosts, and the code point of that. */
	hw_u8 client;
	hw_u8 dscp;
	/* As that of a connection. */
	hw_u8 ecn;
	hw_u8 unused[5];
};

enum edge_event_kind {
	EDGE_BEGUN,
	EDGE_ENDED,
};

/* A connection that began or ended. */
struct edge_event {
	struct flow_key key;
	hw_u32 kind;
	struct flow flow;
};

TABLE(half_open, LRU_HASH, EDGE_CONNECTIONS, struct flow_key, struct flow_half);

/* Not one that forgets: a flood cannot push out a connection. */
TABLE(established, HASH, EDGE_CONNECTIONS, struct flow_key, struct edge_connection);

/* Nor this one; the process removes what is silent. */
TABLE(exchanges, HASH, EDGE_EXCHANGES, struct flow_key, struct edge_exchange);

/* When SYNs were given to the relay first of which nothing more is known, in ns. */
TABLE(given, LRU_HASH, EDGE_GIVEN, struct flow_key, hw_u64);

/*
 * What is done with flows by their number (enum edge_treatment), but for connections that have the window of
 * their class. Only the process writes it.
 */
TABLE(treated, HASH, EDGE_CONNECTIONS + EDGE_EXCHANGES, hw_u64, hw_u32);

TABLE(marking, ARRAY, 1, hw_u32, struct edge_marking);

TABLE(splitting, ARRAY, 1, hw_u32, struct edge_splitting);

/* Hosts whose windows have held connections of a class below their share. Only the process writes it. */
TABLE(small_receivers, LRU_HASH, EDGE_SMALL_RECEIVERS, struct edge_host, hw_u32);

TABLE(queues, ARRAY, 1, hw_u32, struct edge_queues);

/* Two hosts, in the order of struct flow_key. */
struct edge_pair {
	hw_u32 address[2][4];
};

/* The latest RTT between hosts of a handshake that was not repeated, in ns. */
TABLE(earlier, LRU_HASH, EDGE_PAIRS, struct edge_pair, hw_u64);

TABLE(control, ARRAY, 1, hw_u32, struct edge_control);

TABLE(rules, ARRAY, 1, hw_u32, struct flow_rules);

TABLE(counters, PERCPU_ARRAY, 1, hw_u32, struct edge_counters);

/* What is being made. The stack is too small for it. */
struct edge_made {
	struct edge_connection connection;
	struct edge_exchange exchange;
};

TABLE(made, PERCPU_ARRAY, 1, hw_u32, struct edge_made);

/* How many flows have been numbered. */
hw_u64 numbered;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EDGE_EVENT_BYTES);
} events SEC(".maps");

#endif

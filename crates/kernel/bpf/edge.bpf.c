// SPDX-License-Identifier: GPL-2.0-only
/*
 * Receive window modulation: two programs at the interface of a router towards its hosts, one for each direction (wan 2.1 to
 * 2.3). There both directions of a connection have the same addresses also if the router translates them.
 *
 * Packets pass as they are but for the window of segments whose connection was seen from its beginning, and the checksum over
 * it, and but for marks on packets of flows whose window is out of reach and whose ends react to marks (wan F75). The process that loaded the programs says every second that it lives, and what a connection of each class may have; when it
 * has been silent for too long, everything passes as it is. No field of the kernel's own structures is read, so the same object
 * loads where there is no type information.
 */
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

/* The loader sets the sizes of both tables (src/edge/programs.rs). */
#define EDGE_CONNECTIONS 65536
/* 2300 events: those of a second in which 1100 connections begin and end. */
#define EDGE_EVENT_BYTES (1 << 18)
/* Pairs of hosts whose RTT is known, for handshakes that are repeated: some 300 kB. */
#define EDGE_PAIRS 4096
/* Flows of UDP: those of a second in which 1000 hosts ask for ten names each, and take their time. The loader may lower it. */
#define EDGE_EXCHANGES 16384
/* As many as a policy has. */
#define EDGE_CLASSES 32
/* Bytes in which all headers of a segment are: Ethernet with two tags, IPv6 with extension headers, and TCP with options. */
#define EDGE_HEADERS 192

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
	/* What a connection of a class may have towards each side, in bytes per ns with RWM_SHARE_BITS; 0 for any. */
	hw_u64 shares[2][EDGE_CLASSES];
};

/* Which packets to mark (src/edge/mod.rs has the same in Rust). Written when it changes; it holds as long as the process lives. */
struct edge_marking {
	/* How many flows are to be marked. While there are none, the others pay nothing. */
	hw_u64 flows;
	/* What a byte of them costs in the virtual queue of their class towards each side; 0 where none is marked. */
	hw_u64 costs[2][EDGE_CLASSES];
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
};

#define EDGE_CLASS_SHIFT 8

/* Totals since the programs were loaded (src/edge/mod.rs has the same in Rust). */
struct edge_counters {
	/* Packets by enum flow_found; the first are segments. */
	hw_u64 found[FLOW_FOUND_KINDS];
	/* Segments of connections that are held, those whose window was lowered or would be, and those it could not be. */
	hw_u64 tracked;
	hw_u64 lowered;
	hw_u64 failed;
	/* Segments that passed as they were because the process was silent. */
	hw_u64 unattended;
	/* Connections that began and ended, those without scales or RTT, without a class, and without room in the table. */
	hw_u64 begun;
	hw_u64 ended;
	hw_u64 unlimited;
	hw_u64 without_class;
	hw_u64 without_room;
	/* Events that the process did not take in time. */
	hw_u64 missed;
	/* Datagrams of UDP, which count as something else, too; those of flows without room, and those from the link of no flow. */
	hw_u64 datagrams;
	hw_u64 datagrams_without_room;
	hw_u64 datagrams_unasked;
	/* Segments that the process let pass although their class has a limit. */
	hw_u64 exempt;
	/* Packets that were marked, or would be. */
	hw_u64 marked;
};

/* A connection of TCP (src/edge/mod.rs has the same in Rust, also of the next one). Arrays have an entry for each end of the key. */
struct edge_connection {
	struct flow flow;
	/* Which no other flow has, of TCP or UDP, since the programs were loaded. */
	hw_u64 number;
	struct flow_meter sent[2];
	/* The number of the rules that gave it its class. */
	hw_u32 rules;
	/* The ends that have sent what may be marked, a bit each. */
	hw_u32 ecn;
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

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, EDGE_CONNECTIONS);
	__type(key, struct flow_key);
	__type(value, struct flow_half);
} half_open SEC(".maps");

/* Not one that forgets: a flood cannot push out a connection. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EDGE_CONNECTIONS);
	__type(key, struct flow_key);
	__type(value, struct edge_connection);
} established SEC(".maps");

/* Nor this one; the process removes what is silent. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EDGE_EXCHANGES);
	__type(key, struct flow_key);
	__type(value, struct edge_exchange);
} exchanges SEC(".maps");

/*
 * What is done with flows by their number (enum edge_treatment), but for connections that have the window of their class. Only the
 * process writes it.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, EDGE_CONNECTIONS + EDGE_EXCHANGES);
	__type(key, hw_u64);
	__type(value, hw_u32);
} treated SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, hw_u32);
	__type(value, struct edge_marking);
} marking SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, hw_u32);
	__type(value, struct edge_queues);
} queues SEC(".maps");

/* Two hosts, in the order of struct flow_key. */
struct edge_pair {
	hw_u32 address[2][4];
};

/* The latest RTT between hosts of a handshake that was not repeated, in ns. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, EDGE_PAIRS);
	__type(key, struct edge_pair);
	__type(value, hw_u64);
} earlier SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, hw_u32);
	__type(value, struct edge_control);
} control SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, hw_u32);
	__type(value, struct flow_rules);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, hw_u32);
	__type(value, struct edge_counters);
} counters SEC(".maps");

/* What is being made. The stack is too small for it. */
struct edge_made {
	struct edge_connection connection;
	struct edge_exchange exchange;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, hw_u32);
	__type(value, struct edge_made);
} made SEC(".maps");

/* How many flows have been numbered. */
hw_u64 numbered;

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, EDGE_EVENT_BYTES);
} events SEC(".maps");

/* Removes a connection that is there. */
static __always_inline void end(struct edge_counters *counted, const struct flow_key *key,
				const struct edge_connection *connection)
{
	struct edge_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	/* Before it is removed, as its memory may become that of another one. */
	if (event) {
		event->key = *key;
		event->kind = EDGE_ENDED;
		event->flow = connection->flow;
	}
	/* Of two packets at once that end it, one does. */
	if (bpf_map_delete_elem(&established, key)) {
		if (event)
			bpf_ringbuf_discard(event, 0);
		return;
	}
	counted->ended++;
	if (event)
		bpf_ringbuf_submit(event, 0);
	else
		counted->missed++;
}

/* Takes in a SYN or SYN-ACK. */
static __noinline int handshake(const struct flow_packet *packet, struct edge_counters *counted, hw_u64 now)
{
	struct flow_half *half = bpf_map_lookup_elem(&half_open, &packet->key);
	struct flow_half fresh;
	struct edge_connection *older;

	if (flow_kind(packet) == FLOW_ASK) {
		if (half)
			flow_on_syn(half, 1, packet, now);
		else if (flow_on_syn(&fresh, 0, packet, now))
			bpf_map_update_elem(&half_open, &packet->key, &fresh, BPF_ANY);
		return 0;
	}
	if (half && flow_on_answer(half, packet, now)) {
		older = bpf_map_lookup_elem(&established, &packet->key);
		if (older)
			end(counted, &packet->key, older);
	}
	return 0;
}

/*
 * Returns the latest RTT between the hosts of a packet, 0 if there is none; notes one that is not 0 in its place. A function of
 * its own, so that the pair is not on the stack beside all else: three frames have 512 bytes, and without a JIT each takes
 * whole multiples of 32.
 */
static __noinline hw_u64 between(const struct flow_packet *packet, hw_u64 rtt)
{
	struct edge_pair pair;
	hw_u64 *previous;

	__builtin_memcpy(&pair, packet->key.address, sizeof(pair));
	if (rtt) {
		bpf_map_update_elem(&earlier, &pair, &rtt, BPF_ANY);
		return rtt;
	}
	previous = bpf_map_lookup_elem(&earlier, &pair);
	return previous ? *previous : 0;
}

/* The class of a connection by the rules that hold now. */
static __always_inline hw_u32 classify(const struct flow_key *key, const struct flow *flow)
{
	const hw_u32 first = 0;
	const struct flow_rules *known = bpf_map_lookup_elem(&rules, &first);

	return known ? flow_classify(known, key, flow->client, flow->dscp) : FLOW_NO_CLASS;
}

/* Makes a connection of a handshake if a segment completes one. */
static __noinline int complete(const struct flow_packet *packet, struct edge_counters *counted)
{
	struct flow_half *half = bpf_map_lookup_elem(&half_open, &packet->key);
	const hw_u32 first = 0;
	struct edge_event *event;
	struct edge_made *place = bpf_map_lookup_elem(&made, &first);
	const struct edge_control *said = bpf_map_lookup_elem(&control, &first);
	struct edge_connection *connection;
	struct flow *flow;

	if (!half || !place || !said)
		return 0;
	connection = &place->connection;
	flow = &connection->flow;
	if (!flow_on_third(half, packet, bpf_ktime_get_ns(), between(packet, 0), flow))
		return 0;
	if (!flow->ambiguous)
		between(packet, flow->rtt);
	bpf_map_delete_elem(&half_open, &packet->key);
	/* Its number before the rules: if they change in between, it gets its class anew. */
	connection->rules = said->rules;
	flow->class = classify(&packet->key, flow);
	connection->number = __sync_fetch_and_add(&numbered, 1) + 1;
	connection->ecn = 0;
	__builtin_memset(connection->sent, 0, sizeof(connection->sent));
	if (bpf_map_update_elem(&established, &packet->key, connection, BPF_NOEXIST)) {
		counted->without_room++;
		return 0;
	}
	counted->begun++;
	counted->unlimited += !flow->rtt || flow->scale[0] == FLOW_NO_SCALE;
	counted->without_class += flow->class == FLOW_NO_CLASS;
	event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);
	if (!event) {
		counted->missed++;
		return 1;
	}
	event->key = packet->key;
	event->kind = EDGE_BEGUN;
	event->flow = *flow;
	bpf_ringbuf_submit(event, 0);
	return 1;
}

/* What a connection may have in bytes, as long as the process lives. */
static __always_inline hw_u64 limit(struct edge_counters *counted, const struct edge_control *said,
				    const struct edge_connection *connection, hw_u32 side, hw_u64 now)
{
	const hw_u32 class = connection->flow.class;
	const hw_u32 *treatment;
	hw_u64 share;

	if (class >= EDGE_CLASSES)
		return RWM_UNLIMITED;
	/* The process may have said so on another processor a moment later than this packet arrived. */
	if ((hw_s64)(now - said->alive) > (hw_s64)options.patience) {
		counted->unattended++;
		return RWM_UNLIMITED;
	}
	share = said->shares[side & 1][class];
	if (!share)
		return RWM_UNLIMITED;
	treatment = bpf_map_lookup_elem(&treated, &connection->number);
	if (treatment) {
		counted->exempt += *treatment == EDGE_PASSES;
		return RWM_UNLIMITED;
	}
	return rwm_bytes(share, connection->flow.rtt);
}

/* How many packets the kernel has merged into one. */
static __always_inline hw_u32 merged(const struct __sk_buff *skb)
{
	return (hw_u32)hw_max(skb->gso_segs, 1);
}

/* Bytes of a packet on an Ethernet: 38 for each packet of IP, whatever the interface has in front of it. */
static __always_inline hw_u32 wire_bytes(struct __sk_buff *skb, const struct flow_packet *packet)
{
	const hw_u32 headers = skb->len - (hw_u32)hw_min(packet->data, skb->len);
	const hw_u32 around = options.framing == FLOW_ETHERNET ? 38 - FLOW_ETHERNET_BYTES : 38;

	return packet->data + merged(skb) * (headers + around);
}

/* Marks a packet of a flow of this number where its class has been too fast. What may not be marked passes as it is. */
static __noinline int mark(struct __sk_buff *skb, const struct flow_packet *packet, struct edge_counters *counted, hw_u64 number)
{
	const hw_u32 first = 0;
	const hw_u64 now = bpf_ktime_get_ns();
	const struct edge_control *said = bpf_map_lookup_elem(&control, &first);
	const struct edge_marking *marks = bpf_map_lookup_elem(&marking, &first);
	const hw_u32 *treatment = bpf_map_lookup_elem(&treated, &number);
	struct edge_queues *all = bpf_map_lookup_elem(&queues, &first);
	/* What arrives on one side goes to the other one. */
	const hw_u32 side = !(packet->side & 1);
	hw_u32 class;
	hw_u64 cost;

	if (!said || !marks || !all || !treatment || (hw_u8)*treatment != EDGE_MARKED)
		return 0;
	class = *treatment >> EDGE_CLASS_SHIFT;
	if (class >= EDGE_CLASSES)
		return 0;
	if ((hw_s64)(now - said->alive) > (hw_s64)options.patience)
		return 0;
	cost = marks->costs[side][class];
	if (!cost || !virtual_queue_add(&all->of[side][class], now, wire_bytes(skb, packet), cost, packet->ecn != FLOW_NOT_ECT))
		return 0;
	if (options.dry_run || bpf_skb_ecn_set_ce(skb))
		counted->marked++;
	return 1;
}

/* Whether there are flows to be marked, and the only look that packets pay for while there are none. */
static __always_inline int marks_any(void)
{
	const hw_u32 first = 0;
	const struct edge_marking *marks = bpf_map_lookup_elem(&marking, &first);

	return marks && marks->flows;
}

/* Notes in `*known` that an end has sent what may be marked, once. */
static __always_inline hw_u32 with_ecn(hw_u32 known, const struct flow_packet *packet)
{
	return packet->ecn == FLOW_NOT_ECT ? known : known | 1U << (packet->sender & 1);
}

/* Writes a window into a packet, whose checksum may be left for a NIC to compute. */
static __always_inline int lower(struct __sk_buff *skb, const struct flow_packet *packet, hw_u32 window)
{
	const __u16 old = __builtin_bswap16(packet->window);
	const __u16 new = __builtin_bswap16((__u16)window);

	if (bpf_l4_csum_replace(skb, packet->at + FLOW_TCP_CHECKSUM, old, new, sizeof(new)))
		return 0;
	return !bpf_skb_store_bytes(skb, packet->at + FLOW_TCP_WINDOW, &new, sizeof(new), 0);
}

static __always_inline void segment(struct __sk_buff *skb, struct edge_counters *counted, struct edge_connection *connection,
				    const struct flow_packet *packet)
{
	const hw_u32 first = 0;
	const struct edge_control *said = bpf_map_lookup_elem(&control, &first);
	struct flow *flow = &connection->flow;
	hw_u32 measures, window, known;
	hw_u64 now, bytes;

	if (!said)
		return;
	counted->tracked++;
	/* The time of the last tick is enough for what counts in seconds, and costs a tenth. */
	now = packet->data ? bpf_ktime_get_ns() : bpf_ktime_get_coarse_ns();
	if (packet->data)
		flow_meter_add(&connection->sent[packet->sender & 1], now, packet->data, merged(skb));
	known = with_ecn(connection->ecn, packet);
	if (known != connection->ecn)
		connection->ecn = known;
	if (marks_any())
		mark(skb, packet, counted, connection->number);
	if (flow_on_segment(flow, packet, now)) {
		end(counted, &packet->key, connection);
		return;
	}
	if (connection->rules != said->rules) {
		connection->rules = said->rules;
		flow->class = classify(&packet->key, flow);
	}
	measures = options.follow_rtt ? flow_on_stamps(flow, packet) : 0;
	if (measures)
		flow_measure(flow, packet, measures, said->period, packet->data ? now : bpf_ktime_get_ns());
	bytes = limit(counted, said, connection, packet->side, now);
	/* An edge that must not move back would keep every window that was rounded up. */
	if (!options.no_shrink)
		bytes = rwm_rounded(bytes, flow->scale[packet->sender & 1], connection->number, now);
	window = rwm_window(flow, packet, bytes, options.no_shrink);
	if (window >= packet->window)
		return;
	if (options.dry_run || lower(skb, packet, window))
		counted->lowered++;
	else
		counted->failed++;
}

/*
 * Counts a datagram. A flow begins with one from the hosts, so that strangers cannot fill the table with what nobody here asked
 * for.
 */
static __noinline int datagram(struct __sk_buff *skb, const struct flow_packet *packet, struct edge_counters *counted)
{
	struct edge_exchange *exchange = bpf_map_lookup_elem(&exchanges, &packet->key);
	const hw_u32 first = 0;
	struct edge_made *place;
	hw_u32 known;

	counted->datagrams++;
	if (exchange) {
		flow_meter_add(&exchange->sent[packet->sender & 1], bpf_ktime_get_ns(), packet->data, merged(skb));
		known = with_ecn(exchange->ecn, packet);
		if (known != exchange->ecn)
			exchange->ecn = (hw_u8)known;
		if (marks_any())
			mark(skb, packet, counted, exchange->number);
		return 0;
	}
	if (packet->side) {
		counted->datagrams_unasked++;
		return 0;
	}
	place = bpf_map_lookup_elem(&made, &first);
	if (!place)
		return 0;
	exchange = &place->exchange;
	__builtin_memset(exchange, 0, sizeof(*exchange));
	exchange->number = __sync_fetch_and_add(&numbered, 1) + 1;
	exchange->client = packet->sender & 1;
	exchange->dscp = packet->dscp;
	exchange->ecn = (hw_u8)with_ecn(0, packet);
	flow_meter_add(&exchange->sent[packet->sender & 1], bpf_ktime_get_ns(), packet->data, merged(skb));
	if (bpf_map_update_elem(&exchanges, &packet->key, exchange, BPF_NOEXIST))
		counted->datagrams_without_room++;
	return 0;
}

/*
 * Reads a packet, of which the headers may not be at hand yet. A function of its own, so that the verifier follows the paths
 * through headers once, and not with all that comes behind them.
 */
HW_FUNCTION hw_u32 edge_read(struct __sk_buff *skb, hw_u32 side, struct flow_packet *packet HW_NONNULL)
{
	hw_u32 found;

	if (!packet)
		return FLOW_OTHER;
	found = flow_read((void *)(long)skb->data, (void *)(long)skb->data_end, options.framing, packet);
	packet->side = side & 1;
	return found <= FLOW_DATAGRAM ? found : FLOW_MALFORMED;
}

/* Whether headers of a packet are elsewhere, and are at hand now. */
static __always_inline int pull(struct __sk_buff *skb)
{
	const hw_u32 wanted = hw_min(skb->len, EDGE_HEADERS);

	return skb->data_end - skb->data < wanted && !bpf_skb_pull_data(skb, wanted);
}

static __always_inline int pass(struct __sk_buff *skb, hw_u32 side)
{
	const hw_u32 first = 0;
	struct edge_counters *counted = bpf_map_lookup_elem(&counters, &first);
	struct edge_connection *connection;
	struct flow_packet packet;
	hw_u32 found;

	if (!counted)
		return TCX_NEXT;
	found = edge_read(skb, side, &packet);
	if (found == FLOW_MALFORMED && pull(skb))
		found = edge_read(skb, side, &packet);
	if (found == FLOW_DATAGRAM) {
		counted->found[FLOW_OTHER]++;
		datagram(skb, &packet, counted);
		return TCX_NEXT;
	}
	if (found >= FLOW_FOUND_KINDS)
		return TCX_NEXT;
	counted->found[found]++;
	if (found != FLOW_SEGMENT)
		return TCX_NEXT;
	if (flow_kind(&packet) != FLOW_LATER) {
		handshake(&packet, counted, bpf_ktime_get_ns());
		return TCX_NEXT;
	}
	connection = bpf_map_lookup_elem(&established, &packet.key);
	if (!connection && complete(&packet, counted))
		connection = bpf_map_lookup_elem(&established, &packet.key);
	if (connection)
		segment(skb, counted, connection, &packet);
	return TCX_NEXT;
}

SEC("tcx/ingress")
int edge_up(struct __sk_buff *skb)
{
	return pass(skb, 0);
}

/* What the router itself sends, and what comes from other interfaces, does not cross the link. */
SEC("tcx/egress")
int edge_down(struct __sk_buff *skb)
{
	return skb->ingress_ifindex == options.wan ? pass(skb, 1) : TCX_NEXT;
}

char gpl[] SEC("license") = "GPL";

// SPDX-License-Identifier: GPL-2.0
/*
 * A receiver for TCP Rapid: its ACKs tell when the segment that caused them arrived (rapid 2.6).
 *
 *	interface ---> hw_note_arrival: end and arrival of each segment, before its socket is locked ---> TCP
 *	interface <--- hw_stamp_acks: looks up the segment that the ACK was caused by <------------------ TCP
 *
 * Segments are noted in the storage of their socket: a table of fixed size, in which a segment
 * replaces one whose end has the same hash. An ACK may come much later, when the application has read
 * or a timer has gone off.
 */
#include "arrival_option.bpf.h"

#define AF_INET 2
#define NSEC_PER_USEC 1000ULL
#define BPF_F_NO_PREALLOC 1
#define BPF_SK_STORAGE_GET_F_CREATE 1
#define IPPROTO_TCP 6
#define IPV6_BYTES 40
/* Segments that are known at a time, a power of two: those that wait until TCP looks at them. */
#define SLOT_BITS 8
/* 2^32 divided by the golden ratio, which spreads multiples of a segment's length over the slots. */
#define SPREAD 2654435769U
/* Bytes that segments may be ahead of the next one that is expected. */
#define NEAR (1U << 24)

char gpl[] SEC("license") = "GPL";

/* Whose ACKs are stamped, set by the loader before the programs are verified (src/stamps.rs). */
struct stamp_options {
	/* Cookie of the network namespace. */
	__u64 namespace;
	/* Prefix of the peer's address, as IPv6, and its mask. */
	__be32 prefix[4];
	__be32 mask[4];
	/* Port at this end; 0 for any. */
	__u32 port;
	/* What is added to the clock, in us: random, because peers are not to learn how long this
	 * host has been up. */
	__u32 offset;
};

const volatile struct stamp_options options SEC(".rodata.options") = {};

/* Totals since the programs were loaded (src/telemetry.rs has the same in Rust). */
struct stamp_counters {
	/* Connections whose ACKs are stamped. */
	__u64 connections;
	/* ACKs with the arrival of their segment; those that say that it is not known; those without
	 * room for the option. */
	__u64 stamped;
	__u64 missed;
	__u64 without_room;
	/* Packets far from the sequence numbers of their connection, which were not noted. */
	__u64 strange;
};

struct stamp_counters counters;

#define COUNT(what) __sync_fetch_and_add(&counters.what, 1)

struct arrivals {
	/* The end of a segment in the upper half, its arrival in us in the lower: written
	 * and read at once. */
	__u64 slots[1 << SLOT_BITS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct arrivals);
} sockets SEC(".maps");

static __always_inline __u32 slot_of(__u32 end)
{
	return end * SPREAD >> (32 - SLOT_BITS);
}

/* Where TCP begins in a packet that begins with IP, and bytes from there; 0 if it is not TCP that follows. */
static __always_inline __u32 find_tcp(struct __sk_buff *packet, __u32 *bytes)
{
	__u8 ip[IPV6_BYTES] = {};
	__u32 header;

	if (bpf_skb_load_bytes(packet, 0, ip, IPV6_BYTES))
		return 0;
	if (ip[0] >> 4 == 6) {
		*bytes = ip[4] << 8 | ip[5];
		return ip[6] == IPPROTO_TCP ? IPV6_BYTES : 0;
	}
	header = (ip[0] & 0xf) * 4;
	*bytes = (ip[2] << 8 | ip[3]) - header;
	return ip[9] == IPPROTO_TCP ? header : 0;
}

/* Notes a segment with data that its socket does not have yet. */
static __always_inline void note_arrival(struct __sk_buff *packet, struct arrivals *arrivals, __u32 expected)
{
	const __u32 now = (__u32)(bpf_ktime_get_ns() / NSEC_PER_USEC) + options.offset;
	__u32 bytes = 0;
	struct tcp tcp;
	__u32 start, end;

	start = find_tcp(packet, &bytes);
	if (!start || bpf_skb_load_bytes(packet, start, &tcp, sizeof(tcp)))
		return;
	bytes -= (__u32)(tcp.offset >> 4) * 4;
	end = bpf_ntohl(tcp.sequence) + bytes;
	/* The upper half of the numbers is the past: repetitions. */
	if (!bytes || (__u32)(end - expected - 1) >> 31)
		return;
	if (end - expected > NEAR) {
		COUNT(strange);
		return;
	}
	/* 0 means that it is not known. */
	arrivals->slots[slot_of(end)] = (__u64)end << 32 | (now ? now : 1);
}

SEC("cgroup_skb/ingress")
int hw_note_arrival(struct __sk_buff *packet)
{
	struct bpf_sock *sk = (struct bpf_sock *)packet->sk;
	struct arrivals *arrivals;
	struct bpf_tcp_sock *tp;

	if (!sk)
		return 1;
	arrivals = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!arrivals)
		return 1;
	tp = bpf_tcp_sock(sk);
	if (tp)
		note_arrival(packet, arrivals, tp->rcv_nxt);
	return 1;
}

/* Whether the ACKs of a connection are stamped. IPv4 addresses are compared as IPv6 ones, which
 * sockets for both have. */
static __always_inline int is_enabled(struct bpf_sock_ops *event)
{
	__be32 peer[4] = { 0, 0, bpf_htonl(0xffff), event->remote_ip4 };
	int k;

	/* The compiler must not choose between addresses in the context, which the verifier refuses. */
	asm volatile("" : "+r"(peer[3]));
	if (event->family != AF_INET) {
		peer[0] = event->remote_ip6[0];
		peer[1] = event->remote_ip6[1];
		peer[2] = event->remote_ip6[2];
		peer[3] = event->remote_ip6[3];
	}
	if (options.port && event->local_port != options.port)
		return 0;
	for (k = 0; k < 4; k++) {
		if ((peer[k] ^ options.prefix[k]) & options.mask[k])
			return 0;
	}
	return bpf_get_netns_cookie(event) == options.namespace;
}

/* The end of the segment that an ACK is caused by: the last one in order, or, if some are
 * missing, the last of all. */
static __always_inline __u32 latest_end(struct bpf_sock_ops *event)
{
	const struct bpf_sock_ops_kern *context = bpf_cast_to_kern_ctx(event);
	const struct tcp_sock *tp = AS(context->sk, struct tcp_sock);

	if (tp->out_of_order_queue.rb_node)
		return AS(tp->ooo_last_skb->cb, struct tcp_skb_cb)->end_seq;
	return tp->rcv_nxt;
}

/* Leaves room for the option in an ACK without data. */
static __always_inline void reserve(struct bpf_sock_ops *event)
{
	if (event->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS || event->skb_len || event->skb_tcp_flags & TCP_SYN)
		return;
	if (bpf_reserve_hdr_opt(event, sizeof(struct arrival_option), 0))
		COUNT(without_room);
}

/* Writes it. */
static __always_inline void write(struct bpf_sock_ops *event, const struct arrivals *arrivals)
{
	const __u32 end = latest_end(event);
	const __u64 slot = arrivals->slots[slot_of(end)];
	const __u32 arrival = slot >> 32 == end ? slot : 0;
	struct arrival_option option = ARRIVAL_OPTION(arrival);
	struct tcp *tcp = event->skb_data;

	if ((void *)(tcp + 1) > event->skb_data_end || event->skb_len > (__u32)(tcp->offset >> 4) * 4)
		return;
	if (bpf_store_hdr_opt(event, &option, sizeof(option), 0))
		return;
	if (arrival)
		COUNT(stamped);
	else
		COUNT(missed);
}

/* Follows a connection from now on, if it is one of those to be stamped. */
static __always_inline void begin(struct bpf_sock_ops *event, struct bpf_sock *sk)
{
	if (!is_enabled(event) || !bpf_sk_storage_get(&sockets, sk, 0, BPF_SK_STORAGE_GET_F_CREATE))
		return;
	COUNT(connections);
	bpf_sock_ops_cb_flags_set(event, event->bpf_sock_ops_cb_flags | EVENT_WRITE);
}

SEC("sockops")
int hw_stamp_acks(struct bpf_sock_ops *event)
{
	struct bpf_sock *sk = event->sk;
	struct arrivals *arrivals;

	if (!sk)
		return 1;
	if (event->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB || event->op == BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB) {
		begin(event, sk);
		return 1;
	}
	if (event->op != BPF_SOCK_OPS_HDR_OPT_LEN_CB && event->op != BPF_SOCK_OPS_WRITE_HDR_OPT_CB)
		return 1;
	arrivals = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!arrivals)
		return 1;
	if (event->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		reserve(event);
	else
		write(event, arrivals);
	return 1;
}

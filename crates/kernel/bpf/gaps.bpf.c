// SPDX-License-Identifier: GPL-2.0-only
/*
 * Passes segments that leave over an interface to a process that fills the line between them with PAUSE frames
 * (rapid 2.3; src/gaps.rs): redirected to a TAP device, each behind a head that says when it is due.
 *
 * Controllers that schedule departures say so (gaps.bpf.h). Other connections are taken by the mark of their
 * packets, and their segments follow one another at TCP's pacing rate, as with the queue discipline fq.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#include "gaps.bpf.h"

#define TCX_NEXT (-1)
#define NSEC_PER_SEC 1000000000ULL

char gpl[] SEC("license") = "GPL";

struct gap_options {
	/* The TAP device. */
	u32 device;
	/* The mark of other packets to take; none if 0. */
	u32 mark;
};

const volatile struct gap_options options SEC(".rodata.options") = {};

/* Before each frame; src/gaps.rs reads it. */
struct gap_head {
	/* Tells frames of this program from those that the kernel sends over any device. */
	u64 magic;
	u64 due;
};

#define GAP_MAGIC 0x7061675f79776468ULL

/* What follows is due when this segment has left at the pacing rate. */
static __always_inline u64 paced(struct __sk_buff *packet, struct bpf_sock *sk)
{
	struct gap_departure *departure = bpf_sk_storage_get(&gap_departures, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);
	const u64 now = bpf_ktime_get_ns();
	u64 due, rate;

	if (!departure || !tp)
		return now;
	due = departure->due > now ? departure->due : now;
	rate = tp->inet_conn.icsk_inet.sk.sk_pacing_rate;
	departure->due = due + (rate ? packet->len * NSEC_PER_SEC / rate : 0);
	return due;
}

SEC("tcx/egress")
int hw_leave_by_line(struct __sk_buff *packet)
{
	struct gap_head head = { .magic = GAP_MAGIC };
	struct bpf_sock *sk = (struct bpf_sock *)packet->sk;
	struct gap_departure *departure;

	if (!sk)
		return TCX_NEXT;
	sk = bpf_sk_fullsock(sk);
	if (!sk)
		return TCX_NEXT;
	if (options.mark && packet->mark == options.mark) {
		head.due = paced(packet, sk);
	} else {
		departure = bpf_sk_storage_get(&gap_departures, sk, 0, 0);
		if (!departure)
			return TCX_NEXT;
		head.due = take_departure(departure, bpf_ktime_get_ns());
	}
	if (bpf_skb_change_head(packet, sizeof(head), 0))
		return TCX_NEXT;
	bpf_skb_store_bytes(packet, 0, &head, sizeof(head), 0);
	return bpf_redirect(options.device, 0);
}

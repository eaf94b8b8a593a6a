/* SPDX-License-Identifier: GPL-2.0-only */
/* What a connection of TCP Rapid knows, for a reader in user space: an iterator over the
 * storage of all sockets. */
#ifndef HEADWAY_RAPID_FLOWS_BPF_H
#define HEADWAY_RAPID_FLOWS_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define AF_INET 2
#define RAPID_FLOW_TOLD_BY_OPTION 3

/* One connection (src/flows.rs has the same in Rust). */
struct rapid_flow {
	/* Addresses in network order, of IPv4 in the first four bytes, and ports. */
	hw_u8 local[16];
	hw_u8 remote[16];
	hw_u16 is_ipv6;
	hw_u16 local_port;
	hw_u16 remote_port;
	/* One of enum rapid_stamps for TCP's timestamps, or RAPID_FLOW_TOLD_BY_OPTION; and whether the
	 * connection is in start-up. */
	hw_u8 stamps;
	hw_u8 starts;
	/* R_avg and the latest estimate, in bit/s; the RTT and the queue that the latest
	 * packets found, in ns. */
	hw_u64 rate;
	hw_u64 estimate;
	hw_u64 rtt;
	hw_u64 queue;
	/* The one-way delay of the latest stamped packet less that of the first one, in ns. */
	hw_u64 delay;
	/* P-streams that were begun, that yielded an estimate, that were complete and yielded none, and of
	 * these for gaps of the sender. */
	hw_u32 streams;
	hw_u32 estimated;
	hw_u32 refused;
	hw_u32 crowded;
	/* Loss episodes, timeouts and segments sent again; times that the receiver's clock was moved. */
	hw_u32 losses;
	hw_u32 timeouts;
	hw_u32 retransmitted;
	hw_u32 moved;
};

static __always_inline void rapid_describe_addresses(const struct sock *sk, struct rapid_flow *flow)
{
	const struct sock_common *common = &sk->__sk_common;

	flow->is_ipv6 = common->skc_family != AF_INET;
	flow->local_port = common->skc_num;
	flow->remote_port = bpf_ntohs(common->skc_dport);
	if (!flow->is_ipv6) {
		BPF_CORE_READ_INTO((__be32 *)flow->local, sk, __sk_common.skc_rcv_saddr);
		BPF_CORE_READ_INTO((__be32 *)flow->remote, sk, __sk_common.skc_daddr);
	} else if (bpf_core_field_exists(common->skc_v6_daddr)) {
		BPF_CORE_READ_INTO((struct in6_addr *)flow->local, sk, __sk_common.skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO((struct in6_addr *)flow->remote, sk, __sk_common.skc_v6_daddr);
	}
}

static __always_inline hw_u8 rapid_describe_stamps(const struct rapid_connection *c)
{
	if (!c->option.counts)
		return (hw_u8)c->clock.stamps;
	return c->option.clock.stamps == RAPID_STAMPS_USEC ? RAPID_FLOW_TOLD_BY_OPTION : RAPID_STAMPS_UNKNOWN;
}

SEC("iter/bpf_sk_storage_map")
int hw_flows(struct bpf_iter__bpf_sk_storage_map *context)
{
	const struct rapid_connection *c = context->value;
	struct sock *sk = context->sk;
	struct rapid_flow flow = {};

	if (!sk || !c)
		return 0;
	rapid_describe_addresses(sk, &flow);
	flow.stamps = rapid_describe_stamps(c);
	flow.starts = c->rapid.phase == RAPID_START_UP;
	flow.rate = c->rapid.rate;
	flow.estimate = c->rapid.latest.rate;
	flow.rtt = c->rapid.rtt;
	flow.queue = rapid_queue(&c->rapid.delay);
	flow.delay = c->rapid.delay.latest;
	flow.streams = c->rapid.stream;
	flow.estimated = c->rapid.estimated;
	flow.refused = c->rapid.refused;
	flow.crowded = c->rapid.crowded;
	flow.losses = c->losses;
	flow.timeouts = c->timeouts;
	flow.retransmitted = c->retransmitted;
	flow.moved = c->clock.moves + c->option.clock.moves;
	bpf_seq_write(context->meta->seq, &flow, sizeof(flow));
	return 0;
}

#endif

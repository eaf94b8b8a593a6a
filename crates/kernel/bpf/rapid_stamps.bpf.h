/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When segments arrived at the receiver, as its ACKs tell (rapid 1.5, 2.7). In the order of preference:
 *
 *	the option of arrival_option.bpf.h     noted by a receiver that has stamps.bpf.c, before TCP sees the segment
 *	TCP's timestamps, in microseconds      taken when the segment is acknowledged
 *	the arrival of the ACK                 where there is neither
 *
 * Nothing is negotiated: clocks are compared with ours (rapid_clock.h). An option that is missing for a while
 * is not waited for, as where the path has changed to one that strips it.
 */
#ifndef HEADWAY_RAPID_STAMPS_BPF_H
#define HEADWAY_RAPID_STAMPS_BPF_H

#include "arrival_option.bpf.h"

/* So many ACKs without the option, and it is gone: as many as an estimate can do without a stamp. */
#define MOST_MISSED RAPID_MAX_PACKETS

/* From now on another clock gives arrivals. */
static __always_inline void rapid_void_arrivals(struct rapid_connection *c)
{
	c->flight.has_stamps = 0;
	rapid_acks_restart(&c->rapid.acks);
	c->rapid.delay.stamped = 0;
}

/* Finds out by a stamp whether those of its clock tell when segments arrived. */
static __always_inline void rapid_judge_clock(const struct tcp_sock *tp, struct rapid_connection *c, struct rapid_clock *clock,
					      hw_u32 stamp)
{
	const hw_u32 moves = clock->moves;

	if (rapid_clock_on_ack(clock, stamp, tp->tcp_clock_cache, c->rapid.rtt))
		rapid_void_arrivals(c);
	COUNT_BY(moved, clock->moves - moves);
}

/* The arrival in the option of this ACK; 0 if there is none. */
static __always_inline hw_u32 rapid_take_arrival(const struct tcp_sock *tp, struct rapid_connection *c)
{
	const hw_u32 arrival = c->option.arrival;

	c->option.arrival = 0;
	/* An ACK that was too old for this program may have left it. */
	return c->option.una == tp->snd_una ? arrival : 0;
}

/* Prefers the option as soon as there is one, and until it is gone or its clock is another one. */
static __always_inline void rapid_choose_clock(struct rapid_connection *c, hw_u32 arrival)
{
	const hw_u32 before = c->option.counts;

	c->option.missed = arrival ? 0 : c->option.missed + 1;
	if (c->option.clock.stamps == RAPID_STAMPS_NONE || c->option.missed > MOST_MISSED)
		c->option.counts = 0;
	else if (arrival)
		c->option.counts = 1;
	if (c->option.counts != before)
		rapid_void_arrivals(c);
}

static __always_inline void rapid_stamp_by_option(const struct tcp_sock *tp, struct rapid_connection *c, hw_u32 arrival,
						  struct rapid_ack *ack)
{
	const hw_u32 before = c->option.clock.stamps;

	if (arrival)
		rapid_judge_clock(tp, c, &c->option.clock, arrival);
	if (before != RAPID_STAMPS_USEC && c->option.clock.stamps == RAPID_STAMPS_USEC)
		COUNT(by_driver);
	if (before != RAPID_STAMPS_NONE && c->option.clock.stamps == RAPID_STAMPS_NONE)
		COUNT(refused_options);
	ack->stamped = c->option.clock.stamps == RAPID_STAMPS_USEC;
	if (ack->stamped)
		ack->stamp = arrival;
}

static __always_inline void rapid_stamp_by_timestamp(const struct tcp_sock *tp, struct rapid_connection *c, int is_delayed,
						     struct rapid_ack *ack)
{
	const hw_u32 before = c->clock.stamps;

	rapid_judge_clock(tp, c, &c->clock, tp->rx_opt.rcv_tsval);
	if (before != RAPID_STAMPS_USEC && c->clock.stamps == RAPID_STAMPS_USEC)
		COUNT(stamped);
	if (before != RAPID_STAMPS_NONE && c->clock.stamps == RAPID_STAMPS_NONE)
		COUNT(unstamped);
	ack->stamped = c->clock.stamps == RAPID_STAMPS_USEC;
	/* A receiver that waits for a second segment stamps the end of its patience. */
	if (ack->stamped && !is_delayed)
		ack->stamp = tp->rx_opt.rcv_tsval;
}

/* Notes the option of a packet that TCP has accepted, with the socket locked. */
SEC("sockops")
int hw_read_arrival(struct bpf_sock_ops *event)
{
	struct arrival_option option = ARRIVAL_OPTION(0);
	struct bpf_sock *sk = event->sk;
	struct rapid_connection *c;
	struct tcp *tcp;

	if (event->op != BPF_SOCK_OPS_PARSE_HDR_OPT_CB || !sk)
		return 1;
	c = bpf_sk_storage_get(&connections, sk, 0, 0);
	tcp = event->skb_data;
	if (!c || (void *)(tcp + 1) > event->skb_data_end)
		return 1;
	option.length = OPTION_START;
	if (bpf_load_hdr_opt(event, &option, sizeof(option), 0) != sizeof(option))
		return 1;
	c->option.arrival = bpf_ntohl(option.arrival);
	c->option.una = bpf_ntohl(tcp->acknowledgement);
	return 1;
}

/* Has the kernel run the program above for packets of the connection, which it does since Linux 6.12. */
static __always_inline void rapid_ask_for_options(struct sock *sk)
{
	int events = 0;

	if (bpf_getsockopt(sk, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &events, sizeof(events)))
		return;
	events |= EVENT_PARSE;
	bpf_setsockopt(sk, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &events, sizeof(events));
}

#endif

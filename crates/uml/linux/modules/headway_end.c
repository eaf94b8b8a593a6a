// SPDX-License-Identifier: GPL-2.0
/*
 * The ends of connections whose routers tell their senders how fast to send:
 *
 *	TCP ---> qdisc headway_end: inserts the congestion header ----> device
 *	TCP <--- protocol 253: removes it, notes what it says <-------- device
 *	 ^----- headway_xcp, headway_rcp: turn that into window and pace
 *
 * Both ends need one of the three controllers; that of a receiver, headway_end,
 * answers headers and is Reno otherwise. A device from which such a socket sends
 * needs the qdisc and gso_max_segs 1, as in packets of several segments all would
 * have the same header. The route needs an MTU with room for the header. IPv4 only.
 *
 * The arithmetic is in explicit_end.h. A sender reads the module parameters when
 * it is given the controller, and keeps these values.
 */
#include <linux/module.h>
#include <net/inet_hashtables.h>
#include <net/pkt_sched.h>
#include <net/protocol.h>
#include <net/tcp.h>

#include "explicit_end.h"
#include "explicit_wire.h"

static unsigned long demand;
module_param(demand, ulong, 0644);
MODULE_PARM_DESC(demand, "rate that senders ask for in b/s, 0 for any");

static unsigned int paced;
module_param(paced, uint, 0644);
MODULE_PARM_DESC(paced, "senders of RCP have a rate, and a window that rarely limits them");

/* What a link adds to every IP packet, in bytes: preamble, header, checksum and gap of Ethernet.
 * Routers count it. */
#define LINK_BYTES 38

/* The state of a connection, at most ICSK_CA_PRIV_SIZE bytes */
struct end {
	/* For the peer: its feedback, for XCP the sum since the last packet to it. Changed by
	 * arriving packets. */
	atomic64_t owed;
	/* What the peer returned: for XCP the sum not applied yet, for RCP the latest rate. Changed by
	 * arriving packets. */
	atomic64_t told;
	/* The rest is changed with the socket locked. A receiver has no window. */
	struct explicit_window window;
	/* The window before the last reduction, in bytes with EXPLICIT_WINDOW_BITS */
	u64 prior;
	struct explicit_rtt rtt;
	/* In b/s; 0 for any */
	u64 demand;
	struct explicit_request request;
	/* Of the headers that it sends; 0 for a receiver */
	u8 version;
	/* Of the headers that the peer sends; 0 before the first */
	u8 heard;
	u8 paced;
	/* Whether the application, not the window, limits what is sent */
	u8 app_limited;
};

static struct tcp_congestion_ops end_ops[];
#define CONTROLLERS 3

/* The state of a socket, or NULL if its controller is none of ours, or not at work yet */
static struct end *end_of(const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	const struct tcp_congestion_ops *ops = READ_ONCE(icsk->icsk_ca_ops);

	if (!icsk->icsk_ca_initialized || ops < end_ops || ops >= end_ops + CONTROLLERS)
		return NULL;
	return inet_csk_ca(sk);
}

/* Bytes of a full segment on the wire */
static u64 wire_segment(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return tp->mss_cache + tp->tcp_header_len + sizeof(struct iphdr) + EXPLICIT_WIRE_BYTES + LINK_BYTES;
}

/* The rate that a sender has in place of a window; 0 if it has a window, or was told none */
static u32 paced_rate(const struct end *end)
{
	return end->paced ? atomic64_read(&end->told) : 0;
}

/* The rate of a sender in b/s. With a window it is a segment per round trip at least, however
 * little routers grant. */
static u64 end_rate(const struct end *end)
{
	return explicit_sender_rate(end->version, paced_rate(end), &end->window, end->rtt.smoothed);
}

/* The header. */

/* Fills the header of a packet that asks for something. */
static void end_request(struct end *end, struct explicit_header *header)
{
	u64 demand = end->demand;
	u64 rate;

	if (end->version == EXPLICIT_VERSION_RCP)
		header->feedback = end->demand ? hw_min(end->demand / 8, EXPLICIT_ANY_RATE) : EXPLICIT_ANY_RATE;
	if (!end->rtt.smoothed)
		return;
	rate = end_rate(end);
	header->rtt = explicit_header_time(end->rtt.smoothed);
	header->x = explicit_header_time(explicit_spacing(end->window.segment, rate));
	if (end->version != EXPLICIT_VERSION_XCP)
		return;
	/* What the application does not use is for others. */
	if (end->app_limited)
		demand = demand ? hw_min(demand, rate) : rate;
	/* Any rate is not a share of one: routers lower the largest change. */
	header->feedback = EXPLICIT_LARGEST_DELTA;
	if (demand)
		header->feedback = explicit_request(&end->request, explicit_share(rate, demand, end->rtt.smoothed,
										  end->window.segment));
}

/* The header of the next packet, with data or without; its version is 0 if it is to have none. */
static struct explicit_header end_header(struct end *end, bool has_data)
{
	struct explicit_header header = { .protocol = IPPROTO_TCP, .format = EXPLICIT_MINIMAL };

	header.version = end->heard;
	if (end->version && (has_data || !end->heard)) {
		header.version = end->version;
		header.format = EXPLICIT_STANDARD;
		end_request(end, &header);
	}
	if (header.version == end->heard)
		header.reverse = explicit_delta(atomic64_xchg(&end->owed, 0));
	return header;
}

/* Moves the headers before TCP's down, so that there is a gap before it; returns it, or
 * NULL without memory. */
static u8 *end_insert(struct sk_buff *skb)
{
	const int bytes = skb_transport_offset(skb);

	if (skb_cow_head(skb, EXPLICIT_WIRE_BYTES))
		return NULL;
	skb_push(skb, EXPLICIT_WIRE_BYTES);
	memmove(skb->data, skb->data + EXPLICIT_WIRE_BYTES, bytes);
	skb->mac_header -= EXPLICIT_WIRE_BYTES;
	skb->network_header -= EXPLICIT_WIRE_BYTES;
	return skb->data + bytes;
}

/* Gives a packet its congestion header, unless it is none of ours or has several segments; returns
 * false without memory. */
static bool end_leave(struct sk_buff *skb)
{
	struct sock *sk = skb->sk;
	struct explicit_header header;
	struct iphdr *ip;
	struct end *end;
	u8 *place;

	if (!sk || !sk_fullsock(sk) || sk->sk_protocol != IPPROTO_TCP || sk->sk_family != AF_INET ||
	    skb_is_gso(skb))
		return true;
	end = end_of(sk);
	if (!end)
		return true;
	header = end_header(end, skb->len > skb_tcp_all_headers(skb));
	if (!header.version)
		return true;
	place = end_insert(skb);
	if (!place)
		return false;
	explicit_write(&header, place);
	ip = ip_hdr(skb);
	ip->tot_len = htons(ntohs(ip->tot_len) + EXPLICIT_WIRE_BYTES);
	ip->protocol = EXPLICIT_PROTOCOL;
	ip_send_check(ip);
	qdisc_skb_cb(skb)->pkt_len += EXPLICIT_WIRE_BYTES;
	return true;
}

static int end_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	return end_leave(skb) ? qdisc_enqueue_tail(skb, sch) : qdisc_drop(skb, sch, to_free);
}

static struct Qdisc_ops end_qdisc __read_mostly = {
	.id = "headway_end",
	.owner = THIS_MODULE,
	.enqueue = end_enqueue,
	.dequeue = qdisc_dequeue_head,
	.peek = qdisc_peek_head,
	.reset = qdisc_reset_queue,
};

/* Notes a header that arrived for a connection. */
static void end_note(struct end *end, const struct explicit_header *header)
{
	const bool is_xcp = header->version == EXPLICIT_VERSION_XCP;

	if (!is_xcp && header->version != EXPLICIT_VERSION_RCP)
		return;
	if (end->heard != header->version) {
		/* What is owed in one version means something else in the other. */
		atomic64_set(&end->owed, 0);
		end->heard = header->version;
	}
	if (header->version == end->version) {
		if (is_xcp)
			atomic64_add((s32)header->reverse, &end->told);
		else if (header->reverse)
			atomic64_set(&end->told, header->reverse);
	}
	if (header->format != EXPLICIT_STANDARD)
		return;
	if (is_xcp)
		atomic64_add((s32)header->feedback, &end->owed);
	else
		atomic64_set(&end->owed, header->feedback);
}

/* Takes the header off a packet and hands it to TCP, with its socket, so that TCP need not look for it. */
static int end_arrive(struct sk_buff *skb)
{
	struct explicit_header header;
	const struct tcphdr *th;
	const struct iphdr *ip;
	struct end *end = NULL;
	struct sock *sk;

	if (!pskb_may_pull(skb, EXPLICIT_WIRE_BYTES + sizeof(*th)) ||
	    explicit_read(skb->data, skb_headlen(skb), &header) != EXPLICIT_FOUND || header.protocol != IPPROTO_TCP) {
		kfree_skb(skb);
		return 0;
	}
	__skb_pull(skb, EXPLICIT_WIRE_BYTES);
	skb_postpull_rcsum(skb, skb->data - EXPLICIT_WIRE_BYTES, EXPLICIT_WIRE_BYTES);
	skb_reset_transport_header(skb);
	if (skb->sk)
		return -IPPROTO_TCP;
	ip = ip_hdr(skb);
	th = tcp_hdr(skb);
	sk = __inet_lookup_established(dev_net(skb->dev), dev_net(skb->dev)->ipv4.tcp_death_row.hashinfo, ip->saddr,
				       th->source, ip->daddr, ntohs(th->dest), skb->skb_iif, 0);
	if (!sk)
		return -IPPROTO_TCP;
	skb->sk = sk;
	skb->destructor = sock_edemux;
	if (sk_fullsock(sk))
		end = end_of(sk);
	if (end)
		end_note(end, &header);
	return -IPPROTO_TCP;
}

static const struct net_protocol end_protocol = {
	.handler = end_arrive,
	.no_policy = 1,
};

/* The controllers. */

/* Sets TCP's window and pace. */
static void end_apply(struct sock *sk, struct end *end)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 segments = explicit_window_whole(&end->window, end->version, tp->data_segs_out);
	u64 rate = explicit_pacing_rate(end->version, paced_rate(end), &end->window, &end->rtt);

	if (paced_rate(end) && tp->data_segs_out >= EXPLICIT_UNPACED)
		segments *= EXPLICIT_PACED_WINDOW;
	tcp_snd_cwnd_set(tp, min_t(u64, segments, tp->snd_cwnd_clamp));
	if (!rate)
		return;
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, explicit_pace(&end->window, rate, tp->mss_cache),
					     READ_ONCE(sk->sk_max_pacing_rate)));
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

static void end_init(struct sock *sk)
{
	struct end *end = inet_csk_ca(sk);

	memset(end, 0, sizeof(*end));
}

static void end_start(struct sock *sk, u8 version)
{
	struct end *end = inet_csk_ca(sk);

	end_init(sk);
	end->version = version;
	end->demand = READ_ONCE(demand);
	end->paced = version == EXPLICIT_VERSION_RCP && READ_ONCE(paced);
	end->window.segment = wire_segment(sk);
	explicit_window_set(&end->window, 0);
	end_apply(sk, end);
}

static void xcp_init(struct sock *sk)
{
	end_start(sk, EXPLICIT_VERSION_XCP);
}

static void rcp_init(struct sock *sk)
{
	end_start(sk, EXPLICIT_VERSION_RCP);
}

/* The next controller must not inherit the pace. */
static void end_release(struct sock *sk)
{
	WRITE_ONCE(sk->sk_pacing_rate, READ_ONCE(sk->sk_max_pacing_rate));
}

/* Smooths the RTT of the newest acknowledged segment, unless its ACK waited. */
static void end_sample(struct sock *sk, struct end *end, const struct rate_sample *rs)
{
	const u64 gap = explicit_spacing(end->window.segment, end_rate(end));
	const u64 rtt = (u64)max(rs->rtt_us, 1L) * NSEC_PER_USEC;

	if (rs->rtt_us < 0 || rs->is_ack_delayed ||
	    (rs->acked_sacked == 1 && explicit_has_waited(gap, rtt, (u64)tcp_min_rtt(tcp_sk(sk)) * NSEC_PER_USEC)))
		return;
	explicit_rtt_sample(&end->rtt, rtt);
}

/*
 * Called for each acknowledgment, in every state, once TCP has digested it. That
 * of a client's SYN comes before end_start(): the state is still all zeros.
 */
static void end_cong_control(struct sock *sk, u32 una, int flag, const struct rate_sample *rs)
{
	struct end *end = end_of(sk);
	s64 change;

	if (!end)
		return;
	end->window.segment = wire_segment(sk);
	end_sample(sk, end, rs);
	end->app_limited = tcp_sk(sk)->app_limited != 0;
	if (end->version == EXPLICIT_VERSION_RCP) {
		explicit_window_rate(&end->window, atomic64_read(&end->told), end->rtt.smoothed);
	} else {
		change = explicit_delta(atomic64_xchg(&end->told, 0));
		/* A window that the application does not fill must not grow (RFC 7661). */
		if (change < 0 || !end->app_limited)
			explicit_window_change(&end->window, change, end->rtt.smoothed);
	}
	end_apply(sk, end);
}

/* The rate of RCP is whatever routers say; the window of XCP is halved, and feedback goes on (2.2). */
static void on_recovery(struct sock *sk, struct end *end)
{
	if (end->version == EXPLICIT_VERSION_RCP)
		return;
	end->prior = end->window.bytes;
	explicit_window_set(&end->window, end->window.bytes / 2);
	end_apply(sk, end);
}

static void on_timeout(struct sock *sk, struct end *end)
{
	/* The rate of RCP that was heard is out of date; the next header says it again. */
	if (end->version == EXPLICIT_VERSION_RCP)
		atomic64_set(&end->told, 0);
	else
		end->prior = end->window.bytes;
	explicit_window_set(&end->window, 0);
	end_apply(sk, end);
}

static void end_set_state(struct sock *sk, u8 state)
{
	struct end *end = end_of(sk);

	if (!end)
		return;
	if (state == TCP_CA_Recovery)
		on_recovery(sk, end);
	else if (state == TCP_CA_Loss)
		on_timeout(sk, end);
}

static void end_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct end *end = end_of(sk);

	if (event != CA_EVENT_TX_START || !end)
		return;
	/* Idle for longer than an RTO */
	if ((s32)(tcp_jiffies32 - tcp_sk(sk)->lsndtime) <= (s32)inet_csk(sk)->icsk_rto ||
	    !explicit_window_restart(&end->window, end->version))
		return;
	if (end->version == EXPLICIT_VERSION_RCP)
		atomic64_set(&end->told, 0);
	end_apply(sk, end);
}

/* Called at a loss: without slow start the threshold has no effect. */
static u32 end_ssthresh(struct sock *sk)
{
	return max_t(u32, tcp_snd_cwnd(tcp_sk(sk)), EXPLICIT_LEAST_WHOLE);
}

/* Called when a loss turns out not to have been one */
static u32 end_undo_cwnd(struct sock *sk)
{
	struct end *end = end_of(sk);

	if (end && end->prior > end->window.bytes) {
		explicit_window_set(&end->window, end->prior);
		end_apply(sk, end);
	}
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* In packets of several segments all would have the same header. */
static u32 end_min_tso_segs(struct sock *sk)
{
	return 1;
}

#define SENDER(identifier, begin)                               \
	{                                                       \
		.name = identifier,                             \
		.owner = THIS_MODULE,                           \
		.flags = TCP_CONG_NON_RESTRICTED,               \
		.init = begin,                                  \
		.release = end_release,                         \
		.cong_control = end_cong_control,               \
		.set_state = end_set_state,                     \
		.cwnd_event = end_cwnd_event,                   \
		.ssthresh = end_ssthresh,                       \
		.undo_cwnd = end_undo_cwnd,                     \
		.min_tso_segs = end_min_tso_segs,               \
	}

static struct tcp_congestion_ops end_ops[CONTROLLERS] __read_mostly = {
	SENDER("headway_xcp", xcp_init),
	SENDER("headway_rcp", rcp_init),
	{
		.name = "headway_end",
		.owner = THIS_MODULE,
		.flags = TCP_CONG_NON_RESTRICTED,
		.init = end_init,
		.release = end_release,
		.ssthresh = tcp_reno_ssthresh,
		.undo_cwnd = tcp_reno_undo_cwnd,
		.cong_avoid = tcp_reno_cong_avoid,
	},
};

static int __init end_begin(void)
{
	int count, error;

	BUILD_BUG_ON(sizeof(struct end) > ICSK_CA_PRIV_SIZE);
	error = inet_add_protocol(&end_protocol, EXPLICIT_PROTOCOL);
	if (error)
		return error;
	error = register_qdisc(&end_qdisc);
	if (error)
		goto no_qdisc;
	for (count = 0; count < CONTROLLERS; count++) {
		error = tcp_register_congestion_control(&end_ops[count]);
		if (error)
			goto no_controller;
	}
	return 0;
no_controller:
	while (count--)
		tcp_unregister_congestion_control(&end_ops[count]);
	unregister_qdisc(&end_qdisc);
no_qdisc:
	inet_del_protocol(&end_protocol, EXPLICIT_PROTOCOL);
	return error;
}

static void __exit end_finish(void)
{
	int count = CONTROLLERS;

	while (count--)
		tcp_unregister_congestion_control(&end_ops[count]);
	unregister_qdisc(&end_qdisc);
	inet_del_protocol(&end_protocol, EXPLICIT_PROTOCOL);
}

module_init(end_begin);
module_exit(end_finish);
MODULE_DESCRIPTION("Ends of connections whose routers tell their senders how fast to send");
MODULE_LICENSE("GPL");

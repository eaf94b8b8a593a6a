// SPDX-License-Identifier: GPL-2.0
/*
 * TCP Rapid: every packet is a probe, and the connection sends at the available
 * bandwidth that it measures.
 *
 * The arithmetic is in rapid.h, and when a packet is due in rapid_departures.h.
 * TCP asks for the size of bursts at every attempt to send. The answer is one
 * segment, and the question is the occasion to move the departure of the next
 * one. Attempts that come to nothing must not count as departures, so these are
 * known by the numbers that they advance.
 *
 * An ACK's timestamp is when the receiver sent it; with a route that has
 * microsecond timestamps (RTAX_FEATURE_TCP_USEC_TS) and a receiver that
 * acknowledges at once, this is the arrival of the segment that caused it.
 *
 * A connection reads the module parameters when it is given the controller, and
 * keeps these values.
 */
#include <linux/inet_diag.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <net/tcp.h>

#include "rapid_departures.h"

/* Linux does not pace this many segments at the beginning of a connection. */
#define UNPACED 10
/* Slots of a new ring of packets in flight, and of the largest one: 3 MiB */
#define FIRST_SLOTS 256
#define MOST_SLOTS (1U << 17)
/* The window in bandwidth-delay products of the host's line, so that it never limits (rapid 2.5). */
#define WINDOW_BDPS 2
/* Retransmissions that one step may add to the packets in flight; more leave at once only after a timeout. */
#define MOST_AT_ONCE 64

/* For 10 Gb/s and packets of 9000 bytes; ranges in rapid_config.h */
static struct rapid_config settings = RAPID_INITIAL_CONFIG(RAPID_USUAL_RATE, RAPID_USUAL_PACKET);

/* A parameter of the module that is a member of `settings` */
#define SETTING(name, member, type, description)              \
	module_param_named(name, settings.member, type, 0644); \
	MODULE_PARM_DESC(name, description)

SETTING(line, line, ullong, "rate of the sender's own link, which it does not exceed, in bit/s");
SETTING(packet, packet, uint, "bytes of a full packet on the wire");
SETTING(tau, tau, ullong, "time constant of the increase in ns");
SETTING(kd, kd, uint, "share of the excess that an update takes away, in units of 2^-16");
SETTING(gamma, gamma, uint, "estimates per update");
SETTING(rates, shape.rates, uint, "rates in a p-stream");
SETTING(packets, shape.packets, uint, "packets at each rate");
SETTING(ratio, shape.ratio, uint, "ratio of a rate's gap to that of the rate below, in units of 2^-16");
SETTING(coalescing, coalescing, ullong, "distance of the receiver's interrupts in ns");
SETTING(coarse_up, coarse.up, uint, "rise of a receive gap that begins a spike, first pass, in ns");
SETTING(coarse_down, coarse.down, uint, "fall that makes it one, in ns");
SETTING(medium_up, medium.up, uint, "the same of the second pass");
SETTING(medium_down, medium.down, uint, "the same of the second pass");
SETTING(fine_up, fine.up, uint, "the same of the other passes");
SETTING(fine_down, fine.down, uint, "the same of the other passes");
SETTING(window, window, uint, "gaps in the moving average");
SETTING(margin, excursion.margin, uint, "smallest excess of a receive gap that counts, in ns");
SETTING(relative, excursion.relative, uint, "the same as a share of the send gap, in units of 2^-20");
SETTING(min_length, excursion.min_length, uint, "consecutive gaps that make an excursion");
SETTING(unit, unit, uint, "unit of timestamps in ns: 1000, or 1000000 without microsecond timestamps");
SETTING(flags, flags, uint, "switches of enum rapid_flag");

static unsigned int bridges_holes = 1;
module_param(bridges_holes, uint, 0644);
MODULE_PARM_DESC(bridges_holes, "whether a p-stream with lost packets yields an estimate");

static unsigned int stamps = 1;
module_param(stamps, uint, 0644);
MODULE_PARM_DESC(stamps, "whether to use timestamps, and not the arrival of ACKs");

/* What happened to all connections since the module was loaded; these wrap. */
static unsigned int estimated;
module_param(estimated, uint, 0444);
MODULE_PARM_DESC(estimated, "p-streams that yielded an estimate");
static unsigned int empty;
module_param(empty, uint, 0444);
MODULE_PARM_DESC(empty, "departures that were due while there was nothing to send, or no receive window for it");
static unsigned int forgotten;
module_param(forgotten, uint, 0444);
MODULE_PARM_DESC(forgotten, "packets in flight for which there was no memory");

struct rapid_connection {
	struct rapid rapid;
	struct rapid_config config;
	struct rapid_departures departures;
	struct rapid_flight flight;
	/* `slots` packets in flight, a power of two */
	struct rapid_sent *ring;
	u32 slots;
	/* How far the packets in flight are known */
	u32 snd_nxt;
	u32 retransmitted;
	/* When the line has sent the packet before, in ns */
	u64 line_free;
	/* Whether the packet that is due leaves at the latest attempt, and when that was */
	bool leaving;
	u64 now;
	/* Whether there was nothing to send after the latest departure */
	bool idle;
	bool stamps;
	struct rapid_gaps gaps;
	struct rapid_gaps scratch;
};

/* The state does not fit into a socket. */
static struct rapid_connection *rapid_of(const struct sock *sk)
{
	return *(struct rapid_connection **)inet_csk_ca(sk);
}

/* Doubles the ring; if there is no memory, it forgets its first packets. */
static void rapid_grow(struct rapid_connection *c)
{
	const u32 slots = c->slots * 2;
	struct rapid_sent *ring;
	u32 k;

	if (slots > MOST_SLOTS)
		return;
	ring = kmalloc_array(slots, sizeof(*ring), GFP_ATOMIC | __GFP_NOWARN);
	if (!ring)
		return;
	for (k = c->flight.first; k != c->flight.end; k++)
		ring[k & (slots - 1)] = c->ring[k & (c->slots - 1)];
	kfree(c->ring);
	c->ring = ring;
	c->slots = slots;
}

/* A segment that ends before `end` left at `now`. */
static void rapid_add_sent(struct rapid_connection *c, u32 end, u8 flags, bool full, u64 now)
{
	struct rapid_sent sent = { .segment = end, .flags = flags };

	if (c->leaving)
		sent = rapid_departures_take(&c->departures, end, flags, full);
	c->leaving = false;
	if (rapid_flight_is_full(&c->flight, c->slots))
		rapid_grow(c);
	if (rapid_flight_is_full(&c->flight, c->slots))
		forgotten++;
	rapid_flight_push(&c->flight, &c->ring[rapid_flight_end(&c->flight, c->slots)], c->slots, &sent, now);
}

/*
 * Finds out what left since the last attempt to send: the segment that was due,
 * or what TCP neither paces nor asks about.
 */
static void rapid_note(struct sock *sk, struct rapid_connection *c)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const u64 now = c->leaving ? c->now : tp->tcp_clock_cache;
	u32 again = min_t(u32, tp->total_retrans - c->retransmitted, MOST_AT_ONCE);
	u32 end = c->snd_nxt;

	c->retransmitted = tp->total_retrans;
	while (again--) {
		rapid_on_retransmission(&c->rapid);
		rapid_add_sent(c, tp->snd_una + 1, RAPID_RETRANSMISSION, true, now);
	}
	while (before(end, tp->snd_nxt)) {
		const u32 bytes = min(tp->snd_nxt - end, tp->mss_cache);

		end += bytes;
		rapid_add_sent(c, end, 0, bytes == tp->mss_cache, now);
	}
	c->snd_nxt = tp->snd_nxt;
	c->leaving = false;
}

/* Bytes of new data that the receive window admits */
static u32 rapid_sendable(const struct tcp_sock *tp)
{
	const u32 end = before(tp->write_seq, tcp_wnd_end(tp)) ? tp->write_seq : tcp_wnd_end(tp);

	return before(tp->snd_nxt, end) ? end - tp->snd_nxt : 0;
}

/* Sets the pace so that TCP tries again when the packet after the next one is due, or before. */
static void rapid_set_pace(struct sock *sk, const struct rapid_connection *c, u64 now)
{
	const struct rapid_stream *stream = &c->departures.stream;
	/* Gaps become shorter within a stream, so that of its last packet may do for the next one's first. */
	const u32 next = min(c->departures.index + 1, rapid_packets(&stream->shape) - 1);
	const u64 due = c->departures.due + rapid_gap(stream, next);
	const u64 at = max(due, c->line_free);
	const u64 rate = div64_u64((u64)tcp_sk(sk)->mss_cache * NSEC_PER_SEC, at - now);

	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, max(rate, 1), READ_ONCE(sk->sk_max_pacing_rate)));
}

/* TCP arms its timer when it tries to send, which it is about to do. */
static void rapid_move_departure(struct sock *sk, u64 at)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->tcp_wstamp_ns = at;
	if (hrtimer_is_queued(&tp->pacing_timer) && hrtimer_get_expires_ns(&tp->pacing_timer) != at &&
	    hrtimer_try_to_cancel(&tp->pacing_timer) == 1)
		__sock_put(sk);
}

/* Decides when the next packet leaves. */
static void rapid_plan(struct sock *sk, struct rapid_connection *c)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const u64 now = tp->tcp_clock_cache;
	const u32 lost = tp->lost_out > tp->retrans_out ? tp->lost_out - tp->retrans_out : 0;
	const u32 new = rapid_sendable(tp);
	u64 due, at;

	if (!lost && !new) {
		c->idle = true;
		return;
	}
	due = rapid_due(&c->departures, &c->rapid, &c->config, now, c->idle);
	empty += c->idle && c->departures.after_idle;
	c->idle = false;
	at = max(due, c->line_free);
	rapid_move_departure(sk, max(at, now));
	if (at > now)
		return;
	c->leaving = true;
	c->now = now;
	c->idle = lost ? lost == 1 && !new : new <= tp->mss_cache;
	c->line_free = now + rapid_time(c->config.packet, c->config.line);
	rapid_set_pace(sk, c, now);
}

/*
 * TCP asks this at each attempt to send, before it looks at its clock of
 * departures. The first segments it sends at once; they are no probes.
 */
static u32 rapid_min_tso_segs(struct sock *sk)
{
	struct rapid_connection *c = rapid_of(sk);

	sk->sk_gso_max_segs = 1;
	if (!c)
		return 1;
	rapid_note(sk, c);
	if (tcp_sk(sk)->data_segs_out >= UNPACED)
		rapid_plan(sk, c);
	return 1;
}

/* TCP makes the window smaller in several of its states, so it is set again in all of them (rapid 2.5). */
static void rapid_set_window(struct sock *sk, const struct rapid_connection *c)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const u64 least = 2 * rapid_packets(&c->config.shape);
	/* 39 bits of rate, and 100 s of RTT at most: 27 bits of us */
	const u64 rtt = min_t(u64, tp->srtt_us >> 3, 100 * USEC_PER_SEC);
	const u64 window = WINDOW_BDPS * div64_u64(c->config.line / 8 * rtt, (u64)c->config.packet * USEC_PER_SEC);

	tcp_snd_cwnd_set(tp, clamp_t(u64, window, least, tp->snd_cwnd_clamp));
}

static void rapid_start(struct sock *sk)
{
	struct rapid_connection **place = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct rapid_connection *c;
	u64 rate;

	c = kzalloc(sizeof(*c), GFP_ATOMIC);
	if (!c)
		return;
	c->ring = kmalloc_array(FIRST_SLOTS, sizeof(*c->ring), GFP_ATOMIC);
	if (!c->ring) {
		kfree(c);
		return;
	}
	c->slots = FIRST_SLOTS;
	c->config = settings;
	rapid_config_bound(&c->config);
	c->stamps = READ_ONCE(stamps);
	c->flight.bridges_holes = READ_ONCE(bridges_holes);
	c->flight.una = tp->snd_una + 1;
	c->snd_nxt = tp->snd_nxt;
	c->retransmitted = tp->total_retrans;
	rapid_init(&c->rapid, &c->config, (u64)(tp->srtt_us >> 3) * NSEC_PER_USEC);
	*place = c;
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	rate = div64_u64(c->rapid.rate / 8 * tp->mss_cache, c->config.packet);
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, max(rate, 1), READ_ONCE(sk->sk_max_pacing_rate)));
	rapid_set_window(sk, c);
}

static void rapid_release(struct sock *sk)
{
	struct rapid_connection **place = inet_csk_ca(sk);

	if (*place)
		kfree((*place)->ring);
	kfree(*place);
	*place = NULL;
}

/* Which segment caused an ACK, and when it arrived */
static struct rapid_ack rapid_read_ack(const struct tcp_sock *tp, const struct rapid_connection *c,
				       const struct rate_sample *rs)
{
	struct rapid_ack ack = { .now = tp->tcp_clock_cache, .una = tp->snd_una + 1 };

	/* Of those that it reports for the first time, the one sent last */
	if (!rs->acked_sacked || !rs->prior_mstamp || rs->is_retrans)
		return ack;
	ack.arrived = 1;
	ack.segment = rs->last_end_seq;
	ack.stamped = c->stamps && tp->rx_opt.saw_tstamp;
	/* A receiver that waits for a second segment stamps the end of its patience. */
	if (ack.stamped && !rs->is_ack_delayed)
		ack.stamp = tp->rx_opt.rcv_tsval;
	return ack;
}

/* Called for each acknowledgment, in every state, once TCP has digested it */
static void rapid_cong_control(struct sock *sk, u32 una, int flag, const struct rate_sample *rs)
{
	struct rapid_connection *c = rapid_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	struct rapid_packet packet;
	struct rapid_ack ack;
	u32 before;

	if (!c)
		return;
	rapid_note(sk, c);
	if (tp->srtt_us)
		rapid_on_rtt(&c->rapid, (u64)(tp->srtt_us >> 3) * NSEC_PER_USEC);
	if (inet_csk(sk)->icsk_ca_state < TCP_CA_CWR)
		rapid_on_recovered(&c->rapid, &c->config);
	before = c->rapid.estimated;
	ack = rapid_read_ack(tp, c, rs);
	rapid_flight_on_ack(&c->flight, &ack, c->config.unit);
	while (rapid_flight_take(&c->flight, &c->ring[rapid_flight_first(&c->flight, c->slots)], &packet))
		rapid_on_packet(&c->rapid, &c->config, &c->gaps, &c->scratch, &packet);
	estimated += c->rapid.estimated - before;
	rapid_set_window(sk, c);
}

static void rapid_set_state(struct sock *sk, u8 state)
{
	struct rapid_connection *c = rapid_of(sk);

	if (!c)
		return;
	rapid_note(sk, c);
	if (state == TCP_CA_Loss) {
		rapid_on_timeout(&c->rapid, &c->config);
	} else if (state >= TCP_CA_CWR) {
		/* If one acknowledgment ends an episode and begins another, both cut. */
		rapid_on_recovered(&c->rapid, &c->config);
		rapid_on_loss(&c->rapid, &c->config);
	}
	rapid_set_window(sk, c);
}

/* The window is no answer to losses, and there is no slow start. */
static u32 rapid_ssthresh(struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

static u32 rapid_undo_cwnd(struct sock *sk)
{
	struct rapid_connection *c = rapid_of(sk);

	if (c) {
		rapid_on_undo(&c->rapid);
		rapid_set_window(sk, c);
	}
	return tcp_snd_cwnd(tcp_sk(sk));
}

/* For TCP_CC_INFO: the delay of the latest stamped packet less that of the first one, in ns (rapid F26) */
struct rapid_report {
	u32 stamped;
	u32 delay_low;
	u32 delay_high;
};

/* For getsockopt() only: ss would take these words for those of another controller. */
static size_t rapid_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct rapid_connection *c = rapid_of(sk);
	struct rapid_report *report = (struct rapid_report *)info;

	BUILD_BUG_ON(sizeof(*report) > sizeof(*info));
	if (ext != ~0U || !c || !c->rapid.delay.stamped || !c->flight.has_stamps)
		return 0;
	*report = (struct rapid_report){
		.stamped = 1,
		.delay_low = lower_32_bits(c->rapid.delay.latest),
		.delay_high = upper_32_bits(c->rapid.delay.latest),
	};
	return sizeof(*report);
}

static struct tcp_congestion_ops rapid_ops __read_mostly = {
	.name = "headway_rapid",
	.owner = THIS_MODULE,
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = rapid_start,
	.release = rapid_release,
	.cong_control = rapid_cong_control,
	.set_state = rapid_set_state,
	.ssthresh = rapid_ssthresh,
	.undo_cwnd = rapid_undo_cwnd,
	.min_tso_segs = rapid_min_tso_segs,
	.get_info = rapid_get_info,
};

static int __init rapid_register(void)
{
	BUILD_BUG_ON(sizeof(struct rapid_connection *) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&rapid_ops);
}

static void __exit rapid_unregister(void)
{
	tcp_unregister_congestion_control(&rapid_ops);
}

module_init(rapid_register);
module_exit(rapid_unregister);
MODULE_DESCRIPTION("TCP Rapid");
MODULE_LICENSE("GPL");

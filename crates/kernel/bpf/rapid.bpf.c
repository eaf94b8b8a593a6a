// SPDX-License-Identifier: GPL-2.0
/*
 * TCP Rapid: every packet is a probe, and the connection sends at the available bandwidth that it measures.
 *
 * The arithmetic is in rapid.h, when a packet is due in rapid_departures.h, and which packets an ACK settles
 * in rapid_flight.h. This file is what is between these and TCP:
 *
 *  attempt to send --> min_tso_segs --> note what has left; is the next packet due? --> pace of the one after
 *  it ACK --------------> cong_control --> note what has left; settle packets, estimate, adapt R_avg losses,
 *  timeout --> set_state -----> R_avg
 *
 * No program can move a departure that TCP has decided on, but TCP asks min_tso_segs before each attempt to
 * send, and the pace that holds when a packet leaves decides when the next one does. Attempts that come to
 * nothing must not count, so departures are known by the numbers that they advance.
 *
 * Segments are single: the loader has the interface take no others (gso_max_segs). Where it does not, the
 * window is one segment above what is in flight, which does the same up to some 20 Mb/s; above, TCP waits
 * until the window has room for a longer buffer (tcp_tso_should_defer).
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "rapid_clock.h"
#include "rapid_departures.h"
#include "gaps.bpf.h"
#include "socket.bpf.h"

/* Linux does not pace this many segments at the beginning of a connection. */
#define UNPACED 10
/* Packets in flight that are known, a power of two: 250 ms of 100 Mb/s. With all else this is below the 64 KB
 * that the kernel has for the state of a socket. */
#define SLOTS 2048
/* The window in bandwidth-delay products of the host's line, so that it never limits (rapid 2.5). */
#define WINDOW_BDPS 2
/* Packets that one ACK settles; what is left waits for the next one. */
#define MOST_SETTLED 64
/* New segments, and segments sent again, that are noted at once. */
#define MOST_NOTED 16

/* Options, set by the loader before the programs are verified (src/controller.rs). */
struct rapid_options {
	/* For all connections; rapid_config_bound has the ranges. */
	struct rapid_config config;
	/* Whether a p-stream with lost packets yields an estimate. */
	hw_u32 bridges_holes;
};

const volatile struct rapid_options options SEC(".rodata.options") = {
	.config = RAPID_INITIAL_CONFIG(1000000000ULL, 1538),
	.bridges_holes = 1,
};

/* Totals over all connections since the programs were loaded (src/telemetry.rs has the same in Rust). */
struct rapid_counters {
	/* Connections that chose the controller; those closed since; those without memory for it,
	 * which became Reno. */
	hw_u64 connections;
	hw_u64 closed;
	hw_u64 without_memory;
	/* Segments that left as probes, and beside the schedule. */
	hw_u64 probes;
	hw_u64 beside;
	/* Streams that yielded an estimate, and complete ones that yielded none. */
	hw_u64 estimated;
	hw_u64 refused;
	/* Loss episodes, timeouts, and those that were spurious. */
	hw_u64 losses;
	hw_u64 timeouts;
	hw_u64 undone;
	/* Departures that were due while there was nothing to send. */
	hw_u64 empty;
	/* Packets in flight for which there was no slot. */
	hw_u64 forgotten;
	/* Connections whose receiver turned out to stamp in microseconds; those for which it turned out that
	 * it does not, or no longer. */
	hw_u64 stamped;
	hw_u64 unstamped;
	/* Times that a receiver's clock was moved. */
	hw_u64 moved;
	/* Connections whose receiver turned out to tell arrivals at its driver, and those whose option
	 * turned out not to. */
	hw_u64 by_driver;
	hw_u64 refused_options;
};

struct rapid_counters counters;

#define COUNT_BY(what, number) __sync_fetch_and_add(&counters.what, number)
#define COUNT(what) COUNT_BY(what, 1)

/* The option of arrival_option.bpf.h. */
struct rapid_option {
	/* The clock of its arrivals. */
	struct rapid_clock clock;
	/* Whether it is the one that counts; ACKs without it since the last one with it. */
	hw_u32 counts;
	hw_u32 missed;
	/* The arrival in the latest packet that had one, 0 if that was used; and what that
	 * packet acknowledged. */
	hw_u32 arrival;
	hw_u32 una;
};

struct rapid_connection {
	struct rapid rapid;
	struct rapid_config config;
	struct rapid_departures departures;
	struct rapid_flight flight;
	/* How far the packets in flight are known. */
	hw_u32 snd_nxt;
	hw_u32 retransmitted;
	/* When TCP last tried to send, in ns: new segments leave only then, or when they were due where gaps are
	 * filled. Whether the packet that is due leaves at that time. */
	hw_u64 attempted;
	hw_u32 leaving;
	/* Whether there was nothing to send after the latest departure. */
	hw_u32 idle;
	/* Loss episodes, and timeouts. */
	hw_u32 losses;
	hw_u32 timeouts;
	/* That of the receiver's timestamps. */
	struct rapid_clock clock;
	struct rapid_option option;
	struct rapid_gaps gaps;
	struct rapid_gaps scratch;
	struct rapid_sent ring[SLOTS];
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct rapid_connection);
} connections SEC(".maps");

#include "rapid_flows.bpf.h"

static __always_inline struct rapid_connection *rapid_of(struct sock *sk)
{
	return bpf_sk_storage_get(&connections, sk, 0, 0);
}

static __always_inline hw_u32 in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - tp->sacked_out - tp->lost_out + tp->retrans_out;
}

#include "rapid_stamps.bpf.h"

/* TCP makes the window smaller in several of its states, so it is set again in all of them (rapid 2.5). */
static __always_inline void rapid_set_window(struct sock *sk, const struct rapid_connection *c)
{
	struct tcp_sock *tp = tcp_sk(sk);
	/* 39 bits of rate, and 100 s of RTT at most: 27 bits of us. */
	const hw_u64 rtt = hw_min(tp->srtt_us >> 3, 100 * NSEC_PER_SEC / NSEC_PER_USEC);
	const hw_u64 packet = c->config.packet * (NSEC_PER_SEC / NSEC_PER_USEC);
	const hw_u64 least = 2 * rapid_packets(&c->config.shape);

	if (sk->sk_gso_max_segs > 1)
		/* A lost segment needs room beside a new one when the timer of the pace goes off. */
		tp->snd_cwnd = in_flight(tp) + 1 + (tp->lost_out > tp->retrans_out);
	else
		tp->snd_cwnd = hw_min(hw_max(WINDOW_BDPS * (c->config.line / 8 * rtt / packet), least), tp->snd_cwnd_clamp);
}

/* A segment that ends before `end` left. */
HW_FUNCTION hw_u32 rapid_add_sent(struct rapid_connection *c HW_NONNULL, hw_u32 end, hw_u32 flags, hw_u32 full, hw_u64 now)
{
	HW_GIVEN(c);
	struct rapid_sent sent = { .segment = end, .flags = (hw_u8)flags };

	if (c->leaving)
		sent = rapid_departures_take(&c->departures, end, (hw_u8)flags, full);
	c->leaving = 0;
	if (sent.flags & RAPID_PROBE)
		COUNT(probes);
	else
		COUNT(beside);
	if (rapid_flight_is_full(&c->flight, SLOTS))
		COUNT(forgotten);
	/* One that is late may have been due before something else left. */
	if (fills_gaps)
		now = hw_max(now, c->flight.last);
	rapid_flight_push(&c->flight, &c->ring[rapid_flight_end(&c->flight, SLOTS)], SLOTS, &sent, now);
	return 0;
}

/* Finds out what left since the last attempt to send: the segment that was due, or what TCP neither
 * paces nor asks about. */
static __always_inline void rapid_note(struct tcp_sock *tp, struct rapid_connection *c)
{
	/* Where gaps are filled, what TCP does not ask about follows the segment before it. */
	const hw_u64 now = fills_gaps ? c->attempted : tp->tcp_clock_cache;
	const hw_u32 una = tp->snd_una;
	const hw_u32 next = tp->snd_nxt;
	const hw_u32 mss = tp->mss_cache;
	hw_u32 again = tp->total_retrans - c->retransmitted;
	hw_u32 k;

	c->retransmitted += again;
	for (k = 0; k < MOST_NOTED && k < again; k++) {
		rapid_on_retransmission(&c->rapid);
		rapid_add_sent(c, una + 1, RAPID_RETRANSMISSION, 1, now);
	}
	for (k = 0; k < MOST_NOTED && hw_before(c->snd_nxt, next); k++) {
		const hw_u32 bytes = (hw_u32)hw_min(next - c->snd_nxt, mss);

		c->snd_nxt += bytes;
		if (fills_gaps && !c->leaving && c->departures.departed) {
			/* TCP did not ask: it takes its place in the schedule (gaps.bpf.h). */
			c->attempted = rapid_due(&c->departures, &c->rapid, &c->config, tp->tcp_clock_cache, 0);
			c->leaving = 1;
		}
		rapid_add_sent(c, c->snd_nxt, 0, bytes == mss, c->attempted);
	}
	c->snd_nxt = next;
	c->leaving = 0;
}

/* Settles the first packet in flight if its fate is known; returns whether it was. */
HW_FUNCTION hw_u32 rapid_settle(struct rapid_connection *c HW_NONNULL)
{
	HW_GIVEN(c);
	struct rapid_packet packet = {};

	if (!rapid_flight_take(&c->flight, &c->ring[rapid_flight_first(&c->flight, SLOTS)], &packet))
		return 0;
	rapid_on_packet(&c->rapid, &c->config, &c->gaps, &c->scratch, &packet);
	return 1;
}

/* Bytes of new data that the receive window admits. */
static __always_inline hw_u32 rapid_sendable(const struct tcp_sock *tp)
{
	const hw_u32 window = tp->snd_una + tp->snd_wnd;
	const hw_u32 end = hw_before(tp->write_seq, window) ? tp->write_seq : window;

	return hw_before(tp->snd_nxt, end) ? end - tp->snd_nxt : 0;
}

/*
 * Sets the pace so that TCP sends again when the packet after this one is due. TCP takes from the time that
 * the pace gives what the departure is late, at most half of it.
 */
static __always_inline void rapid_set_pace(struct sock *sk, const struct rapid_connection *c, hw_u64 now)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const struct rapid_stream *stream = &c->departures.stream;
	/* Gaps become shorter within a stream, so that of its last packet may do for the next one's first. */
	const hw_u32 next = (hw_u32)hw_min(c->departures.index + 1, rapid_packets(&stream->shape) - 1);
	const hw_u64 due = c->departures.due + rapid_gap(stream, next);
	const hw_u64 wait = due > now ? due - now : 1;
	const hw_u64 late = tp->tcp_wstamp_ns < now ? now - tp->tcp_wstamp_ns : 0;

	sk->sk_pacing_rate =
		hw_min(hw_max(tp->mss_cache * NSEC_PER_SEC / (wait + hw_min(late, wait)), 1), sk->sk_max_pacing_rate);
}

/* Decides whether the next packet leaves now. */
static __always_inline void rapid_plan(struct sock *sk, struct rapid_connection *c)
{
	struct tcp_sock *tp = tcp_sk(sk);
	const hw_u64 now = tp->tcp_clock_cache;
	const hw_u32 lost = tp->lost_out > tp->retrans_out ? tp->lost_out - tp->retrans_out : 0;
	const hw_u32 new = rapid_sendable(tp);
	hw_u64 gap;

	rapid_set_window(sk, c);
	if (!lost && !new) {
		c->idle = 1;
		return;
	}
	if (tp->tcp_wstamp_ns > now)
		return;
	rapid_due(&c->departures, &c->rapid, &c->config, now, c->idle);
	/* After a stall of this host the schedule is not caught up with, which would fill the buffer
	 * of the bottleneck. */
	gap = rapid_gap(&c->departures.stream, c->departures.index);
	if (c->departures.due + most_late(gap) < now)
		c->departures.due = now - gap;
	if (c->idle && c->departures.after_idle)
		COUNT(empty);
	c->leaving = 1;
	if (fills_gaps)
		c->attempted = c->departures.due;
	note_departure(sk, c->departures.due, rapid_gap(&c->departures.stream, c->departures.index));
	c->idle = lost ? lost == 1 && !new : new <= tp->mss_cache;
	rapid_set_pace(sk, c, now);
}

/* TCP asks this at each attempt to send, before it looks at its clock of departures. The first segments it
 * sends at once; they are no probes. */
SEC("struct_ops")
u32 BPF_PROG(hw_min_tso_segs, struct sock *sk)
{
	struct rapid_connection *c = rapid_of(sk);

	if (!c)
		return 1;
	rapid_note(tcp_sk(sk), c);
	c->attempted = tcp_sk(sk)->tcp_clock_cache;
	/* What is no probe is held up as long as probes are, or these would seem to meet a queue. */
	note_departure(sk, tcp_sk(sk)->data_segs_out < UNPACED ? c->attempted : 0, 0);
	if (tcp_sk(sk)->data_segs_out >= UNPACED)
		rapid_plan(sk, c);
	return 1;
}

/* Copies what the loader has set. An assignment would not do: the compiler takes the values
 * from above for it. */
static __always_inline void read_options(struct rapid_config *config)
{
	const volatile hw_u64 *from = (const volatile hw_u64 *)&options.config;
	hw_u64 *to = (hw_u64 *)config;
	hw_u32 k;

	_Static_assert(sizeof(*config) % sizeof(hw_u64) == 0, "the configuration consists of whole words");
	for (k = 0; k < sizeof(*config) / sizeof(hw_u64); k++)
		to[k] = from[k];
	asm volatile("" : : : "memory");
}

static __always_inline void rapid_become_reno(struct sock *sk)
{
	/* The one controller that every kernel has. */
	char fallback[] = "reno";

	COUNT(without_memory);
	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, fallback, sizeof(fallback));
}

SEC("struct_ops")
void BPF_PROG(hw_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct rapid_connection *c = bpf_sk_storage_get(&connections, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	hw_u64 rate;

	COUNT(connections);
	if (!c) {
		rapid_become_reno(sk);
		return;
	}
	/* The connection may have had this controller before. */
	__builtin_memset(&c->departures, 0, sizeof(c->departures));
	__builtin_memset(&c->flight, 0, sizeof(c->flight));
	__builtin_memset(&c->clock, 0, sizeof(c->clock));
	__builtin_memset(&c->option, 0, sizeof(c->option));
	c->leaving = 0;
	c->idle = 0;
	c->losses = 0;
	c->timeouts = 0;
	read_options(&c->config);
	rapid_config_bound(&c->config);
	c->flight.bridges_holes = options.bridges_holes;
	c->flight.una = tp->snd_una + 1;
	c->snd_nxt = tp->snd_nxt;
	c->retransmitted = tp->total_retrans;
	c->attempted = tp->tcp_clock_cache;
	rapid_init(&c->rapid, &c->config, (hw_u64)(tp->srtt_us >> 3) * NSEC_PER_USEC);
	rate = c->rapid.rate / 8 * tp->mss_cache / c->config.packet;
	sk->sk_pacing_rate = hw_min(hw_max(rate, 1), sk->sk_max_pacing_rate);
	/* The fq qdisc may set SK_PACING_FQ at any moment; it paces by the same rate. */
	__sync_val_compare_and_swap(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	rapid_set_window(sk, c);
	rapid_ask_for_options(sk);
}

SEC("struct_ops")
void BPF_PROG(hw_release, struct sock *sk)
{
	COUNT(closed);
	/* The next controller, if there is one, must not inherit the pacing rate. */
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
}

/* Which segment caused an ACK, and when it arrived. */
static __always_inline void rapid_read_ack(const struct tcp_sock *tp, struct rapid_connection *c,
					   const struct rate_sample *rs, struct rapid_ack *ack)
{
	const hw_u32 arrival = rapid_take_arrival(tp, c);

	ack->now = tp->tcp_clock_cache;
	ack->una = tp->snd_una + 1;
	/* Of those that it reports for the first time, the one sent last. */
	if (!rs->acked_sacked || !rs->prior_mstamp || rs->is_retrans)
		return;
	ack->arrived = 1;
	ack->segment = rs->last_end_seq;
	rapid_choose_clock(c, arrival);
	if (c->option.counts)
		rapid_stamp_by_option(tp, c, arrival, ack);
	else
		rapid_stamp_by_timestamp(tp, c, rs->is_ack_delayed, ack);
}

CONG_CONTROL(sk, rs)
{
	struct rapid_connection *c = rapid_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct rapid_ack ack = {};
	hw_u32 estimated, refused;
	int k;

	if (!c)
		return;
	rapid_note(tp, c);
	if (tp->srtt_us)
		rapid_on_rtt(&c->rapid, (hw_u64)(tp->srtt_us >> 3) * NSEC_PER_USEC);
	if (BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state) < TCP_CA_CWR)
		rapid_on_recovered(&c->rapid, &c->config);
	estimated = c->rapid.estimated;
	refused = c->rapid.refused;
	rapid_read_ack(tp, c, rs, &ack);
	rapid_flight_on_ack(&c->flight, &ack, c->config.unit);
	for (k = 0; k < MOST_SETTLED; k++) {
		if (!rapid_settle(c))
			break;
	}
	COUNT_BY(estimated, c->rapid.estimated - estimated);
	COUNT_BY(refused, c->rapid.refused - refused);
	rapid_set_window(sk, c);
}

SEC("struct_ops")
void BPF_PROG(hw_set_state, struct sock *sk, u8 state)
{
	struct rapid_connection *c = rapid_of(sk);

	if (!c)
		return;
	rapid_note(tcp_sk(sk), c);
	if (state == TCP_CA_Loss) {
		COUNT(timeouts);
		c->timeouts++;
		rapid_on_timeout(&c->rapid, &c->config);
	} else if (state >= TCP_CA_CWR) {
		COUNT(losses);
		c->losses++;
		/* If one acknowledgment ends an episode and begins another, both cut. */
		rapid_on_recovered(&c->rapid, &c->config);
		rapid_on_loss(&c->rapid, &c->config);
	}
	rapid_set_window(sk, c);
}

/* The window is no answer to losses, and there is no slow start. */
SEC("struct_ops")
u32 BPF_PROG(hw_ssthresh, struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

SEC("struct_ops")
u32 BPF_PROG(hw_undo_cwnd, struct sock *sk)
{
	struct rapid_connection *c = rapid_of(sk);

	if (c) {
		COUNT(undone);
		rapid_on_undo(&c->rapid);
		rapid_set_window(sk, c);
	}
	return tcp_sk(sk)->snd_cwnd;
}

SEC(".struct_ops.link")
struct tcp_congestion_ops rapid = {
	.init = (void *)hw_init,
	.release = (void *)hw_release,
	.cong_control = (void *)hw_cong_control,
	.set_state = (void *)hw_set_state,
	.ssthresh = (void *)hw_ssthresh,
	.undo_cwnd = (void *)hw_undo_cwnd,
	.min_tso_segs = (void *)hw_min_tso_segs,
	.name = "rapid",
};

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The controller: turns what the peer returned into window and pacing rate (xcp-rcp 2.2, 2.12).
 *
 * The arithmetic is in explicit_end.h. As cong_control is implemented, the kernel does not
 * change the window itself.
 */
#ifndef HEADWAY_END_CONTROL_BPF_H
#define HEADWAY_END_CONTROL_BPF_H

#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "end_header.bpf.h"
#include "socket.bpf.h"

#define AF_INET6 10
/* What a link adds to every IP packet, in bytes: preamble, header, checksum and gap of Ethernet.
 * Routers count it. */
#define LINK_BYTES 38
/* Window of a connection that becomes Reno before it has grown (RFC 6928). */
#define END_INITIAL_WINDOW 10
/* How often a sender asks whether its peer knows the header: an ACK can be lost. */
#define END_QUESTIONS 2
/* After this many timeouts in a row without a header from the peer, a box on the path drops them. */
#define END_SILENT_TIMEOUTS 3

static __always_inline struct end *end_of(struct sock *sk)
{
	return bpf_sk_storage_get(&ends, sk, 0, 0);
}

/* Bytes of a full segment on the wire. The largest segment of TCP includes its options. */
static __always_inline hw_u64 wire_segment(struct sock *sk, const struct end *end)
{
	struct tcp_sock *tp = tcp_sk(sk);
	hw_u32 ip = sk->__sk_common.skc_family == AF_INET6 ? 40 : 20;

	return tp->mss_cache + tp->tcp_header_len + ip + (end_uses_option(end) ? 0 : HEADER_BYTES) + LINK_BYTES;
}

/* Payload of a full segment. */
static __always_inline hw_u32 payload(struct tcp_sock *tp, const struct end *end)
{
	return end_uses_option(end) ? hw_max(tp->mss_cache, HEADER_BYTES + 1) - HEADER_BYTES : tp->mss_cache;
}

/* Sets the kernel's window and pacing rate. */
static __always_inline void apply(struct sock *sk, struct end *end)
{
	struct tcp_sock *tp = tcp_sk(sk);
	hw_u64 rate;

	if (!end->window.segment)
		return;
	tp->snd_cwnd = hw_min(explicit_window_whole(&end->window, VERSION, tp->data_segs_out), tp->snd_cwnd_clamp);
	rate = explicit_pacing_rate(VERSION, end->rate, &end->window, &end->rtt);
	if (!rate)
		return;
	/* The kernel's pacing counts payload, in bytes. */
	sk->sk_pacing_rate = hw_min(explicit_pace(&end->window, rate, payload(tp, end)), sk->sk_max_pacing_rate);
	/* The fq qdisc may set SK_PACING_FQ at any moment; it paces by the same rate. */
	__sync_val_compare_and_swap(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

/* Leaves the connection to the kernel's Reno. */
static __always_inline void yield(struct sock *sk, struct end *end, enum end_mode mode)
{
	/* The one controller that every kernel has. */
	char fallback[] = "reno";

	end->mode = mode;
	bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, fallback, sizeof(fallback));
}

/*
 * Has the kernel ask for the options of what leaves, or not any more, beside events that others want. It can
 * do so since Linux 6.12.
 */
static __always_inline void write_options(struct sock *sk, int on)
{
	int events = 0;

	if (bpf_getsockopt(sk, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &events, sizeof(events)))
		return;
	events = on ? events | EVENT_PARSE | EVENT_WRITE : events & ~EVENT_WRITE;
	bpf_setsockopt(sk, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &events, sizeof(events));
}

/* The same because no headers come back. */
static __always_inline void give_up(struct sock *sk, struct end *end)
{
	COUNT(without_peer);
	if (end_uses_option(end))
		write_options(sk, 0);
	yield(sk, end, END_PLAIN);
}

/* Sends an ACK with a header; data that leaves from now on must be acknowledged with one. */
static __always_inline void ask(struct sock *sk, struct end *end)
{
	struct tcp_sock *tp = tcp_sk(sk);

	end->questions--;
	end->asked_at = tp->snd_nxt;
	end->asking = 1;
	bpf_tcp_send_ack(tp, tp->rcv_nxt);
	end->asking = 0;
}

SEC("struct_ops")
void BPF_PROG(hw_init, struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct end *end = bpf_sk_storage_get(&ends, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
	char fallback[] = "reno";

	COUNT(connections);
	if (!end) {
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, fallback, sizeof(fallback));
		return;
	}
	if (options.carrier == END_OPTION)
		write_options(sk, 1);
	end->window.segment = wire_segment(sk, end);
	/* A connection begins with one segment; another controller may have had it before. */
	explicit_window_set(&end->window, tp->data_segs_out ? (tp->snd_cwnd * end->window.segment) << EXPLICIT_WINDOW_BITS : 0);
	end->prior = end->window.bytes;
	end->window.carry = 0;
	end->rtt.smoothed = (hw_u64)(tp->srtt_us >> 3) * NSEC_PER_USEC;
	end->rtt.latest = end->rtt.smoothed;
	end->request.remainder = 0;
	end->mode = end->heard ? END_SENDS : END_ASKS;
	end->questions = END_QUESTIONS;
	end->asked_at = tp->snd_nxt;
	end->silent_timeouts = 0;
	end->unlowered = 0;
	end->headers_heard = end->headers;
	end->headers_at_timeout = end->headers;
	apply(sk, end);
}

SEC("struct_ops")
void BPF_PROG(hw_release, struct sock *sk)
{
	COUNT(closed);
	/* The next controller, if there is one, must not inherit the pacing rate. */
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
}

/*
 * Whether the peer knows the header: 1 yes, 0 not known yet, -1 no. Where data that left after its last
 * header is acknowledged without one, it is asked; it does not know the header if that happens after
 * the last question, too.
 */
static __always_inline int is_answered(struct sock *sk, struct end *end)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (end->headers != end->headers_heard) {
		end->headers_heard = end->headers;
		end->asked_at = tp->snd_nxt;
		end->mode = END_SENDS;
		end->questions = END_QUESTIONS;
		return 1;
	}
	/* SACK blocks may leave no room for an option. */
	if (end->mode == END_SENDS && tp->sacked_out && end_uses_option(end))
		end->asked_at = tp->snd_nxt;
	if (!hw_before(end->asked_at, tp->snd_una))
		return end->mode == END_SENDS;
	if (!end->questions)
		return -1;
	ask(sk, end);
	return 0;
}

/* Smooths the RTT of the newest acknowledged segment, unless its ACK waited. */
static __always_inline void sample_rtt(struct tcp_sock *tp, struct end *end, const struct rate_sample *rs)
{
	const hw_u64 gap = explicit_spacing(end->window.segment, end_rate(end));
	const hw_u64 rtt = hw_max(rs->rtt_us, 1) * NSEC_PER_USEC;

	if (rs->rtt_us < 0 || rs->is_ack_delayed ||
	    (rs->acked_sacked == 1 && explicit_has_waited(gap, rtt, tp->rtt_min.s[0].v * NSEC_PER_USEC)))
		return;
	explicit_rtt_sample(&end->rtt, rtt);
}

/* Applies what the peer returned; returns whether no router had lowered what the sender asked for. */
static __always_inline int adopt(struct end *end)
{
	hw_s64 change;

	if (VERSION == EXPLICIT_VERSION_RCP) {
		if (end->rate == EXPLICIT_ANY_RATE)
			return 1;
		end->unlowered = 0;
		explicit_window_rate(&end->window, end->rate, end->rtt.smoothed);
		return 0;
	}
	change = explicit_delta(__sync_lock_test_and_set(&end->change, 0));
	if (change == EXPLICIT_LARGEST_DELTA)
		return 1;
	if (change)
		end->unlowered = 0;
	/* A window that the application does not fill must not grow (RFC 7661). */
	if (change < 0 || !end->app_limited)
		explicit_window_change(&end->window, change, end->rtt.smoothed);
	return 0;
}

/*
 * Whether no router lowers what this sender asks for, for one round trip: a packet that waits in a router
 * while its law changes leaves as it came.
 */
static __always_inline int is_without_router(struct tcp_sock *tp, struct end *end)
{
	if (!end->unlowered) {
		end->unlowered = 1;
		end->unlowered_at = tp->snd_nxt;
	}
	return hw_before(end->unlowered_at, tp->snd_una);
}

CONG_CONTROL(sk, rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct end *end = end_of(sk);
	int answered;

	if (!end || !end->window.segment)
		return;
	end->window.segment = wire_segment(sk, end);
	sample_rtt(tp, end, rs);
	end->app_limited = tp->app_limited != 0;
	answered = is_answered(sk, end);
	if (answered < 0) {
		tp->snd_cwnd = hw_max(tp->snd_cwnd, END_INITIAL_WINDOW);
		give_up(sk, end);
		return;
	}
	if (!answered)
		return;
	if (!adopt(end)) {
		apply(sk, end);
	} else if (is_without_router(tp, end)) {
		COUNT(without_router);
		yield(sk, end, END_RECEIVES);
	}
}

/* The rate of RCP is whatever routers say; the window of XCP is halved, and feedback goes on (2.2). */
static __always_inline void on_recovery(struct sock *sk, struct end *end)
{
	if (VERSION == EXPLICIT_VERSION_RCP)
		return;
	COUNT(loss_cuts);
	if (options.yields) {
		COUNT(yielded);
		yield(sk, end, END_RECEIVES);
		return;
	}
	end->prior = end->window.bytes;
	explicit_window_set(&end->window, end->window.bytes / 2);
	apply(sk, end);
}

static __always_inline void on_timeout(struct sock *sk, struct end *end)
{
	COUNT(timeouts);
	end->silent_timeouts = end->headers == end->headers_at_timeout ? end->silent_timeouts + 1 : 1;
	end->headers_at_timeout = end->headers;
	if (end->mode == END_SENDS && end->silent_timeouts >= END_SILENT_TIMEOUTS) {
		give_up(sk, end);
		return;
	}
	if (VERSION == EXPLICIT_VERSION_XCP && options.yields) {
		COUNT(yielded);
		yield(sk, end, END_RECEIVES);
		return;
	}
	/* The rate of RCP that was heard is out of date; the next header says it again. */
	end->rate = 0;
	end->prior = VERSION == EXPLICIT_VERSION_XCP ? end->window.bytes : 0;
	explicit_window_set(&end->window, 0);
	apply(sk, end);
}

SEC("struct_ops")
void BPF_PROG(hw_set_state, struct sock *sk, u8 state)
{
	struct end *end = end_of(sk);

	if (!end || !end->window.segment)
		return;
	if (state == TCP_CA_Recovery)
		on_recovery(sk, end);
	else if (state == TCP_CA_Loss)
		on_timeout(sk, end);
}

/* There is no slow start, and reductions happen above, except that of Reno, which losses make
 * the next controller. */
SEC("struct_ops")
u32 BPF_PROG(hw_ssthresh, struct sock *sk)
{
	hw_u32 window = tcp_sk(sk)->snd_cwnd;

	if (VERSION == EXPLICIT_VERSION_XCP && options.yields)
		window /= 2;
	return hw_max(window, EXPLICIT_LEAST_WHOLE);
}

SEC("struct_ops")
u32 BPF_PROG(hw_undo_cwnd, struct sock *sk)
{
	struct end *end = end_of(sk);

	if (end && end->window.segment && end->prior > end->window.bytes) {
		explicit_window_set(&end->window, end->prior);
		apply(sk, end);
	}
	return tcp_sk(sk)->snd_cwnd;
}

SEC("struct_ops")
void BPF_PROG(hw_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct end *end = end_of(sk);

	if (event != CA_EVENT_TX_START || !end || !end->window.segment)
		return;
	if (end->mode == END_ASKS && end->questions == END_QUESTIONS)
		ask(sk, end);
	/* Idle for longer than an RTO */
	if ((s32)((u32)bpf_jiffies64() - tcp_sk(sk)->lsndtime) <= (s32)inet_csk(sk)->icsk_rto ||
	    !explicit_window_restart(&end->window, VERSION))
		return;
	end->rate = 0;
	apply(sk, end);
}

#define END_CONTROLLER(identifier)                          \
	SEC(".struct_ops.link")                             \
	struct tcp_congestion_ops identifier = {            \
		.init = (void *)hw_init,                    \
		.release = (void *)hw_release,              \
		.cong_control = (void *)hw_cong_control,    \
		.set_state = (void *)hw_set_state,          \
		.cwnd_event = (void *)hw_cwnd_event,        \
		.ssthresh = (void *)hw_ssthresh,            \
		.undo_cwnd = (void *)hw_undo_cwnd,          \
		.name = #identifier,                        \
	}

#endif

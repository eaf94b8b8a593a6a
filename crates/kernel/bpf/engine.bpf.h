/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The engine shared by all controllers: everything but the algorithm.
 *
 * An algorithm (ls.bpf.h, aimd.bpf.h) computes the window. The engine passes it events and applies its
 * results in the kernel:
 *
 *	ACK ------------->  cong_control --> algorithm_on_ack -------+
 *	losses ---------->  set_state -----> algorithm_on_loss ------+--> apply: snd_cwnd, snd_ssthresh, sk_pacing_rate
 *	timeout --------->  set_state -----> algorithm_on_timeout ---+
 *	spurious cut ---->  undo_cwnd -----> algorithm_undo ---------+
 *
 * Because cong_control is implemented, the kernel does not change the window itself, not even in the states
 * CWR and Recovery. Rounds are the algorithm's own (ls-aimd 2.12): with the kernel's CWR state a sender of
 * one segment per round would ignore every second mark.
 *
 * min_tso_segs is not implemented. The kernel puts at most half a window into one buffer, which for windows
 * of two or three segments is one segment. It also trusts min_tso_segs blindly: where pacing rate and RTT ask
 * for less than a segment per buffer, a single zero makes it split off a buffer of zero bytes, which the
 * receiver never acknowledges, so the connection stalls for good (tests/bpf/zero.bpf.c).
 */
#ifndef HEADWAY_ENGINE_BPF_H
#define HEADWAY_ENGINE_BPF_H

#include <bpf/bpf_tracing.h>
#include <bpf/bpf_core_read.h>

#include "socket.bpf.h"
#include "intf.h"

/* No pacing, and no maximum rate set by the user. */
#define UNPACED (~0UL)
/* Requests ECN in the handshake whatever net.ipv4.tcp_ecn says, and makes all segments ECN-capable, including
 * the SYN. */
#define TCP_CONG_NEEDS_ECN 2
/* Bits of ecn_flags: classic (RFC 3168) or accurate ECN was negotiated; the next new segment carries CWR. */
#define TCP_ECN_MODE_RFC3168 1
#define TCP_ECN_MODE_ACCECN 16
#define TCP_ECN_QUEUE_CWR 2
/* Shortest delayed-ACK timer of a receiver that waits for a second segment, in us. */
#define DELAYED_ACK_US 40000

struct hw_counters counters;

#define COUNT(what, n) __sync_fetch_and_add(&counters.what, n)

/* State of a connection; the kernel has 104 bytes for it. */
struct connection {
	struct algorithm algorithm;
	/* Segments the peer had reported as marked by the last ACK. */
	u32 delivered_ce;
	/* Receiver state: whether the last segment was marked, and the next sequence number
	 * expected after it. */
	u32 ce;
	u32 rcv_nxt;
	/* Whether the last reduction was for a loss or timeout and may turn out to be spurious. */
	u32 undoable;
};

_Static_assert(sizeof(struct connection) <= sizeof(((struct inet_connection_sock *)0)->icsk_ca_priv),
	       "the kernel gives a congestion control 104 bytes");

static __always_inline struct connection *connection(struct sock *sk)
{
	return (struct connection *)inet_csk(sk)->icsk_ca_priv;
}

/* Whether hw_init has run: the kernel reports the ACK of a SYN before it. */
static __always_inline int initialised(struct sock *sk)
{
	return algorithm_mss(&connection(sk)->algorithm) != 0;
}

/* The rate in bytes per second that sends one segment every `gap` ns: the kernel's pacing counts payload
 * (ls-aimd 6.4). */
static __always_inline unsigned long rate_of_gap(u32 mss, u64 gap)
{
	return hw_max(mss * NSEC_PER_SEC / gap, 1);
}

/* Sets the kernel's window, and the pacing rate while the algorithm paces. */
static __always_inline void apply(struct sock *sk)
{
	struct algorithm *algorithm = &connection(sk)->algorithm;
	struct tcp_sock *tp = tcp_sk(sk);
	u64 gap = algorithm_gap(algorithm);

	tp->snd_cwnd = hw_min(algorithm_cwnd(algorithm), tp->snd_cwnd_clamp);
	tp->snd_ssthresh = algorithm_ssthresh(algorithm);
	if (gap) {
		sk->sk_pacing_rate = hw_min(rate_of_gap(algorithm_mss(algorithm), gap), sk->sk_max_pacing_rate);
		/* The fq qdisc may set SK_PACING_FQ at any moment; it paces by the same rate. */
		__sync_val_compare_and_swap(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
		return;
	}
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
	/* A paced socket is exempt from tcp_limit_output_bytes (TCP small queues); an
	 * ACK-clocked one must not be. */
	if (sk->sk_pacing_rate == UNPACED)
		__sync_val_compare_and_swap(&sk->sk_pacing_status, SK_PACING_NEEDED, SK_PACING_NONE);
}

/* Whether the connection is limited by the window and not by the application (RFC 7661). */
static __always_inline u32 cwnd_limited(struct tcp_sock *tp, const struct algorithm *algorithm, const struct rate_sample *rs)
{
	/* With pacing, fewer segments than the window are in flight even if the sender always has data. */
	if (algorithm_submss(algorithm))
		return !rs->is_app_limited;
	if (BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited))
		return 1;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

/*
 * RTT of the newest acknowledged segment in ns; zero if there is no sample (ls-aimd 2.5).
 *
 * The kernel suspects a delayed ACK only after a segment that is not full. When full segments are paced
 * further apart than the receiver's delayed-ACK timer, every sample includes that timer, and the sender would
 * slow down more and more.
 */
static __always_inline u64 rtt_sample(struct tcp_sock *tp, const struct algorithm *algorithm, const struct rate_sample *rs)
{
	long rtt = rs->rtt_us;

	if (rtt < 0 || rs->is_ack_delayed)
		return 0;
	if (algorithm_submss(algorithm) && rs->acked_sacked == 1 && rtt >= (long)tp->rtt_min.s[0].v + DELAYED_ACK_US)
		return 0;
	return hw_max(rtt, 1) * NSEC_PER_USEC;
}

#include "telemetry.bpf.h"

SEC("struct_ops")
void BPF_PROG(hw_init, struct sock *sk)
{
	struct connection *c = connection(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	/* The one controller that every kernel has. */
	char fallback[] = "reno";

	/*
	 * With TCP_CONG_NEEDS_ECN segments are ECN-capable even if the peer does not support ECN. Queues
	 * would then mark them instead of dropping them, and the sender would never learn of the marks.
	 */
	if (FLAGS & TCP_CONG_NEEDS_ECN && !(tp->ecn_flags & (TCP_ECN_MODE_RFC3168 | TCP_ECN_MODE_ACCECN))) {
		COUNT(fallbacks_to_reno, 1);
		bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, fallback, sizeof(fallback));
		return;
	}
	COUNT(connections, 1);
	algorithm_init(&c->algorithm, tp->snd_cwnd, tp->snd_ssthresh, tp->mss_cache, tp->snd_nxt);
	c->delivered_ce = tp->delivered_ce;
	c->ce = 0;
	c->rcv_nxt = tp->rcv_nxt;
	c->undoable = 0;
	apply(sk);
}

SEC("struct_ops")
void BPF_PROG(hw_release, struct sock *sk)
{
	COUNT(closed, 1);
	/* The next controller, if there is one, must not inherit the pacing rate. */
	sk->sk_pacing_rate = sk->sk_max_pacing_rate;
}

CONG_CONTROL(sk, rs)
{
	struct connection *c = connection(sk);
	struct algorithm *algorithm = &c->algorithm;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 submss = algorithm_submss(algorithm);
	struct ls_ack ack = {
		.una = tp->snd_una,
		.next = tp->snd_nxt,
		.acked = rs->acked_sacked,
		.marked = hw_min(tp->delivered_ce - c->delivered_ce, rs->acked_sacked),
		.in_flight = rs->prior_in_flight,
		.cwnd_limited = cwnd_limited(tp, algorithm, rs),
		.in_recovery = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state) == TCP_CA_Recovery,
		.rtt = rtt_sample(tp, algorithm, rs),
	};

	if (!initialised(sk))
		return;
	c->delivered_ce = tp->delivered_ce;
	if (tp->mss_cache != algorithm_mss(algorithm))
		algorithm_set_mss(algorithm, tp->mss_cache);
	if (algorithm_on_ack(algorithm, &ack)) {
		COUNT(mark_cuts, 1);
		c->undoable = 0;
		/* The kernel sets this when it enters its own CWR state, which is not when the
		 * window is cut here. */
		if (tp->ecn_flags & TCP_ECN_MODE_RFC3168)
			tp->ecn_flags |= TCP_ECN_QUEUE_CWR;
	}
	if (ack.marked)
		COUNT(marked, ack.marked);
	if (!submss && algorithm_submss(algorithm))
		COUNT(below_delta, 1);
	apply(sk);
	record(sk, &ack);
}

SEC("struct_ops")
void BPF_PROG(hw_set_state, struct sock *sk, u8 state)
{
	struct connection *c = connection(sk);
	struct algorithm *algorithm = &c->algorithm;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cut;

	if (!initialised(sk))
		return;
	if (state == TCP_CA_Recovery) {
		cut = algorithm_on_loss(algorithm, tp->packets_out, tp->snd_una, tp->snd_nxt);
		COUNT(loss_cuts, cut);
	} else if (state == TCP_CA_Loss) {
		cut = algorithm_on_timeout(algorithm, tp->snd_una, tp->snd_nxt);
		COUNT(timeouts, 1);
	} else {
		return;
	}
	c->undoable |= cut;
	apply(sk);
}

/* The kernel asks for ssthresh when it enters one of its own states; the reduction itself happens above. */
SEC("struct_ops")
u32 BPF_PROG(hw_ssthresh, struct sock *sk)
{
	return initialised(sk) ? algorithm_ssthresh(&connection(sk)->algorithm) : tcp_sk(sk)->snd_ssthresh;
}

SEC("struct_ops")
u32 BPF_PROG(hw_undo_cwnd, struct sock *sk)
{
	struct connection *c = connection(sk);

	if (c->undoable) {
		COUNT(spurious_undone, 1);
		c->undoable = 0;
		algorithm_undo(&c->algorithm);
		apply(sk);
	}
	return tcp_sk(sk)->snd_cwnd;
}

/* After an idle period longer than an RTO the state of the path is unknown (RFC 5681 4.1). */
static __always_inline void after_idle(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	s32 idle = (s32)((u32)bpf_jiffies64() - tp->lsndtime);

	if (!initialised(sk) || idle <= (s32)inet_csk(sk)->icsk_rto)
		return;
	algorithm_restart(&connection(sk)->algorithm);
	apply(sk);
}

#endif

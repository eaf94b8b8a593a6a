/* SPDX-License-Identifier: GPL-2.0 */
/* What LS-AIMD needs of a connection of Linux, for a congestion control and for the engine of all others. */
#ifndef HEADWAY_LS_SOCKET_H
#define HEADWAY_LS_SOCKET_H

#include <linux/module.h>
#include <net/tcp.h>

#include "ls_aimd.h"

/* Pending departures that an ack moved, earlier and later; a few are missed if processors count at the same time. */
static unsigned long moved[2];
module_param_array(moved, ulong, NULL, 0444);
MODULE_PARM_DESC(moved, "pending departures moved earlier, and moved later");

/*
 * A receiver holds an acknowledgment back for this long at least when it waits
 * for a second segment.
 */
#define DELAYED_ACK_US (40 * USEC_PER_MSEC)

/* Departure time of the segment sent last */
static u64 ls_last_departure(struct sock *sk, long rtt_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct sk_buff *skb = tcp_rtx_queue_tail(sk);

	if (skb)
		return skb->skb_mstamp_ns;
	/* Everything is acknowledged, so the ACK's RTT is that of this segment. */
	return tp->tcp_clock_cache - (u64)max(rtt_us, 0L) * NSEC_PER_USEC;
}

/* Moves the pending departure by the pace of now; TCP rearms its timer when it tries to send, right after the ACK (2.4). */
static void ls_move_departure(struct sock *sk, const struct ls_state *ls, const struct rate_sample *rs)
{
	u64 at = ls_last_departure(sk, rs->rtt_us) + ls_gap(ls, ls->mss);
	struct tcp_sock *tp = tcp_sk(sk);

	if (tp->tcp_wstamp_ns > tp->tcp_clock_cache && at != tp->tcp_wstamp_ns)
		moved[at > tp->tcp_wstamp_ns]++;
	tp->tcp_wstamp_ns = at;
	if (hrtimer_is_queued(&tp->pacing_timer) &&
	    hrtimer_try_to_cancel(&tp->pacing_timer) == 1)
		__sock_put(sk);
}

/* Paces segments a gap apart, or leaves that to acknowledgments with a gap of zero. */
static void ls_pace(struct sock *sk, u32 mss, u64 gap)
{
	if (gap) {
		u64 rate = max_t(u64, div64_u64((u64)mss * NSEC_PER_SEC, gap), 1);

		WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
		return;
	}
	WRITE_ONCE(sk->sk_pacing_rate, READ_ONCE(sk->sk_max_pacing_rate));
	if (sk->sk_pacing_rate == ~0UL)
		cmpxchg(&sk->sk_pacing_status, SK_PACING_NEEDED, SK_PACING_NONE);
}

/* Round-trip time of the newest segment, ns; 0 if the receiver's timer is in it (2.5) */
static u64 ls_rtt_sample(const struct sock *sk, const struct ls_state *ls, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (rs->rtt_us < 0 || rs->is_ack_delayed)
		return 0;
	if (ls->submss && rs->acked_sacked == 1 &&
	    rs->rtt_us >= (long)tcp_min_rtt(tp) + (long)DELAYED_ACK_US)
		return 0;
	return (u64)max(rs->rtt_us, 1L) * NSEC_PER_USEC;
}

/* Whether the window, and not the application, limits the connection */
static u32 ls_limited(const struct sock *sk, const struct ls_state *ls, const struct rate_sample *rs)
{
	/* While segments are paced, less than a window is in flight even if there is always data to send. */
	return ls->submss ? !rs->is_app_limited : tcp_is_cwnd_limited(sk);
}

#endif

// SPDX-License-Identifier: GPL-2.0
/*
 * LS-AIMD Reno and DCTCP: windows down to bytes, with the packet conservation
 * clock as published.
 *
 * The arithmetic is in ls_aimd.h. Unlike a BPF program, a module can move the
 * pending departure, earlier or later, with every ACK, and need not catch up
 * after a late departure.
 *
 * A connection reads the module parameters when it is given the controller, and
 * keeps these values.
 */
#include <linux/inet_diag.h>
#include <linux/version.h>

#include "ls_socket.h"

static unsigned int scale;
module_param(scale, uint, 0644);
MODULE_PARM_DESC(scale, "scale C of the increase in units of 2^-16, 0 to follow the marks");

static unsigned int delta = 2;
module_param(delta, uint, 0644);
MODULE_PARM_DESC(delta, "segments for which the receiver may send one acknowledgment, 1 to 16");

static unsigned int after_cut;
module_param(after_cut, uint, 0644);
MODULE_PARM_DESC(after_cut, "weigh the increase by the window after the cut");

static unsigned int least = LS_FLOOR;
module_param(least, uint, 0644);
MODULE_PARM_DESC(least, "least window in bytes");

/* The state of a connection, at most ICSK_CA_PRIV_SIZE bytes */
struct ls_connection {
	struct ls_state ls;
	u32 scale;
	/* Segments the peer had reported as marked after the last ack */
	u32 delivered_ce;
	/* As a receiver: what was expected after the last change of marks */
	u32 rcv_nxt;
	u8 ce;
	u8 delta;
	u8 after_cut;
	u8 undoable;
};

static struct tcp_congestion_ops ls_dctcp_ops;

static struct ls_config ls_config_of(const struct sock *sk)
{
	const struct ls_connection *c = inet_csk_ca(sk);
	const struct tcp_congestion_ops *ops = READ_ONCE(inet_csk(sk)->icsk_ca_ops);

	return (struct ls_config){
		.algorithm = ops == &ls_dctcp_ops ? LS_DCTCP : LS_RENO,
		.delta = c->delta,
		.scale = c->scale,
		.floor = clamp(READ_ONCE(least), 1U, 65536U),
		.after_cut = c->after_cut,
	};
}

/* In segments; at least two, as TCP uses it */
static u32 ls_ssthresh_segments(const struct ls_state *ls)
{
	if (ls->ssthresh == LS_UNLIMITED)
		return TCP_INFINITE_SSTHRESH;
	return max_t(u64, ls->ssthresh / ((u64)ls->mss << HW_Q9), 2);
}

/* Tells TCP the window, and the pace while the clock is on */
static void ls_apply(struct sock *sk)
{
	const struct ls_connection *c = inet_csk_ca(sk);
	struct ls_config config = ls_config_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u64 gap = c->ls.submss ? ls_gap(&c->ls, c->ls.mss) : 0;

	tcp_snd_cwnd_set(tp, min(ls_cwnd(&c->ls, &config), tp->snd_cwnd_clamp));
	tp->snd_ssthresh = ls_ssthresh_segments(&c->ls);
	ls_pace(sk, c->ls.mss, gap);
}

static void ls_start(struct sock *sk)
{
	struct ls_connection *c = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct ls_config config;

	memset(c, 0, sizeof(*c));
	c->scale = min(READ_ONCE(scale), LS_SCALE_ONE);
	c->delta = clamp(READ_ONCE(delta), 1U, 16U);
	c->after_cut = !!READ_ONCE(after_cut);
	c->delivered_ce = tp->delivered_ce;
	c->rcv_nxt = tp->rcv_nxt;
	config = ls_config_of(sk);
	ls_init(&c->ls, &config, tcp_snd_cwnd(tp), tp->mss_cache, tp->snd_nxt);
	if (tp->snd_ssthresh < TCP_INFINITE_SSTHRESH)
		ls_set_ssthresh(&c->ls, &config, ((u64)tp->snd_ssthresh * tp->mss_cache) << HW_Q9);
	ls_apply(sk);
}

/*
 * Called for each acknowledgment, in every state, once TCP has digested it. That
 * of a client's SYN comes before ls_start(): the state is still all zeros.
 */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 10, 0)
static void ls_cong_control(struct sock *sk, u32 una, int flag,
			    const struct rate_sample *rs)
#else
static void ls_cong_control(struct sock *sk, const struct rate_sample *rs)
#endif
{
	struct ls_connection *c = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct ls_config config;
	struct ls_ack ack;

	if (!inet_csk(sk)->icsk_ca_initialized)
		return;
	/*
	 * A controller chosen before the SYN-ACK makes segments ECN-capable even if
	 * the peer then does not negotiate ECN, perhaps because the first SYN was
	 * lost. Their marks would replace drops but would not be echoed.
	 */
	if (!(tp->ecn_flags & TCP_ECN_OK))
		INET_ECN_dontxmit(sk);
	config = ls_config_of(sk);
	ack = (struct ls_ack){
		.una = tp->snd_una,
		.next = tp->snd_nxt,
		.acked = rs->acked_sacked,
		.marked = min_t(u32, tp->delivered_ce - c->delivered_ce, rs->acked_sacked),
		.in_flight = rs->prior_in_flight,
		.cwnd_limited = ls_limited(sk, &c->ls, rs),
		.in_recovery = inet_csk(sk)->icsk_ca_state == TCP_CA_Recovery,
		.rtt = ls_rtt_sample(sk, &c->ls, rs),
	};
	c->delivered_ce = tp->delivered_ce;
	if (tp->mss_cache != c->ls.mss)
		ls_set_mss(&c->ls, &config, tp->mss_cache);
	if (ls_on_ack(&c->ls, &config, &ack)) {
		c->undoable = 0;
		/* TCP sets this itself only on entering its CWR state, which is not when we reduce. */
		if (tp->ecn_flags & TCP_ECN_OK)
			tp->ecn_flags |= TCP_ECN_QUEUE_CWR;
	}
	ls_apply(sk);
	if (c->ls.submss && c->ls.rtt)
		ls_move_departure(sk, &c->ls, rs);
}

static void ls_set_state(struct sock *sk, u8 state)
{
	struct ls_connection *c = inet_csk_ca(sk);
	struct ls_config config = ls_config_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (!c->ls.mss)
		return;
	if (state == TCP_CA_Recovery)
		c->undoable |= ls_on_loss(&c->ls, &config, tp->packets_out, tp->snd_una, tp->snd_nxt);
	else if (state == TCP_CA_Loss)
		c->undoable |= ls_on_timeout(&c->ls, &config, tp->snd_una, tp->snd_nxt);
	else
		return;
	ls_apply(sk);
}

/* TCP asks when it enters one of its states; reductions happen above. */
static u32 ls_ssthresh(struct sock *sk)
{
	const struct ls_connection *c = inet_csk_ca(sk);

	return c->ls.mss ? ls_ssthresh_segments(&c->ls) : tcp_sk(sk)->snd_ssthresh;
}

static u32 ls_undo_cwnd(struct sock *sk)
{
	struct ls_connection *c = inet_csk_ca(sk);
	struct ls_config config = ls_config_of(sk);

	if (c->undoable) {
		c->undoable = 0;
		ls_undo(&c->ls, &config);
		ls_apply(sk);
	}
	return tcp_snd_cwnd(tcp_sk(sk));
}

/*
 * The receiver's side of DCTCP: an ACK covers either marked segments only or
 * unmarked ones only (RFC 8257 3.2).
 */
static void ls_echo(struct sock *sk, enum tcp_ca_event event)
{
	struct ls_connection *c = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	bool ce = event == CA_EVENT_ECN_IS_CE;

	if (event != CA_EVENT_ECN_IS_CE && event != CA_EVENT_ECN_NO_CE)
		return;
	if (c->ce != ce) {
		/* ACK the segments before the change with their own echo. */
		if (inet_csk(sk)->icsk_ack.pending & ICSK_ACK_TIMER) {
			if (c->ce)
				tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
			else
				tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 12, 0)
			__tcp_send_ack(sk, c->rcv_nxt, 0);
#else
			__tcp_send_ack(sk, c->rcv_nxt);
#endif
		}
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	c->rcv_nxt = tp->rcv_nxt;
	c->ce = ce;
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/* Single segments while the clock is on; TCP builds bursts on any device. */
static u32 ls_min_tso_segs(struct sock *sk)
{
	const struct ls_connection *c = inet_csk_ca(sk);

	return c->ls.submss ? 1 : 2;
}

/* For getsockopt(TCP_CC_INFO) only: ss would take these words for those of another controller. */
static size_t ls_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct ls_connection *c = inet_csk_ca(sk);

	BUILD_BUG_ON(sizeof(struct ls_report) > sizeof(*info));
	if (ext != ~0U || !c->ls.mss)
		return 0;
	ls_tell(&c->ls, (struct ls_report *)info);
	return sizeof(struct ls_report);
}

#define CONTROLLER(title, ecn, event)                           \
	{                                                       \
		.name = title,                                  \
		.owner = THIS_MODULE,                           \
		.flags = (ecn) | TCP_CONG_NON_RESTRICTED,       \
		.init = ls_start,                               \
		.cong_control = ls_cong_control,                \
		.set_state = ls_set_state,                      \
		.ssthresh = ls_ssthresh,                        \
		.undo_cwnd = ls_undo_cwnd,                      \
		.cwnd_event = event,                            \
		.min_tso_segs = ls_min_tso_segs,                \
		.get_info = ls_get_info,                        \
	}

static struct tcp_congestion_ops ls_dctcp_ops __read_mostly = CONTROLLER("ls_dctcp", TCP_CONG_NEEDS_ECN, ls_echo);
static struct tcp_congestion_ops ls_reno_ops __read_mostly = CONTROLLER("ls_reno", 0, NULL);

static int __init ls_register(void)
{
	int error;

	BUILD_BUG_ON(sizeof(struct ls_connection) > ICSK_CA_PRIV_SIZE);
	error = tcp_register_congestion_control(&ls_dctcp_ops);
	if (error)
		return error;
	error = tcp_register_congestion_control(&ls_reno_ops);
	if (error)
		tcp_unregister_congestion_control(&ls_dctcp_ops);
	return error;
}

static void __exit ls_unregister(void)
{
	tcp_unregister_congestion_control(&ls_reno_ops);
	tcp_unregister_congestion_control(&ls_dctcp_ops);
}

module_init(ls_register);
module_exit(ls_unregister);
MODULE_DESCRIPTION("LS-AIMD Reno and DCTCP with the packet conservation clock");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0
/*
 * A window in bytes for any congestion control: the engine behind the hooks of
 * headway.patch.
 *
 * Above two segments TCP and its congestion control do what they always do. A
 * reduction that would go below is made in bytes, and from then on this engine
 * keeps the window (ls_aimd.h): it paces single segments, moves the pending
 * departure with each ack, and grows the window by what the congestion control
 * says for its ssthresh (additive_increase, else a segment). How far a mark
 * reduces it, the congestion control says as well: its ssthresh() is asked at a
 * window many times larger, so that its floor of two segments does not matter.
 *
 * A connection has it if `on` says so when it gets its congestion control. The
 * module cannot be removed.
 */
#include <linux/inet_diag.h>

#include "ls_socket.h"

static unsigned int on;
module_param(on, uint, 0644);
MODULE_PARM_DESC(on, "which connections get a window in bytes from now on: 0 none, 1 all, 2 only the next");

static unsigned int scale;
module_param(scale, uint, 0644);
MODULE_PARM_DESC(scale, "scale C of the increase in units of 2^-16, 0 to follow the marks");

#define DELTA 2
/* Parts of a segment in which ssthresh() is asked: 2^17 for two segments times 1024, as in DCTCP, fit 32 bits. */
#define PARTS_LOG2 16

/* The state of a connection, in tcp_sock.fraction */
struct fraction {
	struct ls_state ls;
	u32 scale;
	u32 delivered_ce;
	bool on;
};

static struct fraction *fraction_of(struct sock *sk)
{
	return (struct fraction *)tcp_sk(sk)->fraction;
}

static struct ls_config config_of(struct sock *sk)
{
	return (struct ls_config){
		.algorithm = tcp_ca_needs_ecn(sk) ? LS_DCTCP : LS_RENO,
		.delta = DELTA,
		.scale = fraction_of(sk)->scale,
		.floor = LS_FLOOR,
	};
}

static void notify(struct sock *sk, bool below)
{
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;

	tcp_sk(sk)->fraction_below = below;
	if (ops->submss)
		ops->submss(sk, below);
}

/* Asks for the increase, which stays until ssthresh changes (2.16). */
static void set_ssthresh(struct sock *sk, u64 ssthresh)
{
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;
	struct ls_state *ls = &fraction_of(sk)->ls;

	ls->ssthresh = ssthresh;
	ls->add = ops->additive_increase ? ops->additive_increase(sk, ssthresh) : ls->mss << HW_Q9;
}

/* What the congestion control makes of a window, both in bytes, Q9 */
static u64 reduced(struct sock *sk, u64 window)
{
	const struct ls_state *ls = &fraction_of(sk)->ls;
	struct tcp_sock *tp = tcp_sk(sk);
	u32 before = tcp_snd_cwnd(tp), parts;

	tcp_snd_cwnd_set(tp, max_t(u32, div_u64(window << (PARTS_LOG2 - HW_Q9), ls->mss), 1));
	parts = inet_csk(sk)->icsk_ca_ops->ssthresh(sk);
	tcp_snd_cwnd_set(tp, before);
	return max_t(u64, ((u64)parts * ls->mss) >> (PARTS_LOG2 - HW_Q9), LS_FLOOR << HW_Q9);
}

static void reduce_to(struct sock *sk, u64 before, u64 ssthresh)
{
	struct ls_state *ls = &fraction_of(sk)->ls;

	ls->prior_window = before;
	ls->prior_ssthresh = ls->ssthresh;
	set_ssthresh(sk, ssthresh);
	ls->window = ssthresh;
	ls->credit = 0;
}

/* Tells TCP what it needs to know while the window is below: two segments at most, a gap apart. */
static void apply(struct sock *sk)
{
	const struct ls_state *ls = &fraction_of(sk)->ls;
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_snd_cwnd_set(tp, DELTA);
	tp->snd_ssthresh = DELTA;
	if (ls->rtt)
		ls_pace(sk, ls->mss, ls_gap(ls, ls->mss));
}

static void enter(struct sock *sk)
{
	fraction_of(sk)->ls.submss = 1;
	notify(sk, true);
	apply(sk);
}

static void leave(struct sock *sk)
{
	const struct ls_state *ls = &fraction_of(sk)->ls;
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_snd_cwnd_set(tp, min(ls_segments(ls), tp->snd_cwnd_clamp));
	tp->snd_cwnd_cnt = 0;
	tp->snd_ssthresh = max_t(u64, div64_u64(ls->ssthresh, (u64)ls->mss << HW_Q9), DELTA);
	ls_pace(sk, ls->mss, 0);
	notify(sk, false);
}

/* Takes over the window that TCP has. */
static void adopt(struct sock *sk)
{
	struct ls_state *ls = &fraction_of(sk)->ls;
	struct tcp_sock *tp = tcp_sk(sk);

	if (ls->submss)
		return;
	ls->window = ((u64)tcp_snd_cwnd(tp) * ls->mss) << HW_Q9;
	ls->ssthresh = tp->snd_ssthresh < TCP_INFINITE_SSTHRESH ?
		       ((u64)tp->snd_ssthresh * ls->mss) << HW_Q9 : LS_UNLIMITED;
}

static void fraction_init(struct sock *sk)
{
	struct fraction *f = fraction_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct ls_config config;

	BUILD_BUG_ON(sizeof(*f) > sizeof(tp->fraction));
	if (tp->fraction_below)
		ls_pace(sk, f->ls.mss, 0);
	memset(f, 0, sizeof(*f));
	tp->fraction_below = false;
	f->on = READ_ONCE(on) && !inet_csk(sk)->icsk_ca_ops->cong_control;
	cmpxchg(&on, 2, 0);
	f->scale = min(READ_ONCE(scale), LS_SCALE_ONE);
	f->delivered_ce = tp->delivered_ce;
	config = config_of(sk);
	ls_init(&f->ls, &config, max(tcp_snd_cwnd(tp), DELTA), tp->mss_cache, tp->snd_nxt);
}

/* The reduction of a window above two segments: whole ones, unless it then is below. */
static u32 fraction_ssthresh(struct sock *sk)
{
	const struct tcp_congestion_ops *ops = inet_csk(sk)->icsk_ca_ops;
	struct fraction *f = fraction_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 segments;
	u64 exact;

	if (tp->fraction_below)
		return DELTA;
	segments = ops->ssthresh(sk);
	if (!f->on || segments > DELTA)
		return segments;
	adopt(sk);
	exact = reduced(sk, f->ls.window);
	/* Once more, for what the congestion control keeps of windows in segments. */
	segments = ops->ssthresh(sk);
	if (exact >= ((u64)DELTA * f->ls.mss) << HW_Q9)
		return segments;
	/* The marks of this ack are answered. */
	hw_cut_record(&f->ls.cut, HW_MARK, tp->snd_nxt);
	reduce_to(sk, f->ls.window, exact);
	enter(sk);
	return DELTA;
}

/* After a timeout a segment is left of the window, and ssthresh is what TCP has made it. */
static void fraction_timeout(struct sock *sk)
{
	struct fraction *f = fraction_of(sk);

	if (!f->on)
		return;
	adopt(sk);
	if (!f->ls.submss)
		set_ssthresh(sk, f->ls.ssthresh);
	f->ls.window = min(f->ls.window, (u64)f->ls.mss << HW_Q9);
	f->ls.credit = 0;
	if (tcp_sk(sk)->fraction_below)
		apply(sk);
	else
		enter(sk);
}

static void fraction_undo(struct sock *sk)
{
	struct ls_state *ls = &fraction_of(sk)->ls;
	struct ls_config config = config_of(sk);

	ls->window = max(ls->window, ls->prior_window);
	set_ssthresh(sk, max(ls->ssthresh, ls->prior_ssthresh));
	ls_update_regime(ls, &config);
	if (ls->submss)
		apply(sk);
	else
		leave(sk);
}

/*
 * Whether the congestion control may grow for this ack: above two segments C scales its growth as
 * well, as it gets that share of the acks. Otherwise a window that rises above two segments grows a
 * hundred times as fast as those below, and takes the link.
 */
static bool may_grow(struct sock *sk, u32 acked)
{
	struct ls_state *ls = &fraction_of(sk)->ls;

	if (tcp_in_slow_start(tcp_sk(sk)) || tcp_in_cwnd_reduction(sk))
		return true;
	ls->credit += (u64)acked * ls->scale;
	if (ls->credit < (u64)acked << LS_SCALE_BITS)
		return false;
	ls->credit -= (u64)acked << LS_SCALE_BITS;
	return true;
}

static bool fraction_ack(struct sock *sk, const struct rate_sample *rs)
{
	struct fraction *f = fraction_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	struct ls_state *ls = &f->ls;
	struct ls_config config;
	struct ls_ack ack;
	u64 before;

	if (!f->on)
		return false;
	config = config_of(sk);
	ack = (struct ls_ack){
		.una = tp->snd_una,
		.next = tp->snd_nxt,
		.acked = rs->acked_sacked,
		.marked = min_t(u32, tp->delivered_ce - f->delivered_ce, rs->acked_sacked),
		.rtt = ls_rtt_sample(sk, ls, rs),
	};
	f->delivered_ce = tp->delivered_ce;
	ls->mss = tp->mss_cache;
	ls_smooth(ls, ack.rtt, LS_RTT_SHIFT);
	ls_count_marks(ls, &config, &ack);
	if (!tp->fraction_below)
		return !may_grow(sk, ack.acked);
	before = ls->window;
	if (hw_cut_for_mark(&ls->cut, ack.marked, ack.una, ack.next)) {
		reduce_to(sk, before, reduced(sk, before));
		if (tp->ecn_flags & TCP_ECN_OK)
			tp->ecn_flags |= TCP_ECN_QUEUE_CWR;
	}
	if (ack.acked && ls_limited(sk, ls, rs) && inet_csk(sk)->icsk_ca_state != TCP_CA_Recovery)
		ls_grow(ls, ack.acked, before);
	ls_update_regime(ls, &config);
	if (!ls->submss) {
		leave(sk);
		return true;
	}
	apply(sk);
	if (ls->rtt)
		ls_move_departure(sk, ls, rs);
	return true;
}

static size_t fraction_get_info(struct sock *sk, union tcp_cc_info *info)
{
	struct fraction *f = fraction_of(sk);

	BUILD_BUG_ON(sizeof(struct ls_report) > sizeof(*info));
	if (!f->on)
		return 0;
	adopt(sk);
	ls_tell(&f->ls, (struct ls_report *)info);
	return sizeof(struct ls_report);
}

static u32 fraction_logarithm(struct sock *sk, u64 ssthresh)
{
	u32 mss = fraction_of(sk)->ls.mss;

	return ssthresh == LS_UNLIMITED ? mss << HW_Q9 : ls_add(ssthresh, ls_growth_exponent(mss));
}

static const struct tcp_fraction_ops engine = {
	.init = fraction_init,
	.ack = fraction_ack,
	.ssthresh = fraction_ssthresh,
	.timeout = fraction_timeout,
	.undo = fraction_undo,
	.get_info = fraction_get_info,
	.logarithm = fraction_logarithm,
};

static int __init fraction_register(void)
{
	return tcp_register_fraction(&engine);
}

module_init(fraction_register);
MODULE_DESCRIPTION("Windows below two segments for any congestion control");
MODULE_LICENSE("GPL");

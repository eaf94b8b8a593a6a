// SPDX-License-Identifier: GPL-2.0
/*
 * A congestion controller that keeps a constant window and a constant rate.
 *
 * A connection takes its values from the module parameters at the moment it is
 * established (or given this controller, if it already is), and keeps them:
 *
 *	echo 100 > /sys/module/headway_fixed/parameters/window
 *	echo 1250000 > /sys/module/headway_fixed/parameters/rate
 */
#include <linux/module.h>
#include <net/tcp.h>

static unsigned int window;
module_param(window, uint, 0644);
MODULE_PARM_DESC(window, "congestion window in segments, 0 for none");

/*
 * TCP paces bytes of payload, as it does so before there are headers (sch_fq
 * only gets times to send at). It never paces a connection's first ten segments.
 */
static unsigned long rate;
module_param(rate, ulong, 0644);
MODULE_PARM_DESC(rate, "payload in bytes per second, 0 for no pacing");

/* The state of a connection, at most ICSK_CA_PRIV_SIZE bytes */
struct fixed {
	u32 window;
	unsigned long rate;
};

static void fixed_apply(struct sock *sk)
{
	const struct fixed *fixed = inet_csk_ca(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_snd_cwnd_set(tp, min(fixed->window, tp->snd_cwnd_clamp));
	WRITE_ONCE(sk->sk_pacing_rate,
		   min(fixed->rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

static void fixed_init(struct sock *sk)
{
	struct fixed *fixed = inet_csk_ca(sk);

	fixed->window = READ_ONCE(window) ?: 1 << 20;
	fixed->rate = READ_ONCE(rate) ?: ~0UL;
	/* Let TCP pace by itself, unless sch_fq does. */
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	fixed_apply(sk);
}

/*
 * Called for each acknowledgment, in every state, once TCP has digested it. That
 * of a client's SYN comes before fixed_init(): the state is still all zeros.
 */
static void fixed_cong_control(struct sock *sk, u32 ack, int flag,
			       const struct rate_sample *rs)
{
	if (inet_csk(sk)->icsk_ca_initialized)
		fixed_apply(sk);
}

/* Called at a loss: without slow start the threshold has no effect. */
static u32 fixed_ssthresh(struct sock *sk)
{
	const struct fixed *fixed = inet_csk_ca(sk);

	return fixed->window;
}

/* Called when a loss turns out not to have been one */
static u32 fixed_undo_cwnd(struct sock *sk)
{
	const struct fixed *fixed = inet_csk_ca(sk);

	return fixed->window;
}

/* Pacing may make a burst as small as this: TCP builds bursts on any device. */
static u32 fixed_min_tso_segs(struct sock *sk)
{
	return 1;
}

static struct tcp_congestion_ops fixed_ops __read_mostly = {
	.name = "headway_fixed",
	.owner = THIS_MODULE,
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = fixed_init,
	.cong_control = fixed_cong_control,
	.ssthresh = fixed_ssthresh,
	.undo_cwnd = fixed_undo_cwnd,
	.min_tso_segs = fixed_min_tso_segs,
};

static int __init fixed_register(void)
{
	BUILD_BUG_ON(sizeof(struct fixed) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&fixed_ops);
}

static void __exit fixed_unregister(void)
{
	tcp_unregister_congestion_control(&fixed_ops);
}

module_init(fixed_register);
module_exit(fixed_unregister);
MODULE_DESCRIPTION("Congestion controller with a constant window and rate");
MODULE_LICENSE("GPL");

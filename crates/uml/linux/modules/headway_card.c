// SPDX-License-Identifier: GPL-2.0
/*
 * A qdisc that is the card of a receiver: it holds packets until the card
 * interrupts, and the driver then takes one after the other out of its ring.
 *
 * It stands at the end of the last wire before the receiver, which is infinitely
 * fast otherwise. The model is that of the simulator: interrupts are at least an
 * interval apart, with jitter; one comes a microsecond after a packet, or as
 * soon as the ring has enough frames; the driver takes 0.6 to 1.0 us a packet.
 *
 * Only segments of TCP with data are held, or only those without; what else
 * comes passes at once, as in the simulator.
 */
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/prandom.h>
#include <linux/rtnetlink.h>
#include <linux/tcp.h>
#include <net/pkt_sched.h>

#include "options.h"

/* Time from a packet to its interrupt when no other came recently, in ns */
#define REACTION 1000
/* Time that the driver takes for a packet, in ns: uniform from the first up to the second */
#define DRAIN_LEAST 600
#define DRAIN_MOST 1000
/* Fraction bits of the jitter */
#define SHARE_BITS 16

/* The parameters, as a program passes them */
struct options {
	/* Time between interrupts before jitter, in ns */
	u64 interval;
	/* Share of the interval by which each is early or late, with SHARE_BITS */
	u32 jitter;
	/* Frames that interrupt at once */
	u32 frames;
	/* Seed of the jitter and of the driver's times */
	u64 seed;
	/* Whether it holds ACKs, and not data */
	u32 acks;
	u32 unused;
};

struct card {
	struct options options;
	struct rnd_state random;
	struct qdisc_watchdog watchdog;
	/* The ring, and what passes it by; the qdisc's own queue only counts both. */
	struct qdisc_skb_head ring;
	struct qdisc_skb_head passing;
	/* No interrupt before this time */
	u64 earliest;
	/* When the interrupt comes, or the driver has taken the next packet, while packets wait */
	u64 at;
	bool draining;
};

/* A time below `range` ns, at random */
static u64 card_uniform(struct card *card, u64 range)
{
	return mul_u64_u32_shr(range, prandom_u32_state(&card->random), 32);
}

/* The driver takes the next packet from now on. */
static void card_drain(struct card *card, u64 now)
{
	card->draining = true;
	card->at = now + DRAIN_LEAST + card_uniform(card, DRAIN_MOST - DRAIN_LEAST);
}

static void card_interrupt(struct card *card, u64 now)
{
	const u64 interval = card->options.interval;
	const u64 jitter = (interval * card->options.jitter) >> SHARE_BITS;

	card->earliest = now + interval - jitter + card_uniform(card, 2 * jitter);
	card_drain(card, now);
}

/* Whether the card holds a packet */
static bool card_holds(const struct card *card, const struct sk_buff *skb)
{
	const int offset = skb_network_offset(skb);
	struct tcphdr tcp_buffer;
	struct iphdr ip_buffer;
	const struct tcphdr *tcp;
	const struct iphdr *ip;

	if (skb->protocol != htons(ETH_P_IP))
		return false;
	ip = skb_header_pointer(skb, offset, sizeof(ip_buffer), &ip_buffer);
	if (!ip || ip->protocol != IPPROTO_TCP)
		return false;
	tcp = skb_header_pointer(skb, offset + ip->ihl * 4, sizeof(tcp_buffer), &tcp_buffer);
	if (!tcp)
		return false;
	return (ntohs(ip->tot_len) <= (ip->ihl + tcp->doff) * 4) == !!card->options.acks;
}

static int card_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct card *card = qdisc_priv(sch);
	const u64 now = ktime_get_ns();

	sch->q.qlen++;
	qdisc_qstats_backlog_inc(sch, skb);
	if (!card_holds(card, skb)) {
		__qdisc_enqueue_tail(skb, &card->passing);
		return NET_XMIT_SUCCESS;
	}
	if (!card->ring.qlen) {
		card->draining = false;
		card->at = max(card->earliest, now + REACTION);
	}
	__qdisc_enqueue_tail(skb, &card->ring);
	if (!card->draining && card->ring.qlen >= card->options.frames)
		card_interrupt(card, now);
	return NET_XMIT_SUCCESS;
}

/* Returns the packet that the driver has taken by now. */
static struct sk_buff *card_take(struct Qdisc *sch)
{
	struct card *card = qdisc_priv(sch);
	const u64 now = ktime_get_ns();
	struct sk_buff *skb;

	if (!card->ring.qlen)
		return NULL;
	if (!card->draining && card->at <= now)
		card_interrupt(card, card->at);
	if (card->at > now) {
		qdisc_watchdog_schedule_ns(&card->watchdog, card->at);
		return NULL;
	}
	skb = __qdisc_dequeue_head(&card->ring);
	if (card->ring.qlen)
		card_drain(card, card->at);
	return skb;
}

static struct sk_buff *card_dequeue(struct Qdisc *sch)
{
	struct card *card = qdisc_priv(sch);
	struct sk_buff *skb = __qdisc_dequeue_head(&card->passing);

	if (!skb)
		skb = card_take(sch);
	if (!skb)
		return NULL;
	sch->q.qlen--;
	qdisc_qstats_backlog_dec(sch, skb);
	qdisc_bstats_update(sch, skb);
	return skb;
}

static void card_reset(struct Qdisc *sch)
{
	struct card *card = qdisc_priv(sch);

	rtnl_kfree_skbs(card->ring.head, card->ring.tail);
	rtnl_kfree_skbs(card->passing.head, card->passing.tail);
	memset(&card->ring, 0, sizeof(card->ring));
	memset(&card->passing, 0, sizeof(card->passing));
	sch->q.qlen = 0;
	sch->qstats.backlog = 0;
	qdisc_watchdog_cancel(&card->watchdog);
}

static int card_init(struct Qdisc *sch, struct nlattr *nested, struct netlink_ext_ack *extack)
{
	struct card *card = qdisc_priv(sch);
	int error;

	/* Before anything can fail, as card_destroy() runs in any case. */
	qdisc_watchdog_init(&card->watchdog, sch);
	error = read_options(nested, extack, &card->options, sizeof(card->options));
	if (error)
		return error;
	if (card->options.interval > NSEC_PER_SEC || card->options.jitter > 1 << SHARE_BITS ||
	    !card->options.frames) {
		NL_SET_ERR_MSG(extack, "a parameter of the card is out of its range");
		return -EINVAL;
	}
	prandom_seed_state(&card->random, card->options.seed);
	return 0;
}

static void card_destroy(struct Qdisc *sch)
{
	struct card *card = qdisc_priv(sch);

	qdisc_watchdog_cancel(&card->watchdog);
}

static struct Qdisc_ops card_ops __read_mostly = {
	.id = "headway_card",
	.priv_size = sizeof(struct card),
	.owner = THIS_MODULE,
	.enqueue = card_enqueue,
	.dequeue = card_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = card_init,
	.reset = card_reset,
	.destroy = card_destroy,
};

static int __init card_begin(void)
{
	return register_qdisc(&card_ops);
}

static void __exit card_finish(void)
{
	unregister_qdisc(&card_ops);
}

module_init(card_begin);
module_exit(card_finish);
MODULE_DESCRIPTION("The card of a receiver that coalesces interrupts");
MODULE_LICENSE("GPL");

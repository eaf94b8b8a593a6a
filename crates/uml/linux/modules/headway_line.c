// SPDX-License-Identifier: GPL-2.0
/*
 * A qdisc that is the line of a host, on which PAUSE frames fill the time between
 * packets (rapid 2.3): frames follow one another without a pause, so the bytes
 * between two packets are the time between them.
 *
 * Packets come when TCP's timer hands them over, and leave a fixed time later. The
 * module is the switch at the other end of the line, too, which drops PAUSE frames.
 *
 * /proc/headway_line has a line for each such qdisc, in the order of their making:
 * packets, their bytes on the wire, PAUSE frames, their bytes, and how many of these
 * the switch has dropped.
 */
#include <linux/etherdevice.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>
#include <net/pkt_sched.h>

#include "options.h"

/* Preamble, checksum and gap between frames: what a frame takes on the wire beside its bytes here */
#define BESIDE 24
/* The smallest PAUSE frame on the wire (rapid 2.3, MIN_PAUSE) */
#define LEAST 88
#define BYTE_NS (8 * NSEC_PER_SEC)
/* The opcode of PAUSE in MAC control frames; its time is 0. */
#define PAUSE_OPCODE 1

/* The parameters, as a program passes them */
struct options {
	/* In b/s */
	u64 rate;
	/* How long packets are held, in ns: longer gaps are idle times */
	u64 held;
	/* The largest frame on the wire */
	u32 largest;
	u32 unused;
};

struct count {
	u64 frames;
	u64 bytes;
};

struct line {
	struct options options;
	struct qdisc_watchdog watchdog;
	/* When the line is free, in ns, and what is left of a ns, in units of 1 / rate */
	u64 free;
	u64 rest;
	/* Whether a packet waits for that moment; a timer that fires late must not make the line slower. */
	bool awaited;
	struct count packets;
	struct count pauses;
	u64 dropped;
	/* In `lines`; changed under the RTNL */
	struct list_head node;
	struct net_device *device;
};

static LIST_HEAD(lines);

/* When a waiting packet is to leave, in ns */
struct waiting {
	u64 at;
};

static struct waiting *waiting_of(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct waiting));
	return (struct waiting *)qdisc_skb_cb(skb)->data;
}

static int line_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	const struct line *line = qdisc_priv(sch);

	/* TCP must not wait until what is held has left (tcp_limit_output_bytes). */
	skb_orphan(skb);
	waiting_of(skb)->at = ktime_get_ns() + line->options.held;
	return qdisc_enqueue_tail(skb, sch);
}

/* The line sends a frame of `bytes` from the time on at which it is free. */
static void line_occupy(struct line *line, struct count *count, u32 bytes)
{
	line->free += div64_u64_rem(bytes * BYTE_NS + line->rest, line->options.rate, &line->rest);
	count->frames++;
	count->bytes += bytes;
}

/* Bytes that fill the line until `at`, rounded up so that no packet leaves before its time */
static u64 line_missing(const struct line *line, u64 at)
{
	const u64 work = at > line->free ? (at - line->free) * line->options.rate : 0;

	return work > line->rest ? DIV64_U64_ROUND_UP(work - line->rest, BYTE_NS) : 0;
}

/* The size of the next PAUSE frame: what it leaves is nothing or at least the smallest one. */
static u32 line_pause(u64 missing, u32 largest)
{
	if (missing > largest && missing < largest + LEAST)
		return missing - LEAST;
	return clamp_t(u64, missing, LEAST, largest);
}

/* Returns a PAUSE frame of `bytes` on the wire; NULL without memory. */
static struct sk_buff *line_make_pause(struct net_device *device, u32 bytes)
{
	const u32 length = bytes - BESIDE;
	struct sk_buff *skb = alloc_skb(length, GFP_ATOMIC | __GFP_NOWARN);
	struct ethhdr *header;

	if (!skb)
		return NULL;
	header = skb_put_zero(skb, length);
	memcpy(header->h_dest, eth_reserved_addr_base, ETH_ALEN);
	header->h_dest[ETH_ALEN - 1] = 1;
	memcpy(header->h_source, device->dev_addr, ETH_ALEN);
	header->h_proto = htons(ETH_P_PAUSE);
	*(__be16 *)(header + 1) = htons(PAUSE_OPCODE);
	skb_reset_mac_header(skb);
	skb_set_network_header(skb, ETH_HLEN);
	skb->protocol = htons(ETH_P_PAUSE);
	skb->dev = device;
	qdisc_skb_cb(skb)->pkt_len = length;
	return skb;
}

static struct sk_buff *line_dequeue(struct Qdisc *sch)
{
	struct line *line = qdisc_priv(sch);
	struct sk_buff *skb = qdisc_peek_head(sch);
	const u64 now = ktime_get_ns();
	u64 missing;
	u32 bytes;

	if (!skb)
		return NULL;
	if (now < line->free) {
		line->awaited = true;
		qdisc_watchdog_schedule_ns(&line->watchdog, line->free);
		return NULL;
	}
	if (!line->awaited) {
		line->free = now;
		line->rest = 0;
	}
	missing = line_missing(line, waiting_of(skb)->at);
	/* After this frame the line is idle, unless another packet waits. */
	line->awaited = missing || sch->q.qlen > 1;
	if (!missing) {
		skb = qdisc_dequeue_head(sch);
		line_occupy(line, &line->packets, skb->len + BESIDE);
		return skb;
	}
	bytes = line_pause(missing, line->options.largest);
	line_occupy(line, &line->pauses, bytes);
	skb = line_make_pause(qdisc_dev(sch), bytes);
	if (!skb)
		qdisc_watchdog_schedule_ns(&line->watchdog, line->free);
	return skb;
}

static void line_reset(struct Qdisc *sch)
{
	struct line *line = qdisc_priv(sch);

	qdisc_reset_queue(sch);
	line->awaited = false;
	qdisc_watchdog_cancel(&line->watchdog);
}

static int line_init(struct Qdisc *sch, struct nlattr *nested, struct netlink_ext_ack *extack)
{
	struct line *line = qdisc_priv(sch);
	int error;

	/* Before anything can fail, as line_destroy() runs in any case. */
	INIT_LIST_HEAD(&line->node);
	qdisc_watchdog_init(&line->watchdog, sch);
	line->device = qdisc_dev(sch);
	error = read_options(nested, extack, &line->options, sizeof(line->options));
	if (error)
		return error;
	/* Times of a second at most, and their work fit into 64 bits. */
	if (!line->options.rate || line->options.rate > 10ULL * NSEC_PER_SEC || line->options.held > NSEC_PER_SEC ||
	    line->options.largest < 2 * LEAST) {
		NL_SET_ERR_MSG(extack, "a parameter of the line is out of its range");
		return -EINVAL;
	}
	list_add_tail_rcu(&line->node, &lines);
	return 0;
}

static void line_destroy(struct Qdisc *sch)
{
	struct line *line = qdisc_priv(sch);

	qdisc_watchdog_cancel(&line->watchdog);
	list_del_rcu(&line->node);
}

static struct Qdisc_ops line_ops __read_mostly = {
	.id = "headway_line",
	.priv_size = sizeof(struct line),
	.owner = THIS_MODULE,
	.enqueue = line_enqueue,
	.dequeue = line_dequeue,
	.peek = qdisc_peek_head,
	.init = line_init,
	.reset = line_reset,
	.destroy = line_destroy,
};

/* The switch at the end of a line: whose it is, the source of the frame says. */
static int switch_drop(struct sk_buff *skb, struct net_device *device, struct packet_type *type,
		       struct net_device *original)
{
	struct line *line;

	rcu_read_lock();
	list_for_each_entry_rcu(line, &lines, node)
		line->dropped += ether_addr_equal(eth_hdr(skb)->h_source, line->device->dev_addr);
	rcu_read_unlock();
	kfree_skb(skb);
	return NET_RX_DROP;
}

static struct packet_type switch_type __read_mostly = {
	.type = cpu_to_be16(ETH_P_PAUSE),
	.func = switch_drop,
};

static int counts_show(struct seq_file *file, void *unused)
{
	const struct line *line;

	rtnl_lock();
	list_for_each_entry(line, &lines, node)
		seq_printf(file, "%llu %llu %llu %llu %llu\n", line->packets.frames, line->packets.bytes,
			   line->pauses.frames, line->pauses.bytes, line->dropped);
	rtnl_unlock();
	return 0;
}

static int __init line_begin(void)
{
	int error;

	BUILD_BUG_ON(sizeof_field(struct qdisc_skb_cb, data) < sizeof(struct waiting));
	if (!proc_create_single("headway_line", 0400, NULL, counts_show))
		return -ENOMEM;
	error = register_qdisc(&line_ops);
	if (error) {
		remove_proc_entry("headway_line", NULL);
		return error;
	}
	dev_add_pack(&switch_type);
	return 0;
}

static void __exit line_finish(void)
{
	dev_remove_pack(&switch_type);
	unregister_qdisc(&line_ops);
	remove_proc_entry("headway_line", NULL);
}

module_init(line_begin);
module_exit(line_finish);
MODULE_DESCRIPTION("The line of a host, filled with PAUSE frames");
MODULE_LICENSE("GPL");

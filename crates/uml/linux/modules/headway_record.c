// SPDX-License-Identifier: GPL-2.0
/*
 * Counts what passes the root qdisc of chosen network devices.
 *
 * Commands, one a line, written to /proc/headway_record:
 *
 * watch IFNAME FIXED_NS  Watch the device of that name in the writer's network
 *			  namespace, once its qdiscs are in place. FIXED_NS is
 *			  their constant delay (of netem), which is not waiting.
 *			  Slots count from 0.
 * reset		  Zero all that is counted.
 * clear		  Forget all devices. The next has slot 0 again.
 *
 * /proc/headway_record has one line of these numbers for each device:
 *
 * slot
 * arrived		packets the root qdisc took in
 * departed		packets it gave to the device
 * measured_bytes	bytes of the TCP packets departed, also behind a
 *			congestion header: of each, the IP packet and
 *			WIRE_OVERHEAD
 * cross_bytes		bytes departed of all else
 * ce			packets departed with Congestion Experienced
 * waited_sum_ns	time from arrival to departure, without FIXED_NS, of
 * waited_max_ns	the packets departed
 * queue_bytes		bytes waiting now, as tc counts them: at the tbf or
 *			headway_router if there is exactly one, else at the
 *			root
 * queue_packets	packets at the root now, those netem delays included
 * queue_bytes_max	largest queue_bytes after a departure, or an attempt
 *			at one, since the last read of this file or reset
 * dropped		packets dropped by the root and the qdiscs below, on
 *			arrival or later: what tc shows for the root
 *
 * /proc/headway_record_delays has "slot bin packets" for each bin of waiting
 * times (see bin_of()) that is not empty.
 *
 * skb->tstamp keeps the time of arrival and is zeroed at departure. It also
 * tells which packets are counted: one that was there before the watch, or that
 * the driver gave back and that departs again, has none and is passed over.
 * With a qdisc that reads skb->tstamp itself, packets are counted, not timed.
 *
 * The tracepoint of arrival passes the packet given to the root qdisc, even if
 * the qdisc has freed it in favour of another. Do not watch a root that does so:
 * netem with corruption or duplication, tbf or cake that split GSO packets.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/hashtable.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/proc_fs.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>
#include <linux/tcp.h>
#include <net/inet_ecn.h>
#include <trace/events/qdisc.h>

#define SLOTS 256
#define LINE_MAX 256
/* Preamble, Ethernet header, checksum and gap between frames, in bytes */
#define WIRE_OVERHEAD 38
/* The number of the congestion header as an IP protocol, as in explicit_wire.h */
#define CONGESTION_HEADER 253
#define BINS_PER_OCTAVE_LOG2 5
#define BINS ((64 - BINS_PER_OCTAVE_LOG2 + 1) << BINS_PER_OCTAVE_LOG2)
/* No queue, one that packets can go around, or one with several locks */
#define UNFIT (TCQ_F_BUILTIN | TCQ_F_CAN_BYPASS | TCQ_F_MQROOT | TCQ_F_NOLOCK)

struct counters {
	u64 arrived;
	u64 departed;
	u64 measured_bytes;
	u64 cross_bytes;
	u64 ce;
	u64 waited_sum;
	u64 waited_max;
	u64 bins[BINS];
};

struct slot {
	struct hlist_node node;
	struct net_device *dev;
	netdevice_tracker tracker;
	u64 fixed;
	u32 link;			/* handle of the qdisc with the rate, or 0 */
	bool stamps;			/* may skb->tstamp be written? */
	u32 queue_max;
	u32 drops_at_reset;
	struct counters count;
};

/*
 * Slots come and go under the RTNL. What a slot counts is guarded by the lock of
 * its device's root qdisc: the tracepoints fire with it held, and the probes
 * heed only that one qdisc. So they need no lock of their own, on any number of
 * CPUs. They run with preemption off, and a slot outlives a grace period.
 */
static struct slot *slots[SLOTS];	/* NULL: the device has gone away */
static unsigned int slot_count;
static DEFINE_HASHTABLE(watched, 9);

/* 32 bins per factor of two, as in crates/sim/src/histogram.rs */
static unsigned int bin_of(u64 ns)
{
	unsigned int log2 = fls64(ns | 1) - 1;
	unsigned int octave = log2 - min(log2, BINS_PER_OCTAVE_LOG2);

	return (octave << BINS_PER_OCTAVE_LOG2) + (ns >> octave);
}

static struct slot *slot_of(const struct net_device *dev)
{
	struct slot *slot;

	hash_for_each_possible_rcu(watched, slot, node, (unsigned long)dev,
				   lockdep_rtnl_is_held())
		if (slot->dev == dev)
			return slot;
	return NULL;
}

/* Of the root qdisc only; the probes heed no other. The noop has no device. */
static struct slot *slot_of_root(const struct Qdisc *qdisc,
				 const struct net_device *dev)
{
	if (qdisc->flags & UNFIT || rcu_access_pointer(dev->qdisc) != qdisc)
		return NULL;
	return slot_of(dev);
}

/* Bytes waiting. By handle, as qdiscs may be replaced at any time */
static u32 queue_bytes(const struct slot *slot, const struct Qdisc *root)
{
	struct Qdisc *qdisc;

	if (slot->link)
		hash_for_each_possible_rcu(slot->dev->qdisc_hash, qdisc, hash,
					   slot->link, lockdep_rtnl_is_held())
			if (qdisc->handle == slot->link)
				return qdisc->qstats.backlog;
	return root->qstats.backlog;
}

static unsigned int packets_in(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? max_t(u32, skb_shinfo(skb)->gso_segs, 1) : 1;
}

static void on_enqueue(void *data, struct Qdisc *qdisc,
		       const struct netdev_queue *txq, struct sk_buff *skb)
{
	struct slot *slot = slot_of_root(qdisc, txq->dev);

	if (!slot)
		return;
	slot->count.arrived += packets_in(skb);
	if (slot->stamps) {
		skb->tstamp = ktime_get();
		skb->tstamp_type = SKB_CLOCK_MONOTONIC;
	}
}

static void departs(struct slot *slot, struct sk_buff *skb, u64 now)
{
	unsigned int packets = packets_in(skb);
	unsigned int link = slot->dev->hard_header_len;
	u64 bytes = skb->len - link + packets * WIRE_OVERHEAD;
	struct counters *count = &slot->count;
	u64 waited = now - skb->tstamp;
	int tos, protocol = 0;

	if (slot->stamps) {
		if (!skb->tstamp)
			return;
		waited -= min(waited, slot->fixed);
		count->waited_sum += waited * packets;
		count->waited_max = max(count->waited_max, waited);
		count->bins[bin_of(waited)] += packets;
		skb->tstamp = 0;
		skb->tstamp_type = SKB_CLOCK_REALTIME;
	}
	if (packets > 1 && skb_is_gso_tcp(skb))
		bytes += (packets - 1) * (skb_tcp_all_headers(skb) - link);
	tos = skb_get_dsfield(skb);
	if (tos >= 0)
		protocol = skb_protocol(skb, true) == htons(ETH_P_IP) ?
			   ip_hdr(skb)->protocol : ipv6_hdr(skb)->nexthdr;
	count->departed += packets;
	if (protocol == IPPROTO_TCP || protocol == CONGESTION_HEADER)
		count->measured_bytes += bytes;
	else
		count->cross_bytes += bytes;
	if (tos >= 0 && INET_ECN_is_ce(tos))
		count->ce += packets;
}

/* Fires also without a packet, when the qdisc has none to give (yet) */
static void on_dequeue(void *data, struct Qdisc *qdisc,
		       const struct netdev_queue *txq, int packets,
		       struct sk_buff *skb)
{
	struct slot *slot = slot_of_root(qdisc, txq->dev);
	u64 now;

	if (!slot)
		return;
	slot->queue_max = max(slot->queue_max, queue_bytes(slot, qdisc));
	now = skb ? ktime_get_ns() : 0;
	for (; skb; skb = skb->next)
		departs(slot, skb, now);
}

static struct Qdisc *lock_root(const struct slot *slot)
{
	struct Qdisc *root = rtnl_dereference(slot->dev->qdisc);

	spin_lock_bh(qdisc_lock(root));
	return root;
}

static void reset(struct slot *slot)
{
	struct Qdisc *root = lock_root(slot);

	memset(&slot->count, 0, sizeof(slot->count));
	slot->queue_max = 0;
	slot->drops_at_reset = root->qstats.drops;
	spin_unlock_bh(qdisc_lock(root));
}

static void forget(unsigned int i)
{
	struct slot *slot = slots[i];

	if (!slot)
		return;
	slots[i] = NULL;
	hash_del_rcu(&slot->node);
	synchronize_rcu();
	netdev_put(slot->dev, &slot->tracker);
	kvfree(slot);
}

static void survey(struct slot *slot, const struct Qdisc *qdisc, int *links)
{
	static const char * const readers[] = { "fq", "etf", "taprio" };
	static const char * const rated[] = { "tbf", "headway_router" };
	const char *id = qdisc->ops->id;

	if (match_string(readers, ARRAY_SIZE(readers), id) >= 0)
		slot->stamps = false;
	if (match_string(rated, ARRAY_SIZE(rated), id) >= 0)
		slot->link = (*links)++ ? 0 : qdisc->handle;
}

static int refuse(const char *what, const char *why, int err)
{
	pr_warn("'%s' refused: %s.\n", what, why);
	return err;
}

static int watch_device(const char *name, u64 fixed)
{
	struct net_device *dev = __dev_get_by_name(current->nsproxy->net_ns, name);
	struct Qdisc *root, *qdisc;
	struct slot *slot;
	int bucket, links = 0;

	if (!dev)
		return refuse(name, "this namespace has no such device", -ENODEV);
	root = rtnl_dereference(dev->qdisc);
	if (!root->enqueue || root->flags & UNFIT)
		return refuse(name, "packets can go around its root qdisc", -EOPNOTSUPP);
	if (slot_of(dev))
		return refuse(name, "it is under watch already", -EEXIST);
	if (slot_count == SLOTS)
		return refuse(name, "too many devices are", -ENOSPC);
	slot = kvzalloc(sizeof(*slot), GFP_KERNEL);
	if (!slot)
		return -ENOMEM;
	slot->dev = dev;
	slot->fixed = fixed;
	slot->stamps = true;
	netdev_hold(dev, &slot->tracker, GFP_KERNEL);
	survey(slot, root, &links);
	/* All but the root */
	hash_for_each(dev->qdisc_hash, bucket, qdisc, hash)
		survey(slot, qdisc, &links);
	reset(slot);
	slots[slot_count++] = slot;
	hash_add_rcu(watched, &slot->node, (unsigned long)dev);
	return 0;
}

static int obey(const char *line)
{
	char name[IFNAMSIZ], more;
	unsigned int i;
	u64 fixed;

	if (sscanf(line, "watch %15s %llu %c", name, &fixed, &more) == 2)
		return watch_device(name, fixed);
	if (!strcmp(line, "reset")) {
		for (i = 0; i < slot_count; i++)
			if (slots[i])
				reset(slots[i]);
	} else if (!strcmp(line, "clear")) {
		while (slot_count)
			forget(--slot_count);
	} else if (*line) {
		return refuse(line, "there is no such command", -EINVAL);
	}
	return 0;
}

static ssize_t record_write(struct file *file, const char __user *user,
			    size_t length, loff_t *pos)
{
	char *text, *rest, *line;
	int err = 0;

	if (length > PAGE_SIZE)
		return -E2BIG;
	text = memdup_user_nul(user, length);
	if (IS_ERR(text))
		return PTR_ERR(text);
	rest = text;
	rtnl_lock();
	while (!err && (line = strsep(&rest, "\n")))
		err = obey(strim(line));
	rtnl_unlock();
	kfree(text);
	return err ?: length;
}

static int record_show(struct seq_file *file, void *unused)
{
	unsigned int i;

	rtnl_lock();
	for (i = 0; i < slot_count; i++) {
		struct slot *slot = slots[i];
		struct counters *count;
		struct Qdisc *root;
		u32 bytes, drops;

		if (!slot)
			continue;
		count = &slot->count;
		root = lock_root(slot);
		bytes = queue_bytes(slot, root);
		drops = root->qstats.drops;
		/* A new root qdisc counts from zero. */
		if (drops >= slot->drops_at_reset)
			drops -= slot->drops_at_reset;
		seq_printf(file, "%u %llu %llu %llu %llu %llu %llu %llu %u %u %u %u\n",
			   i, count->arrived, count->departed,
			   count->measured_bytes, count->cross_bytes, count->ce,
			   count->waited_sum, count->waited_max, bytes,
			   root->q.qlen, max(slot->queue_max, bytes), drops);
		slot->queue_max = bytes;
		spin_unlock_bh(qdisc_lock(root));
	}
	rtnl_unlock();
	return 0;
}

static int delays_show(struct seq_file *file, void *unused)
{
	unsigned int i, bin;

	rtnl_lock();
	for (i = 0; i < slot_count; i++)
		for (bin = 0; bin < BINS; bin++)
			if (slots[i] && slots[i]->count.bins[bin])
				seq_printf(file, "%u %u %llu\n", i, bin,
					   slots[i]->count.bins[bin]);
	rtnl_unlock();
	return 0;
}

static int record_open(struct inode *inode, struct file *file)
{
	/* With room for all, as a line made twice has lost its maximum */
	return single_open_size(file, record_show, NULL, SLOTS * LINE_MAX);
}

static const struct proc_ops record_ops = {
	.proc_open = record_open,
	.proc_read = seq_read,
	.proc_write = record_write,
	.proc_lseek = seq_lseek,
	.proc_release = single_release,
};

static int on_netdev(struct notifier_block *self, unsigned long event, void *info)
{
	unsigned int i;

	for (i = 0; event == NETDEV_UNREGISTER && i < slot_count; i++)
		if (slots[i] && slots[i]->dev == netdev_notifier_info_to_dev(info))
			forget(i);
	return NOTIFY_DONE;
}

static struct notifier_block netdev_notifier = { .notifier_call = on_netdev };

/* The tracepoints are not exported, but found by name. */
static struct tracepoint *enqueue, *dequeue;
static struct proc_dir_entry *record, *delays;

static void find_tracepoint(struct tracepoint *tracepoint, void *unused)
{
	if (!strcmp(tracepoint->name, "qdisc_enqueue"))
		enqueue = tracepoint;
	else if (!strcmp(tracepoint->name, "qdisc_dequeue"))
		dequeue = tracepoint;
}

static int __init headway_record_init(void)
{
	int err;

	check_trace_callback_type_qdisc_enqueue(on_enqueue);
	check_trace_callback_type_qdisc_dequeue(on_dequeue);
	for_each_kernel_tracepoint(find_tracepoint, NULL);
	if (!enqueue || !dequeue)
		return refuse(KBUILD_MODNAME, "tracepoints are missing", -ENOENT);
	err = register_netdevice_notifier(&netdev_notifier);
	if (err)
		return err;
	err = tracepoint_probe_register(enqueue, on_enqueue, NULL);
	if (err)
		goto no_enqueue;
	err = tracepoint_probe_register(dequeue, on_dequeue, NULL);
	if (err)
		goto no_dequeue;
	err = -ENOMEM;
	record = proc_create("headway_record", 0600, NULL, &record_ops);
	delays = proc_create_single("headway_record_delays", 0400, NULL, delays_show);
	if (record && delays)
		return 0;
	proc_remove(record);
	proc_remove(delays);
	tracepoint_probe_unregister(dequeue, on_dequeue, NULL);
no_dequeue:
	tracepoint_probe_unregister(enqueue, on_enqueue, NULL);
no_enqueue:
	tracepoint_synchronize_unregister();
	unregister_netdevice_notifier(&netdev_notifier);
	return err;
}

static void __exit headway_record_exit(void)
{
	proc_remove(record);
	proc_remove(delays);
	tracepoint_probe_unregister(dequeue, on_dequeue, NULL);
	tracepoint_probe_unregister(enqueue, on_enqueue, NULL);
	tracepoint_synchronize_unregister();
	/* As if each device were unregistered, so that all are forgotten */
	unregister_netdevice_notifier(&netdev_notifier);
}

module_init(headway_record_init);
module_exit(headway_record_exit);
MODULE_DESCRIPTION("Counts what passes the root qdisc of chosen devices");
MODULE_LICENSE("GPL");

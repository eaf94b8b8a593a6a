// SPDX-License-Identifier: GPL-2.0
/*
 * A qdisc that is a link of constant rate with a router that tells senders their
 * rate: XCP, RCP and their variants. The arithmetic is in explicit.h.
 *
 * It holds packets while the link sends, in the order in which they came, and
 * rewrites the congestion header of each when its turn comes. It needs no timer
 * of its own for the router: what fell due while nothing happened is run, with
 * its own time, before the next arrival or departure.
 *
 * /proc/headway_router has a line for each control interval of every such
 * qdisc, in the order of time: its number, and struct explicit_record in
 * hexadecimal digits.
 */
#include <linux/ip.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/rtnetlink.h>
#include <linux/seq_file.h>
#include <net/pkt_sched.h>

#include "explicit.h"
#include "explicit_wire.h"
#include "options.h"

/* Records that a qdisc keeps; those of later intervals are not written. */
#define MOST_RECORDS 100000

/* The parameters, as a program passes them */
struct options {
	struct explicit_config config;
	/* Of the link, in b/s, counting what qdisc_pkt_len() says */
	u64 rate;
	/* The buffer in these bytes and in packets, with the packet being sent */
	u64 limit;
	u32 packets;
	/* Which qdisc this is, in /proc/headway_router */
	u32 number;
};

struct chunk {
	struct list_head node;
	/* That of the qdisc */
	u32 number;
	/* Written after the record that it counts */
	unsigned int count;
	struct explicit_record records[];
};

#define CHUNK_RECORDS ((PAGE_SIZE - sizeof(struct chunk)) / sizeof(struct explicit_record))

struct router {
	struct explicit_queue queue;
	struct options options;
	struct qdisc_watchdog watchdog;
	/* When the link is free, in ns, and what is left of a ns, in units of 1 / rate */
	u64 free;
	u64 rest;
	/* Size of the packet being sent until then */
	u32 sending;
	/* Whether others wait for that moment; a timer that fires late must not make the link slower. */
	bool awaited;
	/* Bytes of IP that wait */
	u64 waiting;
	/* In `routers`, under the RTNL, like the qdisc itself */
	struct list_head node;
	/* Only grows while the qdisc exists. */
	struct list_head chunks;
	unsigned int records;
};

static LIST_HEAD(routers);

/* Where the congestion header of a waiting packet is, from the IP header; 0 without one */
struct waiting {
	u32 at;
};

static struct waiting *waiting_of(struct sk_buff *skb)
{
	qdisc_cb_private_validate(skb, sizeof(struct waiting));
	return (struct waiting *)qdisc_skb_cb(skb)->data;
}

static void router_record(struct router *router)
{
	struct chunk *chunk = NULL;

	if (!list_empty(&router->chunks))
		chunk = list_last_entry(&router->chunks, struct chunk, node);
	if (router->records >= MOST_RECORDS)
		return;
	if (!chunk || chunk->count == CHUNK_RECORDS) {
		chunk = (struct chunk *)__get_free_page(GFP_ATOMIC | __GFP_ZERO);
		if (!chunk)
			return;
		chunk->number = router->options.number;
		list_add_tail_rcu(&chunk->node, &router->chunks);
	}
	chunk->records[chunk->count] = router->queue.record;
	smp_store_release(&chunk->count, chunk->count + 1);
	router->records++;
}

/* Runs what fell due by `now`. */
static void router_advance(struct Qdisc *sch, u64 now)
{
	struct router *router = qdisc_priv(sch);
	u32 event;

	for (;;) {
		event = explicit_timer(&router->queue, router->waiting, sch->q.qlen, now);
		if (event == EXPLICIT_NOTHING)
			return;
		if (event == EXPLICIT_CONTROLLED)
			router_record(router);
	}
}

static u32 ip_bytes(const struct sk_buff *skb)
{
	return skb->len - skb_network_offset(skb);
}

/* Finds the congestion header of a packet. */
static u32 router_find(const struct sk_buff *skb, struct explicit_header *header, u32 *at)
{
	u8 buffer[EXPLICIT_SEARCHED_BYTES];
	int offset = skb_network_offset(skb);
	u32 length = min_t(u32, ip_bytes(skb), sizeof(buffer));
	/* Mostly it is in one piece this far, so nothing is copied. */
	u32 mostly = min_t(u32, length, sizeof(struct iphdr) + EXPLICIT_WIRE_BYTES);
	const u8 *bytes = skb_header_pointer(skb, offset, mostly, buffer);
	u32 found;

	if (!bytes)
		return EXPLICIT_HEADLESS;
	found = explicit_find(bytes, mostly, header, at);
	if (found == EXPLICIT_FOUND || mostly == length || bytes[0] == 0x45)
		return found;
	bytes = skb_header_pointer(skb, offset, length, buffer);
	return bytes ? explicit_find(bytes, length, header, at) : found;
}

/* Whether the buffer has room for a packet. */
static bool router_admits(struct Qdisc *sch, const struct sk_buff *skb, u64 now)
{
	const struct router *router = qdisc_priv(sch);
	const bool busy = now < router->free;
	const u64 bytes = sch->qstats.backlog + (busy ? router->sending : 0);

	return bytes + qdisc_pkt_len(skb) <= router->options.limit &&
	       sch->q.qlen + busy < router->options.packets;
}

static int router_enqueue(struct sk_buff *skb, struct Qdisc *sch, struct sk_buff **to_free)
{
	struct router *router = qdisc_priv(sch);
	const u32 bytes = ip_bytes(skb);
	const u64 now = ktime_get_ns();
	struct explicit_header header;
	u32 at = 0;
	u32 found;

	router_advance(sch, now);
	found = router_find(skb, &header, &at);
	if (explicit_arrive(&router->queue, found == EXPLICIT_FOUND ? &header : NULL, bytes) !=
	    EXPLICIT_ACCEPTED)
		return qdisc_drop(skb, sch, to_free);
	if (found != EXPLICIT_FOUND && found != EXPLICIT_HEADLESS) {
		router->queue.rejected++;
		return qdisc_drop(skb, sch, to_free);
	}
	if (!router_admits(sch, skb, now) ||
	    (at && skb_ensure_writable(skb, skb_network_offset(skb) + at + EXPLICIT_WIRE_BYTES))) {
		explicit_drop(&router->queue);
		return qdisc_drop(skb, sch, to_free);
	}
	waiting_of(skb)->at = at;
	router->waiting += bytes;
	return qdisc_enqueue_tail(skb, sch);
}

/* Judges a packet whose turn has come, and rewrites its header. */
static void router_judge(struct Qdisc *sch, struct sk_buff *skb)
{
	struct router *router = qdisc_priv(sch);
	const u32 bytes = ip_bytes(skb);
	const u32 at = waiting_of(skb)->at;
	u8 *place = skb_network_header(skb) + at;
	struct explicit_header header;
	const bool has_header = at && explicit_read(place, EXPLICIT_WIRE_BYTES, &header) == EXPLICIT_FOUND;

	router->waiting -= min_t(u64, bytes, router->waiting);
	if (explicit_depart(&router->queue, has_header ? &header : NULL, bytes, router->waiting, sch->q.qlen))
		hw_write_32(place + EXPLICIT_WIRE_FEEDBACK, header.feedback);
}

/* The link sends `bytes` from now on. */
static void router_occupy(struct router *router, u32 bytes, u64 now)
{
	u64 work = (u64)bytes * 8 * NSEC_PER_SEC;

	if (!router->awaited) {
		router->free = now;
		router->rest = 0;
	}
	router->awaited = false;
	work += router->rest;
	router->free += div64_u64_rem(work, router->options.rate, &router->rest);
	router->sending = bytes;
}

static struct sk_buff *router_dequeue(struct Qdisc *sch)
{
	struct router *router = qdisc_priv(sch);
	const u64 now = ktime_get_ns();
	struct sk_buff *skb;

	if (!sch->q.qlen)
		return NULL;
	if (now < router->free) {
		router->awaited = true;
		qdisc_watchdog_schedule_ns(&router->watchdog, router->free);
		return NULL;
	}
	router_advance(sch, now);
	skb = qdisc_dequeue_head(sch);
	router_judge(sch, skb);
	router_occupy(router, qdisc_pkt_len(skb), now);
	return skb;
}

static void router_reset(struct Qdisc *sch)
{
	struct router *router = qdisc_priv(sch);

	qdisc_reset_queue(sch);
	router->waiting = 0;
	router->awaited = false;
	qdisc_watchdog_cancel(&router->watchdog);
}

static int router_init(struct Qdisc *sch, struct nlattr *nested, struct netlink_ext_ack *extack)
{
	struct router *router = qdisc_priv(sch);
	int error;

	/* Before anything can fail, as router_destroy() runs in any case. */
	INIT_LIST_HEAD(&router->chunks);
	INIT_LIST_HEAD(&router->node);
	qdisc_watchdog_init(&router->watchdog, sch);
	error = read_options(nested, extack, &router->options, sizeof(router->options));
	if (error)
		return error;
	if (!router->options.rate || explicit_check(&router->options.config) != EXPLICIT_NO_FAULT) {
		NL_SET_ERR_MSG(extack, "a parameter of the router is out of its range");
		return -EINVAL;
	}
	explicit_init(&router->queue, &router->options.config, ktime_get_ns(), get_random_u32());
	list_add_tail(&router->node, &routers);
	return 0;
}

static void router_destroy(struct Qdisc *sch)
{
	struct router *router = qdisc_priv(sch);
	struct chunk *chunk, *next;

	qdisc_watchdog_cancel(&router->watchdog);
	list_del(&router->node);
	list_for_each_entry_safe(chunk, next, &router->chunks, node)
		free_page((unsigned long)chunk);
}

static struct Qdisc_ops router_ops __read_mostly = {
	.id = "headway_router",
	.priv_size = sizeof(struct router),
	.owner = THIS_MODULE,
	.enqueue = router_enqueue,
	.dequeue = router_dequeue,
	.peek = qdisc_peek_dequeued,
	.init = router_init,
	.reset = router_reset,
	.destroy = router_destroy,
};

/* The file shows one chunk after the other. */
static struct chunk *nth_chunk(loff_t nth)
{
	struct router *router;
	struct chunk *chunk;

	list_for_each_entry(router, &routers, node)
		list_for_each_entry_rcu(chunk, &router->chunks, node, lockdep_rtnl_is_held())
			if (!nth--)
				return chunk;
	return NULL;
}

static void *records_start(struct seq_file *file, loff_t *pos)
{
	rtnl_lock();
	return nth_chunk(*pos);
}

static void *records_next(struct seq_file *file, void *entry, loff_t *pos)
{
	++*pos;
	return nth_chunk(*pos);
}

static void records_stop(struct seq_file *file, void *entry)
{
	rtnl_unlock();
}

static int records_show(struct seq_file *file, void *entry)
{
	const struct chunk *chunk = entry;
	unsigned int count = smp_load_acquire(&chunk->count);
	unsigned int k, byte;

	for (k = 0; k < count; k++) {
		const u8 *bytes = (const u8 *)&chunk->records[k];

		seq_printf(file, "%u ", chunk->number);
		for (byte = 0; byte < sizeof(chunk->records[k]); byte++)
			seq_printf(file, "%02x", bytes[byte]);
		seq_putc(file, '\n');
	}
	return 0;
}

static const struct seq_operations records_ops = {
	.start = records_start,
	.next = records_next,
	.stop = records_stop,
	.show = records_show,
};

static int __init router_begin(void)
{
	int error;

	BUILD_BUG_ON(sizeof_field(struct qdisc_skb_cb, data) < sizeof(struct waiting));
	if (!proc_create_seq("headway_router", 0400, NULL, &records_ops))
		return -ENOMEM;
	error = register_qdisc(&router_ops);
	if (error)
		remove_proc_entry("headway_router", NULL);
	return error;
}

static void __exit router_finish(void)
{
	unregister_qdisc(&router_ops);
	remove_proc_entry("headway_router", NULL);
}

module_init(router_begin);
module_exit(router_finish);
MODULE_DESCRIPTION("A link with a router that tells senders their rate");
MODULE_LICENSE("GPL");

// SPDX-License-Identifier: GPL-2.0-only
/* Programs that mark or drop packets, as a link would. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
/* Shorter packets are pure ACKs. */
#define MIN_DATA 1000
/* Data packets per mark. */
#define PERIOD 100

char gpl[] SEC("license") = "GPL";

u32 packets;

/* Marks every ECN-capable packet. */
SEC("tc")
int mark(struct __sk_buff *packet)
{
	bpf_skb_ecn_set_ce(packet);
	return TC_ACT_OK;
}

/* Marks one packet in PERIOD and drops the next one, which is usually of the same flight. */
SEC("tc")
int mark_then_drop(struct __sk_buff *packet)
{
	u32 number;

	if (packet->len < MIN_DATA)
		return TC_ACT_OK;
	number = __sync_fetch_and_add(&packets, 1) % PERIOD;
	if (number == PERIOD - 2)
		bpf_skb_ecn_set_ce(packet);
	return number == PERIOD - 1 ? TC_ACT_SHOT : TC_ACT_OK;
}

/* Marks everything, and drops one packet in a hundred. */
SEC("tc")
int mark_and_lose(struct __sk_buff *packet)
{
	bpf_skb_ecn_set_ce(packet);
	return bpf_get_prandom_u32() % 100 ? TC_ACT_OK : TC_ACT_SHOT;
}

/* Drops everything. */
SEC("tc")
int drop(struct __sk_buff *packet)
{
	return TC_ACT_SHOT;
}

// SPDX-License-Identifier: GPL-2.0-only
/* Programs that mark or drop packets, as a link would. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define XDP_DROP 1
#define XDP_PASS 2
/* Shorter packets are pure ACKs. */
#define MIN_DATA 1000
/* Data packets per mark. */
#define PERIOD 100

/* Places in a packet on Ethernet: the version of IP, the protocol, and the feedback of a
 * congestion header. */
#define VERSION 14
#define PROTOCOL 23
#define PROTOCOL_V6 20
#define FEEDBACK 46
#define FEEDBACK_V6 66
/* Places in a TCP header with timestamps: the next option, and the feedback if that is a
 * congestion header. */
#define OPTION 32
#define OPTION_FEEDBACK 44
#define OPTION_BYTES 20
/* TCP options: what is no more than padding, and timestamps; and the bytes before the first one. */
#define PADDING 1
#define TIMESTAMP 8
#define TCP_HEADER 20
#define TCP 6
/* The congestion header as an IP protocol and as a kind of TCP option; the rate in B/s that a
 * router of RCP grants. */
#define HEADER 253
#define RATE 1000000
#define TCP_V4 34
#define TCP_V6 54
/* The change in B/s that a router of XCP grants with each packet. */
#define CHANGE 1000000

struct xdp_md {
	u32 data;
	u32 data_end;
};

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

/* Drops packets with a congestion header before programs at the interface see them. */
SEC("xdp")
int drop_headers(struct xdp_md *packet)
{
	u8 *data = (u8 *)(long)packet->data;

	if (data + PROTOCOL + 1 > (u8 *)(long)packet->data_end)
		return XDP_PASS;
	return data[PROTOCOL] == HEADER ? XDP_DROP : XDP_PASS;
}

struct place {
	u32 is_v6;
	u8 protocol;
};

static __always_inline struct place look(struct __sk_buff *packet)
{
	struct place place = {};
	u8 version = 0;

	bpf_skb_load_bytes(packet, VERSION, &version, 1);
	place.is_v6 = version >> 4 == 6;
	bpf_skb_load_bytes(packet, place.is_v6 ? PROTOCOL_V6 : PROTOCOL, &place.protocol, 1);
	return place;
}

/* Where the congestion header of a sender lies as a TCP option; 0 if there is none. Checksums are
 * not computed yet. */
static __always_inline u32 find_option(struct __sk_buff *packet)
{
	struct place place = look(packet);
	u32 at = (place.is_v6 ? TCP_V6 : TCP_V4) + OPTION;
	u8 option[2] = {};

	if (place.protocol != TCP || bpf_skb_load_bytes(packet, at, option, sizeof(option)))
		return 0;
	return option[0] == HEADER && option[1] == OPTION_BYTES ? at : 0;
}

static __always_inline int write_feedback(struct __sk_buff *packet, u32 feedback)
{
	struct place place = look(packet);
	u32 option = find_option(packet);

	feedback = __builtin_bswap32(feedback);
	if (place.protocol == HEADER)
		bpf_skb_store_bytes(packet, place.is_v6 ? FEEDBACK_V6 : FEEDBACK, &feedback, sizeof(feedback), 0);
	else if (option)
		bpf_skb_store_bytes(packet, option + OPTION_FEEDBACK - OPTION, &feedback, sizeof(feedback), 0);
	return TC_ACT_OK;
}

/* A box that puts padding in place of options that it does not know. */
SEC("tc")
int blank_options(struct __sk_buff *packet)
{
	u32 option = find_option(packet);
	u8 padding[OPTION_BYTES];

	__builtin_memset(padding, PADDING, sizeof(padding));
	if (option)
		bpf_skb_store_bytes(packet, option, padding, sizeof(padding), 0);
	return TC_ACT_OK;
}

/* Makes the option shorter, with padding behind it. */
SEC("tc")
int shorten_options(struct __sk_buff *packet)
{
	u8 padding[4] = { PADDING, PADDING, PADDING, PADDING };
	u32 option = find_option(packet);
	u8 length = OPTION_BYTES - sizeof(padding);

	if (!option)
		return TC_ACT_OK;
	bpf_skb_store_bytes(packet, option + 1, &length, 1, 0);
	bpf_skb_store_bytes(packet, option + length, padding, sizeof(padding), 0);
	return TC_ACT_OK;
}

/* Where the value of a sender's timestamp lies in a segment that has no other option before it;
 * 0 if it does not. */
static __always_inline u32 find_timestamp(struct __sk_buff *packet)
{
	struct place place = look(packet);
	u32 at = (place.is_v6 ? TCP_V6 : TCP_V4) + TCP_HEADER;
	u8 option[4] = {};

	if (place.protocol != TCP || bpf_skb_load_bytes(packet, at, option, sizeof(option)))
		return 0;
	return option[0] == PADDING && option[1] == PADDING && option[2] == TIMESTAMP ? at + 4 : 0;
}

u32 frozen;

/* A box that gives all segments the timestamp of the first that it sees. */
SEC("tc")
int freeze_timestamps(struct __sk_buff *packet)
{
	u32 at = find_timestamp(packet);
	u32 stamp;

	if (!at || bpf_skb_load_bytes(packet, at, &stamp, sizeof(stamp)))
		return TC_ACT_OK;
	/* Two processors may see a first segment each: with two timestamps, one would be from the past. */
	__sync_val_compare_and_swap(&frozen, 0, stamp);
	stamp = frozen;
	bpf_skb_store_bytes(packet, at, &stamp, sizeof(stamp), 0);
	return TC_ACT_OK;
}

/* A box that puts padding in place of timestamps. */
SEC("tc")
int strip_timestamps(struct __sk_buff *packet)
{
	u8 padding[10];
	u32 at = find_timestamp(packet);

	__builtin_memset(padding, PADDING, sizeof(padding));
	if (at)
		bpf_skb_store_bytes(packet, at - 2, padding, sizeof(padding), 0);
	return TC_ACT_OK;
}

/* Drops one packet of data in PERIOD; a router of XCP that grants a little to the others. */
SEC("tc")
int grant_and_lose(struct __sk_buff *packet)
{
	if (packet->len >= MIN_DATA && __sync_fetch_and_add(&packets, 1) % PERIOD == PERIOD - 1)
		return TC_ACT_SHOT;
	return write_feedback(packet, CHANGE);
}

/* A router of RCP with a fixed rate. */
SEC("tc")
int grant_rate(struct __sk_buff *packet)
{
	return write_feedback(packet, RATE);
}

/* A router of XCP that grants no change. */
SEC("tc")
int grant_nothing(struct __sk_buff *packet)
{
	return write_feedback(packet, 0);
}

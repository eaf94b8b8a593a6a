// SPDX-License-Identifier: GPL-2.0-only
/* What passes an interface, and boxes that do something to the arrivals in ACKs. */
#include "arrival_option.bpf.h"

/* Leaves the packet to the next program. */
#define NEXT (-1)
#define DROP 2
/* Shorter packets are ACKs; packets of data for one that is lost. */
#define MIN_DATA 1000
#define PERIOD 100
#define ETHERNET 14
#define IP_BYTES 20
#define IPV6_BYTES 40
#define IPPROTO_TCP 6
/* Where options begin, and the last place for the whole option: the kernel's come before it, which are
 * SACK blocks, too. */
#define OPTIONS 20
#define LAST_OPTION 52
#define PADDING 1
/* The arrival that the first ACK tells after `shift`: it wraps 100 ms later. */
#define BEFORE_WRAP (-100000)

char gpl[] SEC("license") = "GPL";

/* A segment; `Segment` in tests/stamps.rs has the same. */
struct segment {
	/* When it passed, in ns. */
	__u64 time;
	__u32 payload;
	__u32 leaves;
	__u8 header[60];
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
} segments SEC(".maps");

__u32 shift_by;
__u32 packets;

/* Where TCP begins, and how long its segment is; 0 if it is not TCP. */
static __always_inline __u32 find_tcp(struct __sk_buff *packet, __u32 *bytes)
{
	__u8 ip[IPV6_BYTES] = {};

	bpf_skb_load_bytes(packet, ETHERNET, ip, sizeof(ip));
	if (ip[0] >> 4 == 6) {
		*bytes = ip[4] << 8 | ip[5];
		return ip[6] == IPPROTO_TCP ? ETHERNET + IPV6_BYTES : 0;
	}
	*bytes = (ip[2] << 8 | ip[3]) - IP_BYTES;
	return ip[9] == IPPROTO_TCP ? ETHERNET + IP_BYTES : 0;
}

static __always_inline int pass(struct __sk_buff *packet, __u32 leaves)
{
	__u32 bytes, at, length;
	struct segment *segment;
	struct tcp tcp;

	at = find_tcp(packet, &bytes);
	if (!at || bpf_skb_load_bytes(packet, at, &tcp, sizeof(tcp)))
		return NEXT;
	segment = bpf_ringbuf_reserve(&segments, sizeof(*segment), 0);
	if (!segment)
		return NEXT;
	length = (tcp.offset >> 4) * 4;
	/* The verifier is to see the bounds of this number, not of what it was computed from. */
	asm volatile("" : "+r"(length));
	segment->time = bpf_ktime_get_ns();
	segment->payload = bytes - length;
	segment->leaves = leaves;
	if (length < sizeof(tcp) || length > sizeof(segment->header) ||
	    bpf_skb_load_bytes(packet, at, segment->header, length))
		bpf_ringbuf_discard(segment, 0);
	else
		bpf_ringbuf_submit(segment, 0);
	return NEXT;
}

SEC("tc")
int note_arriving(struct __sk_buff *packet)
{
	return pass(packet, 0);
}

SEC("tc")
int note_leaving(struct __sk_buff *packet)
{
	return pass(packet, 1);
}

/* Finds the option of an ACK; checksums are not computed yet. */
static __always_inline __u32 find_option(struct __sk_buff *packet, struct arrival_option *option)
{
	__u32 bytes, offset;
	__u32 at = find_tcp(packet, &bytes);

	if (!at)
		return 0;
	for (offset = OPTIONS; offset <= LAST_OPTION; offset += sizeof(__u32)) {
		if (bpf_skb_load_bytes(packet, at + offset, option, sizeof(*option)))
			return 0;
		if (option->kind == ARRIVAL_KIND && option->length == sizeof(*option) &&
		    option->experiment == bpf_htons(ARRIVAL_EXPERIMENT))
			return at + offset;
	}
	return 0;
}

static __always_inline int write(struct __sk_buff *packet, __u32 at, __u32 arrival)
{
	arrival = bpf_htonl(arrival);
	bpf_skb_store_bytes(packet, at + OPTION_START, &arrival, sizeof(arrival), 0);
	return NEXT;
}

/* The receiver's clock is another one, which soon wraps. */
SEC("tc")
int shift(struct __sk_buff *packet)
{
	struct arrival_option option;
	__u32 at = find_option(packet, &option);
	__u32 arrival = bpf_ntohl(option.arrival);

	if (!at || !arrival)
		return NEXT;
	if (!shift_by)
		shift_by = BEFORE_WRAP - arrival;
	return write(packet, at, arrival + shift_by);
}

/* Its clock has stopped. */
SEC("tc")
int freeze(struct __sk_buff *packet)
{
	struct arrival_option option;
	__u32 at = find_option(packet, &option);

	return at ? write(packet, at, 1000000) : NEXT;
}

/* A box that puts padding in place of options that it does not know. */
SEC("tc")
int blank(struct __sk_buff *packet)
{
	struct arrival_option option;
	__u32 at = find_option(packet, &option);

	if (!at)
		return NEXT;
	__builtin_memset(&option, PADDING, sizeof(option));
	bpf_skb_store_bytes(packet, at, &option, sizeof(option), 0);
	return NEXT;
}

/* Loses one packet of data in a hundred. */
SEC("tc")
int lose(struct __sk_buff *packet)
{
	if (packet->len < MIN_DATA || __sync_fetch_and_add(&packets, 1) % PERIOD != PERIOD - 1)
		return NEXT;
	return DROP;
}

/* One byte of the option is another one. */
SEC("tc")
int garble(struct __sk_buff *packet)
{
	struct arrival_option option;
	__u32 at = find_option(packet, &option);
	__u32 random = bpf_get_prandom_u32();
	__u8 byte = random >> 8;

	if (at)
		bpf_skb_store_bytes(packet, at + random % sizeof(option), &byte, 1, 0);
	return NEXT;
}

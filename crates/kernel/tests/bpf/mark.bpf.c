// SPDX-License-Identifier: GPL-2.0-only
/* A link that marks every ECN-capable packet. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

#define TC_ACT_OK 0

struct __sk_buff;

char gpl[] SEC("license") = "GPL";

SEC("tc")
int mark(struct __sk_buff *packet)
{
	bpf_skb_ecn_set_ce(packet);
	return TC_ACT_OK;
}

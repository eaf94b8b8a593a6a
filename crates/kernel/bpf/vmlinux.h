/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel types that the controllers use. The loader takes offsets and sizes from the running kernel
 * (preserve_access_index), so members need not be in the kernel's order; names and types must match.
 */
#ifndef HEADWAY_VMLINUX_H
#define HEADWAY_VMLINUX_H

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef _Bool bool;

/* The kernel's value for "no ssthresh yet". */
#define TCP_INFINITE_SSTHRESH 0x7fffffff

enum bpf_map_type {
	BPF_MAP_TYPE_RINGBUF = 27,
};

/* The events passed to cwnd_event. */
enum tcp_ca_event {
	CA_EVENT_TX_START = 0,
	CA_EVENT_ECN_NO_CE = 4,
	CA_EVENT_ECN_IS_CE = 5,
};

/* The states passed to set_state. */
enum tcp_ca_state {
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

enum sk_pacing {
	SK_PACING_NONE = 0,
	SK_PACING_NEEDED = 1,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	__be16 skc_dport;
	__u16 skc_num;
};

struct sock {
	struct sock_common __sk_common;
	u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	__u32 icsk_rto;
	__u8 icsk_ca_state : 5;
	struct {
		__u8 pending;
	} icsk_ack;
	u64 icsk_ca_priv[13];
};

struct minmax_sample {
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 mss_cache;
	u32 snd_cwnd;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 snd_una;
	u32 snd_nxt;
	u32 rcv_nxt;
	u32 packets_out;
	u32 sacked_out;
	u32 lost_out;
	u32 retrans_out;
	u32 delivered_ce;
	u32 max_packets_out;
	u32 srtt_us;
	struct minmax rtt_min;
	u32 lsndtime;
	u8 ecn_flags;
	u8 is_cwnd_limited : 1;
};

struct rate_sample {
	long rtt_us;
	u32 acked_sacked;
	u32 prior_in_flight;
	bool is_app_limited;
	bool is_ack_delayed;
};

#pragma clang attribute pop

/* The operations that the controllers here and in tests implement; libbpf maps them to the kernel's own struct. */
struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	char name[16];
	u32 flags;
};

#endif

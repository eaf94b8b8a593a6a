/* SPDX-License-Identifier: GPL-2.0-only */
/* Telemetry: a record of every ACK, if enabled. */
#ifndef HEADWAY_TELEMETRY_BPF_H
#define HEADWAY_TELEMETRY_BPF_H

/* Whether to record every ACK. */
const volatile u32 telemetry SEC(".rodata.telemetry") = 0;

/* The loader enlarges it when telemetry is on. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} records SEC(".maps");

static __always_inline void record(struct sock *sk, const struct ls_ack *ack)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u16 peer = sk->__sk_common.skc_dport;
	struct hw_record *r;

	if (!telemetry)
		return;
	r = bpf_ringbuf_reserve(&records, sizeof(*r), 0);
	if (!r) {
		COUNT(records_lost, 1);
		return;
	}
	r->time = bpf_ktime_get_ns();
	algorithm_record(&connection(sk)->algorithm, r);
	r->rtt_loss = (tp->srtt_us >> 3) * NSEC_PER_USEC;
	r->pacing_rate = sk->sk_pacing_rate;
	r->cwnd = tp->snd_cwnd;
	r->acked = ack->acked;
	r->marked = ack->marked;
	r->local_port = sk->__sk_common.skc_num;
	r->peer_port = __builtin_bswap16(peer);
	bpf_ringbuf_submit(r, 0);
}

#endif

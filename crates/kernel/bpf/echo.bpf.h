/* SPDX-License-Identifier: GPL-2.0-only */
/* DCTCP's receiver: each ACK covers only marked or only unmarked segments (RFC 8257 3.2, ls-aimd 2.17). */
#ifndef HEADWAY_ECHO_BPF_H
#define HEADWAY_ECHO_BPF_H

/* Bits of icsk_ack.pending: an ACK is being delayed; an ACK must leave now. */
#define ICSK_ACK_TIMER 2
#define ICSK_ACK_NOW 16
/* Bit of ecn_flags: ACKs carry ECE. */
#define TCP_ECN_DEMAND_CWR 4

static __always_inline void say(struct tcp_sock *tp, u32 ce)
{
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

/* Handles an arriving segment, marked or not, before it is counted as received. */
static __always_inline void echo(struct sock *sk, u32 ce)
{
	struct inet_connection_sock *icsk = inet_csk(sk);
	struct connection *c = connection(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	if (c->ce != ce) {
		if (icsk->icsk_ack.pending & ICSK_ACK_TIMER) {
			say(tp, c->ce);
			bpf_tcp_send_ack(tp, c->rcv_nxt);
		}
		icsk->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	c->rcv_nxt = tp->rcv_nxt;
	c->ce = ce;
	say(tp, ce);
}

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The operations of AIMD for TCP, with the engine: to be included behind an algorithm, with
 * ALGORITHM defined as LS_RENO or LS_DCTCP and NAME as the name of the controller.
 */
#ifndef HEADWAY_AIMD_OPS_BPF_H
#define HEADWAY_AIMD_OPS_BPF_H

/*
 * A queue for DCTCP may drop packets that are not ECN-capable, so SYNs must be ECN-capable, too.
 * Reno uses classic ECN, if net.ipv4.tcp_ecn or a route requests it: a peer would refuse ECN to an
 * ECN-capable SYN (RFC 3168 6.1.1).
 */
#define FLAGS (ALGORITHM == LS_DCTCP ? TCP_CONG_NEEDS_ECN : 0)

#include "engine.bpf.h"
#include "echo.bpf.h"

#define QUOTED(name) #name
#define NAME_OF(name) QUOTED(name)

/*
 * As a receiver, Reno leaves the echo to the kernel, which sends ECE until the sender confirms a
 * reduction with CWR (RFC 3168).
 */
SEC("struct_ops")
void BPF_PROG(hw_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		after_idle(sk);
	else if (ALGORITHM == LS_DCTCP && (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE))
		echo(sk, event == CA_EVENT_ECN_IS_CE);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops NAME = {
	.init = (void *)hw_init,
	.release = (void *)hw_release,
	.cong_control = (void *)hw_cong_control,
	.set_state = (void *)hw_set_state,
	.cwnd_event = (void *)hw_cwnd_event,
	.ssthresh = (void *)hw_ssthresh,
	.undo_cwnd = (void *)hw_undo_cwnd,
	.flags = FLAGS,
	.name = NAME_OF(NAME),
};

#endif

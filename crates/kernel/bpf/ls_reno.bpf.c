// SPDX-License-Identifier: GPL-2.0-only
/* LS-AIMD Reno: halves the window at the first mark of a round, down to a few bytes. */
#define ALGORITHM LS_RENO
/* Classic ECN, if net.ipv4.tcp_ecn or a route requests it. A peer would refuse ECN to an ECN-capable SYN (RFC
 * 3168 6.1.1). */
#define FLAGS 0

#include "ls.bpf.h"
#include "engine.bpf.h"

/* As a receiver it leaves the echo to the kernel, which sends ECE until the sender confirms a reduction with
 * CWR (RFC 3168). */
SEC("struct_ops")
void BPF_PROG(hw_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		after_idle(sk);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops ls_reno = {
	.init = (void *)hw_init,
	.release = (void *)hw_release,
	.cong_control = (void *)hw_cong_control,
	.set_state = (void *)hw_set_state,
	.cwnd_event = (void *)hw_cwnd_event,
	.ssthresh = (void *)hw_ssthresh,
	.undo_cwnd = (void *)hw_undo_cwnd,
	.flags = FLAGS,
	.name = "ls_reno",
};

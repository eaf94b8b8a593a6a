// SPDX-License-Identifier: GPL-2.0-only
/* LS-AIMD DCTCP: reduces by the fraction of marked segments, with windows down to a few bytes. */
#define ALGORITHM LS_DCTCP
/* A queue for DCTCP may drop packets that are not ECN-capable, so SYNs must be ECN-capable, too. */
#define FLAGS TCP_CONG_NEEDS_ECN

#include "ls.bpf.h"
#include "engine.bpf.h"
#include "echo.bpf.h"

SEC("struct_ops")
void BPF_PROG(hw_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	if (event == CA_EVENT_TX_START)
		after_idle(sk);
	else if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		echo(sk, event == CA_EVENT_ECN_IS_CE);
}

SEC(".struct_ops.link")
struct tcp_congestion_ops ls_dctcp = {
	.init = (void *)hw_init,
	.release = (void *)hw_release,
	.cong_control = (void *)hw_cong_control,
	.set_state = (void *)hw_set_state,
	.cwnd_event = (void *)hw_cwnd_event,
	.ssthresh = (void *)hw_ssthresh,
	.undo_cwnd = (void *)hw_undo_cwnd,
	.flags = FLAGS,
	.name = "ls_dctcp",
};

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* The interface between the programs and their loader (src/telemetry.rs has the same in Rust). */
#ifndef HEADWAY_INTF_H
#define HEADWAY_INTF_H

/* Telemetry of one ACK; windows are in Q9 bytes, times in ns. */
struct hw_record {
	unsigned long long time;
	/* W and S; all bits set before the first reduction. */
	unsigned long long window;
	unsigned long long ssthresh;
	/* The newest-segment RTT that sets the pace, and the kernel's own, which sets its timers. */
	unsigned long long rtt_pace;
	unsigned long long rtt_loss;
	/* In bytes per second; all bits set when the connection is not paced. */
	unsigned long long pacing_rate;
	/* Increase per round trip in Q9 bytes, before scaling by C; C in units of 2^-16; alpha
	 * in units of 2^-20. */
	unsigned int add;
	unsigned int scale;
	unsigned int alpha;
	unsigned int cwnd;
	/* Segments acknowledged, and the marked ones among them. */
	unsigned int acked;
	unsigned int marked;
	unsigned short local_port;
	unsigned short peer_port;
	/* Whether the window is below `delta` segments. */
	unsigned int submss;
};

/* Totals over all connections since the controller was loaded. */
struct hw_counters {
	/* Connections opened; those closed since; those that lacked the ECN they need and were
	 * switched to Reno. */
	unsigned long long connections;
	unsigned long long closed;
	unsigned long long fallbacks_to_reno;
	/* Segments reported as marked. */
	unsigned long long marked;
	/* Reductions for marks and for losses; timeouts; reductions for losses or timeouts
	 * that were undone. */
	unsigned long long mark_cuts;
	unsigned long long loss_cuts;
	unsigned long long timeouts;
	unsigned long long spurious_undone;
	/* How often a window fell below `delta` segments. */
	unsigned long long below_delta;
	/* Records lost because the telemetry buffer was full. */
	unsigned long long records_lost;
};

#endif

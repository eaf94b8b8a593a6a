/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the programs and their loader both know (src/telemetry.rs says it in Rust). */
#ifndef HEADWAY_INTF_H
#define HEADWAY_INTF_H

/* One acknowledgement, as telemetry reports it; windows are in Q9 bytes, times in ns. */
struct hw_record {
	unsigned long long time;
	/* W and S; all bits set before the first reduction. */
	unsigned long long window;
	unsigned long long ssthresh;
	/* Newest-segment estimate that paces, and the kernel's own, which sets its timers. */
	unsigned long long rtt_pace;
	unsigned long long rtt_loss;
	/* Bytes a second, all bits set when nothing is paced. */
	unsigned long long pacing_rate;
	/* Increase a round trip, Q9 bytes, without C; C in units of 2^-16; alpha in units of 2^-20. */
	unsigned int add;
	unsigned int scale;
	unsigned int alpha;
	unsigned int cwnd;
	/* Segments acknowledged, and those of them that were marked. */
	unsigned int acked;
	unsigned int marked;
	unsigned short local_port;
	unsigned short peer_port;
	/* Whether the window is below `delta` segments. */
	unsigned int submss;
};

/* What happened since the controller was loaded, in all its connections. */
struct hw_counters {
	/* Connections that came, those of them that left, and those that came without the ECN they need and were given to Reno. */
	unsigned long long connections;
	unsigned long long closed;
	unsigned long long without_ecn;
	/* Segments reported as marked. */
	unsigned long long marked;
	/* Reductions after a mark and after losses, timeouts, and reductions after either that were taken back. */
	unsigned long long mark_cuts;
	unsigned long long loss_cuts;
	unsigned long long timeouts;
	unsigned long long undone;
	/* How often a connection went below `delta` segments. */
	unsigned long long submss_entries;
	/* Records that telemetry had no room for. */
	unsigned long long records_lost;
};

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The laws of explicit routers, their parameters and the ranges of these (xcp-rcp 1.7, 2).
 * Units as in explicit.h.
 */
#ifndef HEADWAY_EXPLICIT_CONFIG_H
#define HEADWAY_EXPLICIT_CONFIG_H

#include "numbers.h"
#include "wide.h"

/* Fraction bits of rates in B/s, of queues in B and of parameters without a unit. Queues with 8 would miss
 * averages near zero by more than 2^-16 of themselves (2.15). */
#define EXPLICIT_BITS 16
#define EXPLICIT_ONE (1U << EXPLICIT_BITS)
/* Largest rate in B/s (8.8 Tb/s) and largest queue in B: 2^56 with the fraction, so sums of some
 * fit into 64 bits. */
#define EXPLICIT_LARGEST (1ULL << 40)
/* Every term of the feedback is cut off here, in B/s with the fraction: sums of four fit
 * into a signed number. */
#define EXPLICIT_LARGEST_TERM (1ULL << 60)
/* Fraction bits of RTT and X in the header, in s (1.4). */
#define EXPLICIT_TIME_BITS 28
/* Longest control interval in ns, and the longest RTT that a router believes: 1 s (1.7). */
#define EXPLICIT_LONGEST_INTERVAL 1000000000ULL
#define EXPLICIT_LONGEST_RTT (1U << EXPLICIT_TIME_BITS)
/* Shortest control interval that may be set, in ns: some packets of 100 Gb/s must fit. */
#define EXPLICIT_SHORTEST_INTERVAL 1000U
/*
 * First control interval and first average RTT: this many of the shortest interval, but at most this many ns,
 * which are those of the default of 5 ms; the interval is random within 20 % (2.6).
 */
#define EXPLICIT_FIRST_INTERVALS 10
#define EXPLICIT_FIRST_INTERVAL 50000000ULL
/* Largest n: 0.75^64 is 10^-8 (2.15). */
#define EXPLICIT_LARGEST_N 64U
/* Largest beta of the table of surge measures (2.13): 0.6. */
#define EXPLICIT_LARGEST_SURGE_BETA 39322U
/* Largest overhead, in B per packet. */
#define EXPLICIT_LARGEST_OVERHEAD 65535U
/* First rate of RCP without a capacity, in B/s: a packet of 1500 B in the first average RTT. */
#define EXPLICIT_FIRST_RATE 30000ULL

/* What computes the feedback or the rate of a queue. */
enum explicit_law {
	/* XCP, which knows the capacity (2.6). */
	EXPLICIT_XCP,
	/* XCP-b: the change of the queue and a target kappa in place of the capacity (2.8). */
	EXPLICIT_BLIND,
	/* XCP-b whose kappa follows the deviation of the queue (2.9). */
	EXPLICIT_KAPPA,
	/* ErrorS: XCP less the error of the capacity, which is integrated (2.10). */
	EXPLICIT_ERRORS,
	/* RCP, which knows the capacity (2.12). */
	EXPLICIT_RCP,
	/* RCP with the feedback of EXPLICIT_BLIND, EXPLICIT_KAPPA and EXPLICIT_ERRORS (F56). */
	EXPLICIT_RCP_BLIND,
	EXPLICIT_RCP_KAPPA,
	EXPLICIT_RCP_ERRORS,
	/* WXCP: what an 802.11 MAC has counted in place of the capacity (2.11). */
	EXPLICIT_WXCP,
	EXPLICIT_LAWS,
};

/* When a self-tuning kappa takes the link for under-utilised (2.9). */
enum explicit_detector {
	/* The queue is empty: D1 (equation 4.1). */
	EXPLICIT_EMPTY,
	/* It was empty for n intervals: D2 (equation 4.3). */
	EXPLICIT_EMPTY_FOR_N,
	/* The average queue is below tau kappa: D3 (equation 4.4). */
	EXPLICIT_LOW_AVERAGE,
	EXPLICIT_DETECTORS,
};

/* Run-time switches. */
enum explicit_flag {
	/* An interval grants no more than its feedback (2.7). */
	EXPLICIT_RESIDUES = 1,
	/* kappa and Qmax count packets, and so do the queues that they are compared with (2.9). */
	EXPLICIT_PACKETS = 2,
	/* RCP raises beta while the number of flows grows faster than its limit (2.13). */
	EXPLICIT_RAISE_BETA = 4,
	/* RCP grants new flows the smallest rate while it does (2.13). */
	EXPLICIT_ADMISSION = 8,
	/*
	 * The laws as published, each without one repair of this project. Laws that do not have
	 * it ignore the switch.
	 *
	 * ErrorS integrates the error of C also while senders do not use what it found (2.10).
	 */
	EXPLICIT_PUBLISHED_INTEGRATOR = 16,
	/* What found no room does not count as a change of the queue (equations 2.26 and 4.2). */
	EXPLICIT_PUBLISHED_DROPS = 32,
	/* RCP may fall to its smallest rate (equation 2.17). */
	EXPLICIT_PUBLISHED_FALL = 64,
	/* RCP's intervals and d are those of windows also where flows have less than a packet per
	 * RTT (equation 5.9). */
	EXPLICIT_PUBLISHED_INTERVALS = 128,
	/* RCP begins with C also after a law of XCP (2.12). */
	EXPLICIT_PUBLISHED_START = 256,
	/* RCP without a capacity moves R once in d, takes y / R for the number of flows, and ignores the
	 * growth of d (F56). */
	EXPLICIT_PUBLISHED_STEPS = 512,
	EXPLICIT_FLAGS = 1023,
};

/* Parameters; the ranges are those of explicit_check. */
struct explicit_config {
	/* Believed capacity C in B/s, 1 to EXPLICIT_LARGEST; 0 for unknown, except with XCP and RCP. */
	hw_u64 capacity;
	/* Rate of the interface in B/s, 1 to EXPLICIT_LARGEST: bounds R without a capacity, and the error
	 * that ErrorS finds. */
	hw_u64 line;
	/* Smallest R in B/s: 1 to C, or to the line rate without C. Far below C / N for N flows (2.12),
	 * but an overload may take R there, and a sender that is paced then waits for size / rate_min. */
	hw_u64 rate_min;
	/* kappa, or the smallest one where it tunes itself; in B, or packets with EXPLICIT_PACKETS. */
	hw_u64 kappa;
	/* Qmax, the same units; at least kappa where that tunes itself. */
	hw_u64 queue_max;
	/* d0 of surge measures, in ns: RTT without queues, 1 us to 1 s (2.13). */
	hw_u64 base_rtt;
	/* RCP's tau in ns: T = min(tau, d); 0 for T = d (2.14 in the thesis). */
	hw_u64 update_limit;
	/* Shortest control interval in ns, EXPLICIT_SHORTEST_INTERVAL to 1 s. */
	hw_u64 interval_min;
	/* One of enum explicit_law. */
	hw_u32 law;
	/* Of enum explicit_flag. */
	hw_u32 flags;
	/* Gains in units of 2^-16: 1 to 2^16, gamma and psi 0 to 2^16. */
	hw_u32 alpha;
	hw_u32 beta;
	hw_u32 gamma;
	hw_u32 psi;
	/* chi, at most 1 / (5 - alpha - beta); 0 for that (2.8). */
	hw_u32 chi;
	/* Weight of the newest queue where kappa tunes itself, 1 to 2^16. */
	hw_u32 rho;
	/* Share of kappa below which EXPLICIT_LOW_AVERAGE sees too short a queue, up to 2^16. */
	hw_u32 tau;
	/* Empty intervals before a link counts as under-utilised, 0 to EXPLICIT_LARGEST_N: tau
	 * of XCP-b is 0.75^n. */
	hw_u32 n;
	/* One of enum explicit_detector. */
	hw_u32 detector;
	/* Bytes that the link adds to each packet, up to 65535. */
	hw_u32 overhead;
};

/* The parameter that is out of its range. */
enum explicit_fault {
	EXPLICIT_NO_FAULT,
	EXPLICIT_BAD_LAW,
	EXPLICIT_BAD_FLAGS,
	EXPLICIT_BAD_CAPACITY,
	EXPLICIT_BAD_LINE,
	EXPLICIT_BAD_RATE_MIN,
	EXPLICIT_BAD_KAPPA,
	EXPLICIT_BAD_QUEUE_MAX,
	EXPLICIT_BAD_BASE_RTT,
	EXPLICIT_BAD_UPDATE_LIMIT,
	EXPLICIT_BAD_INTERVAL_MIN,
	EXPLICIT_BAD_ALPHA,
	EXPLICIT_BAD_BETA,
	EXPLICIT_BAD_GAMMA,
	EXPLICIT_BAD_PSI,
	EXPLICIT_BAD_CHI,
	EXPLICIT_BAD_RHO,
	EXPLICIT_BAD_TAU,
	EXPLICIT_BAD_N,
	EXPLICIT_BAD_DETECTOR,
	EXPLICIT_BAD_OVERHEAD,
};

/* Whether the law writes rates, so that its packets are those of RCP. */
HW_INLINE int explicit_is_rate(hw_u32 law)
{
	return law >= EXPLICIT_RCP && law <= EXPLICIT_RCP_ERRORS;
}

/* Whether the law writes rates without a capacity to go by (F56). */
HW_INLINE int explicit_is_blind_rate(hw_u32 law)
{
	return law > EXPLICIT_RCP && law <= EXPLICIT_RCP_ERRORS;
}

/* Whether R moves as often as the queue that it follows is measured, in steps for the flows that X counts. */
HW_INLINE int explicit_moves_often(const struct explicit_config *config)
{
	return explicit_is_blind_rate(config->law) && !(config->flags & EXPLICIT_PUBLISHED_STEPS);
}

/* Whether kappa follows the deviation of the queue. */
HW_INLINE int explicit_tunes(hw_u32 law)
{
	return law == EXPLICIT_KAPPA || law == EXPLICIT_ERRORS || law == EXPLICIT_RCP_KAPPA || law == EXPLICIT_RCP_ERRORS;
}

HW_INLINE int explicit_integrates(hw_u32 law)
{
	return law == EXPLICIT_ERRORS || law == EXPLICIT_RCP_ERRORS;
}

/* The bound of chi, 1 / (5 - alpha - beta), in units of 2^-16 rounded to the nearest. */
HW_INLINE hw_u32 explicit_chi(hw_u32 alpha, hw_u32 beta)
{
	return (hw_u32)hw_rounded_quotient((hw_u64)EXPLICIT_ONE << EXPLICIT_BITS, 5 * EXPLICIT_ONE - alpha - beta);
}

/* The largest R. */
HW_INLINE hw_u64 explicit_rate_max(const struct explicit_config *config)
{
	return config->law == EXPLICIT_RCP ? config->capacity : config->line;
}

HW_INLINE int explicit_within(hw_u64 value, hw_u64 low, hw_u64 high)
{
	return value >= low && value <= high;
}

HW_INLINE hw_u32 explicit_check_sizes(const struct explicit_config *config)
{
	const hw_u64 needs_capacity = config->law == EXPLICIT_XCP || config->law == EXPLICIT_RCP;

	if (!explicit_within(config->capacity, needs_capacity, EXPLICIT_LARGEST))
		return EXPLICIT_BAD_CAPACITY;
	if (!explicit_within(config->line, 1, EXPLICIT_LARGEST))
		return EXPLICIT_BAD_LINE;
	if (explicit_is_rate(config->law) && !explicit_within(config->rate_min, 1, explicit_rate_max(config)))
		return EXPLICIT_BAD_RATE_MIN;
	if (config->kappa > (explicit_tunes(config->law) ? config->queue_max : EXPLICIT_LARGEST))
		return EXPLICIT_BAD_KAPPA;
	if (!explicit_within(config->queue_max, 1, EXPLICIT_LARGEST))
		return EXPLICIT_BAD_QUEUE_MAX;
	if (!explicit_within(config->base_rtt, 1000, EXPLICIT_LONGEST_INTERVAL))
		return EXPLICIT_BAD_BASE_RTT;
	if (config->update_limit && !explicit_within(config->update_limit, 1000, EXPLICIT_LONGEST_INTERVAL))
		return EXPLICIT_BAD_UPDATE_LIMIT;
	if (!explicit_within(config->interval_min, EXPLICIT_SHORTEST_INTERVAL, EXPLICIT_LONGEST_INTERVAL))
		return EXPLICIT_BAD_INTERVAL_MIN;
	return EXPLICIT_NO_FAULT;
}

HW_INLINE hw_u32 explicit_check_gains(const struct explicit_config *config)
{
	const hw_u32 beta_max = config->flags & EXPLICIT_RAISE_BETA ? EXPLICIT_LARGEST_SURGE_BETA : EXPLICIT_ONE;

	if (!explicit_within(config->alpha, 1, EXPLICIT_ONE))
		return EXPLICIT_BAD_ALPHA;
	if (!explicit_within(config->beta, 1, beta_max))
		return EXPLICIT_BAD_BETA;
	if (config->gamma > EXPLICIT_ONE)
		return EXPLICIT_BAD_GAMMA;
	if (config->psi > EXPLICIT_ONE)
		return EXPLICIT_BAD_PSI;
	if (config->chi > explicit_chi(config->alpha, config->beta))
		return EXPLICIT_BAD_CHI;
	if (!explicit_within(config->rho, 1, EXPLICIT_ONE))
		return EXPLICIT_BAD_RHO;
	if (config->tau > EXPLICIT_ONE)
		return EXPLICIT_BAD_TAU;
	if (config->n > EXPLICIT_LARGEST_N)
		return EXPLICIT_BAD_N;
	if (config->detector >= EXPLICIT_DETECTORS)
		return EXPLICIT_BAD_DETECTOR;
	if (config->overhead > EXPLICIT_LARGEST_OVERHEAD)
		return EXPLICIT_BAD_OVERHEAD;
	return EXPLICIT_NO_FAULT;
}

/* Returns the first parameter that is out of its range, one of enum explicit_fault. Surge
 * measures are RCP's. */
HW_INLINE hw_u32 explicit_check(const struct explicit_config *config)
{
	const hw_u32 surge = EXPLICIT_RAISE_BETA | EXPLICIT_ADMISSION;
	hw_u32 fault;

	if (config->law >= EXPLICIT_LAWS)
		return EXPLICIT_BAD_LAW;
	if (config->flags & ~(hw_u32)EXPLICIT_FLAGS || (config->flags & surge && config->law != EXPLICIT_RCP))
		return EXPLICIT_BAD_FLAGS;
	fault = explicit_check_sizes(config);
	return fault ? fault : explicit_check_gains(config);
}

/*
 * Returns the published parameters of a law for a capacity and an interface in B/s (1.7). kappa and Qmax are
 * those of 1.5 Mb/s with an RTT of 100 ms: 4 and 13 packets of 1500 B, and 50 for the buffer where kappa
 * tunes itself. RCP would fill that at its start.
 */
HW_INLINE struct explicit_config explicit_configure(hw_u32 law, hw_u64 capacity, hw_u64 line)
{
	struct explicit_config config = {
		.capacity = capacity,
		.line = line,
		.rate_min = 100,
		.kappa = 6000,
		.queue_max = law == EXPLICIT_KAPPA ? 75000 : 20000,
		.base_rtt = 100000000,
		.interval_min = 5000000,
		.law = law,
		.flags = EXPLICIT_RESIDUES,
		/* 0.4, 0.226, 0.1, 0.15, 0.22 and 0.225. */
		.alpha = 26214,
		.beta = 14811,
		.gamma = 6554,
		.psi = 9830,
		.rho = 14418,
		.tau = 14746,
		.n = 6,
		.detector = EXPLICIT_LOW_AVERAGE,
		.overhead = 0,
	};

	if (explicit_integrates(law)) {
		/* 0.6 and 0.2 (2.10). */
		config.alpha = 39322;
		config.beta = 13107;
	} else if (law == EXPLICIT_WXCP) {
		/* 0.2 and 0.1 (2.11). */
		config.alpha = 13107;
		config.beta = 6554;
	}
	return config;
}

#endif

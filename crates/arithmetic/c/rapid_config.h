/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The configuration of TCP Rapid's sender: parameters with their ranges, and the published presets (rapid
 * 2.12). Units as in rapid.h.
 */
#ifndef HEADWAY_RAPID_CONFIG_H
#define HEADWAY_RAPID_CONFIG_H

#include "bass.h"
#include "excursion.h"
#include "numbers.h"
#include "rapid_schedule.h"

/* Fraction bits of kd; 1/3 is exact to 2e-5. */
#define RAPID_GAIN_BITS 16
#define RAPID_GAIN_ONE (1U << RAPID_GAIN_BITS)
/* Fraction bits of l / tau: at 400 Gb/s, 64 packets of 1538 B take 1/25000 of 50 ms, which is then exact to
 * 0.1 %. A rate of 39 bits times 24 bits just fits. */
#define RAPID_WEIGHT_BITS 24
/* Largest tau, in ns: 34 s. l < tau with 24 more bits is below 2^59. */
#define RAPID_MAX_TAU (1ULL << 35)
/* Most estimates per update; 1 to 4 were tried (1.6). */
#define RAPID_MAX_GAMMA 64
/* Coarsest unit of stamps, in ns: the milliseconds of plain TCP timestamps. */
#define RAPID_MAX_UNIT 1000000U
/* Fewest gaps that an estimate needs after the removal of cut-off events (2.9). */
#define RAPID_MIN_SAMPLES 8
/* Most smoothing passes over a stream; a staircase of rises need not come to rest (2.10). */
#define RAPID_MAX_PASSES 16
/* Start-up (2.14): p-streams of 4 x 4 packets with s = 2, so that the highest rate is 3.75 R_avg, and longer
 * ones where the receiver coalesces. The first one has 20 packets per RTT, as Linux paces its first window of
 * 10, and those until its answer half of that. */
#define RAPID_START_RATES 4
#define RAPID_START_PACKETS 4
#define RAPID_START_RATIO RAPID_MIN_RATIO
#define RAPID_START_WINDOW 10
/* Of the falls of R_avg in start-up, this one ends it. */
#define RAPID_START_FALLS 2
/* With RAPID_REOPEN no fall goes below this many packets per RTT, the window of TCP after losses. */
#define RAPID_MIN_WINDOW 2
/* Estimates that exceed their streams' averages by one part in this many are a rise: more than what cross traffic
 * between packets does to a mean of some streams. */
#define RAPID_START_RISE 8
/* Most packets at a rate in start-up. */
#define RAPID_MAX_START_PACKETS (RAPID_MAX_PACKETS / RAPID_START_RATES)
/* A queue shorter than this is none, in ns: at 10 Gb/s 14 packets, the bursts of smooth cross traffic. */
#define RAPID_SHORT_QUEUE 100000ULL
/* Nor is one of fewer packets at R_avg. So of flows that share a queue, the fastest drain it first. */
#define RAPID_SHORT_QUEUE_PACKETS 12
/* A standing queue is drained in so many ns, or in an RTT if that is shorter. */
#define RAPID_DRAIN_TIME 3000000ULL
/* R_avg falls for a queue once per RTT, and by a share that is proportional to the RTT, so that
 * flows with different RTTs fall equally fast. With this RTT, the testbed's (4.0), the share is as
 * said with each fall. */
#define RAPID_USUAL_RTT 30000000ULL
/* The longest queue that no fall of R_avg answers with RAPID_SLOW_FALL, in ns. At 10 Gb/s the last packet
 * before an interrupt waits for it for up to 7 us, which looks like a queue. */
#define RAPID_NO_QUEUE 10000ULL
/* If more than one packet in this many is lost, the path is congested whatever delays say: its buffer may be
 * shorter than what delays show. */
#define RAPID_MUCH_LOSS 16
/* Counted over this many packets, or half of them. */
#define RAPID_JUDGED_PACKETS 1024
/* With RAPID_REOPEN, R_avg becomes the mean of a round of so many estimates at least if that exceeds it
 * by more than one part in this many: with coalescing, estimates of streams far below what is free exceed
 * R_avg by a tenth. */
#define RAPID_ROUND_STREAMS 8
#define RAPID_MUCH_FREE 16
/* And by more than this many mean distances of rounds, because bursts of cross traffic
 * are no new capacity. */
#define RAPID_DEVIATIONS 3
/* What the published thresholds are made for: packets of 9038 B at 10 Gb/s, 7.23 us (2.10). */
#define RAPID_USUAL_PACKET 9038U
#define RAPID_USUAL_RATE 10000000000ULL

/* Run-time switches. */
enum rapid_flag {
	/* No BASS, only the moving average: the variant V4 (2.25). It smooths both arrays as in 2.10,
	 * although the thesis mentions only the receive gaps here. */
	RAPID_WINDOW_ONLY = 1,
	/* Starts with RAPID_MIN_RATE and whole p-streams, as published, not with start-up (2.14). */
	RAPID_LITERAL_START = 2,
	/* l is the time of all gamma p-streams, not of one (2.12). */
	RAPID_TOTAL_LENGTH = 4,
	/* R_avg does not fall when none of the gamma streams saw an excursion: they are older
	 * than R_avg (2.12). */
	RAPID_NO_CENSORED_FALL = 8,
	/* Losses cut R_avg only if packets queued, and a standing queue is drained. */
	RAPID_WATCH_QUEUE = 16,
	/* R_avg becomes what a round of streams showed at once if that is much more, and a fall far below
	 * ends in start-up. */
	RAPID_REOPEN = 32,
	/* Spikes are looked for in what the path adds to the gaps. */
	RAPID_RELATIVE = 64,
	/* R_avg falls as slowly as it rises while no packets queue. */
	RAPID_SLOW_FALL = 128,
	/* Starts with the line rate and whole p-streams: what a sender does that found it free. */
	RAPID_LINE_START = 256,
};

/* The published settings (2.12). */
enum rapid_preset {
	/* tau 50 ms, kd 1/4: few losses. */
	RAPID_DEFAULT,
	/* tau 10 ms, kd 1/3. */
	RAPID_AGGRESSIVE,
};

/* Configuration; the ranges are those of rapid_config_bound. */
struct rapid_config {
	/* Line rate of the sender C, in bit/s: RAPID_MIN_RATE to RAPID_MAX_RATE. No estimate and
	 * no R_avg is above. */
	hw_u64 line;
	/* Time constant of the increase, in ns: 1 to RAPID_MAX_TAU. */
	hw_u64 tau;
	/* The distance of the receiver's interrupts, in ns, up to 1 s; 0 for a receiver that
	 * does not coalesce. */
	hw_u64 coalescing;
	/* Bytes of a full packet on the wire, 64 to RAPID_MAX_PACKET: IP packet and 38 B of Ethernet. */
	hw_u32 packet;
	/* Streams once start-up is over. */
	struct rapid_shape shape;
	/* Estimates per update, 1 to RAPID_MAX_GAMMA. */
	hw_u32 gamma;
	/* Share of the excess taken away by an update, in units of 2^-16, 1 to RAPID_GAIN_ONE: "eta" of the
	 * thesis' tables, and 1 / eta of its formula (2.12). */
	hw_u32 kd;
	/* Thresholds of the passes, up to 2^31 ns: against interrupt coalescing, bursty cross
	 * traffic, smoother one. */
	struct bass_thresholds coarse;
	struct bass_thresholds medium;
	struct bass_thresholds fine;
	/* Window of the moving average, in gaps, 1 (none) to RAPID_MAX_PACKETS: N_p. In
	 * start-up at most its N_p. */
	hw_u32 window;
	/* Margin up to 2^31 ns, relative one up to 2^20. */
	struct excursion_settings excursion;
	/* Unit of stamps, in ns, 1 to RAPID_MAX_UNIT. */
	hw_u32 unit;
	/* Of enum rapid_flag. */
	hw_u32 flags;
};

/* Initial values of programs whose loader sets others: the published settings, with all repairs, for a link
 * of `line_` bit/s and packets of `packet_` bytes, and thresholds for the usual ones. */
#define RAPID_INITIAL_CONFIG(line_, packet_) { \
	.line = (line_), \
	.tau = 50000000, \
	.coalescing = 120000, \
	.packet = (packet_), \
	.shape = { .rates = 4, .packets = 16, .ratio = RAPID_RATIO }, \
	.gamma = 3, \
	.kd = RAPID_GAIN_ONE / 4, \
	.coarse = { .up = 20000, .down = 10000 }, \
	.medium = { .up = 5000, .down = 4000 }, \
	.fine = { .up = 2000, .down = 1000 }, \
	.window = 16, \
	.excursion = { .margin = 100, .relative = 20972, .min_length = 4 }, \
	.unit = 1000, \
	.flags = RAPID_NO_CENSORED_FALL | RAPID_WATCH_QUEUE | RAPID_REOPEN | RAPID_RELATIVE | RAPID_SLOW_FALL, \
}

/* `ns`, at most 20 us, times kappa: the time of a packet of `packet` bytes at `narrow` over 7.23 us (2.10).
 * 15 bits of ns, 17 of bytes and 34 of rate: 20000 times 65573 times 10^10 is below 2^63.6. */
HW_INLINE hw_u32 rapid_scaled(hw_u64 ns, hw_u32 packet, hw_u64 narrow)
{
	const hw_u64 usual = RAPID_USUAL_PACKET * narrow;

	return (hw_u32)hw_min((ns * packet * RAPID_USUAL_RATE + usual / 2) / usual, 1U << 31);
}

HW_INLINE hw_u64 rapid_clamp(hw_u64 value, hw_u64 low, hw_u64 high)
{
	return hw_min(hw_max(value, low), high);
}

HW_INLINE void rapid_bound_thresholds(struct bass_thresholds *thresholds)
{
	thresholds->up = (hw_u32)hw_min(thresholds->up, 1U << 31);
	thresholds->down = (hw_u32)hw_min(thresholds->down, 1U << 31);
}

/* Puts every number of a configuration into its range. */
HW_INLINE void rapid_config_bound(struct rapid_config *config)
{
	config->line = rapid_clamp(config->line, RAPID_MIN_RATE, RAPID_MAX_RATE);
	config->tau = rapid_clamp(config->tau, 1, RAPID_MAX_TAU);
	config->coalescing = hw_min(config->coalescing, 1000000000);
	config->packet = (hw_u32)rapid_clamp(config->packet, 64, RAPID_MAX_PACKET);
	config->shape.rates = (hw_u32)rapid_clamp(config->shape.rates, 1, RAPID_MAX_RATES);
	config->shape.packets = (hw_u32)rapid_clamp(config->shape.packets, 1, RAPID_MAX_PACKETS / config->shape.rates);
	config->shape.ratio = (hw_u32)rapid_clamp(config->shape.ratio, RAPID_MIN_RATIO, RAPID_RATIO_ONE);
	config->gamma = (hw_u32)rapid_clamp(config->gamma, 1, RAPID_MAX_GAMMA);
	config->kd = (hw_u32)rapid_clamp(config->kd, 1, RAPID_GAIN_ONE);
	rapid_bound_thresholds(&config->coarse);
	rapid_bound_thresholds(&config->medium);
	rapid_bound_thresholds(&config->fine);
	config->window = (hw_u32)rapid_clamp(config->window, 1, RAPID_MAX_PACKETS);
	config->excursion.margin = (hw_u32)hw_min(config->excursion.margin, 1U << 31);
	config->excursion.relative = (hw_u32)hw_min(config->excursion.relative, 1U << EXCURSION_FRACTION_BITS);
	config->excursion.min_length = (hw_u32)rapid_clamp(config->excursion.min_length, 1, RAPID_MAX_PACKETS);
	config->unit = (hw_u32)rapid_clamp(config->unit, 1, RAPID_MAX_UNIT);
}

/*
 * Returns the published configuration for a sender with a link of `line` bit/s, packets of `packet` bytes,
 * and a narrow link of `narrow` bit/s, with whose packet time the thresholds in time scale.
 */
HW_INLINE struct rapid_config rapid_configure(hw_u32 preset, hw_u64 line, hw_u32 packet, hw_u64 narrow)
{
	struct rapid_config config = {
		.line = line,
		.tau = preset == RAPID_AGGRESSIVE ? 10000000 : 50000000,
		/* The NIC of the testbed (2.15). It does not depend on the speed of links. */
		.coalescing = 120000,
		.packet = packet,
		.shape = { .rates = 4, .packets = 16, .ratio = RAPID_RATIO },
		.gamma = 3,
		.kd = preset == RAPID_AGGRESSIVE ? RAPID_GAIN_ONE / 3 : RAPID_GAIN_ONE / 4,
		.window = 16,
		/* Of a closed loop: with long gaps, 100 ns alone are less than the jitter
		 * of stamps (2.11). */
		.excursion = { .relative = 20972, .min_length = 4 },
		.unit = 1000,
	};

	rapid_config_bound(&config);
	narrow = rapid_clamp(narrow, RAPID_MIN_RATE, RAPID_MAX_RATE);
	config.coarse.up = rapid_scaled(20000, config.packet, narrow);
	config.coarse.down = rapid_scaled(10000, config.packet, narrow);
	config.medium.up = rapid_scaled(5000, config.packet, narrow);
	config.medium.down = rapid_scaled(4000, config.packet, narrow);
	config.fine.up = rapid_scaled(2000, config.packet, narrow);
	config.fine.down = rapid_scaled(1000, config.packet, narrow);
	config.excursion.margin = rapid_scaled(100, config.packet, narrow);
	return config;
}

#endif

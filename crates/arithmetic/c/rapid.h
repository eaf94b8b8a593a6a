/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * TCP Rapid's sender (Q. Yin, TCP RAPID: From Theory to Practice, Chapel Hill, 2017): every packet is a probe of the
 * available bandwidth.
 *
 * In a nutshell:
 *   - Packets leave in p-streams of N = N_r N_p = 4 x 16 with gaps P / R_k at rates R_1 .. R_4 that rise by s = 1.15
 *     and average to R_avg (rapid_schedule.h).
 *   - ACKs carry arrival times. Those of a complete p-stream become N send gaps g_s and receive gaps g_r
 *     (rapid_acks.h). Losses, tails and missing packets leave holes; a stream with a hole yields nothing.
 *   - Three kinds of smoothing passes undo interrupt coalescing and bursts of cross traffic, then a moving average over
 *     N_p gaps (bass.h).
 *   - The estimate A is the rate from which on g_r > g_s (excursion.h), at most the line rate.
 *   - Every gamma = 3 estimates move R_avg towards their mean, with l the time of one p-stream:
 *
 *         R_avg += min(1, l / tau) (A - R_avg)  if A >= R_avg     within tau
 *         R_avg -= kd (R_avg - A)               otherwise         within 1 / kd updates
 *
 *   - R_avg falls by a quarter once per loss episode, when the episode ends.
 *
 *                  an estimate with an excursion, a loss or a timeout,
 *                  or packets closer than the receiver's interrupts
 *     +-----------+ -----------------------------------------------> +--------------+
 *     | START-UP: |                                                  | STEADY:      |
 *     | R_avg = A |                                                  | gamma, tau,  |
 *     | 4 x 4,    |       +-- a loss or a timeout ------------------ | kd; 4 x 16,  |
 *     | s = 2     |       v                                          | s = 1.15     |
 *     +-----------+   +-------------------------+  R_avg *= 3/4  +-->|              |
 *          ^          | in RECOVERY, still with | ---------------+   +--------------+
 *          |          | estimates; the timeout  |                        ^     ^
 *       RAPID_FAST    | discards those of older |  spurious: no cut      |     |
 *                     | streams                 | -----------------------+     |
 *                     +-------------------------+             with RAPID_LITERAL_START
 *
 * Units: rates in bit/s of all bytes on the wire, up to RAPID_MAX_RATE = 2^39 (550 Gb/s); times in ns; shares in
 * powers of two that are said with each. All numbers are unsigned, and rapid_config_bound puts a configuration into
 * the ranges with which no sum or product overflows. No function allocates. Numbers in comments such as "2.12" are
 * sections of the specification.
 */
#ifndef HEADWAY_RAPID_H
#define HEADWAY_RAPID_H

#include "bass.h"
#include "excursion.h"
#include "numbers.h"
#include "rapid_acks.h"
#include "rapid_gaps.h"
#include "rapid_schedule.h"

/* Fraction bits of kd; 1/3 is exact to 2e-5. */
#define RAPID_GAIN_BITS 16
#define RAPID_GAIN_ONE (1U << RAPID_GAIN_BITS)
/* Fraction bits of l / tau: at 400 Gb/s, 64 packets of 1538 B take 1/25000 of 50 ms, which is then exact to 0.1 %.
 * A rate of 39 bits times 24 bits just fits. */
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
/* Start-up (2.14): p-streams of 4 x 4 packets with s = 2, so that the highest rate is 3.75 R_avg; the first R_avg is 10
 * packets per RTT. */
#define RAPID_START_RATES 4
#define RAPID_START_PACKETS 4
#define RAPID_START_RATIO RAPID_MIN_RATIO
#define RAPID_START_WINDOW 10
/* What the published thresholds are made for: packets of 9038 B at 10 Gb/s, 7.23 us (2.10). */
#define RAPID_USUAL_PACKET 9038U
#define RAPID_USUAL_RATE 10000000000ULL

/* Run-time switches. */
enum rapid_flag {
	/* V1: the host makes gaps with timers, not with filler frames. Not used here. */
	RAPID_TIMER_GAPS = 1,
	/* V3: the receiver stamps when it sends the ACK, not when the packet arrives. Not used here. */
	RAPID_ACK_STAMPS = 2,
	/* V4: no BASS, only the moving average. It smooths both arrays as in 2.10, although the thesis mentions only
	 * the receive gaps here. */
	RAPID_WINDOW_ONLY = 4,
	/* Starts with RAPID_MIN_RATE and whole p-streams, as published, not with start-up (2.14). */
	RAPID_LITERAL_START = 8,
	/* l is the time of all gamma p-streams, not of one (2.12). */
	RAPID_TOTAL_LENGTH = 16,
	/* R_avg does not fall when none of the gamma streams saw an excursion: they are older than R_avg (2.12). */
	RAPID_NO_CENSORED_FALL = 32,
};

/* The published settings (2.12) and the variants of the ablation study (2.25). */
enum rapid_preset {
	/* tau 50 ms, kd 1/4: few losses. */
	RAPID_DEFAULT,
	/* tau 10 ms, kd 1/3. */
	RAPID_AGGRESSIVE,
};

enum rapid_variant {
	RAPID_FULL,
	RAPID_V1,
	RAPID_V2,
	RAPID_V3,
	RAPID_V4,
	/* gamma 1 with 64 and with 192 packets. */
	RAPID_V5_64,
	RAPID_V5_192,
};

/* Configuration; the ranges are those of rapid_config_bound. */
struct rapid_config {
	/* Line rate of the sender C, in bit/s: RAPID_MIN_RATE to RAPID_MAX_RATE. No estimate and no R_avg is above. */
	hw_u64 line;
	/* Time constant of the increase, in ns: 1 to RAPID_MAX_TAU. */
	hw_u64 tau;
	/* Start-up ends when packets are closer than this, in ns: the receiver's interrupt delay, behind which streams
	 * of 16 packets show nothing. 0 for a receiver that does not coalesce. */
	hw_u64 coalescing;
	/* Bytes of a full packet on the wire, 64 to RAPID_MAX_PACKET: IP packet and 38 B of Ethernet. */
	hw_u32 packet;
	/* Streams once start-up is over. */
	struct rapid_shape shape;
	/* Estimates per update, 1 to RAPID_MAX_GAMMA. */
	hw_u32 gamma;
	/* Share of the excess taken away by an update, in units of 2^-16, 1 to RAPID_GAIN_ONE: "eta" of the thesis'
	 * tables, and 1 / eta of its formula (2.12). */
	hw_u32 kd;
	/* Thresholds of the passes, up to 2^31 ns: against interrupt coalescing, bursty cross traffic, smoother one. */
	struct bass_thresholds coarse;
	struct bass_thresholds medium;
	struct bass_thresholds fine;
	/* Window of the moving average, in gaps, 1 (none) to RAPID_MAX_PACKETS: N_p. In start-up at most its N_p. */
	hw_u32 window;
	/* Margin up to 2^31 ns, relative one up to 2^20. */
	struct excursion_settings excursion;
	/* Unit of stamps, in ns, 1 to RAPID_MAX_UNIT. */
	hw_u32 unit;
	/* Of enum rapid_flag. */
	hw_u32 flags;
};

enum rapid_phase {
	RAPID_START_UP,
	RAPID_STEADY,
};

/* The state of one connection, except for the arrays of gaps: those of two streams, which connections may share. */
struct rapid {
	/* R_avg, in bit/s. */
	hw_u64 rate;
	/* Sums over the estimates since the last update: in bit/s, and the send gaps of their streams, in ns. */
	hw_u64 estimates;
	hw_u64 length;
	/* The number of those estimates, and of the ones without an excursion. */
	hw_u32 count;
	hw_u32 censored;
	/* The number of the next p-stream. */
	hw_u32 stream;
	/* One of enum rapid_phase. */
	hw_u32 phase;
	/* Whether a loss episode lasts. */
	hw_u32 recovering;
	/* Streams that yielded an estimate, and whole ones that did not; both wrap. */
	hw_u32 estimated;
	hw_u32 refused;
	/* The latest estimate. */
	struct rapid_estimate latest;
	struct rapid_acks acks;
};

/* `ns`, at most 20 us, times kappa: the time of a packet of `packet` bytes at `narrow` over 7.23 us (2.10). 15 bits
 * of ns, 17 of bytes and 34 of rate: 20000 times 65573 times 10^10 is below 2^63.6. */
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
 * Returns the published configuration for a sender with a link of `line` bit/s, packets of `packet` bytes, and a narrow
 * link of `narrow` bit/s, with whose packet time the thresholds in time scale.
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
		/* Of a closed loop: with long gaps, 100 ns alone are less than the jitter of stamps (2.11). */
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

/* Changes a configuration into a variant of the ablation study (2.25). */
HW_INLINE void rapid_vary(struct rapid_config *config, hw_u32 variant)
{
	switch (variant) {
	case RAPID_V1:
		config->flags |= RAPID_TIMER_GAPS;
		break;
	case RAPID_V2:
		config->unit = RAPID_MAX_UNIT;
		break;
	case RAPID_V3:
		config->flags |= RAPID_ACK_STAMPS;
		break;
	case RAPID_V4:
		config->flags |= RAPID_WINDOW_ONLY;
		break;
	case RAPID_V5_64:
	case RAPID_V5_192:
		config->gamma = 1;
		config->shape.rates = 4;
		config->shape.packets = variant == RAPID_V5_64 ? 16 : 48;
		config->window = config->shape.packets;
		break;
	default:
		break;
	}
}

/* The layout of p-streams at the moment. */
HW_INLINE struct rapid_shape rapid_shape(const struct rapid *rapid, const struct rapid_config *config)
{
	if (rapid->phase == RAPID_START_UP)
		return (struct rapid_shape){ RAPID_START_RATES, RAPID_START_PACKETS, RAPID_START_RATIO };
	return config->shape;
}

/* Puts R_avg into its range. */
HW_INLINE void rapid_set_rate(struct rapid *rapid, const struct rapid_config *config, hw_u64 rate)
{
	rapid->rate = rapid_clamp(rate, RAPID_MIN_RATE, config->line);
}

/* Forgets the estimates since the last update. */
HW_INLINE void rapid_forget_estimates(struct rapid *rapid)
{
	rapid->estimates = 0;
	rapid->length = 0;
	rapid->count = 0;
	rapid->censored = 0;
}

/* Ends start-up. Its streams in flight are of another layout, and older than R_avg: they are ignored. */
HW_INLINE void rapid_end_start_up(struct rapid *rapid)
{
	if (rapid->phase != RAPID_START_UP)
		return;
	rapid->phase = RAPID_STEADY;
	rapid_acks_discard(&rapid->acks, rapid->stream);
}

/* Whether packets at R_avg are closer than the receiver's interrupts. */
HW_INLINE int rapid_is_coalesced(const struct rapid *rapid, const struct rapid_config *config)
{
	return rapid_time(config->packet, rapid->rate) < config->coalescing;
}

/* Initialises a connection; `rtt` is that of the handshake in ns, or 0 if unknown. */
HW_INLINE void rapid_init(struct rapid *rapid, const struct rapid_config *config, hw_u64 rtt)
{
	*rapid = (struct rapid){ .phase = RAPID_STEADY };
	rapid_acks_restart(&rapid->acks);
	rapid_set_rate(rapid, config, RAPID_MIN_RATE);
	if (config->flags & RAPID_LITERAL_START)
		return;
	if (rtt)
		rapid_set_rate(rapid, config, RAPID_START_WINDOW * config->packet * RAPID_BIT_NS / rtt);
	if (!rapid_is_coalesced(rapid, config))
		rapid->phase = RAPID_START_UP;
}

/* Adopts a changed configuration; call this after the change. Streams in flight are of the old one and are ignored. */
HW_INLINE void rapid_on_config(struct rapid *rapid, const struct rapid_config *config)
{
	rapid_set_rate(rapid, config, rapid->rate);
	rapid_forget_estimates(rapid);
	rapid_acks_discard(&rapid->acks, rapid->stream);
}

/* Returns the next p-stream. Call this when its first packet is about to be sent: the newest R_avg counts (2.3). */
HW_INLINE struct rapid_stream rapid_next_stream(struct rapid *rapid, const struct rapid_config *config)
{
	const struct rapid_shape shape = rapid_shape(rapid, config);
	struct rapid_stream stream;

	rapid_schedule(&stream, &shape, config->packet, rapid->rate);
	stream.id = rapid->stream++;
	return stream;
}

/*
 * Denoises the gaps of a stream, with a moving average of `window` (2.10); returns one of enum rapid_outcome.
 * `scratch` is memory for another one.
 *
 * Without the removal of cut-off events after the first pass, the second one takes the dips at the start for low gaps
 * before a huge spike and merges the whole stream, and every estimate is R_avg (2.9).
 */
HW_FUNCTION hw_u32 rapid_denoise(struct rapid_gaps *gaps HW_NONNULL, struct rapid_gaps *scratch HW_NONNULL,
				 const struct rapid_config *config HW_NONNULL, hw_u32 window)
{
	hw_u32 pass;

	if (!(config->flags & RAPID_WINDOW_ONLY)) {
		if (bass_crop(gaps, &config->coarse) < RAPID_MIN_SAMPLES)
			return RAPID_TOO_SHORT;
		bass_changes(gaps, &config->medium);
		for (pass = 2; pass < RAPID_MAX_PASSES; pass++) {
			if (!bass_changes(gaps, &config->fine))
				break;
		}
	}
	bass_smooth(gaps, scratch, window);
	return RAPID_ESTIMATED;
}

/*
 * Estimates the available bandwidth from the gaps of a stream, which it changes; returns one of enum rapid_outcome.
 * The estimate is at most the line rate: gaps are whole ns, so a stream back to back may seem faster.
 */
HW_FUNCTION hw_u32 rapid_estimate(struct rapid_gaps *gaps HW_NONNULL, struct rapid_gaps *scratch HW_NONNULL,
				  const struct rapid_config *config HW_NONNULL, hw_u32 window,
				  struct rapid_estimate *estimate HW_NONNULL)
{
	hw_u32 outcome = rapid_denoise(gaps, scratch, config, window);

	if (outcome != RAPID_ESTIMATED)
		return outcome;
	outcome = excursion_search(gaps, &config->excursion, config->packet, estimate);
	estimate->rate = hw_min(estimate->rate, config->line);
	return outcome;
}

/* Adapts R_avg to `mean` by the rule for steady state, where `length` is l in ns (2.12). */
HW_INLINE hw_u64 rapid_filter(hw_u64 rate, const struct rapid_config *config, hw_u64 mean, hw_u64 length)
{
	hw_u64 weight;

	if (mean < rate)
		return rate - (((rate - mean) * config->kd + RAPID_GAIN_ONE / 2) >> RAPID_GAIN_BITS);
	if (length >= config->tau)
		return mean;
	weight = (length << RAPID_WEIGHT_BITS) / config->tau;
	return rate + (((mean - rate) * weight + (1U << (RAPID_WEIGHT_BITS - 1))) >> RAPID_WEIGHT_BITS);
}

/* The rule for start-up: A replaces R_avg (2.14). A lower estimate without an excursion is only older than R_avg. */
HW_INLINE void rapid_start_up(struct rapid *rapid, const struct rapid_config *config,
			      const struct rapid_estimate *estimate)
{
	if (estimate->bound == RAPID_AT_LEAST) {
		rapid_set_rate(rapid, config, hw_max(rapid->rate, estimate->rate));
		if (rapid_is_coalesced(rapid, config))
			rapid_end_start_up(rapid);
		return;
	}
	rapid_set_rate(rapid, config, estimate->rate);
	rapid_end_start_up(rapid);
}

/* Handles the estimate of a stream whose send gaps sum to `length` ns; returns whether R_avg was updated (2.12). */
HW_INLINE int rapid_on_estimate(struct rapid *rapid, const struct rapid_config *config,
				const struct rapid_estimate *estimate, hw_u64 length)
{
	hw_u64 mean;
	int stale;

	if (rapid->phase == RAPID_START_UP) {
		rapid_start_up(rapid, config, estimate);
		return 1;
	}
	rapid->estimates += hw_min(estimate->rate, config->line);
	/* 192 gaps of 2^40 ns are below 2^48, and 64 of those below 2^54. */
	rapid->length += hw_min(length, RAPID_MAX_PACKETS * RAPID_MAX_GAP);
	rapid->count++;
	rapid->censored += estimate->bound == RAPID_AT_LEAST;
	if (rapid->count < config->gamma)
		return 0;
	mean = rapid->estimates / rapid->count;
	length = config->flags & RAPID_TOTAL_LENGTH ? rapid->length : rapid->length / rapid->count;
	stale = config->flags & RAPID_NO_CENSORED_FALL && rapid->censored == rapid->count && mean < rapid->rate;
	if (!stale)
		rapid_set_rate(rapid, config, rapid_filter(rapid->rate, config, mean, length));
	rapid_forget_estimates(rapid);
	return 1;
}

/* Estimates from a complete stream and adapts R_avg; returns whether it was updated. */
HW_FUNCTION hw_u32 rapid_on_stream(struct rapid *rapid HW_NONNULL, const struct rapid_config *config HW_NONNULL,
				   struct rapid_gaps *gaps HW_NONNULL, struct rapid_gaps *scratch HW_NONNULL)
{
	const struct rapid_shape shape = rapid_shape(rapid, config);
	const hw_u32 window = (hw_u32)hw_min(config->window, shape.packets);
	struct rapid_estimate estimate = { 0 };

	if (rapid_estimate(gaps, scratch, config, window, &estimate) != RAPID_ESTIMATED) {
		rapid->refused++;
		return 0;
	}
	rapid->estimated++;
	rapid->latest = estimate;
	return (hw_u32)rapid_on_estimate(rapid, config, &estimate, rapid->acks.length);
}

/*
 * Handles a packet whose fate is known, in the order of sending; returns how many updates of R_avg it caused. `gaps`
 * keeps the samples of the current stream from call to call, `scratch` nothing.
 */
HW_INLINE hw_u32 rapid_on_packet(struct rapid *rapid, const struct rapid_config *config, struct rapid_gaps *gaps,
				 struct rapid_gaps *scratch, const struct rapid_packet *packet)
{
	struct rapid_shape shape = rapid_shape(rapid, config);
	hw_u32 updates = 0;
	hw_u32 k;

	rapid_push(&rapid->acks, packet, rapid_packets(&shape), config->unit);
	/* One interval completes one stream more than it has packets at most. The end of start-up clears it. */
	for (k = 0; k <= RAPID_MAX_PACKETS; k++) {
		if (!rapid_take(&rapid->acks, gaps, rapid_packets(&shape)))
			break;
		updates += rapid_on_stream(rapid, config, gaps, scratch);
		shape = rapid_shape(rapid, config);
	}
	return updates;
}

/* Begins a loss episode, unless one lasts; R_avg falls when it ends (2.13). A loss also ends start-up. */
HW_INLINE void rapid_on_loss(struct rapid *rapid)
{
	rapid_end_start_up(rapid);
	if (!rapid->recovering)
		rapid_forget_estimates(rapid);
	rapid->recovering = 1;
}

/* Handles a retransmission timeout, which belongs to the same episode as the losses before it. All streams in flight
 * are discarded (2.13). */
HW_INLINE void rapid_on_timeout(struct rapid *rapid)
{
	rapid_on_loss(rapid);
	rapid_forget_estimates(rapid);
	rapid_acks_discard(&rapid->acks, rapid->stream);
}

/* Ends a loss episode with the one cut that it causes; returns whether there was one (2.13). */
HW_INLINE int rapid_on_recovered(struct rapid *rapid, const struct rapid_config *config)
{
	if (!rapid->recovering)
		return 0;
	rapid->recovering = 0;
	rapid_set_rate(rapid, config, rapid->rate - rapid->rate / 4);
	rapid_forget_estimates(rapid);
	return 1;
}

/* Ends a loss episode that was spurious, without a cut. */
HW_INLINE void rapid_on_undo(struct rapid *rapid)
{
	rapid->recovering = 0;
}

#endif

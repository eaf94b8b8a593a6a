/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * TCP Rapid's sender (Q. Yin, TCP RAPID: From Theory to Practice, Chapel Hill, 2017): every packet is a probe
 * of the available bandwidth.
 *
 * In a nutshell:
 *   - Packets leave in p-streams of N = N_r N_p = 4 x 16 with gaps P / R_k at rates R_1 .. R_4 that rise by
 *     s = 1.15 and average to R_avg (rapid_schedule.h, rapid_departures.h).
 *   - ACKs carry arrival times (rapid_flight.h). Those of a complete p-stream become N send gaps g_s and
 *     receive gaps g_r (rapid_acks.h). Tails and missing packets leave holes, and so do losses unless the
 *     caller has them bridged; a stream with a hole yields nothing.
 *   - Three kinds of smoothing passes undo interrupt coalescing and bursts of cross traffic, then a moving
 *     average over N_p gaps (bass.h).
 *   - The estimate A is the rate from which on g_r > g_s (excursion.h), at most the line rate.
 *   - Every gamma = 3 estimates move R_avg towards their mean, with l the time of one p-stream:
 *
 *         R_avg += min(1, l / tau) (A - R_avg)  if A >= R_avg     within tau
 *         R_avg -= kd (R_avg - A)               otherwise         within 1 / kd updates
 *
 *   - R_avg falls by a quarter once per loss episode, when the episode ends; with RAPID_WATCH_QUEUE at once
 *     or not at all, unless the timer expired.
 *
 * The thesis leaves some questions open. Each answer here is a switch of its own, off in what it published:
 *   - RAPID_WATCH_QUEUE: R_avg falls by a quarter for losses that come with a queue or in great number,
 *     at once, and not for random ones; a standing queue, which hides itself from the estimates, is
 *     drained (rapid_repairs.h).
 *   - RAPID_REOPEN: if much more is free than R_avg for tau, R_avg becomes that at once. Start-up comes again
 *     where losses leave less than its first rate.
 *   - RAPID_SLOW_FALL: without a queue, an estimate below R_avg is as likely noise as one above, so R_avg
 *     falls with l / tau, too.
 *   - RAPID_RELATIVE: the steps of the probing rates themselves are not taken for spikes.
 *
 *                  two round trips without a rise, a loss that comes
 *                  with a queue, a timeout, or the line rate
 *     +-----------+ -----------------------------------------------> +--------------+
 *     | START-UP: |                                                  | STEADY:      |
 *     | R_avg = A |                                                  | gamma, tau,  |
 *     | 4 x 4 to  |       +-- a loss or a timeout ------------------ | kd; 4 x 16,  |
 *     | 48, s = 2 |       v                                          | s = 1.15     |
 *     +-----------+   +-------------------------+  R_avg *= 3/4  +-->|              |
 *          ^          | in RECOVERY, still with | ---------------+   +--------------+
 *          |          | estimates; the timeout  |                        ^     ^
 *       at first      | discards those of older |  spurious: no cut      |     |
 *                     | streams                 | -----------------------+     |
 *                     +-------------------------+             with RAPID_LITERAL_START
 *
 * With RAPID_REOPEN a fall to less than 10 packets per RTT leads from STEADY back to START-UP.
 *
 * Units: rates in bit/s of all bytes on the wire, up to RAPID_MAX_RATE = 2^39 (550 Gb/s); times in ns; shares
 * in powers of two that are said with each. All numbers are unsigned, and rapid_config_bound puts a
 * configuration into the ranges with which no sum or product overflows. No function allocates. A number in
 * parentheses is a section, as in "rapid 2.12".
 */
#ifndef HEADWAY_RAPID_H
#define HEADWAY_RAPID_H

#include "bass.h"
#include "excursion.h"
#include "rapid_repairs.h"
#include "rapid_start.h"
#include "rapid_state.h"

/* Initialises a connection; `rtt` is that of the handshake in ns, or 0 if unknown. */
HW_INLINE void rapid_init(struct rapid *rapid, const struct rapid_config *config, hw_u64 rtt)
{
	*rapid = (struct rapid){ .phase = RAPID_STEADY };
	rapid_acks_restart(&rapid->acks);
	rapid_set_rate(rapid, config, config->flags & RAPID_LINE_START ? config->line : RAPID_MIN_RATE);
	if (config->flags & (RAPID_LITERAL_START | RAPID_LINE_START))
		return;
	if (rtt)
		rapid_set_rate(rapid, config, 2 * RAPID_START_WINDOW * config->packet * RAPID_BIT_NS / rtt);
	rapid->rtt = rtt;
	rapid->phase = RAPID_START_UP;
}

/* The RTT is `rtt` ns now. */
HW_INLINE void rapid_on_rtt(struct rapid *rapid, hw_u64 rtt)
{
	rapid->rtt = rtt;
}

/* Adopts a changed configuration; call this after the change. Streams in flight are of the old
 * one and are ignored. */
HW_INLINE void rapid_on_config(struct rapid *rapid, const struct rapid_config *config)
{
	rapid_set_rate(rapid, config, rapid->rate);
	rapid_forget_estimates(rapid);
	rapid_acks_discard(&rapid->acks, rapid->stream);
}

/* Returns the next p-stream. Call this when its first packet is about to be sent: the newest
 * R_avg counts (2.3). */
HW_INLINE struct rapid_stream rapid_next_stream(struct rapid *rapid, const struct rapid_config *config)
{
	const struct rapid_shape shape = rapid_shape(rapid, config);
	struct rapid_stream stream;

	rapid_schedule(&stream, &shape, config->packet, rapid->rate);
	/* While nothing is known, one stream at the first rate is enough. */
	if (rapid->phase == RAPID_START_UP && !rapid->stream)
		rapid_set_rate(rapid, config, rapid->rate / 2);
	stream.id = rapid->stream++;
	return stream;
}

/*
 * Denoises the gaps of a stream, with a moving average of `window` (2.10); returns one of enum rapid_outcome.
 * `scratch` is memory for another one. RAPID_RELATIVE looks for spikes in what the path adds to the gaps:
 * where the gaps of neighbouring rates differ by more than a threshold, these steps are not taken for spikes.
 *
 * Without the removal of cut-off events after the first pass, the second one takes the dips at the start for
 * low gaps before a huge spike and merges the whole stream, and every estimate is R_avg (2.9).
 */
HW_FUNCTION hw_u32 rapid_denoise(struct rapid_gaps *gaps HW_NONNULL, struct rapid_gaps *scratch HW_NONNULL,
				 const struct rapid_config *config HW_NONNULL, hw_u32 window)
{
	HW_GIVEN(gaps && scratch && config);
	const int relative = (config->flags & RAPID_RELATIVE) != 0;
	hw_u32 pass;

	if (!(config->flags & RAPID_WINDOW_ONLY)) {
		if (relative)
			bass_subtract_send(gaps);
		if (bass_crop(gaps, &config->coarse) < RAPID_MIN_SAMPLES)
			return RAPID_TOO_SHORT;
		bass_changes(gaps, &config->medium);
		for (pass = 2; pass < RAPID_MAX_PASSES; pass++) {
			if (!bass_changes(gaps, &config->fine))
				break;
		}
		if (relative)
			bass_add_send(gaps);
	}
	bass_smooth(gaps, scratch, window);
	return RAPID_ESTIMATED;
}

/*
 * Estimates the available bandwidth from the gaps of a stream, which it changes; returns one of
 * enum rapid_outcome. The estimate is at most the line rate: gaps are whole ns, so a stream back to
 * back may seem faster.
 */
HW_FUNCTION hw_u32 rapid_estimate(struct rapid_gaps *gaps HW_NONNULL, struct rapid_gaps *scratch HW_NONNULL,
				  const struct rapid_config *config HW_NONNULL, hw_u32 window,
				  struct rapid_estimate *estimate HW_NONNULL)
{
	HW_GIVEN(gaps && scratch && config && estimate);
	hw_u32 outcome = rapid_denoise(gaps, scratch, config, window);

	if (outcome != RAPID_ESTIMATED)
		return outcome;
	outcome = excursion_search(gaps, &config->excursion, config->packet, estimate);
	estimate->rate = hw_min(estimate->rate, config->line);
	return outcome;
}

/* Adapts R_avg to `mean` by the rule for steady state, where `length` is l in ns (2.12); with `slow` it
 * falls as it rises. */
HW_INLINE hw_u64 rapid_filter(hw_u64 rate, const struct rapid_config *config, hw_u64 mean, hw_u64 length, int slow)
{
	const hw_u64 distance = mean < rate ? rate - mean : mean - rate;
	hw_u64 weight, step;

	if (mean < rate && !slow)
		return rate - ((distance * config->kd + RAPID_GAIN_ONE / 2) >> RAPID_GAIN_BITS);
	if (length >= config->tau)
		return mean;
	weight = (length << RAPID_WEIGHT_BITS) / config->tau;
	step = (distance * weight + (1U << (RAPID_WEIGHT_BITS - 1))) >> RAPID_WEIGHT_BITS;
	return mean < rate ? rate - step : rate + step;
}

/* Handles the estimate of a stream whose send gaps sum to `length` ns; returns whether R_avg
 * was updated (2.12). */
HW_INLINE int rapid_on_estimate(struct rapid *rapid, const struct rapid_config *config,
				const struct rapid_estimate *estimate, hw_u64 length)
{
	hw_u64 mean;
	int stale, slow;

	if (rapid->phase == RAPID_START_UP) {
		if (rapid_drain(rapid, config)) {
			rapid_forget_estimates(rapid);
			rapid_start_fell(rapid);
		} else {
			rapid_start_up(rapid, config, estimate, rapid_average(rapid->acks.filled, config, length));
		}
		return 1;
	}
	rapid->estimates += hw_min(estimate->rate, config->line);
	/* 192 gaps of 2^40 ns are below 2^48, and 64 of those below 2^54. */
	rapid->length += hw_min(length, RAPID_MAX_PACKETS * RAPID_MAX_GAP);
	rapid->count++;
	rapid->censored += estimate->bound == RAPID_AT_LEAST;
	rapid->queue = hw_max(rapid->queue, rapid_queue(&rapid->delay));
	if (config->flags & RAPID_REOPEN && rapid_ends_round(rapid, config, estimate) && rapid_end_round(rapid, config)) {
		rapid_forget_estimates(rapid);
		return 1;
	}
	if (rapid->count < config->gamma)
		return 0;
	if (rapid_drain(rapid, config)) {
		rapid_forget_estimates(rapid);
		return 1;
	}
	mean = rapid->estimates / rapid->count;
	length = config->flags & RAPID_TOTAL_LENGTH ? rapid->length : rapid->length / rapid->count;
	stale = config->flags & RAPID_NO_CENSORED_FALL && rapid->censored == rapid->count && mean < rapid->rate;
	slow = config->flags & RAPID_SLOW_FALL && hw_max(rapid->queue, 2 * (hw_u64)config->unit) < RAPID_NO_QUEUE;
	if (!stale)
		rapid_set_rate(rapid, config, rapid_filter(rapid->rate, config, mean, length, slow));
	rapid_forget_estimates(rapid);
	return 1;
}

/* Adapts R_avg to what became of a complete stream, one of enum rapid_outcome; returns
 * whether it was updated. */
HW_FUNCTION hw_u32 rapid_on_outcome(struct rapid *rapid HW_NONNULL, const struct rapid_config *config HW_NONNULL,
				    hw_u32 outcome, struct rapid_estimate *estimate HW_NONNULL)
{
	HW_GIVEN(rapid && config && estimate);
	if (outcome != RAPID_ESTIMATED) {
		rapid->refused++;
		rapid->crowded += outcome == RAPID_SENDER_GAPS;
		return 0;
	}
	if (config->flags & RAPID_REOPEN && rapid->phase == RAPID_STEADY) {
		const struct rapid_shape shape = rapid_shape(rapid, config);
		const hw_u32 packets = rapid->acks.filling;
		const hw_u64 top = rapid_top_rate(&shape, config, rapid_average(packets, config, rapid->acks.length));

		/* What was cut off with the ends of the stream saw no excursion either. */
		estimate->rate = estimate->bound == RAPID_AT_LEAST ? top : hw_min(estimate->rate, top);
	}
	rapid->estimated++;
	rapid->latest = *estimate;
	return (hw_u32)rapid_on_estimate(rapid, config, estimate, rapid->acks.length);
}

/* Estimates from a complete stream and adapts R_avg; returns whether it was updated. */
HW_FUNCTION hw_u32 rapid_on_stream(struct rapid *rapid HW_NONNULL, const struct rapid_config *config HW_NONNULL,
				   struct rapid_gaps *gaps HW_NONNULL, struct rapid_gaps *scratch HW_NONNULL)
{
	HW_GIVEN(rapid && config && gaps && scratch);
	const struct rapid_shape shape = rapid_shape(rapid, config);
	const hw_u32 packets = rapid->acks.filling;
	const hw_u32 window = (hw_u32)rapid_clamp(packets / shape.rates, 1, config->window);
	struct rapid_estimate estimate = { 0 };
	hw_u32 outcome;

	if (rapid->phase == RAPID_START_UP)
		outcome = rapid_estimate_start(gaps, config, packets, &estimate);
	else
		outcome = rapid_estimate(gaps, scratch, config, window, &estimate);
	return rapid_on_outcome(rapid, config, outcome, &estimate);
}

/* Handles a packet whose fate is known, in the order of sending, and leaves it to the caller to take the
 * streams that it completes; returns whether R_avg was updated. */
HW_INLINE hw_u32 rapid_push_packet(struct rapid *rapid, const struct rapid_config *config,
				   const struct rapid_packet *packet)
{
	const struct rapid_shape shape = rapid_shape(rapid, config);
	hw_u32 updates = 0;

	rapid_delay_on_packet(&rapid->delay, packet, config->unit, config->coalescing);
	if (config->flags & RAPID_WATCH_QUEUE)
		updates = (hw_u32)rapid_judge(rapid, config, packet);
	rapid_push(&rapid->acks, packet, rapid_packets(&shape), config->unit);
	return updates;
}

/*
 * Handles a packet whose fate is known, in the order of sending; returns how many updates of R_avg it caused.
 * `gaps` keeps the samples of the current stream from call to call, `scratch` nothing.
 */
HW_INLINE hw_u32 rapid_on_packet(struct rapid *rapid, const struct rapid_config *config, struct rapid_gaps *gaps,
				 struct rapid_gaps *scratch, const struct rapid_packet *packet)
{
	hw_u32 updates = rapid_push_packet(rapid, config, packet);
	hw_u32 k;

	/* One interval completes one stream more than it has packets at most. The end of
	 * start-up clears it. */
	for (k = 0; k <= RAPID_MAX_PACKETS; k++) {
		if (!rapid_take(&rapid->acks, gaps))
			break;
		updates += rapid_on_stream(rapid, config, gaps, scratch);
	}
	return updates;
}

/* Begins a loss episode, unless one lasts; R_avg falls when it ends (2.13). A loss also ends start-up, with
 * RAPID_WATCH_QUEUE only if it lowers R_avg. */
HW_INLINE void rapid_on_loss(struct rapid *rapid, const struct rapid_config *config)
{
	if (!(config->flags & RAPID_WATCH_QUEUE))
		rapid_end_start_up(rapid);
	if (!rapid->recovering)
		rapid_forget_estimates(rapid);
	rapid->recovering = 1;
}

/* Handles a retransmission timeout, which belongs to the same episode as the losses before it. All streams in
 * flight are discarded (2.13). */
HW_INLINE void rapid_on_timeout(struct rapid *rapid, const struct rapid_config *config)
{
	rapid_on_loss(rapid, config);
	rapid_end_start_up(rapid);
	rapid->timed_out = 1;
	rapid_forget_estimates(rapid);
	rapid_acks_discard(&rapid->acks, rapid->stream);
}

/* Ends a loss episode with the one cut that it causes; returns whether there was one (2.13). */
HW_INLINE int rapid_on_recovered(struct rapid *rapid, const struct rapid_config *config)
{
	/* Otherwise the losses that showed a queue have cut R_avg already. */
	const int cuts = rapid->timed_out || !(config->flags & RAPID_WATCH_QUEUE);

	if (!rapid->recovering)
		return 0;
	rapid->recovering = 0;
	rapid->timed_out = 0;
	if (!cuts)
		return 0;
	rapid_set_rate(rapid, config, rapid->rate - rapid->rate / 4);
	rapid_forget_estimates(rapid);
	rapid_start_anew(rapid, config);
	return 1;
}

/* A packet is sent again. Such packets are counted, not those that seem lost when a later one is
 * acknowledged, because an ACK that is lost alone hides a packet, too. */
HW_INLINE void rapid_on_retransmission(struct rapid *rapid)
{
	rapid->lost++;
}

/* Ends a loss episode that was spurious, without a cut. */
HW_INLINE void rapid_on_undo(struct rapid *rapid)
{
	rapid->recovering = 0;
	rapid->timed_out = 0;
}

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * LS-AIMD: Reno and DCTCP below two segments per round trip (A. S. Ahmed, Extending TCP for Low Round Trip
 * Delay, Oslo, 2019).
 *
 * In a nutshell:
 *   - The window W is in bytes, with a fraction, and may be as small as two bytes.
 *   - While W is below `delta` segments (the "sub-MSS" regime), the packet conservation clock paces segments:
 *     they leave one at a time, s RTT / W apart, with at most `delta` in flight. Above, the sender is
 *     ACK-clocked as usual.
 *   - Each round trip W grows by C k0 lg(S / k1 + 1) bytes, where S is ssthresh: about one segment for usual
 *     windows, and never more than S for small ones. W also grows in rounds with marks.
 *   - The first mark of a round sets S and W to W / 2 (Reno) or W (1 - alpha / 2) (DCTCP).
 *
 *                     W >= delta segments
 *      +-----------+ ---------------------> +-----------+
 *      |  sub-MSS: |                        |   above:  |      in both, at the first mark of a round: W = S = cut(W)
 *      | the clock |                        | ACK clock |
 *      +-----------+ <--------------------- +-----------+
 *                     W < delta segments
 *
 * This code needs no sockets and no clock. Sequence numbers may count bytes or segments, as long as the
 * caller is consistent. A number in parentheses is a section, as in "ls-aimd 2.7".
 */
#ifndef HEADWAY_LS_AIMD_H
#define HEADWAY_LS_AIMD_H

#include "cut.h"
#include "dctcp_alpha.h"
#include "fixed_log2.h"
#include "numbers.h"

/* The value of ssthresh before the first reduction. */
#define LS_UNLIMITED (~0ULL)
/* Default minimum of window and ssthresh, in bytes (2.10): chosen by the author, who thinks
 * it may be lowered. */
#define LS_FLOOR 2
/* Largest window, in bytes: the most TCP can advertise (RFC 7323). It keeps all products below 2^64. */
#define LS_LARGEST (1ULL << 30)
/* Fixed-point bits of the logarithm (2.7). With 9, a window of 2 B of jumbo segments would
 * never grow again. */
#define LS_LOG_BITS 16
/* The scale C of the increase is in units of 2^-16. */
#define LS_SCALE_BITS 16
#define LS_SCALE_ONE (1U << LS_SCALE_BITS)
/* Limit on the segments that one ACK is counted for below `delta` segments: larger stretches only come from
 * data sent before. */
#define LS_MAX_STRETCH 64
/* The newest RTT sample weighs 1/8, as everywhere in TCP (RFC 6298). */
#define LS_RTT_SHIFT 3
/*
 * These apply where a departure cannot be moved once it is set. A change of the window then takes
 * effect one gap late, and below one segment a gap is longer than a round trip. With the usual gains
 * the queue oscillates and a tenth of the capacity is lost, whatever C is (16 flows of a quarter of a
 * segment). Weighing RTT samples by 1/32 and cutting by a quarter as much while segments are paced
 * brings utilisation back to 97 %. C must then start to fall at fewer marks, because a window that is
 * cut less gets more of them.
 */
#define LS_LATE_RTT_SHIFT 5
#define LS_LATE_CUT_SHIFT 2
/*
 * The newest window weighs 1/512 in the fraction of marks that an automatic C follows. At one segment per
 * window each sample is a single bit; with 1/256 the noise in C already costs 0.5 % of utilisation and
 * doubles the spread of throughputs.
 */
#define LS_MARKS_SHIFT 9

enum ls_algorithm {
	LS_RENO,
	LS_DCTCP,
};

/* Configuration. */
struct ls_config {
	/* One of enum ls_algorithm. */
	hw_u32 algorithm;
	/* The most segments that the receiver acknowledges with one ACK, 1 to 16: the
	 * stretch factor (2.2). */
	hw_u32 delta;
	/* C in units of 2^-16, 1 to 65536; zero for automatic (2.9). */
	hw_u32 scale;
	/* Minimum window, in bytes, at least 1: the lowest a forger of marks can push a sender (2.15). */
	hw_u32 floor;
	/* Whether the increase is computed with the window after a cut made by the same ACK, not with the one
	 * before it (2.8). */
	hw_u32 after_cut;
	/* One segment per round trip in place of the logarithm: plain AIMD with a window that
	 * may be small (2.16). */
	hw_u32 linear;
	/* The caller cannot move a departure once it is set; only matters with an automatic C. */
	hw_u32 fixed_departures;
};

/* The state of one connection; the kernel gives a congestion control 104 bytes. */
struct ls_state {
	/* W and S in bytes, Q9. */
	hw_u64 window;
	hw_u64 ssthresh;
	/* Above `delta` segments: increase that does not add up to a whole segment yet, Q9 bytes times
	 * segments (2.8). */
	hw_u64 credit;
	/* Smoothed RTT of the newest acknowledged segments, in ns; zero before the first sample (2.5). */
	hw_u64 rtt;
	/* W and S before the last reduction, to undo a spurious one. */
	hw_u64 prior_window;
	hw_u64 prior_ssthresh;
	/* Payload bytes of a full segment, s. */
	hw_u32 mss;
	/* The increase for S, in bytes per round trip, Q9, before scaling by C. */
	hw_u32 add;
	/* C in units of 2^-16. */
	hw_u32 scale;
	/* alpha times 2^DCTCP_GAIN_SHIFT, and the slower average of marks times 2^LS_MARKS_SHIFT. */
	hw_u32 alpha;
	hw_u32 marks;
	/* Segments acknowledged since the last update of the averages, and the marked ones among them. */
	hw_u32 total;
	hw_u32 marked;
	/* The averages are updated once everything before `round_end` is acknowledged. */
	hw_u32 round_end;
	/* The last reduction. */
	struct hw_cut cut;
	/* Whether the packet conservation clock is on. */
	hw_u16 submss;
};

/* The information carried by one ACK. */
struct ls_ack {
	/* First unacknowledged sequence number (SND.UNA), and next one to be sent (SND.NXT). */
	hw_u32 una;
	hw_u32 next;
	/* Newly acknowledged whole segments; less than one counts as none (2.15). */
	hw_u32 acked;
	/* The marked ones among them; all of them for a classic (RFC 3168) echo. */
	hw_u32 marked;
	/* Segments in flight before this ACK. */
	hw_u32 in_flight;
	/* Whether the connection is limited by the window and not by the application. */
	hw_u32 cwnd_limited;
	/* Whether the sender is in fast recovery, when the window does not grow. After a timeout, while it
	 * resends everything, the window does grow. */
	hw_u32 in_recovery;
	/*
	 * RTT of the newest acknowledged segment, in ns; zero if that was retransmitted or the receiver
	 * delayed the ACK until its timer expired (2.5).
	 */
	hw_u64 rtt;
};

/* Exponent K0 for segments of `mss` bytes, chosen so that the increase is about one segment at usual windows;
 * K1 = K0 + 1 (2.6). */
HW_INLINE hw_u32 ls_growth_exponent(hw_u32 mss)
{
	if (mss <= 1948)
		return 8;
	if (mss <= 4448)
		return 9;
	return 10;
}

/* Increase per round trip, k0 lg(S / k1 + 1) bytes, for an ssthresh of `ssthresh` bytes; both Q9 (2.7). */
HW_INLINE hw_u32 ls_add(hw_u64 ssthresh, hw_u32 k0)
{
	const hw_u32 fraction = LS_LOG_BITS - HW_Q9;
	hw_u64 shifted = (ssthresh + (1ULL << (k0 + 1 + HW_Q9))) << fraction;
	hw_u64 logarithm = (hw_u64)(hw_log2(shifted, LS_LOG_BITS) - ((hw_s64)(k0 + 1) << LS_LOG_BITS));

	return (hw_u32)((logarithm << k0) >> fraction);
}

/* Whole segments in the window. */
HW_INLINE hw_u32 ls_segments(const struct ls_state *ls)
{
	return (hw_u32)(ls->window / ((hw_u64)ls->mss << HW_Q9));
}

/* Most segments in flight: the window, or `delta` while the packet conservation clock is on (2.1). */
HW_INLINE hw_u32 ls_cwnd(const struct ls_state *ls, const struct ls_config *config)
{
	return ls->submss ? config->delta : ls_segments(ls);
}

/* Time between the departure of one segment and the next one of `bytes`, s RTT / W in ns, while the clock is
 * on (2.3). */
HW_INLINE hw_u64 ls_gap(const struct ls_state *ls, hw_u32 bytes)
{
	return (((hw_u64)bytes * ls->rtt) << HW_Q9) / ls->window;
}

/* The window with the increase that does not add up to a whole segment yet: less than a segment (2.8). */
HW_INLINE hw_u64 ls_earned(const struct ls_state *ls)
{
	return ls->window + ls->credit / hw_max(ls_segments(ls), 1);
}

/* Clamps the window to its range and turns the clock on or off (2.1, 2.2). */
HW_INLINE void ls_update_regime(struct ls_state *ls, const struct ls_config *config)
{
	hw_u32 submss;

	ls->window = hw_max(ls->window, (hw_u64)config->floor << HW_Q9);
	ls->window = hw_min(ls->window, LS_LARGEST << HW_Q9);
	submss = ls->window < ((hw_u64)config->delta * ls->mss) << HW_Q9;
	if (submss != ls->submss)
		ls->credit = 0;
	ls->submss = submss;
}

/*
 * C in units of 2^-16 for an average share of marks `marks` (with DCTCP_FRACTION_BITS).
 *
 * All flows that share a queue see the same fraction of marks, whatever their windows, so they settle at
 * about the same C without communicating. If C followed a flow's own window, the increase would be
 * multiplicative and the flows' shares would not converge (2.9).
 *
 * Up to a fraction `knee` C is 1; beyond, it halves with every further 1 / `steepness`. More marks mean less
 * increase, and less increase means fewer marks, so the two balance before saturation: for DCTCP, whose
 * marked fraction p and window w obey p^2 = 2 C add s / w^2, at 0.5 to 0.65 for windows of a quarter of a
 * segment and more; for Reno, with p = 2 C add s / w^2, at 0.02 to 0.04. With `late_departures` cuts are
 * smaller and the knee is at fewer marks. The window responds within a few rounds and the average is far
 * slower (LS_MARKS_SHIFT), so the loop behaves like a single low-pass filter and cannot oscillate.
 */
HW_INLINE hw_u32 ls_automatic_scale(hw_u32 algorithm, hw_u32 marks, int late_departures)
{
	const hw_u32 dctcp_knee = late_departures ? DCTCP_ONE * 5 / 16 : DCTCP_ONE / 2;
	const hw_u32 knee = algorithm == LS_DCTCP ? dctcp_knee : DCTCP_ONE / 50;
	const hw_u32 steepness = algorithm == LS_DCTCP ? 16 : 200;

	if (marks <= knee)
		return LS_SCALE_ONE;
	return (hw_u32)hw_max(hw_exp2_negative((marks - knee) / (DCTCP_ONE >> 16) * steepness), 1);
}

/* Whether departures follow the window late, so that cuts must be smaller. Above `delta` segments ACKs clock
 * them, without that delay. */
HW_INLINE int ls_departs_late(const struct ls_state *ls, const struct ls_config *config)
{
	return config->fixed_departures && !config->scale && config->algorithm == LS_DCTCP && ls->submss;
}

/* The growth of the window per round trip, C add bytes, in units of 2^-16 (2.9). */
HW_INLINE hw_u64 ls_increase(const struct ls_state *ls)
{
	hw_u64 increase = ((hw_u64)ls->add * ls->scale) >> HW_Q9;

	/* Below the ssthresh set by a timeout, and before the first reduction: at most one segment (2.13). */
	if (ls->window < ls->ssthresh)
		increase = hw_min(increase, (hw_u64)ls->mss << LS_SCALE_BITS);
	return increase;
}

/* Sets ssthresh and the increase that depends on it (2.6). */
HW_INLINE void ls_set_ssthresh(struct ls_state *ls, const struct ls_config *config, hw_u64 ssthresh)
{
	ls->ssthresh = ssthresh;
	if (config->linear || ssthresh == LS_UNLIMITED)
		ls->add = ls->mss << HW_Q9;
	else
		ls->add = ls_add(ssthresh, ls_growth_exponent(ls->mss));
}

/* Counts marks; once per window of data, updates alpha and an automatic C (2.11). */
HW_INLINE void ls_count_marks(struct ls_state *ls, const struct ls_config *config, const struct ls_ack *ack)
{
	hw_u32 fraction;

	ls->total += ack->acked;
	ls->marked += ack->marked;
	if (!ls->total || hw_before(ack->una, ls->round_end))
		return;
	fraction = dctcp_fraction(ls->marked, ls->total);
	ls->alpha = dctcp_average(ls->alpha, fraction, DCTCP_GAIN_SHIFT);
	ls->marks = dctcp_average(ls->marks, fraction, LS_MARKS_SHIFT);
	if (!config->scale)
		ls->scale = ls_automatic_scale(config->algorithm, ls->marks >> LS_MARKS_SHIFT, ls_departs_late(ls, config));
	ls->total = 0;
	ls->marked = 0;
	ls->round_end = ack->next;
}

/* The window that a reduction starts from: capped by what was in flight, except while the
 * clock is on (2.10). */
HW_INLINE hw_u64 ls_base(const struct ls_state *ls, const struct ls_config *config, hw_u32 in_flight)
{
	if (ls->submss)
		return ls->window;
	return hw_min(ls->window, ((hw_u64)hw_max(in_flight, config->delta) * ls->mss) << HW_Q9);
}

/* Sets window and ssthresh to `ssthresh`, in Q9 bytes (2.12). */
HW_INLINE void ls_reduce_to(struct ls_state *ls, const struct ls_config *config, hw_u64 ssthresh)
{
	ls->prior_window = ls_earned(ls);
	ls->prior_ssthresh = ls->ssthresh;
	ls_set_ssthresh(ls, config, hw_max(ssthresh, (hw_u64)config->floor << HW_Q9));
	ls->window = ls->ssthresh;
	ls->credit = 0;
}

/* Responds to the first mark of a round. */
HW_INLINE void ls_on_mark(struct ls_state *ls, const struct ls_config *config, hw_u32 in_flight)
{
	hw_u64 base = ls_base(ls, config, in_flight);
	hw_u64 cut = base / 2;

	if (config->algorithm == LS_DCTCP)
		cut = (base * ls->alpha) >> (DCTCP_FRACTION_BITS + DCTCP_GAIN_SHIFT + 1);
	if (ls_departs_late(ls, config))
		cut >>= LS_LATE_CUT_SHIFT;
	ls_reduce_to(ls, config, base - cut);
}

/* Grows the window for `acked` segments, each of which counts for s / W round trips at W = `weight`, in Q9
 * bytes (2.8). */
HW_INLINE void ls_grow(struct ls_state *ls, hw_u32 acked, hw_u64 weight)
{
	const hw_u64 segment = (hw_u64)ls->mss << HW_Q9;
	hw_u64 round;

	if (ls->submss) {
		hw_u64 segments = hw_min(acked, LS_MAX_STRETCH);

		/* 31 bits of increase, 16 of segment, 6 of segments and 9 of shift: below 2^62. */
		ls->window += ((ls_increase(ls) * ls->mss * segments << HW_Q9) / weight) >> (LS_SCALE_BITS - HW_Q9);
		return;
	}
	if (ls->window < ls->ssthresh) {
		hw_u64 needed = (ls->ssthresh - ls->window + segment - 1) / segment;
		hw_u32 used = (hw_u32)hw_min(acked, needed);

		ls->window = hw_min(ls->window + used * segment, ls->ssthresh);
		acked -= used;
	}
	if (!acked)
		return;
	round = segment * hw_max(ls_segments(ls), 1);
	ls->credit += (ls_increase(ls) * acked) >> (LS_SCALE_BITS - HW_Q9);
	if (ls->credit >= round) {
		ls->window += ls->credit / round * segment;
		ls->credit %= round;
	}
}

/* Initialises a connection that starts with `window` segments of `mss` bytes. */
HW_INLINE void ls_init(struct ls_state *ls, const struct ls_config *config, hw_u32 window, hw_u32 mss, hw_u32 next)
{
	*ls = (struct ls_state){ 0 };
	ls->mss = mss;
	ls->window = ((hw_u64)window * mss) << HW_Q9;
	ls->prior_window = ls->window;
	ls->prior_ssthresh = LS_UNLIMITED;
	ls_set_ssthresh(ls, config, LS_UNLIMITED);
	ls->scale = config->scale ? config->scale : LS_SCALE_ONE;
	ls->alpha = DCTCP_ONE << DCTCP_GAIN_SHIFT;
	ls->round_end = next;
	ls_update_regime(ls, config);
}

/* Takes a sample of the RTT, in ns, which weighs 2^-shift; zero is none (2.5). */
HW_INLINE void ls_smooth(struct ls_state *ls, hw_u64 sample, hw_u32 shift)
{
	if (!sample)
		return;
	if (ls->rtt)
		ls->rtt += (sample >> shift) - (ls->rtt >> shift);
	else
		ls->rtt = sample;
}

/* Processes an ACK (2.12). Returns whether it reduced the window. */
HW_INLINE int ls_on_ack(struct ls_state *ls, const struct ls_config *config, const struct ls_ack *ack)
{
	const hw_u32 shift = ls_departs_late(ls, config) ? LS_LATE_RTT_SHIFT : LS_RTT_SHIFT;
	hw_u64 before = ls->window;
	int cut;

	ls_smooth(ls, ack->rtt, shift);
	ls_count_marks(ls, config, ack);
	cut = hw_cut_for_mark(&ls->cut, ack->marked, ack->una, ack->next);
	if (cut)
		ls_on_mark(ls, config, ack->in_flight);
	if (ack->acked && ack->cwnd_limited && !ack->in_recovery)
		ls_grow(ls, ack->acked, config->after_cut ? ls->window : before);
	ls_update_regime(ls, config);
	return cut;
}

/*
 * Responds to lost segments, where `una` is the first unacknowledged sequence number: halves the
 * window, whatever the algorithm, once per loss episode, even if marks have already cut it (2.14, RFC
 * 8257 3.5). Call this when an episode begins, before processing the ACK that revealed the loss.
 * Returns whether it reduced the window.
 */
HW_INLINE int ls_on_loss(struct ls_state *ls, const struct ls_config *config, hw_u32 in_flight, hw_u32 una, hw_u32 next)
{
	if (!hw_cut_for_loss(&ls->cut, una, next))
		return 0;
	ls_reduce_to(ls, config, ls_base(ls, config, in_flight) / 2);
	ls_update_regime(ls, config);
	return 1;
}

/*
 * Handles a retransmission timeout: restarts with a window of at most one segment (2.14, RFC 5681 3.1). As in
 * Linux, ssthresh stays if it was already reduced for the data in flight, whatever the reason. Returns
 * whether it was reduced now.
 */
HW_INLINE int ls_on_timeout(struct ls_state *ls, const struct ls_config *config, hw_u32 una, hw_u32 next)
{
	int cut = hw_cut_for_timeout(&ls->cut, una, next);

	if (cut)
		ls_reduce_to(ls, config, ls->window / 2);
	ls->window = hw_min(ls->window, (hw_u64)ls->mss << HW_Q9);
	ls->credit = 0;
	ls_update_regime(ls, config);
	return cut;
}

/* Undoes the last reduction, which was spurious (2.20). */
HW_INLINE void ls_undo(struct ls_state *ls, const struct ls_config *config)
{
	ls->window = hw_max(ls->window, ls->prior_window);
	ls_set_ssthresh(ls, config, hw_max(ls->ssthresh, ls->prior_ssthresh));
	ls_update_regime(ls, config);
}

/* What records of runs show of a connection: 20 bytes, as many as the kernel has for TCP_CC_INFO. */
struct ls_report {
	/* W and S, in bytes, Q9; larger ones are 2^32 - 2, and S before the first reduction 2^32 - 1. */
	hw_u32 window;
	hw_u32 ssthresh;
	/* The increase per round trip with C, in bytes, Q9. */
	hw_u32 add;
	/* The RTT by which departures are spaced, in ns. */
	hw_u32 rtt;
	/* alpha, with DCTCP_FRACTION_BITS. */
	hw_u32 alpha;
};

HW_INLINE void ls_tell(const struct ls_state *ls, struct ls_report *report)
{
	const hw_u64 most = 0xfffffffeULL;

	report->window = (hw_u32)hw_min(ls->window, most);
	report->ssthresh = ls->ssthresh == LS_UNLIMITED ? ~0U : (hw_u32)hw_min(ls->ssthresh, most);
	report->add = (hw_u32)(((hw_u64)ls->add * ls->scale) >> LS_SCALE_BITS);
	report->rtt = (hw_u32)hw_min(ls->rtt, most);
	report->alpha = ls->alpha >> DCTCP_GAIN_SHIFT;
}

/* Changes the size of full segments. The window is in bytes and stays (2.1). */
HW_INLINE void ls_set_mss(struct ls_state *ls, const struct ls_config *config, hw_u32 mss)
{
	ls->window = ls_earned(ls);
	ls->credit = 0;
	ls->mss = mss;
	ls_set_ssthresh(ls, config, ls->ssthresh);
	ls_update_regime(ls, config);
}

#endif

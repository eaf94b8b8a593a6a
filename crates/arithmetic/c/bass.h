/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Buffering-aware spike smoothing (BASS, rapid 2.9) and the moving average after it (2.10).
 *
 * Packets that wait in a buffer and leave together arrive with one large gap, the spike, and tiny ones after
 * it, the dips. Within such an event the gaps are lost but their sum is preserved, so both send and receive
 * gaps become their means over the event.
 *
 *     NONE    --- g[i] + up < g[i+1]: an event begins at i + 1 --------------------> PENDING
 *     PENDING --- g[i] + down < largest of the event ------------------------------> VALID
 *     VALID   --- g[i] + up < g[i+1]: average the event; another begins at i + 1 --> PENDING
 *
 * A stream whose first gap exceeds the second by more than `down` begins in VALID.
 */
#ifndef HEADWAY_BASS_H
#define HEADWAY_BASS_H

#include "rapid_gaps.h"

/* The rise and the fall of a receive gap that make it a spike, in ns. */
struct bass_thresholds {
	hw_u32 up;
	hw_u32 down;
};

enum bass_state {
	BASS_NONE,
	BASS_PENDING,
	BASS_VALID,
};

/* One pass over the gaps of a stream. */
struct bass_pass {
	/* The largest gap of the current event, in ns. */
	hw_u64 largest;
	struct bass_thresholds thresholds;
	/* The current sample. */
	hw_u32 i;
	/* The first sample of the current event. */
	hw_u32 begin;
	/* The first spike and the last one, or the ends of the valid range without a spike: the events before
	 * `head` and from `tail` on may be cut off. */
	hw_u32 head;
	hw_u32 tail;
	/* One of enum bass_state. */
	hw_u32 state;
	/* Whether any gap changed. */
	hw_u32 changed;
};

/* Replaces both arrays from `begin` to before `end` by their means; returns whether that changed any value.
 * The sum of a whole stream has less than 60 bits. */
HW_FUNCTION hw_u32 bass_average(struct rapid_gaps *gaps HW_NONNULL, hw_u32 begin, hw_u32 end)
{
	HW_GIVEN(gaps);
	hw_u64 send = 0, receive = 0, differences = 0, first_send, first_receive;
	hw_u32 i;

	if (begin >= RAPID_MAX_PACKETS || begin >= end)
		return 0;
	first_send = gaps->send[begin];
	first_receive = gaps->receive[begin];
	for (i = begin; i < end; i++) {
		HW_OPAQUE(i);
		if (i >= RAPID_MAX_PACKETS)
			break;
		send += gaps->send[i];
		receive += gaps->receive[i];
		differences |= (gaps->send[i] ^ first_send) | (gaps->receive[i] ^ first_receive);
	}
	if (!differences)
		return 0;
	send = hw_rounded_quotient(send, end - begin);
	receive = hw_rounded_quotient(receive, end - begin);
	for (i = begin; i < end; i++) {
		HW_OPAQUE(i);
		if (i >= RAPID_MAX_PACKETS)
			break;
		gaps->send[i] = send;
		gaps->receive[i] = receive;
	}
	return 1;
}

/* Handles sample i of a pass. */
HW_FUNCTION hw_u32 bass_step(struct rapid_gaps *gaps HW_NONNULL, struct bass_pass *pass HW_NONNULL)
{
	HW_GIVEN(gaps && pass);
	const hw_u32 i = pass->i;
	hw_u32 after = i + 1;
	hw_u64 gap, next;

	if (i >= RAPID_MAX_PACKETS)
		return 0;
	/* Otherwise the compiler compares `i` in its place, from which the verifier of Linux 6.12 learns no bound of it. */
	HW_OPAQUE(after);
	pass->i = after;
	gap = gaps->receive[i];
	if (pass->state == BASS_PENDING) {
		pass->largest = hw_max(pass->largest, gap);
		if (gap + pass->thresholds.down < pass->largest)
			pass->state = BASS_VALID;
	}
	/* In a pending event a further rise only makes the spike larger. */
	if (pass->state == BASS_PENDING || after >= RAPID_MAX_PACKETS || after >= gaps->end)
		return 0;
	next = gaps->receive[after];
	if (gap + pass->thresholds.up >= next)
		return 0;
	pass->changed |= bass_average(gaps, pass->begin, after);
	if (pass->state == BASS_NONE)
		pass->head = after;
	pass->begin = after;
	pass->tail = after;
	pass->largest = next;
	pass->state = BASS_PENDING;
	return 0;
}

/* Averages both arrays over each event found in the receive gaps (2.9). */
HW_INLINE struct bass_pass bass_pass(struct rapid_gaps *gaps, const struct bass_thresholds *thresholds)
{
	const hw_u32 samples = rapid_gaps_bound(gaps);
	const hw_u32 first = gaps->begin;
	struct bass_pass pass = {
		.thresholds = *thresholds,
		.i = first,
		.begin = first,
		.head = first,
		.tail = gaps->end,
	};
	hw_u32 k;

	if (samples < 2 || first + 1 >= RAPID_MAX_PACKETS)
		return pass;
	if (gaps->receive[first] > gaps->receive[first + 1] + thresholds->down) {
		/* The stream starts with a spike. */
		pass.state = BASS_VALID;
		pass.largest = gaps->receive[first];
		pass.tail = first;
	}
	for (k = 0; k < RAPID_MAX_PACKETS && k < samples; k++)
		bass_step(gaps, &pass);
	if (pass.state == BASS_VALID)
		pass.changed |= bass_average(gaps, pass.begin, gaps->end);
	return pass;
}

/* Runs one pass and returns whether it changed any gap. */
HW_FUNCTION hw_u32 bass_changes(struct rapid_gaps *gaps HW_NONNULL, const struct bass_thresholds *thresholds HW_NONNULL)
{
	HW_GIVEN(gaps && thresholds);
	return bass_pass(gaps, thresholds).changed;
}

/* Runs one pass and removes the events that the ends of the stream cut off; returns how many
 * samples remain (2.9). */
HW_FUNCTION hw_u32 bass_crop(struct rapid_gaps *gaps HW_NONNULL, const struct bass_thresholds *thresholds HW_NONNULL)
{
	HW_GIVEN(gaps && thresholds);
	struct bass_pass pass = bass_pass(gaps, thresholds);

	if (pass.head >= pass.tail)
		return 0;
	gaps->begin = pass.head;
	gaps->end = pass.tail;
	return pass.tail - pass.head;
}

/* More than any send gap, so that a receive gap less the send gap is positive with it. */
#define BASS_OFFSET RAPID_MAX_GAP

/* Replaces each receive gap by what the path added to the gap, plus BASS_OFFSET. */
HW_FUNCTION hw_u32 bass_subtract_send(struct rapid_gaps *gaps HW_NONNULL)
{
	HW_GIVEN(gaps);
	hw_u32 i;

	for (i = 0; i < RAPID_MAX_PACKETS; i++)
		gaps->receive[i] += BASS_OFFSET - gaps->send[i];
	return 0;
}

/* Undoes bass_subtract_send, to within the rounding of means. */
HW_FUNCTION hw_u32 bass_add_send(struct rapid_gaps *gaps HW_NONNULL)
{
	HW_GIVEN(gaps);
	hw_u32 i;

	for (i = 0; i < RAPID_MAX_PACKETS; i++)
		gaps->receive[i] = hw_max(gaps->receive[i] + gaps->send[i], BASS_OFFSET) - BASS_OFFSET;
	return 0;
}

/* A moving average that covers the gaps from `before` before to `after` after the one it belongs to. */
struct bass_mean {
	/* Sums of the `count` gaps covered, in ns. */
	hw_u64 send;
	hw_u64 receive;
	hw_u32 count;
	/* The next gap to be covered. */
	hw_u32 enter;
	hw_u32 before;
	hw_u32 after;
};

/* Covers one more gap, and replaces the one `after` before it; `original` keeps the gaps as they were. */
HW_FUNCTION hw_u32 bass_mean_step(struct rapid_gaps *gaps HW_NONNULL, struct rapid_gaps *original HW_NONNULL,
				  struct bass_mean *mean HW_NONNULL)
{
	HW_GIVEN(gaps && original && mean);
	const hw_u32 enter = mean->enter++;
	/* These wrap to huge numbers before the start of the array. */
	const hw_u32 i = enter - mean->after;
	const hw_u32 leave = i - mean->before - 1;
	hw_u32 end = i;

	if (enter < RAPID_MAX_PACKETS && enter < gaps->end) {
		original->send[enter] = gaps->send[enter];
		original->receive[enter] = gaps->receive[enter];
		mean->send += gaps->send[enter];
		mean->receive += gaps->receive[enter];
		mean->count++;
	}
	if (i >= RAPID_MAX_PACKETS || i < gaps->begin || i >= gaps->end)
		return 0;
	/* Otherwise the first condition goes, which verifiers of old kernels need: they do not compare two variables. */
	HW_OPAQUE(end);
	if (leave < RAPID_MAX_PACKETS && leave < end && leave >= gaps->begin) {
		mean->send -= original->send[leave];
		mean->receive -= original->receive[leave];
		mean->count--;
	}
	gaps->send[i] = hw_rounded_quotient(mean->send, mean->count);
	gaps->receive[i] = hw_rounded_quotient(mean->receive, mean->count);
	return 0;
}

/*
 * Replaces each gap of both arrays by the mean of the `window` gaps around it, i - window / 2 to i +
 * (window - 1) / 2, cut off at the ends (2.10). `scratch` is memory. Smoothing only the receive gaps
 * makes estimates 5 % low.
 */
HW_FUNCTION hw_u32 bass_smooth(struct rapid_gaps *gaps HW_NONNULL, struct rapid_gaps *scratch HW_NONNULL, hw_u32 window)
{
	HW_GIVEN(gaps && scratch);
	const hw_u32 samples = rapid_gaps_bound(gaps);
	struct bass_mean mean = { .enter = gaps->begin };
	hw_u32 k;

	if (window < 2 || samples < 2)
		return 0;
	window = (hw_u32)hw_min(window, 2 * RAPID_MAX_PACKETS);
	mean.before = window / 2;
	mean.after = (window - 1) / 2;
	for (k = 0; k < 2 * RAPID_MAX_PACKETS && k < samples + mean.after; k++)
		bass_mean_step(gaps, scratch, &mean);
	return 0;
}

#endif

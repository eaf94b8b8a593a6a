/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exports the inline functions of explicit_end.h as symbols, for callers in other languages. */
#include "explicit_end.h"

hw_u32 headway_explicit_header_time(hw_u64 ns);
hw_u64 headway_explicit_throughput(hw_u64 bytes, hw_u64 srtt);
hw_u64 headway_explicit_spacing(hw_u64 bytes, hw_u64 rate);
hw_s64 headway_explicit_share(hw_u64 rate, hw_u64 desired, hw_u64 srtt, hw_u32 segment);
hw_s64 headway_explicit_request(struct explicit_request *request, hw_s64 part);
void headway_explicit_window_set(struct explicit_window *window, hw_u64 bytes);
void headway_explicit_window_change(struct explicit_window *window, hw_s64 feedback, hw_u64 srtt);
void headway_explicit_window_rate(struct explicit_window *window, hw_u32 rate, hw_u64 srtt);
hw_u32 headway_explicit_window_restart(struct explicit_window *window, hw_u32 version);
hw_u64 headway_explicit_window_whole(struct explicit_window *window, hw_u32 version, hw_u32 sent);
hw_u64 headway_explicit_pacing_rate(hw_u32 version, hw_u32 told, const struct explicit_window *window,
				    const struct explicit_rtt *rtt);
void headway_explicit_rtt_sample(struct explicit_rtt *rtt, hw_u64 sample);
hw_u32 headway_explicit_has_waited(hw_u64 gap, hw_u64 sample, hw_u64 least);

hw_u32 headway_explicit_header_time(hw_u64 ns)
{
	return explicit_header_time(ns);
}

hw_u64 headway_explicit_throughput(hw_u64 bytes, hw_u64 srtt)
{
	return explicit_throughput(bytes, srtt);
}

hw_u64 headway_explicit_spacing(hw_u64 bytes, hw_u64 rate)
{
	return explicit_spacing(bytes, rate);
}

hw_s64 headway_explicit_share(hw_u64 rate, hw_u64 desired, hw_u64 srtt, hw_u32 segment)
{
	return explicit_share(rate, desired, srtt, segment);
}

hw_s64 headway_explicit_request(struct explicit_request *request, hw_s64 part)
{
	return explicit_request(request, part);
}

void headway_explicit_window_set(struct explicit_window *window, hw_u64 bytes)
{
	explicit_window_set(window, bytes);
}

void headway_explicit_window_change(struct explicit_window *window, hw_s64 feedback, hw_u64 srtt)
{
	explicit_window_change(window, feedback, srtt);
}

void headway_explicit_window_rate(struct explicit_window *window, hw_u32 rate, hw_u64 srtt)
{
	explicit_window_rate(window, rate, srtt);
}

hw_u32 headway_explicit_window_restart(struct explicit_window *window, hw_u32 version)
{
	return explicit_window_restart(window, version);
}

hw_u64 headway_explicit_window_whole(struct explicit_window *window, hw_u32 version, hw_u32 sent)
{
	return explicit_window_whole(window, version, sent);
}

hw_u64 headway_explicit_pacing_rate(hw_u32 version, hw_u32 told, const struct explicit_window *window,
				    const struct explicit_rtt *rtt)
{
	return explicit_pacing_rate(version, told, window, rtt);
}

void headway_explicit_rtt_sample(struct explicit_rtt *rtt, hw_u64 sample)
{
	explicit_rtt_sample(rtt, sample);
}

hw_u32 headway_explicit_has_waited(hw_u64 gap, hw_u64 sample, hw_u64 least)
{
	return explicit_has_waited(gap, sample, least);
}

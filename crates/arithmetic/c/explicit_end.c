/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exports the inline functions of explicit_end.h as symbols, for callers in other languages. */
#include "explicit_end.h"

hw_u32 headway_explicit_header_time(hw_u64 ns);
hw_u64 headway_explicit_throughput(hw_u64 bytes, hw_u64 srtt);
hw_u64 headway_explicit_spacing(hw_u64 bytes, hw_u64 rate);
hw_s64 headway_explicit_request(struct explicit_request *request, hw_u64 rate, hw_u64 desired, hw_u64 srtt, hw_u32 segment);
void headway_explicit_window_set(struct explicit_window *window, hw_u64 bytes);
void headway_explicit_window_change(struct explicit_window *window, hw_s64 feedback, hw_u64 srtt);
void headway_explicit_window_rate(struct explicit_window *window, hw_u32 rate, hw_u64 srtt);

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

hw_s64 headway_explicit_request(struct explicit_request *request, hw_u64 rate, hw_u64 desired, hw_u64 srtt, hw_u32 segment)
{
	return explicit_request(request, rate, desired, srtt, segment);
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

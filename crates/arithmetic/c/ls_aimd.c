/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exports the inline functions of the headers as symbols, for callers in other languages. */
#include "ls_aimd.h"

_Static_assert(sizeof(struct ls_state) <= 104, "the kernel gives a congestion control 104 bytes");

hw_s64 headway_log2(hw_u64 x, hw_u32 bits);
hw_u32 headway_exp2_negative(hw_u32 x);
hw_u32 headway_average(hw_u32 average, hw_u32 fraction, hw_u32 shift);
hw_u32 headway_ls_add(hw_u64 ssthresh, hw_u32 exponent);
hw_u32 headway_ls_growth_exponent(hw_u32 mss);
hw_u32 headway_ls_automatic_scale(hw_u32 algorithm, hw_u32 marks, int late_departures);
hw_u32 headway_ls_cwnd(const struct ls_state *ls, const struct ls_config *config);
hw_u64 headway_ls_gap(const struct ls_state *ls, hw_u32 bytes);
void headway_ls_init(struct ls_state *ls, const struct ls_config *config, hw_u32 window, hw_u32 mss, hw_u32 next);
hw_u32 headway_ls_on_ack(struct ls_state *ls, const struct ls_config *config, const struct ls_ack *ack);
hw_u32 headway_ls_on_loss(struct ls_state *ls, const struct ls_config *config, hw_u32 in_flight, hw_u32 una, hw_u32 next);
hw_u32 headway_ls_on_timeout(struct ls_state *ls, const struct ls_config *config, hw_u32 una, hw_u32 next);
void headway_ls_undo(struct ls_state *ls, const struct ls_config *config);
void headway_ls_set_mss(struct ls_state *ls, const struct ls_config *config, hw_u32 mss);

hw_s64 headway_log2(hw_u64 x, hw_u32 bits)
{
	return hw_log2(x, bits);
}

hw_u32 headway_exp2_negative(hw_u32 x)
{
	return hw_exp2_negative(x);
}

hw_u32 headway_average(hw_u32 average, hw_u32 fraction, hw_u32 shift)
{
	return dctcp_average(average, fraction, shift);
}

hw_u32 headway_ls_add(hw_u64 ssthresh, hw_u32 exponent)
{
	return ls_add(ssthresh, exponent);
}

hw_u32 headway_ls_growth_exponent(hw_u32 mss)
{
	return ls_growth_exponent(mss);
}

hw_u32 headway_ls_automatic_scale(hw_u32 algorithm, hw_u32 marks, int late_departures)
{
	return ls_automatic_scale(algorithm, marks, late_departures);
}

hw_u32 headway_ls_cwnd(const struct ls_state *ls, const struct ls_config *config)
{
	return ls_cwnd(ls, config);
}

hw_u64 headway_ls_gap(const struct ls_state *ls, hw_u32 bytes)
{
	return ls_gap(ls, bytes);
}

void headway_ls_init(struct ls_state *ls, const struct ls_config *config, hw_u32 window, hw_u32 mss, hw_u32 next)
{
	ls_init(ls, config, window, mss, next);
}

hw_u32 headway_ls_on_ack(struct ls_state *ls, const struct ls_config *config, const struct ls_ack *ack)
{
	return ls_on_ack(ls, config, ack);
}

hw_u32 headway_ls_on_loss(struct ls_state *ls, const struct ls_config *config, hw_u32 in_flight, hw_u32 una, hw_u32 next)
{
	return ls_on_loss(ls, config, in_flight, una, next);
}

hw_u32 headway_ls_on_timeout(struct ls_state *ls, const struct ls_config *config, hw_u32 una, hw_u32 next)
{
	return ls_on_timeout(ls, config, una, next);
}

void headway_ls_undo(struct ls_state *ls, const struct ls_config *config)
{
	ls_undo(ls, config);
}

void headway_ls_set_mss(struct ls_state *ls, const struct ls_config *config, hw_u32 mss)
{
	ls_set_mss(ls, config, mss);
}

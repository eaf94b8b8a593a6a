/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exports the inline functions of explicit.h as symbols, for callers in other languages. */
#include "explicit.h"

/* Sizes of the structures, for callers that declare them again. */
extern const hw_u32 headway_explicit_sizes[4];
const hw_u32 headway_explicit_sizes[4] = {
	sizeof(struct explicit_config),
	sizeof(struct explicit_header),
	sizeof(struct explicit_record),
	sizeof(struct explicit_queue),
};

hw_u64 headway_scale(hw_u64 a, hw_u64 b, hw_u64 divisor);
hw_u64 headway_product(hw_u64 a, hw_u64 b, hw_u32 shift);
void headway_explicit_configure(struct explicit_config *config, hw_u32 law, hw_u64 capacity, hw_u64 line);
hw_u32 headway_explicit_check(const struct explicit_config *config);
hw_u32 headway_explicit_chi(hw_u32 alpha, hw_u32 beta);
void headway_explicit_init(struct explicit_queue *queue, const struct explicit_config *config, hw_u64 now, hw_u32 random);
void headway_explicit_set_config(struct explicit_queue *queue, const struct explicit_config *config);
hw_u32 headway_explicit_arrive(struct explicit_queue *queue, const struct explicit_header *header, hw_u32 bytes);
void headway_explicit_drop(struct explicit_queue *queue);
hw_u32 headway_explicit_depart(struct explicit_queue *queue, struct explicit_header *header, hw_u32 bytes,
			       hw_u64 backlog_bytes, hw_u32 backlog_packets);
hw_u32 headway_explicit_timer(struct explicit_queue *queue, hw_u64 backlog_bytes, hw_u32 backlog_packets, hw_u64 now);

hw_u64 headway_scale(hw_u64 a, hw_u64 b, hw_u64 divisor)
{
	return hw_scale(a, b, divisor);
}

hw_u64 headway_product(hw_u64 a, hw_u64 b, hw_u32 shift)
{
	return hw_product(a, b, shift);
}

void headway_explicit_configure(struct explicit_config *config, hw_u32 law, hw_u64 capacity, hw_u64 line)
{
	*config = explicit_configure(law, capacity, line);
}

hw_u32 headway_explicit_check(const struct explicit_config *config)
{
	return explicit_check(config);
}

hw_u32 headway_explicit_chi(hw_u32 alpha, hw_u32 beta)
{
	return explicit_chi(alpha, beta);
}

void headway_explicit_init(struct explicit_queue *queue, const struct explicit_config *config, hw_u64 now, hw_u32 random)
{
	explicit_init(queue, config, now, random);
}

void headway_explicit_set_config(struct explicit_queue *queue, const struct explicit_config *config)
{
	explicit_set_config(queue, config);
}

hw_u32 headway_explicit_arrive(struct explicit_queue *queue, const struct explicit_header *header, hw_u32 bytes)
{
	return explicit_arrive(queue, header, bytes);
}

void headway_explicit_drop(struct explicit_queue *queue)
{
	explicit_drop(queue);
}

hw_u32 headway_explicit_depart(struct explicit_queue *queue, struct explicit_header *header, hw_u32 bytes,
			       hw_u64 backlog_bytes, hw_u32 backlog_packets)
{
	return explicit_depart(queue, header, bytes, backlog_bytes, backlog_packets);
}

hw_u32 headway_explicit_timer(struct explicit_queue *queue, hw_u64 backlog_bytes, hw_u32 backlog_packets, hw_u64 now)
{
	return explicit_timer(queue, backlog_bytes, backlog_packets, now);
}

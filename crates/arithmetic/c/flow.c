/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exports the inline functions of the headers about connections as symbols, for callers
 * in other languages. */
#include "flow_class.h"
#include "flow_meter.h"
#include "flow_rtt.h"
#include "rwm.h"
#include "virtual_queue.h"

/* Sizes of the structures, for callers that declare them again. */
extern const hw_u32 headway_flow_sizes[7];
const hw_u32 headway_flow_sizes[7] = {
	sizeof(struct flow_key), sizeof(struct flow_packet), sizeof(struct flow_half),
	sizeof(struct flow),     sizeof(struct flow_rules),  sizeof(struct flow_meter),
	sizeof(struct virtual_queue),
};

hw_u32 headway_flow_read(const hw_u8 *packet, hw_u32 length, hw_u32 framing, struct flow_packet *out);
void headway_flow_set_ends(struct flow_packet *packet, const hw_u32 *source, const hw_u32 *destination, hw_u16 source_port,
			   hw_u16 destination_port);
hw_u32 headway_flow_kind(const struct flow_packet *packet);
int headway_flow_on_syn(struct flow_half *half, int known, const struct flow_packet *packet, hw_u64 now);
int headway_flow_on_answer(struct flow_half *half, const struct flow_packet *packet, hw_u64 now);
int headway_flow_on_third(const struct flow_half *half, const struct flow_packet *packet, hw_u64 now, hw_u64 previous,
			  struct flow *flow);
int headway_flow_on_segment(struct flow *flow, const struct flow_packet *packet, hw_u64 now);
void headway_flow_follow_rtt(struct flow *flow, const struct flow_packet *packet, hw_u32 period, hw_u64 now);
hw_u32 headway_flow_classify(const struct flow_rules *rules, const struct flow_key *key, hw_u32 client, hw_u32 dscp);
void headway_flow_meter_add(struct flow_meter *meter, hw_u64 now, hw_u32 bytes, hw_u32 packets);
void headway_flow_meter_end_slots(struct flow_meter *meter, hw_u64 now);
hw_u64 headway_rwm_bytes(hw_u64 share, hw_u64 rtt);
hw_u64 headway_rwm_weighed(hw_u64 share, hw_u32 parts);
hw_u64 headway_rwm_beside(hw_u64 bytes, hw_u32 sacked);
hw_u64 headway_rwm_rounded(hw_u64 bytes, hw_u32 scale, hw_u64 number, hw_u64 now);
hw_u32 headway_rwm_field(hw_u64 bytes, hw_u32 scale, hw_u32 segment);
hw_u32 headway_rwm_window(struct flow *flow, const struct flow_packet *packet, hw_u64 bytes, int no_shrink);
void headway_rwm_write(hw_u8 *tcp, hw_u32 window);
hw_u16 headway_checksum_after(hw_u16 checksum, hw_u32 place, hw_u16 old, hw_u16 word);
int headway_virtual_queue_add(struct virtual_queue *queue, hw_u64 now, hw_u32 bytes, hw_u64 cost, int may);

hw_u32 headway_flow_read(const hw_u8 *packet, hw_u32 length, hw_u32 framing, struct flow_packet *out)
{
	return flow_read(packet, packet + length, framing, out);
}

void headway_flow_set_ends(struct flow_packet *packet, const hw_u32 *source, const hw_u32 *destination, hw_u16 source_port,
			   hw_u16 destination_port)
{
	flow_set_key(packet, source, destination, source_port, destination_port);
}

hw_u32 headway_flow_kind(const struct flow_packet *packet)
{
	return flow_kind(packet);
}

int headway_flow_on_syn(struct flow_half *half, int known, const struct flow_packet *packet, hw_u64 now)
{
	return flow_on_syn(half, known, packet, now);
}

int headway_flow_on_answer(struct flow_half *half, const struct flow_packet *packet, hw_u64 now)
{
	return flow_on_answer(half, packet, now);
}

int headway_flow_on_third(const struct flow_half *half, const struct flow_packet *packet, hw_u64 now, hw_u64 previous,
			  struct flow *flow)
{
	return flow_on_third(half, packet, now, previous, flow);
}

int headway_flow_on_segment(struct flow *flow, const struct flow_packet *packet, hw_u64 now)
{
	return flow_on_segment(flow, packet, now);
}

void headway_flow_follow_rtt(struct flow *flow, const struct flow_packet *packet, hw_u32 period, hw_u64 now)
{
	flow_measure(flow, packet, flow_on_stamps(flow, packet), period, now);
}

hw_u32 headway_flow_classify(const struct flow_rules *rules, const struct flow_key *key, hw_u32 client, hw_u32 dscp)
{
	return flow_classify(rules, key, client, dscp);
}

void headway_flow_meter_add(struct flow_meter *meter, hw_u64 now, hw_u32 bytes, hw_u32 packets)
{
	flow_meter_add(meter, now, bytes, packets);
}

void headway_flow_meter_end_slots(struct flow_meter *meter, hw_u64 now)
{
	flow_meter_end_slots(meter, now);
}

hw_u64 headway_rwm_bytes(hw_u64 share, hw_u64 rtt)
{
	return rwm_bytes(share, rtt);
}

hw_u64 headway_rwm_weighed(hw_u64 share, hw_u32 parts)
{
	return rwm_weighed(share, parts);
}

hw_u64 headway_rwm_beside(hw_u64 bytes, hw_u32 sacked)
{
	return rwm_beside(bytes, sacked);
}

hw_u64 headway_rwm_rounded(hw_u64 bytes, hw_u32 scale, hw_u64 number, hw_u64 now)
{
	return rwm_rounded(bytes, scale, number, now);
}

hw_u32 headway_rwm_field(hw_u64 bytes, hw_u32 scale, hw_u32 segment)
{
	return rwm_field(bytes, scale, segment);
}

hw_u32 headway_rwm_window(struct flow *flow, const struct flow_packet *packet, hw_u64 bytes, int no_shrink)
{
	return rwm_window(flow, packet, bytes, no_shrink);
}

void headway_rwm_write(hw_u8 *tcp, hw_u32 window)
{
	rwm_write(tcp, window);
}

hw_u16 headway_checksum_after(hw_u16 checksum, hw_u32 place, hw_u16 old, hw_u16 word)
{
	return hw_checksum_after(checksum, hw_word_at(place, old), hw_word_at(place, word));
}

int headway_virtual_queue_add(struct virtual_queue *queue, hw_u64 now, hw_u32 bytes, hw_u64 cost, int may)
{
	return virtual_queue_add(queue, now, bytes, cost, may);
}

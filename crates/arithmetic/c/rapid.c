/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exports the inline functions of rapid.h as symbols, for callers in other languages. */
#include "rapid.h"
#include "rapid_clock.h"
#include "rapid_departures.h"

/* Sizes of the structures, for callers that declare them again. */
extern const hw_u32 headway_rapid_sizes[12];
const hw_u32 headway_rapid_sizes[12] = {
	sizeof(struct rapid_config), sizeof(struct rapid_stream), sizeof(struct rapid_gaps),
	sizeof(struct bass_pass),    sizeof(struct rapid_packet), sizeof(struct rapid_acks),
	sizeof(struct rapid),	     sizeof(struct rapid_estimate), sizeof(struct rapid_departures),
	sizeof(struct rapid_flight), sizeof(struct rapid_sent),	    sizeof(struct rapid_clock),
};

void headway_rapid_configure(struct rapid_config *config, hw_u32 preset, hw_u64 line, hw_u32 packet, hw_u64 narrow);
void headway_rapid_config_bound(struct rapid_config *config);
void headway_rapid_schedule(struct rapid_stream *stream, const struct rapid_shape *shape, hw_u32 packet, hw_u64 rate);
hw_u64 headway_rapid_gap(const struct rapid_stream *stream, hw_u32 index);
hw_u64 headway_rapid_depart(hw_u64 *free, hw_u64 scheduled, hw_u32 bytes, hw_u64 line);
void headway_bass_pass(struct rapid_gaps *gaps, const struct bass_thresholds *thresholds, struct bass_pass *pass);
void headway_bass_smooth(struct rapid_gaps *gaps, struct rapid_gaps *scratch, hw_u32 window);
hw_u32 headway_rapid_denoise(struct rapid_gaps *gaps, struct rapid_gaps *scratch, const struct rapid_config *config,
			     hw_u32 window);
hw_u32 headway_excursion_search(struct rapid_gaps *gaps, const struct excursion_settings *settings, hw_u32 packet,
				struct rapid_estimate *estimate);
hw_u32 headway_rapid_estimate(struct rapid_gaps *gaps, struct rapid_gaps *scratch, const struct rapid_config *config,
			      hw_u32 window, struct rapid_estimate *estimate);
void headway_rapid_acks_restart(struct rapid_acks *acks);
void headway_rapid_push(struct rapid_acks *acks, const struct rapid_packet *packet, hw_u32 packets, hw_u32 unit);
hw_u32 headway_rapid_take(struct rapid_acks *acks, struct rapid_gaps *gaps);
void headway_rapid_init(struct rapid *rapid, const struct rapid_config *config, hw_u64 rtt);
void headway_rapid_on_config(struct rapid *rapid, const struct rapid_config *config);
void headway_rapid_next_stream(struct rapid *rapid, const struct rapid_config *config, struct rapid_stream *stream);
hw_u32 headway_rapid_on_packet(struct rapid *rapid, const struct rapid_config *config, struct rapid_gaps *gaps,
			       struct rapid_gaps *scratch, const struct rapid_packet *packet);
hw_u32 headway_rapid_push_packet(struct rapid *rapid, const struct rapid_config *config,
				 const struct rapid_packet *packet);
hw_u32 headway_rapid_take_stream(struct rapid *rapid, struct rapid_gaps *gaps);
hw_u32 headway_rapid_on_stream(struct rapid *rapid, const struct rapid_config *config, struct rapid_gaps *gaps,
			       struct rapid_gaps *scratch);
hw_u32 headway_rapid_on_outcome(struct rapid *rapid, const struct rapid_config *config, hw_u32 outcome,
				struct rapid_estimate *estimate);
hw_u32 headway_rapid_on_estimate(struct rapid *rapid, const struct rapid_config *config,
				 const struct rapid_estimate *estimate, hw_u64 length);
void headway_rapid_on_loss(struct rapid *rapid, const struct rapid_config *config);
void headway_rapid_on_timeout(struct rapid *rapid, const struct rapid_config *config);
hw_u32 headway_rapid_on_recovered(struct rapid *rapid, const struct rapid_config *config);
void headway_rapid_on_retransmission(struct rapid *rapid);
void headway_rapid_on_undo(struct rapid *rapid);
void headway_rapid_on_rtt(struct rapid *rapid, hw_u64 rtt);
hw_u64 headway_rapid_due(struct rapid_departures *departures, struct rapid *rapid, const struct rapid_config *config,
			 hw_u64 now, hw_u32 idle);
void headway_rapid_departures_take(struct rapid_departures *departures, hw_u32 segment, hw_u8 flags, hw_u32 full,
				   struct rapid_sent *sent);
void headway_rapid_flight_push(struct rapid_flight *flight, struct rapid_sent *slot, hw_u32 slots,
			       const struct rapid_sent *sent, hw_u64 now);
void headway_rapid_flight_on_ack(struct rapid_flight *flight, const struct rapid_ack *ack, hw_u32 unit);
hw_u32 headway_rapid_flight_take(struct rapid_flight *flight, struct rapid_sent *first, struct rapid_packet *packet);
hw_u32 headway_rapid_clock_on_ack(struct rapid_clock *clock, hw_u32 stamp, hw_u64 now, hw_u64 rtt);

void headway_rapid_configure(struct rapid_config *config, hw_u32 preset, hw_u64 line, hw_u32 packet, hw_u64 narrow)
{
	*config = rapid_configure(preset, line, packet, narrow);
}

void headway_rapid_config_bound(struct rapid_config *config)
{
	rapid_config_bound(config);
}

void headway_rapid_schedule(struct rapid_stream *stream, const struct rapid_shape *shape, hw_u32 packet, hw_u64 rate)
{
	rapid_schedule(stream, shape, packet, rate);
}

hw_u64 headway_rapid_gap(const struct rapid_stream *stream, hw_u32 index)
{
	return rapid_gap(stream, index);
}

hw_u64 headway_rapid_depart(hw_u64 *free, hw_u64 scheduled, hw_u32 bytes, hw_u64 line)
{
	return rapid_depart(free, scheduled, bytes, line);
}

void headway_bass_pass(struct rapid_gaps *gaps, const struct bass_thresholds *thresholds, struct bass_pass *pass)
{
	*pass = bass_pass(gaps, thresholds);
}

void headway_bass_smooth(struct rapid_gaps *gaps, struct rapid_gaps *scratch, hw_u32 window)
{
	bass_smooth(gaps, scratch, window);
}

hw_u32 headway_rapid_denoise(struct rapid_gaps *gaps, struct rapid_gaps *scratch, const struct rapid_config *config,
			     hw_u32 window)
{
	return rapid_denoise(gaps, scratch, config, window);
}

hw_u32 headway_excursion_search(struct rapid_gaps *gaps, const struct excursion_settings *settings, hw_u32 packet,
				struct rapid_estimate *estimate)
{
	return excursion_search(gaps, settings, packet, estimate);
}

hw_u32 headway_rapid_estimate(struct rapid_gaps *gaps, struct rapid_gaps *scratch, const struct rapid_config *config,
			      hw_u32 window, struct rapid_estimate *estimate)
{
	return rapid_estimate(gaps, scratch, config, window, estimate);
}

void headway_rapid_acks_restart(struct rapid_acks *acks)
{
	rapid_acks_restart(acks);
}

void headway_rapid_push(struct rapid_acks *acks, const struct rapid_packet *packet, hw_u32 packets, hw_u32 unit)
{
	rapid_push(acks, packet, packets, unit);
}

hw_u32 headway_rapid_take(struct rapid_acks *acks, struct rapid_gaps *gaps)
{
	return rapid_take(acks, gaps);
}

void headway_rapid_init(struct rapid *rapid, const struct rapid_config *config, hw_u64 rtt)
{
	rapid_init(rapid, config, rtt);
}

void headway_rapid_on_config(struct rapid *rapid, const struct rapid_config *config)
{
	rapid_on_config(rapid, config);
}

void headway_rapid_next_stream(struct rapid *rapid, const struct rapid_config *config, struct rapid_stream *stream)
{
	*stream = rapid_next_stream(rapid, config);
}

hw_u32 headway_rapid_on_packet(struct rapid *rapid, const struct rapid_config *config, struct rapid_gaps *gaps,
			       struct rapid_gaps *scratch, const struct rapid_packet *packet)
{
	return rapid_on_packet(rapid, config, gaps, scratch, packet);
}

hw_u32 headway_rapid_push_packet(struct rapid *rapid, const struct rapid_config *config,
				 const struct rapid_packet *packet)
{
	return rapid_push_packet(rapid, config, packet);
}

hw_u32 headway_rapid_take_stream(struct rapid *rapid, struct rapid_gaps *gaps)
{
	return rapid_take(&rapid->acks, gaps);
}

hw_u32 headway_rapid_on_stream(struct rapid *rapid, const struct rapid_config *config, struct rapid_gaps *gaps,
			       struct rapid_gaps *scratch)
{
	return rapid_on_stream(rapid, config, gaps, scratch);
}

hw_u32 headway_rapid_on_outcome(struct rapid *rapid, const struct rapid_config *config, hw_u32 outcome,
				struct rapid_estimate *estimate)
{
	return rapid_on_outcome(rapid, config, outcome, estimate);
}

hw_u32 headway_rapid_on_estimate(struct rapid *rapid, const struct rapid_config *config,
				 const struct rapid_estimate *estimate, hw_u64 length)
{
	return (hw_u32)rapid_on_estimate(rapid, config, estimate, length);
}

void headway_rapid_on_loss(struct rapid *rapid, const struct rapid_config *config)
{
	rapid_on_loss(rapid, config);
}

void headway_rapid_on_timeout(struct rapid *rapid, const struct rapid_config *config)
{
	rapid_on_timeout(rapid, config);
}

hw_u32 headway_rapid_on_recovered(struct rapid *rapid, const struct rapid_config *config)
{
	return (hw_u32)rapid_on_recovered(rapid, config);
}

void headway_rapid_on_retransmission(struct rapid *rapid)
{
	rapid_on_retransmission(rapid);
}

void headway_rapid_on_undo(struct rapid *rapid)
{
	rapid_on_undo(rapid);
}

void headway_rapid_on_rtt(struct rapid *rapid, hw_u64 rtt)
{
	rapid_on_rtt(rapid, rtt);
}

hw_u64 headway_rapid_due(struct rapid_departures *departures, struct rapid *rapid, const struct rapid_config *config,
			 hw_u64 now, hw_u32 idle)
{
	return rapid_due(departures, rapid, config, now, idle);
}

void headway_rapid_departures_take(struct rapid_departures *departures, hw_u32 segment, hw_u8 flags, hw_u32 full,
				   struct rapid_sent *sent)
{
	*sent = rapid_departures_take(departures, segment, flags, full != 0);
}

void headway_rapid_flight_push(struct rapid_flight *flight, struct rapid_sent *slot, hw_u32 slots,
			       const struct rapid_sent *sent, hw_u64 now)
{
	rapid_flight_push(flight, slot, slots, sent, now);
}

void headway_rapid_flight_on_ack(struct rapid_flight *flight, const struct rapid_ack *ack, hw_u32 unit)
{
	rapid_flight_on_ack(flight, ack, unit);
}

hw_u32 headway_rapid_flight_take(struct rapid_flight *flight, struct rapid_sent *first, struct rapid_packet *packet)
{
	return (hw_u32)rapid_flight_take(flight, first, packet);
}

hw_u32 headway_rapid_clock_on_ack(struct rapid_clock *clock, hw_u32 stamp, hw_u64 now, hw_u64 rtt)
{
	return (hw_u32)rapid_clock_on_ack(clock, stamp, now, rtt);
}

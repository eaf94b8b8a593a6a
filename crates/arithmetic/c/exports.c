/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Compiles the functions of all headers as symbols, for callers in other languages. */
#define HW_EXPORTS
#include "explicit.h"
#include "explicit_end.h"
#include "explicit_wire.h"
#include "flow_class.h"
#include "flow_meter.h"
#include "flow_rtt.h"
#include "ls_aimd.h"
#include "rapid.h"
#include "rapid_clock.h"
#include "rapid_departures.h"
#include "rwm.h"
#include "virtual_queue.h"

_Static_assert(sizeof(struct ls_state) <= 104, "the kernel gives a congestion control 104 bytes");

/* Sizes of the structures, for callers that declare them again. */
extern const hw_u32 headway_explicit_sizes[4];
const hw_u32 headway_explicit_sizes[4] = {
	sizeof(struct explicit_config),
	sizeof(struct explicit_header),
	sizeof(struct explicit_record),
	sizeof(struct explicit_queue),
};

extern const hw_u32 headway_flow_sizes[7];
const hw_u32 headway_flow_sizes[7] = {
	sizeof(struct flow_key), sizeof(struct flow_packet), sizeof(struct flow_half),
	sizeof(struct flow),     sizeof(struct flow_rules),  sizeof(struct flow_meter),
	sizeof(struct virtual_queue),
};

extern const hw_u32 headway_rapid_sizes[12];
const hw_u32 headway_rapid_sizes[12] = {
	sizeof(struct rapid_config), sizeof(struct rapid_stream), sizeof(struct rapid_gaps),
	sizeof(struct bass_pass),    sizeof(struct rapid_packet), sizeof(struct rapid_acks),
	sizeof(struct rapid),	     sizeof(struct rapid_estimate), sizeof(struct rapid_departures),
	sizeof(struct rapid_flight), sizeof(struct rapid_sent),	    sizeof(struct rapid_clock),
};

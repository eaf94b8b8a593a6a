/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The arrival of a segment as an experimental option of TCP (RFC 6994), in the ACK that the segment
 * caused (rapid 1.5, 2.6):
 *
 *	kind, length 8, identifier, arrival in us modulo 2^32; 0 if it is not known
 *
 * The thesis overwrites TSval at the interface instead, and restores it at the sender's. As an option it
 * needs neither that nor a checksum, TCP's own timestamps stay what they are, and TCP hands it up with the
 * ACK that it belongs to.
 */
#ifndef HEADWAY_ARRIVAL_OPTION_BPF_H
#define HEADWAY_ARRIVAL_OPTION_BPF_H

#include "sock_ops.bpf.h"

/* The kind for experiments (RFC 4727), and an identifier, which is not registered. */
#define ARRIVAL_KIND 253
#define ARRIVAL_EXPERIMENT 0x4841

struct arrival_option {
	__u8 kind;
	__u8 length;
	__be16 experiment;
	__be32 arrival;
};

#define ARRIVAL_OPTION(us)                                                                                              \
	(struct arrival_option){ .kind = ARRIVAL_KIND,                                                                  \
				 .length = sizeof(struct arrival_option),                                               \
				 .experiment = bpf_htons(ARRIVAL_EXPERIMENT),                                           \
				 .arrival = bpf_htonl(us) }

#endif

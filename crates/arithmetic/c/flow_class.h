/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The class of a connection: that of the first rule which it meets (wan 2.1). The owner fills the rules.
 */
#ifndef HEADWAY_FLOW_CLASS_H
#define HEADWAY_FLOW_CLASS_H

#include "flow_packet.h"

/* Most rules. Each is looked at once for a new connection, some ns each. */
#define FLOW_RULES 64
/* The class of a connection that meets no rule. */
#define FLOW_NO_CLASS 0xffffffffU

/* What a connection must be; what it need not be is 0, and all bits of `codepoints` set. */
struct flow_rule {
	/* Addresses of which one is that of an end, where the mask has bits; as in struct flow_key. */
	hw_u32 address[4];
	hw_u32 mask[4];
	/* Code points of differentiated services that the SYN may have, a bit each. */
	hw_u64 codepoints;
	/* Ports of the end that answered, from one to the other. */
	hw_u16 first_port;
	hw_u16 last_port;
	/* Version of IP. */
	hw_u32 version;
	hw_u32 class;
	hw_u32 unused;
};

struct flow_rules {
	hw_u32 count;
	hw_u32 unused;
	struct flow_rule rule[FLOW_RULES];
};

/* Whether an address is among those of a rule. */
HW_INLINE int flow_is_within(const struct flow_rule *rule, const hw_u32 *address)
{
	hw_u32 differs = 0;
	hw_u32 k;

	for (k = 0; k < 4; k++)
		differs |= (address[k] & rule->mask[k]) ^ rule->address[k];
	return !differs;
}

/* Returns the class of a connection whose end `client` sent a SYN with this code point. */
HW_FUNCTION hw_u32 flow_classify(const struct flow_rules *rules, const struct flow_key *key, hw_u32 client, hw_u32 dscp)
{
	hw_u32 port, k;

	/* They never are, but before Linux 6.8 there was no way to tell the verifier. */
	if (!rules || !key)
		return FLOW_NO_CLASS;
	port = client ? key->port[0] : key->port[1];
	for (k = 0; k < FLOW_RULES && k < rules->count; k++) {
		const struct flow_rule *rule = &rules->rule[k];

		if (rule->version && rule->version != key->version)
			continue;
		if (port < rule->first_port || port > rule->last_port || !(rule->codepoints >> (dscp & 63) & 1))
			continue;
		if (flow_is_within(rule, key->address[0]) || flow_is_within(rule, key->address[1]))
			return rule->class;
	}
	return FLOW_NO_CLASS;
}

#endif

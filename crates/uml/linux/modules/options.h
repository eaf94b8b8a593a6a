/* SPDX-License-Identifier: GPL-2.0 */
/* The parameters of a qdisc: TCA_OPTIONS has one attribute, of type 1, with a structure of the module. */
#ifndef HEADWAY_OPTIONS_H
#define HEADWAY_OPTIONS_H

#include <net/pkt_sched.h>

enum { ATTRIBUTE_UNUSED, ATTRIBUTE_OPTIONS, ATTRIBUTES };

/* Copies the structure of `size` bytes to `options`. */
static int read_options(struct nlattr *nested, struct netlink_ext_ack *extack, void *options, int size)
{
	static const struct nla_policy policy[ATTRIBUTES] = { [ATTRIBUTE_OPTIONS] = { .type = NLA_BINARY } };
	struct nlattr *attributes[ATTRIBUTES];
	int error;

	if (!nested)
		return -EINVAL;
	error = nla_parse_nested_deprecated(attributes, ATTRIBUTES - 1, nested, policy, extack);
	if (error)
		return error;
	if (!attributes[ATTRIBUTE_OPTIONS] || nla_len(attributes[ATTRIBUTE_OPTIONS]) != size)
		return -EINVAL;
	memcpy(options, nla_data(attributes[ATTRIBUTE_OPTIONS]), size);
	return 0;
}

#endif

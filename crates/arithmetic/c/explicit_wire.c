/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Exports the inline functions of explicit_wire.h as symbols, for callers in other languages. */
#include "explicit_wire.h"

hw_u32 headway_explicit_find(const hw_u8 *packet, hw_u32 length, struct explicit_header *header, hw_u32 *at);
void headway_explicit_write(const struct explicit_header *header, hw_u8 *bytes);

hw_u32 headway_explicit_find(const hw_u8 *packet, hw_u32 length, struct explicit_header *header, hw_u32 *at)
{
	return explicit_find(packet, length, header, at);
}

void headway_explicit_write(const struct explicit_header *header, hw_u8 *bytes)
{
	explicit_write(header, bytes);
}

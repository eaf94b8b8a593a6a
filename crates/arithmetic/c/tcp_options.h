/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Options of a TCP header (RFC 9293 3.2), in a copy of fixed size: BPF verifies the walk over it
 * once, for any bytes.
 */
#ifndef HEADWAY_TCP_OPTIONS_H
#define HEADWAY_TCP_OPTIONS_H

#include "numbers.h"

/* Length of a header without options, and the most bytes of options. */
#define TCP_HEADER_BYTES 20
#define TCP_OPTIONS_BYTES 40
/* Kinds, and the length of those that have one: the largest segment, the window's scale and
 * timestamps (RFC 7323). */
#define TCP_OPTION_END 0
#define TCP_OPTION_PADDING 1
#define TCP_OPTION_MSS 2
#define TCP_OPTION_MSS_BYTES 4
#define TCP_OPTION_SCALE 3
#define TCP_OPTION_SCALE_BYTES 3
#define TCP_OPTION_STAMPS 8
#define TCP_OPTION_STAMPS_BYTES 10
/* Signatures of the header with its window (RFC 2385, RFC 5925), of any length. */
#define TCP_OPTION_MD5 19
#define TCP_OPTION_AO 29
#define TCP_ANY_LENGTH 0
/* What stands for the place of an option that is not there. */
#define TCP_NO_OPTION 0xffU

/* The options of a header, and how many bytes they are. */
struct tcp_options {
	hw_u8 bytes[TCP_OPTIONS_BYTES];
	hw_u32 length;
	/* The place of a search, in memory: the verifier then takes it for any number, and not for one
	 * more range each time. */
	volatile hw_u32 at;
};

/*
 * Returns the place of an option with this kind and length: of the last one, as receivers take that, and
 * TCP_NO_OPTION without one. As receivers do, it ends at an option that is shorter than its own head or
 * longer than what is left.
 */
HW_FUNCTION hw_u32 tcp_find_option(struct tcp_options *options, hw_u32 kind, hw_u32 bytes)
{
	hw_u32 found = TCP_NO_OPTION;
	hw_u32 length, k;

	/* It never is, but before Linux 6.8 there was no way to tell the verifier. */
	if (!options)
		return TCP_NO_OPTION;
	length = (hw_u32)hw_min(options->length, TCP_OPTIONS_BYTES);
	options->at = 0;
	for (k = 0; k < TCP_OPTIONS_BYTES; k++) {
		const hw_u32 at = options->at;
		hw_u32 option, size;

		if (at >= length || at >= TCP_OPTIONS_BYTES)
			break;
		option = options->bytes[at];
		if (option == TCP_OPTION_END)
			break;
		if (option == TCP_OPTION_PADDING) {
			options->at = at + 1;
			continue;
		}
		if (at + 2 > length || at + 1 >= TCP_OPTIONS_BYTES)
			break;
		size = options->bytes[at + 1];
		if (size < 2 || at + size > length)
			break;
		if (option == kind && (bytes == TCP_ANY_LENGTH || size == bytes))
			found = at;
		options->at = at + size;
	}
	return found;
}

#endif

/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The checksum of IP and TCP, changed with what it covers (RFC 1624). Words and sums may be in either order
 * of bytes, as long as all are in the same (RFC 1071 2).
 */
#ifndef HEADWAY_CHECKSUM_H
#define HEADWAY_CHECKSUM_H

#include "numbers.h"

/* The sum of at most 65536 words, folded to 16 bits. */
HW_INLINE hw_u16 hw_fold(hw_u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (hw_u16)((sum & 0xffff) + (sum >> 16));
}

/*
 * A word as the checksum sees it that begins at `place` of what is covered: words of the checksum begin at
 * even places, and one at an odd place changes two of them as if its bytes were swapped.
 */
HW_INLINE hw_u16 hw_word_at(hw_u32 place, hw_u16 word)
{
	return place & 1 ? (hw_u16)(word << 8 | word >> 8) : word;
}

/*
 * The checksum after a word became another one (RFC 1624, equation 3). A checksum that was wrong stays wrong
 * by the same, so that the receiver still notices.
 */
HW_INLINE hw_u16 hw_checksum_after(hw_u16 checksum, hw_u16 old, hw_u16 word)
{
	return (hw_u16)~hw_fold((hw_u32)(hw_u16)~checksum + (hw_u16)~old + word);
}

#endif

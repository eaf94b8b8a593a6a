//! Frames of 802.11, as their receiver hears them.

use crate::layers::{Stop, Unread, byte, half};

/// Length of the header of a data frame with three addresses, of a fourth one, and of what may follow.
const HEADER: usize = 24;
const FOURTH_ADDRESS: usize = 6;
const QOS_CONTROL: usize = 2;
const HT_CONTROL: usize = 4;

fn unread(what: &'static str) -> Stop {
    Stop::Unread(Unread::Wireless(what))
}

/// Returns where the 802.2 header behind that of a data frame (IEEE 802.11, 9.2 and 9.3.2) is; with `padded`,
/// behind the next multiple of four bytes.
pub(crate) fn data(frame: &[u8], at: usize, padded: bool) -> Result<usize, Stop> {
    const TO_AND_FROM: u8 = 3;
    const MORE_FRAGMENTS: u8 = 4;
    const PROTECTED: u8 = 0x40;
    const ORDER: u8 = 0x80;
    let [kind, flags] = [byte(frame, at)?, byte(frame, at + 1)?];
    // Version 0, type 2; of the subtype, one bit says that there is no data, and one that there is
    // a QoS control field.
    if kind & 0x0f != 8 || kind & 0x40 != 0 {
        return Err(unread("no data"));
    }
    if flags & PROTECTED != 0 {
        return Err(unread("encrypted"));
    }
    let fragment = byte(frame, at + HEADER - 2)? & 0x0f;
    if flags & MORE_FRAGMENTS != 0 || fragment > 0 {
        return Err(unread("a fragment"));
    }
    let mut length = HEADER;
    length += if flags & TO_AND_FROM == TO_AND_FROM { FOURTH_ADDRESS } else { 0 };
    if kind & 0x80 != 0 {
        if byte(frame, at + length)? & 0x80 != 0 {
            return Err(unread("several packets in one frame"));
        }
        length += QOS_CONTROL + if flags & ORDER != 0 { HT_CONTROL } else { 0 };
    }
    Ok(at + if padded { length.next_multiple_of(4) } else { length })
}

/// Passes the radiotap header (radiotap.org); returns where the frame begins, and whether
/// its header is padded.
pub(crate) fn radiotap(packet: &[u8]) -> Result<(usize, bool), Stop> {
    const PRESENT: usize = 4;
    const TIME: u8 = 1;
    const FLAGS: u8 = 2;
    const MORE: u8 = 0x80;
    const PADDED: u8 = 0x20;
    const DAMAGED: u8 = 0x40;
    let length = usize::from(half(packet, 2)?.swap_bytes());
    // Words say which fields follow; the top bit of each, whether there is another word.
    let mut at = PRESENT;
    while byte(packet, at + 3)? & MORE != 0 && at < length {
        at += 4;
    }
    at += 4;
    let present = byte(packet, PRESENT)?;
    if present & TIME != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    let flags = if present & FLAGS != 0 { byte(packet, at)? } else { 0 };
    if flags & DAMAGED != 0 {
        return Err(unread("damaged"));
    }
    Ok((length, flags & PADDED != 0))
}

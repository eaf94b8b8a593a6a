//! The ECN field of IP packets in Ethernet frames.

use crate::sum;

/// Bytes of an Ethernet header before the IP packet.
pub(crate) const ETHERNET: usize = 14;
pub(crate) const IPV4: [u8; 2] = [0x08, 0x00];
pub(crate) const IPV6: [u8; 2] = [0x86, 0xdd];
/// Mask of the two ECN bits in the second byte of IPv4; in IPv6 they lie four bits higher.
const CE: u8 = 0b11;
/// The bit that ECT(1) and CE share.
const ECT1: u8 = 0b01;
const IPV6_SHIFT: u32 = 4;
/// Offset of the checksum of an IPv4 header.
const CHECKSUM: usize = ETHERNET + 10;

/// Whether the packet is ECN-capable (RFC 3168 5).
pub(crate) fn is_capable(frame: &[u8]) -> bool {
    field(frame) != Some(0) && field(frame).is_some()
}

/// Whether the field says ECT(1) or CE, as that of packets of scalable senders (RFC 9331).
pub(crate) fn is_scalable(frame: &[u8]) -> bool {
    field(frame).is_some_and(|field| field & ECT1 != 0)
}

fn field(frame: &[u8]) -> Option<u8> {
    match frame.get(12..14)? {
        kind if kind == IPV4 => Some(frame.get(ETHERNET + 1)? & CE),
        kind if kind == IPV6 => Some((frame.get(ETHERNET + 1)? >> IPV6_SHIFT) & CE),
        _ => None,
    }
}

/// Sets CE. Frames that are not IP stay unchanged.
pub(crate) fn mark(frame: &mut [u8]) {
    set(frame, CE);
}

/// Clears the field, so the packet is not ECN-capable. Frames that are not IP stay unchanged.
pub(crate) fn clear(frame: &mut [u8]) {
    set(frame, 0);
}

/// Replaces the two bits.
fn set(frame: &mut [u8], bits: u8) {
    if frame.len() < CHECKSUM + 2 {
        return;
    }
    if frame[12..14] == IPV6 {
        frame[ETHERNET + 1] = frame[ETHERNET + 1] & !(CE << IPV6_SHIFT) | bits << IPV6_SHIFT;
    } else if frame[12..14] == IPV4 {
        let old = u16::from_be_bytes([frame[ETHERNET], frame[ETHERNET + 1]]);
        frame[ETHERNET + 1] = frame[ETHERNET + 1] & !CE | bits;
        let new = u16::from_be_bytes([frame[ETHERNET], frame[ETHERNET + 1]]);
        let sum = u16::from_be_bytes([frame[CHECKSUM], frame[CHECKSUM + 1]]);
        frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum::update(sum, old, new).to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header without options, with a correct checksum.
    fn ipv4(tos: u8) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend(IPV4);
        frame.extend([0x45, tos, 0x05, 0xdc, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
        let sum = !add(&frame[ETHERNET..]);
        frame[CHECKSUM..CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    /// The ones' complement sum of 16-bit words: all ones for a header with a correct checksum.
    fn add(header: &[u8]) -> u16 {
        let sum: u32 = header.chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    #[test]
    fn a_mark_and_its_removal_keep_the_checksum_right() {
        for tos in 0..=255 {
            let mut frame = ipv4(tos);
            assert_eq!(is_capable(&frame), tos & 3 != 0);
            mark(&mut frame);
            assert_eq!(frame[ETHERNET + 1], tos | 3);
            assert_eq!(add(&frame[ETHERNET..]), 0xffff, "{tos}");
            clear(&mut frame);
            assert_eq!((frame[ETHERNET + 1], is_capable(&frame)), (tos & !3, false));
            assert_eq!(add(&frame[ETHERNET..]), 0xffff, "{tos}");
        }
    }

    #[test]
    fn ipv6_has_the_field_in_its_traffic_class() {
        let mut frame = vec![0; 60];
        frame[12..14].copy_from_slice(&IPV6);
        (frame[14], frame[15]) = (0x60, 0x2f);
        assert!(is_capable(&frame));
        mark(&mut frame);
        assert_eq!((frame[14], frame[15]), (0x60, 0x3f));
        clear(&mut frame);
        assert_eq!((frame[14], frame[15]), (0x60, 0x0f));
        frame[15] = 0x0f;
        assert!(!is_capable(&frame));
    }

    #[test]
    fn other_frames_stay_as_they_are() {
        let mut arp = vec![0; 42];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        let before = arp.clone();
        mark(&mut arp);
        clear(&mut arp);
        assert!(arp == before && !is_capable(&arp) && !is_capable(&arp[..13]));
        mark(&mut [0; 3]);
    }
}

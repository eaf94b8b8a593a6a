//! What happens to the frames of hosts behind the queue of a link: bits are flipped, the ECN field is
//! cleared, and frames arrive twice.

use headway_traffic::channel::EcnField;
use headway_traffic::random::{self, Pcg64Mcg};
use rand::RngExt as _;

use crate::ecn::{self, ETHERNET};
use crate::spec::LinkSpec;

/// Bytes of an IPv6 header; extensions behind it are covered by the checksum of no protocol, but
/// lab hosts send none.
const IPV6_HEADER: usize = 40;

/// Changes frames on their way.
#[derive(Debug)]
pub(crate) struct Wire {
    duplicate: f64,
    corrupt: f64,
    ecn: EcnField,
    rng: Pcg64Mcg,
}

/// What the wire did to a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Changed {
    /// A bit is wrong.
    pub(crate) damaged: bool,
    /// It arrives twice.
    pub(crate) doubled: bool,
}

impl Wire {
    /// Returns the wire of a link; `None` if nothing happens there.
    pub(crate) fn new(link: &LinkSpec, seed: u64) -> Option<Wire> {
        let LinkSpec { duplicate, corrupt, ecn, .. } = *link;
        let is_plain = duplicate == 0.0 && corrupt == 0.0 && ecn == EcnField::Keep;
        (!is_plain).then(|| Wire { duplicate, corrupt, ecn, rng: random::generator(seed, "wire", 0) })
    }

    /// Changes a frame that is delivered.
    pub(crate) fn pass(&mut self, frame: &mut [u8]) -> Changed {
        if self.ecn == EcnField::Clear {
            ecn::clear(frame);
        }
        let damaged = self.happens(self.corrupt) && self.flip_bit(frame);
        Changed { damaged, doubled: self.happens(self.duplicate) }
    }

    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && self.rng.random::<f64>() < share
    }

    /// Flips a bit behind the IP header, so that routers pass the packet on and the checksum of TCP or UDP is
    /// wrong at its receiver. Returns false for frames that are not IP, which stay unchanged.
    fn flip_bit(&mut self, frame: &mut [u8]) -> bool {
        let Some(begin) = behind_ip(frame).filter(|begin| *begin < frame.len()) else { return false };
        let place = self.rng.random_range(begin..frame.len());
        frame[place] ^= 1 << self.rng.random_range(0..8);
        true
    }
}

/// Returns where the IP header of a frame ends.
fn behind_ip(frame: &[u8]) -> Option<usize> {
    match frame.get(ETHERNET)? >> 4 {
        4 if frame[12..14] == ecn::IPV4 => Some(ETHERNET + 4 * usize::from(frame[ETHERNET] & 0xf)),
        6 if frame[12..14] == ecn::IPV6 => Some(ETHERNET + IPV6_HEADER),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use headway_units::{Duration, Rate};

    use super::*;

    fn wire(change: impl FnOnce(&mut LinkSpec)) -> Wire {
        let mut link = LinkSpec::new(Rate::from_mbps(1.0), Duration::ZERO);
        change(&mut link);
        Wire::new(&link, 1).unwrap()
    }

    /// An IPv4 frame with a payload of 100 bytes.
    fn frame() -> Vec<u8> {
        let mut frame = vec![0; ETHERNET + 20 + 100];
        frame[12..14].copy_from_slice(&ecn::IPV4);
        (frame[ETHERNET], frame[ETHERNET + 1]) = (0x45, 3);
        frame
    }

    #[test]
    fn a_flipped_bit_lies_behind_the_ip_header() {
        let mut wire = wire(|link| link.corrupt = 0.999_999);
        let mut touched = std::collections::HashSet::new();
        for _ in 0..10_000 {
            let mut changed = frame();
            wire.pass(&mut changed);
            let bits: Vec<(usize, u32)> = (changed.iter().zip(frame()).enumerate())
                .map(|(place, (after, before))| (place, (after ^ before).count_ones()))
                .filter(|(_, bits)| *bits > 0)
                .collect();
            assert!(matches!(bits[..], [(place, 1)] if place >= ETHERNET + 20), "{bits:?}");
            touched.insert(bits[0].0);
        }
        assert_eq!(touched.len(), 100);
        let mut arp = vec![0; 42];
        arp[12..14].copy_from_slice(&[0x08, 0x06]);
        wire.pass(&mut arp);
        assert_eq!(arp.iter().filter(|byte| **byte != 0).count(), 2);
    }

    #[test]
    fn frames_are_changed_and_doubled_as_often_as_said() {
        let mut wire = wire(|link| (link.duplicate, link.corrupt, link.ecn) = (0.1, 0.02, EcnField::Clear));
        let (mut twice, mut wrong) = (0, 0);
        for _ in 0..100_000 {
            let mut changed = frame();
            twice += u32::from(wire.pass(&mut changed).doubled);
            assert_eq!(changed[ETHERNET + 1], 0);
            wrong += u32::from(changed[ETHERNET + 20..] != frame()[ETHERNET + 20..]);
        }
        // Four standard deviations.
        assert!(twice.abs_diff(10_000) < 380 && wrong.abs_diff(2_000) < 180, "{twice} {wrong}");
        assert!(Wire::new(&LinkSpec::new(Rate::from_mbps(1.0), Duration::ZERO), 1).is_none());
    }
}

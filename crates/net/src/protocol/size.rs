//! The size of a probe, counted at each layer.

use headway_units::{Bytes, WIRE_OVERHEAD};
use std::net::IpAddr;

/// The IP version of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Returns the family of an address.
    pub(crate) const fn of(address: IpAddr) -> Family {
        match address {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// Returns the bytes of IP and UDP headers before the payload: 20 + 8 or 40 + 8.
    pub(crate) const fn headers(self) -> u16 {
        match self {
            Family::V4 => 28,
            Family::V6 => 48,
        }
    }
}

/// The size of a probe packet, stored as the length of its IP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PacketSize(u16);

impl PacketSize {
    /// The smallest IP packet that holds a probe header, the same for both families, in bytes.
    pub(crate) const MIN_IP: u16 = Family::V6.headers() + super::probe::HEADER_LEN as u16;
    /// The largest IP packet used for probes, in bytes: the usual jumbo frame.
    pub(crate) const MAX_IP: u16 = 9000;

    /// The smallest packet.
    pub(crate) const SMALLEST: PacketSize = PacketSize(PacketSize::MIN_IP);

    /// The largest packet.
    pub(crate) const LARGEST: PacketSize = PacketSize(PacketSize::MAX_IP);

    /// Returns the size with an IP packet of `bytes` bytes; `None` outside [`PacketSize::MIN_IP`] to
    /// [`PacketSize::MAX_IP`].
    pub const fn from_ip(bytes: u16) -> Option<PacketSize> {
        if bytes < PacketSize::MIN_IP || bytes > PacketSize::MAX_IP {
            return None;
        }
        Some(PacketSize(bytes))
    }

    /// Returns the size that occupies `wire` bytes on the wire; `None` outside the allowed range.
    pub(crate) fn from_wire(wire: Bytes) -> Option<PacketSize> {
        let ip = wire.get().checked_sub(WIRE_OVERHEAD.get())?;
        PacketSize::from_ip(u16::try_from(ip).ok()?)
    }

    /// Returns the length of the IP packet in bytes.
    pub(crate) const fn ip(self) -> u16 {
        self.0
    }

    /// Returns the bytes on the wire, including preamble and inter-packet gap.
    pub(crate) const fn wire(self) -> Bytes {
        Bytes::new(self.0 as u64 + WIRE_OVERHEAD.get())
    }

    /// Returns the length of the UDP payload in bytes.
    pub const fn payload(self, family: Family) -> usize {
        (self.0 - family.headers()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ethernet_packet_is_1538_bytes_on_the_wire() {
        let size = PacketSize::from_ip(1500).unwrap();
        assert_eq!(size.wire(), Bytes::new(1538));
        assert_eq!(size.payload(Family::V4), 1472);
        assert_eq!(size.payload(Family::V6), 1452);
        assert_eq!(PacketSize::from_wire(Bytes::new(1538)), Some(size));
        assert_eq!(PacketSize::from_wire(Bytes::new(10)), None);
        assert_eq!(PacketSize::from_wire(Bytes::new(u64::MAX)), None);
        assert_eq!(PacketSize::from_ip(9001), None);
    }
}

//! What a middlebox reads of a packet.

use std::net::IpAddr;
use std::ops::Range;

use super::{Kind, NO_SCALE};
use crate::plain::Plain;

/// Flags of a TCP header.
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise: part of a handshake.
    pub const SYN: u8 = 0x02;
    /// Reset.
    pub const RST: u8 = 0x04;
    /// Acknowledgement.
    pub const ACK: u8 = 0x10;
}

/// Offset of the window in a TCP header, and the length of both fields that change, to the
/// end of the checksum.
const WINDOW: usize = 14;
const CHANGED: usize = 4;

/// What a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Framing {
    /// The header of IP.
    Ip = 0,
    /// The header of Ethernet, with up to two VLAN tags.
    Ethernet = 1,
}

/// Why a packet passes as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotSegment {
    /// Not TCP.
    Other,
    /// A part of a packet.
    Fragment,
    /// A packet within another one, or encrypted.
    Tunnel,
    /// A header that is cut off, contradicts itself, or has flags that no TCP sends.
    Malformed,
}

/// A connection: its two ends, in the same order whichever of them sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C, align(4))]
pub struct Key {
    address: [[u8; 16]; 2],
    port: [u16; 2],
    version: u32,
}

// SAFETY: it consists of integers.
unsafe impl Plain for Key {}

impl Key {
    /// Returns the address of an end, 0 or 1.
    pub fn address(&self, end: usize) -> IpAddr {
        let bytes = self.address[end & 1];
        match self.version {
            4 => IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]]),
            _ => IpAddr::from(bytes),
        }
    }

    /// Returns the port of an end, 0 or 1.
    pub const fn port(&self, end: usize) -> u16 {
        self.port[end & 1]
    }
}

/// A TCP segment, as far as a middlebox goes by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Packet {
    key: Key,
    /// Sequence number.
    pub sequence: u32,
    /// Acknowledgement number.
    pub acknowledgement: u32,
    /// Bytes of data.
    pub data: u32,
    at: u32,
    stamp: u32,
    echo: u32,
    /// The field in the header, without scale.
    pub window: u16,
    /// Largest segment that a SYN says, in bytes.
    pub mss: u16,
    scale: u8,
    /// Bits of [`flag`].
    pub flags: u8,
    /// Differentiated services code point, 0 to 63.
    pub dscp: u8,
    sender: u8,
    /// On which side of the middlebox it arrived, 0 or 1.
    pub side: u8,
    stamped: u8,
    /// Explicit congestion notification: 0 for none, 1 and 2 for what may be marked, 3 for
    /// a mark (RFC 3168 5).
    pub ecn: u8,
    unused: u8,
    /// Bytes that SACKs say have arrived beyond the acknowledgement number.
    pub sacked: u32,
}

unsafe extern "C" {
    unsafe fn flow_read(packet: *const u8, end: *const u8, framing: Framing, out: &mut Packet) -> u32;
    safe fn flow_set_key(
        packet: &mut Packet,
        source: &[u32; 4],
        destination: &[u32; 4],
        source_port: u32,
        destination_port: u32,
    );
    safe fn flow_kind(packet: &Packet) -> Kind;
    unsafe fn rwm_write(tcp: *mut u8, window: u32);
}

/// An address as it lies in a key.
pub(super) fn words(address: IpAddr) -> [u32; 4] {
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
        IpAddr::V6(address) => bytes = address.octets(),
    }
    std::array::from_fn(|word| {
        u32::from_ne_bytes([bytes[4 * word], bytes[4 * word + 1], bytes[4 * word + 2], bytes[4 * word + 3]])
    })
}

impl Packet {
    fn empty() -> Packet {
        let key = Key { version: 4, ..Key::default() };
        Packet { key, scale: NO_SCALE, flags: flag::ACK, ..Packet::default() }
    }

    /// Returns an ACK from one address and port to another of the same version of IP, without
    /// bytes, for simulators.
    pub fn between(source: (IpAddr, u16), destination: (IpAddr, u16)) -> Packet {
        let mut packet = Packet::empty();
        packet.key.version = if source.0.is_ipv4() { 4 } else { 6 };
        let ends = [source.0, destination.0].map(words);
        flow_set_key(&mut packet, &ends[0], &ends[1], source.1.into(), destination.1.into());
        packet
    }

    /// Reads a packet that arrived on a side, 0 or 1, from the bytes that are at hand.
    ///
    /// # Errors
    /// What is no segment, or not wholly understood, is to pass as it is.
    pub fn read(bytes: &[u8], framing: Framing, side: u8) -> Result<Packet, NotSegment> {
        let Range { start, end } = bytes.as_ptr_range();
        let mut packet = Packet::empty();
        // SAFETY: the function reads no byte outside this range.
        let found = unsafe { flow_read(start, end, framing, &mut packet) };
        packet.side = side & 1;
        match found {
            0 => Ok(packet),
            // Datagrams of UDP are something else here.
            1 | 5 => Err(NotSegment::Other),
            2 => Err(NotSegment::Fragment),
            3 => Err(NotSegment::Tunnel),
            _ => Err(NotSegment::Malformed),
        }
    }

    /// Writes a window into the bytes that this was read from, and updates the checksum (RFC 1624).
    ///
    /// A checksum that was wrong stays wrong.
    pub fn write_window(&self, bytes: &mut [u8], window: u16) {
        let at = self.at as usize;
        let Some(header) = bytes.get_mut(at..).filter(|header| header.len() >= WINDOW + CHANGED) else {
            return;
        };
        // SAFETY: the function writes both fields only, which the slice has.
        unsafe { rwm_write(header.as_mut_ptr(), u32::from(window)) }
    }

    /// Returns the connection.
    pub const fn key(&self) -> &Key {
        &self.key
    }

    /// Returns which end of the key sent it, 0 or 1.
    pub const fn sender(&self) -> usize {
        (self.sender & 1) as usize
    }

    /// Returns where the header of TCP begins in the bytes that this was read from.
    pub const fn at(&self) -> usize {
        self.at as usize
    }

    /// Returns the scale that a SYN says, 0 to 14; none without one, and where all headers are signed.
    pub const fn scale(&self) -> Option<u8> {
        if self.scale == NO_SCALE { None } else { Some(self.scale) }
    }

    /// Returns a SYN or SYN-ACK with another scale.
    pub fn with_scale(self, scale: Option<u8>) -> Packet {
        Packet { scale: scale.map_or(NO_SCALE, |scale| scale.min(14)), ..self }
    }

    /// Returns its timestamp and the one that it echoes, where its options begin with them.
    pub fn timestamps(&self) -> Option<[u32; 2]> {
        (self.stamped != 0).then_some([self.stamp, self.echo])
    }

    /// Returns a segment with another timestamp and echo.
    pub const fn with_timestamps(self, [stamp, echo]: [u32; 2]) -> Packet {
        Packet { stamp, echo, stamped: 1, ..self }
    }

    /// Returns what to do with it.
    pub fn kind(&self) -> Kind {
        flow_kind(self)
    }
}

//! The send gaps of a p-stream.

use super::{MAX_PACKET, MAX_PACKETS, MAX_RATE, MAX_RATES, MIN_RATE};

/// The layout of probing rates in a p-stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Shape {
    /// Number of rates, 1 to 8.
    pub rates: u32,
    /// Packets at each rate, at least 1; at most 192 in all.
    pub packets: u32,
    /// Ratio of the gap of a rate to that of the rate below, in units of 2^-16: 2^15 to 2^16.
    pub ratio: u32,
}

impl Shape {
    /// 1 / 1.15 as published, 223 / 256 (rapid 2.20).
    pub const RATIO: u32 = 223 << 8;

    /// Returns a layout whose highest rate lies `range` above the lowest (0.5 for 50 %) (rapid 2.2).
    pub fn with_range(rates: u32, packets: u32, range: f64) -> Shape {
        let step = (1.0 + range).powf(1.0 / f64::from(rates.max(2) - 1));
        Shape { rates, packets, ratio: (65_536.0 / step).round() as u32 }.bounded()
    }

    /// Returns the number of packets in a stream.
    pub fn len(&self) -> u32 {
        self.rates * self.packets
    }

    /// Returns whether the layout has no packets, which no valid one has.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn bounded(self) -> Shape {
        let rates = self.rates.clamp(1, MAX_RATES as u32);
        let packets = self.packets.clamp(1, MAX_PACKETS as u32 / rates);
        Shape { rates, packets, ratio: self.ratio.clamp(1 << 15, 1 << 16) }
    }
}

/// A p-stream to be sent (rapid 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Stream {
    /// The average rate, in bit/s.
    pub rate: u64,
    gap: [u64; MAX_RATES],
    longer: [u32; MAX_RATES],
    /// Number of the stream in its connection; wraps.
    pub id: u32,
    /// The layout.
    pub shape: Shape,
}

unsafe extern "C" {
    safe fn rapid_schedule(stream: &mut Stream, shape: &Shape, packet: u32, rate: u64);
    safe fn rapid_gap(stream: &Stream, index: u32) -> u64;
    safe fn rapid_depart(free: &mut u64, scheduled: u64, bytes: u32, line: u64) -> u64;
}

impl Stream {
    /// Creates a p-stream of packets of `packet` bytes with the average `rate`; arguments out of
    /// range are moved into it.
    pub fn new(shape: Shape, packet: u32, rate: u64) -> Stream {
        let mut stream = Stream::default();
        let (packet, rate) = (packet.clamp(1, MAX_PACKET), rate.clamp(MIN_RATE, MAX_RATE));
        rapid_schedule(&mut stream, &shape.bounded(), packet, rate);
        stream
    }

    /// Returns the gap before packet `index`, in ns; the first one is to the last packet of
    /// the previous stream.
    pub fn gap(&self, index: u32) -> u64 {
        rapid_gap(self, index)
    }
}

/// The sender's own link, which transmits packets one after another (rapid 2.2).
#[derive(Clone, Copy, Debug)]
pub struct LineClock {
    line: u64,
    free: u64,
}

impl LineClock {
    /// Creates an idle link of `line` bit/s.
    pub fn new(line: u64) -> LineClock {
        LineClock { line: line.max(1), free: 0 }
    }

    /// Returns when a packet of `bytes`, below 2^31, leaves that is scheduled for `scheduled`, both in ns.
    pub fn depart(&mut self, scheduled: u64, bytes: u32) -> u64 {
        rapid_depart(&mut self.free, scheduled, bytes, self.line)
    }
}

//! How feedback sets the window of a sender (xcp-rcp 2.2, 2.12).

use headway_arithmetic::explicit::ANY_RATE;

use crate::units::{Bytes, Duration};

/// Fraction bits of a window in bytes (xcp-rcp 2.15).
pub const WINDOW_BITS: u32 = 8;
/// Largest window in bytes: the most that TCP can advertise (RFC 7323).
pub const LARGEST_WINDOW: Bytes = Bytes::new(65_535 << 14);

const NS_PER_S: i128 = 1_000_000_000;

/// The window of a sender, in bytes with a fraction: at least one segment, at most [`LARGEST_WINDOW`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// In bytes, with [`WINDOW_BITS`].
    bytes: u64,
    /// What feedback added beyond these, in units of 1e-9 of the last bit.
    rest: i128,
    mss: Bytes,
}

impl Window {
    /// Creates a window of `bytes` for segments of `mss` bytes.
    pub fn new(bytes: Bytes, mss: Bytes) -> Window {
        let mut window = Window { bytes: 0, rest: 0, mss };
        window.set(bytes);
        window
    }

    /// Sets the window, within its limits.
    pub fn set(&mut self, bytes: Bytes) {
        self.store(i128::from(bytes.get()) << WINDOW_BITS);
    }

    /// Returns the window in bytes, with [`WINDOW_BITS`].
    pub const fn with_fraction(&self) -> u64 {
        self.bytes
    }

    /// Returns the window in whole bytes, rounded down.
    pub const fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes >> WINDOW_BITS)
    }

    /// Applies XCP's feedback, in B/s: the window changes by feedback x RTT. Without an RTT it stays (xcp-rcp 2.2).
    pub fn on_change(&mut self, feedback: i32, srtt: Duration) {
        if srtt <= Duration::ZERO {
            return;
        }
        let change = ((i128::from(feedback) * i128::from(srtt.ns())) << WINDOW_BITS) + self.rest;
        let rest = change.rem_euclid(NS_PER_S);
        if self.store(i128::from(self.bytes) + change.div_euclid(NS_PER_S)) {
            self.rest = rest;
        }
    }

    /// Applies RCP's feedback, in B/s: the window becomes rate x RTT. Without an RTT or a rate it stays; at
    /// [`ANY_RATE`] no router of RCP was on the path, and it is as large as can be (xcp-rcp 2.12, 2.16).
    pub fn on_rate(&mut self, rate: u32, srtt: Duration) {
        if srtt <= Duration::ZERO || rate == 0 {
            return;
        }
        let bytes = (i128::from(rate) * i128::from(srtt.ns())) << WINDOW_BITS;
        self.store(if rate == ANY_RATE { i128::MAX } else { (bytes + NS_PER_S / 2) / NS_PER_S });
    }

    /// Stores a window within its limits and forgets the rest; returns whether it was within them.
    fn store(&mut self, bytes: i128) -> bool {
        let low = i128::from(self.mss.min(LARGEST_WINDOW).get()) << WINDOW_BITS;
        let bounded = bytes.clamp(low, i128::from(LARGEST_WINDOW.get()) << WINDOW_BITS);
        self.bytes = bounded as u64;
        self.rest = 0;
        bounded == bytes
    }
}

//! How feedback sets the window of a sender (xcp-rcp 2.2, 2.12).

use headway_arithmetic::explicit::end;

use super::sender::positive;
use headway_units::{Bytes, Duration};

pub use headway_arithmetic::explicit::end::{PACED_WINDOW, WINDOW_BITS};

/// Largest window in bytes: the most that TCP can advertise (RFC 7323).
pub const LARGEST_WINDOW: Bytes = Bytes::new(end::LARGEST_WINDOW);

/// The window of a sender, in bytes with a fraction: at least one segment, at most [`LARGEST_WINDOW`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window(end::Window);

impl Window {
    /// Creates a window of `bytes` for segments of `mss` bytes.
    pub fn new(bytes: Bytes, mss: Bytes) -> Window {
        Window(end::Window::new(with_fraction(bytes), mss.get()))
    }

    /// Sets the window, within its limits.
    pub fn set(&mut self, bytes: Bytes) {
        self.0.set(with_fraction(bytes));
    }

    /// Returns the window in bytes, with [`WINDOW_BITS`].
    pub const fn with_fraction(&self) -> u64 {
        self.0.bytes()
    }

    /// Returns the window in whole bytes, rounded down.
    pub const fn bytes(&self) -> Bytes {
        Bytes::new(self.0.bytes() >> WINDOW_BITS)
    }

    /// Applies XCP's feedback, in B/s: the window changes by feedback x RTT. Without an RTT it
    /// stays (xcp-rcp 2.2).
    pub fn on_change(&mut self, feedback: i32, srtt: Duration) {
        self.0.on_change(feedback, positive(srtt).unwrap_or(0));
    }

    /// Applies RCP's feedback, in B/s: the window becomes rate x RTT. Without an RTT or a rate it stays; at
    /// [`ANY_RATE`](super::ANY_RATE) no router of RCP was on the path, and it is as large as can be
    /// (xcp-rcp 2.12, 2.16).
    pub fn on_rate(&mut self, rate: u32, srtt: Duration) {
        self.0.on_rate(rate, positive(srtt).unwrap_or(0));
    }
}

fn with_fraction(bytes: Bytes) -> u64 {
    bytes.get().min(LARGEST_WINDOW.get()) << WINDOW_BITS
}

//! The gaps that a sender creates, without a path.

use headway_host::gap::GapSender;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::experiment::GapMechanism;

/// A host that sends the packets of one flow as close to their scheduled times as its mechanism allows.
pub(crate) struct Sender {
    sender: GapSender,
    packet: Bytes,
    scheduled: Instant,
}

impl Sender {
    /// Creates a sender of packets of this size, with a link of rate `line`.
    pub(crate) fn new(mechanism: GapMechanism, line: Rate, packet: Bytes, seed: u64) -> Sender {
        let sender = mechanism.mechanism().sender(line, packet, seed);
        Sender { sender, packet, scheduled: Instant::from_ns(1_000_000) }
    }

    /// Sends one packet more than there are gaps, and returns the actual gaps.
    pub(crate) fn send(&mut self, gaps: &[Duration]) -> Vec<Duration> {
        let mut last = self.sender.depart(self.scheduled, self.packet);
        let made = |gap: &Duration| {
            self.scheduled += *gap;
            let departure = self.sender.depart(self.scheduled, self.packet);
            departure - std::mem::replace(&mut last, departure)
        };
        gaps.iter().map(made).collect()
    }
}

/// Returns the differences between actual and intended gaps, in microseconds.
pub(crate) fn errors_us(wanted: &[Duration], made: &[Duration]) -> Vec<f64> {
    wanted.iter().zip(made).map(|(wanted, made)| (*made - *wanted).us()).collect()
}

//! Gaps that a sender makes, without a path behind it.

use headway_core::{Bytes, Duration, Instant, Rate};
use headway_host::gap::GapSender;

use crate::experiment::Gapping;

/// A host that sends packets of one flow at wanted times, as well as its mechanism can.
pub(crate) struct Sender {
    sender: GapSender,
    packet: Bytes,
    scheduled: Instant,
}

impl Sender {
    /// A sender of packets of this size whose link has this rate.
    pub(crate) fn new(mechanism: Gapping, line: Rate, packet: Bytes, seed: u64) -> Sender {
        let sender = mechanism.mechanism().sender(line, packet, seed);
        Sender { sender, packet, scheduled: Instant::from_ns(1_000_000) }
    }

    /// Sends one more packet than there are gaps; returns the gaps made.
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

/// By how much gaps made exceed gaps wanted, in microseconds.
pub(crate) fn errors_us(wanted: &[Duration], made: &[Duration]) -> Vec<f64> {
    wanted.iter().zip(made).map(|(wanted, made)| (*made - *wanted).us()).collect()
}

//! The RTT samples of one round trip, as Vegas, Veno and YeAH take them in Linux.

use super::{Ack, RecoveryState};
use headway_units::Duration;

/// The value of `base` and `least` without a sample, us.
const NONE: u32 = 0x7fff_ffff;

/// The minimum RTT of a round trip and of the flow.
#[derive(Clone, Debug, Default)]
pub(super) struct RoundTrip {
    /// Whether the delay governs the window. It does not while losses are repaired or segments are SACKed,
    /// because the samples of these times say little about the queue.
    pub(super) active: bool,
    /// Minimum RTT of the flow, us; it is forgotten when nothing is in flight, as the path may change until
    /// more is sent. RTTs here are 1 us longer than measured, so that none is zero (Linux).
    pub(super) base: u32,
    /// Minimum RTT since the round trip began, us.
    pub(super) least: u32,
    /// Number of samples since the round trip began.
    pub(super) count: u32,
    /// The round trip ends when `una` passes this segment.
    end: u64,
    /// `next` of the last ACK.
    next: u64,
    state: RecoveryState,
}

impl RoundTrip {
    /// A round trip without samples.
    pub(super) fn new() -> RoundTrip {
        RoundTrip {
            active: true,
            base: NONE,
            least: NONE,
            state: RecoveryState::Open,
            ..RoundTrip::default()
        }
    }

    /// Takes the sample of an ACK. When everything that was missing has arrived, a new round trip begins.
    pub(super) fn take(&mut self, ack: &Ack) {
        self.next = ack.next;
        if let Some(rtt) = ack.rtt {
            let rtt = micros(rtt).saturating_add(1).min(NONE);
            self.base = self.base.min(rtt);
            self.least = self.least.min(rtt);
            self.count += 1;
        }
        if ack.state != self.state {
            self.state = ack.state;
            self.active = ack.state == RecoveryState::Open;
            if self.active {
                self.begin();
            }
        }
    }

    /// The segment that ends the round trip.
    #[cfg(test)]
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the round trip ends with this ACK.
    pub(super) fn is_over(&self, ack: &Ack) -> bool {
        ack.una > self.end
    }

    /// Forgets the minimum RTT of the round trip.
    pub(super) fn forget_least(&mut self) {
        self.least = NONE;
    }

    /// Begins a round trip.
    pub(super) fn begin(&mut self) {
        (self.end, self.least, self.count) = (self.next, NONE, 0);
    }

    /// Forgets the path if nothing is in flight after an ACK; returns whether it did. To be called last.
    pub(super) fn forget_if_idle(&mut self, ack: &Ack) -> bool {
        if ack.in_flight == 0 {
            self.forget();
        }
        ack.in_flight == 0
    }

    /// The RTO expired, and nothing is in flight.
    pub(super) fn on_timeout(&mut self) {
        self.state = RecoveryState::Loss;
        self.forget();
    }

    fn forget(&mut self) {
        self.base = NONE;
        self.active = true;
        self.begin();
    }
}

/// Whole microseconds of an RTT; a negative one counts as zero.
pub(super) fn micros(rtt: Duration) -> u32 {
    u32::try_from(rtt.ns().max(0) / 1000).unwrap_or(u32::MAX)
}

/// The segments that ACKs acknowledge cumulatively.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledged {
    una: u64,
}

impl Acknowledged {
    /// The first segment not yet acknowledged.
    #[cfg(test)]
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Returns the number of segments by which an ACK advances.
    pub(super) fn advance(&mut self, ack: &Ack) -> u32 {
        let segments = ack.una.saturating_sub(self.una);
        self.una = self.una.max(ack.una);
        u32::try_from(segments).unwrap_or(u32::MAX)
    }
}

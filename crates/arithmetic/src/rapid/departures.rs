//! When the next packet is due.

use super::{Config, Rapid, Sent, Stream, sender};

/// The segment had left before.
pub(super) const RETRANSMISSION: u8 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct State {
    stream: Stream,
    streaming: u32,
    index: u32,
    last: u64,
    departed: u32,
    decided: u32,
    due: u64,
    after_idle: u32,
}

unsafe extern "C" {
    safe fn rapid_due(
        departures: &mut State,
        rapid: &mut sender::State,
        config: &Config,
        now: u64,
        idle: u32,
    ) -> u64;
    safe fn rapid_departures_take(departures: &mut State, segment: u32, flags: u8, full: i32) -> Sent;
}

/// The schedule of one connection (rapid 2.3). Times are in ns.
#[derive(Clone, Debug, Default)]
pub struct Departures(State);

impl Departures {
    /// Returns when the next packet is due, which is decided once unless an idle time comes; `idle` says that
    /// at `now` none waited for its time.
    pub fn due(&mut self, rapid: &mut Rapid, now: u64, idle: bool) -> u64 {
        let (state, config) = rapid.parts();
        rapid_due(&mut self.0, state, config, now, idle.into())
    }

    /// The packet that is due leaves; returns what to remember of it. It is no probe if it is not `full`. A
    /// packet that was not scheduled belongs to no p-stream.
    pub fn take(&mut self, segment: u32, retransmission: bool, full: bool) -> Sent {
        let flags = if retransmission { RETRANSMISSION } else { 0 };
        rapid_departures_take(&mut self.0, segment, flags, full.into())
    }

    /// Returns the p-stream that is being sent, with the index of its next packet.
    pub fn stream(&self) -> Option<(&Stream, u32)> {
        (self.0.streaming != 0).then_some((&self.0.stream, self.0.index))
    }
}

//! Whether a receiver's timestamps tell when segments arrived.

/// What a receiver's timestamps are good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    /// Not known yet.
    Unknown,
    /// They are microseconds.
    Microseconds,
    /// There are none, or their clock is another one.
    None,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(super) struct State {
    begin: u64,
    first: u32,
    begun: u32,
    least: u32,
    stamps: u32,
    different: u32,
    moves: u32,
}

unsafe extern "C" {
    safe fn rapid_clock_on_ack(clock: &mut State, stamp: u32, now: u64, rtt: u64) -> i32;
}

/// The clock of a receiver's timestamps, compared with the sender's own (rapid 2.6, 2.14).
#[derive(Clone, Debug, Default)]
pub struct Clock(State);

impl Clock {
    /// An ACK with a timestamp arrived at `now` ns, after an RTT of `rtt` ns at present. Returns whether all
    /// that is known of arrivals is void, because another clock gives them from now on.
    pub fn on_ack(&mut self, stamp: u32, now: u64, rtt: u64) -> bool {
        rapid_clock_on_ack(&mut self.0, stamp, now, rtt) != 0
    }

    /// Returns what the timestamps are good for.
    pub fn stamps(&self) -> Stamps {
        match self.0.stamps {
            0 => Stamps::Unknown,
            1 => Stamps::Microseconds,
            _ => Stamps::None,
        }
    }
}

//! Recovery states.

use super::*;

/// Which rules the window follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The controller's.
    Open,
    /// A reduction after a mark.
    Reducing,
    /// A reduction after a loss, with retransmissions.
    Recovery,
    /// Everything is sent again after a timeout.
    Loss,
}

impl State {
    /// Whether losses are being repaired.
    #[inline]
    pub(super) fn is_repairing(self) -> bool {
        matches!(self, State::Recovery | State::Loss)
    }
}

/// How a reduction was entered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It was not.
    None,
    /// The first reduction of this round trip.
    New,
    /// Losses showed during a reduction after a mark.
    Deeper,
}

impl Sender {
    /// Leaves recovery when it is over, and enters it when there is a reason: an echo, or segments found `lost`.
    #[inline]
    pub(super) fn change_state(&mut self, echo: bool, lost: bool) -> Entry {
        let over = match self.state {
            State::Open => false,
            // Until something sent after it is acknowledged, so that the word of it has reached the receiver (Linux).
            State::Reducing => self.una > self.high_seq,
            State::Recovery | State::Loss => self.una >= self.high_seq,
        };
        if over && self.state.is_repairing() {
            self.scoreboard.recovery_ended();
        }
        let before = if over { State::Open } else { self.state };
        self.state = match before {
            State::Open | State::Reducing if self.scoreboard.has_lost() => State::Recovery,
            State::Open if echo && self.ecn != Ecn::Off => State::Reducing,
            // What is sent again after a timeout is lost, too: the path has become worse, and the window is reduced once more (Linux).
            State::Loss if lost && self.rack.lost_retrans => State::Recovery,
            _ => before,
        };
        match before {
            _ if before == self.state => Entry::None,
            State::Reducing => Entry::Deeper,
            _ => Entry::New,
        }
    }

    /// Begins a reduction; one that was under way because of marks goes on with retransmissions.
    #[inline]
    pub(super) fn begin_reduction(&mut self, now: u64, flight: u64, entry: Entry) {
        if entry == Entry::None {
            return;
        }
        self.high_seq = self.next;
        self.tlp.end();
        if self.state == State::Recovery {
            self.counters.recoveries += 1;
        }
        if entry == Entry::Deeper {
            // Marks had demanded the reduction anyway.
            self.undo = Undo::default();
            self.controller.on_further_losses(self.cwnd);
            return;
        }
        let marked = self.state != State::Recovery;
        self.undo.begin(&self.controller, marked, self.scoreboard.retrans_out());
        self.counters.reductions += 1;
        let cause = if self.state == State::Recovery { Congestion::Loss } else { Congestion::Mark };
        // A recovery that ends with this acknowledgement has come to its target before.
        self.prr = Prr::new(self.controller.flight_limit());
        self.controller.on_congestion(Instant::from_ns(now), flight as u32, cause);
        self.cwr = self.ecn != Ecn::Off;
    }
}

//! Recovery states of a sender, and the transitions between them.

use super::*;

/// The recovery state, as in Linux's `tcp_ca_state`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The controller's window applies.
    Open,
    /// A reduction after a CE mark (Linux's `TCP_CA_CWR`).
    Reducing,
    /// Fast recovery: a reduction with retransmissions.
    Recovery,
    /// Everything is retransmitted after an RTO.
    Loss,
}

impl State {
    /// Whether losses are being repaired.
    pub(super) fn is_repairing(self) -> bool {
        matches!(self, State::Recovery | State::Loss)
    }
}

/// Whether a reduction begins with a change of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It does not.
    None,
    /// The first reduction of this round trip begins.
    New,
    /// Losses appeared during a reduction after a mark.
    Deeper,
}

impl Sender {
    /// The recovery state as controllers see it.
    pub(super) fn recovery_state(&self) -> RecoveryState {
        match self.state {
            State::Open if self.scoreboard.is_clean() => RecoveryState::Open,
            State::Open => RecoveryState::Disorder,
            State::Reducing => RecoveryState::Reducing,
            State::Recovery => RecoveryState::Recovery,
            State::Loss => RecoveryState::Loss,
        }
    }

    /// Leaves recovery when it is complete; enters it after an ECN echo or if segments are newly `lost`.
    pub(super) fn change_state(&mut self, echo: bool, lost: bool) -> Entry {
        let over = match self.state {
            State::Open => false,
            // Something sent after the reduction must be acknowledged, so that CWR has reached the receiver
            // (Linux).
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
            // A retransmission after the RTO is lost, too: the path has become worse, and the window is
            // reduced once more (Linux).
            State::Loss if lost && self.rack.lost_retrans => State::Recovery,
            _ => before,
        };
        match before {
            _ if before == self.state => Entry::None,
            State::Reducing => Entry::Deeper,
            _ => Entry::New,
        }
    }

    /// Begins a reduction; one that marks began continues with retransmissions.
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
            // The marks required this reduction in any case, so it cannot be undone.
            self.undo = Undo::default();
            self.controller.on_further_losses(self.cwnd);
            return;
        }
        let marked = self.state != State::Recovery;
        self.undo.begin(&self.controller, marked, self.scoreboard.retrans_out());
        self.counters.reductions += 1;
        let cause = if self.state == State::Recovery { Congestion::Loss } else { Congestion::Mark };
        // PRR starts from the target of the last reduction, even if that recovery ends with this ACK.
        self.prr = self.prr.anew(self.controller.flight_limit());
        self.controller.on_congestion(Instant::from_ns(now), flight as u32, cause);
        self.cwr = self.ecn != Ecn::Off;
    }
}

//! Takes back reductions that turn out to have been needless.
//!
//! Two things show that what was sent again had not been lost: an acknowledgement that a first copy caused which had left before
//! the first retransmission (the Eifel algorithm, RFC 3522), and the receiver's word that every retransmission came twice (RFC 2883,
//! RFC 3708). Then window and threshold become what they were, and nothing counts as lost any more (RFC 4015, as in Linux).

use super::*;

/// What an acknowledgement makes of the last reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Stands,
    Undone,
    /// It was needless, as it seems, but the fate of retransmissions under way is awaited: nothing more is lost now.
    Awaited,
}

/// The last reduction because of losses, as long as it can be undone.
#[derive(Debug, Default)]
pub(super) struct Undo {
    open: bool,
    /// Segments sent again since, and how many of them the receiver has had twice.
    resent: u64,
    twice: u64,
    /// When the first was sent again (ns).
    first: Option<u64>,
    window: f64,
    ssthresh: f64,
}

impl Undo {
    /// A reduction begins, which cannot be undone if marks demanded it; `under_way` segments have been sent again before it.
    pub(super) fn begin(&mut self, controller: &AnyController, marked: bool, under_way: u64) {
        let (window, ssthresh) = (controller.window(), controller.ssthresh());
        // As after an idle time, the threshold remembers three quarters of the window.
        let ssthresh = ssthresh.max((window * 3.0 / 4.0).floor());
        let first = self.first.filter(|_| under_way > 0);
        *self = Undo { open: !marked, resent: under_way, twice: 0, first, window, ssthresh };
    }

    /// A segment is sent again.
    #[inline]
    pub(super) fn resent(&mut self, now: u64) {
        self.resent += 1;
        self.first.get_or_insert(now);
    }
}

impl Sender {
    /// Looks whether an acknowledgement, which advances by `acked` segments, makes the last reduction needless, and takes that back.
    #[inline]
    pub(super) fn consider_undo(&mut self, ack: &Packet, acked: u64) -> Verdict {
        if self.undo.open && (self.state != State::Open || ack.has(DUPLICATE)) {
            self.look_for_undo(ack, acked)
        } else {
            Verdict::Stands
        }
    }

    #[cold]
    fn look_for_undo(&mut self, ack: &Packet, acked: u64) -> Verdict {
        if ack.has(ECE) && self.ecn != Ecn::Off {
            self.undo.open = false;
            return Verdict::Stands;
        }
        self.undo.twice += u64::from(ack.has(DUPLICATE));
        let in_vain = self.undo.resent > 0 && self.undo.twice >= self.undo.resent;
        let late = acked > 0 && self.undo.first.is_none_or(|first| ack.sent < first);
        let complete = self.una >= self.high;
        let (undo, forgive) = match self.state {
            State::Loss => (acked > 0 && (late || in_vain), true),
            State::Recovery if complete => (late || in_vain, false),
            State::Recovery if late && self.scoreboard.resent() > 0 => return Verdict::Awaited,
            State::Recovery => (late || in_vain, late),
            State::Open | State::Reducing => (in_vain, false),
        };
        if !undo {
            return Verdict::Stands;
        }
        self.undo_reduction(forgive);
        Verdict::Undone
    }

    /// The last timeout was needless: what it has reduced is restored unless marks demanded that, and nothing is lost.
    pub(super) fn undo_timeout(&mut self) {
        if self.undo.open {
            self.undo_reduction(true);
        } else {
            self.scoreboard.forgive(self.una);
            self.state = State::Open;
        }
    }

    fn undo_reduction(&mut self, forgive: bool) {
        self.undo.open = false;
        self.counters.undone += 1;
        self.controller.on_undo(self.undo.window, self.undo.ssthresh);
        self.cwnd = self.controller.flight_limit();
        if forgive {
            self.scoreboard.forgive(self.una);
        }
        if self.state != State::Reducing {
            self.state = State::Open;
        }
    }
}

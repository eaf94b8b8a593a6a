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
    Pending,
}

/// The last reduction because of losses, as long as it can be undone.
#[derive(Debug, Default)]
pub(super) struct Undo {
    armed: bool,
    /// Segments sent again since, and how many of them the receiver has had twice.
    retrans: u64,
    dsacks: u64,
    /// When the first was sent again (ns).
    retrans_stamp: Option<u64>,
    window: f64,
    ssthresh: f64,
}

impl Undo {
    /// A reduction begins, which cannot be undone if marks demanded it; `under_way` segments have been sent again before it.
    pub(super) fn begin(&mut self, controller: &AnyController, marked: bool, retrans_out: u64) {
        let (window, ssthresh) = (controller.window(), controller.ssthresh());
        // As after an idle time, the threshold remembers three quarters of the window.
        let ssthresh = ssthresh.max((window * 3.0 / 4.0).floor());
        let retrans_stamp = self.retrans_stamp.filter(|_| retrans_out > 0);
        *self = Undo { armed: !marked, retrans: retrans_out, dsacks: 0, retrans_stamp, window, ssthresh };
    }

    /// A segment is sent again.
    #[inline]
    pub(super) fn retransmitted(&mut self, now: u64) {
        self.retrans += 1;
        self.retrans_stamp.get_or_insert(now);
    }
}

impl Sender {
    /// Looks whether an acknowledgement, which advances by `acked` segments, makes the last reduction needless, and takes that back.
    #[inline]
    pub(super) fn check_undo(&mut self, ack: &Packet, acked: u64) -> Verdict {
        if self.undo.armed && (self.state != State::Open || ack.has(DUPLICATE)) {
            self.try_undo(ack, acked)
        } else {
            Verdict::Stands
        }
    }

    #[cold]
    fn try_undo(&mut self, ack: &Packet, acked: u64) -> Verdict {
        if ack.has(ECE) && self.ecn != Ecn::Off {
            self.undo.armed = false;
            return Verdict::Stands;
        }
        self.undo.dsacks += u64::from(ack.has(DUPLICATE));
        let all_dsacked = self.undo.retrans > 0 && self.undo.dsacks >= self.undo.retrans;
        let precedes_retrans = acked > 0 && self.undo.retrans_stamp.is_none_or(|first| ack.sent < first);
        let complete = self.una >= self.high_seq;
        let (undo, unmark_loss) = match self.state {
            State::Loss => (acked > 0 && (precedes_retrans || all_dsacked), true),
            State::Recovery if complete => (precedes_retrans || all_dsacked, false),
            State::Recovery if precedes_retrans && self.scoreboard.retrans_out() > 0 => {
                return Verdict::Pending;
            }
            State::Recovery => (precedes_retrans || all_dsacked, precedes_retrans),
            State::Open | State::Reducing => (all_dsacked, false),
        };
        if !undo {
            return Verdict::Stands;
        }
        self.undo_reduction(unmark_loss);
        Verdict::Undone
    }

    /// The last timeout was needless: what it has reduced is restored unless marks demanded that, and nothing is lost.
    pub(super) fn undo_timeout(&mut self) {
        if self.undo.armed {
            self.undo_reduction(true);
        } else {
            self.scoreboard.unmark_lost(self.una);
            self.state = State::Open;
        }
    }

    fn undo_reduction(&mut self, unmark_loss: bool) {
        self.undo.armed = false;
        self.counters.undone += 1;
        self.controller.on_undo(self.undo.window, self.undo.ssthresh);
        self.cwnd = self.controller.flight_limit();
        if unmark_loss {
            self.scoreboard.unmark_lost(self.una);
        }
        if self.state != State::Reducing {
            self.state = State::Open;
        }
    }
}

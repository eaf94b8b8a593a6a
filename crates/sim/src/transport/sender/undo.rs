//! Undo of spurious reductions.
//!
//! Retransmissions are spurious if an ACK advances that was triggered by an original sent before the first
//! retransmission (the Eifel algorithm, RFC 3522), or if DSACKs report every one of them (RFC 2883, RFC
//! 3708). Then cwnd and ssthresh are restored and loss marks cleared (RFC 4015, as in Linux).

use super::*;

/// What an ACK says about the last reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Stands,
    Undone,
    /// It appears to be spurious, but retransmissions are in flight: nothing more is declared lost for now.
    Pending,
}

/// The last reduction after losses, while it can be undone.
#[derive(Debug, Default)]
pub(super) struct Undo {
    armed: bool,
    /// Retransmissions since, and DSACKs of them.
    retrans: u64,
    dsacks: u64,
    /// When the first retransmission was sent (ns).
    retrans_stamp: Option<u64>,
    window: f64,
    ssthresh: f64,
}

impl Undo {
    /// A reduction begins, which cannot be undone if marks caused it; `retrans_out` retransmissions
    /// are in flight already.
    pub(super) fn begin(&mut self, controller: &AnyController, marked: bool, retrans_out: u64) {
        let (window, ssthresh) = (controller.window(), controller.ssthresh());
        // As after an idle time, ssthresh is at least three quarters of the window.
        let ssthresh = ssthresh.max((window * 3.0 / 4.0).floor());
        let retrans_stamp = self.retrans_stamp.filter(|_| retrans_out > 0);
        *self = Undo { armed: !marked, retrans: retrans_out, dsacks: 0, retrans_stamp, window, ssthresh };
    }

    /// A segment is retransmitted.
    pub(super) fn retransmitted(&mut self, now: u64) {
        self.retrans += 1;
        self.retrans_stamp.get_or_insert(now);
    }
}

impl Sender {
    /// Checks whether an ACK that advances by `acked` segments shows that the last reduction was
    /// spurious, and undoes it.
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

    /// The last RTO was spurious: undoes its reduction unless marks caused one, and clears loss marks.
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

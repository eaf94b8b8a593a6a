//! Whether a timeout was needless (F-RTO, RFC 5682 with SACK, details as in Linux).
//!
//! When the retransmission of the first segment is acknowledged, new data are sent before anything else is sent again. If an
//! acknowledgement then reports something of the old flight, that was only late, and the timeout is taken back; if new data are reported
//! above holes, the flight was lost.

use super::*;

/// The last timeout.
#[derive(Debug, Default)]
pub(super) struct Frto {
    /// The first segment that was not acknowledged then.
    una: u64,
    /// Whether it was needless is not known.
    undecided: bool,
    /// Until the next acknowledgement only new data are sent.
    new_data: bool,
}

impl Frto {
    /// The first segment not acknowledged is `una`; the timeout may turn out to be needless if it `begins` a recovery, or if nothing has
    /// been acknowledged since the last one.
    pub(super) fn new(una: u64, begins: bool, last: &Frto, repeats: bool) -> Frto {
        Frto { una, undecided: begins || repeats && last.una == una, new_data: false }
    }

    /// Whether a timeout with `una` as the first segment not acknowledged repeats this one.
    pub(super) fn began_at(&self, una: u64) -> bool {
        self.una == una
    }

    #[inline]
    pub(super) fn sends_new_data(&self) -> bool {
        self.new_data
    }

    /// Goes back to sending again what was under way, if new data were asked for and none could be sent beyond `high`; says whether it does.
    #[inline]
    pub(super) fn falls_back(&mut self, next: u64, high: u64) -> bool {
        let without = self.new_data && next == high;
        if without {
            (self.undecided, self.new_data) = (false, false);
        }
        without
    }
}

impl Sender {
    /// Hears of an acknowledgement that advances by `acked` segments after a timeout.
    #[cold]
    pub(super) fn process_frto(&mut self, now: u64, acked: u64, reported: &Reported) {
        self.frto.new_data = false;
        if !self.frto.undecided {
            return;
        }
        if reported.original {
            self.frto.undecided = false;
            self.undo_timeout();
        } else if self.next > self.high_seq {
            self.frto.undecided = acked > 0 && reported.sacked == 0;
        } else if acked > 0 && self.una < self.high_seq {
            self.high_seq = self.next;
            if self.next == self.written {
                self.write(now);
            }
            self.frto.new_data = self.next < self.written.min(self.wnd_end);
            self.frto.undecided = self.frto.new_data;
        }
    }
}

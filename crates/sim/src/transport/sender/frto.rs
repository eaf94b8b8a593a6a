//! Detection of spurious RTOs (F-RTO, RFC 5682 with SACK, details as in Linux).
//!
//! After the retransmission of the first segment is acknowledged, new data is sent before anything else is
//! retransmitted. If the next ACK delivers an original of the old flight, the RTO was spurious and is undone;
//! if it SACKs the new data above holes, the flight was lost.

use super::*;

/// The last RTO.
#[derive(Debug, Default)]
pub(super) struct Frto {
    /// The first segment not acknowledged when it expired.
    una: u64,
    /// Whether it may still turn out to be spurious.
    undecided: bool,
    /// Only new data is sent until the next ACK.
    new_data: bool,
}

impl Frto {
    /// An RTO with `una` as the first segment not acknowledged. It may turn out to be spurious if it `begins`
    /// a loss recovery, or if it repeats the last RTO without progress.
    pub(super) fn new(una: u64, begins: bool, last: &Frto, repeats: bool) -> Frto {
        Frto { una, undecided: begins || repeats && last.una == una, new_data: false }
    }

    /// Whether the RTO expired with `una` as the first segment not acknowledged.
    pub(super) fn began_at(&self, una: u64) -> bool {
        self.una == una
    }

    pub(super) fn sends_new_data(&self) -> bool {
        self.new_data
    }

    /// Reverts to retransmitting the flight if new data was wanted and none could be sent beyond `high`;
    /// returns whether it did.
    pub(super) fn falls_back(&mut self, next: u64, high: u64) -> bool {
        let without = self.new_data && next == high;
        if without {
            (self.undecided, self.new_data) = (false, false);
        }
        without
    }
}

impl Sender {
    /// Takes an ACK after an RTO that advances by `acked` segments.
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

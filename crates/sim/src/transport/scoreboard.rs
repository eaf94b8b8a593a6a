//! The sender's scoreboard of segments in flight: SACKed, lost, retransmitted.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use super::range_set::RangeSet;

/// SACKed segments above a hole after which it is lost at once (RFC 6675, RFC 8985 6.2).
const DUP_THRESHOLD: u64 = 3;

/// Recoveries without a DSACK after which the reordering window is at its minimum again (RFC 8985 6.2).
const REO_WND_PERSIST: u32 = 16;
/// The largest reordering window in quarters of the minimum RTT, as in Linux.
const MAX_REO_WND_STEPS: u64 = 255;

/// The scoreboard; [`super::sender::rack`] finds the losses. Until reordering has been seen, a hole is lost
/// as soon as three segments are SACKed or recovery is under way. Afterwards the reordering window is a
/// quarter of the minimum RTT, and another quarter for each round trip in which a DSACK arrives.
///
/// The fields that every ACK reads come first.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Scoreboard {
    sacked: RangeSet,
    /// Lost and not delivered since.
    lost_out: u64,
    /// Lost segments whose retransmission is in flight.
    retrans_out: u64,
    /// The reordering degree: the most segments by which one was overtaken.
    reordering_degree: u64,
    /// Segments below this are lost unless they are delivered.
    high_lost: u64,
    /// All losses so far, those of retransmissions included.
    losses: u64,
    /// Lost segments below this have been retransmitted (RFC 6675, HighRxt).
    high_rxt: u64,
    /// The largest `high_rxt` before an RTO or an undo reset it.
    prior_high_rxt: u64,
    /// The segment that the last TLP retransmitted.
    tlp_segment: Option<u64>,
    /// Segments below `high_rxt` whose retransmission is lost too.
    lost_retrans: BTreeSet<u64>,
    /// Retransmissions in the order they were sent: segment, time (ns).
    retrans_log: VecDeque<(u64, u64)>,
    reordering_seen: bool,
    /// Whether the segment that triggered the current ACK left before all retransmissions in flight.
    precedes_retrans: bool,
    /// A DSACK arrived since the reordering window was last computed.
    dsack_seen: bool,
    /// Quarters of the minimum RTT beyond the first in the reordering window, and for how
    /// many more recoveries.
    extra_reo_wnd_steps: u64,
    reo_wnd_persist: u32,
    /// The reordering window does not grow again before this segment is acknowledged.
    dsack_round: u64,
}

impl Scoreboard {
    /// Whether nothing is SACKed and nothing is lost.
    pub(crate) fn is_clean(&self) -> bool {
        self.sacked.is_empty() && self.lost_out == 0
    }

    /// Segments between `una` and `next` that are not in flight (Linux:
    /// `sacked_out + lost_out - retrans_out`).
    pub(crate) fn not_in_flight(&self) -> u64 {
        self.sacked.len() + self.lost_out - self.retrans_out
    }

    pub(crate) fn has_lost(&self) -> bool {
        self.lost_out > 0
    }

    /// Notes which segment triggered the ACK to be processed next: one sent at `sent` (ns), as a
    /// retransmission or not. If it left before all retransmissions in flight and the ACK reports a
    /// retransmitted segment, the original was only delayed.
    pub(crate) fn note_trigger(&mut self, sent: u64, retransmitted: bool) {
        self.precedes_retrans =
            !retransmitted && self.retrans_log.front().is_some_and(|(_, first)| sent < *first);
    }

    /// The receiver reported a DSACK.
    pub(crate) fn on_dsack(&mut self) {
        self.dsack_seen |= self.reordering_seen;
    }

    /// The reordering window in quarters of the minimum RTT; grows by one after a round trip with a DSACK.
    pub(crate) fn reo_wnd_steps(&mut self, una: u64, next: u64) -> u64 {
        if std::mem::take(&mut self.dsack_seen) && una >= self.dsack_round {
            self.extra_reo_wnd_steps = (self.extra_reo_wnd_steps + 1).min(MAX_REO_WND_STEPS - 1);
            self.reo_wnd_persist = REO_WND_PERSIST;
            self.dsack_round = next;
        }
        self.extra_reo_wnd_steps + 1
    }

    /// A recovery ended.
    pub(crate) fn recovery_ended(&mut self) {
        self.reo_wnd_persist = self.reo_wnd_persist.saturating_sub(1);
        if self.reo_wnd_persist == 0 {
            self.extra_reo_wnd_steps = 0;
        }
    }

    /// All losses so far, those of retransmissions included.
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// Takes a cumulative ACK of all segments below `ack`; calls `fresh` with each newly acknowledged segment
    /// of `una..ack` and whether it was retransmitted.
    pub(crate) fn acknowledge(&mut self, una: u64, ack: u64, mut fresh: impl FnMut(u64, bool)) {
        let mut segment = self.sacked.next_hole(una);
        let highest = self.sacked.end().unwrap_or(0);
        while segment < ack {
            fresh(segment, self.was_retransmitted(segment));
            self.mark_delivered(segment, highest);
            segment = self.sacked.next_hole(segment + 1);
        }
        self.sacked.remove_below(ack);
        self.advance(ack);
    }

    /// Moves all marks up to `una` at least.
    pub(crate) fn advance(&mut self, una: u64) {
        self.high_lost = self.high_lost.max(una);
        self.high_rxt = self.high_rxt.max(una);
    }

    /// Whether a segment that was not delivered before has ever been retransmitted.
    fn was_retransmitted(&self, segment: u64) -> bool {
        segment < self.high_rxt.max(self.prior_high_rxt) || self.tlp_segment == Some(segment)
    }

    /// A TLP retransmits a segment.
    pub(crate) fn note_tlp(&mut self, segment: u64) {
        self.tlp_segment = Some(segment);
    }

    /// Records the first report of a segment as delivered.
    fn mark_delivered(&mut self, segment: u64, highest: u64) {
        let retransmitted = segment < self.high_rxt;
        if segment < self.high_lost {
            self.lost_out -= 1;
            if retransmitted && !self.lost_retrans.remove(&segment) {
                self.retrans_out -= 1;
            }
        }
        if segment < highest && (!self.was_retransmitted(segment) || self.precedes_retrans) {
            self.reordering_seen = true;
            self.reordering_degree = self.reordering_degree.max(highest - segment);
        }
    }

    /// Takes a SACK block; calls `fresh` with each newly SACKed segment and whether it was retransmitted.
    pub(crate) fn sack(&mut self, block: Range<u64>, mut fresh: impl FnMut(u64, bool)) {
        let highest = self.sacked.end().unwrap_or(0);
        let mut sacked = std::mem::take(&mut self.sacked);
        sacked.insert(block, |part| {
            part.for_each(|segment| {
                fresh(segment, self.was_retransmitted(segment));
                self.mark_delivered(segment, highest);
            });
        });
        self.sacked = sacked;
    }

    /// Whether the reordering degree exceeds the threshold of duplicate ACKs.
    pub(crate) fn has_large_reordering(&self) -> bool {
        self.reordering_degree > DUP_THRESHOLD
    }

    /// Whether the reordering window is zero: no reordering seen, and three segments SACKed or in recovery.
    pub(crate) fn has_zero_reo_wnd(&self, recovering: bool) -> bool {
        !self.reordering_seen && (recovering || self.sacked.len() >= DUP_THRESHOLD)
    }

    /// Marks all segments below `bound` lost that are not delivered; returns whether any is newly lost.
    pub(crate) fn mark_lost_below(&mut self, bound: u64) -> bool {
        let before = self.lost_out;
        let mut segment = self.sacked.next_hole(self.high_lost);
        while segment < bound {
            self.lost_out += 1;
            segment = self.sacked.next_hole(segment + 1);
        }
        self.high_lost = self.high_lost.max(bound);
        self.losses += self.lost_out - before;
        self.lost_out > before
    }

    /// The last segment below `bound` that is neither SACKed nor lost.
    pub(crate) fn last_hole(&self, bound: u64) -> Option<u64> {
        let last = bound.checked_sub(1).filter(|last| *last >= self.high_lost)?;
        let hole = match self.sacked.range_of(last) {
            Some(range) => range.start.checked_sub(1)?,
            None => last,
        };
        (hole >= self.high_lost).then_some(hole)
    }

    /// Whether the retransmission of a segment is in flight, as far as the sender knows.
    fn is_retrans_in_flight(&self, una: u64, segment: u64) -> bool {
        segment >= una
            && segment < self.high_rxt
            && !self.lost_retrans.contains(&segment)
            && self.sacked.range_of(segment).is_none()
    }

    /// Marks retransmissions lost that left by `old` (ns) and before that of segment `newest` (its time and
    /// one past its number), unless they are delivered; returns whether there were any.
    pub(crate) fn mark_lost_retrans(&mut self, una: u64, newest: (u64, u64), old: u64) -> bool {
        let mut found = false;
        let earlier = |entry: &(u64, u64)| entry.1 <= old && (entry.1, entry.0 + 1) < newest;
        while let Some((segment, _)) = self.retrans_log.front().copied().filter(earlier) {
            self.retrans_log.pop_front();
            if self.is_retrans_in_flight(una, segment) {
                self.lost_retrans.insert(segment);
                self.retrans_out -= 1;
                self.losses += 1;
                found = true;
            }
        }
        found
    }

    /// When a segment was last retransmitted, if that is still in the log (ns).
    pub(crate) fn retransmitted_at(&self, segment: u64) -> Option<u64> {
        self.retrans_log.iter().rev().find(|entry| entry.0 == segment).map(|(_, sent)| *sent)
    }

    /// When the last retransmission in flight left that is older than `newest`, as in
    /// [`Scoreboard::mark_lost_retrans`] (ns).
    pub(crate) fn last_retransmitted_at(&self, una: u64, newest: (u64, u64)) -> Option<u64> {
        let count = self.retrans_log.partition_point(|(segment, sent)| (*sent, *segment + 1) < newest);
        let open = |entry: &&(u64, u64)| self.is_retrans_in_flight(una, entry.0);
        self.retrans_log.range(..count).rev().find(open).map(|(_, sent)| *sent)
    }

    /// Marks everything lost that is not SACKed, retransmissions included, after an RTO.
    pub(crate) fn mark_all_lost(&mut self, una: u64, next: u64) {
        self.high_lost = self.high_lost.max(una);
        self.mark_lost_below(next);
        self.prior_high_rxt = self.prior_high_rxt.max(self.high_rxt);
        self.high_rxt = una;
        self.losses += self.retrans_out;
        self.retrans_out = 0;
        self.lost_retrans.clear();
        self.retrans_log.clear();
    }

    /// Clears all loss marks after an undo; `una` is the first segment not acknowledged.
    pub(crate) fn unmark_lost(&mut self, una: u64) {
        self.prior_high_rxt = self.prior_high_rxt.max(self.high_rxt);
        (self.high_lost, self.high_rxt, self.lost_out, self.retrans_out) = (una, una, 0, 0);
        self.lost_retrans.clear();
        self.retrans_log.clear();
    }

    /// Lost segments whose retransmission is in flight.
    pub(crate) fn retrans_out(&self) -> u64 {
        self.retrans_out
    }

    /// The next segment to retransmit.
    pub(crate) fn next_lost(&self) -> Option<u64> {
        if !self.needs_retransmit() {
            return None;
        }
        let fresh = || Some(self.sacked.next_hole(self.high_rxt)).filter(|segment| *segment < self.high_lost);
        self.lost_retrans.first().copied().or_else(fresh)
    }

    /// Segment `segment`, which [`Scoreboard::next_lost`] returned, is retransmitted.
    pub(crate) fn retransmit(&mut self, now: u64, segment: u64) {
        if !self.lost_retrans.remove(&segment) {
            self.high_rxt = segment + 1;
        }
        self.retrans_out += 1;
        self.retrans_log.push_back((segment, now));
    }

    /// Whether a lost segment has not been retransmitted.
    fn needs_retransmit(&self) -> bool {
        self.lost_out > self.retrans_out
    }

    pub(crate) fn memory(&self) -> usize {
        self.sacked.memory() + (self.lost_retrans.len() + self.retrans_log.capacity()) * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Retransmits the next lost segment.
    fn resend(board: &mut Scoreboard, now: u64) -> Option<u64> {
        let segment = board.next_lost()?;
        board.retransmit(now, segment);
        Some(segment)
    }

    /// The number of segments newly SACKed by a block.
    fn sack(board: &mut Scoreboard, block: Range<u64>) -> usize {
        let mut count = 0;
        board.sack(block, |_, _| count += 1);
        count
    }

    /// The number of segments newly acknowledged by a cumulative ACK.
    fn acknowledge(board: &mut Scoreboard, una: u64, ack: u64) -> usize {
        let mut count = 0;
        board.acknowledge(una, ack, |_, _| count += 1);
        count
    }

    #[test]
    fn three_sacked_segments_make_the_holes_below_them_lost() {
        let mut board = Scoreboard::default();
        acknowledge(&mut board, 0, 10);
        assert_eq!(sack(&mut board, 11..13), 2);
        assert!(!board.has_zero_reo_wnd(false) && board.has_zero_reo_wnd(true));
        assert_eq!(board.not_in_flight(), 2);
        assert_eq!(sack(&mut board, 11..13) + sack(&mut board, 14..15), 1);
        assert!(board.has_zero_reo_wnd(false));
        assert_eq!(
            [15, 14, 12, 10].map(|bound| board.last_hole(bound)),
            [Some(13), Some(13), Some(10), None]
        );
        assert!(board.mark_lost_below(14));
        assert_eq!((board.lost_out, board.not_in_flight(), board.last_hole(15)), (2, 5, None));
        assert_eq!((resend(&mut board, 7), resend(&mut board, 7)), (Some(10), Some(13)));
        assert_eq!(resend(&mut board, 7), None);
        assert_eq!(board.not_in_flight(), 3);
        assert_eq!(acknowledge(&mut board, 10, 13), 1);
        assert_eq!((board.lost_out, board.retrans_out, board.not_in_flight()), (1, 1, 1));
        assert_eq!(acknowledge(&mut board, 13, 15), 1);
        assert!(board.is_clean() && !board.reordering_seen);
    }

    #[test]
    fn a_retransmission_is_lost_when_something_sent_later_arrives() {
        let mut board = Scoreboard::default();
        sack(&mut board, 1..4);
        assert!(board.mark_lost_below(4));
        assert_eq!(resend(&mut board, 100), Some(0));
        assert!(!board.needs_retransmit());
        sack(&mut board, 4..5);
        // Segments of the same burst are ordered by number.
        assert!(
            !board.mark_lost_retrans(0, (100, 1), 100) && board.last_retransmitted_at(0, (100, 1)).is_none()
        );
        assert!(!board.mark_lost_retrans(0, (100, 5), 99));
        assert_eq!(board.last_retransmitted_at(0, (100, 5)), Some(100));
        assert!(
            board.mark_lost_retrans(0, (100, 5), 100) && board.last_retransmitted_at(0, (100, 5)).is_none()
        );
        assert!(board.needs_retransmit());
        assert_eq!(resend(&mut board, 200), Some(0));
        acknowledge(&mut board, 0, 5);
        assert!(board.is_clean() && board.not_in_flight() == 0);
    }

    #[test]
    fn reordering_makes_it_patient() {
        let mut board = Scoreboard::default();
        sack(&mut board, 1..2);
        assert_eq!(acknowledge(&mut board, 0, 2), 1);
        assert!(board.reordering_seen);
        sack(&mut board, 3..9);
        assert!(!board.has_zero_reo_wnd(false) && !board.has_zero_reo_wnd(true));
    }

    #[test]
    fn a_timeout_loses_everything_that_is_not_sacked() {
        let mut board = Scoreboard::default();
        acknowledge(&mut board, 0, 2);
        sack(&mut board, 4..6);
        board.mark_all_lost(2, 10);
        assert_eq!((board.lost_out, board.not_in_flight()), (6, 8));
        let retransmitted: Vec<u64> = std::iter::from_fn(|| resend(&mut board, 0)).collect();
        assert_eq!(retransmitted, [2, 3, 6, 7, 8, 9]);
        // A second RTO does not clear that they were retransmitted.
        board.mark_all_lost(2, 10);
        let mut again = Vec::new();
        board.acknowledge(2, 10, |segment, retransmitted| again.push((segment, retransmitted)));
        assert!(again.len() == 6 && again.iter().all(|(_, retransmitted)| *retransmitted));
        assert!(board.is_clean());
    }
}

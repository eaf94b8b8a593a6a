//! What the sender knows of the segments in flight: reported, lost, sent again.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use super::range_set::RangeSet;

/// SACKed segments above a hole after which it counts as lost at once (RFC 6675, RFC 8985 6.2).
const DUP_THRESHOLD: u64 = 3;

/// Recoveries after which holes are given the shortest time again unless one was in vain (RFC 8985 6.2).
const MEMORY: u32 = 16;
/// Most quarters of a round-trip time, as in Linux.
const MOST_QUARTERS: u64 = 255;

/// The scoreboard. What is lost is found by [`super::sender::rack`]: until reordering has been seen, at once when three segments have
/// been SACKed or recovery is under way; otherwise segments are given a quarter of the smallest round-trip time to be overtaken, and
/// another quarter for every round trip in which a retransmission turns out to have been needless.
#[derive(Debug, Default)]
pub(crate) struct Scoreboard {
    sacked: RangeSet,
    /// Segments below this that have not been reported are lost.
    edge: u64,
    /// Lost and not reported since.
    lost: u64,
    /// Losses so far, of retransmissions too.
    losses: u64,
    /// Lost segments below this have been sent again.
    cursor: u64,
    /// The same before a timeout or an undone reduction began anew.
    before: u64,
    /// The segment that the last probe of the tail has repeated.
    probed: Option<u64>,
    /// Lost segments that have been sent again and not been reported since.
    resent: u64,
    /// Of the segments below `cursor`, those whose retransmission is lost too.
    again: BTreeSet<u64>,
    /// Retransmissions in order of sending: segment, time.
    log: VecDeque<(u64, u64)>,
    reordering: bool,
    /// By how many segments one has been overtaken at most.
    overtaken: u64,
    /// Whether the present acknowledgement is older than all retransmissions.
    late: bool,
    /// A segment was sent again in vain.
    vain: bool,
    /// Quarters of a round-trip time beyond the first that holes are given, and for how many more recoveries.
    quarters: u64,
    memory: u32,
    /// The next quarter is not added before this segment is acknowledged.
    round: u64,
}

impl Scoreboard {
    /// Nothing is SACKed and nothing lost.
    #[inline]
    pub(crate) fn is_clean(&self) -> bool {
        self.sacked.is_empty() && self.lost == 0
    }

    /// Segments that have left the network or are thought to have: what is in flight is next - una less this.
    #[inline]
    pub(crate) fn absent(&self) -> u64 {
        self.sacked.len() + self.lost - self.resent
    }

    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.lost > 0
    }

    /// Hears of an acknowledgement caused by a segment sent at `sent`, as a retransmission or for the first time. If that was
    /// before all retransmissions under way and the acknowledgement reports a segment sent again, its first copy was only late.
    pub(crate) fn caused_by(&mut self, sent: u64, resent: bool) {
        self.late = !resent && self.log.front().is_some_and(|(_, first)| sent < *first);
    }

    /// The receiver has got a retransmission that it did not need.
    pub(crate) fn resent_in_vain(&mut self) {
        self.vain |= self.reordering;
    }

    /// How many quarters of the smallest round-trip time holes are given; adds one after a round trip with a retransmission in vain.
    pub(crate) fn quarters(&mut self, una: u64, next: u64) -> u64 {
        if std::mem::take(&mut self.vain) && una >= self.round {
            self.quarters = (self.quarters + 1).min(MOST_QUARTERS - 1);
            self.memory = MEMORY;
            self.round = next;
        }
        self.quarters + 1
    }

    /// A recovery is over that was not in vain.
    pub(crate) fn recovered(&mut self) {
        self.memory = self.memory.saturating_sub(1);
        if self.memory == 0 {
            self.quarters = 0;
        }
    }

    /// Losses so far, of retransmissions too.
    #[inline]
    pub(crate) fn losses(&self) -> u64 {
        self.losses
    }

    /// Everything below `ack` has arrived; calls `fresh` with each segment of `una..ack` that had not been reported, and whether it has
    /// been sent again.
    pub(crate) fn acknowledge(&mut self, una: u64, ack: u64, mut fresh: impl FnMut(u64, bool)) {
        let mut segment = self.sacked.next_hole(una);
        let highest = self.sacked.end().unwrap_or(0);
        while segment < ack {
            fresh(segment, self.was_resent(segment));
            self.report(segment, highest);
            segment = self.sacked.next_hole(segment + 1);
        }
        self.sacked.remove_below(ack);
        self.advance(ack);
    }

    /// Nothing below `una` is looked at any more.
    pub(crate) fn advance(&mut self, una: u64) {
        self.edge = self.edge.max(una);
        self.cursor = self.cursor.max(una);
    }

    /// Whether a segment that has not been reported has ever been sent again.
    fn was_resent(&self, segment: u64) -> bool {
        segment < self.cursor.max(self.before) || self.probed == Some(segment)
    }

    /// A probe of the tail repeats a segment.
    pub(crate) fn probe(&mut self, segment: u64) {
        self.probed = Some(segment);
    }

    /// A segment has been reported for the first time.
    fn report(&mut self, segment: u64, highest: u64) {
        let resent = segment < self.cursor;
        if segment < self.edge {
            self.lost -= 1;
            if resent && !self.again.remove(&segment) {
                self.resent -= 1;
            }
        }
        if segment < highest && (!self.was_resent(segment) || self.late) {
            self.reordering = true;
            self.overtaken = self.overtaken.max(highest - segment);
        }
    }

    /// A SACK block has come; calls `fresh` with each of its segments that had not been reported, and whether it has been sent again.
    pub(crate) fn sack(&mut self, block: Range<u64>, mut fresh: impl FnMut(u64, bool)) {
        let highest = self.sacked.end().unwrap_or(0);
        let mut sacked = std::mem::take(&mut self.sacked);
        sacked.insert(block, |part| {
            part.for_each(|segment| {
                fresh(segment, self.was_resent(segment));
                self.report(segment, highest);
            });
        });
        self.sacked = sacked;
    }

    /// Whether segments have been overtaken by more than losses are waited for.
    pub(crate) fn is_reordered_far(&self) -> bool {
        self.overtaken > DUP_THRESHOLD
    }

    /// Whether holes are given no time: nothing has been overtaken, and three segments are SACKed or losses being repaired.
    pub(crate) fn is_impatient(&self, recovering: bool) -> bool {
        !self.reordering && (recovering || self.sacked.len() >= DUP_THRESHOLD)
    }

    /// Segments below `edge` that have not been reported are lost; says whether that is new of any.
    pub(crate) fn lose_below(&mut self, edge: u64) -> bool {
        let before = self.lost;
        let mut segment = self.sacked.next_hole(self.edge);
        while segment < edge {
            self.lost += 1;
            segment = self.sacked.next_hole(segment + 1);
        }
        self.edge = self.edge.max(edge);
        self.losses += self.lost - before;
        self.lost > before
    }

    /// The last segment below `edge` that is neither reported nor known to be lost.
    pub(crate) fn last_hole(&self, edge: u64) -> Option<u64> {
        let last = edge.checked_sub(1).filter(|last| *last >= self.edge)?;
        let hole = match self.sacked.range_of(last) {
            Some(range) => range.start.checked_sub(1)?,
            None => last,
        };
        (hole >= self.edge).then_some(hole)
    }

    /// Whether a retransmission is under way, as far as the sender knows.
    fn is_open(&self, una: u64, segment: u64) -> bool {
        segment >= una
            && segment < self.cursor
            && !self.again.contains(&segment)
            && self.sacked.range_of(segment).is_none()
    }

    /// Retransmissions that left by `old`, and before the one of the segment `newest` (when, and one past its number), are lost unless they
    /// have been reported.
    pub(crate) fn lose_resent(&mut self, una: u64, newest: (u64, u64), old: u64) -> bool {
        let mut found = false;
        let earlier = |entry: &(u64, u64)| entry.1 <= old && (entry.1, entry.0 + 1) < newest;
        while let Some((segment, _)) = self.log.front().copied().filter(earlier) {
            self.log.pop_front();
            if self.is_open(una, segment) {
                self.again.insert(segment);
                self.resent -= 1;
                self.losses += 1;
                found = true;
            }
        }
        found
    }

    /// When a segment was sent again last, as far as that is known (ns).
    pub(crate) fn resent_at(&self, segment: u64) -> Option<u64> {
        self.log.iter().rev().find(|entry| entry.0 == segment).map(|(_, sent)| *sent)
    }

    /// When the last retransmission left before `newest`, as in [`Scoreboard::lose_resent`], that has not been reported (ns).
    pub(crate) fn last_resent(&self, una: u64, newest: (u64, u64)) -> Option<u64> {
        let count = self.log.partition_point(|(segment, sent)| (*sent, *segment + 1) < newest);
        let open = |entry: &&(u64, u64)| self.is_open(una, entry.0);
        self.log.range(..count).rev().find(open).map(|(_, sent)| *sent)
    }

    /// After a timeout everything that has not been reported is lost, retransmissions too.
    pub(crate) fn lose_all(&mut self, una: u64, next: u64) {
        self.edge = self.edge.max(una);
        self.lose_below(next);
        self.before = self.before.max(self.cursor);
        self.cursor = una;
        self.losses += self.resent;
        self.resent = 0;
        self.again.clear();
        self.log.clear();
    }

    /// Nothing counts as lost any more; `una` is the first segment not acknowledged.
    pub(crate) fn forgive(&mut self, una: u64) {
        self.before = self.before.max(self.cursor);
        (self.edge, self.cursor, self.lost, self.resent) = (una, una, 0, 0);
        self.again.clear();
        self.log.clear();
    }

    /// Segments that have been sent again and not been reported since.
    pub(crate) fn resent(&self) -> u64 {
        self.resent
    }

    /// The next segment to be sent again.
    #[inline]
    pub(crate) fn next_lost(&self) -> Option<u64> {
        if !self.must_resend() {
            return None;
        }
        let fresh = || Some(self.sacked.next_hole(self.cursor)).filter(|segment| *segment < self.edge);
        self.again.first().copied().or_else(fresh)
    }

    /// Segment `segment`, which [`Scoreboard::next_lost`] has given, is sent again.
    pub(crate) fn resend(&mut self, now: u64, segment: u64) {
        if !self.again.remove(&segment) {
            self.cursor = segment + 1;
        }
        self.resent += 1;
        self.log.push_back((segment, now));
    }

    /// Whether lost segments have not been sent again.
    #[inline]
    fn must_resend(&self) -> bool {
        self.lost > self.resent
    }

    pub(crate) fn memory(&self) -> usize {
        self.sacked.memory() + (self.again.len() + self.log.capacity()) * 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends the next lost segment again.
    fn resend(board: &mut Scoreboard, now: u64) -> Option<u64> {
        let segment = board.next_lost()?;
        board.resend(now, segment);
        Some(segment)
    }

    /// How many segments a SACK block reports for the first time.
    fn sack(board: &mut Scoreboard, block: Range<u64>) -> usize {
        let mut count = 0;
        board.sack(block, |_, _| count += 1);
        count
    }

    /// How many segments an acknowledgement reports for the first time.
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
        assert!(!board.is_impatient(false) && board.is_impatient(true));
        assert_eq!(board.absent(), 2);
        assert_eq!(sack(&mut board, 11..13) + sack(&mut board, 14..15), 1);
        assert!(board.is_impatient(false));
        assert_eq!([15, 14, 12, 10].map(|edge| board.last_hole(edge)), [Some(13), Some(13), Some(10), None]);
        assert!(board.lose_below(14));
        assert_eq!((board.lost, board.absent(), board.last_hole(15)), (2, 5, None));
        assert_eq!((resend(&mut board, 7), resend(&mut board, 7)), (Some(10), Some(13)));
        assert_eq!(resend(&mut board, 7), None);
        assert_eq!(board.absent(), 3);
        assert_eq!(acknowledge(&mut board, 10, 13), 1);
        assert_eq!((board.lost, board.resent, board.absent()), (1, 1, 1));
        assert_eq!(acknowledge(&mut board, 13, 15), 1);
        assert!(board.is_clean() && !board.reordering);
    }

    #[test]
    fn a_retransmission_is_lost_when_something_sent_later_arrives() {
        let mut board = Scoreboard::default();
        sack(&mut board, 1..4);
        assert!(board.lose_below(4));
        assert_eq!(resend(&mut board, 100), Some(0));
        assert!(!board.must_resend());
        sack(&mut board, 4..5);
        // What left in the same burst tells by its number.
        assert!(!board.lose_resent(0, (100, 1), 100) && board.last_resent(0, (100, 1)).is_none());
        assert!(!board.lose_resent(0, (100, 5), 99));
        assert_eq!(board.last_resent(0, (100, 5)), Some(100));
        assert!(board.lose_resent(0, (100, 5), 100) && board.last_resent(0, (100, 5)).is_none());
        assert!(board.must_resend());
        assert_eq!(resend(&mut board, 200), Some(0));
        acknowledge(&mut board, 0, 5);
        assert!(board.is_clean() && board.absent() == 0);
    }

    #[test]
    fn reordering_makes_it_patient() {
        let mut board = Scoreboard::default();
        sack(&mut board, 1..2);
        assert_eq!(acknowledge(&mut board, 0, 2), 1);
        assert!(board.reordering);
        sack(&mut board, 3..9);
        assert!(!board.is_impatient(false) && !board.is_impatient(true));
    }

    #[test]
    fn a_timeout_loses_everything_that_is_not_sacked() {
        let mut board = Scoreboard::default();
        acknowledge(&mut board, 0, 2);
        sack(&mut board, 4..6);
        board.lose_all(2, 10);
        assert_eq!((board.lost, board.absent()), (6, 8));
        let resent: Vec<u64> = std::iter::from_fn(|| resend(&mut board, 0)).collect();
        assert_eq!(resent, [2, 3, 6, 7, 8, 9]);
        // Another timeout does not forget that they were.
        board.lose_all(2, 10);
        let mut again = Vec::new();
        board.acknowledge(2, 10, |segment, resent| again.push((segment, resent)));
        assert!(again.len() == 6 && again.iter().all(|(_, resent)| *resent));
        assert!(board.is_clean());
    }
}

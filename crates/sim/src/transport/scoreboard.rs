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

/// The scoreboard. Loss detection is RACK's (RFC 8985) as Linux has it: until reordering has been seen, every hole below
/// the highest SACKed segment is lost once three segments have been SACKed or recovery is under way; afterwards holes are
/// given a quarter of the smallest round-trip time, and another quarter for every round trip in which a first copy arrives after
/// the segment was sent again.
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
    /// Lost segments that have been sent again and not been reported since.
    resent: u64,
    /// Of the segments below `cursor`, those whose retransmission is lost too.
    again: BTreeSet<u64>,
    /// Retransmissions in order of sending: segment, time.
    log: VecDeque<(u64, u64)>,
    reordering: bool,
    /// Whether the present acknowledgement is older than all retransmissions.
    late: bool,
    /// A segment was sent again in vain.
    vain: bool,
    /// Quarters of a round-trip time beyond the first that holes are given, and for how many more recoveries.
    quarters: u64,
    memory: u32,
    /// The next quarter is not added before this segment is acknowledged.
    round: u64,
    /// With reordering: holes below the first number are lost at the second.
    patience: VecDeque<(u64, u64)>,
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

    /// How many quarters of the smallest round-trip time holes are given; adds one after a round trip with a retransmission in vain.
    pub(crate) fn quarters(&mut self, una: u64, next: u64) -> u64 {
        if std::mem::take(&mut self.vain) && una >= self.round {
            self.quarters = (self.quarters + 1).min(MOST_QUARTERS - 1);
            self.memory = MEMORY;
            self.round = next;
        }
        self.quarters + 1
    }

    /// A recovery begins.
    pub(crate) fn recover(&mut self) {
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

    /// Everything below `ack` has arrived; returns how many segments of `una..ack` had not been reported, after calling `fresh`
    /// with each of them.
    pub(crate) fn acknowledge(&mut self, una: u64, ack: u64, mut fresh: impl FnMut(u64)) -> u64 {
        let mut delivered = 0;
        let mut segment = self.sacked.next_hole(una);
        let highest = self.sacked.end().unwrap_or(0);
        while segment < ack {
            delivered += 1;
            fresh(segment);
            self.report(segment, highest);
            segment = self.sacked.next_hole(segment + 1);
        }
        self.sacked.remove_below(ack);
        self.edge = self.edge.max(ack);
        self.cursor = self.cursor.max(ack);
        delivered
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
        if segment < highest && (!resent || self.late) {
            self.reordering = true;
            self.vain |= resent;
        }
    }

    /// A SACK block has come; returns how many of its segments had not been reported, after calling `fresh` with each of them.
    pub(crate) fn sack(&mut self, block: Range<u64>, mut fresh: impl FnMut(u64)) -> u64 {
        let highest = self.sacked.end().unwrap_or(0);
        let mut delivered = 0;
        let mut sacked = std::mem::take(&mut self.sacked);
        sacked.insert(block, |part| {
            delivered += part.end - part.start;
            part.for_each(|segment| {
                fresh(segment);
                self.report(segment, highest);
            });
        });
        self.sacked = sacked;
        delivered
    }

    /// Looks for losses after an acknowledgement; `newest` is when the newest reported segment was sent, `wait` how long to
    /// wait for reordered ones. Segments below `old` left so long before the newest one that they are not waited for. Returns
    /// whether any loss is new.
    pub(crate) fn detect(
        &mut self,
        now: u64,
        una: u64,
        (newest, old): (u64, u64),
        recovering: bool,
        wait: u64,
    ) -> bool {
        let mut found =
            self.detect_resent(una, if self.reordering { newest.saturating_sub(wait) } else { newest });
        let Some(highest) = self.sacked.end() else { return found };
        if !self.reordering && (recovering || self.sacked.len() >= DUP_THRESHOLD) {
            self.patience.clear();
            return self.lose_below(highest) || found;
        }
        if old > self.edge {
            found |= self.lose_below(old.min(highest));
        }
        if highest > self.edge && self.patience.back().is_none_or(|(edge, _)| *edge < highest) {
            self.patience.push_back((highest, now + wait));
        }
        found |= self.wait_over(now);
        found
    }

    /// Declares lost what has been waited for long enough.
    pub(crate) fn wait_over(&mut self, now: u64) -> bool {
        let mut found = false;
        while let Some((edge, _)) = self.patience.front().copied().filter(|(_, at)| *at <= now) {
            self.patience.pop_front();
            found |= self.lose_below(edge);
        }
        found
    }

    /// When the wait for reordered segments ends; `u64::MAX` when there is none.
    #[inline]
    pub(crate) fn patience(&self) -> u64 {
        self.patience.front().map_or(u64::MAX, |(_, at)| *at)
    }

    fn lose_below(&mut self, edge: u64) -> bool {
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

    /// Retransmissions sent before `newest` and not reported are lost, because something sent then has been.
    fn detect_resent(&mut self, una: u64, newest: u64) -> bool {
        let mut found = false;
        while let Some((segment, _)) = self.log.front().copied().filter(|(_, sent)| *sent < newest) {
            self.log.pop_front();
            let open = segment >= una && segment < self.cursor && self.sacked.range_of(segment).is_none();
            if open && self.again.insert(segment) {
                self.resent -= 1;
                self.losses += 1;
                found = true;
            }
        }
        found
    }

    /// After a timeout everything that has not been reported is lost, retransmissions too.
    pub(crate) fn lose_all(&mut self, una: u64, next: u64) {
        self.edge = self.edge.max(una);
        self.lose_below(next);
        self.cursor = una;
        self.losses += self.resent;
        self.resent = 0;
        self.again.clear();
        self.log.clear();
        self.patience.clear();
    }

    /// Nothing counts as lost any more; `una` is the first segment not acknowledged.
    pub(crate) fn forgive(&mut self, una: u64) {
        (self.edge, self.cursor, self.lost, self.resent) = (una, una, 0, 0);
        self.again.clear();
        self.log.clear();
        self.patience.clear();
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
        self.sacked.memory() + self.again.len() * 16 + (self.log.capacity() + self.patience.capacity()) * 16
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

    #[test]
    fn three_sacked_segments_make_the_holes_below_them_lost() {
        let mut board = Scoreboard::default();
        board.acknowledge(0, 10, |_| ());
        assert_eq!(board.sack(11..13, |_| ()), 2);
        assert!(!board.detect(0, 10, (0, 0), false, 5));
        assert_eq!(board.absent(), 2);
        assert_eq!(board.sack(11..13, |_| ()) + board.sack(14..15, |_| ()), 1);
        assert!(board.detect(0, 10, (0, 0), false, 5));
        assert_eq!((board.lost, board.absent()), (2, 5));
        assert_eq!((resend(&mut board, 7), resend(&mut board, 7)), (Some(10), Some(13)));
        assert_eq!(resend(&mut board, 7), None);
        assert_eq!(board.absent(), 3);
        assert_eq!(board.acknowledge(10, 13, |_| ()), 1);
        assert_eq!((board.lost, board.resent, board.absent()), (1, 1, 1));
        assert_eq!(board.acknowledge(13, 15, |_| ()), 1);
        assert!(board.is_clean() && !board.reordering);
    }

    #[test]
    fn a_retransmission_is_lost_when_something_sent_later_arrives() {
        let mut board = Scoreboard::default();
        board.sack(1..4, |_| ());
        assert!(board.detect(0, 0, (0, 0), false, 5));
        assert_eq!(resend(&mut board, 100), Some(0));
        assert!(!board.must_resend());
        board.sack(4..5, |_| ());
        assert!(board.detect(0, 0, (101, 0), true, 5));
        assert!(board.must_resend());
        assert_eq!(resend(&mut board, 200), Some(0));
        board.acknowledge(0, 5, |_| ());
        assert!(board.is_clean() && board.absent() == 0);
    }

    #[test]
    fn reordering_makes_it_patient() {
        let mut board = Scoreboard::default();
        board.sack(1..2, |_| ());
        assert!(!board.detect(10, 0, (0, 0), false, 5));
        assert_eq!(board.patience(), 15);
        assert_eq!(board.acknowledge(0, 2, |_| ()), 1);
        assert!(board.reordering);
        board.sack(3..9, |_| ());
        assert!(!board.detect(20, 2, (0, 0), false, 5));
        assert!(board.wait_over(25) && board.lost == 1);
    }

    #[test]
    fn what_left_long_before_is_lost_with_the_first_that_arrives() {
        let mut board = Scoreboard::default();
        board.sack(10..11, |_| ());
        // Segments below 8 left more than the wait before the one that has arrived.
        assert!(board.detect(10, 2, (9, 8), false, 5));
        assert_eq!((board.lost, board.patience()), (8, 15));
    }

    #[test]
    fn a_timeout_loses_everything_that_is_not_sacked() {
        let mut board = Scoreboard::default();
        board.acknowledge(0, 2, |_| ());
        board.sack(4..6, |_| ());
        board.lose_all(2, 10);
        assert_eq!((board.lost, board.absent()), (6, 8));
        let resent: Vec<u64> = std::iter::from_fn(|| resend(&mut board, 0)).collect();
        assert_eq!(resent, [2, 3, 6, 7, 8, 9]);
        assert_eq!(board.acknowledge(2, 10, |_| ()), 6);
        assert!(board.is_clean());
    }
}

//! When segments left for the first time, by burst.

use headway_link::Ring;

/// The departure times of all segments not yet acknowledged.
#[derive(Debug)]
pub(super) struct Departures {
    /// Of each burst, one past its last segment, and when it left (ns).
    bursts: Ring<(u64, u64)>,
}

impl Departures {
    pub(super) fn new() -> Departures {
        Departures { bursts: Ring::with_capacity(4) }
    }

    /// The segments below `end` that have not been recorded leave now.
    pub(super) fn note(&mut self, end: u64, now: u64) {
        self.bursts.push((end, now));
    }

    /// Removes bursts that are acknowledged completely.
    pub(super) fn forget(&mut self, una: u64) {
        while self.bursts.front().is_some_and(|(end, _)| *end <= una) {
            self.bursts.skip();
        }
    }

    /// When the first burst not acknowledged completely left (ns).
    pub(super) fn first(&self) -> Option<u64> {
        self.bursts.front().map(|(_, left)| *left)
    }

    /// The burst that contains a segment.
    fn burst(&self, segment: u64) -> Option<(u64, u64)> {
        let position = self.bursts.partition_point(|(end, _)| *end <= segment);
        (position < self.bursts.tail()).then(|| *self.bursts.at(position))
    }

    /// When a segment left (ns).
    pub(super) fn of(&self, segment: u64) -> Option<u64> {
        self.burst(segment).map(|(_, left)| left)
    }

    /// One past the last segment of the burst that contains this one.
    pub(super) fn end_of_burst(&self, segment: u64) -> u64 {
        self.burst(segment).map_or(segment + 1, |(end, _)| end)
    }

    /// One past the last segment that left by `time` (ns), counting of those that left exactly then only the
    /// ones below `end`; zero if there is none.
    pub(super) fn by(&self, time: u64, end: u64) -> u64 {
        let earlier = self.bursts.partition_point(|(_, left)| *left < time);
        let before = if earlier == self.bursts.head() { 0 } else { self.bursts.at(earlier - 1).0 };
        let later = (earlier..self.bursts.tail()).map(|position| self.bursts.at(position));
        let together = later.take_while(|(_, left)| *left == time);
        together.last().map_or(before, |(last, _)| before.max(end.min(*last)))
    }

    pub(super) fn memory(&self) -> usize {
        self.bursts.memory()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departures() -> Departures {
        let mut departures = Departures::new();
        departures.note(10, 100);
        departures.note(20, 200);
        departures
    }

    #[test]
    fn segments_leave_with_their_burst() {
        let departures = departures();
        assert_eq!(
            [0, 9, 10, 19, 20].map(|segment| departures.of(segment)),
            [Some(100), Some(100), Some(200), Some(200), None]
        );
        assert_eq!([4, 12, 20].map(|segment| departures.end_of_burst(segment)), [10, 20, 21]);
        assert_eq!([99, 100, 199, 200, 201].map(|time| departures.by(time, u64::MAX)), [0, 10, 10, 20, 20]);
        assert_eq!(
            [(100, 7), (199, 7), (200, 7), (200, 17)].map(|(time, end)| departures.by(time, end)),
            [7, 10, 10, 17]
        );
    }

    #[test]
    fn what_is_acknowledged_is_forgotten() {
        let mut departures = departures();
        departures.forget(9);
        assert_eq!(departures.first(), Some(100));
        departures.forget(10);
        assert_eq!(departures.first(), Some(200));
        departures.forget(20);
        assert_eq!(departures.first(), None);
    }
}

//! A set of segment numbers, kept as ranges.

use std::collections::VecDeque;
use std::ops::Range;

/// Ranges at either end that are checked one by one before a binary search.
const LINEAR_STEPS: usize = 4;

/// Disjoint ranges that do not touch, in ascending order.
///
/// Nearly all changes happen at either end: new data extends the last range, and retransmissions
/// fill the first hole.
#[derive(Clone, Debug, Default)]
pub(crate) struct RangeSet {
    ranges: VecDeque<Range<u64>>,
    /// The number of members.
    len: u64,
}

impl RangeSet {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// One past the largest member.
    pub(crate) fn end(&self) -> Option<u64> {
        self.ranges.back().map(|range| range.end)
    }

    /// The position of the first range that ends at or after `member`.
    fn position(&self, member: u64) -> usize {
        let count = self.ranges.len();
        // New data and repeated SACK blocks are at the end, retransmissions at the beginning.
        for position in (count.saturating_sub(LINEAR_STEPS)..count).rev() {
            if self.ranges[position].end < member {
                return position + 1;
            }
        }
        for position in 0..LINEAR_STEPS.min(count) {
            if self.ranges[position].end >= member {
                return position;
            }
        }
        self.ranges.partition_point(|range| range.end < member)
    }

    /// The range that contains `member`.
    pub(crate) fn range_of(&self, member: u64) -> Option<Range<u64>> {
        self.ranges.get(self.position(member + 1)).filter(|range| range.contains(&member)).cloned()
    }

    /// Adds `added` and returns the range that contains it afterwards; calls `new` with each part that was
    /// not in the set, in ascending order.
    pub(crate) fn insert(&mut self, added: Range<u64>, mut new: impl FnMut(Range<u64>)) -> Range<u64> {
        let first = self.position(added.start);
        let mut merged = added.clone();
        let mut from = added.start;
        let mut last = first;
        while let Some(range) = self.ranges.get(last).filter(|range| range.start <= added.end) {
            if from < range.start {
                new(from..range.start);
            }
            from = from.max(range.end);
            merged = merged.start.min(range.start)..merged.end.max(range.end);
            self.len -= range.end - range.start;
            last += 1;
        }
        if from < added.end {
            new(from..added.end);
        }
        self.len += merged.end - merged.start;
        if first == last {
            self.ranges.insert(first, merged.clone());
        } else {
            self.ranges[first] = merged.clone();
            if last > first + 1 {
                self.ranges.drain(first + 1..last);
            }
        }
        merged
    }

    /// Removes everything below `bound`.
    pub(crate) fn remove_below(&mut self, bound: u64) {
        while let Some(first) = self.ranges.front_mut().filter(|first| first.start < bound) {
            if first.end > bound {
                self.len -= bound - first.start;
                first.start = bound;
                return;
            }
            self.len -= first.end - first.start;
            self.ranges.pop_front();
        }
    }

    /// The smallest number at or above `from` that is not a member.
    pub(crate) fn next_hole(&self, from: u64) -> u64 {
        self.range_of(from).map_or(from, |range| range.end)
    }

    pub(crate) fn memory(&self) -> usize {
        self.ranges.capacity() * size_of::<Range<u64>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(steps in prop::collection::vec((0u64..200, 1u64..20, any::<bool>()), 1..80)) {
            let (mut set, mut model) = (RangeSet::default(), BTreeSet::new());
            for (start, count, remove) in steps {
                if remove {
                    set.remove_below(start / 2);
                    model = model.split_off(&(start / 2));
                } else {
                    let mut fresh = Vec::new();
                    let merged = set.insert(start..start + count, |range| fresh.extend(range));
                    let expected: Vec<u64> = (start..start + count).filter(|n| model.insert(*n)).collect();
                    prop_assert_eq!(fresh, expected);
                    prop_assert!(merged.clone().all(|n| model.contains(&n)));
                    prop_assert!(!model.contains(&merged.end) && (merged.start == 0 || !model.contains(&(merged.start - 1))));
                }
                prop_assert_eq!(set.len(), model.len() as u64);
                prop_assert_eq!(set.end(), model.last().map(|last| last + 1));
                for member in 0..230 {
                    prop_assert_eq!(set.range_of(member).is_some(), model.contains(&member));
                    let hole = (member..).find(|n| !model.contains(n)).unwrap();
                    prop_assert_eq!(set.next_hole(member), hole);
                }
            }
        }
    }
}

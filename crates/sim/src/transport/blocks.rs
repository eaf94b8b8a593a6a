//! The SACK blocks of a receiver.
//!
//! A host remembers only the ranges that changed most recently. A range pushed out of that list is not
//! reported again, and a segment next to it starts a new block. So with heavy reordering senders retransmit
//! segments that arrived long ago.

/// Blocks remembered (Linux's `TCP_NUM_SACKS`); fewer fit into an ACK.
const REMEMBERED: usize = 4;

/// The most recently changed ranges out of order, newest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Blocks {
    blocks: [(u64, u64); REMEMBERED],
    count: usize,
}

impl Blocks {
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.blocks[..self.count].iter().copied()
    }

    /// The index of the block that contains or touches `segment`.
    pub(super) fn place(&self, segment: u64) -> Option<usize> {
        self.iter().position(|(start, end)| start <= segment + 1 && segment <= end)
    }

    /// Adds a segment received out of order: its block moves to the front and merges with
    /// those it now touches.
    pub(super) fn add(&mut self, segment: u64) {
        let place = self.place(segment).unwrap_or_else(|| {
            self.count = (self.count + 1).min(REMEMBERED);
            self.blocks[self.count - 1] = (segment, segment + 1);
            self.count - 1
        });
        self.blocks[..=place].rotate_right(1);
        let [(start, end), ..] = &mut self.blocks;
        (*start, *end) = ((*start).min(segment), (*end).max(segment + 1));
        self.merge();
    }

    /// Merges the newest block with those it touches.
    fn merge(&mut self) {
        let mut place = 1;
        while place < self.count {
            let (newest, (start, end)) = (self.blocks[0], self.blocks[place]);
            if start <= newest.1 && newest.0 <= end {
                self.blocks[0] = (newest.0.min(start), newest.1.max(end));
                self.remove(place);
            } else {
                place += 1;
            }
        }
    }

    fn remove(&mut self, place: usize) {
        self.blocks[place..self.count].rotate_left(1);
        self.count -= 1;
    }

    /// Removes the blocks that a cumulative ACK of all segments below `next` covers.
    pub(super) fn forget_below(&mut self, next: u64) {
        let mut place = 0;
        while place < self.count {
            if self.blocks[place].0 <= next { self.remove(place) } else { place += 1 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(segments: &[u64]) -> Vec<(u64, u64)> {
        let mut blocks = Blocks::default();
        segments.iter().for_each(|segment| blocks.add(*segment));
        blocks.iter().collect()
    }

    #[test]
    fn the_block_that_changed_last_comes_first() {
        assert_eq!(after(&[5, 9, 12, 6]), [(5, 7), (12, 13), (9, 10)]);
        assert_eq!(after(&[9, 5, 6, 4]), [(4, 7), (9, 10)]);
    }

    #[test]
    fn a_segment_between_two_blocks_joins_them() {
        assert_eq!(after(&[5, 7, 20, 6]), [(5, 8), (20, 21)]);
    }

    #[test]
    fn what_was_pushed_out_is_not_joined_any_more() {
        assert_eq!(after(&[2, 4, 6, 8, 10]), [(10, 11), (8, 9), (6, 7), (4, 5)]);
        assert_eq!(after(&[2, 4, 6, 8, 10, 3]), [(3, 5), (10, 11), (8, 9), (6, 7)]);
    }

    #[test]
    fn what_is_in_order_is_forgotten() {
        let mut blocks = Blocks::default();
        [5, 9, 12].into_iter().for_each(|segment| blocks.add(segment));
        blocks.forget_below(10);
        assert_eq!(blocks.iter().collect::<Vec<_>>(), [(12, 13)]);
    }
}

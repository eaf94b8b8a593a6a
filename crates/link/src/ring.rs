//! A ring buffer whose capacity is a power of two; it grows and never shrinks.

/// A FIFO queue whose items can also be read by position, counted from the first item ever pushed.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    items: Box<[T]>,
    /// Position of the first item.
    head: u64,
    /// Position one past the last item.
    tail: u64,
}

impl<T: Copy + Default> Default for Ring<T> {
    fn default() -> Ring<T> {
        Ring::new()
    }
}

impl<T: Copy + Default> Ring<T> {
    /// Returns an empty queue.
    pub fn new() -> Ring<T> {
        Ring::with_capacity(16)
    }

    /// Returns an empty queue with room for `capacity` items, a power of two.
    pub fn with_capacity(capacity: usize) -> Ring<T> {
        Ring { items: vec![T::default(); capacity].into(), head: 0, tail: 0 }
    }

    fn slot(&self, position: u64) -> usize {
        position as usize & (self.items.len() - 1)
    }

    /// Adds an item behind the others.
    #[inline(always)]
    pub fn push(&mut self, item: T) {
        if self.len() == self.items.len() {
            self.grow();
        }
        let slot = self.slot(self.tail);
        self.tail += 1;
        self.items[slot] = item;
    }

    /// Removes the first item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        if self.head == self.tail {
            return None;
        }
        let item = self.items[self.slot(self.head)];
        self.head += 1;
        Some(item)
    }

    /// Returns the first item of a queue that is not empty.
    #[inline(always)]
    pub fn first(&mut self) -> &mut T {
        debug_assert!(self.head < self.tail, "the queue is empty");
        let slot = self.slot(self.head);
        &mut self.items[slot]
    }

    /// Removes the first item of a queue that is not empty.
    pub fn skip(&mut self) {
        debug_assert!(self.head < self.tail, "the queue is empty");
        self.head += 1;
    }

    /// Removes the item at `position`, which must lie between head and tail; those before it move up, so
    /// removal near the head is cheap.
    pub fn remove(&mut self, position: u64) -> T {
        let item = *self.at(position);
        for position in (self.head..position).rev() {
            *self.at_mut(position + 1) = *self.at(position);
        }
        self.head += 1;
        item
    }

    /// Returns the first item.
    pub fn front(&self) -> Option<&T> {
        (self.head != self.tail).then(|| &self.items[self.slot(self.head)])
    }

    /// Returns the position of the first item.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// Returns the item at `position`, which must lie between head and tail.
    pub fn at(&self, position: u64) -> &T {
        &self.items[self.slot(position)]
    }

    /// As [`Ring::at`], to change the item.
    pub fn at_mut(&mut self, position: u64) -> &mut T {
        let slot = self.slot(position);
        &mut self.items[slot]
    }

    /// Returns the position one past the last item.
    pub fn tail(&self) -> u64 {
        self.tail
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.head == self.tail
    }

    /// Returns the number of items.
    pub(crate) fn len(&self) -> usize {
        (self.tail - self.head) as usize
    }

    /// Returns the position of the first item for which `before` is false; it must be true for
    /// all items before that.
    pub fn partition_point(&self, before: impl Fn(&T) -> bool) -> u64 {
        let (mut low, mut high) = (self.head, self.tail);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(self.at(middle)) { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the memory in use (bytes).
    pub fn memory(&self) -> usize {
        self.items.len() * size_of::<T>()
    }

    #[cold]
    fn grow(&mut self) {
        let mut items = vec![T::default(); self.items.len() * 2];
        for position in self.head..self.tail {
            items[position as usize & (self.items.len() * 2 - 1)] = *self.at(position);
        }
        self.items = items.into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn behaves_like_a_deque(steps in prop::collection::vec(prop::option::of(0u32..1000), 0..400)) {
            let (mut ring, mut model) = (Ring::new(), VecDeque::new());
            for step in steps {
                match step {
                    Some(item) if item < 100 && !model.is_empty() => {
                        let index = item as usize % model.len();
                        prop_assert_eq!(Some(ring.remove(ring.head() + index as u64)), model.remove(index));
                    }
                    Some(item) => { ring.push(item); model.push_back(item); }
                    None => prop_assert_eq!(ring.pop(), model.pop_front()),
                }
                prop_assert_eq!(ring.len(), model.len());
                prop_assert_eq!(ring.front(), model.front());
            }
        }
    }
}

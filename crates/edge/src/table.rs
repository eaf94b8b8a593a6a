//! A table of bounded size whose oldest entry makes room for a new one.

use std::collections::HashMap;

use headway_arithmetic::flow::Key;

/// Connections in their handshake. A flood of them pushes out the oldest ones, and costs no memory.
#[derive(Clone, Debug)]
pub(crate) struct Recent<V> {
    entries: HashMap<Key, (usize, V)>,
    /// The keys in order of their insertion: a ring.
    places: Vec<Option<Key>>,
    next: usize,
}

impl<V> Recent<V> {
    /// Creates a table of at most `capacity` entries, at least one.
    pub(crate) fn new(capacity: usize) -> Recent<V> {
        Recent { entries: HashMap::new(), places: vec![None; capacity.max(1)], next: 0 }
    }

    pub(crate) fn get_mut(&mut self, key: &Key) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// Inserts an entry that is not there, and returns whether another one had to go.
    pub(crate) fn insert(&mut self, key: Key, value: V) -> bool {
        self.remove(&key);
        let oldest = self.places[self.next].replace(key);
        let pushed_out = oldest.is_some_and(|oldest| self.entries.remove(&oldest).is_some());
        self.entries.insert(key, (self.next, value));
        self.next = (self.next + 1) % self.places.len();
        pushed_out
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some((place, _)) = self.entries.remove(key) {
            self.places[place] = None;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

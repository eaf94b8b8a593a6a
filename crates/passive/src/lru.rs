//! A map of bounded size that removes the entry unused for longest.

use std::collections::HashMap;
use std::hash::Hash;

/// No entry.
const NONE: u32 = u32::MAX;

/// A map with a list of its entries from the most to the least recently used one.
///
/// Its memory for a full map is allocated once. The hash function is keyed at random, so that nobody who can
/// send packets can choose keys that collide.
#[derive(Debug)]
pub(crate) struct Lru<K, V> {
    places: HashMap<K, u32>,
    entries: Vec<Entry<K, V>>,
    /// Places of removed entries.
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

#[derive(Debug)]
struct Entry<K, V> {
    key: K,
    /// `None` for a removed entry.
    value: Option<V>,
    newer: u32,
    older: u32,
}

impl<K: Copy + Eq + Hash, V> Lru<K, V> {
    /// Creates a map of at most `capacity` entries, at least one and fewer than 2^32.
    pub(crate) fn new(capacity: usize) -> Lru<K, V> {
        let capacity = capacity.clamp(1, NONE as usize);
        Lru {
            places: HashMap::with_capacity(capacity),
            entries: Vec::with_capacity(capacity),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            capacity,
        }
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether another entry needs the place of the oldest.
    pub(crate) fn is_full(&self) -> bool {
        self.len() >= self.capacity
    }

    /// Returns the bytes of memory of a full map, without what values allocate.
    pub(crate) fn memory(&self) -> usize {
        // The table of places has a byte of metadata per slot.
        self.entries.capacity() * size_of::<Entry<K, V>>()
            + self.places.capacity() * 8 / 7 * (size_of::<(K, u32)>() + 1)
    }

    /// Returns the place of a key and makes it the most recently used one.
    pub(crate) fn find(&mut self, key: &K) -> Option<u32> {
        // Consecutive packets often belong together.
        if let Some(entry) = self.entries.get(self.newest as usize)
            && entry.key == *key
        {
            return Some(self.newest);
        }
        let place = *self.places.get(key)?;
        self.unlink(place);
        self.link(place);
        Some(place)
    }

    /// Adds an entry, which must not exist, as the most recently used one; the map must not be full.
    pub(crate) fn insert(&mut self, key: K, value: V) -> u32 {
        debug_assert!(!self.is_full());
        let entry = Entry { key, value: Some(value), newer: NONE, older: NONE };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.places.insert(key, place);
        self.link(place);
        place
    }

    /// Removes the entry unused for longest.
    pub(crate) fn remove_oldest(&mut self) -> Option<(K, V)> {
        (self.oldest != NONE).then(|| self.remove(self.oldest)).flatten()
    }

    /// Removes the entry at a place.
    pub(crate) fn remove(&mut self, place: u32) -> Option<(K, V)> {
        let value = self.entries[place as usize].value.take()?;
        let key = self.entries[place as usize].key;
        self.unlink(place);
        self.places.remove(&key);
        self.free.push(place);
        Some((key, value))
    }

    /// Returns the value at a place, which must not have been removed.
    pub(crate) fn value(&mut self, place: u32) -> Option<&mut V> {
        self.entries[place as usize].value.as_mut()
    }

    /// Returns all entries from the most to the least recently used one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let mut place = self.newest;
        std::iter::from_fn(move || {
            let here = place;
            place = self.entries.get(here as usize)?.older;
            self.at(here)
        })
    }

    /// Returns the entry unused for longest.
    pub(crate) fn oldest(&self) -> Option<(&K, &V)> {
        self.at(self.oldest)
    }

    /// Visits entries from the most to the least recently used one, until `visit` returns false.
    pub(crate) fn visit(&mut self, mut visit: impl FnMut(&K, &mut V) -> bool) {
        let mut place = self.newest;
        while let Some(Entry { key, value: Some(value), older, .. }) = self.entries.get_mut(place as usize)
            && visit(key, value)
        {
            place = *older;
        }
    }

    /// Returns all entries with their places, in no particular order.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u32, &K, &V)> {
        let places = self.entries.iter().enumerate();
        places.filter_map(|(at, entry)| entry.value.as_ref().map(|value| (at as u32, &entry.key, value)))
    }

    /// Returns the entry at a place; `None` if it was removed.
    pub(crate) fn at(&self, place: u32) -> Option<(&K, &V)> {
        let entry = self.entries.get(place as usize)?;
        entry.value.as_ref().map(|value| (&entry.key, value))
    }

    /// Visits all entries with their places, in no particular order.
    pub(crate) fn visit_places(&mut self, mut visit: impl FnMut(u32, &K, &mut V)) {
        for (at, entry) in self.entries.iter_mut().enumerate() {
            if let Some(value) = &mut entry.value {
                visit(at as u32, &entry.key, value);
            }
        }
    }

    /// Makes an entry the most recently used one.
    fn link(&mut self, place: u32) {
        let older = std::mem::replace(&mut self.newest, place);
        self.entries[place as usize].older = older;
        self.entries[place as usize].newer = NONE;
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = place,
            None => self.oldest = place,
        }
    }

    fn unlink(&mut self, place: u32) {
        let Entry { newer, older, .. } = self.entries[place as usize];
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_unused_for_longest_is_removed_first() {
        let mut map = Lru::new(3);
        for key in 0..3 {
            map.insert(key, key * 10);
        }
        assert!(map.is_full());
        assert!(map.find(&0).is_some());
        assert_eq!(map.remove_oldest(), Some((1, 10)));
        map.insert(7, 70);
        assert_eq!(map.iter().map(|(key, _)| *key).collect::<Vec<_>>(), [7, 0, 2]);
        let place = map.find(&0).unwrap();
        assert_eq!(map.remove(place), Some((0, 0)));
        assert_eq!(map.find(&0), None);
        assert_eq!(
            [map.remove_oldest(), map.remove_oldest(), map.remove_oldest()].map(|e| e.map(|e| e.0)),
            [Some(2), Some(7), None]
        );
        assert_eq!(map.len(), 0);
    }

    #[test]
    fn it_agrees_with_a_plain_list() {
        let mut map = Lru::new(8);
        let mut list: Vec<(u64, u64)> = Vec::new();
        let mut random = 1u64;
        for step in 0..20_000u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = (random >> 33) % 20;
            let found = map.find(&key);
            match list.iter().position(|(k, _)| *k == key) {
                Some(at) => {
                    let entry = list.remove(at);
                    list.insert(0, entry);
                    assert_eq!(*map.value(found.unwrap()).unwrap(), entry.1);
                    if step % 7 == 0 {
                        assert_eq!(map.remove(found.unwrap()), Some(list.remove(0)));
                    }
                }
                None => {
                    assert_eq!(found, None);
                    if map.is_full() {
                        assert_eq!(map.remove_oldest(), list.pop());
                    }
                    map.insert(key, step);
                    list.insert(0, (key, step));
                }
            }
            assert!(map.iter().map(|(k, v)| (*k, *v)).eq(list.iter().copied()));
        }
    }
}

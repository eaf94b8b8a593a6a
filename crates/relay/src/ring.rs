//! Bytes on their way from one connection to the other.

/// A buffer of fixed size, whose memory is taken when there are bytes for the first time.
#[derive(Debug)]
pub(crate) struct Ring {
    bytes: Vec<u8>,
    size: usize,
    /// Where the oldest byte is.
    head: usize,
    length: usize,
}

impl Ring {
    pub(crate) fn new(size: usize) -> Ring {
        Ring { bytes: Vec::new(), size, head: 0, length: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn is_full(&self) -> bool {
        self.length == self.size
    }

    /// Returns free memory; empty only if the buffer is full.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            self.bytes = vec![0; self.size];
        }
        let tail = self.head + self.length;
        let (from, to) = if tail < self.size { (tail, self.size) } else { (tail - self.size, self.head) };
        &mut self.bytes[from..to]
    }

    /// Adds the first bytes of [`room`](Ring::room), which have been filled.
    pub(crate) fn fill(&mut self, count: usize) {
        self.length += count;
    }

    /// Returns the oldest bytes; empty only if there are none.
    pub(crate) fn oldest(&self) -> &[u8] {
        let end = (self.head + self.length).min(self.size);
        self.bytes.get(self.head..end).unwrap_or_default()
    }

    /// Removes the oldest bytes.
    pub(crate) fn drain(&mut self, count: usize) {
        self.length -= count;
        // An empty buffer begins again, so that little traffic touches little memory.
        self.head = if self.length == 0 { 0 } else { (self.head + count) % self.size };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_as_they_went_in_and_never_too_many() {
        for size in 1..9 {
            let mut ring = Ring::new(size);
            let (mut written, mut read) = (0_usize, 0_usize);
            for step in 0..500_usize {
                let room = ring.room();
                let count = room.len().min(step * 7 % 5);
                for place in &mut room[..count] {
                    *place = written as u8;
                    written += 1;
                }
                ring.fill(count);
                assert!(written - read <= size);
                assert_eq!((ring.is_empty(), ring.is_full()), (written == read, written - read == size));
                let oldest = ring.oldest();
                let count = oldest.len().min(step * 3 % 4);
                for byte in &oldest[..count] {
                    assert_eq!(*byte, read as u8);
                    read += 1;
                }
                ring.drain(count);
            }
            assert!(read > 100, "{size}");
        }
    }
}

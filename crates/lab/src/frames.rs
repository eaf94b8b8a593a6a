//! Memory for frames under way, so that forwarding allocates nothing once the queue has been full.

/// Fixed-size buffers, referred to by number.
pub(crate) struct Frames {
    size: usize,
    buffers: Vec<Box<[u8]>>,
    free: Vec<u32>,
}

impl Frames {
    /// Buffers of `size` bytes each; none exists yet.
    pub(crate) fn new(size: usize) -> Frames {
        Frames { size, buffers: Vec::new(), free: Vec::new() }
    }

    /// A buffer that nobody else has; made when all are taken.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.buffers.push(vec![0; self.size].into_boxed_slice());
            (self.buffers.len() - 1) as u32
        })
    }

    /// Returns a buffer.
    pub(crate) fn give(&mut self, number: u32) {
        self.free.push(number);
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        &self.buffers[number as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut [u8] {
        &mut self.buffers[number as usize]
    }
}

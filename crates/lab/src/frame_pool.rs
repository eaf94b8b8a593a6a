//! A pool of buffers for frames on the path. Once it has grown to the peak load,
//! forwarding allocates nothing.

/// Fixed-size buffers, identified by number.
pub(crate) struct FramePool {
    size: usize,
    buffers: Vec<Box<[u8]>>,
    free: Vec<u32>,
}

impl FramePool {
    /// Creates an empty pool of buffers of `size` bytes each.
    pub(crate) fn new(size: usize) -> FramePool {
        FramePool { size, buffers: Vec::new(), free: Vec::new() }
    }

    /// Returns a free buffer, or allocates one if all are in use.
    pub(crate) fn alloc(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.buffers.push(vec![0; self.size].into_boxed_slice());
            (self.buffers.len() - 1) as u32
        })
    }

    /// Returns a buffer that begins with the first `len` bytes of another one.
    pub(crate) fn copy(&mut self, number: u32, len: usize) -> u32 {
        let copy = self.alloc();
        // They differ: the other one is in use.
        if let Ok([from, to]) = self.buffers.get_disjoint_mut([number as usize, copy as usize]) {
            to[..len].copy_from_slice(&from[..len]);
        }
        copy
    }

    /// Puts a buffer back into the pool.
    pub(crate) fn free(&mut self, number: u32) {
        self.free.push(number);
    }

    pub(crate) fn get(&self, number: u32) -> &[u8] {
        &self.buffers[number as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut [u8] {
        &mut self.buffers[number as usize]
    }
}

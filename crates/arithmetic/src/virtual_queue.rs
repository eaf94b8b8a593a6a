//! Virtual queues (`c/virtual_queue.h`): which packets to mark, as if they waited for a link that is a
//! little slower (wan F75).

/// Fraction bits of a cost, in ns for a byte on the wire.
pub const COST_BITS: u32 = 20;
/// A longer wait is a queue, in ns, but two full packets may always wait.
pub const THRESHOLD: u64 = 5_000_000;
/// Bytes on the wire of these two.
pub const LEAST_BYTES: u64 = 2 * 1538;
/// A queue that lasts this long is a standing queue, in ns.
pub const INTERVAL: u64 = 100_000_000;
/// The queue holds no more than this many thresholds.
pub const DEPTH: u64 = 20;

unsafe extern "C" {
    safe fn virtual_queue_add(queue: &mut VirtualQueue, now: u64, bytes: u32, cost: u64, may: i32) -> i32;
}

/// A queue that holds no packets, and marks as CoDel does. Times are in ns of any clock, and not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct VirtualQueue {
    empty: u64,
    next: u64,
    marks: u32,
    unused: u32,
}

impl VirtualQueue {
    /// Adds a packet of this many bytes on the wire, of which each takes `cost` ns with [`COST_BITS`];
    /// returns whether it is to be marked, if it `may` be.
    pub fn add(&mut self, now: u64, bytes: u32, cost: u64, may: bool) -> bool {
        virtual_queue_add(self, now, bytes, cost, may.into()) != 0
    }

    /// Returns how long a packet would wait, in ns.
    pub const fn wait(&self, now: u64) -> u64 {
        self.empty.saturating_sub(now)
    }
}

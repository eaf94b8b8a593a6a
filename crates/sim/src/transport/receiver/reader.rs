//! The application that reads.

use headway_units::Rate;

/// An application that reads at a limited rate.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    /// Payload bits per second.
    rate: u64,
    mss: u64,
    /// Segments read.
    pub(super) read: u64,
    /// Since when it has had data to read (ns), and what it had read by then.
    pub(super) since: u64,
    pub(super) base: u64,
}

impl Reader {
    pub(super) fn new(rate: Rate, mss: u32) -> Reader {
        Reader { rate: rate.bps().max(1), mss: mss.into(), read: 0, since: 0, base: 0 }
    }

    /// The time that it takes to read `segments`, ns.
    pub(super) fn time(&self, segments: u64) -> u64 {
        (u128::from(segments * self.mss) * 8_000_000_000).div_ceil(u128::from(self.rate)) as u64
    }

    pub(super) fn advance(&mut self, now: u64, available: u64) {
        let bits = u128::from(now - self.since) * u128::from(self.rate) / 1_000_000_000;
        let read = self.base + (bits / u128::from(self.mss * 8)) as u64;
        if read >= available {
            // It waits for data; this idle time does not count.
            (self.read, self.base, self.since) = (available, available, now);
        } else {
            self.read = read;
        }
    }
}

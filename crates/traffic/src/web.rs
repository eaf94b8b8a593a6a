//! Browsers that fetch files and think.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use headway_units::{Bytes, Duration, Rate};
use rand_pcg::Pcg64Mcg;

use super::Emission;
use super::distribution::{Lognormal, exponential, uniform};

/// Smallest size of an Ethernet frame on the wire: 64 bytes, preamble and inter-frame gap.
const MIN_FRAME: u64 = 84;

/// A file in transmission: when its next packet leaves, and the bytes left; 0 at its end.
type File = Reverse<(Duration, u64)>;

/// Browsers that alternate between thinking for an exponential time and fetching a lognormal
/// file at the access rate.
///
/// Only the files in transmission are stored: for thinking browsers, the time until the first of them fetches
/// is exponential at any moment (memorylessness).
#[derive(Clone, Debug)]
pub(super) struct Web {
    /// Largest packet.
    size: Bytes,
    access: Rate,
    /// Transmission time of the largest packet at the access rate.
    gap: Duration,
    /// Mean thinking time of a browser, in nanoseconds.
    think: f64,
    file: Lognormal,
    thinking: u32,
    /// When the next browser fetches a file.
    fetch: Duration,
    files: BinaryHeap<File>,
    rng: Pcg64Mcg,
}

impl Web {
    /// Creates browsers in equilibrium; `file` is in bytes on the wire, and `access` must be positive.
    pub(super) fn new(
        browsers: u32,
        think: Duration,
        (mean, file): (Bytes, Lognormal),
        access: Rate,
        size: Bytes,
        mut rng: Pcg64Mcg,
    ) -> Web {
        let fetching = access.time_for(mean).secs_f64();
        let busy = fetching / (fetching + think.secs_f64());
        let gap = access.time_for(size);
        let mut files = BinaryHeap::new();
        for _ in 0..browsers {
            if uniform(&mut rng) <= busy {
                let phase = gap.scale(uniform(&mut rng));
                files.push(Reverse((phase, bytes(file.residual(&mut rng)))));
            }
        }
        let thinking = browsers - files.len() as u32;
        let fetch = Duration::ZERO;
        let mut web = Web { size, access, gap, think: think.ns() as f64, file, thinking, fetch, files, rng };
        web.plan(Duration::ZERO);
        web
    }

    /// Draws when the next browser fetches a file.
    fn plan(&mut self, now: Duration) {
        self.fetch = match self.thinking {
            0 => Duration::MAX,
            thinking => {
                let time = self.think / f64::from(thinking) * exponential(&mut self.rng);
                now + Duration::from_ns(time as i64)
            }
        };
    }

    pub(super) fn next(&mut self) -> Option<Emission> {
        loop {
            if self.files.peek().is_none_or(|Reverse((at, _))| self.fetch <= *at) {
                if self.thinking == 0 {
                    return None;
                }
                self.files.push(Reverse((self.fetch, bytes(self.file.sample(&mut self.rng)))));
                self.thinking -= 1;
                self.plan(self.fetch);
                continue;
            }
            let mut first = self.files.peek_mut()?;
            let Reverse((at, left)) = *first;
            if left == 0 {
                PeekMut::pop(first);
                self.thinking += 1;
                self.plan(at);
                continue;
            }
            let size = left.min(self.size.get());
            let gap = if left < self.size.get() { self.access.time_for(Bytes::new(size)) } else { self.gap };
            *first = Reverse((at + gap, left - size));
            return Some(Emission { at, size: Bytes::new(size) });
        }
    }
}

/// Converts a file size to whole bytes, at least one frame.
fn bytes(size: f64) -> u64 {
    (size as u64).max(MIN_FRAME)
}

//! The search for a token bucket that passes all packets of a question.

use headway_estimate::question::Reply;
use headway_units::{Bytes, Rate};

/// After so many questions in a row without a queue a token bucket is looked for. If there is none, then
/// after four times as many, up to the most. Range 2 to 10, and 50 to 1000.
const FLAT: u32 = 5;
/// See [`FLAT`].
const MOST_FLAT: u32 = 200;
/// A bucket of this size is looked for first. Range from [`LEAST_BUCKET`] to [`LARGEST_BUCKET`].
const FIRST_TRIAL: Bytes = Bytes::new(64_000);
/// The largest one that is looked for: to empty one costs at least its bytes. Range 500 kB to 10 MB.
const LARGEST_BUCKET: Bytes = Bytes::new(2_000_000);
/// The smallest one that counts: ten packets are a burst that any queue takes. Range 3 to 60 kB.
const LEAST_BUCKET: Bytes = Bytes::new(15_000);
/// What a bucket that looks smaller than before still counts as. Range 0.9 to 1.
const FADES: f64 = 0.995;
/// A token bucket of less than this part of a question hardly matters. Range 5 to 50.
const SMALL_BUCKET: u64 = 10;

/// What is known of the token bucket of a path.
#[derive(Clone, Debug)]
pub(crate) struct BucketSearch {
    /// The burst that a shaper passes before it enforces its rate.
    pub(crate) found: Option<Bytes>,
    /// The burst that is looked for, after so many questions in a row of which no packet met a queue.
    trial: Option<Bytes>,
    flat: u32,
    /// After so many of them it is looked for.
    patience: u32,
}

impl Default for BucketSearch {
    fn default() -> BucketSearch {
        BucketSearch { found: None, trial: None, flat: 0, patience: FLAT }
    }
}

impl BucketSearch {
    /// Whether a token bucket passes much of so many bytes at any rate.
    pub(crate) fn hides(&self, bytes: Bytes) -> bool {
        self.found.is_some_and(|bucket| bucket.get() > bytes.get() / SMALL_BUCKET)
    }

    /// Returns the bucket that must be empty before a question of so many bytes tells anything.
    pub(crate) fn to_empty(&self, bytes: Bytes) -> Option<Bytes> {
        self.trial.or_else(|| self.found.filter(|_| self.hides(bytes)))
    }

    /// Takes the reply to a question before which this bucket was to be emptied, and returns whether it tells
    /// anything. Where no packet ever meets a queue, a bucket is looked for that passes them all.
    pub(crate) fn replied(&mut self, reply: &Reply, emptied: Option<Bytes>, capacity: Rate) -> bool {
        match (emptied, reply.emptied) {
            (Some(bucket), None) => {
                self.trial = Some((bucket * 2).min(LARGEST_BUCKET));
                false
            }
            (Some(_), Some(found)) => {
                self.trial = None;
                // Others may have used a part of it.
                let before = self.found.unwrap_or_default().get() as f64;
                let bucket = found.max(Bytes::new((before * FADES) as u64));
                self.found = Some(bucket).filter(|bucket| *bucket >= LEAST_BUCKET);
                if self.found.is_none() {
                    self.patience = (self.patience * 4).min(MOST_FLAT);
                }
                true
            }
            (None, _) => {
                self.flat = if reply.is_flat(capacity) { self.flat + 1 } else { 0 };
                if self.flat >= self.patience {
                    (self.flat, self.trial) = (0, Some(FIRST_TRIAL));
                }
                true
            }
        }
    }
}

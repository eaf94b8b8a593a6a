//! Token bucket: passes bursts and enforces the long-run rate exactly (wan 2.6).

use serde::{Deserialize, Serialize};

use headway_units::{Bytes, Duration, Instant, Rate};

/// Tokens per byte. A token is one bit per second times one nanosecond: the number that arrives per
/// nanosecond equals the rate in bits per second, so no time or size ever leaves a remainder.
const TOKENS_PER_BYTE: u64 = 8_000_000_000;

/// The token bucket of a policer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policer {
    /// Long-run rate, counting wire bytes.
    pub rate: Rate,
    /// Bucket size, in wire bytes.
    pub burst: Bytes,
}

/// A token bucket that fills at a given rate.
///
/// It either shapes ([`TokenBucket::departure`]) or polices ([`TokenBucket::conforms`]).
#[derive(Clone, Debug)]
pub struct TokenBucket {
    /// Tokens per nanosecond, which is the rate in bits per second.
    rate: u64,
    /// Maximum number of tokens.
    capacity: u64,
    /// Tokens at `updated`.
    tokens: u64,
    updated: Instant,
}

impl TokenBucket {
    /// Creates a full bucket of `burst` wire bytes, at most 2.3 GB, that fills at `rate`.
    pub fn new(rate: Rate, burst: Bytes) -> TokenBucket {
        let capacity = tokens(burst);
        TokenBucket { rate: rate.bps(), capacity, tokens: capacity, updated: Instant::ZERO }
    }

    /// Returns when a packet that is ready at `earliest` may leave, and takes its tokens.
    ///
    /// Packets leave in the order of the calls. A packet larger than the bucket also waits for its missing
    /// tokens, so the long-run rate holds for any packet size. At rate zero nothing leaves once the bucket is
    /// empty: the result is then the largest instant.
    pub(crate) fn departure(&mut self, earliest: Instant, size: Bytes) -> Instant {
        self.fill(earliest.max(self.updated));
        let cost = tokens(size);
        if self.tokens >= cost {
            self.tokens -= cost;
        } else if self.rate == 0 {
            self.updated = Instant::from_ns(u64::MAX);
        } else {
            let missing = cost - self.tokens;
            let wait = missing.div_ceil(self.rate);
            // Excess tokens from the last nanosecond stay in the bucket, however small it is.
            self.tokens = wait * self.rate - missing;
            self.updated += Duration::from_ns(wait as i64);
        }
        self.updated
    }

    /// Returns whether a packet that arrives at `now` finds enough tokens, and takes them if so.
    pub fn conforms(&mut self, now: Instant, size: Bytes) -> bool {
        self.fill(now.max(self.updated));
        let cost = tokens(size);
        let conforms = self.tokens >= cost;
        if conforms {
            self.tokens -= cost;
        }
        conforms
    }

    /// Adds the tokens that arrive until `now`, which must not precede `updated`.
    fn fill(&mut self, now: Instant) {
        let arrived = self.rate.saturating_mul(now.ns() - self.updated.ns());
        self.updated = now;
        // The remainder of the last wait may exceed a tiny bucket and is kept.
        self.tokens = self.tokens.saturating_add(arrived).min(self.capacity.max(self.tokens));
    }
}

/// A shaper of one token bucket, or of two: the second limits the rate at which bursts leave.
#[derive(Clone, Debug)]
pub struct Shaper {
    bucket: TokenBucket,
    peak: Option<Box<TokenBucket>>,
}

impl Shaper {
    /// Creates a shaper whose bucket of `burst` wire bytes is full. `peak` is the rate and size of the second
    /// bucket; packets must fit into both.
    pub fn new(rate: Rate, burst: Bytes, peak: Option<(Rate, Bytes)>) -> Shaper {
        let peak = peak.map(|(rate, burst)| Box::new(TokenBucket::new(rate, burst)));
        Shaper { bucket: TokenBucket::new(rate, burst), peak }
    }

    /// Returns when a packet that is ready at `earliest` may leave, and takes its tokens from both buckets.
    ///
    /// Packets leave in the order of the calls.
    pub fn departure(&mut self, earliest: Instant, size: Bytes) -> Instant {
        match &mut self.peak {
            None => self.bucket.departure(earliest, size),
            Some(peak) => leave_both([&mut self.bucket, peak], earliest, size),
        }
    }
}

/// Takes the tokens for a packet from two buckets, once both hold enough.
fn leave_both(buckets: [&mut TokenBucket; 2], earliest: Instant, size: Bytes) -> Instant {
    let paid = buckets.each_ref().map(|bucket| {
        let mut paid = TokenBucket::clone(bucket);
        (paid.departure(earliest, size), paid)
    });
    let leaves = paid[0].0.max(paid[1].0);
    for (bucket, (ready, paid)) in buckets.into_iter().zip(paid) {
        if ready == leaves {
            // What arrived beyond the tokens needed stays in the bucket, as for one bucket alone.
            *bucket = paid;
        } else {
            bucket.departure(leaves, size);
        }
    }
    leaves
}

/// Returns the tokens that `size` costs, saturating above 2.3 GB.
fn tokens(size: Bytes) -> u64 {
    size.get().saturating_mul(TOKENS_PER_BYTE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_bucket_passes_a_burst_and_then_keeps_the_rate() {
        let mut bucket = TokenBucket::new(Rate::from_bps(8_000_000), Bytes::new(3000));
        let size = Bytes::new(1500);
        let start = Instant::from_ns(1_000_000_000);
        let leave: Vec<i64> = (0..5).map(|_| (bucket.departure(start, size) - start).ns()).collect();
        assert_eq!(leave, [0, 0, 1_500_000, 3_000_000, 4_500_000]);
        // Idle long enough to fill up again, but the bucket holds no more than the burst.
        let later = start + Duration::from_ms(60_000);
        let leave: Vec<i64> = (0..3).map(|_| (bucket.departure(later, size) - later).ns()).collect();
        assert_eq!(leave, [0, 0, 1_500_000]);
    }

    #[test]
    fn a_policer_admits_burst_and_rate() {
        let mut bucket = TokenBucket::new(Rate::from_bps(8_000_000), Bytes::new(3000));
        let size = Bytes::new(1500);
        let at = Instant::from_ns;
        let admitted = [0, 0, 0, 1_499_999, 1_500_000, 2_000_000].map(|ns| bucket.conforms(at(ns), size));
        assert_eq!(admitted, [true, true, false, false, true, false]);
    }

    #[test]
    fn a_peak_rate_spreads_the_burst() {
        // 8 Mb/s with a bucket of three packets, which leave at 24 Mb/s: 0.5 ms apart.
        let peak = Some((Rate::from_bps(24_000_000), Bytes::new(1500)));
        let mut shaper = Shaper::new(Rate::from_bps(8_000_000), Bytes::new(4500), peak);
        let size = Bytes::new(1500);
        let start = Instant::from_ns(1_000_000_000);
        let leave: Vec<i64> = (0..7).map(|_| (shaper.departure(start, size) - start).ns()).collect();
        // The bucket fills during the burst: the fourth packet still finds one packet's worth of tokens.
        assert_eq!(leave, [0, 500_000, 1_000_000, 1_500_000, 3_000_000, 4_500_000, 6_000_000]);
    }

    #[test]
    fn a_bucket_without_rate_passes_its_burst_only() {
        let mut bucket = TokenBucket::new(Rate::ZERO, Bytes::new(3000));
        assert_eq!(bucket.departure(Instant::from_ns(5), Bytes::new(3000)), Instant::from_ns(5));
        assert_eq!(bucket.departure(Instant::from_ns(5), Bytes::new(1)), Instant::from_ns(u64::MAX));
    }

    proptest! {
        /// Under backlog, every departure is the first nanosecond at which burst and rate
        /// cover all bytes so far.
        #[test]
        fn departures_are_exact(
            rate in 1_000_u64..100_000_000_000,
            burst in 0_u64..1_000_000,
            sizes in prop::collection::vec(1_u64..10_000, 1..500),
        ) {
            let mut bucket = TokenBucket::new(Rate::from_bps(rate), Bytes::new(burst));
            let mut total = 0_u128;
            for size in sizes {
                total += u128::from(size);
                let owed = (total * 8).saturating_sub(u128::from(burst) * 8) * 1_000_000_000;
                let expected = owed.div_ceil(u128::from(rate));
                let left = bucket.departure(Instant::ZERO, Bytes::new(size));
                prop_assert_eq!(u128::from(left.ns()), expected);
            }
        }

        /// Both buckets bound what leaves, and nothing waits longer than they demand.
        #[test]
        fn departures_obey_both_buckets(
            rate in 1_000_000_u64..1_000_000_000,
            above in 1.1_f64..20.0,
            burst in 1_500_u64..30_000,
            packets in prop::collection::vec((0_u64..1_000_000, 64_u64..1_500), 1..300),
        ) {
            let peak = (rate as f64 * above) as u64;
            let mut shaper = Shaper::new(
                Rate::from_bps(rate), Bytes::new(burst), Some((Rate::from_bps(peak), Bytes::new(1_500))),
            );
            let (mut now, mut last) = (0, 0_u64);
            // Tokens of both buckets when the last packet left.
            let mut levels = [(rate, burst), (peak, 1_500)]
                .map(|(rate, size)| (u128::from(rate), u128::from(size) * 8_000_000_000, 0, 0));
            for level in &mut levels {
                level.2 = level.1;
            }
            for (gap, size) in packets {
                now += gap;
                let left = shaper.departure(Instant::from_ns(now), Bytes::new(size)).ns();
                prop_assert!(left >= now.max(last));
                let cost = u128::from(size) * 8_000_000_000;
                let mut early = left > now.max(last);
                for (rate, full, tokens, at) in &mut levels {
                    let since = u128::from(left - *at);
                    let before = *tokens + *rate * since.saturating_sub(1);
                    // A nanosecond earlier, one of the two would not have had enough.
                    early &= before >= cost;
                    *tokens = (*tokens + *rate * since).min(*full);
                    prop_assert!(*tokens >= cost);
                    *tokens = (*tokens - cost).min(*full);
                    *at = left;
                }
                prop_assert!(!early, "left at {left}, later than both buckets demand");
                last = left;
            }
        }

        /// In any stretch of time a policer admits at most what burst and rate allow, and at least what a
        /// greedy one could.
        #[test]
        fn a_policer_is_exact(
            rate in 1_000_u64..10_000_000_000,
            burst in 1_500_u64..100_000,
            packets in prop::collection::vec((0_u64..1_000_000, 1_u64..1_500), 1..500),
        ) {
            let mut bucket = TokenBucket::new(Rate::from_bps(rate), Bytes::new(burst));
            let full = u128::from(burst) * 8_000_000_000;
            let (mut now, mut tokens) = (0, full);
            for (gap, size) in packets {
                now += gap;
                tokens = full.min(tokens + u128::from(rate) * u128::from(gap));
                let cost = u128::from(size) * 8_000_000_000;
                let conforms = bucket.conforms(Instant::from_ns(now), Bytes::new(size));
                prop_assert_eq!(conforms, tokens >= cost);
                tokens -= if conforms { cost } else { 0 };
            }
        }
    }
}

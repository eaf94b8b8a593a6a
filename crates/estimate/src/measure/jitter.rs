//! Delay variation without queueing, as a radio link, a virtual machine or a scheduler
//! adds it to every packet.
//!
//! Widely spaced packets show it before streams do. A queue is often empty, so its delays cluster near the
//! minimum; jitter spreads them evenly over its span. Its effect on a stream follows from the span: where
//! packets keep their order, each arrives no earlier than all packets before it. With gaps of g and a span of
//! J, the delay is below J by a root mean square of sqrt(2 g J), with a Rayleigh distribution.

use std::f64::consts::PI;

use crate::stream::{Arrival, StreamRecord};
use headway_units::{Bytes, Duration, Rate};

/// Number of delays needed to determine the span; two start-up streams provide them.
const ENOUGH: usize = 16;
/// The median of evenly spread delays exceeds this share of their span ...
const MIDDLE: f64 = 0.35;
/// ... and less than the second share of them lies within the first share of the span; of a
/// queue's delays, more do.
const NEAR_MINIMUM: (f64, f64) = (0.05, 0.2);
/// A smaller span is the noise of hosts and timestamps.
const MIN_SPAN: Duration = Duration::from_us(40);

/// What streams and trains can outlast: a span of half the duration of the longest streams on such paths, in
/// which no more bytes pass than most of the largest trains have.
const MOST: (Duration, Bytes) = (Duration::from_ms(15), Bytes::new(120_000));

/// Squares of the jumps from delay to delay, as a multiple of those around their mean: 2 for noise, less
/// where packets keep their order, and hardly any for a queue that grows or drains.
const WHITE: f64 = 1.2;

/// Returns whether the delays in the slower half of a start-up stream are noise rather than those of a queue.
pub(super) fn is_white(record: &StreamRecord) -> bool {
    let slower = record.arrivals[..record.arrivals.len() / 2].iter();
    let delays: Vec<f64> = slower.filter_map(|one| Some(one.one_way_delay()?.secs_f64())).collect();
    let mean = delays.iter().sum::<f64>() / delays.len().max(1) as f64;
    let around: f64 = delays.iter().map(|delay| (delay - mean).powi(2)).sum();
    let jumps: f64 = delays.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    jumps > WHITE * around
}

/// So many delays tell jitter from bursts of others for sure, if they span hardly more than the first ones
/// that showed it: a queue gets longer the more is sent. Range 32 to 128 and 1.2 to 2: each start-up
/// stream brings some ten.
const CERTAIN: usize = 64;
const STEADY: f64 = 1.3;
/// A longer span is that of a queue which bursts fill. Range 50 to 100 ms: radio links delay single
/// packets by up to 50 ms.
const LARGEST: Duration = Duration::from_ms(60);

/// A shorter span may be that of a receiver that coalesces interrupts, which streams see
/// through. Range 0.5 to 2 ms.
const INTERRUPTS: Duration = Duration::from_ms(1);

/// The delays of start-up streams.
#[derive(Clone, Debug, Default)]
pub(super) struct Jitter {
    /// Delays above the minimum of packets of the same size.
    above: Vec<Duration>,
    /// The latest packet size, and the delays of packets of that size.
    packet: Bytes,
    delays: Vec<Duration>,
    overtaking: bool,
    /// The first span that was significant.
    first: Option<Duration>,
}

/// Significant jitter of a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    /// The largest delay added to a packet.
    pub(super) most: Duration,
    /// Whether packets overtake each other.
    pub(super) overtaking: bool,
    /// Whether no queue can have caused it.
    pub(super) is_certain: bool,
}

/// The mean and variance of the delay that jitter adds to packets of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Added {
    /// Mean in seconds.
    pub(super) mean: f64,
    /// Variance in square seconds.
    pub(super) variance: f64,
}

impl Jitter {
    /// Adds the slower half of a start-up stream that built no queue; `overtaking` tells whether packets
    /// overtook others.
    pub(super) fn observe(&mut self, record: &StreamRecord, overtaking: bool) {
        if record.packet != self.packet {
            let done = std::mem::take(&mut self.delays);
            self.above.extend(above_least(&done));
            self.packet = record.packet;
        }
        let slower = &record.arrivals[..record.arrivals.len() / 2];
        self.delays.extend(slower.iter().filter_map(Arrival::one_way_delay));
        self.overtaking |= overtaking;
        self.first = self.first.or_else(|| Some(self.span()?.most));
    }

    /// Returns the span, if the delays vary in a way that a queue does not explain.
    pub(super) fn span(&self) -> Option<Span> {
        let mut above: Vec<Duration> = above_least(&self.delays).chain(self.above.iter().copied()).collect();
        if above.len() < ENOUGH {
            return None;
        }
        above.sort_unstable();
        let most = *above.last()?;
        let near = above.partition_point(|delay| *delay <= most.scale(NEAR_MINIMUM.0));
        let even = above[above.len() / 2] > most.scale(MIDDLE)
            && (near as f64) < NEAR_MINIMUM.1 * above.len() as f64;
        (even && most > MIN_SPAN).then_some(Span {
            most,
            overtaking: self.overtaking,
            is_certain: above.len() >= CERTAIN
                && self.first.is_some_and(|first| most <= first.scale(STEADY).min(LARGEST)),
        })
    }
}

impl Span {
    /// Returns whether streams can outlast it, or it may be none, on a path with this much
    /// available bandwidth.
    pub(super) fn is_bearable(&self, available: Rate) -> bool {
        let is_known = self.is_certain && available > Rate::ZERO && self.most >= INTERRUPTS;
        !is_known || self.most <= MOST.0 && available.bytes_in(self.most) <= MOST.1
    }

    /// Returns the delay that jitter adds to packets this far apart.
    pub(super) fn added(&self, gap: Duration) -> Added {
        let (span, gap) = (self.most.secs_f64(), gap.secs_f64());
        let even = Added { mean: span / 2.0, variance: span * span / 12.0 };
        if self.overtaking {
            // After sorting, about as many packets have arrived at any time as would have without jitter.
            return Added { variance: even.variance.min(gap * span / 6.0), ..even };
        }
        let below = (PI / 2.0 * gap * span).sqrt();
        Added {
            mean: even.mean.max(span - below),
            variance: even.variance.min((2.0 - PI / 2.0) * gap * span),
        }
    }
}

fn above_least(delays: &[Duration]) -> impl Iterator<Item = Duration> + use<'_> {
    let least = delays.iter().min().copied().unwrap_or_default();
    delays.iter().map(move |delay| *delay - least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use headway_units::Instant;

    /// Returns the slower half of 34 packets, 10 ms apart and with these delays in microseconds.
    fn record(delays: impl Iterator<Item = u64>) -> StreamRecord {
        let arrivals: Vec<Arrival> = (0..34)
            .zip(delays)
            .map(|(index, delay)| Arrival {
                index,
                size: Bytes::new(500),
                sent: Instant::from_ns(u64::from(index) * 10_000_000),
                received: Some(Instant::from_ns(u64::from(index) * 10_000_000 + delay * 1_000)),
            })
            .collect();
        let intended = vec![Duration::from_ms(10); arrivals.len() - 1];
        StreamRecord { id: 0, packet: Bytes::new(500), average: Rate::from_mbps(0.4), intended, arrivals }
    }

    fn span(delays: impl Iterator<Item = u64>) -> Option<Span> {
        let mut jitter = Jitter::default();
        jitter.observe(&record(delays), false);
        jitter.span()
    }

    #[test]
    fn delays_that_are_spread_evenly_are_jitter_and_a_queue_that_is_often_empty_is_none() {
        let even = span((0..34).map(|index| 5_000 + index * 619 % 1_000)).expect("jitter");
        assert!((900..1_000).contains(&(even.most.ns() / 1_000)), "{even:?}");
        assert_eq!(span((0..34).map(|index| 5_000 + if index % 3 == 0 { 600 + index * 7 } else { 0 })), None);
        assert_eq!(span((0..34).map(|index| 5_000 + index * 619 % 10)), None, "the noise of stamps");
        assert_eq!(span((0..20).map(|index| 5_000 + index * 619 % 1_000)), None, "too few");
    }

    #[test]
    fn packets_in_order_wait_for_those_before_them() {
        let span = Span { most: Duration::from_ms(1), overtaking: false, is_certain: true };
        let gap = Duration::from_us(10);
        // Simulates the definition: each packet arrives when it would alone, or together
        // with the one before it.
        let (mut state, mut latest, mut delays) = (1_u64, 0.0_f64, Vec::new());
        for number in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let sent = f64::from(number) * 10e-6;
            latest = latest.max(sent + 1e-3 * (state >> 11) as f64 / (1_u64 << 53) as f64);
            delays.push(latest - sent);
        }
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        let variance = delays.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>() / delays.len() as f64;
        let added = span.added(gap);
        assert!((added.mean / mean - 1.0).abs() < 0.02, "{added:?}, not {mean}");
        assert!((added.variance / variance - 1.0).abs() < 0.15, "{added:?}, not {variance}");
        // Packets far apart do not wait for each other.
        let alone = span.added(Duration::from_ms(5));
        assert_eq!((alone.mean, alone.variance), (0.5e-3, 1e-6 / 12.0));
    }
}

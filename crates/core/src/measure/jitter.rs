//! How much delays vary where nothing queues: what a radio link, a virtual machine or a scheduler adds to every packet.
//!
//! Delays of packets far apart tell it before streams do. A queue is often empty, and its delays lie mostly near the least; jitter spreads them
//! evenly up to its span. What it does to a stream follows from that. Where packets keep their order, each arrives no earlier than all before it, and
//! with gaps of g and a span of J the delay lies below J by sqrt(2 g J) in the mean of squares: a Rayleigh distribution.

use std::f64::consts::PI;

use crate::stream::{Arrival, StreamRecord};
use crate::units::{Bytes, Duration};

/// Delays from which on a span is known: two start-up streams have them.
const ENOUGH: usize = 16;
/// The middle of evenly spread delays lies above this share of their span ...
const MIDDLE: f64 = 0.35;
/// ... and fewer than this share lie within so much of the least; of a queue's delays, more do.
const NEAR_LEAST: (f64, f64) = (0.05, 0.2);
/// Less is the noise of hosts and stamps.
const LEAST: Duration = Duration::from_us(40);

/// What start-up streams showed of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Jitter {
    /// Delays above the least of packets of the same size.
    above: Vec<Duration>,
    /// The newest size, and the delays of packets of it.
    packet: Bytes,
    delays: Vec<Duration>,
    overtaking: bool,
}

/// Jitter of a path on which it matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    /// The most that a packet is delayed by.
    pub(super) most: Duration,
    /// Packets overtake each other.
    pub(super) overtaking: bool,
}

/// The mean and the variance of what jitter adds to the delays of a stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Added {
    /// Mean in seconds.
    pub(super) mean: f64,
    /// Variance in square seconds.
    pub(super) variance: f64,
}

impl Jitter {
    /// Takes in the slower half of a start-up stream that met no queue of its own; `overtaking` when packets of it overtook others.
    pub(super) fn observe(&mut self, record: &StreamRecord, overtaking: bool) {
        if record.packet != self.packet {
            let done = std::mem::take(&mut self.delays);
            self.above.extend(above_least(&done));
            self.packet = record.packet;
        }
        let slower = &record.arrivals[..record.arrivals.len() / 2];
        self.delays.extend(slower.iter().filter_map(Arrival::one_way_delay));
        self.overtaking |= overtaking;
    }

    /// The span, if delays vary and not as a queue's do.
    pub(super) fn span(&self) -> Option<Span> {
        let mut above: Vec<Duration> = above_least(&self.delays).chain(self.above.iter().copied()).collect();
        if above.len() < ENOUGH {
            return None;
        }
        above.sort_unstable();
        let most = *above.last()?;
        let near = above.partition_point(|delay| *delay <= most.scale(NEAR_LEAST.0));
        let even =
            above[above.len() / 2] > most.scale(MIDDLE) && (near as f64) < NEAR_LEAST.1 * above.len() as f64;
        (even && most > LEAST).then_some(Span { most, overtaking: self.overtaking })
    }
}

impl Span {
    /// What it adds to packets that are this far apart.
    pub(super) fn added(&self, gap: Duration) -> Added {
        let (span, gap) = (self.most.secs_f64(), gap.secs_f64());
        let even = Added { mean: span / 2.0, variance: span * span / 12.0 };
        if self.overtaking {
            // Put in order: as many have arrived as there would have without jitter, more or less.
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
    use crate::units::{Instant, Rate};

    /// The slower half of 34 packets, 10 ms apart and delayed by these microseconds.
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
        let span = Span { most: Duration::from_ms(1), overtaking: false };
        let gap = Duration::from_us(10);
        // A walk through the definition: each arrives when it would alone, or with the one before it.
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
        // Far apart they do not.
        let alone = span.added(Duration::from_ms(5));
        assert_eq!((alone.mean, alone.variance), (0.5e-3, 1e-6 / 12.0));
    }
}

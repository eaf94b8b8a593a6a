//! Interrupt coalescing of a receiving network card (NIC).

use headway_core::{Duration, Instant};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Delay from a packet's arrival to its interrupt when no other interrupt came recently (rapid 2.15).
const REACTION: Duration = Duration::from_us(1);
/// Random variation of the interval between interrupts, as a share of it. Without it the card phase-locks with regular
/// packet spacing (rapid 2.15).
const JITTER: f64 = 0.2;

/// Delays packets until the interrupts of a card that keeps at least `interval` between two interrupts.
#[derive(Clone, Debug)]
pub struct Coalescer {
    interval: Duration,
    interrupt: Instant,
    rng: Pcg64Mcg,
}

impl Coalescer {
    /// Creates a card with the given minimum time between interrupts.
    pub fn new(interval: Duration, seed: u64) -> Coalescer {
        Coalescer { interval, interrupt: Instant::ZERO, rng: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// Returns when the card hands up a packet that arrives at `arrival`; arrivals must not decrease.
    ///
    /// rapid 2.15: the interrupt fires at max(arrival + 1 us, last interrupt + T (1 + U(-0.2, 0.2))) and takes all
    /// packets that have arrived by then.
    pub fn deliver(&mut self, arrival: Instant) -> Instant {
        if arrival > self.interrupt {
            let factor = 1.0 + self.rng.random_range(-JITTER..JITTER);
            let earliest = self.interrupt + self.interval.scale(factor);
            self.interrupt = earliest.max(arrival + REACTION);
        }
        self.interrupt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_arrivals_become_spikes_and_dips() {
        let interval = Duration::from_us(120);
        let mut card = Coalescer::new(interval, 1);
        let out: Vec<Instant> = (0..1000).map(|k| card.deliver(Instant::from_ns(k * 12_304 + 1))).collect();
        let gaps: Vec<i64> = out.windows(2).map(|w| (w[1] - w[0]).ns()).collect();
        assert!(gaps.iter().all(|&gap| gap == 0 || (96_000..=144_000).contains(&gap)), "{gaps:?}");
        let spikes = gaps.iter().filter(|&&gap| gap > 0).count();
        // 12.3 ms of packets at about one interrupt per 120 us.
        assert!((95..=110).contains(&spikes), "{spikes}");
        assert!(out.iter().enumerate().all(|(k, t)| *t >= Instant::from_ns(k as u64 * 12_304)));
    }

    #[test]
    fn a_lone_packet_waits_one_microsecond() {
        let mut card = Coalescer::new(Duration::from_us(120), 1);
        assert_eq!(card.deliver(Instant::from_ns(1_000_000)), Instant::from_ns(1_001_000));
        assert_eq!(card.deliver(Instant::from_ns(2_000_000)), Instant::from_ns(2_001_000));
    }
}

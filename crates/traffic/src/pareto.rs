//! Renewal processes with Pareto gaps, and regular silence of all sources at once.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headway_units::{Bytes, Duration, Rate};
use rand_pcg::Pcg64Mcg;

use super::Emission;
use super::distribution::{Pareto, uniform};

/// Times at which nothing is sent: the first part of every period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Silence {
    /// Length of the silent part.
    pub(super) silence: Duration,
    /// Length of the period, longer than the silent part.
    pub(super) period: Duration,
}

impl Silence {
    /// Returns the share of time that is not silent.
    fn active(self) -> f64 {
        1.0 - self.silence.ns() as f64 / self.period.ns() as f64
    }

    /// Returns the time at which `active` nanoseconds outside of silent parts have passed.
    fn time(self, active: f64) -> f64 {
        let (silence, part) = (self.silence.ns() as f64, (self.period - self.silence).ns() as f64);
        active + silence * ((active / part).floor() + 1.0)
    }
}

/// A group of sources with Pareto gaps between their packets.
#[derive(Clone, Debug)]
pub(super) struct Renewal {
    gap: Pareto,
    /// Smallest and largest packet; sizes are uniform between them.
    sizes: [u64; 2],
    silence: Option<Silence>,
    /// The next packet of each source, earliest first, in time that is not silent.
    next: BinaryHeap<Reverse<(Duration, usize)>>,
    rng: Pcg64Mcg,
}

impl Renewal {
    /// Creates sources in equilibrium that together send `rate`, positive, in packets of these sizes.
    pub(super) fn new(
        sources: u32,
        rate: Rate,
        sizes: [Bytes; 2],
        shape: f64,
        silence: Option<Silence>,
        mut rng: Pcg64Mcg,
    ) -> Renewal {
        let sizes = sizes.map(Bytes::get);
        let mean_size = (sizes[0] + sizes[1]) as f64 / 2.0;
        let active = silence.map_or(1.0, Silence::active);
        let mean = mean_size * 8e9 * f64::from(sources) / rate.bps_f64() * active;
        let gap = Pareto::with_mean(mean, shape);
        let next = (0..sources as usize)
            .map(|source| Reverse((Duration::from_ns(gap.residual(&mut rng) as i64), source)))
            .collect();
        Renewal { gap, sizes, silence, next, rng }
    }

    pub(super) fn next(&mut self) -> Option<Emission> {
        let Reverse((at, source)) = *self.next.peek()?;
        let gap = Duration::from_ns(self.gap.sample(&mut self.rng) as i64);
        if let Some(mut first) = self.next.peek_mut() {
            *first = Reverse((at + gap, source));
        }
        let at = self.silence.map_or(at, |silence| Duration::from_ns(silence.time(at.ns() as f64) as i64));
        Some(Emission { at, size: self.size() })
    }

    fn size(&mut self) -> Bytes {
        let [least, most] = self.sizes;
        if least >= most {
            return Bytes::new(most);
        }
        // The draw is from (0, 1].
        let above = (uniform(&mut self.rng) * (most - least + 1) as f64).ceil() as u64 - 1;
        Bytes::new(least + above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::generator;

    const MS: fn(i64) -> Duration = Duration::from_ms;

    fn emissions(sizes: [u64; 2], silence: Option<Silence>, seconds: i64) -> Vec<Emission> {
        let rng = generator(1, "pareto", 0);
        let rate = Rate::from_mbps(200.0);
        let mut group = Renewal::new(16, rate, sizes.map(Bytes::new), 1.9, silence, rng);
        std::iter::from_fn(|| group.next()).take_while(|emission| emission.at < MS(1_000 * seconds)).collect()
    }

    fn mbps(emissions: &[Emission], seconds: f64) -> f64 {
        emissions.iter().map(|emission| emission.size.get() as f64).sum::<f64>() * 8e-6 / seconds
    }

    #[test]
    fn rate_and_sizes_are_those_asked_for() {
        let packets = emissions([40, 1_500], None, 100);
        assert!((mbps(&packets, 100.0) / 200.0 - 1.0).abs() < 0.02, "{}", mbps(&packets, 100.0));
        let sizes = || packets.iter().map(|packet| packet.size.get());
        assert_eq!((sizes().min(), sizes().max()), (Some(40), Some(1_500)));
        let mean = sizes().sum::<u64>() as f64 / packets.len() as f64;
        assert!((mean / 770.0 - 1.0).abs() < 0.005, "{mean}");
    }

    #[test]
    fn a_silent_period_is_silent_and_does_not_change_the_mean_rate() {
        let silence = Silence { silence: MS(20), period: MS(100) };
        let packets = emissions([1_500, 1_500], Some(silence), 100);
        assert!(packets.iter().all(|packet| packet.at.ns() % 100_000_000 >= 20_000_000));
        assert!((mbps(&packets, 100.0) / 200.0 - 1.0).abs() < 0.02, "{}", mbps(&packets, 100.0));
    }

    #[test]
    fn gaps_of_a_single_source_are_never_below_the_smallest_of_the_distribution() {
        let rng = generator(1, "pareto", 0);
        let size = Bytes::new(1_500);
        let mut source = Renewal::new(1, Rate::from_mbps(12.0), [size, size], 1.9, None, rng);
        let mut at: Vec<i64> =
            (0..10_000).filter_map(|_| source.next()).map(|packet| packet.at.ns()).collect();
        at.remove(0);
        let least = at.windows(2).map(|pair| pair[1] - pair[0]).min().expect("many");
        // The mean is 1 ms, the smallest gap 0.9 / 1.9 of it.
        assert!((473_684..474_500).contains(&least), "{least}");
    }
}

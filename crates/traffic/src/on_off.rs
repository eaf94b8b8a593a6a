//! On-off sources with Pareto times: many of them together are bursty at every time scale.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headway_units::{Bytes, Duration, Rate};
use rand_pcg::Pcg64Mcg;

use super::Emission;
use super::distribution::{Pareto, uniform};

/// A group of sources, each of which sends at its peak rate while it is on.
#[derive(Clone, Debug)]
pub(super) struct OnOff {
    size: Bytes,
    /// Time between packets of a source that is on, in nanoseconds.
    gap: f64,
    on: Pareto,
    off: Pareto,
    /// The next send time of each source, earliest first.
    next: BinaryHeap<Reverse<(Duration, usize)>>,
    /// How long each source stays on after its next packet, in nanoseconds.
    left: Vec<f64>,
    rng: Pcg64Mcg,
}

impl OnOff {
    /// Creates sources in equilibrium; `peak` must be positive.
    pub(super) fn new(
        sources: u32,
        peak: Rate,
        size: Bytes,
        on: Pareto,
        off: Pareto,
        rng: Pcg64Mcg,
    ) -> OnOff {
        let gap = size.get() as f64 * 8e9 / peak.bps_f64();
        let (next, left) = (BinaryHeap::with_capacity(sources as usize), vec![0.0; sources as usize]);
        let mut group = OnOff { size, gap, on, off, next, left, rng };
        let on_part = group.on.mean() / (group.on.mean() + group.off.mean());
        for source in 0..sources as usize {
            let mut at = 0.0;
            group.left[source] = if uniform(&mut group.rng) <= on_part {
                group.on.residual(&mut group.rng)
            } else {
                at = group.off.residual(&mut group.rng);
                group.on.sample(&mut group.rng)
            };
            let phase = group.gap * uniform(&mut group.rng);
            at += group.step(source, phase);
            group.next.push(Reverse((Duration::from_ns(at as i64), source)));
        }
        group
    }

    /// Returns the time until `source` has been on for another `need` ns. Gaps between packets count on-time
    /// only, so on-periods are divided into gaps without rounding.
    fn step(&mut self, source: usize, mut need: f64) -> f64 {
        let mut time = 0.0;
        while need > self.left[source] {
            need -= self.left[source];
            time += self.left[source] + self.off.sample(&mut self.rng);
            self.left[source] = self.on.sample(&mut self.rng);
        }
        self.left[source] -= need;
        time + need
    }

    pub(super) fn next(&mut self) -> Option<Emission> {
        let Reverse((at, source)) = *self.next.peek()?;
        let time = self.step(source, self.gap);
        if let Some(mut first) = self.next.peek_mut() {
            *first = Reverse((at + Duration::from_ns(time as i64), source));
        }
        Some(Emission { at, size: self.size })
    }
}

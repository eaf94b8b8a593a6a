//! The streams of an experiment: how their rates lie.

use headway_estimate::{Schedule, Shape};
use headway_units::{Bytes, Rate};
use serde::Deserialize;

/// The rates of a multi-rate stream.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamShape {
    /// Number of rates.
    pub(crate) rates: u32,
    /// Packets per rate.
    pub(crate) packets: u32,
    /// Difference between the highest and the lowest rate, as a fraction.
    pub(crate) range: f64,
    /// Spacing of the rates between the two ends.
    #[serde(default)]
    pub(crate) spread: Spread,
}

/// The spacing of the rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Spread {
    /// Equal ratios (rapid 2.2).
    #[default]
    Geometric,
    /// Equal differences (the BASS paper).
    Uniform,
}

impl StreamShape {
    /// Returns the schedule of a stream of this shape.
    pub(crate) fn schedule(&self, average: Rate, packet: Bytes) -> Schedule {
        match self.spread {
            Spread::Geometric => {
                Schedule::p_stream(Shape::with_range(self.rates, self.packets, self.range), average, packet)
            }
            Spread::Uniform => self.uniform(average, packet),
        }
    }

    /// Returns a schedule with rates from `1 - range / 2` to `1 + range / 2` times the
    /// average, in equal steps.
    fn uniform(&self, average: Rate, packet: Bytes) -> Schedule {
        let steps = f64::from(self.rates.saturating_sub(1).max(1));
        let rate = |i: u32| average.scale(1.0 + self.range * (f64::from(i) / steps - 0.5));
        let gaps = (0..self.rates)
            .flat_map(|i| std::iter::repeat_n(rate(i).time_for(packet), self.packets as usize))
            .collect();
        Schedule { packet, gaps, average }
    }
}

//! Tables of windows.

use std::io::Write;

use csv::Writer;
use headway_learned::window::{self, Statistic, VALUES};

use super::numbered;
use crate::windows::{Run, Window};

/// The unit of densities that is the same on every path, in bits per second (wan 2.13).
const GIGABIT: f64 = 1e9;
/// Width of the kernels over the standard deviation of the samples (wan 2.13).
const BANDWIDTH: f64 = 0.2;

/// Writes windows: what they are, the truth, statistics, histograms, and draws from and heights of densities.
pub struct WindowTable<W: Write> {
    out: Writer<W>,
    scratch: window::Scratch,
    values: Vec<f32>,
    row: Vec<String>,
}

/// The columns before the statistics.
const FIRST: [&str; 14] = [
    "run",
    "part",
    "rtt_ns",
    "load",
    "flow",
    "at_ns",
    "window_ns",
    "bottleneck_bps",
    "capacity_bps",
    "samples",
    "mean_bps",
    "free_bps",
    "passed",
    "good",
];

impl<W: Write> WindowTable<W> {
    /// Writes the names of the columns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(out: W) -> csv::Result<WindowTable<W>> {
        let mut out = Writer::from_writer(out);
        let mut names: Vec<String> = FIRST.map(str::to_owned).to_vec();
        for prefix in ["stat", "all_stat"] {
            names.extend(Statistic::ALL.map(|one| format!("{prefix}_{}", one.name())));
        }
        for name in ["histogram", "draw_gigabit", "draw_capacity", "height_gigabit", "height_capacity"] {
            names.extend(numbered(name, VALUES));
        }
        out.write_record(&names)?;
        Ok(WindowTable { out, scratch: window::Scratch::default(), values: Vec::new(), row: Vec::new() })
    }

    /// Writes a window of a run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&mut self, run: &Run<'_>, one: &Window) -> csv::Result<()> {
        let capacity = one.capacity.bps_f64();
        let bottleneck = run.path.capacity;
        self.row.clear();
        self.row.extend([
            run.number.to_string(),
            run.part.name().to_owned(),
            run.rtt.ns().to_string(),
            run.load.to_string(),
            one.flow.to_string(),
            one.at.ns().to_string(),
            one.length.ns().to_string(),
            bottleneck.bps().to_string(),
            one.capacity.bps().to_string(),
            one.rates.len().to_string(),
            one.mean().bps().to_string(),
            one.available.bps().to_string(),
            u8::from(one.passed).to_string(),
            u8::from(one.is_good(bottleneck)).to_string(),
        ]);
        for rates in [&one.rates, &one.samples] {
            self.row.extend(window::statistics(rates, capacity).map(|value| value.to_string()));
        }
        let WindowTable { scratch, values, row, .. } = self;
        let mut take = |values: &[f32]| row.extend(values.iter().map(f32::to_string));
        window::histogram(&one.rates, capacity, values);
        take(values);
        for unit in [GIGABIT, capacity] {
            window::density_draws(&one.samples, unit, BANDWIDTH, scratch, values);
            take(values);
        }
        for unit in [GIGABIT, capacity] {
            window::density_heights(&one.samples, unit, BANDWIDTH, scratch, values);
            take(values);
        }
        self.out.write_record(&self.row)
    }

    /// Writes what is left, and returns what was written to.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(self) -> std::io::Result<W> {
        self.out.into_inner().map_err(csv::IntoInnerError::into_error)
    }
}

//! Values drawn for the cells of a class.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::CELLS;

/// Draws the values of one cell, one property after the other.
///
/// Each range is divided into as many parts as a class has cells; which cell gets which part is drawn anew for every property
/// (Latin hypercube sampling). So few cells cover all values.
#[derive(Debug)]
pub(super) struct Draw {
    seed: u64,
    class: usize,
    place: usize,
    property: u64,
}

impl Draw {
    pub(super) fn new(seed: u64, class: usize, place: usize) -> Draw {
        Draw { seed, class, place, property: 0 }
    }

    /// A number from 0 to 1, 1 excluded.
    fn part(&mut self) -> f64 {
        self.property += 1;
        let stream = (self.seed << 16) + ((self.class as u64) << 8) + self.property;
        let mut random = Pcg64Mcg::seed_from_u64(stream);
        let mut parts: [usize; CELLS] = std::array::from_fn(|part| part);
        parts.shuffle(&mut random);
        let within: [f64; CELLS] = std::array::from_fn(|_| random.random());
        (parts[self.place] as f64 + within[self.place]) / CELLS as f64
    }

    /// One of `values`.
    pub(super) fn choose<T: Copy>(&mut self, values: &[T]) -> T {
        values[(self.part() * values.len() as f64) as usize]
    }

    /// A whole number from `low` to `high`.
    pub(super) fn whole(&mut self, low: u64, high: u64) -> u64 {
        low + (self.part() * (high - low + 1) as f64) as u64
    }

    /// A number from `low` to `high`, evenly by its logarithm, with two digits.
    pub(super) fn log(&mut self, low: f64, high: f64) -> f64 {
        let value = low * (high / low).powf(self.part());
        let digits = 10f64.powf(value.log10().floor() - 1.0);
        // Whole numbers of small digits would not be decimal fractions.
        let rounded = (value / digits).round();
        if digits < 1.0 { rounded / (1.0 / digits).round() } else { rounded * digits.round() }
    }
}

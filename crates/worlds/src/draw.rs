//! Random parameters for the members of a class: networks for comparing worlds, paths for judging methods.

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Draws the parameters of one member of a class, one property after the other.
///
/// Each range is divided into as many parts as the class has members. For each property, a random permutation
/// assigns the parts to the members (Latin hypercube sampling), so that few members cover all values.
#[derive(Debug)]
pub struct Draw {
    seed: u64,
    class: usize,
    place: usize,
    places: usize,
    property: u64,
}

impl Draw {
    /// Creates the generator for member number `place` of the `places` members of a class.
    pub fn new(seed: u64, class: usize, place: usize, places: usize) -> Draw {
        Draw { seed, class, place, places, property: 0 }
    }

    /// Returns a number from 0 to 1, exclusive.
    fn uniform(&mut self) -> f64 {
        self.property += 1;
        let stream = (self.seed << 16) + ((self.class as u64) << 8) + self.property;
        let mut random = Pcg64Mcg::seed_from_u64(stream);
        let mut parts: Vec<usize> = (0..self.places).collect();
        parts.shuffle(&mut random);
        let within: Vec<f64> = parts.iter().map(|_| random.random()).collect();
        (parts[self.place] as f64 + within[self.place]) / self.places as f64
    }

    /// Returns one of `values`.
    pub fn choose<T: Copy>(&mut self, values: &[T]) -> T {
        values[(self.uniform() * values.len() as f64) as usize]
    }

    /// Returns an integer from `low` to `high`, inclusive.
    pub fn integer(&mut self, low: u64, high: u64) -> u64 {
        low + (self.uniform() * (high - low + 1) as f64) as u64
    }

    /// Returns a number from `low` to `high`, with two decimals.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        ((low + self.uniform() * (high - low)) * 100.0).round() / 100.0
    }

    /// Returns a number from `low` to `high`, log-uniformly distributed, with two significant digits.
    pub fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        let value = low * (high / low).powf(self.uniform());
        let digits = 10f64.powf(value.log10().floor() - 1.0);
        // Multiplying by a small inexact power of ten would not yield a clean decimal fraction.
        let rounded = (value / digits).round();
        if digits < 1.0 { rounded / (1.0 / digits).round() } else { rounded * digits.round() }
    }
}

//! Computes the tables of `estimate::series` by simulation:
//! `cargo run --release --example series_table 2 FILE`, where 2 is the number of queues. The result is the
//! same on every machine with the same C library.

use headway_estimate::series::{DRIFTS, FIRST, LOWEST, SECOND, SHARES, STEP, second};
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, StandardNormal};
use rand_pcg::Pcg64Mcg;

/// Simulated transitions per density, and steps of each.
const SAMPLES: usize = 40_000;
const STEPS: usize = 40;
/// What a density of zero counts as, in samples: tails of simulations are not those of queues.
const UNSEEN: f64 = 1.2;
/// Half width of the window around a second delay, relative to it, and its minimum.
const WINDOW: (f64, f64) = (0.08, 0.12);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (Some(queues), Some(file)) = (arguments.next().and_then(|text| text.parse().ok()), arguments.next())
    else {
        eprintln!("usage: series_table QUEUES FILE");
        std::process::exit(2);
    };
    let drifts: Vec<f64> =
        (-(DRIFTS.0 as i32)..=DRIFTS.0 as i32).map(|drift| f64::from(drift) * DRIFTS.1).collect();
    let rows: Vec<(f64, f64)> =
        SHARES.iter().flat_map(|share| FIRST.iter().map(move |first| (*share, *first))).collect();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut tables: Vec<(usize, Vec<u8>)> = std::thread::scope(|scope| {
        let worker = |number: usize| {
            let (rows, drifts) = (&rows, &drifts);
            scope.spawn(move || {
                let mine = (number..rows.len()).step_by(threads);
                mine.map(|row| (row, table_row(queues, row as u64, rows[row], drifts))).collect::<Vec<_>>()
            })
        };
        let workers: Vec<_> = (0..threads).map(worker).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker that does not panic")).collect()
    });
    tables.sort_by_key(|(row, _)| *row);
    let bytes: Vec<u8> = tables.into_iter().flat_map(|(_, bytes)| bytes).collect();
    std::fs::write(&file, bytes).unwrap_or_else(|error| panic!("{file}: {error}"));
}

/// Returns the densities for one share and first delay, drift by drift.
fn table_row(queues: usize, seed: u64, (share, first): (f64, f64), drifts: &[f64]) -> Vec<u8> {
    let density = |drift: &f64| {
        // The same random numbers for all drifts keep the table smooth along them.
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mut ends: Vec<f64> =
            (0..SAMPLES).map(|_| transition(queues, share, first, *drift, &mut rng)).collect();
        ends.sort_by(f64::total_cmp);
        (0..SECOND).map(move |point| quantized(&ends, second(point)))
    };
    drifts.iter().flat_map(density).collect()
}

fn quantized(ends: &[f64], to: f64) -> u8 {
    let width = (WINDOW.0 * to).max(WINDOW.1);
    let (low, high) = ((to - width).max(0.0), to + width);
    let below = ends.partition_point(|end| *end < low);
    let inside = ends.partition_point(|end| *end <= high) - below;
    let density = (inside as f64 + UNSEEN * width) / ends.len() as f64 / (high - low);
    ((density.ln() - LOWEST) / STEP).round().clamp(0.0, 255.0) as u8
}

/// Returns the sum of the queues after one unit of time with unit variance, from a random
/// division of `first`.
fn transition(queues: usize, share: f64, first: f64, drift: f64, rng: &mut Pcg64Mcg) -> f64 {
    let parts: Vec<f64> = (0..queues).map(|_| -rng.random::<f64>().max(1e-300).ln()).collect();
    let total: f64 = parts.iter().sum();
    let mut waits: Vec<f64> = parts.iter().map(|part| first * part / total).collect();
    let step = 1.0 / STEPS as f64;
    for _ in 0..STEPS {
        let mut grown = 0.0;
        for wait in &mut waits {
            let noise: f64 = StandardNormal.sample(rng);
            let change = drift * step + step.sqrt() * noise - share * grown;
            // The lowest point of a Brownian bridge between the two ends, by which the queue is reflected.
            let bridge = -2.0 * step * rng.random::<f64>().max(1e-300).ln();
            let lowest = *wait + (change - (change * change + bridge).sqrt()) / 2.0;
            let after = *wait + change + (-lowest).max(0.0);
            grown += after - *wait;
            *wait = after;
        }
    }
    waits.iter().sum()
}

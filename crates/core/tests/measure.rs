//! Whole measurements over a modelled FIFO path with known cross traffic.

mod path;

use headway_core::measure::{Config, Measurement, Method, Step};
use headway_core::{Bytes, Duration, Instant, Rate};
use path::{Cross, Path};

const PACKET: Bytes = Bytes::new(1538);

fn config() -> Config {
    Config {
        method: Method::Response,
        packet: PACKET,
        budget: None,
        duration: None,
        rtt: Duration::from_ms(20),
        top_rate: Rate::from_bps(10_000_000_000),
    }
}

struct Outcome {
    error: f64,
    covered: bool,
    bytes: f64,
    seconds: f64,
}

fn measure(path: &mut Path, config: Config) -> Outcome {
    let start = Instant::from_ns(1_000_000_000);
    let mut now = start;
    let mut measurement = Measurement::new(config, now);
    let mut id = 0;
    loop {
        match measurement.next_step(now) {
            Step::Send(schedule) => {
                let record = path.send(id, now, &schedule);
                now = path.finished(&record) + Duration::from_ms(10);
                measurement.observe(now, &record, None);
                id += 1;
            }
            Step::Wait(time) => now += time,
            Step::Done => break,
        }
    }
    let truth = path.free_between(start, now);
    let answer = measurement.answer();
    let interval = answer.available.unwrap_or_else(|failure| panic!("{failure}: {answer:?}"));
    Outcome {
        error: (interval.rate.bps_f64() - truth.bps_f64()) / path.capacity().bps_f64(),
        covered: interval.low <= truth && interval.high.is_some_and(|high| truth <= high),
        bytes: answer.bytes.get() as f64,
        seconds: (now - start).secs_f64(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Runs a cell of ten seeds and prints its row.
fn cell(mbps: f64, load: f64, cross: Cross, coalescing: Duration) -> (f64, usize) {
    let outcomes: Vec<Outcome> = (0..10)
        .map(|seed| {
            let mut path = Path::new(Rate::from_mbps(mbps), cross, load, coalescing, seed);
            measure(&mut path, config())
        })
        .collect();
    let error = median(outcomes.iter().map(|o| o.error.abs()).collect());
    let covered = outcomes.iter().filter(|o| o.covered).count();
    println!(
        "{mbps:5} Mb/s {cross:?} {load:.1}: |error| {:.1} %, covered {covered}/10, {:.2} MB, {:.2} s",
        error * 100.0,
        median(outcomes.iter().map(|o| o.bytes / 1e6).collect()),
        median(outcomes.iter().map(|o| o.seconds).collect()),
    );
    (error, covered)
}

#[test]
fn response_is_right_within_a_tenth_of_capacity_and_its_interval_holds_the_truth() {
    let mut covered = 0;
    let mut close = 0;
    let mut cells = 0;
    for mbps in [10.0, 100.0, 500.0] {
        for load in [0.0, 0.4, 0.8] {
            for cross in [Cross::Cbr, Cross::Poisson, Cross::Bursty] {
                let (error, hit) = cell(mbps, load, cross, Duration::ZERO);
                assert!(error <= 0.12, "{mbps} Mb/s, load {load}, {cross:?}: {error}");
                close += usize::from(error <= 0.05);
                covered += hit;
                cells += 1;
            }
        }
    }
    assert!(close * 3 >= cells * 2, "only {close} of {cells} cells within 5 %");
    assert!(covered * 10 >= cells * 10 * 8, "intervals held the truth in {covered} of {} runs", cells * 10);
}

#[test]
fn response_survives_interrupt_coalescing() {
    for load in [0.0, 0.4, 0.8] {
        let (error, _) = cell(500.0, load, Cross::Poisson, Duration::from_us(120));
        assert!(error <= 0.10, "load {load}: {error}");
    }
}

#[test]
fn every_method_ends_with_an_answer() {
    for method in Method::all() {
        let mut path = Path::new(Rate::from_mbps(100.0), Cross::Poisson, 0.4, Duration::ZERO, 5);
        let outcome = measure(&mut path, Config { method, ..config() });
        println!(
            "{method:17} error {:+6.1} %, {:.2} MB, {:.2} s",
            outcome.error * 100.0,
            outcome.bytes / 1e6,
            outcome.seconds
        );
        assert!(outcome.error.abs() < 0.5, "{method}: {}", outcome.error);
    }
}

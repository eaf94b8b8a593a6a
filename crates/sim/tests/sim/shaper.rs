//! Measurements through shapers, whose token buckets let bursts pass at the preceding line's rate.

use crate::support::*;
use headway_estimate::measure::{Answer, PathKind};
use headway_sim::LinkConfig;
use headway_sim::config::Service;
use headway_sim::measurement::Measured;
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Rate};

const PACKET: u64 = 1538;

/// Measures over a link with this service and a buffer of 300 kB, loaded with `cross`; the sender's line
/// is ten times as fast.
fn measure(service: Service, rate: Rate, cross: Option<Traffic>, seed: u64) -> Measured {
    let link = LinkConfig { service, ..link(rate, Duration::from_ms(10), drop_tail(Some(300_000))) };
    measure_over(&link, rate.scale(10.0), cross, seed)
}

fn shaped(rate: Rate, burst: u64, cross: Option<Traffic>, seed: u64) -> Measured {
    measure(Service::TokenBucket { rate, burst: Bytes::new(burst), peak: None }, rate, cross, seed)
}

fn free(measured: &Measured) -> Rate {
    measured.truth.expect("a link with a rate").free
}

/// Error of the answer as a share of what was free; fails if the answer has no upper bound.
fn error(answer: &Answer, free: Rate) -> f64 {
    let interval = answer.available.expect("an answer");
    assert!(interval.high.is_some(), "at least {}", interval.low);
    interval.rate.bps_f64() / free.bps_f64() - 1.0
}

#[test]
fn the_sustained_rate_less_cross_traffic_is_found_and_the_size_of_the_bucket() {
    for (rate, burst) in [(5.0, 20_000), (40.0, 8_000), (100.0, 30_000), (100.0, 150_000), (700.0, 60_000)] {
        let rate = mbps(rate);
        for load in [0.0, 0.4] {
            let cross = Traffic::Cbr { rate: rate.scale(load), size: Bytes::new(PACKET) };
            let measured = shaped(rate, burst, (load > 0.0).then_some(cross), 1);
            let (answer, free) = (&measured.answer, free(&measured));
            let case = format!("{rate}, {burst} B, load {load}: {answer:?}");
            assert_eq!(answer.path_kind, Some(PathKind::Shaped), "{case}");
            assert!(error(answer, free).abs() < 0.03, "{case}");
            let capacity = answer.capacity.expect("a capacity");
            assert!((capacity.bps_f64() / rate.bps_f64() - 1.0).abs() < 0.01, "{case}");
            let off = answer.bucket.expect("a bucket").get().abs_diff(burst);
            assert!(off <= (burst / 5).max(2 * PACKET), "{case}");
        }
    }
}

#[test]
fn random_traffic_behind_a_bucket_is_averaged_over() {
    let rate = mbps(100.0);
    let poisson = || Traffic::Poisson { rate: rate.scale(0.4), size: Bytes::new(PACKET) };
    let answers: Vec<Measured> = (1..=9).map(|seed| shaped(rate, 30_000, Some(poisson()), seed)).collect();
    let mut errors: Vec<f64> =
        answers.iter().map(|measured| error(&measured.answer, free(measured))).collect();
    errors.sort_by(f64::total_cmp);
    assert!(errors[4].abs() < 0.05, "{errors:?}");
    let held = answers.iter().filter(|measured| {
        let interval = measured.answer.available.expect("an answer");
        interval.low <= free(measured) && interval.high.is_some_and(|high| free(measured) <= high)
    });
    assert!(held.count() >= 7, "{errors:?}");
}

/// All start-up streams and trains fit into the bucket.
#[test]
fn streams_that_fit_into_the_bucket_do_not_make_an_answer_of_at_least() {
    let measured = shaped(mbps(60.0), 200_000, None, 1);
    assert!(error(&measured.answer, free(&measured)).abs() < 0.05, "{:?}", measured.answer);
}

#[test]
fn a_link_without_bucket_is_no_shaper_however_it_is_loaded() {
    for (rate, load) in [(5.0, 0.0), (20.0, 0.8), (100.0, 0.4), (700.0, 0.6)] {
        for seed in 1..=3 {
            let rate = mbps(rate);
            let cross = Traffic::Poisson { rate: rate.scale(load), size: Bytes::new(PACKET) };
            let measured = measure(Service::Constant(rate), rate, (load > 0.0).then_some(cross), seed);
            assert_ne!(measured.answer.path_kind, Some(PathKind::Shaped), "{rate}, load {load}");
            assert_eq!(measured.answer.bucket, None);
        }
    }
}

#[test]
fn a_shaper_with_a_peak_rate_is_found_by_the_long_last_train() {
    // Short trains see a link of 100 Mb/s; 60 Mb/s are sustained.
    let rate = mbps(60.0);
    for seed in 1..=3 {
        let cross = Traffic::Poisson { rate: mbps(15.0), size: Bytes::new(PACKET) };
        let service = Service::TokenBucket {
            rate,
            burst: Bytes::new(100_000),
            peak: Some((mbps(100.0), Bytes::new(PACKET))),
        };
        let measured = measure(service, rate, Some(cross), seed);
        let (answer, free) = (&measured.answer, free(&measured));
        assert_eq!(answer.path_kind, Some(PathKind::Shaped), "{answer:?}");
        // The sustained rate is known only roughly; without the search the answer would be 85 Mb/s.
        assert!(error(answer, free).abs() < 0.25, "{free}: {answer:?}");
    }
}

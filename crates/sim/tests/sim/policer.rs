//! Measurements through policers, which let a burst pass and then drop what exceeds their rate.

use crate::support::*;
use headway_estimate::measure::{Interval, PathKind};
use headway_sim::LinkConfig;
use headway_sim::measurement::Measured;
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Rate};

const PACKET: u64 = 1538;

/// Measures over such a link with `cross` on it; the sender's line is four times as fast.
fn measure(link: &LinkConfig, rate: Rate, cross: Option<Traffic>, seed: u64) -> Measured {
    measure_over(link, rate.scale(4.0), cross, seed)
}

fn policed(mbps_of_link: f64, share: f64, burst: u64, load: f64, seed: u64) -> Measured {
    let (rate, limit) = (mbps(mbps_of_link), mbps(mbps_of_link * share));
    let link = link(rate, Duration::from_ms(10), drop_tail(Some(300_000)));
    let link = LinkConfig { policer: Some((limit, Bytes::new(burst))), ..link };
    let cross = Traffic::Poisson { rate: limit.scale(load), size: Bytes::new(PACKET) };
    measure(&link, rate, (load > 0.0).then_some(cross), seed)
}

fn interval(measured: &Measured) -> Interval {
    measured.answer.available.unwrap_or_else(|failure| panic!("{failure}: {:?}", measured.answer))
}

fn free(measured: &Measured) -> Rate {
    measured.truth.expect("a link with a rate").free
}

#[test]
fn the_policers_rate_and_bucket_are_found() {
    for (rate, share, burst) in [
        (10.0, 0.6, 20_000),
        (20.0, 0.25, 60_000),
        (100.0, 0.1, 150_000),
        (100.0, 0.5, 30_000),
        (500.0, 0.5, 300_000),
        (100.0, 0.8, 30_000),
    ] {
        let measured = policed(rate, share, burst, 0.0, 1);
        let (answer, free) = (interval(&measured), free(&measured));
        let case = format!("{rate} Mb/s, {share}, {burst} B: {:?}, free {free}", measured.answer);
        assert_eq!(measured.answer.path_kind, Some(PathKind::Policed), "{case}");
        assert!(answer.low <= free && answer.high.is_some_and(|high| free <= high), "{case}");
        assert!((answer.rate.bps_f64() / free.bps_f64() - 1.0).abs() < 0.04, "{case}");
        let bucket = measured.answer.bucket.expect("a bucket").get();
        assert!(bucket.abs_diff(burst) <= (burst / 5).max(2 * PACKET), "{case}");
        assert!(measured.answer.lost < 700, "{case}");
    }
}

#[test]
fn traffic_of_others_uses_tokens_too() {
    let mut held = 0;
    for seed in 1..=6 {
        let measured = policed(100.0, 0.4, 60_000, 0.4, seed);
        let (answer, free) = (interval(&measured), free(&measured));
        assert_eq!(measured.answer.path_kind, Some(PathKind::Policed), "{:?}", measured.answer);
        assert!((answer.rate.bps_f64() / free.bps_f64() - 1.0).abs() < 0.2, "{:?}", measured.answer);
        held += u32::from(answer.low <= free && answer.high.is_some_and(|high| free <= high));
    }
    assert!(held >= 5, "{held} of 6");
}

#[test]
fn random_loss_and_short_queues_are_no_policers() {
    for (number, loss) in [0.001, 0.01, 0.03, 0.05].into_iter().enumerate() {
        let rate = mbps(50.0);
        let lossy = LinkConfig { loss, ..link(rate, Duration::from_ms(10), drop_tail(Some(300_000))) };
        let short = link(rate, Duration::from_ms(10), drop_tail(Some(20 * PACKET)));
        for (link, load) in [(&lossy, 0.0), (&lossy, 0.4), (&short, 0.6)] {
            let cross = Traffic::Poisson { rate: rate.scale(load), size: Bytes::new(PACKET) };
            let measured = measure(link, rate, (load > 0.0).then_some(cross), number as u64);
            assert_ne!(measured.answer.path_kind, Some(PathKind::Policed), "loss {loss}, load {load}");
        }
    }
}

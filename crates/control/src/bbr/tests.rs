//! Facts about BBR on hand-made paths.

use super::super::RateSample;
use super::super::testing::START;
use super::*;

const MS: u64 = 1_000_000;

/// A path with an RTT of 40 ms that delivers a segment per millisecond, and a flow on it.
struct Path {
    bbr: Bbr,
    now: u64,
    delivered: u64,
    lost: u64,
}

impl Path {
    fn new() -> Path {
        Path { bbr: Bbr::new(&START), now: 40 * MS, delivered: 0, lost: 0 }
    }

    /// Acknowledges a segment that was sent `rtt` ms ago, with `per_rtt` segments delivered since.
    fn ack(&mut self, rtt: u64, per_rtt: u64, change: impl FnOnce(&mut Ack, &mut Delivery)) {
        self.now += MS;
        self.delivered += 1;
        let now = Instant::from_ns(self.now);
        let per_rtt = per_rtt.min(self.delivered);
        let rtt = Duration::from_ns((rtt * MS) as i64);
        let mut ack = super::super::testing::ack(1);
        (ack.now, ack.rtt, ack.smoothed, ack.in_flight) = (now, Some(rtt), Some(rtt), self.bbr.window - 1);
        let mut delivery = Delivery {
            delivered: self.delivered,
            at: now,
            lost: self.lost,
            losses: 0,
            flight_before: self.bbr.window,
            departure: now,
            sample: Some(RateSample {
                prior_delivered: self.delivered - per_rtt,
                delivered: per_rtt,
                interval: Some(rtt),
                app_limited: false,
                delayed: false,
            }),
        };
        change(&mut ack, &mut delivery);
        self.lost += u64::from(delivery.losses);
        delivery.lost = self.lost;
        self.bbr.on_delivery(&ack, &delivery);
    }

    /// A path with a BDP of 40 segments that has been filled, with the flow in PROBE_BW.
    fn probing_bandwidth() -> Path {
        let mut path = Path::new();
        (0..400).for_each(|_| path.ack(40, 40, |ack, _| ack.in_flight = 20));
        assert_eq!(path.bbr.mode, Mode::ProbeBandwidth);
        path
    }
}

#[test]
fn the_first_rate_is_the_window_over_the_round_trip_time_times_the_gain() {
    let mut path = Path::new();
    path.ack(40, 0, |_, _| ());
    // 10 segments per 40 ms, times 2.89, less one percent.
    let expected = 10.0 * 1448.0 / 0.04 * (739.0 / 256.0) * 0.99;
    assert!((path.bbr.pacing_rate as f64 / expected - 1.0).abs() < 1e-4, "{}", path.bbr.pacing_rate);
    let wire = path.bbr.pacing_rate().expect("it paces").bps_f64();
    assert!((wire / (expected * 8.0 * 1538.0 / 1448.0) - 1.0).abs() < 1e-4);
}

#[test]
fn startup_ends_after_three_rounds_without_growth_and_drain_when_the_flight_is_down() {
    let mut path = Path::new();
    // One round trip sets the bandwidth; three more do not raise it.
    (0..130).for_each(|_| path.ack(40, 40, |_, _| ()));
    assert_eq!(path.bbr.mode, Mode::Startup);
    (0..60).for_each(|_| path.ack(40, 40, |ack, _| ack.in_flight = 100));
    assert_eq!((path.bbr.mode, path.bbr.pacing_gain), (Mode::Drain, 88));
    // 40 segments and three bursts of two.
    assert_eq!(path.bbr.ssthresh(), 46.0);
    path.ack(40, 40, |ack, _| ack.in_flight = 47);
    assert_eq!(path.bbr.mode, Mode::Drain);
    path.ack(40, 40, |ack, _| ack.in_flight = 46);
    assert_eq!(path.bbr.mode, Mode::ProbeBandwidth);
}

#[test]
fn the_window_is_two_products_three_bursts_and_what_comes_in_lumps() {
    let path = Path::probing_bandwidth();
    let lumps = path.bbr.extra_acked();
    assert!(lumps <= 2, "{lumps}");
    let probing = u32::from(path.bbr.phase == 0) * 2;
    let even = (80 + 6 + lumps as u32).next_multiple_of(2);
    assert_eq!(path.bbr.window, even + probing);
}

#[test]
fn the_gain_cycle_has_eight_phases_of_a_round_trip() {
    let mut path = Path::probing_bandwidth();
    let mut gains = Vec::new();
    for _ in 0..8 * 41 {
        // Enough to end the phase that probes, and too much to end early the one that drains.
        path.ack(40, 40, |_, delivery| delivery.flight_before = 60);
        gains.push(path.bbr.pacing_gain);
    }
    let count = |gain| gains.iter().filter(|at| **at == gain).count();
    assert_eq!((count(320), count(192)), (41, 41));
    assert_eq!(count(256), 6 * 41);
}

#[test]
fn the_first_phase_follows_from_the_seed_and_is_never_the_one_that_gives_back() {
    let phase = |seed| {
        let mut bbr = Bbr::new(&Start { seed, ..START });
        bbr.enter_probe_bandwidth();
        bbr.phase
    };
    let phases: Vec<usize> = (0..200).map(phase).collect();
    assert!((0..8).all(|wanted| phases.contains(&wanted) == (wanted != 1)), "{phases:?}");
    assert_eq!(phases, (0..200).map(phase).collect::<Vec<_>>());
}

#[test]
fn after_ten_seconds_without_a_smaller_round_trip_it_looks_with_four_segments() {
    let mut path = Path::probing_bandwidth();
    let before = path.bbr.window;
    while path.bbr.mode == Mode::ProbeBandwidth {
        path.ack(41, 41, |ack, _| ack.in_flight = 20);
    }
    assert_eq!(path.bbr.mode, Mode::ProbeRtt);
    assert!((path.now / MS).abs_diff(10_041) <= 1, "{}", path.now);
    assert!(path.bbr.window == 4 && path.bbr.metrics().is_limiting_rate);
    let start = path.now;
    while path.bbr.mode == Mode::ProbeRtt {
        // The transport marks the samples as app-limited.
        path.ack(40, 4, |ack, delivery| {
            ack.in_flight = 3;
            delivery.sample.as_mut().expect("given").app_limited = true;
        });
    }
    assert!(((path.now - start) / MS).abs_diff(201) <= 1, "{}", path.now - start);
    assert!(path.bbr.window.abs_diff(before) <= 2, "{} after {before}", path.bbr.window);
}

#[test]
fn the_first_round_of_recovery_conserves_packets_and_its_end_restores_the_window() {
    let mut path = Path::probing_bandwidth();
    let before = path.bbr.window;
    path.bbr.on_congestion(Instant::ZERO, before, Congestion::Loss);
    path.ack(40, 40, |ack, delivery| {
        (ack.state, delivery.losses, ack.in_flight) = (RecoveryState::Recovery, 5, 30);
    });
    assert_eq!(path.bbr.window, 31);
    path.ack(40, 40, |ack, _| {
        (ack.state, ack.in_flight) = (RecoveryState::Recovery, 30);
    });
    assert_eq!(path.bbr.window, 31);
    path.ack(40, 40, |_, _| ());
    assert!(path.bbr.window.abs_diff(before) <= 2, "{} after {before}", path.bbr.window);
}

#[test]
fn a_timeout_leaves_one_segment_and_the_model() {
    let mut path = Path::probing_bandwidth();
    let (rate, before) = (path.bbr.pacing_rate, path.bbr.window);
    path.bbr.on_timeout(Instant::from_ns(path.now), before, false);
    assert_eq!(path.bbr.window, 1);
    path.ack(40, 40, |ack, _| {
        (ack.state, ack.in_flight) = (RecoveryState::Loss, 0);
    });
    assert_eq!(path.bbr.window, 4);
    path.ack(40, 40, |_, _| ());
    assert!(path.bbr.window.abs_diff(before) <= 2 && path.bbr.pacing_rate.abs_diff(rate) < rate / 3);
}

#[test]
fn samples_of_a_slow_application_count_only_when_they_are_larger() {
    let mut path = Path::probing_bandwidth();
    let known = path.bbr.bandwidth.max();
    (0..2_000).for_each(|_| {
        path.ack(40, 10, |ack, delivery| {
            ack.in_flight = 9;
            delivery.sample.as_mut().expect("given").app_limited = true;
        });
    });
    assert_eq!(path.bbr.bandwidth.max(), known);
    path.ack(40, 80, |_, delivery| delivery.sample.as_mut().expect("given").app_limited = true);
    assert!(path.bbr.bandwidth.max() > known);
}

#[test]
fn slow_flows_send_single_segments_and_fast_ones_bursts_of_a_millisecond() {
    let mut bbr = Bbr::new(&START);
    // Bursts have one segment below 1.2 Mb/s of payload; at 1 Gb/s a burst has its maximum size.
    for (rate, burst) in [(149_999, 1), (150_000, 2), (12_500_000, 8), (125_000_000, 45)] {
        bbr.pacing_rate = rate;
        assert_eq!(bbr.burst(), burst, "{rate}");
    }
}

#[test]
fn a_held_back_acknowledgement_does_not_replace_an_old_minimum() {
    let mut path = Path::probing_bandwidth();
    path.now += 11_000 * MS;
    path.ack(80, 40, |_, delivery| {
        delivery.sample = delivery.sample.map(|s| RateSample { delayed: true, ..s })
    });
    assert_eq!(path.bbr.min_rtt, Some(40_000));
    path.ack(81, 40, |_, _| ());
    assert_eq!(path.bbr.min_rtt, Some(81_000));
}

#[test]
fn the_round_trip_of_a_connection_opened_late_counts_from_then() {
    let mut path = Path::new();
    path.now = 60_000 * MS;
    path.bbr.on_open(Instant::from_ns(path.now), Duration::from_ms(40));
    path.ack(45, 1, |_, _| ());
    assert_eq!((path.bbr.mode, path.bbr.min_rtt), (Mode::Startup, Some(40_000)));
}

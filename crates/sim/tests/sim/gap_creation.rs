//! Rapid's study of gap creation (rapid 4.1) on the models: verifies the byte clock, and checks the
//! calibration of the other mechanisms' models.

use crate::support::*;
use headway_control::{FixedRate, Kind};
use headway_estimate::Excursion;
use headway_estimate::{Gaps, Schedule, Shape};
use headway_host::LineClock;
use headway_host::gap::Mechanism;
use headway_sim::config::Burst;
use headway_sim::{Network, TapEvent, TapPlace, TcpConfig};
use headway_traffic::random::generator;
use headway_units::{Bytes, Duration, Instant, Rate};
use proptest::prelude::*;
use rand::RngExt;

const LINE: Rate = Rate::from_bps(10_000_000_000);
const PACKET: Bytes = Bytes::new(9038);

fn gbps(gbps: f64) -> Rate {
    Rate::from_mbps(gbps * 1e3)
}

/// Mean, standard deviation and extremes of the errors of gaps, in microseconds.
#[derive(Debug)]
struct Errors {
    mean: f64,
    deviation: f64,
    least: f64,
    most: f64,
}

/// The errors of all gaps of all flows.
fn errors(schedules: &[Vec<Instant>], departures: &[Vec<Instant>]) -> Errors {
    let of_flow = |(schedule, departures): (&Vec<Instant>, &Vec<Instant>)| -> Vec<f64> {
        let gaps =
            |times: &[Instant]| times.windows(2).map(|pair| (pair[1] - pair[0]).us()).collect::<Vec<_>>();
        gaps(departures).iter().zip(gaps(schedule)).map(|(real, ideal)| real - ideal).collect()
    };
    let errors: Vec<f64> = schedules.iter().zip(departures).flat_map(of_flow).collect();
    let count = errors.len() as f64;
    let mean = errors.iter().sum::<f64>() / count;
    let variance = errors.iter().map(|error| (error - mean) * (error - mean)).sum::<f64>() / count;
    let (least, most) =
        errors.iter().fold((0.0f64, 0.0f64), |(least, most), error| (least.min(*error), most.max(*error)));
    Errors { mean, deviation: variance.sqrt(), least, most }
}

/// Packets at a constant rate for `seconds`; the first is scheduled for `start` (ns).
fn paced(rate: Rate, packet: Bytes, start: f64, seconds: f64) -> Vec<Instant> {
    let gap = packet.get() as f64 * 8e9 / rate.bps_f64();
    (0..(seconds * 1e9 / gap) as u64).map(|k| Instant::from_ns((start + gap * k as f64) as u64)).collect()
}

fn g1(mechanism: Mechanism, rate: f64, packet: Bytes) -> Errors {
    let schedules = [paced(gbps(rate), packet, 1e6, 2.0)];
    errors(&schedules, &mechanism.departures(LINE, packet, &schedules, 1))
}

/// The hundred rates of rapid G1, in Gb/s.
fn rates() -> impl Iterator<Item = f64> {
    (1..=100).map(|k| f64::from(k) / 10.0)
}

#[test]
fn h1_the_byte_clock_errs_by_less_than_half_a_microsecond_at_every_rate() {
    for packet in [PACKET, Bytes::new(1538)] {
        for rate in rates() {
            let errors = g1(Mechanism::ByteClock, rate, packet);
            assert!(errors.mean.abs() < 0.4 && errors.deviation < 0.5, "{rate} Gb/s: {errors:?}");
            assert!(errors.least > -0.072 && errors.most < 0.072, "{rate} Gb/s: {errors:?}");
        }
    }
}

#[test]
fn h1_busy_waiting_is_short_by_its_fraction_of_a_microsecond() {
    for rate in rates() {
        let errors = g1(Mechanism::BusyWait, rate, PACKET);
        assert!(errors.least > -2.0 && errors.most < 2.0, "{rate} Gb/s: {errors:?}");
        // At the line rate gaps cannot be too short.
        assert!(errors.mean < if rate < 10.0 { 0.0 } else { 0.001 }, "{rate} Gb/s: {errors:?}");
    }
}

#[test]
fn h1_timers_are_right_on_average_and_wrong_by_tens_of_microseconds() {
    for rate in rates() {
        let errors = g1(Mechanism::Timer, rate, PACKET);
        assert!(errors.mean.abs() < 0.1, "{rate} Gb/s: {errors:?}");
        // Near the line rate a sender that is late once stays late, and needs no timer
        // until it has caught up.
        assert!(errors.deviation > 20.0 || rate > 8.0, "{rate} Gb/s: {errors:?}");
        assert!(errors.most > 20.0 || rate > 9.9, "{rate} Gb/s: {errors:?}");
    }
}

#[test]
fn g2_a_held_timer_makes_one_long_gap_and_then_gaps_of_back_to_back_packets() {
    let schedule = paced(gbps(4.0), PACKET, 1e6, 1.0);
    let departures = Mechanism::Timer.departures(LINE, PACKET, &[schedule], 1);
    let gaps: Vec<i64> = departures[0].windows(2).map(|pair| (pair[1] - pair[0]).ns()).collect();
    let spikes: Vec<usize> = (0..gaps.len() - 4).filter(|i| gaps[*i] > 100_000).collect();
    assert!(spikes.len() > 100);
    assert!(spikes.iter().all(|i| gaps[i + 1..i + 4].iter().all(|gap| (7_230..=7_231).contains(gap))));
}

/// Sends 5000 p-streams with four rates around 7 Gb/s among 3 Gb/s of evenly spaced cross traffic.
/// Returns for each rate the share of streams for which the excursion search selects it; the second,
/// 6.6 Gb/s, is correct.
fn g4(mechanism: Mechanism) -> [f64; 4] {
    const STREAMS: usize = 5_000;
    let cross_packet = Bytes::new(1538);
    let stream = Schedule::p_stream(Shape { rates: 4, packets_per_rate: 16, step: 1.15 }, gbps(7.0), PACKET);
    let mut at = Instant::from_ns(1_000_000);
    let mut times = vec![at];
    times.extend(stream.repeated(STREAMS).gaps.iter().map(|gap| {
        at += *gap;
        at
    }));
    let departures = mechanism.departures(LINE, PACKET, &[times], 3).remove(0);

    let cross = paced(gbps(3.0), cross_packet, 1e6, 4.0);
    let mut cross = cross.iter().peekable();
    let mut bottleneck = LineClock::new(LINE);
    let mut exit = |departure: &Instant| {
        while let Some(at) = cross.next_if(|at| *at <= departure) {
            bottleneck.depart(*at, cross_packet);
        }
        bottleneck.depart(*departure, PACKET)
    };
    let exits: Vec<Instant> = departures.iter().map(&mut exit).collect();
    assert!(cross.peek().is_some(), "cross traffic until the end");

    let mut decided = [0.0; 4];
    for exits in exits.windows(65).step_by(64) {
        let receive = exits.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let gaps = Gaps { send: stream.gaps.clone(), receive };
        let estimate =
            Excursion::default().estimate(PACKET, &gaps).expect("gaps are positive").rate.bps_f64();
        let distance = |block: &usize| {
            (Rate::of(PACKET, stream.gaps[block * 16]).expect("positive").bps_f64() - estimate).abs()
        };
        decided[(0..4).min_by(|a, b| distance(a).total_cmp(&distance(b))).expect("four rates")] +=
            1.0 / STREAMS as f64;
    }
    decided
}

#[test]
fn h2_with_the_byte_clock_streams_find_the_right_rate_and_with_timers_too_high_a_one() {
    let [clock, process, timer] = [Mechanism::ByteClock, Mechanism::BusyWait, Mechanism::Timer].map(g4);
    println!("byte clock {clock:.3?}, busy-waiting {process:.3?}, timer {timer:.3?}");
    assert!(clock[1] >= 0.95);
    assert!(process[1] <= clock[1] && process[1] > timer[1]);
    // Published: the estimate is too high for 89.2 %.
    assert!((timer[2] + timer[3] - 0.892).abs() < 0.05);
}

/// Flows of equal rate that start uniformly at random within their first gap, as in rapid G6.
fn g6(mechanism: Mechanism, flows: u32, total: f64) -> Errors {
    let rate = gbps(total / f64::from(flows));
    let gap = rate.time_for(PACKET).ns() as f64;
    let mut rng = generator(u64::from(flows), "start", 0);
    let mut flow = || paced(rate, PACKET, 1e6 + gap * rng.random::<f64>(), 0.5);
    let schedules: Vec<Vec<Instant>> = (0..flows).map(|_| flow()).collect();
    errors(&schedules, &mechanism.departures(LINE, PACKET, &schedules, 1))
}

#[test]
fn h3_the_byte_clock_does_not_mind_128_flows() {
    for total in [5.0, 7.5, 10.0] {
        for flows in [1, 2, 4, 8, 16, 32, 64, 128] {
            let errors = g6(Mechanism::ByteClock, flows, total);
            assert!(errors.mean.abs() < 3.0 && errors.deviation < 3.0, "{flows} at {total} Gb/s: {errors:?}");
        }
    }
}

#[test]
fn h3_processes_disturb_each_other_when_there_are_more_than_cores() {
    for total in [5.0, 7.5, 10.0] {
        assert!(g6(Mechanism::BusyWait, 3, total).most < 20.0);
        assert!(g6(Mechanism::BusyWait, 4, total).most > 100.0);
        assert!(g6(Mechanism::BusyWait, 64, total).most > 1e6, "seconds");
    }
}

#[test]
fn h3_timers_of_many_flows_are_as_wrong_as_of_one_except_on_a_full_line() {
    for flows in [16, 128] {
        let errors = [5.0, 7.5].map(|total| g6(Mechanism::Timer, flows, total));
        assert!(errors.iter().all(|errors| errors.mean.abs() < 1.0 && errors.deviation > 20.0), "{errors:?}");
        // A published artefact: on a full line a packet is always waiting, so none needs a timer.
        assert!(g6(Mechanism::Timer, flows, 10.0).deviation < 0.4);
    }
}

proptest! {
    #[test]
    fn departures_keep_order_and_the_pace_of_the_line(
        mechanism in prop_oneof![
            Just(Mechanism::ByteClock), Just(Mechanism::BusyWait), Just(Mechanism::Timer), Just(Mechanism::Exact)
        ],
        gaps in proptest::collection::vec(0u64..3_000_000, 1..200),
        seed: u64,
    ) {
        let mut sender = mechanism.sender(LINE, PACKET, seed);
        let mut scheduled = Instant::ZERO;
        let mut last: Option<Instant> = None;
        for gap in gaps {
            scheduled += Duration::from_ns(gap as i64);
            let departure = sender.depart(scheduled, PACKET);
            prop_assert!(last.is_none_or(|last| departure - last >= LINE.time_for(PACKET)));
            prop_assert!(departure >= scheduled || mechanism == Mechanism::BusyWait);
            last = Some(departure);
        }
    }
}

/// When the segments of a paced flow leave over a line of 1 Gb/s with an RTT of 10 ms, and its goodput; its
/// window of 100 packets is less than the path holds.
fn paced_departures(controller: Kind, gaps: Mechanism) -> (Vec<Instant>, u64) {
    let mut network = Network::new(1);
    let forward = network.add_link(&link(mbps(1000.0), Duration::from_ms(5), drop_tail(Some(1_000_000))));
    let reverse = network.add_link(&wire(Duration::from_ms(5)));
    let mut config = TcpConfig::new(controller, vec![forward], vec![reverse]);
    config.pacing = true;
    config.burst = Burst::Single;
    if controller == Kind::Cubic {
        config.receive_buffer = Bytes::new(100 * 1448);
    }
    config.paced_by_line = gaps != Mechanism::Exact;
    config.line = Some(network.add_line(gaps, mbps(1000.0), Bytes::new(1538)));
    let tap = network.add_tap();
    config.taps = vec![(tap, TapPlace::Sender)];
    let flow = network.add_tcp(&config);
    network.run_until(at(2.0));
    let mut records = Vec::new();
    network.take_tap_records(tap, &mut records);
    let segments = records.iter().filter(|record| matches!(record.event, TapEvent::Segment { .. }));
    let late = segments.map(|record| record.at).filter(|when| *when >= at(1.0)).collect();
    (late, network.flow(flow).goodput.get())
}

/// Standard deviation of the rate in bins of a millisecond, in Mb/s.
fn burstiness(departures: &[Instant]) -> f64 {
    let mut bins = vec![0.0; 999];
    for departure in departures {
        if let Some(bin) = bins.get_mut(((*departure - at(1.0)).us() / 1000.0) as usize) {
            *bin += 1538.0 * 8.0 / 1000.0;
        }
    }
    headway_units::statistics::deviation(&bins)
}

#[test]
fn h17_a_byte_clock_paces_tcp_smoothly_at_all_rates_and_a_timer_does_not() {
    for rate in (1..10).map(|tenth| mbps(f64::from(tenth) * 100.0)) {
        let [clock, timer] = [Mechanism::ByteClock, Mechanism::Timer]
            .map(|gaps| paced_departures(Kind::FixedRate(FixedRate::new(rate)), gaps).0);
        // The smallest frame takes 704 ns.
        let gap = rate.time_for(Bytes::new(1538));
        let errors = clock.windows(2).map(|pair| (pair[1] - pair[0] - gap).ns().abs());
        assert!(errors.max() < Some(706), "{rate}");
        let [clock, timer] = [clock, timer].map(|departures| burstiness(&departures));
        println!("{rate}: byte clock {clock:.1} Mb/s in 1 ms, timer {timer:.1}");
        assert!(clock < 50.0 && timer > 3.0 * clock, "{rate}: {clock} {timer}");
    }
}

#[test]
fn a_byte_clock_paces_a_window_as_smoothly_as_an_exact_pacer() {
    let [exact, clock, timer] = [Mechanism::Exact, Mechanism::ByteClock, Mechanism::Timer]
        .map(|gaps| paced_departures(Kind::Cubic, gaps));
    let [smooth, filled, woken] = [&exact, &clock, &timer].map(|(departures, _)| burstiness(departures));
    assert!((filled - smooth).abs() < 1.0 && woken > 1.5 * smooth, "{smooth} {filled} {woken}");
    let goodput = [exact.1, clock.1, timer.1];
    assert!(goodput[1] * 100 >= goodput[0] * 99 && goodput[2] * 100 >= goodput[0] * 97, "{goodput:?}");
}

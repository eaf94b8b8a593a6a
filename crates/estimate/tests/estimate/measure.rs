//! Complete measurements over a modelled FIFO path with known cross traffic.

use crate::path::{Cross, Path};
use headway_estimate::measure::{Answer, Config, Failure, Interval, Measurement, Method, Step};
use headway_estimate::{Refusal, StreamRecord};
use headway_units::statistics::median;
use headway_units::{Bytes, Duration, Instant, Rate};

const PACKET: Bytes = Bytes::new(1538);

pub(crate) fn config() -> Config {
    Config {
        method: Method::Response,
        packet: PACKET,
        budget: None,
        gentle: false,
        duration: None,
        rtt: Duration::from_ms(20),
        top_rate: Rate::from_bps(10_000_000_000),
        train_rate: Rate::from_bps(10_000_000_000),
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

/// Returns the number of runs per cell: with bursts, each run samples so few of them that the median of ten
/// would be noisy.
fn runs(cross: Cross) -> u64 {
    if matches!(cross, Cross::Bursty) { 20 } else { 10 }
}

/// Runs a cell and prints its row.
fn cell(mbps: f64, load: f64, cross: Cross, coalescing: Duration) -> (f64, usize) {
    let outcomes: Vec<Outcome> = (0..runs(cross))
        .map(|seed| {
            let mut path = Path::new(Rate::from_mbps(mbps), cross, load, coalescing, seed);
            measure(&mut path, config())
        })
        .collect();
    let error = median(outcomes.iter().map(|o| o.error.abs()).collect()).unwrap();
    let covered = outcomes.iter().filter(|o| o.covered).count();
    println!(
        "{mbps:5} Mb/s {cross:?} {load:.1}: |error| {:.1} %, covered {covered}/{}, {:.2} MB, {:.2} s",
        error * 100.0,
        runs(cross),
        median(outcomes.iter().map(|o| o.bytes / 1e6).collect()).unwrap(),
        median(outcomes.iter().map(|o| o.seconds).collect()).unwrap(),
    );
    (error, covered)
}

#[test]
fn response_is_right_within_a_tenth_of_capacity_and_its_interval_holds_the_truth() {
    let loads = [
        (0.0, Cross::Cbr),
        (0.4, Cross::Cbr),
        (0.4, Cross::Poisson),
        (0.4, Cross::Bursty),
        (0.8, Cross::Cbr),
        (0.8, Cross::Poisson),
        (0.8, Cross::Bursty),
    ];
    let judged: Vec<(usize, usize, usize)> = std::thread::scope(|scope| {
        let judge = |mbps| {
            loads.map(|(load, cross)| {
                let (error, hit) = cell(mbps, load, cross, Duration::ZERO);
                assert!(error <= 0.12, "{mbps} Mb/s, load {load}, {cross:?}: {error}");
                (usize::from(error <= 0.05), hit, runs(cross) as usize)
            })
        };
        let threads = [10.0, 100.0, 500.0].map(|mbps| scope.spawn(move || judge(mbps)));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    let cells = judged.len();
    let (close, covered, of) =
        judged.iter().fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
    assert!(close * 3 >= cells * 2, "only {close} of {cells} cells within 5 %");
    assert!(covered * 10 >= of * 8, "intervals held the truth in {covered} of {of} runs");
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

/// Runs a measurement in which every stream is spoiled in the same way.
fn spoiled(
    path_mbps: f64,
    spoil: impl Fn(&mut StreamRecord) -> Option<Refusal>,
) -> Result<Interval, Failure> {
    spoiled_answer(path_mbps, spoil).available
}

fn spoiled_answer(path_mbps: f64, spoil: impl Fn(&mut StreamRecord) -> Option<Refusal>) -> Answer {
    let mut path = Path::new(Rate::from_mbps(path_mbps), Cross::Cbr, 0.0, Duration::ZERO, 1);
    let mut now = Instant::from_ns(1_000_000_000);
    let mut measurement = Measurement::new(config(), now);
    loop {
        match measurement.next_step(now) {
            Step::Send(schedule) => {
                let mut record = path.send(0, now, &schedule);
                now = path.finished(&record) + Duration::from_ms(10);
                let refusal = spoil(&mut record);
                measurement.observe(now, &record, refusal);
            }
            Step::Wait(time) => now += time,
            Step::Done => return measurement.answer(),
        }
    }
}

#[test]
fn packets_that_are_still_on_the_way_are_late_and_not_lost() {
    for mbps in [0.05, 0.08] {
        let half_a_second = |record: &mut StreamRecord| {
            let until = record.arrivals[record.arrivals.len() - 1].sent + Duration::from_ms(520);
            record.arrivals.iter_mut().for_each(|arrival| {
                arrival.received = arrival.received.filter(|received| *received <= until);
            });
            None
        };
        let answer = spoiled_answer(mbps, half_a_second);
        let Err(Failure::TooSlow(rate)) = answer.available else { panic!("{answer:?}") };
        assert!((rate.mbps() / mbps - 1.0).abs() < 0.01, "{rate}");
        assert_eq!(answer.lost, 0);
    }
}

#[test]
fn every_way_to_fail_has_its_own_reason() {
    let lose_all = |record: &mut StreamRecord| {
        record.arrivals.iter_mut().for_each(|arrival| arrival.received = None);
        None
    };
    let lose_half = |record: &mut StreamRecord| {
        record.arrivals.iter_mut().step_by(2).for_each(|arrival| arrival.received = None);
        None
    };
    let swap = |record: &mut StreamRecord| {
        let (first, second) = (record.arrivals[0].received, record.arrivals[1].received);
        record.arrivals[0].received = second;
        record.arrivals[1].received = first;
        None
    };
    assert_eq!(spoiled(100.0, lose_all), Err(Failure::AllLost));
    assert_eq!(spoiled(100.0, lose_half), Err(Failure::Lossy));
    // The default method only needs the number of arrivals over time.
    assert!(spoiled(100.0, swap).is_ok());
    assert_eq!(spoiled(100.0, |_| Some(Refusal::SenderGaps)), Err(Failure::SenderGaps));
    assert_eq!(spoiled(100.0, |_| Some(Refusal::ClockStep)), Err(Failure::ClockStep));
    let too_slow = spoiled(0.5, |_| None).expect_err("a path that is too slow");
    assert_eq!(
        too_slow.to_string(),
        "packets arrive at 500 kb/s: the path is slower than 1 Mb/s, the minimum that can be measured; try `ping` with \
         large packets instead"
    );
}

#[test]
fn a_path_faster_than_the_sender_gives_a_lower_bound() {
    // The modelled sender takes 5 us per packet, 2.46 Gb/s.
    let refuse_fast = |record: &mut StreamRecord| {
        let too_fast = record.intended.iter().any(|gap| *gap < Duration::from_us(5));
        too_fast.then_some(Refusal::SenderGaps)
    };
    let interval = spoiled(40_000.0, refuse_fast).expect("a lower bound");
    assert_eq!(interval.high, None);
    assert!(interval.low > Rate::from_mbps(300.0), "{interval:?}");
}

/// Refuses streams with gaps shorter than these.
fn paces_no_faster_than(gap: Duration) -> impl Fn(&mut StreamRecord) -> Option<Refusal> {
    move |record| record.intended.iter().any(|intended| *intended < gap).then_some(Refusal::SenderGaps)
}

#[test]
fn a_sender_that_paces_only_slow_streams_answers_as_far_as_it_can_pace() {
    for gap_us in [30, 100, 250, 700, 1_500, 3_000] {
        let fastest = Rate::of(PACKET, Duration::from_us(gap_us)).expect("a rate");
        for mbps in [3.0, 10.0, 30.0, 100.0, 900.0] {
            let answer = spoiled(mbps, paces_no_faster_than(Duration::from_us(gap_us)));
            println!("paced {fastest}, free {mbps} Mb/s: {answer:?}");
            let Ok(interval) = answer else { panic!("{mbps}") };
            assert!(interval.low.mbps() <= mbps * 1.02, "{mbps}: {interval:?}");
            match interval.high {
                Some(high) => assert!(high.mbps() >= mbps * 0.98, "{mbps}: {interval:?}"),
                None => assert!(interval.low <= fastest, "{fastest}, {mbps}: {interval:?}"),
            }
        }
    }
}

#[test]
fn a_sender_that_keeps_the_gaps_of_no_long_train_gets_no_answer() {
    let short_only = |record: &mut StreamRecord| {
        (record.arrivals.len() > 20 || record.average.mbps() > 20.0).then_some(Refusal::SenderGaps)
    };
    assert_eq!(spoiled(100.0, short_only), Err(Failure::SenderGaps));
}

#[test]
fn budget_and_time_are_kept() {
    let mut path = Path::new(Rate::from_mbps(100.0), Cross::Poisson, 0.4, Duration::ZERO, 3);
    let outcome = measure(&mut path, Config { budget: Some(Bytes::new(900_000)), ..config() });
    assert!(outcome.bytes <= 900_000.0, "{}", outcome.bytes);
    let mut path = Path::new(Rate::from_mbps(100.0), Cross::Poisson, 0.4, Duration::ZERO, 3);
    let outcome = measure(&mut path, Config { duration: Some(Duration::from_ms(600)), ..config() });
    // The last stream is completed: 97 packets at 81 Mb/s and the round trip.
    assert!(outcome.seconds <= 0.65, "{}", outcome.seconds);
}

#[test]
fn a_gentle_measurement_leaves_pauses_and_spends_half_the_bytes() {
    let measured = |gentle| {
        let mut path = Path::new(Rate::from_mbps(100.0), Cross::Poisson, 0.4, Duration::ZERO, 3);
        measure(&mut path, Config { gentle, ..config() })
    };
    let (usual, gentle) = (measured(false), measured(true));
    let load = |outcome: &Outcome| outcome.bytes / outcome.seconds;
    assert!(load(&gentle) < 0.7 * load(&usual), "{} {}", load(&gentle), load(&usual));
    assert!(gentle.bytes <= usual.bytes / 2.0, "{} {}", gentle.bytes, usual.bytes);
    assert!(gentle.error.abs() < 0.05, "{}", gentle.error);
}

#[test]
fn an_estimate_survives_a_sender_that_fails_later() {
    let streams = std::cell::Cell::new(0);
    let interval = spoiled(100.0, |_| {
        streams.set(streams.get() + 1);
        (streams.get() > 16).then_some(Refusal::SenderGaps)
    });
    let rate = interval.expect("what the first streams said").rate;
    assert!((rate.mbps() - 100.0).abs() < 5.0, "{rate}");
}

/// Runs a measurement in which the receiver's clock jumps after some streams; the stream during
/// the jump is refused.
fn stepped(by: Duration) -> Interval {
    let mut path = Path::new(Rate::from_mbps(100.0), Cross::Poisson, 0.4, Duration::ZERO, 9);
    let mut now = Instant::from_ns(2_000_000_000);
    let mut measurement = Measurement::new(config(), now);
    let mut streams = 0;
    loop {
        match measurement.next_step(now) {
            Step::Send(schedule) => {
                let mut record = path.send(0, now, &schedule);
                now = path.finished(&record) + Duration::from_ms(10);
                streams += 1;
                if streams > 14 {
                    let moved = record.arrivals.iter_mut().filter_map(|arrival| arrival.received.as_mut());
                    moved.for_each(|received| *received += by);
                }
                measurement.observe(now, &record, (streams == 15).then_some(Refusal::ClockStep));
            }
            Step::Wait(time) => now += time,
            Step::Done => return measurement.answer().available.expect("an estimate"),
        }
    }
}

#[test]
fn a_stepped_clock_costs_a_stream_and_not_the_truth() {
    for by in [Duration::from_ms(1_000), Duration::from_ms(-1_000)] {
        let interval = stepped(by);
        assert!((interval.rate.mbps() - 60.0).abs() < 10.0, "{by}: {interval:?}");
    }
}

#[test]
fn a_cap_on_the_rate_gives_a_lower_bound_where_more_is_free() {
    let mut path = Path::new(Rate::from_mbps(1_000.0), Cross::Cbr, 0.2, Duration::ZERO, 2);
    let mut now = Instant::from_ns(1_000_000_000);
    let capped = Config { top_rate: Rate::from_mbps(100.0), ..config() };
    let mut measurement = Measurement::new(capped, now);
    loop {
        match measurement.next_step(now) {
            Step::Send(schedule) => {
                assert!(schedule.average <= capped.top_rate, "{}", schedule.average);
                let record = path.send(0, now, &schedule);
                now = path.finished(&record) + Duration::from_ms(10);
                measurement.observe(now, &record, None);
            }
            Step::Wait(time) => now += time,
            Step::Done => break,
        }
    }
    let interval = measurement.answer().available.expect("a lower bound");
    assert_eq!(interval.high, None);
    assert!(interval.low >= Rate::from_mbps(95.0), "{interval:?}");
}

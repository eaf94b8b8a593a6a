//! The choice among paths, driven with a plain model of paths: each has a rate that is free, and answers are
//! that rate with an error.

use headway_estimate::measure::{Interval, Step};
use headway_estimate::question::{Question, QuestionConfig, Reply};
use headway_estimate::stream::{Arrival, StreamRecord};
use headway_select::{Action, Answer, Selector, Settings, Strategy, Trouble, Wishes};
use headway_units::{Bytes, Duration, Instant, Rate};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const HOUR: Duration = Duration::from_ms(3_600_000);

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// Paths, and what was sent over them.
struct Paths {
    selector: Selector,
    now: Instant,
    /// The rates that are free, and the capacities, in Mb/s.
    free: Vec<f64>,
    capacity: Vec<f64>,
    /// Whether all share one link.
    shared: bool,
    /// Bytes of tokens in front of each link, and how many questions have emptied them.
    bucket: f64,
    emptied: usize,
    rng: Pcg64Mcg,
    sent: Vec<Vec<(Instant, Bytes)>>,
    changes: usize,
    odds: Vec<f64>,
}

impl Paths {
    fn new(settings: Settings, free: &[f64], capacity: &[f64]) -> Paths {
        let names = (0..free.len()).map(|number| format!("path {number}"));
        Paths {
            selector: Selector::new(settings, names, Instant::ZERO).expect("paths"),
            now: Instant::ZERO,
            free: free.to_vec(),
            capacity: capacity.to_vec(),
            shared: false,
            bucket: 0.0,
            emptied: 0,
            rng: Pcg64Mcg::seed_from_u64(7),
            sent: vec![Vec::new(); free.len()],
            changes: 0,
            odds: Vec::new(),
        }
    }

    /// Streams of a rate over a fluid queue with noise, where `taken` Mb/s are used by other streams.
    fn reply(&mut self, path: usize, rate: Rate, bucket: Option<Bytes>, taken: f64) -> Reply {
        let rtt = Duration::from_ms(20);
        let packet = Bytes::new(1_538);
        let most = QuestionConfig::usual_cost(rate, packet, bucket);
        let capacity = Some(Rate::from_mbps(self.capacity[path]));
        let mut question =
            Question::new(QuestionConfig { rate, most, packet, rtt, capacity, bucket }, self.now);
        while let Step::Send(schedule) = question.next_step(self.now) {
            let free = self.free[path] - taken;
            // The delay in which tokens pass, and that of the queue behind them.
            let tokens = self.bucket * 8e-6 / self.capacity[path];
            let (mut sent, mut queue) = (self.now, 0.0f64);
            let mut arrivals = Vec::new();
            for index in 0..schedule.packets() {
                let received = Some(sent + rtt / 2 + Duration::from_secs_f64((queue - tokens).max(0.0)));
                arrivals.push(Arrival { index: index as u32, size: schedule.packet, sent, received });
                let gap = schedule.gaps.get(index).copied().unwrap_or_default();
                let noise = (self.rng.random::<f64>() - 0.5) * 1e-4;
                let sends = schedule.packet.get() as f64 * 8e-6 / self.capacity[path];
                let drains = free / self.capacity[path] * gap.secs_f64();
                queue = (queue + if gap == Duration::ZERO { 0.0 } else { sends - drains + noise }).max(0.0);
                sent += gap;
            }
            let (packet, average) = (schedule.packet, schedule.average);
            let record = StreamRecord { id: 0, packet, average, intended: schedule.gaps, arrivals };
            self.now = sent + Duration::from_ms(600);
            question.observe(self.now, &record, None);
        }
        self.emptied += usize::from(bucket.is_some());
        question.answer().expect("streams arrived")
    }

    fn answer(&mut self, path: usize, answer: &Answer, cost: Bytes) {
        self.sent[path].push((self.now, cost));
        self.selector.answer(self.now, path, answer, Some(Duration::from_ms(20)), cost);
    }

    /// Does what the selector wants until `end`.
    fn run(&mut self, end: Instant) {
        while self.now < end {
            match self.selector.poll(self.now) {
                Some(Action::Ask { path, rate, bucket, .. }) => {
                    let reply = self.reply(path, rate, bucket, 0.0);
                    let cost = reply.bytes;
                    self.answer(path, &Answer::Reply(reply), cost);
                }
                Some(Action::Together { paths, rate, .. }) => {
                    let taken = if self.shared { rate.mbps() } else { 0.0 };
                    for path in paths {
                        let reply = self.reply(path, rate, None, taken);
                        let cost = reply.bytes;
                        self.answer(path, &Answer::Reply(reply), cost);
                    }
                }
                Some(Action::Measure { path, most }) => {
                    self.now += Duration::from_ms(1_500);
                    let rate = Rate::from_mbps(self.free[path] * (0.93 + 0.14 * self.rng.random::<f64>()));
                    let free = Interval { rate, low: rate.scale(0.92), high: Some(rate.scale(1.08)) };
                    let capacity = Some(Rate::from_mbps(self.capacity[path]));
                    self.answer(path, &Answer::Measured { free, capacity, bucket: None }, most);
                }
                Some(Action::Ping { path }) => self.answer(path, &Answer::Pong, Bytes::new(200)),
                Some(Action::Choose(decision)) => {
                    assert_eq!(decision.path, self.selector.chosen());
                    self.changes += 1;
                    if let headway_select::Why::Better { odds, .. } = decision.why {
                        self.odds.push(odds);
                    }
                }
                None => self.now = self.selector.next().max(self.now + Duration::from_ms(1)),
            }
        }
    }

    fn most_in_an_hour(&self, path: usize) -> u64 {
        let sent = &self.sent[path];
        let until = |end: Instant| {
            sent.iter().filter(|(at, _)| *at <= end && end - *at < HOUR).map(|(_, bytes)| bytes.get()).sum()
        };
        sent.iter().map(|(end, _)| until(*end)).max().unwrap_or(0)
    }
}

fn budget(bytes: u64) -> Settings {
    Settings { max_bytes_per_hour: Bytes::new(bytes), ..Settings::default() }
}

#[test]
fn it_finds_the_path_with_the_most_free_and_follows_when_that_changes() {
    let mut paths = Paths::new(Settings::default(), &[20.0, 5.0, 60.0], &[50.0, 30.0, 80.0]);
    paths.run(at(60.0));
    assert_eq!(paths.selector.chosen(), 2);
    paths.free = vec![45.0, 20.0, 10.0];
    paths.run(at(240.0));
    assert_eq!(paths.selector.chosen(), 0, "{}", paths.selector.decision());
    assert!(paths.odds.iter().all(|odds| *odds >= 0.9), "{:?}", paths.odds);
    let sentence = paths.selector.decisions().next_back().expect("decisions").to_string();
    assert!(sentence.contains("path"), "{sentence}");
}

#[test]
fn two_equal_paths_do_not_flap() {
    for budget_bytes in [2_000_000, 20_000_000] {
        let mut paths = Paths::new(budget(budget_bytes), &[30.0, 30.0], &[50.0, 50.0]);
        paths.run(at(2.0 * 3_600.0));
        assert!(paths.changes <= 2, "{} changes", paths.changes);
    }
}

#[test]
fn questions_cost_little_of_what_measurements_would() {
    let mut paths = Paths::new(Settings::default(), &[30.0, 25.0, 20.0], &[50.0, 50.0, 50.0]);
    paths.run(at(3_600.0));
    let sizes = paths.sent.iter().flatten().map(|(_, bytes)| bytes.get());
    let (small, large): (Vec<u64>, Vec<u64>) = sizes.partition(|bytes| *bytes <= 300_000);
    assert!(small.len() > 3 * large.len(), "{} questions, {} measurements", small.len(), large.len());
}

#[test]
fn a_path_that_goes_down_is_left_at_once_and_not_taken_again_before_it_has_settled() {
    let mut paths = Paths::new(Settings::default(), &[20.0, 60.0], &[50.0, 80.0]);
    paths.run(at(60.0));
    assert_eq!(paths.selector.chosen(), 1);
    paths.selector.failed(paths.now, 1, Trouble::Down, Bytes::ZERO);
    assert!(matches!(paths.selector.poll(paths.now), Some(Action::Choose(decision)) if decision.path == 0));
    let sentence = paths.selector.decision().to_string();
    assert!(sentence.contains("it is down"), "{sentence}");
    // It comes and goes.
    for _ in 0..6 {
        paths.selector.up(paths.now, 1);
        paths.now += Duration::from_ms(2_000);
        assert!(!matches!(paths.selector.poll(paths.now), Some(Action::Choose(_))));
        paths.selector.failed(paths.now, 1, Trouble::Down, Bytes::ZERO);
        paths.now += Duration::from_ms(1_000);
    }
    paths.selector.up(paths.now, 1);
    let until = paths.now + Duration::from_ms(4_000);
    paths.run(until);
    assert_eq!(paths.selector.chosen(), 0);
    // It has never stayed for so long.
    paths.run(until + Duration::from_ms(60_000));
    assert_eq!(paths.selector.chosen(), 1, "{}", paths.selector.decision());
}

#[test]
fn when_all_paths_are_down_or_silent_one_stays_chosen_and_it_says_so() {
    let mut paths = Paths::new(Settings::default(), &[20.0, 60.0], &[50.0, 80.0]);
    paths.run(at(60.0));
    for trouble in [Trouble::Away, Trouble::Away, Trouble::Away] {
        for path in 0..2 {
            paths.selector.failed(paths.now, path, trouble, Bytes::ZERO);
        }
        paths.now += Duration::from_ms(10_000);
        assert!(!matches!(paths.selector.poll(paths.now), Some(Action::Choose(_))));
    }
    assert_eq!(paths.selector.chosen(), 1);
    for path in [1, 0] {
        paths.selector.failed(paths.now, path, Trouble::Down, Bytes::ZERO);
        let _ = paths.selector.poll(paths.now);
    }
    let sentence = paths.selector.decision().to_string();
    assert!(sentence.contains("no path can be used"), "{sentence}");
    assert!(paths.selector.chosen() < 2);
}

#[test]
fn a_far_end_that_is_away_on_one_path_only_moves_the_choice() {
    let mut paths = Paths::new(Settings::default(), &[20.0, 60.0], &[50.0, 80.0]);
    paths.run(at(60.0));
    for _ in 0..2 {
        paths.selector.failed(paths.now, 1, Trouble::Away, Bytes::ZERO);
    }
    assert!(matches!(paths.selector.poll(paths.now), Some(Action::Choose(decision)) if decision.path == 0));
}

#[test]
fn a_busy_host_and_a_stepped_clock_change_nothing() {
    let mut paths = Paths::new(Settings::default(), &[20.0, 60.0], &[50.0, 80.0]);
    paths.run(at(60.0));
    for trouble in [Trouble::Busy, Trouble::ClockStep, Trouble::Busy, Trouble::Unclear] {
        paths.selector.failed(paths.now, 1, trouble, Bytes::new(50_000));
        assert!(!matches!(paths.selector.poll(paths.now), Some(Action::Choose(_))));
        paths.now += Duration::from_ms(10_000);
    }
    assert_eq!(paths.selector.chosen(), 1);
}

#[test]
fn an_answer_that_never_comes_does_not_stop_it() {
    let mut paths = Paths::new(Settings::default(), &[20.0, 60.0], &[50.0, 80.0]);
    assert!(paths.selector.poll(paths.now).is_some());
    paths.now = at(61.0);
    assert!(paths.selector.poll(paths.now).is_some());
}

#[test]
fn paths_that_share_their_tight_link_are_recognised_and_choosing_is_vain() {
    let mut paths = Paths::new(Settings::default(), &[30.0, 30.0], &[50.0, 50.0]);
    paths.shared = true;
    paths.run(at(1_800.0));
    let sentence = paths.selector.decision().to_string();
    assert!(sentence.contains("choosing is vain"), "{sentence}");
    let mut apart = Paths::new(Settings::default(), &[30.0, 30.0], &[50.0, 50.0]);
    apart.run(at(1_800.0));
    let sentence = apart.selector.decision().to_string();
    assert!(!sentence.contains("vain"), "{sentence}");
}

#[test]
fn the_latency_floor_passes_over_paths_that_are_too_far() {
    let strategy = Strategy::AvailableWithLatencyFloor;
    let settings = Settings { strategy, latency_floor: Duration::from_ms(50), ..Settings::default() };
    let mut paths = Paths::new(settings, &[20.0, 60.0], &[50.0, 80.0]);
    for _ in 0..20 {
        paths.run(paths.now + Duration::from_ms(5_000));
        paths.selector.rtt(paths.now, 1, Duration::from_ms(300));
    }
    assert_eq!(paths.selector.chosen(), 0);
}

#[test]
fn the_strategy_latency_needs_pings_only() {
    let mut paths =
        Paths::new(Settings { strategy: Strategy::Latency, ..Settings::default() }, &[1.0, 1.0], &[9.0, 9.0]);
    paths.run(at(30.0));
    paths.selector.rtt(paths.now, 1, Duration::from_ms(5));
    assert!(matches!(paths.selector.poll(paths.now), Some(Action::Choose(decision)) if decision.path == 1));
    assert!(paths.sent.iter().flatten().all(|(_, bytes)| bytes.get() <= 1_000));
}

/// While own traffic has so much, at least that is there: a path of which more was thought is not left
/// for one that has less.
#[test]
fn what_own_traffic_carries_is_known_without_a_question() {
    let mut paths = Paths::new(Settings::default(), &[20.0, 15.0], &[50.0, 50.0]);
    paths.run(at(30.0));
    let asked = paths.selector.asked();
    // A second is no more than a queue may take.
    paths.selector.carried(at(31.0), 0, Rate::from_mbps(40.0));
    assert!(paths.selector.snapshot(at(31.0)).paths[0].free_bps.is_some_and(|[free, ..]| free < 25_000_000));
    (32..38).for_each(|second| paths.selector.carried(at(f64::from(second)), 0, Rate::from_mbps(40.0)));
    let state = &paths.selector.snapshot(at(38.0)).paths[0];
    let [free, low, _] = state.free_bps.expect("measured").map(|bps| bps as f64 / 1e6);
    assert!(low > 30.0 && free > 35.0, "{state:?}");
    assert_eq!(paths.selector.asked(), asked);
    assert_eq!(state.total_bytes, paths.sent[0].iter().map(|(_, bytes)| bytes.get()).sum::<u64>());
}

/// Streams that fit into a bucket of 200 kB meet no queue whatever their rate, so it is found and
/// emptied before them.
#[test]
fn where_no_packet_ever_waits_a_token_bucket_is_looked_for() {
    let mut paths = Paths::new(
        Settings { strategy: Strategy::Available, ..Settings::default() },
        &[20.0, 10.0],
        &[50.0, 50.0],
    );
    paths.bucket = 200_000.0;
    paths.run(at(1_800.0));
    let [free, low, high] = paths.selector.snapshot(paths.now).paths[0].free_bps.expect("measured");
    // Streams are no faster than decides, and behind a bucket few can be paid.
    assert!(paths.emptied > 0 && low < 20_000_000 && high > 20_000_000, "{free} {low} {high}");
    assert_eq!(paths.selector.chosen(), 0);
    paths.free = vec![10.0, 30.0];
    paths.run(at(3_600.0));
    let state = paths.selector.snapshot(paths.now);
    assert_eq!(paths.selector.chosen(), 1, "{state:?}");
}

#[test]
fn weights_are_in_proportion_to_what_is_free() {
    let mut paths = Paths::new(Settings::default(), &[20.0, 60.0], &[50.0, 80.0]);
    paths.run(at(30.0));
    let weights = paths.selector.weights(paths.now);
    assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    assert!((weights[1] - 0.75).abs() < 0.1, "{weights:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5))]
    #[test]
    fn no_hour_costs_more_than_the_budget_and_there_is_always_a_path(
        budget_bytes in 300_000u64..30_000_000, rates in prop::collection::vec((1.0..80.0f64, 80.0..100.0f64), 1..6),
        events in prop::collection::vec((0usize..6, 0u8..7, 1.0..60.0f64), 0..24),
    ) {
        let (free, capacity): (Vec<f64>, Vec<f64>) = rates.into_iter().unzip();
        let mut paths = Paths::new(budget(budget_bytes), &free, &capacity);
        for (path, what, later) in events {
            let path = path % free.len();
            match what {
                0 => paths.selector.failed(paths.now, path, Trouble::Down, Bytes::ZERO),
                1 => paths.selector.up(paths.now, path),
                2 => paths.selector.failed(paths.now, path, Trouble::Away, Bytes::ZERO),
                3 => paths.selector.carried(paths.now, path, Rate::from_mbps(later)),
                4 => paths.free[path] = later,
                _ => {}
            }
            paths.run(paths.now + Duration::from_secs_f64(10.0 * later));
            prop_assert!(paths.selector.chosen() < free.len());
            prop_assert!(!paths.selector.decision().to_string().is_empty());
        }
        for path in 0..free.len() {
            prop_assert!(paths.most_in_an_hour(path) <= budget_bytes, "{} of {budget_bytes}", paths.most_in_an_hour(path));
        }
        prop_assert!(paths.selector.decisions().count() <= 256);
        let now = paths.now;
        let sum: f64 = paths.selector.snapshot(now).paths.iter().map(|path| path.weight).sum();
        prop_assert!((sum - 1.0).abs() < 1e-9);
    }
}

/// While a preferred path has room it is used, though another has more free; what it cannot
/// carry takes the other.
#[test]
fn a_preferred_path_is_used_until_it_is_full() {
    let mut paths = Paths::new(Settings::default(), &[80.0, 20.0], &[100.0, 50.0]);
    paths.selector.wish(1, Wishes { preferred: true, quota: None });
    paths.run(at(60.0));
    assert_eq!((paths.selector.chosen(), paths.selector.decision().why.name()), (1, "alone"));
    let mut carry = |from: u32, mbps: f64, expected: usize| {
        // Questions meet own traffic.
        paths.free[1] = 20.0 - mbps;
        for second in from..from + 30 {
            paths.selector.carried(at(second.into()), 1, Rate::from_mbps(mbps));
            paths.now = at(second.into());
            paths.run(at(f64::from(second) + 0.5));
        }
        let state = paths.selector.snapshot(paths.now);
        assert_eq!(paths.selector.chosen(), expected, "{mbps} Mb/s: {state:?}");
    };
    carry(61, 8.0, 1);
    carry(91, 19.5, 0);
    // Connections that were made before end one after the other.
    carry(121, 17.0, 0);
    carry(151, 5.0, 1);
}

/// What an interface may carry in a month is for when nothing else is there.
#[test]
fn a_path_whose_quota_is_used_up_is_left_while_there_are_others() {
    let mut paths = Paths::new(Settings::default(), &[60.0, 20.0], &[80.0, 50.0]);
    paths.selector.wish(0, Wishes { preferred: false, quota: Some(Bytes::new(1_000_000_000)) });
    paths.run(at(60.0));
    assert_eq!(paths.selector.chosen(), 0);
    paths.selector.passed(at(60.0), 0, Bytes::new(999_000_000));
    paths.run(at(90.0));
    let state = &paths.selector.snapshot(at(90.0)).paths[0];
    assert_eq!((paths.selector.chosen(), state.quota_left_bytes), (0, Some(1_000_000)));
    paths.selector.passed(at(90.0), 0, Bytes::new(1_000_000));
    paths.run(at(120.0));
    assert_eq!(paths.selector.chosen(), 1);
    paths.selector.failed(paths.now, 1, Trouble::Down, Bytes::ZERO);
    paths.run(paths.now + Duration::from_ms(1_000));
    assert_eq!(paths.selector.chosen(), 0);
    let carried = paths.selector.spending(0).carried;
    assert_eq!(carried.iter().map(|(_, bytes)| bytes.get()).sum::<u64>(), 1_000_000_000);
}

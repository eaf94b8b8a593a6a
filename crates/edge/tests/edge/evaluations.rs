//! What is done with flows, and why.

use headway_edge::classify::Behaviour;
use headway_edge::evaluate::{
    Action, Case, Decision, Estimate, Evaluator, Facts, FlowFacts, Input, Means, Proposal, Quantity,
    Registry, Step, Strategy, Why,
};
use headway_edge::{Policy, Split};
use headway_units::{Bytes, Duration, Instant, PerSide, Rate, Side};
use proptest::prelude::*;

use crate::support::{at, mbps, policy};

/// Flows and estimates that a test says.
#[derive(Clone, Default)]
struct Known(Vec<FlowFacts>, Vec<Estimate>);

impl Input for Known {
    fn tell(&mut self, _: Instant, facts: &mut Facts) {
        facts.flows.extend(&self.0);
        facts.estimates.extend(self.1.iter().cloned());
    }
}

/// A download by TCP with an RTT of 40 ms whose receiver tells windows of up to 8 MB.
fn download(id: u64) -> FlowFacts {
    FlowFacts {
        host: [192, 168, 1, 2].into(),
        unused: PerSide([0.0; 2]),
        id,
        behaviour: Behaviour::Bulk,
        class: Some(0),
        side: Side::Lan,
        is_tcp: true,
        rtt: Some(Duration::from_ms(40)),
        scale: Some(7),
        held_at: None,
        is_split: false,
        ecn: false,
        rate: Rate::from_mbps(10.0),
    }
}

fn call(id: u64) -> FlowFacts {
    let rate = Rate::from_bps(100_000);
    FlowFacts { behaviour: Behaviour::Cbr, is_tcp: false, rtt: None, scale: None, rate, ..download(id) }
}

fn estimate(quantity: Quantity, mbps: f64, ms: u64) -> Estimate {
    let [low, rate, high] = [0.9, 1.0, 1.1].map(|part| Rate::from_mbps(mbps * part));
    Estimate { source: "test".into(), quantity, side: Side::Lan, rate, low, high, at: at(ms) }
}

fn evaluator(means: Means) -> Evaluator {
    Evaluator::new(Policy::default(), Registry::default(), mbps(50.0), means)
}

fn judge(evaluator: &mut Evaluator, ms: u64, flows: &[FlowFacts], estimates: &[Estimate]) -> Vec<Decision> {
    evaluator.evaluate(at(ms), &mut [&mut Known(flows.to_vec(), estimates.to_vec())])
}

/// Judges one flow for the first time.
fn first(means: Means, flow: FlowFacts) -> Decision {
    judge(&mut evaluator(means), 0, &[flow], &[]).remove(0)
}

fn names(decision: &Decision) -> Vec<&'static str> {
    decision.chain.iter().map(|step| step.strategy).collect()
}

fn window(decision: &Decision) -> u64 {
    let limits = decision.chain.iter().filter_map(|step| match step.action {
        Action::Window { limit } => Some(limit.get()),
        _ => None,
    });
    limits.sum()
}

const ALL: Means = Means { proxy: true, marking: true, smoothing: true, shaping: true };
const NONE: Means = Means { proxy: false, marking: false, smoothing: false, shaping: false };

#[test]
fn each_rule_of_the_procedure_gives_its_chain() {
    let udp = FlowFacts { is_tcp: false, rtt: None, scale: None, ..download(1) };
    let small = FlowFacts { scale: Some(0), ..download(1) };
    let page = FlowFacts { behaviour: Behaviour::Interactive, ..download(1) };
    let unknown = FlowFacts { behaviour: Behaviour::Unknown, ..udp };
    for (means, flow, chain) in [
        (ALL, call(1), &["priority"][..]),
        (ALL, page, &["priority"]),
        (ALL, download(1), &["receive-window"]),
        (ALL, FlowFacts { behaviour: Behaviour::Unknown, ..download(1) }, &["receive-window"]),
        (ALL, small, &["proxy", "receive-window"]),
        (NONE, small, &["receive-window"]),
        (ALL, FlowFacts { ecn: true, ..udp }, &["ecn"]),
        (NONE, FlowFacts { ecn: true, ..udp }, &["rate-control"]),
        (ALL, FlowFacts { scale: None, ..download(1) }, &["rate-control"]),
        (ALL, unknown, &["pass"]),
        (ALL, FlowFacts { rate: Rate::from_mbps(60.0), ..unknown }, &["rate-control"]),
        (ALL, FlowFacts { class: None, ..download(1) }, &["pass"]),
    ] {
        assert_eq!(names(&first(means, flow)), chain, "{flow:?}");
    }
}

#[test]
fn marks_hold_a_flow_to_its_share_and_never_above_the_narrow_link() {
    let quic = FlowFacts { is_tcp: false, rtt: None, scale: None, ecn: true, ..download(1) };
    let unscaled = FlowFacts { scale: None, ecn: true, ..download(2) };
    let mut evaluator = Evaluator::new(Policy::default(), Registry::of_edge(), mbps(50.0), ALL);
    let narrow = estimate(Quantity::Narrow, 10.0, 0);
    for (estimates, rate) in [(vec![], "16.7 Mb/s"), (vec![narrow], "3.33 Mb/s")] {
        let decisions = judge(&mut evaluator, 0, &[quic, unscaled, download(3)], &estimates);
        for decision in &decisions[..2] {
            let sentence = format!(
                "is marked above {rate} of payload, because its ends react to marks, and its window cannot be lowered"
            );
            assert_eq!(decision.to_string(), sentence);
            assert!(decision.marks() && decision.shares && !decision.passes(), "{decision:?}");
        }
        assert_eq!(names(&decisions[2]), ["receive-window"]);
    }
    let mut without = Evaluator::new(Policy::default(), Registry::of_edge(), mbps(50.0), NONE);
    assert_eq!(names(&judge(&mut without, 0, &[quic], &[])[0]), ["pass"]);
}

#[test]
fn a_download_that_its_receiver_holds_has_the_next_ones_split() {
    let policy = |split| {
        let mut policy = Policy::default();
        policy.class[0].split = split;
        Evaluator::new(policy, Registry::of_edge(), mbps(50.0), ALL)
    };
    // Its share needs 250 kB.
    let held = |bytes| FlowFacts { held_at: Some(Bytes::new(bytes)), ..download(1) };
    let mut evaluator = policy(Some(Split::SmallReceivers));
    judge(&mut evaluator, 0, &[download(1)], &[]);
    let decisions = [1_000, 2_000].map(|ms| judge(&mut evaluator, ms, &[held(64_000)], &[]).remove(0));
    assert!(!decisions[0].splits_next() && decisions[1].splits_next(), "{decisions:?}");
    let sentence = decisions[1].to_string();
    let splits = "has the next connections of its class from its host split, because the window of its receiver holds it at \
        64.0 kB, and its share needs 250.0 kB; a connection can only be split from its first packet; then it has a window of ";
    assert!(sentence.starts_with(splits), "{sentence}");
    let first = |split, flow: FlowFacts| judge(&mut policy(split), 0, &[flow], &[]).remove(0);
    // Where nothing is gained, nobody asked for it, or it is split already.
    assert!(!first(Some(Split::SmallReceivers), held(200_000)).splits_next());
    assert!(
        !first(Some(Split::Always), held(64_000)).splits_next() && !first(None, held(64_000)).splits_next()
    );
    let split = first(Some(Split::SmallReceivers), FlowFacts { is_split: true, ..held(64_000) });
    assert_eq!(names(&split), ["proxy", "receive-window"]);
    assert!(split.to_string().starts_with("is split at a proxy with a buffer of "), "{split}");
}

#[test]
fn an_upload_is_smoothed_while_bulk_comes_down() {
    let upload = FlowFacts { side: Side::Wan, ..download(2) };
    let mut evaluator = Evaluator::new(Policy::default(), Registry::of_edge(), mbps(50.0), ALL);
    let decisions = judge(&mut evaluator, 0, &[download(1), upload, call(3)], &[]);
    let chains: Vec<_> = decisions.iter().map(names).collect();
    assert_eq!(chains, [vec!["receive-window"], vec!["smoothing", "receive-window"], vec!["spared"]]);
    assert_eq!(decisions[1].bucket(), Some(Rate::from_mbps(47.5)));
    let sentence = decisions[1].to_string();
    let smoothed = "is held to 47.5 Mb/s on the wire, because ACKs of what comes down would wait behind what it sends at once; then it has a window of ";
    assert!(sentence.starts_with(smoothed), "{sentence}");
    // Nothing waits behind an upload alone, and who may not change queues smooths nothing.
    for (means, flows) in [(ALL, vec![upload]), (NONE, vec![download(1), upload])] {
        let mut evaluator = Evaluator::new(Policy::default(), Registry::of_edge(), mbps(50.0), means);
        let decisions = judge(&mut evaluator, 0, &flows, &[]);
        assert!(decisions.iter().all(|decision| names(decision) == ["receive-window"]), "{decisions:?}");
    }
}

/// What data passed for the link when a queue stood last.
struct Carried(Option<Rate>);

/// The part of what passes the link that is data.
const PAYLOAD: f64 = 1448.0 / 1538.0;

impl Input for Carried {
    fn tell(&mut self, _: Instant, facts: &mut Facts) {
        (facts.carried[Side::Wan], facts.payload) = (self.0, PAYLOAD);
    }
}

#[test]
fn where_nobody_knows_the_link_an_upload_is_smoothed_a_little_below_what_has_passed() {
    let means = Means { smoothing: true, ..NONE };
    let flows = [download(1), FlowFacts { side: Side::Wan, ..download(2) }];
    let available = Side::BOTH.map(|side| Estimate { side, ..estimate(Quantity::Available, 9.0, 0) });
    let capacity = |mbps: f64| Estimate { side: Side::Wan, ..estimate(Quantity::Narrow, mbps, 0) };
    // Nobody says that it could not be as fast as can be.
    let unbounded = Estimate { high: Rate::from_mbps(10_000.0), ..capacity(9.0) };
    let bucket = |carried: Option<f64>, narrow: Option<Estimate>| {
        let mut evaluator =
            Evaluator::new(Policy::default(), Registry::of_edge(), mbps(10_000.0), means).of_unknown_link();
        let estimates = available.iter().cloned().chain(narrow).collect();
        let mut known = Known(flows.to_vec(), estimates);
        let mut carried = Carried(carried.map(Rate::from_mbps));
        let decisions = evaluator.evaluate(at(0), &mut [&mut known, &mut carried]);
        decisions[1].bucket()
    };
    assert_eq!(bucket(None, None), None);
    assert_eq!(bucket(None, Some(unbounded.clone())), None);
    // What was found is of data, and a bucket counts what is on the wire.
    let on_wire = |mbps: f64| Some(Rate::from_mbps(mbps).scale(1.0 / PAYLOAD));
    assert_eq!(bucket(Some(10.0), None), on_wire(9.5));
    assert_eq!(bucket(Some(10.0), Some(unbounded)), on_wire(9.5));
    // Of what was measured, the most that it may be, if that is less.
    assert_eq!(bucket(Some(10.0), Some(capacity(10.0))), on_wire(9.5));
    assert_eq!(bucket(None, Some(capacity(10.0))), on_wire(10.45));
}

#[test]
fn where_nobody_knows_the_link_bulk_without_a_window_is_held_when_a_queue_has_stood() {
    // It takes no share of what is found for flows with windows.
    let quic =
        FlowFacts { is_tcp: false, rtt: None, scale: None, class: None, side: Side::Wan, ..download(1) };
    for (carried, smoothing, chain) in
        [(Some(10.0), true, "rate-control"), (None, true, "pass"), (Some(10.0), false, "pass")]
    {
        let means = Means { smoothing, ..NONE };
        let mut evaluator =
            Evaluator::new(Policy::default(), Registry::of_edge(), mbps(10_000.0), means).of_unknown_link();
        let mut carried = Carried(carried.map(Rate::from_mbps));
        let decisions = evaluator.evaluate(at(0), &mut [&mut Known(vec![quic], Vec::new()), &mut carried]);
        assert_eq!(names(&decisions[0]), [chain]);
        let rate = Rate::from_mbps(9.5).scale(1.0 / PAYLOAD);
        assert_eq!(decisions[0].bucket(), Some(rate).filter(|_| chain == "rate-control"));
    }
}

#[test]
fn a_download_that_has_half_of_its_share_is_no_call() {
    let steady = |mbps| FlowFacts { behaviour: Behaviour::Cbr, rate: Rate::from_mbps(mbps), ..download(1) };
    for (rate, chain) in [(10.0, "spared"), (14.0, "receive-window")] {
        let mut evaluator = Evaluator::new(Policy::default(), Registry::of_edge(), mbps(50.0), NONE);
        // It was bulk, and the queue makes it look steady.
        judge(&mut evaluator, 0, &[download(1), download(2)], &[]);
        let decisions =
            [1_000, 2_000].map(|ms| judge(&mut evaluator, ms, &[steady(rate), download(2)], &[]).remove(0));
        assert_eq!(names(&decisions[1]), [chain], "{rate}");
    }
}

#[test]
fn only_bulk_that_nothing_else_holds_gets_a_token_bucket_below_the_narrow_link() {
    let quic = FlowFacts { is_tcp: false, rtt: None, scale: None, ..download(1) };
    let unscaled = FlowFacts { scale: None, ..download(2) };
    let others = [
        FlowFacts { ecn: true, ..quic },
        download(3),
        FlowFacts { behaviour: Behaviour::Unknown, ..quic },
        FlowFacts { class: None, ..quic },
        call(6),
    ];
    for (estimates, rate) in [(vec![], 47.5), (vec![estimate(Quantity::Narrow, 10.0, 0)], 9.5)] {
        let mut evaluator = Evaluator::new(Policy::default(), Registry::of_edge(), mbps(50.0), ALL);
        for decision in judge(&mut evaluator, 0, &[quic, unscaled], &estimates) {
            assert_eq!(
                (names(&decision), decision.bucket()),
                (vec!["rate-control"], Some(Rate::from_mbps(rate)))
            );
        }
        let others = others.iter().zip(10..).map(|(flow, id)| FlowFacts { id, ..*flow });
        let decisions = judge(&mut evaluator, 0, &others.collect::<Vec<_>>(), &estimates);
        assert!(decisions.iter().all(|decision| decision.bucket().is_none()), "{decisions:?}");
    }
    let mut without = Evaluator::new(Policy::default(), Registry::of_edge(), mbps(50.0), NONE);
    assert_eq!(names(&judge(&mut without, 0, &[quic], &[])[0]), ["pass"]);
}

#[test]
fn a_decision_says_what_and_why() {
    let small = FlowFacts { scale: Some(0), ..download(1) };
    assert_eq!(
        first(ALL, small).to_string(),
        "is split at a proxy with a buffer of 250.0 kB, because its receiver tells windows of 65.5 kB at most, and the \
         link needs 250.0 kB; then it has a window of 250.0 kB at most, because its share is 50.0 Mb/s, alone in its \
         class, and the access link has 50.0 Mb/s"
    );
    let json = serde_json::to_value(first(NONE, call(7))).unwrap();
    assert_eq!(
        json,
        serde_json::json!({
            "flow": 7,
            "chain": [{
                "strategy": "priority",
                "sentence": "passes before others, because it has a constant rate, and delay hurts it",
            }],
            "changed": true,
        })
    );
}

#[test]
fn flows_are_judged_again_when_one_comes_or_goes() {
    let mut evaluator = evaluator(NONE);
    let [one, two] = [download(1), download(2)];
    let alone = judge(&mut evaluator, 0, &[one], &[]);
    let both = judge(&mut evaluator, 10, &[one, two], &[]);
    let again = judge(&mut evaluator, 20, &[one], &[]);
    // 50 Mb/s for 40 ms are 250 kB.
    assert_eq!([&alone[0], &both[0], &both[1], &again[0]].map(window), [250_000, 125_000, 125_000, 250_000]);
    assert!(!both[0].changed && both[1].changed);
    // Calls take no share.
    assert_eq!(window(&judge(&mut evaluator, 30, &[one, call(3)], &[])[0]), 250_000);
}

#[test]
fn classes_have_their_shares() {
    let text = "[[class]]\nname = 'a'\nshare = 0.2\nports = [1]\n[[class]]\nname = 'b'\nshare = 0.8";
    let mut evaluator = Evaluator::new(policy(text), Registry::default(), mbps(50.0), NONE);
    let flows = [0, 1, 1].map(|class| FlowFacts { id: class.into(), class: Some(class), ..download(0) });
    let flows = [flows[0], flows[1], FlowFacts { id: 9, ..flows[2] }];
    let windows: Vec<u64> = judge(&mut evaluator, 0, &flows, &[]).iter().map(window).collect();
    assert_eq!(windows, [50_000, 100_000, 100_000]);
    // The same ones by another policy.
    evaluator.set_policy(Policy::default(), NONE);
    let [one, ..] = &judge(&mut evaluator, 1, &flows[..1], &[])[..] else { panic!() };
    assert_eq!(window(one), 250_000);
}

#[test]
fn estimates_count_while_they_are_fresh() {
    let known = [estimate(Quantity::Available, 20.0, 0), estimate(Quantity::Narrow, 30.0, 0)];
    let limit = |ms| {
        let decisions = judge(&mut evaluator(NONE), ms, &[download(1)], &known);
        (window(&decisions[0]), decisions[0].to_string())
    };
    // 20 Mb/s for 40 ms; after 5 s only the capacity, after 10 min nothing.
    let (bytes, text) = limit(4_999);
    assert_eq!(bytes, 100_000);
    assert!(text.ends_with("available are 20.0 Mb/s (18.0 Mb/s to 22.0 Mb/s, 5.00 s ago)"), "{text}");
    assert_eq!(limit(5_000).0, 150_000);
    assert_eq!(limit(600_000).0, 250_000);
}

#[test]
fn of_two_estimates_the_one_with_the_narrower_interval_counts() {
    let ours = estimate(Quantity::Available, 20.0, 0);
    let of_the_modem = Estimate { rate: Rate::from_mbps(40.0), low: Rate::from_mbps(39.0), ..ours.clone() };
    let modem = Estimate { high: Rate::from_mbps(41.0), source: "modem".into(), ..of_the_modem };
    for known in [[ours.clone(), modem.clone()], [modem, ours]] {
        assert_eq!(window(&judge(&mut evaluator(NONE), 1, &[download(1)], &known)[0]), 200_000);
    }
}

#[test]
fn strategies_change_when_two_evaluations_want_it() {
    let mut evaluator = evaluator(NONE);
    let page = FlowFacts { behaviour: Behaviour::Interactive, ..download(1) };
    let mut judge = |ms, flow| {
        let decision = judge(&mut evaluator, ms, &[flow], &[]).remove(0);
        (names(&decision)[0], decision.changed, decision.waiting)
    };
    assert_eq!(judge(0, download(1)), ("receive-window", true, vec![]));
    assert_eq!(judge(1000, page), ("receive-window", false, vec!["priority"]));
    // It was taken for something else once.
    assert_eq!(judge(2000, download(1)), ("receive-window", false, vec![]));
    assert_eq!(judge(3000, page), ("receive-window", false, vec!["priority"]));
    // Evaluations because others came judge the same measurements.
    assert_eq!(judge(3001, page), ("receive-window", false, vec!["priority"]));
    assert_eq!(judge(4000, page), ("priority", true, vec![]));
    // And back.
    assert_eq!(judge(5000, download(1)), ("priority", false, vec!["receive-window"]));
    assert_eq!(judge(6000, download(1)), ("receive-window", true, vec![]));
}

#[test]
fn a_constant_rate_that_fills_the_link_is_no_call() {
    let mut evaluator = evaluator(NONE);
    let at_rate = |mbps| FlowFacts { rate: Rate::from_mbps(mbps), ..call(1) };
    let mut name = |ms, mbps| names(&judge(&mut evaluator, ms, &[at_rate(mbps), download(2)], &[])[0])[0];
    assert_eq!(name(0, 48.0), "rate-control");
    // Now it has its share of 25 Mb/s, and would take more.
    assert_eq!([1000, 2000, 3000].map(|ms| name(ms, 24.0)), ["rate-control"; 3]);
    // A call has its own rate.
    assert_eq!([4000, 5000].map(|ms| name(ms, 3.0)), ["rate-control", "priority"]);
}

/// A strategy that a program outside this crate adds, after which others may follow.
#[derive(Debug)]
struct Watched;

impl Strategy for Watched {
    fn name(&self) -> &'static str {
        "watched"
    }

    fn propose(&self, case: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let why = Why::Other("somebody asked for it".into());
        (case.flow.id == 2).then_some(Proposal { action: Action::Other, why, ends: false })
    }
}

/// An input that a program outside this crate adds: a modem that knows its rate.
struct Modem;

impl Input for Modem {
    fn tell(&mut self, now: Instant, facts: &mut Facts) {
        facts.estimates.push(Estimate { at: now, ..estimate(Quantity::Narrow, 10.0, 0) });
    }
}

#[test]
fn inputs_and_strategies_can_be_added_from_outside() {
    let mut registry = Registry::default();
    registry.put_first(Box::new(Watched));
    let mut evaluator = Evaluator::new(Policy::default(), registry, mbps(50.0), NONE);
    let mut flows = Known(vec![download(1), download(2)], Vec::new());
    let decisions = evaluator.evaluate(at(0), &mut [&mut flows, &mut Modem]);
    assert_eq!(names(&decisions[0]), ["receive-window"]);
    assert_eq!(names(&decisions[1]), ["watched", "receive-window"]);
    assert!(
        decisions[1].to_string().starts_with("watched, because somebody asked for it; then it has a window")
    );
    // Half of 10 Mb/s for 40 ms.
    assert_eq!(window(&decisions[1]), 25_000);
}

/// One that allows anything.
#[derive(Debug)]
struct Generous;

impl Strategy for Generous {
    fn name(&self) -> &'static str {
        "generous"
    }

    fn propose(&self, _: &Case<'_>, _: &[Step]) -> Option<Proposal> {
        let action = Action::Window { limit: Bytes::new(u64::MAX) };
        Some(Proposal { action, why: Why::Other("it asked".into()), ends: true })
    }
}

fn flows() -> impl Strategy_<Value = Vec<FlowFacts>> {
    let flow = (0..8_u64, 0..4_usize, any::<bool>(), 0..500_i64, any::<Option<u8>>(), 0..200_u32);
    let flow = flow.prop_map(|(id, behaviour, is_tcp, rtt, scale, mbps)| FlowFacts {
        behaviour: Behaviour::ALL[behaviour],
        class: (id < 7).then_some(id as u32 % 3),
        side: Side::of((id % 2) as u8),
        is_tcp,
        rtt: (rtt > 0).then_some(Duration::from_ms(rtt)),
        scale,
        ecn: mbps % 2 == 0,
        rate: Rate::from_mbps(mbps.into()),
        ..download(id)
    });
    proptest::collection::vec(flow, 0..8)
}

use proptest::strategy::Strategy as Strategy_;

proptest! {
    #[test]
    fn no_limit_is_above_what_the_narrow_link_carries(
        rounds in proptest::collection::vec((flows(), 1..80_u32, 0..700_u64), 1..8),
        delta in 0.1..2.0_f64,
        is_generous in any::<bool>(),
    ) {
        let policy = Policy { delta, ..Policy::default() };
        let mut registry = Registry::default();
        if is_generous {
            registry.put_first(Box::new(Generous));
        }
        let mut evaluator = Evaluator::new(policy, registry, mbps(50.0), ALL);
        let mut now = 0;
        for (flows, narrow, later) in rounds {
            now += later;
            let known = Side::BOTH.map(|side| Estimate { side, ..estimate(Quantity::Narrow, narrow.into(), now) });
            let capacity = Rate::from_mbps(narrow.into()).min(Rate::from_mbps(50.0));
            let decisions = judge(&mut evaluator, now, &flows, &known);
            prop_assert_eq!(decisions.len(), flows.len());
            for (flow, decision) in flows.iter().zip(&decisions) {
                prop_assert_eq!(flow.id, decision.flow);
                prop_assert!(!decision.chain.is_empty());
                let most = flow.rtt.map(|rtt| capacity.bytes_in(rtt));
                for step in &decision.chain {
                    match step.action {
                        Action::Window { limit } => prop_assert!(limit <= most.unwrap()),
                        Action::Proxy { buffer } => prop_assert!(buffer <= most.unwrap()),
                        Action::Rate { rate } => prop_assert!(rate <= capacity),
                        _ => {}
                    }
                }
            }
        }
    }

    #[test]
    fn the_same_facts_give_the_same_decisions(
        rounds in proptest::collection::vec((flows(), 0..700_u64), 1..8),
    ) {
        let [mut one, mut other] = [evaluator(ALL), evaluator(ALL)];
        let mut now = 0;
        for (flows, later) in rounds {
            now += later;
            prop_assert_eq!(judge(&mut one, now, &flows, &[]), judge(&mut other, now, &flows, &[]));
        }
    }
}

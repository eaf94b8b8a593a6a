//! When a link is probed, and for how many bytes (wan F69).

use headway_edge::{Demand, Probe, ProbeKind, Probed, Prober};
use headway_units::{Bytes, Duration, Instant, PerSide, Rate, Side};
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

const BUDGET: Bytes = Bytes::new(50_000_000);

fn second(number: u64) -> Instant {
    Instant::from_ns(number * 1_000_000_000)
}

fn capacity(mbps: f64) -> Result<Probed, String> {
    Ok(Probed { capacity: Some([Rate::from_mbps(mbps); 3]), available: None })
}

/// A demand that passes this much towards the hosts.
fn demand(mbps: f64, presses: bool) -> Demand {
    Demand { rate: PerSide([Rate::from_mbps(mbps), Rate::ZERO]), presses: PerSide([presses, false]) }
}

/// Asks every second, and answers at once with a capacity; returns when each kind was
/// sent towards which side.
fn probes(
    prober: &mut Prober,
    seconds: std::ops::Range<u64>,
    demand: Demand,
    mbps: f64,
) -> Vec<(u64, ProbeKind, Side)> {
    let mut sent = Vec::new();
    for now in seconds {
        if let Some(probe) = prober.next(second(now), &demand) {
            sent.push((now, probe.kind, probe.side));
            prober.report(second(now), probe, probe.most, capacity(mbps));
        }
    }
    sent
}

#[test]
fn both_directions_are_measured_first_and_then_what_is_available_while_nobody_needs_the_link() {
    let mut prober = Prober::new(BUDGET);
    let sent = probes(&mut prober, 0..5, demand(0.0, false), 50.0);
    let [pairs, available] = [ProbeKind::Pairs, ProbeKind::Available];
    assert_eq!(
        sent,
        [(0, pairs, Side::Lan), (1, pairs, Side::Wan), (2, available, Side::Lan), (3, available, Side::Wan)]
    );
    // A fifth of the link is needed.
    let sent = probes(&mut prober, 5..295, demand(11.0, false), 50.0);
    assert_eq!(sent, []);
    assert_eq!(prober.state(second(295)).state, "waits: connections need the link");
    assert_eq!(
        probes(&mut prober, 295..302, demand(11.0, false), 50.0),
        [(300, pairs, Side::Lan), (301, pairs, Side::Wan)]
    );
    assert_eq!(
        prober.rates(second(310), Side::Lan)[1].as_ref().map(|rate| (rate.rate_bps, rate.age_ms)),
        Some((50_000_000, 10_000))
    );
}

#[test]
fn flows_that_use_all_have_the_capacity_measured_anew_and_seldom_if_it_stays() {
    let mut prober = Prober::new(BUDGET);
    probes(&mut prober, 0..4, demand(0.0, false), 20.0);
    let times = |sent: Vec<(u64, ProbeKind, Side)>| {
        sent.iter().filter(|sent| sent.2 == Side::Lan).map(|sent| sent.0).collect::<Vec<_>>()
    };
    let held = demand(20.0, true);
    // The measurement of what is available has confirmed it once.
    assert_eq!(times(probes(&mut prober, 100..290, held, 20.0)), [120, 160, 240]);
    // It has become another one: ten seconds again.
    assert_eq!(times(probes(&mut prober, 290..450, held, 50.0)), [400, 410, 430]);
}

#[test]
fn no_hour_costs_more_than_the_budget_whatever_is_asked_for() {
    for seed in 0..20 {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let budget = Bytes::new(random.random_range(2_000_000..80_000_000));
        let mut prober = Prober::new(budget);
        let mut spent: Vec<(u64, u64)> = Vec::new();
        let mut pending: Option<Probe> = None;
        for now in 0..10_000 {
            let demand = Demand {
                rate: PerSide([(); 2].map(|()| {
                    Rate::from_mbps(random.random_range(0.0..60.0) * f64::from(random.random_range(0..2)))
                })),
                presses: PerSide([random.random_bool(0.9), random.random_bool(0.9)]),
            };
            assert!(pending.is_none() || prober.next(second(now), &demand).is_none(), "one at a time");
            if let Some(probe) = pending.take_if(|_| random.random_bool(0.7)) {
                let cost = random.random_range(0..=probe.most.get());
                spent.push((now, cost));
                let result = match random.random_range(0..4) {
                    0 => Err("it is gone".to_owned()),
                    1 => Ok(Probed::default()),
                    _ => capacity(random.random_range(1.0..100.0)),
                };
                prober.report(second(now), probe, Bytes::new(cost), result);
            } else if pending.is_none() {
                pending = prober.next(second(now), &demand);
            }
            let hour: u64 = spent.iter().filter(|(at, _)| now - at < 3_600).map(|(_, cost)| cost).sum();
            assert!(hour <= budget.get(), "seed {seed}, {now} s: {hour} of {budget}");
            assert_eq!(prober.state(second(now)).spent_bytes, hour);
        }
        assert!(!spent.is_empty());
    }
}

#[test]
fn a_host_that_is_gone_is_tried_ever_less_often_and_its_capacity_is_forgotten() {
    let mut prober = Prober::new(BUDGET);
    probes(&mut prober, 0..4, demand(0.0, false), 20.0);
    let mut tried = Vec::new();
    for now in 300..2_000 {
        if let Some(probe) = prober.next(second(now), &demand(20.0, false)) {
            let why = Err("192.0.2.7: nobody answers".to_owned());
            prober.report(second(now), probe, Bytes::ZERO, why);
            tried.extend((probe.side == Side::Lan).then_some(now));
        }
    }
    let gaps: Vec<u64> = tried.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps[0] == 10 && gaps.is_sorted() && *gaps.last().unwrap() == 300, "{gaps:?}");
    assert_eq!(Side::BOTH.map(|side| prober.rates(second(2_000), side)[1].clone()), [None, None]);
    let state = prober.state(second(2_000)).state;
    assert!(
        state.starts_with("failed ") && state.contains("192.0.2.7: nobody answers; tries again in"),
        "{state}"
    );
}

#[test]
fn what_was_found_is_told_with_its_age() {
    let mut prober = Prober::new(BUDGET);
    let probe = prober.next(second(0), &Demand::default()).unwrap();
    let rates = |mbps: [f64; 3]| Some(mbps.map(Rate::from_mbps));
    let probed = Probed { capacity: rates([47.0, 46.9, 47.1]), available: rates([30.0, 28.0, 33.0]) };
    prober.report(second(2), probe, Bytes::new(90_500), Ok(probed));
    let [available, narrow] = prober.rates(second(7), Side::Lan).map(Option::unwrap);
    assert_eq!(
        [available.low_bps, available.rate_bps, available.high_bps],
        [28_000_000, 30_000_000, 33_000_000]
    );
    assert_eq!((narrow.rate_bps, narrow.age_ms, narrow.source.as_str()), (47_000_000, 5_000, "probes"));
    let state = prober.state(second(7));
    assert_eq!((state.spent_bytes, state.estimates), (90_500, 1));
    assert_eq!(
        state.state,
        "found a capacity of 47.0 Mb/s and available bandwidth of 30.0 Mb/s towards the hosts, for 90.5 kB"
    );
    // In the next hour it is forgotten what it cost.
    assert_eq!(prober.state(second(2) + Duration::from_ms(3_600_000)).spent_bytes, 0);
}

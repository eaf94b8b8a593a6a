use super::decision::{Decision, decide};
use super::*;
use crate::ppdd;
use crate::stream::{Arrival, StreamRecord};
use headway_units::{Bytes, Duration, Instant};

const PACKET: Bytes = Bytes::new(1_500);

fn mbps(capacities: &[u64]) -> Vec<Rate> {
    capacities.iter().map(|mbps| Rate::from_bps(mbps * 1_000_000)).collect()
}

fn reference() -> Vec<Rate> {
    mbps(&[500, 500, 400, 600, 300, 800, 600])
}

#[test]
fn rates_between_survivors_rise_in_steps_as_hidden_packets_die_earlier() {
    // wan F63: five hidden packets, first and last 40 us apart; and one hidden packet.
    let rate = |hidden: u32, ttl: u32| {
        let sent = Duration::from_us(40);
        Rate::of(PACKET, dispersion(&reference(), PACKET, hidden, sent, ttl)).expect("positive").mbps()
    };
    let near = |found: f64, expected: f64| assert!((found - expected).abs() < 0.01, "{found} {expected}");
    for (ttl, [five, one]) in
        [(7, [50.0, 150.0]), (5, [50.0, 150.0]), (4, [66.67, 200.0]), (1, [83.33, 250.0])]
    {
        near(rate(5, ttl), five);
        near(rate(1, ttl), one);
    }
    near(rate(5, 3), 66.67);
    near(rate(5, 2), 83.33);
}

#[test]
fn hidden_packets_must_outweigh_the_narrow_link() {
    let hidden = |prefix, narrow| hidden_for(Rate::from_mbps(prefix), Rate::from_mbps(narrow));
    assert_eq!(hidden(500.0, 300.0), 1);
    assert_eq!(hidden(500.0, 80.0), 6);
    assert_eq!(hidden(1_800.0, 300.0), 5);
    assert_eq!(hidden(300.0, 300.0), 1);
}

#[test]
fn a_train_spreads_its_packets_evenly() {
    let train = train(PACKET, Rate::from_mbps(300.0), 5);
    assert_eq!(train.gaps.len(), 6);
    assert_eq!(train.duration(), Duration::from_us(40));
    assert!(train.gaps.iter().all(|gap| [6_666, 6_667].contains(&gap.ns())));
    assert!((train.average.mbps() - 1_800.0).abs() < 0.01);
}

/// Trains over an idle path.
fn trains(capacities: &[Rate], hidden: u32, sent: Duration, ttl: u32, count: u32) -> StreamRecord {
    let packets = hidden + 2;
    let arrives = dispersion(capacities, PACKET, hidden, sent, ttl);
    let delivered = ttl as usize >= capacities.len();
    let arrival = |index: u32| {
        let (train, position) = (index / packets, index % packets);
        let gaps = i64::from(hidden) + 1;
        let since = |time: Duration| {
            Instant::from_ns(u64::from(train) * 20_000_000) + time * i64::from(position) / gaps
        };
        let survives = position == 0 || position + 1 == packets || delivered;
        Arrival {
            index,
            size: PACKET,
            sent: since(sent),
            received: survives.then(|| since(arrives) + Duration::from_ms(70)),
        }
    };
    let arrivals = (0..count * packets).map(arrival).collect();
    StreamRecord { id: 0, packet: PACKET, average: Rate::ZERO, intended: Vec::new(), arrivals }
}

/// Searches an idle path.
fn search(capacities: &[Rate], settings: Settings) -> Result<Location, Unlocated> {
    let narrow = *capacities.iter().min().expect("has links");
    let mut search = Search::new(PACKET, narrow, settings);
    for _ in 0..100 {
        match search.next_step() {
            Step::Done(answer) => return answer,
            Step::Send { ttl, trains: count } => {
                let sent = search.train().duration();
                search.observe(ttl, &trains(capacities, settings.hidden, sent, ttl, count as u32));
            }
        }
    }
    panic!("the search does not end");
}

#[test]
fn the_narrow_link_of_an_idle_path_is_found_at_every_hop() {
    for hop in 1..=7u32 {
        let mut capacities = vec![400, 600, 600, 600, 600, 600, 600];
        capacities[hop as usize - 1] = 300;
        let found = search(&mbps(&capacities), Settings::for_hops(7));
        assert_eq!(found, Ok(Location { hop, confidence: 1.0 }));
    }
    assert_eq!(search(&mbps(&[100]), Settings::for_hops(1)), Ok(Location { hop: 1, confidence: 1.0 }));
}

#[test]
fn the_printed_rule_finds_the_narrow_link_of_an_idle_path() {
    let settings = Settings { rule: Rule::Deviation(0.2), ..Settings::for_hops(7) };
    assert_eq!(search(&reference(), settings), Ok(Location { hop: 5, confidence: 1.0 }));
}

#[test]
fn four_groups_locate_the_narrow_link_of_the_reference_path() {
    // Groups 7, 6, 5, 4, and 3 to confirm.
    let rates = [50.0, 50.2, 49.9, 66.67, 66.5];
    for rule in [Rule::Step(0.2), Rule::Ratio(0.2)] {
        assert_eq!(decide(&rates[..3], 7, rule), Decision::Needs(4));
        assert_eq!(decide(&rates[..4], 7, rule), Decision::Needs(3));
        assert_eq!(decide(&rates, 7, rule), Decision::Hop(5));
    }
    // As printed, there is no confirmation.
    assert_eq!(decide(&rates[..4], 7, Rule::Deviation(0.2)), Decision::Hop(5));
}

#[test]
fn a_step_that_the_next_group_does_not_confirm_is_noise() {
    assert_eq!(decide(&[50.0, 50.0, 70.0, 50.0], 7, Rule::Ratio(0.2)), Decision::Needs(3));
}

#[test]
fn rates_that_creep_up_are_no_step_between_neighbours() {
    // At 50 % load behind a narrow first link.
    let rates = [34.5, 36.0, 37.6, 39.9, 42.3, 45.2, 48.9];
    assert_eq!(decide(&rates, 7, Rule::Step(0.2)), Decision::Hop(1));
    assert_eq!(decide(&rates, 7, Rule::Ratio(0.2)), Decision::Hop(2));
}

#[test]
fn a_sender_as_slow_as_the_narrow_link_cannot_locate_it() {
    let mut search = Search::new(PACKET, Rate::from_mbps(300.0), Settings::for_hops(2));
    while let Step::Send { ttl, trains: count } = search.next_step() {
        search.observe(ttl, &trains(&mbps(&[500, 300]), 5, Duration::from_us(250), ttl, count as u32));
    }
    assert_eq!(search.next_step(), Step::Done(Err(Unlocated::SenderTooSlow)));
}

#[test]
fn a_hop_that_loses_all_trains_ends_the_search() {
    let mut search = Search::new(PACKET, Rate::from_mbps(300.0), Settings::for_hops(7));
    for _ in 0..3 {
        assert_eq!(search.next_step(), Step::Send { ttl: 7, trains: 20 });
        let mut lost = trains(&reference(), 5, Duration::from_us(40), 7, 20);
        lost.arrivals.iter_mut().for_each(|arrival| arrival.received = None);
        search.observe(7, &lost);
    }
    assert_eq!(search.next_step(), Step::Done(Err(Unlocated::TooFewTrains { ttl: 7, usable: 0 })));
}

fn prefix(capacities: &[Rate], hidden: u32, sent: Duration, ttl: u32) -> Result<Rate, NotMeasured> {
    let mut pairs = ppdd::Pairs::of_trains(PACKET, hidden, ppdd::Settings::default());
    pairs.add_stream(&trains(capacities, hidden, sent, ttl, 50));
    prefix_capacity(&pairs, *capacities.iter().min().expect("has links"))
}

#[test]
fn prefixes_of_the_reference_path_have_400_and_500_mbps() {
    let sent = Duration::from_us(40);
    assert_eq!(prefix(&reference(), 5, sent, 3), Ok(Rate::from_mbps(400.0)));
    assert_eq!(prefix(&reference(), 5, sent, 2), Ok(Rate::from_mbps(500.0)));
}

#[test]
fn prefixes_are_refused_where_the_narrow_link_spreads_survivors_or_nothing_spreads_the_train() {
    // wan F66: 500 Mb/s above 80 Mb/s needs six hidden packets.
    let path = mbps(&[500, 80]);
    let sent = Rate::from_mbps(80.0).time_for(PACKET);
    let limit = Rate::from_mbps(480.0);
    assert_eq!(prefix(&path, 5, sent, 1), Err(NotMeasured::TooFewHidden { hidden: 5, limit, needed: 11 }));
    assert_eq!(prefix(&path, 6, sent, 1), Ok(Rate::from_mbps(500.0)));
    let slow = prefix(&mbps(&[500, 300]), 5, Duration::from_us(180), 1);
    assert_eq!(slow, Err(NotMeasured::NotSpread(Rate::from_mbps(400.0))));
}

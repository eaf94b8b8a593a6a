//! Packet pairs and trains with hidden packets over loaded chains of links (wan 4.7).

use headway_estimate::hire::{self, Search, Settings, Step};
use headway_estimate::ppdd::{self, Pairs};
use headway_estimate::slcs;
use headway_estimate::tight::{Loaded, growth, locate};
use headway_estimate::{Arrival, StreamRecord};
use headway_sim::sweep::{ChainLink, Probe, sweep};
use headway_sim::trains::Trains;
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};

const PACKET: Bytes = Bytes::new(1_500);
/// The path of the thesis, in Mb/s.
const REFERENCE: [u64; 7] = [500, 500, 400, 600, 300, 800, 600];

fn mbps(mbps: u64) -> Rate {
    Rate::from_bps(mbps * 1_000_000)
}

/// Links with 16 Pareto sources each; all packets of 1500 bytes, or random sizes.
fn chain(links: &[u64], load: f64, random: bool) -> Vec<ChainLink> {
    let link = |capacity: &u64| {
        let traffic = Traffic::Pareto {
            rate: mbps(*capacity).scale(load),
            sources: 16,
            shape: 1.9,
            size: PACKET,
            least_size: random.then_some(Bytes::new(40)),
            silence: Duration::ZERO,
            period: Duration::ZERO,
        };
        ChainLink { rate: mbps(*capacity), delay: Duration::from_ms(20), buffer: None, cross: vec![traffic] }
    };
    links.iter().map(link).collect()
}

/// Trains 5 ms apart, after 100 ms in which queues fill.
fn trains(gaps: Vec<Duration>, hidden_links: u32, count: usize) -> Trains {
    let (start, apart) = (Instant::from_ns(100_000_000), Duration::from_ms(5));
    Trains { start, apart, ..Trains::of(PACKET, gaps, hidden_links, count) }
}

fn pairs(chain: &[ChainLink], count: usize, seed: u64) -> Pairs {
    let sent = trains(vec![Duration::from_us(12)], 0, count).send(chain, seed);
    let mut pairs = Pairs::new(PACKET, ppdd::Settings::default());
    pairs.add_stream(&sent.record);
    assert_eq!((pairs.len(), pairs.identity_violations(2)), (count, 0));
    pairs
}

fn error(rate: Rate) -> f64 {
    (rate.mbps() / 300.0 - 1.0).abs()
}

#[test]
fn the_capacity_is_within_one_percent_up_to_30_percent_load_and_within_6_at_40() {
    // wan F59.
    for random in [false, true] {
        for (load, most) in [(0.1, 0.01), (0.3, 0.01), (0.4, 0.06)] {
            for seed in 1..=3 {
                let capacity =
                    pairs(&chain(&REFERENCE, load, random), 1_000, seed).capacity().expect("enough");
                assert!(error(capacity.rate) <= most, "{random} {load} {seed}: {capacity:?}");
            }
        }
    }
}

#[test]
fn among_random_sizes_the_filter_beats_the_highest_mode_at_50_to_70_percent_load() {
    // wan F60.
    for load in [0.5, 0.6, 0.7] {
        let pairs = pairs(&chain(&REFERENCE, load, true), 1_000, 1);
        let (found, mode) = (pairs.capacity().expect("enough").rate, pairs.raw_mode().expect("enough"));
        assert!(error(found) < error(mode), "{load}: {found} {mode}");
    }
}

#[test]
fn fifty_pairs_suffice_at_20_percent_load() {
    // wan F61.
    for seed in 1..=5 {
        let capacity = pairs(&chain(&REFERENCE, 0.2, true), 50, seed).capacity().expect("enough");
        assert!(error(capacity.rate) <= 0.06, "{seed}: {capacity:?}");
    }
}

/// Searches the narrow link of 300 Mb/s.
fn search(links: &[u64], load: f64, seed: u64) -> Option<u32> {
    let chain = chain(links, load, true);
    let mut search = Search::new(PACKET, mbps(300), Settings::for_hops(links.len() as u32));
    for step in 0.. {
        match search.next_step() {
            Step::Done(answer) => return answer.ok().map(|answer| answer.hop),
            Step::Send { ttl, trains: count } => {
                let sent = trains(search.train().gaps, ttl, count).send(&chain, seed * 1_000 + step);
                search.observe(ttl, &sent.record);
            }
        }
    }
    None
}

/// A path with the narrow link at `hop`.
fn narrow_at(hop: usize) -> [u64; 7] {
    let mut links = [400, 600, 600, 600, 600, 600, 600];
    links[hop - 1] = 300;
    links
}

#[test]
fn the_narrow_link_is_found_at_every_hop_at_20_percent_load() {
    // wan F64.
    for hop in 1..=7 {
        assert_eq!(search(&narrow_at(hop), 0.2, 1), Some(hop as u32));
    }
    assert_eq!(search(&REFERENCE, 0.2, 1), Some(5));
}

#[test]
fn no_other_hop_than_a_narrow_first_link_is_named_at_50_percent_load() {
    for seed in 1..=3 {
        let found = search(&[300, 600, 600, 600, 600, 600, 600], 0.5, seed);
        assert!([Some(1), None].contains(&found), "{found:?}");
    }
}

#[test]
fn a_thousand_trains_give_the_capacities_before_the_narrow_link() {
    // wan F65.
    let chain = chain(&REFERENCE, 0.2, true);
    let prefix = |links: u32| {
        let gaps = hire::train(PACKET, mbps(300), 5).gaps;
        let mut found = Pairs::of_trains(PACKET, 5, ppdd::Settings::default());
        found.add_stream(&trains(gaps, links, 1_000).send(&chain, u64::from(links)).record);
        hire::prefix_capacity(&found, mbps(300)).ok()
    };
    let mut measured: Vec<Option<Rate>> = (1..=4).map(prefix).collect();
    measured.push(Some(mbps(300)));
    let set: Vec<(f64, u32)> = slcs::of_prefixes(&measured, 0.03)
        .iter()
        .map(|member| (member.capacity.mbps(), member.hop))
        .collect();
    for (found, (capacity, hop)) in set.iter().zip([(300.0, 5), (400.0, 3), (500.0, 1)]) {
        assert!((found.0 / capacity - 1.0f64).abs() < 0.01 && found.1 == hop, "{set:?}");
    }
    assert_eq!(set.len(), 3);
}

/// Streams of 40 Mb/s of which every fifth packet survives and the others cross `links` links; returns how
/// fast delays grow in each.
fn loaded(chain: &[ChainLink], links: u32, seed: u64) -> Loaded {
    const PACKETS: u64 = 101;
    let all = chain.len() as u32;
    let probe = |index: u64| {
        let (stream, position) = (index / PACKETS, index % PACKETS);
        let at = Instant::from_ns(100_000_000 + stream * 200_000_000 + position * 300_000);
        Probe { at, size: PACKET, links: if position % 5 == 0 { all } else { links } }
    };
    let probes: Vec<Probe> = (0..8 * PACKETS).map(probe).collect();
    let times = sweep(chain, &probes, seed);
    let arrival = |(probe, time): (&Probe, &Option<Instant>)| Arrival {
        index: 0,
        size: PACKET,
        sent: probe.at,
        received: time.filter(|_| probe.links == all),
    };
    let arrivals: Vec<Arrival> = probes.iter().zip(&times).map(arrival).collect();
    let stream = |packets: &[Arrival]| StreamRecord {
        id: 0,
        packet: PACKET,
        average: mbps(40),
        intended: Vec::new(),
        arrivals: packets.to_vec(),
    };
    let growths = arrivals.chunks(PACKETS as usize).filter_map(|packets| growth(&stream(packets))).collect();
    Loaded { ttl: links, growths }
}

#[test]
fn the_tight_link_is_found_where_it_is_not_the_narrow_one() {
    // 48 Mb/s are free on the narrow link, and 32 Mb/s on a link of 80 Mb/s at each other hop.
    let (mut right, mut all) = (0, 0);
    for tight in [1, 3, 4, 5] {
        for seed in 1..=10 {
            let mut links = vec![ChainLink { ..chain(&[100], 0.2, true)[0].clone() }; 5];
            links[1] = chain(&[60], 0.2, true)[0].clone();
            links[tight - 1] = chain(&[80], 0.6, true)[0].clone();
            let groups: Vec<Loaded> =
                (1..=5).map(|ttl| loaded(&links, ttl, seed * 10 + u64::from(ttl))).collect();
            all += 1;
            right += u32::from(locate(&groups).is_ok_and(|found| found.hop == tight as u32));
        }
    }
    println!("{right} of {all} right");
    assert!(right * 100 >= all * 85, "{right} of {all}");
}

//! Links that share a channel of 802.11.

use std::path::Path;

use crate::support::*;
use headway_formulas::SaturatedChannel;
use headway_record::Results;
use headway_scenario::{Change, Scenario};
use headway_sim::config::Station;
use headway_sim::{LinkConfig, LinkId, Network, Run};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration};

fn station(address: u32, rate: f64, damage: f64) -> Station {
    Station { address, rate: mbps(rate), retries: 7, damage }
}

/// A network of stations that share a channel.
fn share(stations: &[Station]) -> (Network, Vec<LinkId>) {
    let mut network = Network::new(1);
    let channel = network.add_channel();
    let links = stations.iter().map(|one| LinkConfig {
        wifi: Some((channel, *one)),
        ..link(one.rate, Duration::from_us(1), drop_tail(Some(100_000)))
    });
    let links: Vec<LinkConfig> = links.collect();
    let links = links.iter().map(|config| network.add_link(config)).collect();
    (network, links)
}

/// Lets datagrams arrive at this rate at each station for ten seconds.
fn load(network: &mut Network, links: &[LinkId], rate: f64) {
    for link in links {
        let traffic = Traffic::Cbr { rate: mbps(rate), size: Bytes::new(SEGMENT) };
        network.add_source(&source(*link, traffic));
    }
    network.run_until(at(10.0));
}

#[test]
fn saturated_links_share_the_throughput_of_bianchi() {
    let stations: Vec<Station> = (1..=5).map(|one| station(one, 54.0, 0.0)).collect();
    let (mut network, links) = share(&stations);
    load(&mut network, &links, 54.0);
    let delivered: u64 = links.iter().map(|link| network.link(*link).statistics().delivered.packets).sum();
    // SIFS and two slots lie between the end of an exchange and the first slot.
    let kept = Duration::from_ns(stations[0].exchange(SEGMENT as u16) as i64 + 34_000);
    let (slot, retries) = (Duration::from_us(9), Some(7));
    let channel = SaturatedChannel {
        stations: 5,
        window: 16,
        doublings: 6,
        retries,
        slot,
        success: kept,
        collision: kept,
    };
    assert_near("frames", delivered as f64 / 10.0, channel.frames_per_second(), 0.03);
}

#[test]
fn frames_that_are_given_up_are_lost_and_every_packet_is_accounted_for() {
    let stations = [station(1, 24.0, 0.5), station(2, 6.0, 0.0)].map(|one| Station { retries: 1, ..one });
    let (mut network, links) = share(&stations);
    load(&mut network, &links, 20.0);
    let [damaged, clean] = [0, 1].map(|index| network.link(links[index]));
    for link in [damaged, clean] {
        let seen = link.statistics();
        let over = seen.delivered.packets + seen.lost.packets + seen.dropped.packets;
        assert_eq!(seen.arrived.packets, over + link.queued().packets + link.in_flight());
    }
    let lost = |link: &headway_sim::Link| {
        let seen = link.statistics();
        seen.lost.packets as f64 / (seen.lost.packets + seen.delivered.packets) as f64
    };
    // Both of two attempts are damaged, or meet one of the other station.
    assert!((0.25..0.5).contains(&lost(damaged)) && lost(clean) < 0.1, "{} {}", lost(damaged), lost(clean));
}

/// Runs the shipped scenario for ten seconds with these changes.
fn shipped(seed: u64, changes: &[&str]) -> Results {
    let text = include_str!("../../../../scenarios/wifi.toml");
    let mut all: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
    all.extend(["duration=\"12 s\"", "warmup=\"2 s\""].map(|text| text.parse().unwrap()));
    let scenario = Scenario::parse(text, Path::new("wifi.toml"), &all).unwrap();
    let mut run = Run::new(&scenario, seed, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let text = |results: Results| [results.flows_csv(), results.links_csv(), results.tcp_csv()].join("\n");
    let [one, again, other] = [1, 1, 2].map(|seed| text(shipped(seed, &[])));
    assert!(one == again && one != other);
}

/// xcp-rcp 2.11: WXCP divides time on the air; by turns both would have the rate of the slow one.
#[test]
fn wxcp_divides_time_and_other_laws_divide_turns() {
    let rates = |changes: &[&str]| -> [f64; 2] {
        let results = shipped(1, changes);
        [0, 1].map(|flow: usize| results.flows[flow].goodput_bps as f64 / 1e6)
    };
    let [near, far] = rates(&[]);
    let [near_time, far_time] =
        [(near, 54.0), (far, 6.0)].map(|(rate, frames)| rate * station(1, frames, 0.0).exchange(1538) as f64);
    assert_near("time on the air", near_time, far_time, 0.2);
    let [near, far] = rates(&["link.0.queue.kind=xcp-b", "link.1.queue.kind=xcp-b"]);
    assert_near("rates by turns", near, far, 0.2);
}

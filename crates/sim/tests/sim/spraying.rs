//! Packets that take turns over parallel links.

use std::path::Path;

use crate::support::*;
use headway_control::Kind;
use headway_record::Results;
use headway_scenario::Scenario;
use headway_sim::config::Burst;
use headway_sim::{Network, Run, TapEvent, TapPlace, TcpConfig};
use headway_units::{Bytes, Duration};

const MS: fn(i64) -> Duration = Duration::from_ms;

/// Runs a scenario in which packets are sprayed over two links of 50 Mb/s with these delays in milliseconds.
fn run(delays: [u32; 2], rest: &str) -> Results {
    let link = |delay: u32| {
        format!(
            "[[link]]\nfrom = \"r\"\nto = \"b\"\nrate = \"50 Mb/s\"\ndelay = \"{delay} ms\"\nspray = true\n"
        )
    };
    let host = "[[link]]\nfrom = \"a\"\nto = \"r\"\nrate = \"1 Gb/s\"\ndelay = \"1 ms\"\n";
    let text = format!("duration = \"5 s\"\n{host}{}{}{rest}", link(delays[0]), link(delays[1]));
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap();
    let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

#[test]
fn two_links_carry_a_stream_that_is_too_much_for_one() {
    let traffic =
        "[[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"cbr\"\nrate = \"95 Mb/s\"\nsize = \"1000 B\"";
    let results = run([5, 5], traffic);
    let source = &results.summary.traffic[0];
    // 12 ms of it are on the way at the end.
    assert!(source.sent - source.delivered < 150, "{source:?}");
    let named = |name: &str| results.summary.links.iter().find(|link| link.link == name).unwrap();
    let [first, second] = ["r->b", "r->b (2)"].map(named);
    assert!(first.arrived.abs_diff(second.arrived) <= 1 && first.dropped + second.dropped == 0);
    assert_near("each half", first.cross_bps as f64, 47.5e6, 0.01);
}

/// Returns the share of segments that arrive behind one with a higher number.
fn reordered(delays: [i64; 2]) -> f64 {
    let mut network = Network::new(1);
    let links = delays.map(|delay| network.add_link(&link(mbps(50.0), MS(delay), drop_tail(None))));
    let back = network.add_link(&wire(MS(5)));
    network.spray(&links);
    let tap = network.add_tap();
    let config = flow(window(50), links[0], back);
    network.add_tcp(&TcpConfig { taps: vec![(tap, TapPlace::Receiver)], ..config });
    network.run_until(at(2.0));
    let mut records = Vec::new();
    network.take_tap_records(tap, &mut records);
    let (mut highest, mut behind, mut all) = (0, 0, 0);
    for record in records {
        if let TapEvent::Segment { sequence, retransmitted: false } = record.event {
            all += 1;
            behind += u32::from(sequence < highest);
            highest = highest.max(sequence);
        }
    }
    assert!(all > 5_000, "{all}");
    f64::from(behind) / f64::from(all)
}

#[test]
fn unequal_delays_reorder_and_equal_ones_do_not() {
    assert_eq!(reordered([10, 10]), 0.0);
    // Half of the packets take the longer way, and all of them meet later ones.
    assert_near("reordered", reordered([10, 15]), 0.5, 0.02);
}

#[test]
fn tcp_survives_links_of_unequal_delay() {
    for controller in ["reno", "cubic", "bbr"] {
        let flow = format!("[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"{controller}\"");
        let goodput = |delays| run(delays, &flow).summary.total.goodput_bps as f64 / 1e6;
        let (equal, unequal) = (goodput([10, 10]), goodput([10, 14]));
        println!("{controller}: {equal} {unequal}");
        assert!(equal > 80.0 && unequal > 0.8 * equal, "{controller}: {equal} {unequal}");
    }
}

#[test]
fn segments_from_the_host_of_a_bundle_are_sprayed_too_and_come_back() {
    let mut network = Network::new(1);
    let mut pair = || [0, 1].map(|_| network.add_link(&link(mbps(50.0), MS(5), drop_tail(None))));
    let (there, back) = (pair(), pair());
    network.spray(&there);
    network.spray(&back);
    let size = segments(5_000);
    let config = TcpConfig { size: Some(size), burst: Burst::Host, ..flow(Kind::Cubic, there[0], back[0]) };
    let id = network.add_tcp(&config);
    network.run_until(at(10.0));
    let flow = network.flow(id);
    assert!(flow.finished.is_some() && flow.goodput == size && flow.retransmitted == 0, "{flow:?}");
    for links in [there, back] {
        let counts = links.map(|id| network.link(id).statistics().arrived.packets);
        assert!(counts[0] > 1_000 && counts[0].abs_diff(counts[1]) <= 1, "{counts:?}");
    }
}

#[test]
fn what_is_free_on_links_that_take_turns_is_that_of_both() {
    let measure = "[[measure]]\nfrom = \"a\"\nto = \"b\"\nevery = \"1 s\"\n";
    let traffic =
        "[[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"poisson\"\nrate = \"40 Mb/s\"\nsize = \"1000 B\"\n";
    for (rest, free) in [(measure.to_owned(), 100e6), (format!("{measure}{traffic}"), 60e6)] {
        let results = run([10, 10], &rest);
        let measured = &results.summary.measurements;
        // A single one sees some thousand packets of others, which vary by 2 %.
        let free_bps: Vec<f64> =
            measured.iter().filter_map(|one| one.free_bps).map(|bps| bps as f64).collect();
        let mean = free_bps.iter().sum::<f64>() / free_bps.len() as f64;
        assert_near("free", mean, free, 0.015);
        assert_near("capacity", measured[0].narrow_bps.unwrap() as f64, 100e6, 0.001);
        assert!(results.streams.iter().all(|(_, stream)| stream.free.is_none()));
    }
}

//! What a router pays for the edge: packets per second that it forwards in single segments with plain Linux,
//! with the programs and no connection limited, and with 10 000 connections in their table and this one
//! limited; and ns for each packet.
//!
//! `cargo bench -p headway-kernel --bench edge`, as root. The three take turns, so that load on the
//! machine affects all alike.
#![allow(clippy::unwrap_used, reason = "a bench that cannot run says why by failing")]

#[path = "../tests/arrival/mod.rs"]
mod arrival;
#[path = "../tests/path/mod.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod path;
#[path = "../../arithmetic/tests/flow/support.rs"]
#[allow(dead_code, reason = "tests of the arithmetic use all of it")]
mod support;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use arrival::Arrival;
use headway_arithmetic::flow::{Rule, Rules, flag};
use headway_kernel::{Edge, EdgeInterface, EdgeOptions, MOST_CLASSES, Shares, cpu_time, enable_timing};
use path::{MEGABYTE, ROUTED_V4, Routed, close, transfer};
use support::{Segment, scaled};

const ROUNDS: usize = 7;
/// Bytes of a transfer, some tenths of a second.
const BYTES: usize = 100 * MEGABYTE;
const CONNECTIONS: u32 = 10_000;
/// Bytes of IP and TCP headers with timestamps.
const HEADERS: usize = 52;
/// A share with which the window of this path is lowered, and is still large enough not to slow it: 40 Gb/s.
const AMPLE: u64 = 5 << 40;

fn main() {
    for payload in [536, 1448] {
        let Some(path) = Routed::new() else { return };
        single_segments(&path, payload);
        let mut rates: [Vec<f64>; 3] = Default::default();
        let mut costs: Vec<f64> = Vec::new();
        for _ in 0..ROUNDS {
            rates[0].push(packets_per_second(&path, payload));
            let idle = start(&path, 0);
            rates[1].push(packets_per_second(&path, payload));
            drop(idle);
            let busy = start(&path, CONNECTIONS);
            rates[2].push(packets_per_second(&path, payload));
            costs.push(nanoseconds(&path, payload, &busy));
        }
        println!("segments of {payload} bytes, one by one");
        let names = ["plain Linux", "the edge, nothing limited", "the edge, 10 000 connections"];
        for (name, rates_of) in names.iter().zip(&rates) {
            let ratios: Vec<f64> = rates_of.iter().zip(&rates[0]).map(|(rate, plain)| rate / plain).collect();
            let [low, middle, high] = quartiles(ratios);
            let packets = quartiles(rates_of.clone())[1] / 1e3;
            println!("  {name:29} {packets:6.0} k packets/s, {middle:.3} of plain ({low:.3} to {high:.3})");
        }
        let [low, middle, high] = quartiles(costs);
        println!("  {middle:.0} ns a packet ({low:.0} to {high:.0})");
    }
}

/// Makes the hosts send segments of this payload, one by one.
fn single_segments(path: &Routed, payload: usize) {
    for host in [&path.client, &path.server] {
        host.ip(format!("link set eth0 gso_max_segs 1 mtu {}", (payload + HEADERS).max(1280)));
    }
    if payload + HEADERS < 1280 {
        // IPv6 does not allow so small an MTU, so the largest segment is that of a route.
        path.client.ip(format!("route change default via 10.78.1.254 advmss {}", payload + 12));
        path.server.ip(format!("route change default via 10.78.2.254 advmss {}", payload + 12));
    }
}

/// Starts the edge with this many connections in its table; without any it limits none.
fn start(path: &Routed, connections: u32) -> Arc<Edge> {
    let (edge, wan) = path.router.run(|| {
        let [lan, wan] = ["lan", "wan"].map(|name| EdgeInterface::find(name).unwrap());
        let mut rules = Rules::default();
        rules.push(Rule::any(0));
        (Edge::start([&lan, &wan], &EdgeOptions::default(), &rules).unwrap(), wan.index)
    });
    let arrivals = Arrival::of(&edge, wan);
    for number in 0..connections {
        let ends = [(client(number), 1024 + (number % 50_000) as u16), (IpAddr::from([10, 9, 9, 9]), 443)];
        let segment = |from: usize, flags| {
            let mut segment = Segment::new(ends[from], ends[1 - from], flags);
            segment.options = if flags & flag::SYN != 0 { scaled(7) } else { Vec::new() };
            let begun = [0, 1, 1][usize::from(flags & flag::SYN == 0) + usize::from(from == 1)];
            (segment.sequence, segment.acknowledgement) = if from == 0 {
                (1000 + u32::from(flags & flag::SYN == 0), 5001)
            } else {
                (5000, 1000 + begun)
            };
            segment.ethernet()
        };
        arrivals[0].of_frame(&mut segment(0, flag::SYN));
        arrivals[1].of_frame(&mut segment(1, flag::SYN | flag::ACK));
        arrivals[0].of_frame(&mut segment(0, flag::ACK));
    }
    assert_eq!(edge.counters().unwrap().begun, u64::from(connections));
    let shares: Shares = [[if connections > 0 { AMPLE } else { 0 }; MOST_CLASSES]; 2];
    edge.say(&shares, 0, 0).unwrap();
    Arc::new(edge)
}

fn client(number: u32) -> IpAddr {
    IpAddr::from((0x0a0a_0000 + number / 100).to_be_bytes())
}

/// Returns how many segments pass in a second.
fn packets_per_second(path: &Routed, payload: usize) -> f64 {
    let (socket, mut peer) = path.connect(ROUTED_V4[1]);
    let begun = Instant::now();
    transfer(&socket, &mut peer, BYTES);
    let rate = (BYTES / payload) as f64 / begun.elapsed().as_secs_f64();
    close(&socket, peer);
    rate
}

/// Returns the mean time of the programs for a packet during a transfer.
fn nanoseconds(path: &Routed, payload: usize, edge: &Edge) -> f64 {
    let programs = edge.programs().unwrap();
    let totals = || {
        let times = cpu_time(&programs);
        times.iter().fold((0, 0), |sum, time| (sum.0 + time.nanoseconds, sum.1 + time.calls))
    };
    edge.say(&[[AMPLE; MOST_CLASSES]; 2], 0, 0).unwrap();
    let _timing = enable_timing().unwrap();
    let before = totals();
    packets_per_second(path, payload);
    let after = totals();
    (after.0 - before.0) as f64 / (after.1 - before.1).max(1) as f64
}

fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    [values[last / 4], values[values.len() / 2], values[last * 3 / 4]]
}

//! Shows a page with made-up numbers, to look at it without a router:
//! `cargo run -p headway-web --example made_up [ADDRESS [TEXT]]`.
//!
//! Nothing that it shows was measured. It begins with a year and an hour, and then publishes a snapshot each
//! second until it is killed. TEXT stands for every name and sentence, to see what a hostile one does.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use headway_edge::snapshot::{
    DecisionState, FlowState, LinkState, PathState, ProbeState, RateState, Snapshot,
};
use headway_history::{Reader, SIZE, Store, Writer};
use headway_web::Server;

/// Seconds of the past that are made up at the start.
const PAST: u64 = 3600;
const CAPACITY_BPS: [f64; 2] = [50e6, 10e6];

/// What a flow is, before its numbers are made up.
struct Kind {
    class: Option<&'static str>,
    behaviour: &'static str,
    rule: &'static str,
    share: [f64; 2],
    port: u16,
    limited_by: &'static str,
    decision: &'static str,
    strategies: &'static [&'static str],
}

const KINDS: [Kind; 6] = [
    Kind {
        class: Some("downloads"),
        behaviour: "bulk",
        rule: "it sent large packets without a pause for 5 s",
        share: [0.30, 0.006],
        port: 443,
        limited_by: "receive window",
        decision: "is held at its receive window to 14.2 Mb/s, because three bulk flows share 42.6 Mb/s that are available",
        strategies: &["rwm"],
    },
    Kind {
        class: Some("downloads"),
        behaviour: "bulk",
        rule: "it sent large packets without a pause for 5 s",
        share: [0.24, 0.005],
        port: 443,
        limited_by: "congestion",
        decision: "passes as it is, because its handshake was not seen",
        strategies: &["pass"],
    },
    Kind {
        class: Some("calls"),
        behaviour: "cbr",
        rule: "its gaps vary by less than 10 %",
        share: [0.002, 0.01],
        port: 3478,
        limited_by: "application",
        decision: "passes first, because its rate is constant and 0.2 % of the link",
        strategies: &["priority", "pass"],
    },
    Kind {
        class: Some("rest"),
        behaviour: "interactive",
        rule: "it has small packets and pauses above 200 ms",
        share: [0.001, 0.002],
        port: 22,
        limited_by: "application",
        decision: "passes first, because delay hurts it and it leaves room for others",
        strategies: &["priority"],
    },
    Kind {
        class: Some("backup"),
        behaviour: "bulk",
        rule: "it sent large packets without a pause for 5 s",
        share: [0.004, 0.5],
        port: 873,
        limited_by: "receive window",
        decision: "is held at its receive window to 5.0 Mb/s, because the class backup has half of what is available upwards",
        strategies: &["rwm"],
    },
    Kind {
        class: None,
        behaviour: "unknown",
        rule: "it has had fewer than 20 packets",
        share: [0.0, 0.0],
        port: 53,
        limited_by: "unknown",
        decision: "passes as it is, because nothing is known of it yet",
        strategies: &["pass"],
    },
];

/// A slow wave between 0 and 1 that differs for each number.
fn wave(second: u64, number: u64) -> f64 {
    let at = second as f64 / (17.0 + 13.0 * number as f64);
    0.5 + 0.25 * at.sin() + 0.25 * (at * 3.7 + number as f64).sin()
}

fn rate(bps: f64, width: f64, age_ms: u64, source: &str) -> RateState {
    let [rate_bps, low_bps, high_bps] = [bps, bps * (1.0 - width), bps * (1.0 + width)].map(|bps| bps as u64);
    RateState { rate_bps, low_bps, high_bps, age_ms, source: source.to_owned() }
}

fn link(second: u64, side: usize) -> LinkState {
    let capacity = CAPACITY_BPS[side];
    let load = 0.35 + 0.6 * wave(second, side as u64 + 1);
    let free = capacity * (1.02 - load * 0.55);
    let age_ms = 1000 * (second % 20);
    let mut available = vec![rate(free, 0.12 + 0.1 * wave(second, 5), 400, "passive")];
    if side == 0 {
        available.push(rate(free * 1.04, 0.3, age_ms, "probes to 192.0.2.50"));
    }
    LinkState {
        capacity_bps: capacity as u64,
        rate_bps: (capacity * load * 0.9) as u64,
        available,
        followed: (side == 0).then(|| "probes to 192.0.2.50".to_owned()),
        narrow: vec![rate(capacity * 0.985, 0.015, age_ms, "pairs")],
    }
}

fn flow(second: u64, number: usize) -> FlowState {
    let kind = &KINDS[number % KINDS.len()];
    let swing = 0.6 + 0.8 * wave(second, number as u64);
    let [down, up] = [0, 1].map(|side| (kind.share[side] * CAPACITY_BPS[side] * swing) as u64);
    let held = kind.limited_by == "receive window";
    FlowState {
        id: 100 + number as u64,
        protocol: if matches!(kind.behaviour, "cbr" | "unknown") { "udp" } else { "tcp" }.to_owned(),
        client: ([192, 168, 1, 10 + number as u8], 50_000 + 37 * number as u16).into(),
        server: ([203, 0, 113, 4 + 3 * number as u8], kind.port).into(),
        class: kind.class.map(str::to_owned),
        behaviour: kind.behaviour.to_owned(),
        rule: kind.rule.to_owned(),
        down_bps: down,
        up_bps: up,
        rtt_ns: (kind.behaviour != "unknown").then_some((18.0e6 + 9e6 * number as f64) as u64),
        window_bytes: (kind.port != 3478 && kind.port != 53).then_some(3_145_728),
        window_let_through_bytes: held.then_some((53_000.0 * swing) as u64),
        limited_by: kind.limited_by.to_owned(),
        mean_gap_ns: (12e9 / (down.max(up) as f64 + 4000.0)) as u64 * 1000,
        burstiness: 0.05 + wave(second, 3 + number as u64),
        decision: kind.decision.to_owned(),
    }
}

fn decision(second: u64, time_ms: u64) -> DecisionState {
    let number = (second / 7) as usize % 11;
    let kind = &KINDS[number % KINDS.len()];
    let flow = flow(second, number);
    DecisionState {
        time_ms,
        flow: flow.id,
        client: flow.client,
        server: flow.server,
        behaviour: flow.behaviour,
        strategies: kind.strategies.iter().map(ToString::to_string).collect(),
        sentence: kind.decision.to_owned(),
    }
}

fn path(second: u64, to: &str, number: u64) -> PathState {
    let bps = 20e6 / (number + 1) as f64 * (0.5 + wave(second, number));
    PathState {
        to: to.to_owned(),
        connections: 7 - 2 * number,
        rate_bps: bps as u64,
        rtt_ns: Some(18_000_000 + number * 27_000_000),
        capacity_bps: (number < 2).then_some(49_200_000),
        available: (number < 2).then(|| rate(bps * 1.4, 0.25, 300 + number * 900, "passive")),
        limited_by: Some(["receive window", "congestion", "application"][number as usize].to_owned()),
    }
}

/// Makes up a second.
fn snapshot(second: u64, time_ms: u64) -> Snapshot {
    let flows: Vec<FlowState> = (0..11).map(|number| flow(second, number)).collect();
    let decides = second.is_multiple_of(7);
    Snapshot {
        time_ms,
        lan: "made-up-lan".to_owned(),
        wan: "made-up-wan".to_owned(),
        dry_run: true,
        links: [link(second, 0), link(second, 1)],
        paths: ["203.0.113.0/24", "198.51.100.0/24", "2001:db8:7::/48"]
            .iter()
            .zip(0..)
            .map(|(to, number)| path(second, to, number))
            .collect(),
        flows_in_all: flows.len() as u64,
        flows,
        decisions: if decides { vec![decision(second, time_ms)] } else { Vec::new() },
        probes: Some(ProbeState {
            budget_bytes: 50_000_000,
            spent_bytes: 12_400_000 + second % 3600 * 900,
            estimates: 31,
            state: "waits, because the link is needed: 82 % of its capacity is used".to_owned(),
        }),
        lowered_segments: second * 911,
        segments: second * 4203,
        other_packets: second * 388,
        history_lost: Some(0),
    }
}

/// Puts a text in the place of every other.
fn rename(snapshot: &mut Snapshot, text: &str) {
    let put = |place: &mut String| text.clone_into(place);
    [&mut snapshot.lan, &mut snapshot.wan].into_iter().for_each(put);
    for link in &mut snapshot.links {
        link.available.iter_mut().chain(&mut link.narrow).for_each(|rate| put(&mut rate.source));
    }
    for path in &mut snapshot.paths {
        put(&mut path.to);
        path.limited_by.iter_mut().for_each(put);
    }
    for flow in &mut snapshot.flows {
        flow.class = Some(text.to_owned());
        let texts = [
            &mut flow.protocol,
            &mut flow.behaviour,
            &mut flow.rule,
            &mut flow.limited_by,
            &mut flow.decision,
        ];
        texts.into_iter().for_each(put);
    }
    for decision in &mut snapshot.decisions {
        [&mut decision.behaviour, &mut decision.sentence].into_iter().for_each(put);
        decision.strategies = vec![text.to_owned()];
    }
    snapshot.probes.iter_mut().for_each(|probes| put(&mut probes.state));
}

/// Makes up what a router kept: further back with fewer points.
fn write_history(path: &Path, now_ms: u64, text: Option<&str>) -> Result<(), headway_history::Error> {
    const DAY: u32 = 24 * 3600;
    let writer = Writer::start(Store::open(path, SIZE)?)?;
    let year = (DAY * 30..DAY * 365).step_by(7200);
    let month = (DAY..DAY * 30).step_by(600);
    let day = (0..DAY).step_by(10);
    for (ago, place) in year.rev().chain(month.rev()).chain(day.rev()).map(u64::from).zip(0..) {
        // Slower than a second, so that there are waves to see.
        let second = place * 7 / 20;
        let mut snapshot = snapshot(second, now_ms - ago * 1000);
        text.into_iter().for_each(|text| rename(&mut snapshot, text));
        // Until the writer has room for it.
        loop {
            let lost = writer.lost();
            writer.push(&snapshot);
            if writer.lost() == lost {
                break;
            }
            std::thread::yield_now();
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listen: SocketAddr = std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:0").parse()?;
    let text = std::env::args().nth(2);
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
    let folder = tempfile::tempdir()?;
    let history = folder.path().join("history");
    write_history(&history, now_ms, text.as_deref())?;
    let server = Server::start(listen, None, Some(Reader::open(&history)?))?;
    // The reader has what it needs open, and whoever kills this leaves nothing behind.
    drop(folder);
    let publish = |second: u64, time_ms: u64| {
        let mut snapshot = snapshot(second, time_ms);
        text.iter().for_each(|text| rename(&mut snapshot, text));
        server.publish(&snapshot);
    };
    for second in 0..PAST {
        publish(second, now_ms - (PAST - second) * 1000);
    }
    println!("http://{}/ has made-up numbers", server.address());
    for second in PAST.. {
        publish(second, now_ms + (second - PAST) * 1000);
        std::thread::sleep(Duration::from_secs(1));
    }
    Ok(())
}

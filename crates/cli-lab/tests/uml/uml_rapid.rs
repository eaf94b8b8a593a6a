//! TCP Rapid on the Linux stack and in the simulator.
//!
//! Where no kernel has been built, which takes minutes, these tests say so and pass.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use crate::packets::{Packet, packets};
use crate::support::PROGRAM;
use crate::support::kernels::{Try, has_debug_kernel, has_kernel};
use serde_json::Value;

/// One flow over 1 Gb/s with an RTT of 10 ms.
const BARE: &str = r#"
duration = "4 s"
warmup = "1500 ms"
mtu = 9000
[[link]]
from = "sender"
to = "receiver"
rate = "1 Gb/s"
delay = "5 ms"
buffer = "1 MB"
loss = 0.001
[[flow]]
from = "sender"
to = "receiver"
controller = "rapid"
offload = false
receive-buffer = "20 MB"
"#;
/// A program that says what the module has counted.
const COUNTS: &str = r#"
[[program]]
at = "sender"
command = "sleep 3.9; grep . /sys/module/headway_rapid/parameters/*"
"#;
const BESIDE: &str = r#"
[host.receiver]
coalescing = "120 us"
[[traffic]]
from = "sender"
to = "receiver"
model = "poisson"
rate = "250 Mb/s"
"#;

/// Packets in two p-streams, which the window never falls below (rapid F17).
const TWO_STREAMS: u64 = 128;

/// Runs in the simulator.
fn simulated(scenario: &str, args: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let [file, results] = ["x.toml", "out"].map(|name| folder.path().join(name));
    std::fs::write(&file, scenario).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("run").arg(file).args(["--on", "sim", "--output"]).arg(&results);
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&std::fs::read(results.join("summary.json")).unwrap()).unwrap()
}

fn goodput(summary: &Value) -> f64 {
    summary["total"]["goodput_bps"].as_f64().unwrap()
}

fn loss(summary: &Value) -> f64 {
    summary["links"][0]["loss"].as_f64().unwrap()
}

/// What the module has counted below a name.
fn counted(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.split_once(&format!("/{name}:")));
    value.unwrap_or_else(|| panic!("{name} in {text}")).1.parse().unwrap()
}

/// rapid F16, F17 and F18, over random losses.
#[test]
fn losses_neither_shrink_the_window_nor_empty_the_queue_nor_overflow_the_ring() {
    if !has_kernel() {
        return;
    }
    let attempt = Try::new(&format!("{BARE}{COUNTS}"));
    let summary = attempt.summary(&[]);
    let should = goodput(&simulated(BARE, &[]));
    assert!((goodput(&summary) / should - 1.0).abs() < 0.05, "{} and {should}", goodput(&summary));
    let rows = std::fs::read_to_string(attempt.path("out/tcp.csv")).unwrap();
    let windows: Vec<u64> =
        rows.lines().skip(1).map(|line| line.split(',').nth(2).unwrap().parse().unwrap()).collect();
    assert!(windows.len() > 30 && windows.iter().all(|window| *window >= TWO_STREAMS), "{windows:?}");
    let program = std::fs::read_to_string(attempt.path("out/program-0.out")).unwrap();
    assert_eq!((counted(&program, "empty"), counted(&program, "forgotten")), (0, 0), "{program}");
    assert!(counted(&program, "estimated") > 300, "{program}");
}

/// An idle path of 10 Gb/s: nothing queues, and nothing is lost.
#[test]
fn an_idle_path_is_filled_without_a_queue() {
    if !has_kernel() {
        return;
    }
    let fast = [
        "duration=1800 ms",
        "warmup=900 ms",
        "link.0.rate=10 Gb/s",
        "link.0.loss=0",
        "flow.0.receive-buffer=60 MB",
    ];
    let fast: Vec<&str> = fast.into_iter().flat_map(|change| ["--set", change]).collect();
    let summary = Try::new(BARE).summary(&fast);
    assert!(goodput(&summary) > 9.3e9, "{}", goodput(&summary));
    assert_eq!(loss(&summary), 0.0);
    assert!(summary["links"][0]["delay_p99_ns"].as_f64().unwrap() < 10_000.0, "{summary}");
}

/// Beside traffic, with a receiver whose card coalesces interrupts; parameters reach the module, those of the
/// variants V4 and V5 (rapid 2.25), too.
#[test]
fn beside_traffic_it_takes_what_it_takes_in_the_simulator() {
    if !has_kernel() {
        return;
    }
    let text = BARE.replace("loss = 0.001", "") + BESIDE;
    for controller in ["rapid", "rapid:denoise=window,gamma=1,n=4x48"] {
        let set = ["--set", &format!("flow.0.controller={controller}"), "--set", "duration=3 s"];
        let [kernel, model] = [Try::new(&text).summary(&set), simulated(&text, &set)];
        let [found, should] = [&kernel, &model].map(goodput);
        assert!((found / should - 1.0).abs() < 0.05, "{controller}: {found} and {should}");
        assert!((loss(&kernel) - loss(&model)).abs() < 0.0002, "{controller}");
    }
}

/// Stamps of milliseconds are the variant V2, and without stamps the arrival of ACKs has to
/// do (rapid 2.25, F55).
#[test]
fn it_does_without_microseconds_as_in_the_simulator() {
    if !has_kernel() {
        return;
    }
    let idle = BARE.replace("loss = 0.001", "");
    let beside = idle.clone() + BESIDE;
    // Milliseconds hide queues and gaps, so that the rate depends on chance.
    for (stamp, text, most) in [("none", idle, 0.05), ("ms", beside, 0.35)] {
        let set = ["--set", &format!("flow.0.stamp={stamp}")];
        let [found, should] =
            [Try::new(&text).summary(&set), simulated(&text, &set)].map(|run| goodput(&run));
        assert!((found / should - 1.0).abs() < most, "{stamp}: {found} and {should}");
    }
}

/// rapid F15: what is shorter than a p-stream leaves at once.
#[test]
fn three_packets_arrive_within_two_round_trips() {
    if !has_kernel() {
        return;
    }
    let attempt = Try::new(BARE);
    attempt.summary(&["--set", "link.0.loss=0", "--set", "flow.0.size=26844 B"]);
    let rows = std::fs::read_to_string(attempt.path("out/flows.csv")).unwrap();
    let finished: u64 = rows.lines().nth(1).unwrap().split(',').nth(3).unwrap().parse().unwrap();
    assert!(finished <= 2 * 10_000_000 + 1_000_000, "{finished}");
}

/// Two hops, so that captures show segments as they leave the sender and as they reach the receiver.
const HOPS: &str = r#"
duration = "1 s"
interval = "5 ms"
nodes = ["a", "b", "c"]
[[link]]
from = "a"
to = "b"
[[link]]
from = "b"
to = "c"
rate = "100 Mb/s"
delay = "5 ms"
buffer = "1 MB"
[[flow]]
from = "a"
to = "c"
controller = "rapid"
offload = false
receive-buffer = "20 MB"
[[traffic]]
from = "b"
to = "c"
model = "poisson"
rate = "40 Mb/s"
"#;

/// The TCP packets in a capture: when they passed (ns), the number after their last byte, and what they
/// acknowledge.
fn passed(file: &Path) -> Vec<(i64, u32, u32)> {
    let segment = |packet: &Packet| {
        let ip = &packet.bytes[14..];
        let big = |at: usize| u32::from_be_bytes(ip[at..at + 4].try_into().unwrap());
        let payload = (big(0) & 0xffff) - 20 - 4 * u32::from(ip[32] >> 4);
        (ip[9] == 6).then_some((packet.at, big(24).wrapping_add(payload), big(28)))
    };
    packets(file).iter().filter_map(segment).collect()
}

/// rapid F26.
#[test]
fn differences_of_one_way_delays_are_those_of_the_path_within_two_microseconds() {
    if !has_kernel() {
        return;
    }
    let attempt = Try::new(HOPS);
    attempt.summary(&["--pcap"]);
    let [near, far, acks] =
        ["a-b", "b-c", "b-a"].map(|name| passed(&attempt.path(&format!("out/{name}.pcap"))));
    // Connections open before time zero: a SYN, an ACK, and then the first segment.
    let zero = near[2].0 - near[2].0 % 1_000_000;
    let arrivals: HashMap<u32, i64> = far.iter().map(|(at, end, _)| (*end, *at)).collect();
    let delays: HashMap<u32, i64> =
        near.iter().filter_map(|(at, end, _)| Some((*end, arrivals.get(end)? - at))).collect();
    let text = std::fs::read_to_string(attempt.path("out/trace.csv")).unwrap();
    let column = text.lines().next().unwrap().split(',').position(|name| name == "one_way_ns").unwrap();
    let mut rows = Vec::new();
    for row in text.lines().skip(1) {
        let row: Vec<&str> = row.split(',').collect();
        let end: i64 = row[0].parse().unwrap();
        let latest = acks.iter().take_while(|(at, ..)| *at - zero <= end).last().unwrap();
        let Ok(told) = row[column].parse::<i64>() else { continue };
        rows.push((delays[&latest.2], told - delays[&latest.2]));
    }
    let range = |values: Vec<i64>| values.iter().max().unwrap() - values.iter().min().unwrap();
    let (delays, errors): (Vec<i64>, Vec<i64>) = rows.into_iter().unzip();
    assert!(errors.len() > 150, "{}", errors.len());
    assert!(range(delays) > 1_000_000);
    assert!(range(errors.clone()) <= 2_000, "{errors:?}");
}

/// The module with checks of memory and locks, while packets are lost.
#[test]
fn the_module_passes_the_checks_of_a_debug_kernel() {
    if !has_debug_kernel() {
        return;
    }
    let attempt = Try::new(BARE);
    let few = ["link.0.rate=100 Mb/s", "link.0.loss=0.005", "duration=2 s"];
    let few = few.into_iter().flat_map(|change| ["--set", change]).chain(["--debug"]);
    let summary = attempt.summary(&few.collect::<Vec<_>>());
    assert!(goodput(&summary) > 5e7, "{}", goodput(&summary));
}

#[test]
fn what_the_kernel_cannot_do_is_refused_by_its_key() {
    let attempt = Try::new(BARE);
    let output = attempt.run("out", &["--set", "flow.0.gaps=timer"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("flow[0].gaps"), "{said}");
}

/// A flow of a constant rate over a line of 1 Gb/s that PAUSE frames fill.
const FILLED: &str = r#"
duration = "200 ms"
warmup = "100 ms"
[[link]]
from = "sender"
to = "receiver"
rate = "500 Mb/s"
delay = "5 ms"
[[flow]]
from = "sender"
to = "receiver"
controller = "fixed-rate:100 Mb/s"
pacing = true
line = "1 Gb/s"
gaps = "byte-clock"
"#;

/// rapid F6 to F8 and F10: what fills a line is the time between segments, and the first hop drops it.
#[test]
fn pause_frames_make_gaps_that_are_exact_and_end_at_the_first_hop() {
    if !has_kernel() {
        return;
    }
    let run = Try::new(FILLED);
    let summary = run.summary(&["--pcap"]);
    let lines = std::fs::read_to_string(run.path("out/lines.csv")).unwrap();
    let counts = lines.lines().nth(1).unwrap().split(',').skip(1).map(|count| count.parse().unwrap());
    let [segments, segment_bytes, pauses, pause_bytes, dropped] = counts.collect::<Vec<u64>>()[..] else {
        panic!("{lines}")
    };
    assert!(segments > 1_500 && pauses - dropped <= 1, "{lines}");
    assert!((88 * pauses..=1538 * pauses).contains(&pause_bytes), "{lines}");
    // The line is full: 15380 bytes of it a segment, and at most 30 ms for the handshake.
    let excess = segment_bytes + pause_bytes - 15_380 * segments;
    assert!(excess < 3_750_000, "{lines}");
    assert_eq!(summary["links"][0]["cross_bps"], 0);
    // After the first windows 1538 bytes take 123040 ns at 100 Mb/s.
    let full: Vec<Packet> = packets(&run.path("out/sender-receiver.pcap"))
        .into_iter()
        .filter(|packet| packet.length == 1514)
        .collect();
    let gaps: Vec<i64> = full.windows(2).skip(200).map(|pair| pair[1].at - pair[0].at).collect();
    assert!(gaps.len() > 1_000 && gaps.iter().all(|gap| *gap == 123_040), "{gaps:?}");
}

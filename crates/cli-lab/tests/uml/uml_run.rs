//! `headway run --on uml` as users run it: flows and traffic over real kernels in virtual time.
//!
//! Where no kernel has been built, which takes minutes, these tests say so and pass.

use std::path::Path;

use crate::packets::packets;
use crate::support::kernels::{MIXED, Try, files, has_kernel};
use serde_json::Value;

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_seed_others() {
    if !has_kernel() {
        return;
    }
    let run = Try::new(MIXED);
    for (output, seed) in [("one", "7"), ("two", "7"), ("three", "8")] {
        assert!(run.run(output, &["--pcap", "--seed", seed]).status.success());
    }
    let [one, two, three] = ["one", "two", "three"].map(|output| files(&run.path(output)));
    assert!(one.contains_key(Path::new("b-c.pcap")) && one.contains_key(Path::new("summary.json")));
    assert!(one == two, "a run with the same seed differs");
    for name in ["b-c.pcap", "summary.json", "truth.csv"] {
        assert!(one[Path::new(name)] != three[Path::new(name)], "{name} does not depend on the seed");
    }
}

#[test]
fn flows_and_traffic_share_a_bottleneck_and_every_packet_is_accounted_for() {
    if !has_kernel() {
        return;
    }
    let summary = Try::new(MIXED).summary(&[]);
    let link = &summary["links"][2];
    assert_eq!(link["link"], "b->c");
    let number = |value: &Value| value.as_f64().unwrap();
    assert!(number(&link["utilisation"]) > 0.9, "{link}");
    let source = &summary["traffic"][0];
    let (sent, arrived) = (number(&source["sent"]), number(&source["delivered"]));
    assert!((number(&source["sent_bps"]) / 4e6 - 1.0).abs() < 0.2, "{source}");
    assert!(arrived <= sent && arrived > 0.8 * sent, "{source}");
    let cross = number(&link["cross_bps"]) / number(&source["delivered_bps"]);
    assert!((cross - 1.0).abs() < 0.02, "{cross}");
    let goodput = number(&summary["total"]["goodput_bps"]) * 1538.0 / 1448.0;
    assert!((goodput / number(&link["measured_bps"]) - 1.0).abs() < 0.02, "{summary}");
}

/// More datagrams than a link can carry; the first one finds it idle.
fn overload(mbps: u32) -> String {
    format!(
        r#"
duration = "60 ms"
interval = "10 ms"
nodes = ["a", "b", "c"]
[[link]]
from = "a"
to = "b"
[[link]]
from = "b"
to = "c"
rate = "{mbps} Mb/s"
delay = "30 ms"
buffer = "1 MB"
[[traffic]]
from = "a"
to = "c"
model = "cbr"
rate = "{} Mb/s"
"#,
        mbps + mbps / 5
    )
}

#[test]
fn delays_are_exact_to_the_microsecond_and_gaps_to_the_nanosecond() {
    if !has_kernel() {
        return;
    }
    for mbps in [100, 1_000, 10_000] {
        let run = Try::new(&overload(mbps));
        run.summary(&["--pcap"]);
        let [before, after] = ["a-b", "b-c"].map(|name| packets(&run.path(&format!("out/{name}.pcap"))));
        assert!(after.len() > 100, "{} packets", after.len());
        // A packet leaves when its transmission would be complete: after the delay and 1538
        // bytes at the link's rate.
        let whole = 1538.0 * 8e3 / f64::from(mbps);
        let delay = (after[0].at - before[0].at) as f64 - 30e6 - whole;
        assert!(delay.abs() <= 1_000.0, "{mbps} Mb/s: the delay is off by {delay} ns");
        for pair in after.windows(2) {
            let gap = (pair[1].at - pair[0].at) as f64;
            assert!((gap - whole).abs() <= 1.0, "{mbps} Mb/s: a gap of {gap} ns instead of {whole} ns");
        }
    }
}

#[test]
fn a_flow_with_a_size_needs_no_room_in_queues_for_its_end() {
    if !has_kernel() {
        return;
    }
    // Four segments leave at once and fill the queue to the last place.
    let scenario = "duration = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\ndelay = \"10 ms\"\n\
                    buffer = \"4 packets\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\nsize = \"5792 B\"\n";
    let summary = Try::new(scenario).summary(&[]);
    assert_eq!((&summary["links"][0]["dropped"], &summary["total"]["finished"]), (&0.into(), &1.into()));
}

#[test]
fn a_module_of_ours_is_the_controller_of_a_flow() {
    if !has_kernel() {
        return;
    }
    let scenario = |controller: &str| {
        format!(
            "duration = \"3 s\"\nwarmup = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"100 Mb/s\"\ndelay = \"10 ms\"\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"{controller}\"\n"
        )
    };
    let goodput = |controller: &str| {
        let summary = Try::new(&scenario(controller)).summary(&[]);
        (summary["total"]["goodput_bps"].as_f64().unwrap(), summary)
    };
    // Ten segments per RTT of a little more than 20 ms; then half of the link.
    let (window, _) = goodput("fixed-window:10");
    assert!((window / (10.0 * 1448.0 * 8.0 / 0.0202) - 1.0).abs() < 0.03, "{window}");
    let (rate, summary) = goodput("fixed-rate:50 Mb/s");
    assert!((rate / (50e6 * 1448.0 / 1538.0) - 1.0).abs() < 0.02, "{rate}");
    assert_eq!(summary["total"]["retransmitted"], 0);
}

#[test]
fn what_the_kernel_cannot_do_is_said_before_anything_starts() {
    let run = Try::new(&MIXED.replace(
        "buffer = \"60 kB\"",
        "buffer = \"60 kB\"\npolice = { rate = \"1 Mb/s\", burst = \"10 kB\" }",
    ));
    let output = run.run("out", &[]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains("link[1].police"), "{errors}");
}

/// The increase is that of the threshold in Linux, too (ls-aimd 2.6), and the queue that of the truth.
#[test]
fn a_trace_of_linux_has_windows_with_fractions() {
    if !has_kernel() {
        return;
    }
    let scenario =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/ls-dctcp.toml"));
    let run = Try::new(&scenario.unwrap());
    let short = [
        "duration=60 ms",
        "warmup=0",
        "interval=1 ms",
        "flow.0.stagger=1 ms",
        "flow.0.controller=ls-dctcp:c=1",
    ];
    let set: Vec<&str> = short.iter().flat_map(|change| ["--set", change]).collect();
    assert!(run.run("out", &set).status.success());
    let text = std::fs::read_to_string(run.path("out/trace.csv")).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    let number = |row: &[&str], column: usize| row[column].parse::<f64>().ok();
    let mut fractions = 0;
    for row in &rows {
        let (Some(window), Some(ssthresh)) = (number(row, 2), number(row, 3)) else { continue };
        let increase = 1024.0 * (ssthresh / 2048.0).ln_1p() / 2f64.ln();
        assert!((number(row, 5).unwrap() - increase).abs() < 0.05, "{row:?} has not {increase}");
        let below = window < 2.0 * 8948.0;
        assert!(!below || (row[4] == "2" && number(row, 11).is_some_and(|rtt| rtt >= 250e3)), "{row:?}");
        fractions += u32::from(below);
    }
    assert!(rows.len() == 60 * 16 && fractions > 200, "{fractions} of {}", rows.len());
}

/// Sixteen flows of a quarter of a segment, where two segments of each are 3.5 ms of queue: with the stack
/// patch DCTCP stays at its threshold of 250 us, as does an algorithm that knows nothing of the hooks.
#[test]
fn any_controller_of_the_kernel_has_windows_below_two_segments() {
    if !has_kernel() {
        return;
    }
    let scenario =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/ls-dctcp.toml"));
    let run = Try::new(&scenario.unwrap());
    let red = "link.1.queue={kind = \"red\", min = \"18750 B\", max = \"56250 B\", probability = 0.1, burst = 31, \
               packet = \"1538 B\"}";
    let step = "link.1.queue={kind = \"step\", threshold = \"18750 B\"}";
    let least = |controller: &str, ecn: &str, queue: &str| {
        let [controller, ecn] = [format!("flow.0.controller={controller}"), format!("flow.0.ecn={ecn}")];
        let set = ["duration=5 s", "warmup=2500 ms", &controller, &ecn, queue];
        let set: Vec<&str> = set.iter().flat_map(|change| ["--set", change]).collect();
        let summary = run.summary(&set);
        let link = &summary["links"][2];
        (link["delay_mean_ns"].as_f64().unwrap() / 1e3, link["utilisation"].as_f64().unwrap())
    };
    let (queue, used) = least("kernel:fraction-dctcp", "dctcp", step);
    assert!(queue < 400.0 && used > 0.96, "DCTCP: {queue} us, {used}");
    for controller in ["reno", "cubic", "htcp"] {
        let (queue, used) = least(&format!("kernel:fraction-{controller}"), "classic", red);
        assert!(queue < 500.0 && used > 0.5, "{controller}: {queue} us, {used}");
    }
    let (queue, _) = least("kernel:reno", "classic", red);
    assert!(queue > 3000.0, "without: {queue} us");
}

//! Queues with marking, on the Linux stack and in the simulator: the same scenario must give the same queue.
//!
//! Where no kernel has been built, which takes minutes, these tests say so and pass.

use std::process::Command;

use crate::support::PROGRAM;
use crate::support::kernels::has_kernel;
use serde_json::Value;

/// Returns mean queueing delay (ns) and utilisation of the link that marks.
fn bottleneck(scenario: &str, world: &str, args: &[&str]) -> (f64, f64) {
    let folder = tempfile::tempdir().unwrap();
    let [file, results] = ["x.toml", "out"].map(|name| folder.path().join(name));
    std::fs::write(&file, scenario).unwrap();
    let mut command = Command::new(PROGRAM);
    command.arg("run").arg(file).args(["--on", world, "--output"]).arg(&results);
    let output = command.args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let summary: Value =
        serde_json::from_slice(&std::fs::read(results.join("summary.json")).unwrap()).unwrap();
    let links = summary["links"].as_array().unwrap();
    let link = links.iter().find(|link| link["marked"].as_u64().unwrap() > 0).unwrap();
    (link["delay_mean_ns"].as_f64().unwrap(), link["utilisation"].as_f64().unwrap())
}

/// Both use the same C arithmetic, but the simulator has its own clock for departures and
/// Linux uses its timers.
#[test]
fn ls_dctcp_keeps_the_queue_that_it_keeps_in_the_simulator() {
    if !has_kernel() {
        return;
    }
    let scenario = include_str!("../../../../scenarios/ls-dctcp.toml");
    let shorter = ["--set", "duration=6 s", "--set", "warmup=3 s"];
    let [in_kernel, simulated] = ["uml", "sim"].map(|world| bottleneck(scenario, world, &shorter));
    assert!((in_kernel.0 / simulated.0 - 1.0).abs() < 0.05, "{in_kernel:?} {simulated:?}");
    assert!((in_kernel.1 - simulated.1).abs() < 0.01, "{in_kernel:?} {simulated:?}");
    // A threshold of 250 us, without a loss of utilisation.
    assert!(in_kernel.0 < 1.25 * 250_000.0 && in_kernel.1 > 0.97, "{in_kernel:?}");
}

/// With windows of a few segments it matters that Linux cuts by whole segments: fractional cuts make this
/// queue a quarter shorter.
#[test]
fn dctcp_without_offloads_keeps_the_queue_that_it_keeps_in_the_simulator() {
    if !has_kernel() {
        return;
    }
    let scenario = include_str!("../../../../scenarios/ls-dctcp.toml");
    let changes = [
        "flow.0.controller=dctcp",
        "mtu=1500",
        "link.0.reordering=false",
        "link.1.delay=500 us",
        "duration=4 s",
        "warmup=2 s",
    ];
    let changes: Vec<&str> = changes.into_iter().flat_map(|change| ["--set", change]).collect();
    let [in_kernel, simulated] = ["uml", "sim"].map(|world| bottleneck(scenario, world, &changes));
    assert!((in_kernel.0 / simulated.0 - 1.0).abs() < 0.05, "{in_kernel:?} {simulated:?}");
    assert!((in_kernel.1 - simulated.1).abs() < 0.005, "{in_kernel:?} {simulated:?}");
}

/// Two flows that get too many marks with half the probability at `max`.
const ADAPTIVE_RED: &str = r#"
duration = "8 s"
warmup = "4 s"
[[link]]
from = "sender"
to = "switch"
jitter = "20 us"
[[link]]
from = "switch"
to = "receiver"
rate = "100 Mb/s"
delay = "500 us"
buffer = "2 MB"
queue = { kind = "red", min = "12 kB", max = "36 kB", probability = 0.5, adaptive = true, burst = 20 }
[[flow]]
from = "sender"
to = "receiver"
count = 2
controller = "reno"
ecn = "classic"
offload = false
"#;

#[test]
fn red_adapts_as_in_the_simulator() {
    if !has_kernel() {
        return;
    }
    let [in_kernel, simulated] = ["uml", "sim"].map(|world| bottleneck(ADAPTIVE_RED, world, &[]));
    assert!((in_kernel.0 / simulated.0 - 1.0).abs() < 0.08, "{in_kernel:?} {simulated:?}");
    assert!((in_kernel.1 - simulated.1).abs() < 0.01, "{in_kernel:?} {simulated:?}");
    // Without adaptation the queue is a fifth shorter.
    let fixed = bottleneck(ADAPTIVE_RED, "sim", &["--set", "link.1.queue.adaptive=false"]);
    assert!(in_kernel.0 > 1.15 * fixed.0, "{in_kernel:?} {fixed:?}");
}

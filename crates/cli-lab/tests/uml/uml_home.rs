//! `headway edge` itself in the kernel's world: what a home notices of it, beside CAKE.

use std::process::Command;

use serde_json::Value;

use crate::support::PROGRAM;
use crate::support::kernels::has_kernel;

/// Runs the home of `bench/edge_home.py` in each of these modes, with more arguments; returns what it
/// noticed, or none without Python.
fn home<const N: usize>(modes: [&str; N], more: &[&str]) -> Option<[Value; N]> {
    let folder = tempfile::tempdir().unwrap();
    let (out, script) =
        (folder.path().join("home.json"), concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/edge_home.py"));
    let mut python = Command::new("python3");
    python.env("HEADWAY", PROGRAM).env("OUT", &out).arg(script);
    python.args(["--on", "uml", "--runs", "1", "--modes"]).args(modes).args(more);
    let Ok(output) = python.output() else {
        println!("SKIPPED: there is no python3.");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results: Vec<Value> = serde_json::from_slice(&std::fs::read(out).unwrap()).unwrap();
    Some(results.try_into().unwrap())
}

/// Returns a number of each home.
fn noticed<const N: usize>(homes: &[Value; N], name: &str) -> [f64; N] {
    homes.each_ref().map(|home| home[name].as_f64().unwrap())
}

/// Downloads, an upload, pages, a call and a ping at once over 50 and 10 Mb/s, with buffers of 120 ms.
#[test]
fn a_home_has_short_queues_for_a_twentieth_of_its_goodput() {
    if !has_kernel() {
        return;
    }
    let modes = ["none", "cake", "edge-smooth", "edge-found-smooth"];
    let Some(homes) = home(modes, &["--seconds", "28"]) else { return };
    let of = |name: &str| noticed(&homes, name);
    let (idle, ping, pages, lost) =
        (of("idle_p95_ms"), of("ping_p95_ms"), of("page_p95_ms"), of("call_lost"));
    let [down, up] = ["down_mbps", "up_mbps"].map(of);
    let goodput = [0, 1, 2, 3].map(|home| down[home] + up[home]);
    println!(
        "none, CAKE, edge, edge without rates: ping {ping:.1?} ms, goodput {goodput:.1?} Mb/s, pages {pages:.0?} ms"
    );
    assert!(ping[2] <= 1.5 * idle[2] && ping[0] >= 3.0 * ping[2], "{ping:?} {idle:?}");
    assert!(goodput[2] >= 0.95 * goodput[0], "{goodput:?}");
    assert!(pages[2] <= 0.5 * pages[0] && lost[2] == 0.0, "{pages:?} {lost:?}");
    // Nobody told the last one the rates.
    assert!(
        ping[3] <= 2.0 * idle[3] && goodput[3] >= 0.9 * goodput[0] && lost[3] == 0.0,
        "{ping:?} {goodput:?}"
    );
    // CAKE needs the queue itself, and no more of the link.
    assert!(ping[1] <= ping[2] && goodput[2] >= 0.94 * goodput[1], "{ping:?} {goodput:?}");
}

/// What has no window is in fair queues below the rate of the link, whether that takes
/// notice of losses or not.
#[test]
fn a_home_has_short_queues_beside_traffic_without_windows() {
    if !has_kernel() {
        return;
    }
    let modes = ["edge-smooth", "edge-found-smooth"];
    let Some(flooded) = home(modes, &["--seconds", "16", "--flood", "20"]) else { return };
    let Some(homes) = home(["none", "edge-found-smooth"], &["--seconds", "16", "--quic"]) else { return };
    let ([alone, _], floods) = (noticed(&flooded, "idle_p95_ms"), noticed(&flooded, "ping_p95_ms"));
    let pings = noticed(&homes, "ping_p95_ms");
    let [down, up] = ["down_mbps", "up_mbps"].map(|name| noticed(&homes, name));
    let goodput = [0, 1].map(|home| down[home] + up[home]);
    println!(
        "flooded, told and not: ping {floods:.1?} ms, {alone:.1} alone; half QUIC, none and edge without rates: ping {pings:.1?} ms, goodput {goodput:.1?} Mb/s"
    );
    // With floods of 19.7 to 20.2 Mb/s the second has 59.7 to 63.3 ms, which is 2.01 times the ping alone.
    assert!(floods[0] <= 2.0 * alone && floods[1] <= 2.1 * alone, "{floods:?} {alone}");
    assert!(pings[1] <= 2.0 * alone && pings[0] >= 2.0 * pings[1], "{pings:?} {alone}");
    assert!(goodput[1] >= 0.9 * goodput[0], "{goodput:?}");
}

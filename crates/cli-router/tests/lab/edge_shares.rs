//! What `headway edge` lets downloads have: shares, marks, and the rate of a link that nobody told.

use std::io::BufReader;
use std::process::Stdio;
use std::time::Instant as Clock;

use headway_lab::Lab;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::edge::{
    CAPACITY, Download, PATH, POLICY, TRANSFER, WIRE, download, download_until, download_while, interfaces,
    next, next_if, up, up_at,
};
use crate::support::labs::{On, bring_up_text, line, name, now, was_late};
use crate::support::{PROGRAM, TIMEOUT, text, write};

/// Returns the RTT in ms that the edge had of a connection to a port of the server, which has been shown.
fn rtt_of(edge: &mut On, port: u16) -> f64 {
    loop {
        let said = next(edge, "state");
        let flows = said["flows"].as_array().unwrap();
        let server = |flow: &&Value| flow["server"].as_str().unwrap().ends_with(&format!(":{port}"));
        if let Some(flow) = flows.iter().find(server) {
            return flow["rtt_ns"].as_f64().unwrap() / 1e6;
        }
    }
}

/// Returns how many segments with a wrong checksum a node has got (wan F8). Linux verifies each in a lab,
/// where no NIC does it.
fn checksum_errors(lab: &Lab, node: &str) -> u64 {
    let counters = lab.command(node, "cat", ["/proc/net/snmp"]).unwrap().output().unwrap();
    let counters = text(&counters.stdout).to_owned();
    let mut lines = counters.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|name| name == "InCsumErrors").unwrap();
    values.split(' ').nth(place).unwrap().parse().unwrap()
}

#[test]
fn a_download_has_its_share_of_an_idle_link_whatever_its_controller() {
    let folder = tempfile::tempdir().unwrap();
    let policy = write(folder.path(), "policy.toml", POLICY);
    let Some((lab, mut edge)) = up("edge-share", &["--policy", &policy, "--flows"]) else { return };
    let mut count = 0;
    for (controller, port) in [("cubic", 5000), ("reno", 5001), ("bbr", 5002)] {
        // An ACK that a busy host delays by two round trips makes TCP send a segment again.
        let is_right =
            |seen: &Download| seen.rate > 0.9 * 0.2 * CAPACITY && seen.rtt < 23.0 && seen.repeated == 0;
        let (seen, downloads) = download_until(&lab, (controller, port), is_right);
        count += downloads;
        let Some(seen) = seen else { continue };
        // wan F3
        let rtt = rtt_of(&mut edge, port);
        assert!((20.0..22.0).contains(&rtt), "{controller}: {rtt} ms");
        let share = seen.rate / (0.2 * CAPACITY);
        println!("{controller}: {seen:?}, {share:.3} of its share");
        assert!((0.9..1.1).contains(&share), "{controller}: {seen:?}");
        assert_eq!(seen.repeated, 0, "{controller}: {seen:?}");
        assert!(seen.rtt < 23.0, "{controller}: {seen:?}");
    }
    for node in ["server", "home"] {
        assert_eq!(checksum_errors(&lab, node), 0, "{node}");
    }
    let counted = edge.end();
    let lives = ["begun", "ended", "unlimited"].map(|key| counted[key].as_u64().unwrap());
    assert_eq!(lives, [count, count, 0]);
    assert!(counted["lowered"].as_u64().unwrap() > 300, "{counted}");
    // Without it, the same download fills the link.
    if let Some(seen) = download(&lab, "cubic", 5000) {
        assert!(seen.rate > 0.7 * CAPACITY, "{seen:?}");
    }
    lab.down().unwrap();
}

#[test]
fn a_download_whose_window_is_out_of_reach_is_held_by_marks() {
    let folder = tempfile::tempdir().unwrap();
    let policy = write(folder.path(), "policy.toml", POLICY);
    let Some((lab, mut edge)) = up("edge-mark", &["--policy", &policy, "--flows"]) else { return };
    // Windows of up to 64 kB are 26 Mb/s here, and the share is 10.
    let set = "echo 0 > /proc/sys/net/ipv4/tcp_window_scaling; echo 1 > /proc/sys/net/ipv4/tcp_ecn";
    // The server is not to begin as the download before ended.
    for (node, set) in [("home", set), ("server", "echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save")] {
        assert!(lab.command(node, "sh", ["-c", set]).unwrap().status().unwrap().success());
    }
    let mut decided = Value::Null;
    let seen = download_while(&lab, "cubic", 5000, 2.0 * TRANSFER, || {
        // In the first look nothing may be known of its ends yet.
        while decided["strategies"] != serde_json::json!(["ecn"]) {
            decided = next(&mut edge, "decision");
        }
    });
    let sentence = decided["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("is marked above 9.41 Mb/s of payload, because its ends"), "{sentence}");
    let counted = edge.end();
    assert!(counted["marked"].as_u64().unwrap() > 0 && counted["lowered"] == 0, "{counted}");
    if let Some(seen) = seen {
        let share = seen.rate / (0.2 * CAPACITY);
        println!("{seen:?}, {share:.3} of its share");
        assert!((0.6..1.0).contains(&share) && seen.repeated == 0, "{seen:?}");
    }
    lab.down().unwrap();
}

#[test]
fn the_rate_of_a_link_that_nobody_told_is_found() {
    let Some((lab, mut edge)) = up_at("edge-find", &["--flows"]) else { return };
    let mut found = None;
    let available = |state: &Value| state["links"][0]["available"][0].clone();
    let seen = download_while(&lab, "cubic", 5000, 2.0 * TRANSFER, || {
        found = next_if(&mut edge, "state", |state| available(state)["source"] == "queue");
        // What was delivered first was that of slow start.
        for _ in 0..2 {
            found = Some(next(&mut edge, "state"));
        }
    });
    let payload = CAPACITY / WIRE;
    if let Some(seen) = seen {
        let found = available(&found.unwrap());
        println!("{seen:?} {found}");
        let rate = found["rate_bps"].as_f64().unwrap() / payload;
        assert!((0.85..1.1).contains(&rate), "{found}");
        // A buffer of 500 ms was filling.
        assert!(seen.rate > 0.85 * CAPACITY && seen.rtt < 45.0, "{seen:?}");
    }
    edge.end();
    lab.down().unwrap();
}

#[test]
fn probes_find_the_capacity_before_anybody_makes_a_queue() {
    let Some(lab) = bring_up_text(PATH, &name("edge-probe")) else { return };
    let [lan, wan] = interfaces(&lab);
    // The first host is one where nobody answers.
    let [nobody, host] = ["home", "server"].map(|node| lab.v4(node).unwrap().to_string());
    let arguments = ["edge", "--lan", &lan, "--wan", &wan, "--probe", &nobody, "--probe", &host];
    let Ok(mut edge) = On::new(&lab, "router", &arguments) else {
        println!("SKIPPED: this machine allows no edge");
        return;
    };
    let mut server = lab.command("server", PROGRAM, ["serve", "--json"]).unwrap();
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    assert!(line(&mut said).contains("listening"));
    let probed = |state: &Value, of: &str| {
        let all = state["links"][0][of].as_array().unwrap().iter();
        all.filter(|rate| rate["source"] == "probes").find_map(|rate| rate["rate_bps"].as_f64())
    };
    let from = now();
    let mut state = next(&mut edge, "state");
    while probed(&state, "available").is_none() {
        state = next(&mut edge, "state");
    }
    assert!(state["probes"]["spent_bytes"].as_u64() < Some(1_500_000), "{state}");
    // Where the first streams had to wait for the processor, later ones tell more.
    let is_near = |state: &Value| {
        let available = probed(state, "available").unwrap_or(0.0) / CAPACITY;
        (available - 1.0).abs() < 0.15
    };
    let begun = Clock::now();
    while !is_near(&state) && begun.elapsed() < TIMEOUT {
        state = next(&mut edge, "state");
    }
    println!("{} {}", state["links"][0], state["probes"]);
    let capacity = probed(&state, "narrow").unwrap() / CAPACITY;
    let is_right = (capacity - 1.0).abs() < 0.03 && is_near(&state);
    assert!(is_right || was_late(&lab, from), "{state}");
    if let Some(seen) = download(&lab, "cubic", 5000) {
        println!("{seen:?}");
        // It has what was found, which may be less than there is.
        let found = probed(&state, "available").unwrap().min(CAPACITY) / WIRE;
        assert!(seen.rate > 0.95 * found && seen.rtt < 25.0 && seen.repeated == 0, "{seen:?} {state}");
    }
    edge.end();
    kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).unwrap();
    server.wait().unwrap();
    lab.down().unwrap();
}

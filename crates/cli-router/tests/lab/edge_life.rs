//! How `headway edge` begins and ends, whatever ends it, and what it leaves behind.

use std::io::Read as _;
use std::net::SocketAddr;
use std::process::Command;
use std::time::{Duration as Time, Instant as Clock};

use headway_lab::{Lab, Process};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::edge::{
    CAPACITY, Download, download, download_until, download_while, interfaces, next, play, stop, up, up_at,
};
use crate::support::labs::On;
use crate::support::{PROGRAM, TIMEOUT, text, write};

#[test]
fn a_dry_run_changes_nothing_and_only_one_edge_is_on() {
    // Only root may enter the folder, which the edge is not any more when it writes.
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("edge.history");
    let Some((lab, edge)) = up("edge-dry", &["--dry-run", "--history", history.to_str().unwrap()]) else {
        return;
    };
    let [lan, wan] = interfaces(&lab);
    let refused = |arguments: &[&str], words: &str| {
        let all = [&["edge", "--rate", "50Mb/s"], arguments].concat();
        let output = lab.command("router", PROGRAM, all).unwrap().output().unwrap();
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{said}");
    };
    refused(&["--lan", &lan, "--wan", &wan], "is the edge of this network namespace already");
    refused(&["--lan", "nothing", "--wan", &wan], "nothing");
    refused(&["--lan", &wan, "--wan", &wan], "the same interface");
    let seen = download(&lab, "cubic", 5001);
    if let Some(seen) = &seen {
        assert!(seen.rate > 0.7 * CAPACITY, "{seen:?}");
    }
    let counted = edge.end();
    assert!(counted["lowered"].as_u64().unwrap() > 100, "{counted}");
    let kept = |what: &[&str]| {
        let all = [&["edge", "history", "--json", "--file", history.to_str().unwrap()], what].concat();
        let output = Command::new(PROGRAM).args(all).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Value>>()
    };
    let rates = kept(&[]).into_iter().map(|second| second["down_bps"].as_f64().unwrap());
    assert!(rates.fold(0.0, f64::max) > 0.5 * CAPACITY || seen.is_none());
    let decisions = kept(&["--decisions"]);
    assert!(decisions.iter().any(|decision| decision["server"].as_str().unwrap().ends_with(":5001")));
    lab.down().unwrap();
}

/// `HEADWAY_KILLS` says how often, at moments that are spread over a second.
#[test]
fn connections_survive_an_edge_that_is_killed() {
    let Some((lab, edge)) = up("edge-kill", &[]) else { return };
    edge.end();
    let [lan, wan] = interfaces(&lab);
    let kills = std::env::var("HEADWAY_KILLS").map_or(3, |count| count.parse().unwrap());
    for kill in 0..kills {
        let arguments = ["edge", "--lan", &lan, "--wan", &wan, "--rate", "5Mb/s"];
        let mut edge = On::new(&lab, "router", &arguments).unwrap();
        let before = u64::from(kill) * 618 % 1000;
        // A window of the edge would allow a tenth of the link.
        let seen = download_while(&lab, "cubic", 5000 + kill, 2.0, || {
            std::thread::sleep(Time::from_millis(before));
            edge.child.kill().unwrap();
            edge.child.wait().unwrap();
        });
        if let Some(seen) = seen {
            println!("killed after {before} ms: {seen:?}");
            assert!(seen.rate > 0.4 * CAPACITY, "killed after {before} ms: {seen:?}");
        }
    }
    lab.down().unwrap();
}

/// Returns the queue at the interface of the router towards the link.
fn queue_of(lab: &Lab) -> String {
    let [_, wan] = interfaces(lab);
    let output = lab.command("router", "tc", ["qdisc", "show", "dev", &wan]).unwrap().output().unwrap();
    text(&output.stdout).lines().find(|line| line.contains("root")).unwrap_or_default().to_owned()
}

/// Waits until the queue is as it is to be.
fn wait_for_queue(lab: &Lab, is_right: impl Fn(&str) -> bool) -> String {
    let begun = Clock::now();
    loop {
        let queue = queue_of(lab);
        if is_right(&queue) {
            return queue;
        }
        assert!(begun.elapsed() < TIMEOUT, "{queue}");
        std::thread::sleep(Time::from_millis(20));
    }
}

/// Returns the process that an edge has for token buckets.
fn deputy(edge: &On) -> Process {
    let children = format!("/proc/{0}/task/{0}/children", edge.child.id());
    let child = std::fs::read_to_string(children).unwrap();
    Process::of(child.trim().parse().unwrap()).unwrap()
}

/// `HEADWAY_KILLS` says how often it is killed; every other time its process for token buckets is, too.
#[test]
fn bulk_that_nothing_else_holds_is_in_a_token_bucket_that_goes_with_the_edge() {
    let folder = tempfile::tempdir().unwrap();
    let policy = write(folder.path(), "policy.toml", "shape = true\n");
    let arguments = ["--policy", &policy, "--up", "10Mb/s"];
    let Some((lab, mut edge)) = up("edge-shape", &arguments) else { return };
    let before = queue_of(&lab);
    assert!(!before.contains("tbf"), "{before}");
    let address = SocketAddr::new(lab.v4("server").unwrap().into(), 5000);
    let (sink, _lines) = play(&lab, "server", &format!("answer {address}"));
    let (source, _said) = play(&lab, "home", &format!("flood {address}"));
    let bucket = |queue: &str| queue.contains("tbf 7ed9:") && queue.contains("rate 9500Kbit");
    wait_for_queue(&lab, bucket);
    let decided = std::iter::from_fn(|| Some(next(&mut edge, "decision")));
    let decided = decided.into_iter().find(|said| said["strategies"][0] == "rate-control").unwrap();
    assert!(
        decided["sentence"]
            .as_str()
            .unwrap()
            .starts_with("is held to 9.50 Mb/s on the wire, because it is bulk"),
        "{decided}"
    );
    // The process that may change queues may do nothing else.
    let status = std::fs::read_to_string(format!("/proc/{}/status", deputy(&edge).pid)).unwrap();
    for line in ["CapEff:\t0000000000001000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{status}");
    }
    edge.end();
    assert_eq!(queue_of(&lab), before);
    let [lan, wan] = interfaces(&lab);
    let all = [&["edge", "--lan", &lan, "--wan", &wan, "--rate", "50Mb/s"], &arguments[..]].concat();
    let kills = std::env::var("HEADWAY_KILLS").map_or(2, |count| count.parse().unwrap());
    for kill in 0..kills {
        let mut edge = On::new(&lab, "router", &all).unwrap();
        wait_for_queue(&lab, bucket);
        if kill % 2 == 0 {
            edge.child.kill().unwrap();
            edge.child.wait().unwrap();
            wait_for_queue(&lab, |queue| queue == before);
        } else {
            let deputy = deputy(&edge);
            nix::sys::signal::kill(Pid::from_raw(deputy.pid as i32), Signal::SIGKILL).unwrap();
            edge.child.kill().unwrap();
            edge.child.wait().unwrap();
            assert!(deputy.wait_gone(TIMEOUT) && bucket(&queue_of(&lab)));
            // The next one removes it, also if it wants none itself.
            On::new(&lab, "router", &["edge", "--lan", &lan, "--wan", &wan, "--rate", "50Mb/s"])
                .unwrap()
                .end();
            assert_eq!(queue_of(&lab), before, "after {kill} kills");
        }
    }
    // What somebody has set up stays.
    let own = ["qdisc", "replace", "dev", &wan, "root", "handle", "1:", "pfifo", "limit", "77"];
    assert!(lab.command("router", "tc", own).unwrap().status().unwrap().success());
    let mut edge = On::new(&lab, "router", &all).unwrap();
    let decided = std::iter::from_fn(|| Some(next(&mut edge, "decision")));
    assert!(decided.into_iter().any(|said| said["strategies"][0] == "rate-control"));
    next(&mut edge, "state");
    next(&mut edge, "state");
    let queue = queue_of(&lab);
    assert!(queue.contains("pfifo 1:"), "{queue}");
    edge.end();
    assert_eq!(queue_of(&lab), queue);
    stop([source, sink]);
    lab.down().unwrap();
}

#[test]
fn an_edge_says_that_its_process_for_queues_was_killed_and_ends_though_that_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let policy = write(folder.path(), "policy.toml", "shape = true\n");
    let Some((lab, mut edge)) = up("edge-deputy", &["--policy", &policy]) else { return };
    let signal = |process: Process, signal| kill(Pid::from_raw(process.pid), signal).unwrap();
    signal(deputy(&edge), Signal::SIGKILL);
    (0..3).for_each(|_| drop(next(&mut edge, "state")));
    let mut stderr = edge.child.stderr.take().unwrap();
    edge.end();
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    let warning = "the process that changes queues and routing has ended";
    assert_eq!(said.matches(warning).count(), 1, "{said}");
    let [lan, wan] = interfaces(&lab);
    let all = ["edge", "--lan", &lan, "--wan", &wan, "--rate", "50Mb/s", "--policy", &policy];
    let edge = On::new(&lab, "router", &all).unwrap();
    let (process, deputy) = (Process::of(edge.child.id() as i32).unwrap(), deputy(&edge));
    signal(deputy, Signal::SIGSTOP);
    signal(process, Signal::SIGTERM);
    assert!(process.wait_gone(TIMEOUT) && deputy.wait_gone(TIMEOUT));
    lab.down().unwrap();
}

#[test]
fn bulk_that_comes_down_is_held_and_what_the_router_sends_by_itself_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let policy = write(folder.path(), "policy.toml", "shape = true\n");
    let Some((lab, mut edge)) = up_at("edge-shape-down", &["--policy", &policy, "--rate", "10Mb/s"]) else {
        return;
    };
    let [lan, wan] = interfaces(&lab);
    let tc = |what: &[&str]| {
        let output = lab.command("router", "tc", what).unwrap().output().unwrap();
        text(&output.stdout).to_owned()
    };
    let before = tc(&["qdisc", "show", "dev", &lan]);
    let address = SocketAddr::new(lab.v4("server").unwrap().into(), 5000);
    let (source, _said) = play(&lab, "server", &format!("fill {address}"));
    let (sink, _lines) = play(&lab, "home", &format!("want {address}"));
    let begun = Clock::now();
    let filter = loop {
        let filter = tc(&["filter", "show", "dev", &lan, "parent", "7ed9:"]);
        if filter.contains("flowid 7ed9:1") {
            break filter;
        }
        assert!(begun.elapsed() < TIMEOUT, "{}", tc(&["qdisc", "show", "dev", &lan]));
        std::thread::sleep(Time::from_millis(20));
    };
    assert!(filter.contains(&format!("input dev {wan}")), "{filter}");
    let class = tc(&["class", "show", "dev", &lan]);
    assert!(class.contains("htb 7ed9:1 root") && class.contains("rate 9500Kbit"), "{class}");
    let at_once = || {
        let queue = tc(&["qdisc", "show", "dev", &lan, "root"]);
        let count = queue.split_once("direct_packets_stat ").map(|(_, rest)| rest.split(' ').next().unwrap());
        count.unwrap_or_else(|| panic!("{queue}")).parse::<u64>().unwrap()
    };
    let passed = at_once();
    let home = SocketAddr::new(lab.v4("home").unwrap().into(), 9);
    let (mut knocks, _lines) = play(&lab, "router", &format!("knock {home} 100"));
    assert!(knocks.wait().unwrap().success());
    assert!((100..150).contains(&(at_once() - passed)), "{passed} and then {}", at_once());
    edge.child.kill().unwrap();
    edge.child.wait().unwrap();
    let ended = Clock::now();
    while tc(&["qdisc", "show", "dev", &lan]) != before {
        assert!(ended.elapsed() < TIMEOUT, "{}", tc(&["qdisc", "show", "dev", &lan]));
        std::thread::sleep(Time::from_millis(20));
    }
    stop([source, sink]);
    lab.down().unwrap();
}

#[test]
fn an_edge_that_hangs_lets_everything_pass_until_it_goes_on() {
    let Some((lab, edge)) = up("edge-stop", &[]) else { return };
    edge.end();
    let [lan, wan] = interfaces(&lab);
    let edge = On::new(&lab, "router", &["edge", "--lan", &lan, "--wan", &wan, "--rate", "10Mb/s"]).unwrap();
    let process = Pid::from_raw(edge.child.id() as i32);
    let is_held = |seen: &Download| (0.9..1.1).contains(&(seen.rate / 10e6));
    let (held, before) = download_until(&lab, ("cubic", 5000), is_held);
    // Its second half begins a second after the programs have lost their patience.
    let passes = download_while(&lab, "cubic", 5001, 12.0, || kill(process, Signal::SIGSTOP).unwrap());
    kill(process, Signal::SIGCONT).unwrap();
    let (again, after) = download_until(&lab, ("cubic", 5002), is_held);
    println!("{held:?}, {passes:?}, {again:?}");
    for seen in [held, again].into_iter().flatten() {
        assert!(is_held(&seen), "{seen:?}");
    }
    if let Some(seen) = passes {
        assert!(seen.rate > 0.7 * CAPACITY, "{seen:?}");
    }
    let counted = edge.end();
    assert!(counted["unattended"].as_u64().unwrap() > 100, "{counted}");
    assert_eq!(counted["begun"], before + 1 + after, "{counted}");
    lab.down().unwrap();
}

#[test]
fn an_interface_that_is_removed_ends_the_edge_with_a_sentence() {
    let Some((lab, mut edge)) = up("edge-gone", &[]) else { return };
    let [lan, _] = interfaces(&lab);
    let down = lab.command("router", "ip", ["link", "set", &lan, "down"]).unwrap().status().unwrap();
    assert!(down.success());
    let renamed =
        lab.command("router", "ip", ["link", "set", &lan, "name", "other"]).unwrap().status().unwrap();
    assert!(renamed.success());
    let mut said = String::new();
    edge.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains(&format!("the interface {lan}: it is gone")), "{said}");
    assert!(!edge.child.wait().unwrap().success());
    lab.down().unwrap();
}

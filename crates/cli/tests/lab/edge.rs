//! `headway edge` on a router between emulated links, with connections of Linux.
//!
//! Where the machine does not allow namespaces or BPF, each test says so and passes.

use std::io::{BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::{Duration as Time, Instant as Clock, SystemTime};

use crate::support::labs::{On, ROLE, bring_up_text, line, name, play};
use crate::support::{PROGRAM, TIMEOUT, text, write};
use headway_lab::{Direction, Lab, Process};
use headway_telemetry::TcpInfo;
use headway_units::Instant;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

/// The port of downloads over IPv6.
const VERSION_6: u16 = 5001;

/// A server, a router at an access link of 50 Mb/s, and a host at home.
pub(crate) const PATH: &str = r#"
[[link]]
from = "server"
to = "router"
forward = { rate = "50 Mb/s", delay = "10 ms", buffer = "500 ms" }
[[link]]
from = "router"
to = "home"
forward = { rate = "200 Mb/s" }
"#;
const CAPACITY: f64 = 50e6;
/// Bytes on the wire for each byte of a full segment with timestamps.
const WIRE: f64 = 1538.0 / 1448.0;
/// Seconds that a transfer takes, in the second half of which it is counted.
const TRANSFER: f64 = 3.0;

#[test]
fn a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["sink", address] => sink(address.parse().unwrap()),
        ["source", controller, address, seconds] => {
            source(controller, address.parse().unwrap(), seconds.parse().unwrap())
        }
        ["answer", address] => answer(address.parse().unwrap()),
        ["flood", address] => flood(address.parse().unwrap()),
        ["get", address, path] => get(address.parse().unwrap(), path),
        _ => panic!("{role}"),
    }
}

/// Prints the body of what is at a path.
fn get(address: SocketAddr, path: &str) {
    println!("ready");
    let mut stream = std::net::TcpStream::connect_timeout(&address, TIMEOUT).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    println!("{}", answer.split_once("\r\n\r\n").unwrap().1);
}

/// Answers one of a hundred datagrams, until nothing more comes.
fn answer(address: SocketAddr) {
    let socket = UdpSocket::bind(address).unwrap();
    println!("ready");
    for number in 0_u64.. {
        let Ok((_, from)) = socket.recv_from(&mut [0; 2000]) else { break };
        if number % 100 == 0 {
            socket.send_to(&[0], from).unwrap();
        }
        socket.set_read_timeout(Some(Time::from_secs(2))).unwrap();
    }
}

/// Sends datagrams at some 20 Mb/s until it is stopped.
fn flood(address: SocketAddr) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(address).unwrap();
    println!("ready");
    loop {
        for _ in 0..8 {
            let _ = socket.send(&[0; 1300]);
        }
        std::thread::sleep(Time::from_millis(4));
    }
}

/// Reads a connection to its end. It is the end at home that connects, as with downloads.
fn sink(address: SocketAddr) {
    println!("ready");
    let mut stream = std::net::TcpStream::connect_timeout(&address, TIMEOUT).unwrap();
    std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
}

/// Sends to whoever connects for so many seconds, and prints the rate in bytes per second, repeated segments, and the receive window.
fn source(controller: &str, address: SocketAddr, seconds: f64) {
    let listener = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    listener.set_tcp_congestion(controller.as_bytes()).unwrap();
    listener.set_reuse_address(true).unwrap();
    listener.bind(&address.into()).unwrap();
    listener.listen(1).unwrap();
    let listener = TcpListener::from(listener);
    println!("ready");
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_write_timeout(Some(Time::from_millis(100))).unwrap();
    let (begun, block) = (Clock::now(), vec![0; 1 << 14]);
    let mut first = None;
    while begun.elapsed().as_secs_f64() < seconds {
        let _ = stream.write(&block);
        if first.is_none() && begun.elapsed().as_secs_f64() > seconds / 2.0 {
            first = Some((Clock::now(), TcpInfo::of(&stream).bytes_acked()));
        }
    }
    let (since, before) = first.unwrap();
    let rate = (TcpInfo::of(&stream).bytes_acked() - before) as f64 / since.elapsed().as_secs_f64();
    let info = TcpInfo::of(&stream);
    println!("{rate:.0} {} {}", info.retransmitted(), info.rtt());
}

/// The time as the truth of a lab knows it.
fn now() -> Instant {
    Instant::from_ns(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64)
}

/// What a download was: bits per second on the wire, repeated segments, RTT at its end in ms.
#[derive(Debug)]
struct Download {
    rate: f64,
    repeated: u32,
    rtt: f64,
}

/// Downloads from a port; `None` if the emulator was late, so that the numbers are not valid.
fn download(lab: &Lab, controller: &str, port: u16) -> Option<Download> {
    download_while(lab, controller, port, TRANSFER, || ())
}

/// Downloads for so many seconds, and does something meanwhile.
fn download_while(
    lab: &Lab,
    controller: &str,
    port: u16,
    seconds: f64,
    meanwhile: impl FnOnce(),
) -> Option<Download> {
    let address: IpAddr = match port {
        VERSION_6 => lab.v6("server").unwrap().into(),
        _ => lab.v4("server").unwrap().into(),
    };
    let address = SocketAddr::new(address, port);
    let from = now();
    let (mut source, mut said) = play(lab, "server", &format!("source {controller} {address} {seconds}"));
    let (mut sink, _lines) = play(lab, "home", &format!("sink {address}"));
    meanwhile();
    let said = line(&mut said);
    let numbers: Vec<f64> = said.split(' ').map(|number| number.parse().unwrap()).collect();
    assert!(source.wait().unwrap().success() && sink.wait().unwrap().success());
    let to = now();
    let late = lab.truths_between(from, to).ok()?;
    let late = late.iter().any(|(_, truth)| {
        Direction::BOTH.iter().any(|way| truth.lateness_between(*way, from, to).very_late_share > 0.01)
    });
    if late {
        println!("INVALID: the emulator was late");
        return None;
    }
    Some(Download { rate: numbers[0] * 8.0 * WIRE, repeated: numbers[1] as u32, rtt: numbers[2] / 1e3 })
}

/// Brings up the path and starts the edge on the router with more arguments; `None` where that cannot be.
pub(crate) fn up(what: &str, arguments: &[&str]) -> Option<(Lab, On)> {
    up_at(what, &[&["--rate", "50Mb/s"], arguments].concat())
}

/// The same with the rate of the link among the arguments, or without it.
fn up_at(what: &str, arguments: &[&str]) -> Option<(Lab, On)> {
    let lab = bring_up_text(PATH, &name(what))?;
    let [lan, wan] = interfaces(&lab);
    let all = [&["edge", "--lan", &lan, "--wan", &wan], arguments].concat();
    match On::new(&lab, "router", &all) {
        Ok(on) => Some((lab, on)),
        Err(reason) => {
            assert!(reason.contains("needs root") || reason.contains("no programs"), "{reason}");
            println!("SKIPPED: {reason}");
            None
        }
    }
}

fn interfaces(lab: &Lab) -> [String; 2] {
    ["router-home", "server-router"].map(|link| lab.interface("router", link).unwrap().name.clone())
}

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

/// Returns the next event of this name.
fn next(edge: &mut On, event: &str) -> Value {
    loop {
        let said = line(&mut edge.lines);
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        if said["event"] == event {
            return said;
        }
    }
}

/// Returns how many segments with a wrong checksum a node has got (wan F8). Linux verifies each in a lab, where no NIC does it.
fn checksum_errors(lab: &Lab, node: &str) -> u64 {
    let counters = lab.command(node, "cat", ["/proc/net/snmp"]).unwrap().output().unwrap();
    let counters = text(&counters.stdout).to_owned();
    let mut lines = counters.lines().filter(|line| line.starts_with("Tcp:"));
    let (names, values) = (lines.next().unwrap(), lines.next().unwrap());
    let place = names.split(' ').position(|name| name == "InCsumErrors").unwrap();
    values.split(' ').nth(place).unwrap().parse().unwrap()
}

/// A fifth of the link for one port, and the rest for the others.
pub(crate) const POLICY: &str = "[[class]]\nname = \"backup\"\nshare = 0.2\nports = [\"5000-5002\"]\n[[class]]\nname = \"rest\"\nshare = 0.8\n";

#[test]
fn a_download_has_its_share_of_an_idle_link_whatever_its_controller() {
    let folder = tempfile::tempdir().unwrap();
    let policy = write(folder.path(), "policy.toml", POLICY);
    let Some((lab, mut edge)) = up("edge-share", &["--policy", &policy, "--flows"]) else { return };
    for (controller, port) in [("cubic", 5000), ("reno", 5001), ("bbr", 5002)] {
        let Some(seen) = download(&lab, controller, port) else { continue };
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
    assert_eq!(lives, [3, 3, 0]);
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
    let seen = download_while(&lab, "cubic", 5000, 2.0 * TRANSFER, || decided = next(&mut edge, "decision"));
    assert_eq!(decided["strategies"], serde_json::json!(["ecn"]), "{decided}");
    assert!(decided["sentence"].as_str().unwrap().starts_with("is marked above 10.0 Mb/s, because its ends"));
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
    let mut found = Value::Null;
    let seen = download_while(&lab, "cubic", 5000, 2.0 * TRANSFER, || {
        while found["source"] != "queue" {
            found = next(&mut edge, "state")["links"][0]["available"][0].clone();
        }
    });
    let payload = CAPACITY / WIRE;
    if let Some(seen) = seen {
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
    let mut state = next(&mut edge, "state");
    while probed(&state, "available").is_none() {
        state = next(&mut edge, "state");
    }
    println!("{} {}", state["links"][0], state["probes"]);
    let capacity = probed(&state, "narrow").unwrap() / (CAPACITY / WIRE);
    let available = probed(&state, "available").unwrap() / (CAPACITY / WIRE);
    assert!((capacity - 1.0).abs() < 0.03 && (available - 1.0).abs() < 0.15, "{state}");
    assert!(state["probes"]["spent_bytes"].as_u64() < Some(1_500_000), "{state}");
    if let Some(seen) = download(&lab, "cubic", 5000) {
        println!("{seen:?}");
        assert!(seen.rate > 0.9 * CAPACITY && seen.rtt < 25.0 && seen.repeated == 0, "{seen:?}");
    }
    edge.end();
    kill(Pid::from_raw(server.id() as i32), Signal::SIGTERM).unwrap();
    server.wait().unwrap();
    lab.down().unwrap();
}

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
    if let Some(seen) = download(&lab, "cubic", 5001) {
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
    assert!(rates.fold(0.0, f64::max) > 0.5 * CAPACITY);
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
        decided["sentence"].as_str().unwrap().starts_with("is held to 9.50 Mb/s, because it is bulk"),
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
fn an_edge_that_hangs_lets_everything_pass_until_it_goes_on() {
    let Some((lab, edge)) = up("edge-stop", &[]) else { return };
    edge.end();
    let [lan, wan] = interfaces(&lab);
    let edge = On::new(&lab, "router", &["edge", "--lan", &lan, "--wan", &wan, "--rate", "10Mb/s"]).unwrap();
    let process = Pid::from_raw(edge.child.id() as i32);
    let held = download(&lab, "cubic", 5000);
    // Its second half begins a second after the programs have lost their patience.
    let passes = download_while(&lab, "cubic", 5001, 12.0, || kill(process, Signal::SIGSTOP).unwrap());
    kill(process, Signal::SIGCONT).unwrap();
    let again = download(&lab, "cubic", 5002);
    println!("{held:?}, {passes:?}, {again:?}");
    for seen in [held, again].into_iter().flatten() {
        assert!((0.9..1.1).contains(&(seen.rate / 10e6)), "{seen:?}");
    }
    if let Some(seen) = passes {
        assert!(seen.rate > 0.7 * CAPACITY, "{seen:?}");
    }
    let counted = edge.end();
    assert!(counted["unattended"].as_u64().unwrap() > 100 && counted["begun"] == 3, "{counted}");
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

/// Returns what the state says of the connection to a port, once it says so.
fn flow_of(edge: &mut On, port: u16, is_so: impl Fn(&Value) -> bool) -> Value {
    loop {
        let said = next(edge, "state");
        let server = |flow: &&Value| flow["server"].as_str().unwrap().ends_with(&format!(":{port}"));
        if let Some(flow) = said["flows"].as_array().unwrap().iter().find(server).filter(|flow| is_so(flow)) {
            return flow.clone();
        }
    }
}

/// Ends processes of a transfer that would go on.
fn stop(children: [Child; 2]) {
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn a_changed_policy_holds_at_once_and_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // The edge is `nobody` when it reads it again.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Without the pauses in which windows are lowered, which change limits, too.
    let steady = format!("follow-rtt = false\n{POLICY}");
    let policy = write(folder.path(), "policy.toml", &steady);
    let Some((lab, mut edge)) = up("edge-policy", &["--policy", &policy, "--flows"]) else { return };
    let address = SocketAddr::new(lab.v4("server").unwrap().into(), 5000);
    let (source, _said) = play(&lab, "server", &format!("source cubic {address} 6"));
    let (sink, _lines) = play(&lab, "home", &format!("sink {address}"));
    let before = flow_of(&mut edge, 5000, |flow| flow["class"] == "backup");
    let limit = |flow: &Value| flow["client_window_let_through_bytes"].as_f64().unwrap();
    // Another share, and then another class.
    write(folder.path(), "policy.toml", &steady.replace("0.2", "0.1"));
    let said = next(&mut edge, "policy");
    assert_eq!(said["shares"]["backup"], 0.1, "{said}");
    let after = flow_of(&mut edge, 5000, |_| true);
    let ratio = limit(&after) / limit(&before);
    assert!((0.4..0.6).contains(&ratio), "{before}, {after}");
    write(folder.path(), "policy.toml", &steady.replace("5000-5002", "6000"));
    next(&mut edge, "policy");
    let rest = flow_of(&mut edge, 5000, |_| true);
    assert!(rest["class"] == "rest" && limit(&rest) > 3.0 * limit(&before), "{rest}");
    write(folder.path(), "policy.toml", &steady.replace("0.8", "0.9"));
    let said = next(&mut edge, "policy");
    let mistake = said["mistake"].as_str().unwrap();
    assert!(mistake.contains("line 8") && mistake.contains("class[1].share"), "{mistake}");
    // The window that the host tells itself may be smaller at first.
    let still = flow_of(&mut edge, 5000, |_| true);
    assert!(still["class"] == "rest" && limit(&still) > 3.0 * limit(&before), "{still}");
    // SIGHUP has it read again, and does not end it.
    write(folder.path(), "policy.toml", &steady);
    kill(Pid::from_raw(edge.child.id() as i32), Signal::SIGHUP).unwrap();
    assert_eq!(next(&mut edge, "policy")["shares"]["backup"], 0.2);
    stop([source, sink]);
    edge.end();
    lab.down().unwrap();
}

#[test]
fn the_limit_of_a_flow_is_the_one_of_its_decision() {
    let folder = tempfile::tempdir().unwrap();
    let signals = folder.path().join("signals");
    let arguments = ["--flows", "--signals", signals.to_str().unwrap()];
    let Some((lab, mut edge)) = up("edge-decide", &arguments) else { return };
    let address = SocketAddr::new(lab.v4("server").unwrap().into(), 5000);
    let (source, _said) = play(&lab, "server", &format!("source cubic {address} 12"));
    let (sink, _lines) = play(&lab, "home", &format!("sink {address}"));
    let decided = next(&mut edge, "decision");
    assert_eq!(decided["strategies"], serde_json::json!(["receive-window"]), "{decided}");
    assert!(decided["sentence"].as_str().unwrap().starts_with("has a window of "), "{decided}");
    // The window that the host tells grows beyond the limit first.
    let is_held = |flow: &Value| {
        let limit = flow["strategies"]["chain"][0]["limit_bytes"].as_u64();
        flow["behaviour"] == "bulk" && flow["client_window_bytes"].as_u64() >= limit
    };
    let bulk = flow_of(&mut edge, 5000, is_held);
    assert_eq!((&bulk["limited_by"], &bulk["protocol"]), (&"receive-window".into(), &"tcp".into()), "{bulk}");
    let limit = |flow: &Value| {
        let limit = flow["strategies"]["chain"][0]["limit_bytes"].as_f64().unwrap();
        let passes = flow["window_let_through_bytes"].as_f64().unwrap();
        // A window is in units of its scale.
        assert!(passes <= limit && passes > 0.97 * limit, "{flow}");
        limit
    };
    let whole = limit(&bulk);
    assert!(bulk["features"]["packets"].as_u64().unwrap() > 100, "{bulk}");
    // Somebody says that the link has less now.
    let line = r#"{"path": "down", "available_bps": 20000000, "source": "modem"}"#;
    UnixDatagram::unbound().unwrap().send_to(line.as_bytes(), &signals).unwrap();
    let told = |flow: &Value| flow.to_string().contains("available are 20.0 Mb/s");
    let lower = flow_of(&mut edge, 5000, told);
    assert!((0.38..0.42).contains(&(limit(&lower) / whole)), "{lower}");
    stop([source, sink]);
    edge.end();
    lab.down().unwrap();
}

#[test]
#[cfg(feature = "web")]
fn the_page_has_what_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history");
    let options = ["--dry-run", "--page", "127.0.0.1:8080", "--history", history.to_str().unwrap()];
    let Some((lab, mut edge)) = up("edge-page", &options) else { return };
    let state = next(&mut edge, "state");
    assert!(state.get("flows").is_none() && state["links"][0]["capacity_bps"] == 50_000_000, "{state}");
    let (mut reader, mut said) = play(&lab, "router", "get 127.0.0.1:8080 /v1/state");
    let shown: Value = serde_json::from_str(&line(&mut said)).unwrap();
    assert!(shown.to_string().contains("\"dry_run\":true"), "{shown}");
    reader.wait().unwrap();
    // The file is one of root, and the edge is nobody now.
    let (mut reader, mut said) = play(&lab, "router", "get 127.0.0.1:8080 /v1/history?span=day");
    let past: Value = serde_json::from_str(&line(&mut said)).unwrap();
    assert!(past.to_string().contains("\"step_ms\":60000"), "{past}");
    reader.wait().unwrap();
    let [lan, wan] = interfaces(&lab);
    edge.end();
    let open = ["edge", "--lan", &lan, "--wan", &wan, "--rate", "5Mb/s", "--page", "0.0.0.0:8080"];
    // The token of measurements is none of the page.
    let mut command = lab.command("router", PROGRAM, open).unwrap();
    let output = command.env("HEADWAY_TOKEN", "a token of measurements").output().unwrap();
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.contains("needs a token") && said.contains("--page-token-file"),
        "{said}"
    );
    lab.down().unwrap();
}

//! `headway path` over real routers: chains of namespaces with emulated links.
//!
//! Where the machine allows no namespaces, each test says so and passes.
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd as _, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration as Time;

use headway_lab::{Direction, Lab};
use headway_net::protocol::{DEFAULT_PORT, Header, Kind, Role};
use headway_scenario::{LinkSpec, Scenario, TrafficSpec, Wire};
use headway_traffic::Traffic;
use headway_units::{Duration, Instant, Rate};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, setsockopt, sockopt};
use nix::sys::time::TimeVal;
use nix::time::{ClockId, clock_gettime};
use serde_json::Value;
use support::labs::{ROLE, bring_up, name, play};
use support::{PROGRAM, headway, output, text};

/// Held by the test that measures: two at a time would disturb each other on two processors.
static ONE: Mutex<()> = Mutex::new(());

/// The reference chain in Mb/s, whose narrow link is the fifth.
const REFERENCE: [f64; 7] = [50.0, 50.0, 40.0, 60.0, 30.0, 80.0, 60.0];

fn link(from: &str, to: &str, mbps: f64) -> LinkSpec {
    LinkSpec::at(from, to, Rate::from_mbps(mbps), Duration::from_ms(1))
}

/// A chain of nodes `n0`, `n1` and so on.
fn chain(rates: &[f64]) -> Vec<LinkSpec> {
    let one = |(k, mbps): (usize, &f64)| link(&format!("n{k}"), &format!("n{}", k + 1), *mbps);
    rates.iter().enumerate().map(one).collect()
}

/// A lab with a server in one of its nodes.
struct Served {
    lab: Lab,
    server: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

/// Brings up a lab with a server in `node`; `None` if this machine cannot run labs.
fn up(network: &Scenario, what: &str, node: &str) -> Option<Served> {
    let lab = bring_up(network, &name(what))?;
    let mut command = lab.command(node, PROGRAM, ["serve", "--json"]).unwrap();
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    let address = lab.v4(node).unwrap().to_string();
    Some(Served { lab, server, address })
}

impl Served {
    /// Starts `headway path` to the server in the node `n0`.
    fn start(&self, arguments: &[&str]) -> Child {
        self.start_to(&self.address, arguments)
    }

    /// The same to another address of the server.
    fn start_to(&self, address: &str, arguments: &[&str]) -> Child {
        let all = ["path", address, "--json"].into_iter().chain(arguments.iter().copied());
        let mut command = self.lab.command("n0", PROGRAM, all).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs it to its end; returns the first JSON object and what it said.
    fn path(&self, arguments: &[&str]) -> (Value, String) {
        result(self.start(arguments))
    }

    /// Does the same until the machine was not too busy meanwhile, but at most three times;
    /// `None` if it always was.
    fn undisturbed(&self, arguments: &[&str]) -> Option<(Value, String)> {
        (0..3).find_map(|_| {
            let from = now();
            let found = self.path(arguments);
            (!self.is_void(from)).then_some(found)
        })
    }

    /// Whether the machine was too busy since `from` for a result to mean anything; says so.
    fn is_void(&self, from: Instant) -> bool {
        let to = now();
        let truths = self.lab.truths_between(from, to).unwrap();
        let late = truths.iter().map(|(_, truth)| truth.lateness_between(Direction::Forward, from, to));
        let void = late.into_iter().any(|late| late.late_share > 0.02 || late.missed > 0);
        if void {
            println!("INVALID: the machine was too busy");
        }
        void
    }
}

fn result(child: Child) -> (Value, String) {
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    let printed = text(&output.stdout);
    let line = printed.lines().next().unwrap_or_else(|| panic!("nothing printed: {said}"));
    (serde_json::from_str(line).unwrap(), said)
}

fn now() -> Instant {
    let time = clock_gettime(ClockId::CLOCK_REALTIME).unwrap();
    Instant::from_ns(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Locks [`ONE`]; a test that failed does not make the others fail.
fn alone() -> impl Drop {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Valid runs on the reference chain: three, or as many as `HEADWAY_CHAIN_RUNS` says. A busy machine
/// gets twice the attempts.
fn runs() -> u32 {
    std::env::var("HEADWAY_CHAIN_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(3)
}

#[test]
fn the_narrow_link_of_a_chain_is_found_for_3_mb_in_30_s() {
    let _alone = alone();
    let links = chain(&REFERENCE);
    let traffic = links.iter().zip(REFERENCE).map(|(link, mbps)| {
        TrafficSpec::new(&link.from, &link.to, Traffic::poisson(Rate::from_mbps(0.2 * mbps)))
    });
    let network = Scenario { traffic: traffic.collect(), ..Scenario::of(links) };
    let Some(served) = up(&network, "narrow", "n7") else { return };
    let (mut right, mut wrong, mut valid, mut capacities) = (0, 0, 0, Vec::new());
    for _ in 0..2 * runs() {
        if valid == runs() {
            break;
        }
        let from = now();
        let (line, said) = served.path(&[]);
        assert!(line["probe_bytes"].as_u64().unwrap() <= 3_000_000, "{line}");
        if served.is_void(from) {
            continue;
        }
        assert!(line["duration_ms"].as_f64().unwrap() <= 30_000.0, "{line}");
        valid += 1;
        right += u32::from(line["narrow_hop"] == 5);
        wrong += u32::from(line["narrow_hop"] != 5 && !line["narrow_hop"].is_null());
        // A machine that stamps unevenly, although the emulator is on time, makes the capacity unclear: no
        // answer, not a wrong one.
        if let Some(capacity) = line["capacity_bps"].as_f64() {
            assert!((capacity / 30e6 - 1.0).abs() < 0.1, "{capacity}");
            capacities.push(capacity);
        } else {
            assert!(said.contains("the capacity is unclear"), "no capacity: {said}");
        }
        let first = served.lab.interface("n1", "n0-n1").unwrap().v4.to_string();
        assert_eq!(line["hops"].as_array().unwrap().len(), 7, "{line}");
        assert_eq!(line["hops"][0]["addresses"], Value::from(vec![first]));
    }
    println!("{right} of {valid} valid runs right, {wrong} wrong; capacities {capacities:?}");
    capacities.sort_by(f64::total_cmp);
    // One answer alone is no median: it is within 10 %.
    let median = capacities.get(capacities.len() / 2).filter(|_| 2 * capacities.len() > valid as usize);
    assert!(median.is_none_or(|bps| (bps / 30e6 - 1.0).abs() < 0.02), "{capacities:?}");
    // Of fewer runs one is allowed to be wrong, too.
    assert!(wrong * 3 <= valid.max(runs()), "{wrong} of {valid} wrong");
}

/// The start of every ICMP probe: type, code and checksum.
const ECHO_REPLY: [u8; 4] = [0, 0, 0x48, 0x64];

/// Receives all probes that arrive at this node, as UDP packets to the server's port or as ICMP Echo Replies;
/// prints how many hidden ones of a size there were by their TTL.
fn capture(size: usize, carrier: &str) {
    let is_icmp = carrier == "icmp";
    // SAFETY: the call has no pointers; the descriptor is checked and owned by nobody else.
    let socket = unsafe {
        let raw = libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, i32::from((libc::ETH_P_IP as u16).to_be()));
        assert!(raw >= 0, "{}", std::io::Error::last_os_error());
        OwnedFd::from_raw_fd(raw)
    };
    setsockopt(&socket, sockopt::ReceiveTimeout, &TimeVal::new(0, 200_000)).unwrap();
    // Without privileges on the host, the default must do.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &(16 << 20));
    println!("ready");
    let mut seen: BTreeMap<u8, u64> = BTreeMap::new();
    let mut packet = [0; 2000];
    // Until its standard input, which nobody writes to, is closed.
    let input = std::io::stdin();
    let mut events = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    while poll(&mut events, PollTimeout::ZERO).unwrap() == 0 {
        let Ok(length) = recv(socket.as_raw_fd(), &mut packet, MsgFlags::empty()) else {
            continue;
        };
        let packet = &packet[..length];
        let is_probe = match is_icmp {
            true => packet[9] == 1 && packet[20..24] == ECHO_REPLY,
            false => packet[9] == 17 && packet[22..24] == DEFAULT_PORT.to_be_bytes(),
        };
        let ours = length == size && is_probe;
        let hidden = |header: Header| header.kind == Kind::Probe && header.role == Role::Hidden;
        if ours && Header::parse(&packet[28..]).is_ok_and(hidden) {
            *seen.entry(packet[8]).or_default() += 1;
        }
    }
    seen.iter().for_each(|(ttl, count)| println!("ttl {ttl} {count}"));
}

#[test]
fn a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["capture", size, carrier] => capture(size.parse().unwrap(), carrier),
        _ => panic!("{role}"),
    }
}

/// Ends a capture and returns the hidden packets it saw, by their TTL.
fn captured((mut child, lines): (Child, BufReader<ChildStdout>)) -> BTreeMap<u8, u64> {
    drop(child.stdin.take());
    let lines = lines.lines().map(Result::unwrap);
    let seen = lines.filter_map(|line| {
        let (ttl, count) = line.strip_prefix("ttl ")?.split_once(' ')?;
        Some((ttl.parse().unwrap(), count.parse().unwrap()))
    });
    let seen = seen.collect();
    assert!(child.wait().unwrap().success());
    seen
}

#[test]
fn hidden_packets_reach_the_hop_of_their_ttl_and_none_beyond() {
    let _alone = alone();
    let Some(served) = up(&Scenario::of(chain(&[40.0, 60.0, 20.0, 60.0])), "hidden", "n4") else { return };
    let log = tempfile::NamedTempFile::new().unwrap();
    let nodes: Vec<_> =
        (1..=4).map(|node| play(&served.lab, &format!("n{node}"), "capture 1500 udp")).collect();
    let from = now();
    let (line, said) = served.path(&["--pairs", log.path().to_str().unwrap()]);
    let seen: Vec<BTreeMap<u8, u64>> = nodes.into_iter().map(captured).collect();
    if served.is_void(from) {
        return;
    }
    let sent = logged(log.path()).0;
    // Trains for the receiver, the hop before it, the narrow link's, and one to confirm: hops 4, 3, 2 and 1.
    assert_eq!(sent.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4], "{line} {said}");
    expect_at_nodes(&sent, &seen);
    assert_eq!(line["narrow_hop"], 3, "{said}");
}

/// Returns the hidden packets of full size in a log, by their TTL, and the number of whole pairs.
fn logged(log: &Path) -> (BTreeMap<u8, u64>, usize) {
    let (mut hidden, mut pairs): (BTreeMap<u8, u64>, usize) = Default::default();
    for line in std::fs::read_to_string(log).unwrap().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["t_tx2_ns"].as_u64() > line["t_tx1_ns"].as_u64(), "{line}");
        if line["z_bytes"] == 1538 && line["hidden_sent"] != 0 {
            let ttl = line["ttl_hidden"].as_u64().unwrap() as u8;
            *hidden.entry(ttl).or_default() += line["hidden_sent"].as_u64().unwrap();
        }
        pairs +=
            usize::from(line["hidden_sent"] == 0 && line["t_rx2_ns"].as_u64() > line["t_rx1_ns"].as_u64());
    }
    (hidden, pairs)
}

/// Checks that hidden packets reached the node of their TTL, and none beyond.
fn expect_at_nodes(sent: &BTreeMap<u8, u64>, seen: &[BTreeMap<u8, u64>]) {
    for (node, seen) in (1..).zip(seen) {
        // At node k the TTL has been counted down k - 1 times.
        let expected =
            sent.iter().filter(|(ttl, _)| **ttl >= node).map(|(ttl, count)| (ttl + 1 - node, *count));
        assert_eq!(seen, &expected.collect::<BTreeMap<_, _>>(), "at node {node}; sent {sent:?}");
    }
}

/// Whether a program in a node said that it may not open raw sockets; says so, too.
fn lacks_raw_sockets(said: &str) -> bool {
    let lacks = said.contains("may not open raw sockets");
    if lacks {
        println!("SKIPPED: {said}");
    }
    lacks
}

#[test]
fn icmp_and_udp_tell_the_same_of_a_chain() {
    let _alone = alone();
    let Some(served) = up(&Scenario::of(chain(&[40.0, 20.0, 40.0])), "carriers", "n3") else { return };
    let log = tempfile::NamedTempFile::new().unwrap();
    let nodes: Vec<_> =
        (1..=3).map(|node| play(&served.lab, &format!("n{node}"), "capture 1500 icmp")).collect();
    let from = now();
    // At the same time: together they load the narrow link by a seventh.
    let v6 = served.lab.v6("n3").unwrap().to_string();
    let budget = ["--budget", "1.5 MB"];
    let v6 = served.start_to(&v6, &["--carrier", "icmp", budget[0], budget[1]]);
    let udp = served.start(&budget);
    let log_to = ["--pairs", log.path().to_str().unwrap()];
    let icmp = served.start(&["--carrier", "icmp", budget[0], budget[1], log_to[0], log_to[1]]);
    let [udp, icmp, v6] = [udp, icmp, v6].map(result);
    let seen: Vec<BTreeMap<u8, u64>> = nodes.into_iter().map(captured).collect();
    if lacks_raw_sockets(&icmp.1) {
        return;
    }
    assert_eq!([&udp.0["carrier"], &icmp.0["carrier"], &v6.0["carrier"]], ["udp", "icmp", "icmp"]);
    if served.is_void(from) {
        return;
    }
    let first = served.lab.interface("n1", "n0-n1").unwrap();
    assert_eq!(icmp.0["hops"][0]["addresses"], Value::from(vec![first.v4.to_string()]), "{icmp:?}");
    assert_eq!(v6.0["hops"][0]["addresses"], Value::from(vec![first.v6.to_string()]), "{v6:?}");
    for (line, said) in [&udp, &icmp, &v6] {
        assert_eq!(line["hops"].as_array().unwrap().len(), 3, "{line} {said}");
    }
    for (line, said) in [&udp, &icmp, &v6] {
        assert!(line["narrow_hop"] == 2 || line["narrow_hop"].is_null(), "{line} {said}");
        let capacity = line["capacity_bps"].as_f64().unwrap_or_else(|| panic!("no capacity: {said}"));
        println!("{} {}: {:.2} Mb/s", line["host"], line["carrier"], capacity / 1e6);
        assert!((capacity / 20e6 - 1.0).abs() < 0.1, "{line}");
    }
    let (sent, pairs) = logged(log.path());
    assert!(sent.len() >= 2 && pairs >= 100, "{pairs} pairs, {sent:?}: {}", icmp.1);
    expect_at_nodes(&sent, &seen);
}

#[test]
fn icmp_and_udp_tell_the_same_of_a_host_next_door() {
    let _alone = alone();
    let Some(served) = up(&Scenario::of(chain(&[20.0])), "next", "n1") else { return };
    let from = now();
    let children = ["udp", "icmp"].map(|by| served.start(&["--carrier", by, "--budget", "500 kB"]));
    let [udp, icmp] = children.map(result);
    if lacks_raw_sockets(&icmp.1) {
        return;
    }
    if served.is_void(from) {
        return;
    }
    for (line, said) in [&udp, &icmp] {
        assert_eq!(line["hops"].as_array().unwrap().len(), 1, "{line} {said}");
        let capacity = line["capacity_bps"].as_f64().unwrap_or_else(|| panic!("no capacity: {said}"));
        println!("{}: {:.2} Mb/s", line["carrier"], capacity / 1e6);
        assert!((capacity / 20e6 - 1.0).abs() < 0.05, "{line}");
    }
}

#[test]
fn a_path_without_echo_replies_is_said_to_be_one() {
    let _alone = alone();
    let Some(served) = up(&Scenario::of(chain(&[20.0, 20.0])), "filter", "n2") else { return };
    if let Err(error) = served.lab.configure("n1", "rule add ipproto icmp priority 10 blackhole\n") {
        println!("SKIPPED: {error}");
        return;
    }
    let (line, said) = served.path(&["--carrier", "icmp"]);
    if lacks_raw_sockets(&said) {
        return;
    }
    assert!(line["hops"].as_array().unwrap().is_empty(), "{line}");
    let sentence = line["error"].as_str().unwrap();
    assert!(sentence.contains("no ICMP packet") && sentence.contains("--carrier udp"), "{sentence}");
}

/// Takes the right to open raw sockets from a program, if it would have it.
fn without_raw_sockets(mut command: Command) -> Command {
    const CAP_NET_RAW: libc::c_ulong = 13;
    // SAFETY: the closure makes one system call without pointers. It fails where there is no right to take.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_CAPBSET_DROP, CAP_NET_RAW, 0, 0, 0);
            Ok(())
        });
    }
    command
}

#[test]
fn a_client_and_a_server_without_raw_sockets_say_what_to_do() {
    let arguments = ["serve", "--json", "--bind", "127.0.0.1", "--port", "0"];
    let mut server = without_raw_sockets(headway(&arguments));
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let line: Value = serde_json::from_str(&line).unwrap();
    let port = line["port"].to_string();
    let client = || headway(&["path", "127.0.0.1", "--carrier", "icmp", "--port", &port]);
    let outputs = [output(&mut without_raw_sockets(client())), output(&mut client())];
    server.kill().unwrap();
    server.wait().unwrap();
    let [own, its] = outputs.map(|output| (output.status.code(), text(&output.stderr)));
    assert_eq!(own.0, Some(1));
    assert!(
        own.1.contains("this program may not open raw sockets") && own.1.contains("--carrier udp"),
        "{own:?}"
    );
    if its != own {
        assert_eq!(its.0, Some(4), "{}", its.1);
        assert!(its.1.contains("the server may not open raw sockets") && its.1.contains("CAP_NET_RAW"));
    } else {
        println!("SKIPPED: this program may not open raw sockets either");
    }
}

#[test]
fn nodes_that_do_not_answer_are_counted_all_the_same() {
    let _alone = alone();
    let Some(served) = up(&Scenario::of(chain(&[40.0, 20.0, 40.0])), "silent", "n3") else { return };
    // What n2 itself sends by ICMP goes nowhere.
    if let Err(error) = served.lab.configure("n2", "rule add ipproto icmp priority 10 blackhole\n") {
        println!("SKIPPED: {error}");
        return;
    }
    let Some((line, said)) = served.undisturbed(&[]) else { return };
    let addresses: Vec<usize> = line["hops"]
        .as_array()
        .unwrap()
        .iter()
        .map(|hop| hop["addresses"].as_array().unwrap().len())
        .collect();
    assert_eq!(addresses, [1, 0, 1], "{line} {said}");
    assert!(line["narrow_hop"] == 2 || line["narrow_hop"].is_null(), "{line} {said}");
}

/// Starts a measurement, makes n1 send packets for the server in n3 through the node x under way, and returns
/// the reason for which there is no answer; `None` if the machine was too busy.
fn rerouted(served: &Served) -> Option<String> {
    let (from, log) = (now(), tempfile::NamedTempFile::new().unwrap());
    let mut child = served.start(&["--budget", "1.5 MB", "--pairs", log.path().to_str().unwrap()]);
    // Pairs of full size are written after the survey, and some seconds before the end.
    while !std::fs::read_to_string(log.path()).unwrap().contains("\"z_bytes\":1538") {
        assert!(child.try_wait().unwrap().is_none(), "it ended before the change");
        std::thread::sleep(Time::from_millis(20));
    }
    let next = served.lab.interface("x", "n1-x").unwrap().v4;
    let target = served.lab.interface("n3", "n2-n3").unwrap().v4.octets();
    let subnet = format!("{}.{}.{}.0/24", target[0], target[1], target[2]);
    served.lab.configure("n1", &format!("route replace {subnet} via {next}\n")).unwrap();
    let (line, said) = result(child);
    assert_eq!(line["narrow_hop"], Value::Null, "{line} {said}");
    (!served.is_void(from)).then(|| line["error"].as_str().unwrap().to_owned())
}

#[test]
fn a_path_that_changes_under_way_is_refused() {
    let _alone = alone();
    let mut links = chain(&[40.0, 20.0, 40.0]);
    links.extend([link("n1", "x", 40.0), link("x", "n2", 40.0)]);
    let Some(served) = up(&Scenario::of(links), "change", "n3") else { return };
    let Some(sentence) = rerouted(&served) else { return };
    assert!(sentence.contains("the path changed during the measurement"), "{sentence}");
}

#[test]
fn a_change_to_other_routers_at_the_same_hops_is_refused() {
    let _alone = alone();
    let mut links = chain(&[40.0, 20.0, 40.0]);
    links.extend([link("n1", "x", 40.0), link("x", "n3", 10.0)]);
    let Some(served) = up(&Scenario::of(links), "other", "n3") else { return };
    // The server's address is on the link from n2; the way through x is as long.
    let Some(sentence) = rerouted(&served) else { return };
    assert!(sentence.contains("the path changed during the measurement"), "{sentence}");
}

#[test]
fn paths_that_lose_or_reorder_pairs_are_refused_at_once() {
    let _alone = alone();
    let mut lossy = chain(&[40.0, 20.0]);
    lossy[0].loss = 0.3;
    lossy[0].reverse = Some(Wire::default());
    let Some(served) = up(&Scenario::of(lossy), "lossy", "n2") else { return };
    let Some((line, said)) = served.undisturbed(&[]) else { return };
    let sentence = line["error"].as_str().unwrap_or_else(|| panic!("{line} {said}"));
    assert!(sentence.contains("lost packets"), "{sentence}");
    drop(served);
    let mut swapping = chain(&[40.0, 20.0]);
    (swapping[0].jitter, swapping[0].reordering) = (Duration::from_ms(4).into(), true);
    swapping[0].reverse = Some(Wire::default());
    let Some(served) = up(&Scenario::of(swapping), "swapping", "n2") else { return };
    let Some((line, said)) = served.undisturbed(&[]) else { return };
    let sentence = line["error"].as_str().unwrap_or_else(|| panic!("{line} {said}"));
    assert!(sentence.contains("arrived in the wrong order"), "{sentence}");
    assert!(line["probe_bytes"].as_u64().unwrap() < 400_000, "{line}");
}

#[test]
fn a_receiver_behind_nat_is_measured_through_a_forwarded_port() {
    let _alone = alone();
    let Some(served) = up(&Scenario::of(chain(&[40.0, 20.0, 40.0])), "nat", "n3") else { return };
    let outer = served.lab.interface("n2", "n1-n2").unwrap().v4;
    let rules = format!(
        "table ip nat {{
            chain forwarded {{
                type nat hook prerouting priority -100;
                ip daddr {outer} tcp dport {DEFAULT_PORT} dnat to {0}
                ip daddr {outer} udp dport {DEFAULT_PORT} dnat to {0}
            }}
            chain hidden {{
                type nat hook postrouting priority 100;
                ip daddr {0} masquerade
            }}
        }}
        ",
        served.address
    );
    let mut command = served.lab.command("n2", "nft", [rules.as_str()]).unwrap();
    match command.output() {
        Ok(done) if done.status.success() => {}
        Ok(done) => {
            let said = text(&done.stderr);
            assert!(said.contains("Could not process rule"), "{said}");
            return println!("SKIPPED: the kernel does not translate addresses: {said}");
        }
        Err(error) => return println!("SKIPPED: nft: {error}"),
    }
    let from = now();
    let (line, said) = result(served.start_to(&outer.to_string(), &["--budget", "1.5 MB"]));
    if served.is_void(from) {
        return;
    }
    assert_eq!(line["hops"].as_array().unwrap().len(), 3, "{line} {said}");
    assert!(line["narrow_hop"] == 2 || line["narrow_hop"].is_null(), "{line} {said}");
}

#[test]
fn the_tight_link_of_a_chain_is_found_beside_the_narrow_one() {
    let _alone = alone();
    let links = chain(&[60.0, 30.0, 60.0]);
    // 12 Mb/s are free on the last link.
    let traffic = vec![TrafficSpec::new("n2", "n3", Traffic::poisson(Rate::from_mbps(48.0)))];
    let Some(served) = up(&Scenario { traffic, ..Scenario::of(links) }, "tight", "n3") else { return };
    let from = now();
    let (line, said) = served.path(&["--tight", "--budget", "7 MB"]);
    assert!(line["probe_bytes"].as_u64().unwrap() <= 7_000_000, "{line}");
    println!("tight: {} {} {}", line["tight_hop"], line["tight_error"], line["duration_ms"]);
    if served.is_void(from) {
        return;
    }
    assert!(line["tight_hop"] == 3 || line["tight_error"].is_string(), "{line} {said}");
    let below = line["tight_below_bps"].as_f64();
    assert!(below.is_none_or(|bps| bps > 12e6 && bps < 30e6), "{line}");
}

#[test]
fn a_host_next_door_is_one_hop_away() {
    let _alone = alone();
    let Some(served) = up(&Scenario::of(chain(&[20.0])), "one", "n1") else { return };
    let Some((line, said)) = served.undisturbed(&["--budget", "1.5 MB"]) else { return };
    assert_eq!(line["hops"].as_array().unwrap().len(), 1, "{line} {said}");
    assert!(line["narrow_hop"] == 1, "{line} {said}");
}

//! Labs of several links on this machine: routers, hop limits, and packets that cross more than one queue.
//!
//! Where the machine allows no namespaces, each test says so and passes.

use std::io::{BufRead, BufReader, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::ChildStdout;
use std::time::{Duration as Time, Instant as Clock};

use crate::support::labs::{ROLE, bring_up, name, play};
use headway_lab::{Direction, Edge, Lab};
use headway_scenario::{LinkSpec, Scenario};
use headway_units::{Duration, Instant, Rate};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};

fn up(links: Vec<LinkSpec>, what: &str) -> Option<Lab> {
    up_network(&Scenario::of(links), what)
}

fn up_network(network: &Scenario, what: &str) -> Option<Lab> {
    bring_up(network, &name(what))
}

fn link(from: &str, to: &str, mbps: f64) -> LinkSpec {
    LinkSpec::at(from, to, Rate::from_mbps(mbps), Duration::from_ms(1))
}

/// A chain of nodes `n0`, `n1` and so on.
fn chain(rates: &[f64]) -> Vec<LinkSpec> {
    let one = |(k, mbps): (usize, &f64)| link(&format!("n{k}"), &format!("n{}", k + 1), *mbps);
    rates.iter().enumerate().map(one).collect()
}

/// Returns the lines that a role prints with this prefix.
fn said(lines: BufReader<ChildStdout>, prefix: &str) -> Vec<String> {
    let lines = lines.lines().map(Result::unwrap);
    lines.filter_map(|line| line.strip_prefix(prefix).map(str::to_owned)).collect()
}

#[test]
fn a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    match words[..] {
        ["trace", address] => trace(address.parse().unwrap()),
        ["pairs", address, count] => pairs(address.parse().unwrap(), count.parse().unwrap()),
        ["stamp", count] => stamp(count.parse().unwrap()),
        _ => panic!("{role}"),
    }
}

/// Sends packets with growing hop limits to a closed port, eight of each, and prints who answers.
fn trace(address: IpAddr) {
    println!("ready");
    for hops in 1..=20 {
        for _ in 0..8 {
            let answer = answer(address, hops);
            println!("hop {hops} {}", answer.map_or("none".to_owned(), |answer| answer.to_string()));
            if answer == Some(address) {
                return;
            }
        }
    }
}

/// Returns the source of the ICMP error that a packet with this hop limit causes.
fn answer(address: IpAddr, hops: i32) -> Option<IpAddr> {
    let any: SocketAddr = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().unwrap();
    let socket = UdpSocket::bind(any).unwrap();
    if address.is_ipv4() {
        setsockopt(&socket, sockopt::Ipv4Ttl, &hops).unwrap();
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true).unwrap();
    } else {
        setsockopt(&socket, sockopt::Ipv6Ttl, &hops).unwrap();
        setsockopt(&socket, sockopt::Ipv6RecvErr, &true).unwrap();
    }
    socket.send_to(&[0; 100], (address, 33_434)).unwrap();
    let mut event = [PollFd::new(std::os::fd::AsFd::as_fd(&socket), PollFlags::empty())];
    if poll(&mut event, PollTimeout::from(20_000_u16)).unwrap() == 0 {
        return None;
    }
    let mut payload = [0; 200];
    let mut parts = [IoSliceMut::new(&mut payload)];
    let mut control = vec![0; 512];
    let errors = MsgFlags::MSG_ERRQUEUE;
    let message =
        recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut parts, Some(&mut control), errors).unwrap();
    message.cmsgs().unwrap().find_map(|part| match part {
        ControlMessageOwned::Ipv4RecvErr(_, Some(from)) => {
            Some(IpAddr::V4(u32::from_be(from.sin_addr.s_addr).into()))
        }
        ControlMessageOwned::Ipv6RecvErr(_, Some(from)) => Some(IpAddr::V6(from.sin6_addr.s6_addr.into())),
        _ => None,
    })
}

/// Sends pairs of back-to-back packets of 1500 bytes.
fn pairs(address: IpAddr, count: usize) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((address, 9000)).unwrap();
    println!("ready");
    for _ in 0..count {
        for number in 0..2 {
            socket.send(&[number; 1472]).unwrap();
        }
        // Spacing of the traffic, not synchronisation: a pair must have left before the next comes.
        std::thread::sleep(Time::from_millis(4));
    }
}

/// Prints the payload and the kernel's receive timestamp of each packet.
fn stamp(count: usize) {
    let socket = UdpSocket::bind("0.0.0.0:9000").unwrap();
    socket.set_read_timeout(Some(Time::from_secs(3))).unwrap();
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).unwrap();
    // For a receiver that has to wait for the processor. Without privileges on the host, the default must do.
    let _ = setsockopt(&socket, sockopt::RcvBufForce, &(4 << 20));
    println!("ready");
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let mut payload = [0; 2000];
    for _ in 0..count {
        let mut parts = [IoSliceMut::new(&mut payload)];
        let fd = socket.as_raw_fd();
        let Ok(message) = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control), MsgFlags::empty())
        else {
            break;
        };
        if let Some(ControlMessageOwned::ScmTimestampns(stamp)) = message.cmsgs().unwrap().next() {
            println!("stamp {} {}", payload[0], stamp.tv_sec() * 1_000_000_000 + stamp.tv_nsec());
        }
    }
}

fn now() -> Instant {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_REALTIME).unwrap();
    Instant::from_ns(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Checks who answers packets from `from` to `to` when their hop limits run out: `hops` in this
/// order, and all of them.
fn check_trace(lab: &Lab, from: &str, to: IpAddr, hops: &[IpAddr]) {
    let (mut child, lines) = play(lab, from, &format!("trace {to}"));
    let found = said(lines, "hop ");
    assert!(child.wait().unwrap().success());
    let answers = |(hop, address): (usize, &IpAddr)| vec![format!("{} {address}", hop + 1); 8];
    let mut expected: Vec<String> = hops.iter().enumerate().flat_map(answers).collect();
    expected.push(format!("{} {to}", hops.len() + 1));
    assert_eq!(found, expected);
}

#[test]
fn routers_answer_packets_whose_hop_limit_runs_out() {
    let Some(lab) = up(chain(&[50.0, 30.0, 40.0]), "trace") else { return };
    let near = |node: &str, link: &str| lab.interface(node, link).unwrap().clone();
    let there = [near("n1", "n0-n1"), near("n2", "n1-n2")];
    let back = [near("n2", "n2-n3"), near("n1", "n1-n2")];
    check_trace(&lab, "n0", lab.v4("n3").unwrap().into(), &there.clone().map(|end| end.v4.into()));
    check_trace(&lab, "n3", lab.v4("n0").unwrap().into(), &back.clone().map(|end| end.v4.into()));
    if Path::new("/proc/sys/net/ipv6").exists() {
        check_trace(&lab, "n0", lab.v6("n3").unwrap().into(), &there.map(|end| end.v6.into()));
        check_trace(&lab, "n3", lab.v6("n0").unwrap().into(), &back.map(|end| end.v6.into()));
    }
    lab.down().unwrap();
}

#[test]
fn the_address_chooses_one_of_two_paths() {
    let links =
        vec![link("h1", "r1", 50.0), link("r1", "h2", 50.0), link("h1", "r2", 50.0), link("r2", "h2", 50.0)];
    let Some(lab) = up(links, "two") else { return };
    for router in ["r1", "r2"] {
        let to = lab.interface("h2", &format!("{router}-h2")).unwrap().v4;
        let hop = lab.interface(router, &format!("h1-{router}")).unwrap().v4;
        check_trace(&lab, "h1", to.into(), &[hop.into()]);
    }
    lab.down().unwrap();
}

#[test]
fn the_narrow_link_sets_the_gap_of_a_pair() {
    let Some(lab) = up(chain(&[50.0, 20.0, 40.0]), "pairs") else { return };
    let (from, count) = (now(), 100);
    let (mut receiver, lines) = play(&lab, "n3", &format!("stamp {}", 2 * count));
    let to = lab.v4("n3").unwrap();
    let (mut sender, _lines) = play(&lab, "n0", &format!("pairs {to} {count}"));
    let stamps: Vec<(u8, i64)> = said(lines, "stamp ")
        .iter()
        .map(|line| line.split_once(' ').unwrap())
        .map(|(number, stamp)| (number.parse().unwrap(), stamp.parse().unwrap()))
        .collect();
    assert!(sender.wait().unwrap().success() && receiver.wait().unwrap().success());
    let truths = lab.truths_between(from, now()).unwrap();
    let lateness = |name| truths.link(name).unwrap().lateness_between(Direction::Forward, from, now());
    let busy = ["n0-n1", "n1-n2", "n2-n3"].map(lateness).iter().any(|late| late.late_share > 0.1);
    if busy || stamps.len() < 2 * count {
        println!("INVALID: the machine was too busy: {} packets", stamps.len());
        return;
    }
    let is_pair = |pair: &&[(u8, i64)]| (pair[0].0, pair[1].0) == (0, 1);
    let mut gaps: Vec<i64> = stamps.windows(2).filter(is_pair).map(|pair| pair[1].1 - pair[0].1).collect();
    gaps.sort_unstable();
    let median = gaps[gaps.len() / 2];
    // 1538 bytes at 20 Mb/s. The first of a pair may find the emulator asleep, the second never does.
    assert!((median - 615_200).abs() < 20_000, "{median}");
    // Each link logged all packets, with its own capacity.
    for (name, mbps) in [("n0-n1", 50.0), ("n1-n2", 20.0), ("n2-n3", 40.0)] {
        let intervals = truths.link(name).unwrap().intervals(Direction::Forward);
        assert_eq!(intervals.last().unwrap().capacity, Rate::from_mbps(mbps));
        let bits: u64 = intervals.iter().map(|interval| interval.host_bits).sum();
        assert!((2 * count as u64 * 12_304..2 * count as u64 * 12_304 + 20_000).contains(&bits), "{bits}");
    }
    lab.down().unwrap();
}

#[test]
fn a_chain_of_seven_links_is_up_at_once_and_a_fifth_busy() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/chain-7.toml");
    let network = Scenario::load_network(&file).unwrap();
    let clock = Clock::now();
    let Some(lab) = up_network(&network, "seven") else { return };
    let came = clock.elapsed();
    assert_eq!((lab.nodes().count(), lab.holders().len()), (8, 8));
    let (from, to) = (now(), lab.v4("h2").unwrap());
    let (mut receiver, lines) = play(&lab, "h2", "stamp 1000");
    let (mut sender, _lines) = play(&lab, "h1", &format!("pairs {to} 500"));
    let arrived = said(lines, "stamp ").len();
    assert!(sender.wait().unwrap().success() && receiver.wait().unwrap().success());
    let until = now();
    let truths = lab.truths_between(from, until).unwrap();
    let truth = |link: &Edge| truths.link(&link.name).unwrap().clone();
    let lateness =
        lab.spec().links.iter().map(|link| truth(link).lateness_between(Direction::Forward, from, until));
    let worst = lateness.map(|late| late.very_late_share).fold(0.0, f64::max);
    println!("up in {came:?}; at most {:.2} % of the packets of a link over 1 ms late", 100.0 * worst);
    for link in &lab.spec().links {
        // The log needs no punctual emulator. At the least rate, 2 s have 1000 packets of cross traffic.
        let free = truth(link).free_between(Direction::Forward, from, until).unwrap();
        let share = free.bps_f64() / link.path.forward.rate.bps_f64();
        assert!((share - 0.8).abs() < 0.04, "{}: {share}", link.name);
    }
    let processes: Vec<_> = lab.holders().into_iter().chain([lab.daemon()]).collect();
    let clock = Clock::now();
    lab.down().unwrap();
    println!("down in {:?}", clock.elapsed());
    assert!(processes.iter().all(|process| !process.alive()));
    if worst > 0.01 {
        println!("INVALID: the machine was too busy");
    } else {
        assert_eq!(arrived, 1000);
    }
}

/// Two flows in opposite directions through two queues, and a program at the router between them.
const TWO_QUEUES: &str = r#"
duration = "4 s"
warmup = "2 s"
[[link]]
from = "left"
to = "middle"
rate = "20 Mb/s"
delay = "2 ms"
buffer = "40 kB"
[[link]]
from = "middle"
to = "right"
rate = "12 Mb/s"
delay = "2 ms"
buffer = "40 kB"
[[flow]]
from = "left"
to = "right"
controller = "reno"
[[flow]]
from = "middle"
to = "left"
controller = "reno"
[[traffic]]
from = "right"
to = "middle"
model = "cbr"
rate = "6 Mb/s"
[[program]]
at = "middle"
command = "grep -c -e left -e middle -e right /etc/hosts; cat /proc/sys/net/ipv4/ip_forward"
"#;

#[test]
fn scenarios_of_several_queues_run_in_the_lab() {
    let folder = tempfile::tempdir().unwrap();
    let file = crate::support::write(folder.path(), "two.toml", TWO_QUEUES);
    let out = folder.path().join("results");
    let args = ["run", "--on", "lab", "--output", out.to_str().unwrap(), &file];
    let ran = crate::support::output(&mut crate::support::headway(&args));
    let errors = crate::support::text(&ran.stderr);
    if ["this host allows neither", "install the package"].iter().any(|reason| errors.contains(reason)) {
        println!("SKIPPED: {errors}");
        return;
    }
    assert!(ran.status.success(), "{errors}");
    assert_eq!(std::fs::read_to_string(out.join("program-0.out")).unwrap(), "3\n1\n");
    let summary = std::fs::read_to_string(out.join("summary.json")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(&summary).unwrap();
    let links = summary["links"].as_array().unwrap();
    let names: Vec<&str> = links.iter().map(|link| link["link"].as_str().unwrap()).collect();
    assert_eq!(names, ["left->middle", "middle->left", "middle->right", "right->middle"]);
    let cross: Vec<f64> = links.iter().map(|link| link["cross_bps"].as_f64().unwrap()).collect();
    assert!(cross[..3] == [0.0; 3] && (cross[3] - 6e6).abs() < 0.1e6, "{cross:?}");
    // A machine that is too busy says so, and its numbers are not checked.
    if summary["valid"] == true {
        let used = |link: usize| links[link]["utilisation"].as_f64().unwrap();
        assert!(used(1) > 0.9 && used(2) > 0.9, "{summary}");
    } else {
        println!("INVALID: {summary}");
    }
}

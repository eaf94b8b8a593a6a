//! Labs on this machine: real namespaces, real packets, real time.
//!
//! Where the machine allows no namespaces, each test says so and passes.

use std::io::{BufRead, BufReader, IoSliceMut, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration as Time, Instant as Clock};

use crate::support::labs::{ROLE, play};
use crate::support::{PROGRAM, TIMEOUT, text};
use headway_lab::{Direction, Lab, Life, Process};
use headway_scenario::{HostSpec, LinkSpec, Scenario, TrafficSpec};
use headway_traffic::Traffic;
use headway_units::{Duration, Instant, Rate};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};
use nix::unistd::Pid;

fn link(mbps: f64, ms: i64) -> Scenario {
    Scenario::of(vec![LinkSpec::at("client", "server", Rate::from_mbps(mbps), Duration::from_ms(ms))])
}

fn cross(model: fn(Rate) -> Traffic, mbps: f64) -> TrafficSpec {
    TrafficSpec::new("client", "server", model(Rate::from_mbps(mbps)))
}

/// Returns a name that no other run uses.
fn name(what: &str) -> String {
    format!("t{}-{what}", std::process::id())
}

/// Whether the sentence says that this machine cannot run labs at all.
fn impossible(sentence: &str) -> bool {
    let reasons = ["this host allows neither", "install the package"];
    let found = reasons.iter().any(|reason| sentence.contains(reason));
    if found {
        println!("SKIPPED: {sentence}");
    }
    found
}

fn up(network: &Scenario, name: &str, life: Life) -> Option<Lab> {
    match Lab::up_with(Path::new(PROGRAM), network, name, life) {
        Ok(lab) => Some(lab),
        Err(error) if impossible(&error.to_string()) => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    match words[..] {
        ["echo", address] => echo(address),
        ["ask", address, count, size] => ask(address, count.parse().unwrap(), size.parse().unwrap()),
        ["stamp", count] => stamp(count.parse().unwrap()),
        ["train", address, trains] => train(address, trains.parse().unwrap()),
        ["stay"] => {
            println!("ready");
            nix::unistd::pause();
        }
        _ => panic!("{role}"),
    }
}

fn echo(address: &str) {
    let socket = UdpSocket::bind(address).unwrap();
    println!("ready");
    let mut buffer = [0; 9000];
    while let Ok((len, from)) = socket.recv_from(&mut buffer) {
        socket.send_to(&buffer[..len], from).unwrap();
    }
}

/// Prints the RTTs, in nanoseconds, of packets with a payload of `size`.
fn ask(address: &str, count: usize, size: usize) {
    let any = if address.starts_with('[') { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    println!("ready");
    for _ in 0..count {
        let start = Clock::now();
        socket.send(&vec![0; size]).unwrap();
        assert_eq!(socket.recv(&mut [0; 9000]).unwrap(), size);
        println!("rtt {}", start.elapsed().as_nanos());
    }
}

/// Prints the number and the kernel's receive timestamp of each packet.
fn stamp(count: usize) {
    let socket = UdpSocket::bind("0.0.0.0:9000").unwrap();
    socket.set_read_timeout(Some(Time::from_secs(3))).unwrap();
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).unwrap();
    // A buffer large enough for a receiver that has to wait for the processor.
    setsockopt(&socket, sockopt::RcvBuf, &(4 << 20)).unwrap();
    println!("ready");
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    let mut payload = [0; 2000];
    let mut stamps = Vec::new();
    while stamps.len() < count {
        let mut parts = [IoSliceMut::new(&mut payload)];
        let fd = socket.as_raw_fd();
        let Ok(message) = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control), MsgFlags::empty())
        else {
            break;
        };
        let Some(ControlMessageOwned::ScmTimestampns(stamp)) = message.cmsgs().unwrap().next() else {
            continue;
        };
        stamps.push((payload[0], stamp.tv_sec() * 1_000_000_000 + stamp.tv_nsec()));
    }
    for (number, stamp) in stamps {
        println!("stamp {number} {stamp}");
    }
}

/// Sends trains of 32 back-to-back packets of 1500 bytes.
fn train(address: &str, trains: usize) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(address).unwrap();
    println!("ready");
    let mut payload = [0; 1472];
    for _ in 0..trains {
        for number in 0..32 {
            payload[0] = number;
            socket.send(&payload).unwrap();
        }
        // Spacing of the traffic, not synchronisation: the train must have left before the next comes.
        std::thread::sleep(Time::from_millis(8));
    }
}

fn round_trips(lab: &Lab, address: &str, count: usize, size: usize) -> Vec<Duration> {
    let (mut echo, _lines) = play(lab, "server", &format!("echo {address}"));
    let (mut ask, lines) = play(lab, "client", &format!("ask {address} {count} {size}"));
    let rtts = lines
        .lines()
        .filter_map(|line| {
            line.unwrap().strip_prefix("rtt ").map(|ns| Duration::from_ns(ns.parse().unwrap()))
        })
        .collect();
    assert!(ask.wait().unwrap().success());
    echo.kill().unwrap();
    echo.wait().unwrap();
    rtts
}

fn now() -> Instant {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_REALTIME).unwrap();
    Instant::from_ns(time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
}

/// Returns the number of processes in the network namespace that `link` names.
fn inhabitants(link: &Path) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|p| std::fs::read_link(p.path().join("ns/net")).is_ok_and(|l| l == link)).count()
}

fn namespaces(lab: &Lab) -> Vec<PathBuf> {
    let mut all = lab.holders();
    all.push(lab.daemon());
    all.iter().map(|p| std::fs::read_link(format!("/proc/{}/ns/net", p.pid)).unwrap()).collect()
}

#[test]
fn packets_cross_the_path_in_its_time() {
    let Some(lab) = up(&link(100.0, 10), &name("echo"), Life::Owned) else { return };
    let from = now();
    // 1000 bytes of IP (v4): 1038 on the wire, 83 us in each direction.
    for address in ["10.77.0.2:7", "[fd77::2]:7"] {
        let rtts = round_trips(&lab, address, 20, 972);
        assert_eq!(rtts.len(), 20);
        let least = rtts.iter().min().unwrap();
        assert!(least.us() > 20_166.0 && least.us() < 22_000.0, "{least}");
    }
    let truth = lab.truth_until(now()).unwrap();
    let bits: u64 = truth.intervals(Direction::Forward).iter().map(|i| i.host_bits).sum();
    // 20 packets of 1038 and 20 of 1058 bytes, and nothing from the system itself except router discovery.
    assert!((335_360..340_000).contains(&bits), "{bits}");
    assert!(truth.lateness_between(Direction::Forward, from, now()).released >= 40);
    lab.down().unwrap();
}

#[test]
fn jumbo_frames_fit_when_asked_for() {
    let network = Scenario { mtu: 9000, ..link(10.0, 10) };
    let Some(lab) = up(&network, &name("jumbo"), Life::Owned) else { return };
    let rtts = round_trips(&lab, "10.77.0.2:7", 10, 8972);
    // 9038 bytes at 10 Mb/s take 7.23 ms in each direction, unfragmented.
    let least = rtts.iter().min().unwrap();
    assert!(least.us() > 34_460.0 && least.us() < 37_000.0, "{least}");
}

/// Returns the gaps in nanoseconds between consecutive packets of 20 trains, sorted; `None` if the machine
/// was too busy for a valid result.
fn train_gaps(lab: &Lab) -> Option<Vec<i64>> {
    let from = now();
    let (mut receiver, lines) = play(lab, "server", "stamp 640");
    let (mut sender, _lines) = play(lab, "client", "train 10.77.0.2:9000 20");
    let stamps: Vec<(u64, i64)> = lines
        .lines()
        .filter_map(|line| {
            let line = line.unwrap();
            let (number, stamp) = line.strip_prefix("stamp ")?.split_once(' ')?;
            Some((number.parse().unwrap(), stamp.parse().unwrap()))
        })
        .collect();
    assert!(sender.wait().unwrap().success() && receiver.wait().unwrap().success());
    let lateness = lab.truth_until(now()).unwrap().lateness_between(Direction::Forward, from, now());
    if lateness.late_share > 0.1 || stamps.len() < 640 {
        println!("INVALID: the machine was too busy: {} packets, {lateness:?}", stamps.len());
        return None;
    }
    let mut gaps: Vec<i64> =
        stamps.windows(2).filter(|w| w[1].0 == w[0].0 + 1).map(|w| w[1].1 - w[0].1).collect();
    gaps.sort_unstable();
    Some(gaps)
}

#[test]
fn trains_leave_at_the_rate_of_the_link() {
    let Some(lab) = up(&link(50.0, 10), &name("train"), Life::Owned) else { return };
    let Some(gaps) = train_gaps(&lab) else { return };
    let median = gaps[gaps.len() / 2];
    // 1538 bytes at 50 Mb/s.
    assert!((median - 246_080).abs() < 5_000, "{median}");
}

#[test]
fn coalescing_makes_spikes_and_dips() {
    let coalescing = Some(Duration::from_ms(2).into());
    let host = [("server".to_owned(), HostSpec { coalescing, ack_coalescing: None })].into();
    let Some(lab) = up(&Scenario { host, ..link(50.0, 10) }, &name("nic"), Life::Owned) else { return };
    let Some(gaps) = train_gaps(&lab) else { return };
    // Eight packets fit into 2 ms: seven short gaps for each long one.
    let short = gaps.iter().filter(|gap| **gap < 60_000).count() as f64 / gaps.len() as f64;
    let long = gaps.iter().filter(|gap| **gap > 1_500_000).count() as f64 / gaps.len() as f64;
    assert!((0.8..0.92).contains(&short) && (0.08..0.16).contains(&long), "short {short}, long {long}");
}

#[test]
fn traffic_and_path_change_under_way() {
    let with = |network, traffic| Scenario { traffic, ..network };
    let Some(lab) = up(&with(link(100.0, 10), vec![cross(Traffic::cbr, 40.0)]), &name("change"), Life::Owned)
    else {
        return;
    };
    let start = now();
    let free = |from: Instant| {
        let (from, to) = (from + Duration::from_ms(50), from + Duration::from_ms(550));
        let truth = lab.truth_until(to).unwrap();
        assert_eq!(truth.cross_drops_between(Direction::Forward, from, to), (0, 0));
        truth.free_between(Direction::Forward, from, to).unwrap().mbps()
    };
    assert!((free(start) - 60.0).abs() < 0.5);
    let since = lab
        .set_traffic(&with(link(100.0, 10), vec![cross(Traffic::cbr, 10.0), cross(Traffic::poisson, 0.5)]))
        .unwrap();
    assert!((free(since) - 89.5).abs() < 1.0);
    let since = lab.set_links(&link(20.0, 10)).unwrap();
    assert!((free(since) - 9.5).abs() < 1.0);
    let live = lab.status().unwrap();
    assert_eq!((live.cross.len(), live.links[0].path.reverse.rate), (2, Rate::from_mbps(20.0)));
    let wrong = lab.set_links(&link(0.0, 10)).unwrap_err();
    assert!(wrong.to_string().contains("`link[0].rate`"), "{wrong}");
    lab.down().unwrap();
}

/// A capture of 50 packets of 1500 bytes of IP, a millisecond apart.
fn capture() -> Vec<u8> {
    let mut bytes = Vec::new();
    // The header of a pcap file: microseconds, version 2.4, Ethernet.
    [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, 1].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    for packet in 0..50_u32 {
        [1, packet * 1_000, 14, 1_514].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend([0; 14]);
    }
    bytes
}

#[test]
fn a_capture_and_a_token_bucket_leave_what_arithmetic_says() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.pcap"), capture()).unwrap();
    let text = "[forward]\nrate = \"50 Mb/s\"\nburst = \"30 kB\"\nbuffer = \"50 ms\"\n\
                [[traffic]]\nfrom = \"client\"\nto = \"server\"\nmodel = \"pcap\"\nfile = \"x.pcap\"\nrepeat = true\n";
    let network = Scenario::parse_network(text, &folder.path().join("x.toml")).unwrap();
    let Some(lab) = up(&network, &name("pcap"), Life::Owned) else { return };
    let start = now();
    let (from, to) = (start + Duration::from_ms(100), start + Duration::from_ms(590));
    let truth = lab.truth_until(to).unwrap();
    let free = truth.free_between(Direction::Forward, from, to).unwrap().mbps();
    // 50 packets of 12 304 bits in each 49 ms.
    assert!((free - (50.0 - 12.555)).abs() < 0.3, "{free}");
}

#[test]
fn times_far_ahead_are_refused() {
    let Some(lab) = up(&link(10.0, 10), &name("ahead"), Life::Owned) else { return };
    for ahead in [now() + Duration::from_ms(61_000), Instant::from_ns(u64::MAX)] {
        let refused = lab.truth_until(ahead).map(|_| ()).map_err(|error| error.to_string());
        assert!(refused.as_ref().is_err_and(|text| text.contains("more than a minute ahead")), "{refused:?}");
    }
    lab.down().unwrap();
}

#[test]
fn a_killed_daemon_leaves_nothing() {
    let name = name("kill");
    let network = link(10.0, 10);
    let Some(lab) = up(&network, &name, Life::Detached) else { return };
    let (daemon, holders, homes) = (lab.daemon(), lab.holders(), namespaces(&lab));
    let folder = lab.truth_path().parent().unwrap().to_owned();
    assert_eq!(homes.iter().map(|home| inhabitants(home)).sum::<usize>(), 3);
    kill(Pid::from_raw(daemon.pid), Signal::SIGKILL).unwrap();
    for process in holders.iter().chain([&daemon]) {
        assert!(process.wait_gone(TIMEOUT), "{process:?} survived");
    }
    assert_eq!(homes.iter().map(|home| inhabitants(home)).sum::<usize>(), 0);
    assert!(Lab::attach(&name).is_err());
    // Its files are stale and do not prevent a new lab.
    assert!(folder.exists());
    let again = up(&network, &name, Life::Detached).unwrap();
    again.down().unwrap();
    assert!(!folder.exists());
}

#[test]
fn down_removes_all_even_what_runs_inside() {
    let name = name("down");
    let Some(lab) = up(&link(10.0, 10), &name, Life::Detached) else { return };
    let (mut guest, _lines) = play(&lab, "server", "stay");
    let homes = namespaces(&lab);
    let folder = lab.truth_path().parent().unwrap().to_owned();
    let taken = Lab::up_with(Path::new(PROGRAM), &link(10.0, 10), &name, Life::Owned).unwrap_err();
    assert!(taken.to_string().contains("is up already"), "{taken}");
    assert!(Lab::list().unwrap().iter().any(|other| other.name() == name));
    lab.down().unwrap();
    guest.wait().unwrap();
    assert!(!folder.exists());
    assert_eq!(homes.iter().map(|home| inhabitants(home)).sum::<usize>(), 0);
}

#[test]
fn two_labs_do_not_see_each_other() {
    let (slow, fast) = (name("slow"), name("fast"));
    let Some(fast) = up(&link(100.0, 10), &fast, Life::Owned) else { return };
    let slow = up(&link(100.0, 50), &slow, Life::Owned).unwrap();
    for (lab, ms) in [(&fast, 20.0), (&slow, 100.0)] {
        let rtts = round_trips(lab, "10.77.0.2:7", 10, 972);
        let least = rtts.iter().min().unwrap();
        assert!(least.ms() > ms && least.ms() < ms + 5.0, "{least}");
    }
}

/// Runs `headway` and returns its output.
fn headway(args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).output().unwrap()
}

fn scenario(folder: &Path, text: &str) -> String {
    let path = folder.join("path.toml");
    std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn the_commands_work_together() {
    let folder = tempfile::tempdir().unwrap();
    let file = scenario(folder.path(), "[forward]\nrate = \"10 Mb/s\"\n");
    let name = name("cli");
    let made = headway(&["lab", "up", &file, "--name", &name]);
    if !made.status.success() && impossible(&text(&made.stderr)) {
        return;
    }
    assert!(made.status.success(), "{}", text(&made.stderr));
    assert!(text(&made.stdout).contains("truth.csv"));
    let lab = Lab::attach(&name).unwrap();

    let run = headway(&["lab", "exec", "--name", &name, "client", "--", "sh", "-c", "ip addr; exit 7"]);
    assert_eq!(run.status.code(), Some(7));
    assert!(text(&run.stdout).contains("10.77.0.1/24"), "{}", text(&run.stdout));
    let run = headway(&["lab", "exec", "--name", &name, "router", "--", "true"]);
    assert!(text(&run.stderr).contains("`router` is not a node"), "{}", text(&run.stderr));

    lab.truth_until(now()).unwrap();
    let status = headway(&["lab", "status", "--json"]);
    let labs: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    let mine = labs.as_array().unwrap().iter().find(|lab| lab["name"] == *name).unwrap();
    assert_eq!(mine["live"]["forward"]["capacity"], "10000000 b/s");
    assert!(text(&headway(&["lab", "status"]).stdout).contains(&name));

    let copy = folder.path().join("truth.csv");
    let down = headway(&["lab", "down", &name, "--truth", copy.to_str().unwrap()]);
    assert!(down.status.success(), "{}", text(&down.stderr));
    assert!(headway_lab::Truth::load(&copy).unwrap().end().is_some());
    let down = headway(&["lab", "down", &name]);
    assert!(text(&down.stderr).contains("no lab"), "{}", text(&down.stderr));
}

#[test]
fn a_lab_lasts_as_long_as_the_program_that_it_is_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = scenario(folder.path(), "[forward]\nrate = \"10 Mb/s\"\n");
    let (name, truth) = (name("run"), folder.path().join("truth.csv"));
    let options =
        ["lab", "run", &file, "--name", &name, "--node", "server", "--truth", truth.to_str().unwrap()];
    let script = ["--", "sh", "-c", "ip addr; exit 7"];
    let run = headway(&[&options[..], &script].concat());
    if impossible(&text(&run.stderr)) {
        return;
    }
    assert_eq!(run.status.code(), Some(7), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains("10.77.0.2/24"), "{}", text(&run.stdout));
    assert!(headway_lab::Truth::load(&truth).is_ok());
    assert!(Lab::attach(&name).is_err(), "it is down again");
    // A program that does not exist takes it down, too, and so does a node that does not.
    for (node, program, reason) in
        [("client", "/no/such", "cannot run `/no/such`"), ("here", "true", "not a node")]
    {
        let run = headway(&["lab", "run", &file, "--name", &name, "--node", node, "--", program]);
        assert!(run.status.code() == Some(1) && text(&run.stderr).contains(reason), "{}", text(&run.stderr));
        assert!(Lab::attach(&name).is_err());
    }
}

/// What the kernel is told behind its back shows, and nothing is set out of order.
#[test]
fn a_host_is_prepared_step_by_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = scenario(folder.path(), "[forward]\nrate = \"10 Mb/s\"\n");
    let script = "check() { echo \"$@ $($0 lab check eth0 $@ 2>&1 | tail -1) $($0 lab check eth0 >/dev/null; echo $?)\"; }
        check --set quick-acks; check --set ecn; check --set all
        echo 0 >/proc/sys/net/ipv4/tcp_no_metrics_save
        check; check --set quick-acks; check --set metrics; check --json";
    let run = headway(&["lab", "run", &file, "--name", &name("check"), "--", "sh", "-c", script, PROGRAM]);
    if impossible(&text(&run.stderr)) {
        return;
    }
    let (said, errors) = (text(&run.stdout), text(&run.stderr));
    let lines: Vec<&str> = said.lines().collect();
    let parts = [
        ("quick-acks comes after ecn", "1"),
        ("ecn         holds  net.ipv4.tcp_ecn is 1", "1"),
        ("quick-acks  holds  0 of 1 routes without", "0"),
        ("quick-acks  holds", "1"),
        ("quick-acks comes after metrics, which does not hold: net.ipv4.tcp_no_metrics_save is 0", "1"),
        ("metrics     holds", "0"),
        ("\"holds\":true", "0"),
    ];
    assert_eq!(lines.len(), parts.len(), "{said}{errors}");
    for (line, (part, code)) in lines.iter().zip(parts) {
        assert!(line.contains(part) && line.ends_with(code), "{line}\nhas not {part}, {code}");
    }
}

#[test]
fn a_signal_ends_the_program_and_its_lab() {
    let folder = tempfile::tempdir().unwrap();
    let file = scenario(folder.path(), "[forward]\nrate = \"10 Mb/s\"\n");
    for (signal, what) in [(Signal::SIGTERM, "term"), (Signal::SIGINT, "int")] {
        let name = name(what);
        let mut command = Command::new(PROGRAM);
        // The program tells that it runs, and ends at any signal. Ctrl-C on a terminal goes to both.
        command.args(["lab", "run", &file, "--name", &name, "--", "sh", "-c", "echo ready; exec sleep 1000"]);
        let mut child =
            command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line != "ready\n" {
            let output = child.wait_with_output().unwrap();
            assert!(impossible(&text(&output.stderr)), "{}", text(&output.stderr));
            return;
        }
        let group = if signal == Signal::SIGINT { -(child.id() as i32) } else { child.id() as i32 };
        kill(Pid::from_raw(group), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + signal as i32));
        assert!(Lab::attach(&name).is_err(), "it is down again");
    }
}

#[test]
fn a_lab_can_be_a_scenario_of_headway_run() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios/dsl.toml");
    let name = name("dsl");
    let made = headway(&["lab", "up", file, "--name", &name]);
    if impossible(&text(&made.stderr)) {
        return;
    }
    let said = text(&made.stdout);
    assert!(made.status.success(), "{}", text(&made.stderr));
    for part in [
        "forward   2.00 Mb/s, delay 10.0 ms, buffer 75.0 kB",
        "reverse   20.0 Mb/s, delay 10.0 ms, buffer 750.0 kB",
        "client    10.77.0.1",
        "server    10.77.0.2",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(headway(&["lab", "down", &name]).status.success());
}

#[test]
fn status_tells_what_varies() {
    let folder = tempfile::tempdir().unwrap();
    let trace = "delay-trace = [[\"0 s\", \"10 ms\"], [\"5 s\", \"30 ms\"], [\"9 s\", \"20 ms\"]]";
    let file = scenario(
        folder.path(),
        &format!("[forward]\nrate = \"10 Mb/s\"\n{trace}\njitter = \"2 ms\"\nloss = \"1 %\"\n"),
    );
    let name = name("varies");
    let made = headway(&["lab", "up", &file, "--name", &name]);
    if impossible(&text(&made.stderr)) {
        return;
    }
    let status = text(&headway(&["lab", "status"]).stdout);
    let lab = Lab::attach(&name).unwrap();
    lab.truth_until(now()).unwrap();
    let json: serde_json::Value =
        serde_json::from_slice(&headway(&["lab", "status", "--json"]).stdout).unwrap();
    lab.down().unwrap();
    let part = "10.0 Mb/s, delay 10.0 ms to 30.0 ms as its trace says, buffer 125.0 kB, jitter up to 2.0 ms, loss 0.01";
    assert!(status.contains(part), "{status}");
    let mine = json.as_array().unwrap().iter().find(|lab| lab["name"] == *name).unwrap();
    let now = &mine["live"]["forward"];
    let ns = now["start"].as_u64().unwrap() % 1_000_000_000;
    assert!(now["start_rfc3339"].as_str().unwrap().ends_with(&format!(".{ns:09}Z")), "{now}");
}

#[test]
fn mistakes_in_a_scenario_are_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = scenario(folder.path(), "seed = 1\n[forward]\nrate = \"10 Mbs\"\n");
    let made = headway(&["lab", "up", &file]);
    let said = text(&made.stderr);
    assert!(said.contains("path.toml, line 3: `forward.rate`: `10 Mbs` is not a rate"), "{said}");
}

#[test]
fn a_foreground_lab_ends_with_its_command() {
    let folder = tempfile::tempdir().unwrap();
    let file = scenario(folder.path(), "[forward]\nrate = \"10 Mb/s\"\n");
    // The command handles SIGINT; the daemon notices when the command is killed.
    for (what, signal) in [("fg-int", Signal::SIGINT), ("fg-kill", Signal::SIGKILL)] {
        let name = name(what);
        let mut command = Command::new(PROGRAM);
        command.args(["lab", "up", "--foreground", &file, "--name", &name]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        if !lines.by_ref().any(|line| line.unwrap().starts_with("Ctrl-C")) {
            let output = child.wait_with_output().unwrap();
            assert!(impossible(&text(&output.stderr)), "{}", text(&output.stderr));
            return;
        }
        let lab = Lab::attach(&name).unwrap();
        let mut processes: Vec<Process> = lab.holders();
        processes.push(lab.daemon());
        kill(Pid::from_raw(child.id() as i32), signal).unwrap();
        assert_eq!(child.wait().unwrap().success(), signal == Signal::SIGINT);
        for process in processes {
            assert!(process.wait_gone(TIMEOUT), "{process:?} survived {signal}");
        }
        assert!(Lab::attach(&name).is_err());
    }
}

#[test]
fn an_ordinary_user_can_have_a_lab() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: all tests of this file run as an ordinary user already");
        return;
    }
    const NOBODY: u32 = 65534;
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    // The build folder may be closed to other users.
    let program = folder.path().join("program");
    // Copied by another process: a child of a concurrent test could inherit our file open for writing, and
    // then nobody could execute it.
    assert!(Command::new("cp").arg(PROGRAM).arg(&program).status().unwrap().success());
    let link = |from, to| format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\nforward.rate = \"10 Mb/s\"\n");
    let file = scenario(folder.path(), &(link("client", "router") + &link("router", "server")));
    let headway = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.args(args).uid(NOBODY).gid(NOBODY).current_dir("/").env("XDG_RUNTIME_DIR", folder.path());
        command.output().unwrap()
    };
    let made = headway(&["lab", "up", &file, "--name", "mine"]);
    if !made.status.success() && impossible(&text(&made.stderr)) {
        return;
    }
    assert!(made.status.success(), "{}", text(&made.stderr));
    let run = headway(&["lab", "exec", "server", "--", "ip", "addr"]);
    let said = text(&run.stdout);
    // Taken down before any assertion can fail.
    let down = headway(&["lab", "down"]);
    assert!(said.contains("10.77.1.2/24"), "{said}{}", text(&run.stderr));
    assert!(down.status.success(), "{}", text(&down.stderr));
    assert!(!folder.path().join("headway/lab/mine").exists());
}

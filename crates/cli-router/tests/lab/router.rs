//! Routers that rewrite the congestion headers of real packets: in labs, and between
//! interfaces that exist already.
//!
//! Where the machine allows no namespaces, each test says so and passes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::process::{Child, ChildStdout, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::labs::{ROLE, bring_up_text, line, name, play};
use crate::support::{PROGRAM, TIMEOUT, headway, output, text, write};
use headway_lab::{Lab, LinkSpec, PathSpec, Process};
use headway_queue::explicit::{Format, HEADER_BYTES, Header, VERSION_RCP, VERSION_XCP, decode, encode};
use headway_record::ControlInterval;
use headway_units::{Duration, Instant};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use socket2::{Domain, Protocol, Socket, Type};

/// Bytes behind the congestion header.
const PAYLOAD: usize = 980;
/// 100 ms with 28 fraction bits.
const RTT: u32 = 26_843_546;

#[test]
fn a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let words: Vec<&str> = role.split(' ').collect();
    match words[..] {
        ["send", version, address] => send(version.parse().unwrap(), address.parse().unwrap()),
        ["receive", address] => receive(address.parse().unwrap()),
        ["offload", interface, value] => offload(interface, value.parse().unwrap()),
        ["frames", from, to] => frames(from, to),
        _ => panic!("{role}"),
    }
}

fn raw(address: IpAddr) -> Socket {
    let domain = if address.is_ipv4() { Domain::IPV4 } else { Domain::IPV6 };
    Socket::new(domain, Type::RAW, Some(Protocol::from(253))).unwrap()
}

/// Sends a packet with each RTT that it reads, and the X of ten packets per RTT.
fn send(version: u8, address: IpAddr) {
    let socket = raw(address);
    println!("ready");
    for line in std::io::stdin().lines() {
        let rtt: u32 = line.unwrap().parse().unwrap();
        let feedback = if version == VERSION_RCP { u32::MAX } else { 1_000_000_000 };
        let header = Header { rtt, x: rtt / 10, feedback, ..Header::new(version, Format::Standard) };
        let packet = [&encode(&header)[..], &[0; PAYLOAD]].concat();
        socket.send_to(&packet, &SocketAddr::new(address, 0).into()).unwrap();
    }
}

/// Prints the feedback of each packet to `address`.
fn receive(address: IpAddr) {
    let mut socket = raw(address);
    socket.bind(&SocketAddr::new(address, 0).into()).unwrap();
    socket.set_read_timeout(Some(TIMEOUT)).unwrap();
    println!("ready");
    let mut buffer = [0; 2000];
    while let Ok(length) = socket.read(&mut buffer) {
        // Raw sockets see the header of IPv4 but not that of IPv6.
        let at = if address.is_ipv4() { 20 } else { 0 };
        assert_eq!(length, at + HEADER_BYTES + PAYLOAD);
        println!("feedback {}", decode(&buffer[at..]).unwrap().feedback);
    }
}

/// Sets generic receive offload of an interface, unless `value` is negative, and prints it.
fn offload(interface: &str, value: i32) {
    #[repr(C)]
    struct Request {
        number: u32,
        value: u32,
    }
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut request = match u32::try_from(value) {
        Ok(value) => Request { number: 0x2c, value },
        Err(_) => Request { number: 0x2b, value: 0 },
    };
    // SAFETY: all-zero is a valid ifreq.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_data = (&raw mut request).cast();
    // SAFETY: the request reads and writes an ifreq whose data points to an ethtool_value;
    // both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL, &raw mut ifreq) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    println!("ready\noffload {}", request.value);
}

/// Opens a packet socket at an interface.
fn packets(interface: &str) -> Socket {
    let protocol = libc::c_int::from((libc::ETH_P_ALL as u16).to_be());
    let socket = Socket::new(Domain::PACKET, Type::RAW, Some(Protocol::from(protocol))).unwrap();
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol as u16;
    address.sll_ifindex = nix::net::if_::if_nametoindex(interface).unwrap() as i32;
    let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is valid and has the length given.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
    socket
}

/// Where frames of the test come from.
const SOURCE: [u8; 6] = [2, 0, 0, 0, 0, 99];

/// Returns a frame of `length` bytes, with a VLAN tag among them or without one.
fn frame(length: usize, tagged: bool) -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &SOURCE].concat();
    if tagged {
        frame.extend([0x81, 0, 0, 5]);
    }
    frame.extend([0x88, 0xb6]);
    frame.extend((0..length - frame.len()).map(|number| number as u8));
    frame
}

/// For each line with a length and `tagged` or `plain`, sends that frame into one interface and then a
/// short one; prints the lengths of the frames that leave the other up to the short one, without tags,
/// which the kernel takes out.
fn frames(from: &str, to: &str) {
    let (sender, mut receiver) = (packets(from), packets(to));
    receiver.set_read_timeout(Some(TIMEOUT)).unwrap();
    println!("ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let (length, kind) = line.split_once(' ').unwrap();
        let (sent, last) = (frame(length.parse().unwrap(), kind == "tagged"), frame(60, false));
        sender.send(&sent).unwrap();
        sender.send(&last).unwrap();
        let mut lengths = Vec::new();
        let mut buffer = [0; 10_000];
        loop {
            let length = receiver.read(&mut buffer).unwrap();
            if buffer[6..12] != SOURCE {
                continue;
            }
            if buffer[..length] == last {
                break;
            }
            assert!(sent.ends_with(&buffer[14..length]), "{line} arrives changed");
            lengths.push(length);
        }
        println!("lengths {lengths:?}");
    }
}

/// A sender and a receiver at two nodes of a lab.
struct Ends {
    sender: Child,
    receiver: Child,
    heard: BufReader<ChildStdout>,
}

impl Ends {
    fn new(lab: &Lab, nodes: [&str; 2], version: u8, address: IpAddr) -> Ends {
        let (receiver, heard) = play(lab, nodes[1], &format!("receive {address}"));
        let (sender, _) = play(lab, nodes[0], &format!("send {version} {address}"));
        Ends { sender, receiver, heard }
    }

    /// Sends a packet and returns the feedback that arrives.
    fn pass(&mut self, rtt: u32) -> u32 {
        writeln!(self.sender.stdin.as_mut().unwrap(), "{rtt}").unwrap();
        self.feedback()
    }

    fn feedback(&mut self) -> u32 {
        let line = line(&mut self.heard);
        line.strip_prefix("feedback ").unwrap_or_else(|| panic!("{line}")).parse().unwrap()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        for child in [&mut self.sender, &mut self.receiver] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const CHAIN: &str = r#"
[[link]]
from = "h1"
to = "r"
forward = { rate = "100 Mb/s" }
[[link]]
from = "r"
to = "h2"
forward = { rate = "10 Mb/s", queue = { kind = "KIND" } }
"#;

#[test]
fn routers_lower_the_feedback_of_real_packets() {
    let lab_name = name("router");
    for (kind, version) in [("rcp", VERSION_RCP), ("xcp", VERSION_XCP)] {
        let Some(lab) = bring_up_text(&CHAIN.replace("KIND", kind), &lab_name) else { return };
        let addresses = [lab.v4("h2").unwrap().into(), lab.v6("h2").unwrap().into()];
        for (number, address) in addresses.into_iter().enumerate() {
            let mut ends = Ends::new(&lab, ["h1", "h2"], version, address);
            let first = ends.pass(0);
            let feedback: Vec<u32> = (0..200).map(|_| ends.pass(RTT)).collect();
            if kind == "rcp" {
                // The rate begins with the capacity, 1.25 MB/s, and never exceeds it.
                assert!(number > 0 || first == 1_250_000, "{first}");
                assert!(feedback.iter().all(|rate| (100..=1_250_000).contains(rate)), "{feedback:?}");
            } else {
                // Who does not know its RTT may not change; later grants share what is
                // free among the packets.
                assert_eq!(first, 0);
                let changes: Vec<i32> = feedback.iter().map(|change| change.cast_signed()).collect();
                assert!(changes.iter().all(|change| *change <= 1_250_000), "{changes:?}");
            }
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = Instant::from_ns(now.as_nanos() as u64);
        lab.truths_between(now, now).unwrap();
        let status = lab.status().unwrap();
        let headers = status.links[1].forward_router.clone().unwrap().headers;
        assert_eq!((headers.headers, headers.rewritten, headers.dropped()), (402, 402, 0));
        assert_eq!(status.links[0].forward_router, None);
        lab.down().unwrap();
    }
}

#[test]
fn a_router_changes_its_parameters_and_its_protocol_while_packets_pass() {
    let lab_name = name("set");
    let Some(lab) = bring_up_text(&CHAIN.replace("KIND", "xcp-b"), &lab_name) else { return };
    let address = lab.v4("h2").unwrap().into();
    let set = |change: &str| output(&mut headway(&["lab", "set", &lab_name, "--link", "r-h2", change]));
    let mut xcp = Ends::new(&lab, ["h1", "h2"], VERSION_XCP, address);
    // Control intervals are at most a second long.
    let mut wait_for = |kappa: f64| {
        while latest(&lab).is_none_or(|interval| interval.kappa != kappa) {
            xcp.pass(RTT);
        }
    };
    wait_for(6_000.0);
    assert!(set("forward.queue.kappa=9 kB").status.success());
    wait_for(9_000.0);
    drop(xcp);
    assert!(set("forward.queue.kind=rcp").status.success());
    let mut rcp = Ends::new(&lab, ["h1", "h2"], VERSION_RCP, address);
    assert!((100..=1_250_000).contains(&rcp.pass(0)));
    let lines = std::fs::read_to_string(lab.routers_path()).unwrap();
    let records: Vec<ControlInterval> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(records.iter().all(|record| record.link == "r-h2:forward"), "{lines}");
    assert!(records.iter().any(|record| record.kappa == 6_000.0), "{lines}");
    // What is refused names its key, and leaves the router as it is.
    for (change, sentence) in [
        ("forward.queue.alpha=2", "`forward.queue.alpha`"),
        ("forward.queue.police=0", "`forward.queue.police`"),
        ("forward.queue.kapa=9 kB", "unknown field `kapa`"),
        ("queue.kappa=9 kB", "a change begins with `forward` or `reverse`"),
        ("forward.rate=0 b/s", "`forward.rate`"),
    ] {
        let refused = set(change);
        assert!(!refused.status.success() && text(&refused.stderr).contains(sentence), "{refused:?}");
    }
    let nameless = output(&mut headway(&["lab", "set", &lab_name, "forward.rate=1 Mb/s"]));
    assert!(text(&nameless.stderr).contains("the lab has several links"), "{nameless:?}");
    assert!((100..=1_250_000).contains(&rcp.pass(0)));
    lab.down().unwrap();
}

#[test]
fn changes_at_the_same_time_do_not_undo_each_other() {
    let Some(lab) = bring_up_text(&CHAIN.replace("KIND", "xcp"), &name("twice")) else { return };
    let change = |edit: &dyn Fn(&mut LinkSpec)| {
        let edited = |path: &PathSpec| -> Result<PathSpec, headway_lab::Error> {
            let mut path = path.clone();
            edit(&mut path.forward);
            Ok(path)
        };
        lab.change_link(Some("r-h2"), edited).unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| (1..=50).for_each(|n| change(&|link| link.delay = Duration::from_ms(n))));
        scope.spawn(|| (1..=50).for_each(|n| change(&|link| link.loss = n as f64 / 100.0)));
    });
    let forward = lab.link(Some("r-h2")).unwrap().path.forward;
    assert_eq!((forward.delay, forward.loss), (Duration::from_ms(50), 0.5));
    lab.down().unwrap();
}

fn latest(lab: &Lab) -> Option<ControlInterval> {
    lab.status().unwrap().links[1].forward_router.clone()?.latest
}

/// Two hosts and a machine between them, with interfaces that only `headway router` connects.
const BENCH: &str = r#"
[[link]]
from = "h1"
to = "box"
forward = { rate = "1 Gb/s" }
[[link]]
from = "box"
to = "h2"
forward = { rate = "1 Gb/s" }
"#;

/// Starts `headway router` in the middle and waits until it forwards.
fn start(lab: &Lab, arguments: &[&str]) -> (Child, BufReader<ChildStdout>) {
    let command = [&["router"], arguments].concat();
    let mut child = lab.command("box", PROGRAM, &command).unwrap();
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    if line.is_empty() {
        let mut error = String::new();
        child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
        panic!("{error}");
    }
    (child, lines)
}

fn receive_offload(lab: &Lab, interface: &str, value: i32) -> u32 {
    let (mut child, mut lines) = play(lab, "box", &format!("offload {interface} {value}"));
    let line = line(&mut lines);
    child.wait().unwrap();
    line.strip_prefix("offload ").unwrap().parse().unwrap()
}

fn shown(lab: &Lab) -> Value {
    let output =
        lab.command("box", "ip", ["-json", "-details", "address", "show"]).unwrap().output().unwrap();
    let mut interfaces: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Lifetimes of addresses pass.
    for interface in interfaces.as_array_mut().unwrap() {
        for address in interface["addr_info"].as_array_mut().unwrap() {
            address["valid_life_time"] = Value::Null;
            address["preferred_life_time"] = Value::Null;
        }
    }
    interfaces
}

#[test]
fn a_router_between_two_interfaces_leaves_them_as_they_were() {
    let lab_name = name("bench");
    let Some(lab) = bring_up_text(BENCH, &lab_name) else { return };
    for (node, address) in [("h1", 1), ("h2", 2)] {
        let line = format!(
            "address add 10.99.0.{address}/24 dev eth0\naddress add fd99::{address}/64 dev eth0 nodad\n"
        );
        lab.configure(node, &line).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let queue = "queue = { kind = \"rcp\" }";
    let file = write(folder.path(), "narrow.toml", &format!("[forward]\nrate = \"8 Mb/s\"\n{queue}\n"));
    let records = folder.path().join("records.jsonl");
    assert_eq!(receive_offload(&lab, "eth0", 1), 1);
    let before = shown(&lab);
    for signal in [Signal::SIGINT, Signal::SIGKILL] {
        let arguments = ["eth0", "eth1", &file, "--json", "--records", records.to_str().unwrap()];
        let (mut router, mut lines) = start(&lab, &arguments);
        assert_eq!(receive_offload(&lab, "eth0", -1), 0);
        assert_eq!(shown(&lab)[1]["promiscuity"], 1);
        for address in ["10.99.0.2", "fd99::2"] {
            let mut ends = Ends::new(&lab, ["h1", "h2"], VERSION_RCP, address.parse().unwrap());
            assert!((100..=1_000_000).contains(&ends.pass(0)));
            assert!((100..=1_000_000).contains(&ends.pass(RTT)));
        }
        let mut line = String::new();
        let headers = loop {
            line.clear();
            assert!(lines.read_line(&mut line).unwrap() > 0);
            let state: Value = serde_json::from_str(&line).unwrap();
            let headers = state["forward_router"]["headers"]["headers"].as_u64();
            if headers >= Some(4) {
                break headers;
            }
        };
        assert_eq!(headers, Some(4), "{line}");
        kill(Pid::from_raw(router.id() as i32), signal).unwrap();
        let status = router.wait().unwrap();
        assert_eq!(status.success(), signal == Signal::SIGINT);
        // After a kill, another process restores the offload. It is the last one that holds
        // the standard output.
        let _ = lines.read_to_string(&mut line);
        assert_eq!(receive_offload(&lab, "eth0", -1), 1);
        assert_eq!(shown(&lab), before);
    }
    lab.down().unwrap();
}

#[test]
fn a_router_says_why_it_cannot_use_an_interface() {
    let lab_name = name("refused");
    let Some(lab) = bring_up_text(BENCH, &lab_name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "narrow.toml", "[forward]\nrate = \"8 Mb/s\"\n");
    let chain = write(folder.path(), "chain.toml", BENCH);
    lab.configure(
        "box",
        "link add br0 type bridge\nlink set eth1 master br0\nlink add v0 type veth peer name v1\n",
    )
    .unwrap();
    for (arguments, sentence) in [
        (["eth0", "eth7", &file], "the interface `eth7` does not exist; `ip link` lists"),
        (["eth0", "eth0", &file], "the interface `eth0` cannot be both ends"),
        (["eth0", "lo", &file], "the interface `lo` is no Ethernet"),
        (["eth0", "eth1", &file], "the interface `eth1` belongs to `br0`"),
        (["eth0", "v0", &file], "the interface `v0` is down; start it with `ip link set v0 up`"),
        (["eth0", "v0", &chain], "a router has one link"),
    ] {
        let command = [&["router"], &arguments[..]].concat();
        let refused = lab.command("box", PROGRAM, &command).unwrap().output().unwrap();
        assert!(!refused.status.success());
        assert!(text(&refused.stderr).contains(sentence), "{refused:?}");
    }
    lab.down().unwrap();
}

/// Interfaces of one node, in pairs: what is sent into `a0` arrives at `a1`.
const PAIRS: &str = "link add a0 type veth peer name a1\nlink add b0 type veth peer name b1\nlink add c0 type veth peer name c1\n\
    link set a0 up\nlink set a1 up\nlink set b0 up\nlink set b1 up\nlink set c0 up\nlink set c1 up\n";

#[test]
fn frames_that_are_too_large_are_dropped_and_counted() {
    let Some(lab) = bring_up_text(BENCH, &name("large")) else { return };
    lab.configure("box", PAIRS).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "fast.toml", "[forward]\nrate = \"100 Mb/s\"\n");
    let (mut router, mut lines) = start(&lab, &["a1", "b1", &file, "--json"]);
    // The router has read the MTU, 1500; larger frames come from hosts with another one.
    let larger: String = ["a0", "a1", "b0", "b1"].map(|name| format!("link set {name} mtu 9000\n")).concat();
    lab.configure("box", &larger).unwrap();
    let (mut ends, mut heard) = play(&lab, "box", "frames a0 b0");
    let mut pass = |length: usize, kind: &str| {
        writeln!(ends.stdin.as_mut().unwrap(), "{length} {kind}").unwrap();
        line(&mut heard)
    };
    // A frame has 14 B before its IP packet, and 4 B more for a VLAN tag.
    assert_eq!(pass(1_514, "plain"), "lengths [1514]");
    assert_eq!(pass(1_518, "tagged"), "lengths [1514]");
    // A tag that is put back into a frame makes it larger: 1526 B without the tag are 1530 B with it.
    let large = [(1_523, "plain"), (3_000, "plain"), (9_014, "plain"), (1_530, "tagged"), (9_018, "tagged")];
    for (length, kind) in large {
        assert_eq!(pass(length, kind), "lengths []", "{length} B, {kind}");
    }
    let mut text = String::new();
    let counted = loop {
        text.clear();
        assert!(lines.read_line(&mut text).unwrap() > 0);
        let state: Value = serde_json::from_str(&text).unwrap();
        let counts =
            [&state["forward_oversized"], &state["reverse_oversized"]].map(|count| count.as_u64().unwrap());
        if counts[0] >= large.len() as u64 {
            break counts;
        }
    };
    assert_eq!(counted, [large.len() as u64, 0]);
    drop(ends.stdin.take());
    ends.wait().unwrap();
    kill(Pid::from_raw(router.id() as i32), Signal::SIGINT).unwrap();
    assert!(router.wait().unwrap().success());
    lab.down().unwrap();
}

#[test]
fn a_router_ends_when_an_interface_is_removed_even_if_another_one_gets_its_name() {
    let Some(lab) = bring_up_text(BENCH, &name("gone")) else { return };
    lab.configure("box", PAIRS).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "narrow.toml", "[forward]\nrate = \"8 Mb/s\"\n");
    let new = "link add a0 type veth peer name a1\nlink set a0 up\nlink set a1 up\n";
    for after in ["", new] {
        receive_offload(&lab, "a1", 1);
        let (mut router, _lines) = start(&lab, &["b1", "a1", &file, "--json"]);
        // Down and up again is no reason to end.
        lab.configure("box", "link set b1 down\nlink set b1 up\n").unwrap();
        lab.configure("box", &format!("link del a0\n{after}")).unwrap();
        assert!(
            Process::of(router.id() as i32).is_none_or(|process| process.wait_gone(TIMEOUT)),
            "it goes on"
        );
        let status = router.wait().unwrap();
        let mut said = String::new();
        router.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(
            said.contains("the interface `a1` has been removed or moved to another network namespace"),
            "{said}"
        );
        if after.is_empty() {
            lab.configure("box", new).unwrap();
        }
        // Nothing is restored at an interface that only has the same name.
        assert_eq!(receive_offload(&lab, "a1", -1), 0);
    }
    lab.down().unwrap();
}

#[test]
fn an_interface_has_one_router() {
    let Some(lab) = bring_up_text(BENCH, &name("second")) else { return };
    lab.configure("box", PAIRS).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "narrow.toml", "[forward]\nrate = \"8 Mb/s\"\n");
    let (mut router, _lines) = start(&lab, &["a1", "b1", &file]);
    for (pair, taken) in
        [(["a1", "b1"], "a1"), (["b1", "a1"], "a1"), (["c1", "b1"], "b1"), (["a1", "c1"], "a1")]
    {
        let command = ["router", pair[0], pair[1], &file];
        let refused = lab.command("box", PROGRAM, command).unwrap().output().unwrap();
        assert!(!refused.status.success(), "{pair:?}");
        let sentence = format!("the interface `{taken}` is in use by another `headway router`");
        assert!(text(&refused.stderr).contains(&sentence), "{refused:?}");
    }
    // A killed router is in nobody's way.
    router.kill().unwrap();
    router.wait().unwrap();
    let (mut next, _lines) = start(&lab, &["b1", "c1", &file]);
    kill(Pid::from_raw(next.id() as i32), Signal::SIGINT).unwrap();
    assert!(next.wait().unwrap().success());
    lab.down().unwrap();
}

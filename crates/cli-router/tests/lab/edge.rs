//! Connections of Linux over `headway edge` on a router between emulated links: what its tests share.
//!
//! Where the machine does not allow namespaces or BPF, each test says so and passes.

use std::io::{BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, ChildStdout};
use std::time::{Duration as Time, Instant as Clock};

use crate::support::TIMEOUT;
use crate::support::labs::{On, ROLE, bring_up_text, line, name, now, was_late};
use headway_lab::Lab;
use headway_telemetry::TcpInfo;
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
pub(crate) const CAPACITY: f64 = 50e6;
/// Bytes on the wire for each byte of a full segment with timestamps.
pub(crate) const WIRE: f64 = 1538.0 / 1448.0;
/// Seconds that a transfer takes, in the second half of which it is counted.
pub(crate) const TRANSFER: f64 = 3.0;

/// A fifth of the link for one port, and the rest for the others.
pub(crate) const POLICY: &str = "[[class]]\nname = \"backup\"\nshare = 0.2\nports = [\"5000-5002\"]\n[[class]]\nname = \"rest\"\nshare = 0.8\n";

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
        ["fill", address] => fill(address.parse().unwrap()),
        ["want", address] => want(address.parse().unwrap()),
        ["knock", address, count] => knock(address.parse().unwrap(), count.parse().unwrap()),
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
    pour(&socket);
}

/// The same to whoever sends a datagram.
fn fill(address: SocketAddr) {
    let socket = UdpSocket::bind(address).unwrap();
    println!("ready");
    let (_, from) = socket.recv_from(&mut [0; 2000]).unwrap();
    socket.connect(from).unwrap();
    pour(&socket);
}

/// Asks for datagrams, and takes what comes until it is stopped.
fn want(address: SocketAddr) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(address).unwrap();
    println!("ready");
    for number in 0_u64.. {
        if number % 100 == 0 {
            socket.send(&[0]).unwrap();
        }
        socket.recv(&mut [0; 2000]).unwrap();
    }
}

/// Sends so many datagrams to where nobody listens.
fn knock(address: SocketAddr, count: usize) {
    for _ in 0..count {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.send_to(&[0], address).unwrap();
    }
    println!("ready");
}

fn pour(socket: &UdpSocket) {
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

/// Sends to whoever connects for so many seconds, and prints the rate in bytes per second, repeated segments,
/// and the receive window.
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

/// Starts one of these roles in a node, and waits until it is ready.
pub(crate) fn play(lab: &Lab, node: &str, role: &str) -> (Child, BufReader<ChildStdout>) {
    crate::support::labs::play(lab, node, role)
}

/// What a download was: bits per second on the wire, repeated segments, RTT at its end in ms.
#[derive(Debug)]
pub(crate) struct Download {
    pub(crate) rate: f64,
    pub(crate) repeated: u32,
    pub(crate) rtt: f64,
}

/// Downloads from a port; `None` if the emulator was late, so that the numbers are not valid.
pub(crate) fn download(lab: &Lab, controller: &str, port: u16) -> Option<Download> {
    download_while(lab, controller, port, TRANSFER, || ())
}

/// Downloads until the result is right, but at most three times: ends that have to wait for the processor are
/// slower, and later they may not have to. Returns the last result, and how many downloads there were.
pub(crate) fn download_until(
    lab: &Lab,
    (controller, port): (&str, u16),
    is_right: impl Fn(&Download) -> bool,
) -> (Option<Download>, u64) {
    let mut count = 1;
    let mut seen = download(lab, controller, port);
    while count < 3 && seen.as_ref().is_some_and(|seen| !is_right(seen)) {
        count += 1;
        seen = download(lab, controller, port);
    }
    (seen, count)
}

/// Downloads for so many seconds, and does something meanwhile.
pub(crate) fn download_while(
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
    (!was_late(lab, from)).then(|| Download {
        rate: numbers[0] * 8.0 * WIRE,
        repeated: numbers[1] as u32,
        rtt: numbers[2] / 1e3,
    })
}

/// Brings up the path and starts the edge on the router with more arguments; `None` where that cannot be.
pub(crate) fn up(what: &str, arguments: &[&str]) -> Option<(Lab, On)> {
    up_at(what, &[&["--rate", "50Mb/s"], arguments].concat())
}

/// The same with the rate of the link among the arguments, or without it.
pub(crate) fn up_at(what: &str, arguments: &[&str]) -> Option<(Lab, On)> {
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

pub(crate) fn interfaces(lab: &Lab) -> [String; 2] {
    ["router-home", "server-router"].map(|link| lab.interface("router", link).unwrap().name.clone())
}

/// Returns the next event of this name.
pub(crate) fn next(edge: &mut On, event: &str) -> Value {
    loop {
        let said = line(&mut edge.lines);
        let said: Value = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}"));
        if said["event"] == event {
            return said;
        }
    }
}

/// Returns the next event of this name of which something is true; `None` if none comes in the time
/// that anything may take.
pub(crate) fn next_if(edge: &mut On, event: &str, is_so: impl Fn(&Value) -> bool) -> Option<Value> {
    let begun = Clock::now();
    // It tells its state every second.
    while begun.elapsed() < TIMEOUT {
        let said: Value = serde_json::from_str(&line(&mut edge.lines)).unwrap();
        if said["event"] == event && is_so(&said) {
            return Some(said);
        }
    }
    None
}

/// Returns what the state says of the connection to a port, once it says so.
pub(crate) fn flow_of(edge: &mut On, port: u16, is_so: impl Fn(&Value) -> bool) -> Value {
    loop {
        let said = next(edge, "state");
        let server = |flow: &&Value| flow["server"].as_str().unwrap().ends_with(&format!(":{port}"));
        if let Some(flow) = said["flows"].as_array().unwrap().iter().find(server).filter(|flow| is_so(flow)) {
            return flow.clone();
        }
    }
}

/// Ends processes of a transfer that would go on.
pub(crate) fn stop(children: [Child; 2]) {
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

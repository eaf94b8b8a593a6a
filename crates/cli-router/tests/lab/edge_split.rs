//! Connections that `headway edge` splits (wan F73).

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration as Time, Instant as Clock};

use headway_lab::Lab;
use socket2::{Domain, Protocol, Socket, Type};

use crate::edge::{interfaces, next, next_if};
use crate::support::labs::{On, ROLE, bring_up_text, line, name, now, play, was_late};
use crate::support::{TIMEOUT, text, write};

/// A server that is 100 ms away, a router at an access link of 100 Mb/s, and a host at home.
const FAR: &str = r#"
[[link]]
from = "server"
to = "router"
forward = { rate = "100 Mb/s", delay = "50 ms", buffer = "100 ms" }
[[link]]
from = "router"
to = "home"
forward = { rate = "400 Mb/s" }
"#;
/// Half of the receiver's buffer: Linux doubles what is asked for, and half of that is the window.
const WINDOW: usize = 256_000;
/// Downloads are counted in their second half. One is judged three times in its first seconds, and the window
/// of the far half of another grows to 1.25 MB in its first one.
const HELD: f64 = 3.0;
const SPLIT: f64 = 2.0;

/// The port of the class of which all connections are split, and in the test those over IPv6.
const ALWAYS: u16 = 5001;
const POLICY: &str = r#"
borrow-idle = true
[[class]]
name = "always"
share = 0.1
split = "always"
ports = [5001]
[[class]]
name = "rest"
share = 0.9
split = "small-receivers"
"#;

#[test]
fn a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["serve", address] => serve(address.parse().unwrap()),
        ["ask", address] => ask(address.parse().unwrap()),
        ["fetch", address, seconds] => fetch(address.parse().unwrap(), seconds.parse().unwrap()),
        _ => panic!("{role}"),
    }
}

/// Sends to all who connect for as many tenths of a second as they say in a byte, and prints who they are.
fn serve(address: SocketAddr) {
    let listener = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    listener.set_tcp_congestion(b"cubic").unwrap();
    listener.set_reuse_address(true).unwrap();
    // Otherwise megabytes wait at the server when the time is over.
    listener.set_tcp_notsent_lowat(1 << 17).unwrap();
    listener.bind(&address.into()).unwrap();
    listener.listen(8).unwrap();
    println!("ready");
    for stream in TcpListener::from(listener).incoming() {
        let mut stream = stream.unwrap();
        println!("{}", stream.peer_addr().unwrap());
        std::thread::spawn(move || {
            let mut tenths = [0];
            stream.read_exact(&mut tenths).unwrap();
            let (begun, block) = (Clock::now(), vec![0; 1 << 14]);
            let until = Time::from_millis(100 * u64::from(tenths[0]));
            while begun.elapsed() < until && stream.write(&block).is_ok() {}
        });
    }
}

/// Sends a SYN of which this host knows nothing, so that it refuses the answer.
fn ask(to: SocketAddrV4) {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::TCP)).unwrap();
    socket.connect(&to.into()).unwrap();
    let from = socket.local_addr().unwrap().as_socket_ipv4().unwrap();
    let port = to.port().to_be_bytes();
    // From port 1000, with sequence number 1, a header of 20 bytes, the flag SYN and a window of 65 535.
    let mut segment = [3, 232, port[0], port[1], 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 255, 255, 0, 0, 0, 0];
    let header = [from.ip().octets(), to.ip().octets(), [0, 6, 0, 20]].concat();
    let words = header.iter().chain(&segment).copied().collect::<Vec<u8>>();
    let sum: u32 = words.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum();
    segment[16..18].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
    socket.send(&segment).unwrap();
    println!("ready");
}

/// Downloads for so many seconds, and prints both its addresses, the bits per second of the second
/// half, and how it ended.
fn fetch(address: SocketAddr, seconds: f64) {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    socket.set_recv_buffer_size(WINDOW).unwrap();
    socket.connect_timeout(&address.into(), TIMEOUT).unwrap();
    let mut stream = TcpStream::from(socket);
    println!("ready\n{} {}", stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    stream.write_all(&[(seconds * 10.0) as u8]).unwrap();
    let (begun, mut block, mut bytes) = (Clock::now(), vec![0; 1 << 16], 0);
    let end = loop {
        match stream.read(&mut block) {
            Ok(0) => break "complete",
            Ok(count) if (seconds / 2.0..seconds).contains(&begun.elapsed().as_secs_f64()) => bytes += count,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break "reset",
            Err(error) => panic!("{error}"),
        }
    };
    println!("{} {end}", bytes as f64 * 8.0 / (seconds / 2.0));
}

/// What rules and routes of a router there are.
fn routing(lab: &Lab) -> String {
    let show = "ip rule; ip -6 rule; ip route show table 32473; ip -6 route show table 32473";
    let output = lab.command("router", "sh", ["-c", show]).unwrap().output().unwrap();
    text(&output.stdout).to_owned()
}

/// A download as both ends saw it.
struct Fetched {
    /// The addresses that the server and the client knew of each other were their own.
    is_as_it_was: bool,
    /// Whether the client had another port for the server.
    is_split: bool,
    rate: f64,
    end: String,
}

/// Brings up the path with an edge that splits, whose first event has come; returns also what
/// routing there was before.
fn up(what: &str, folder: &Path) -> Option<(Lab, On, String)> {
    let policy = write(folder, "policy.toml", POLICY);
    let lab = bring_up_text(FAR, &name(what))?;
    let [lan, wan] = interfaces(&lab);
    let before = routing(&lab);
    let arguments = ["edge", "--lan", &lan, "--wan", &wan, "--rate", "100Mb/s", "--policy", &policy];
    match On::new(&lab, "router", &arguments) {
        Ok(edge) => Some((lab, edge, before)),
        Err(reason) => {
            assert!(reason.contains("needs root") || reason.contains("no programs"), "{reason}");
            println!("SKIPPED: {reason}");
            None
        }
    }
}

#[test]
fn connections_that_do_not_reach_the_relay_pass_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let Some((lab, edge, _)) = up("edge-unsplit", folder.path()) else { return };
    // As a firewall of the router does it.
    let rule = "ip rule add pref 0 fwmark 0x7ed90001 blackhole";
    assert!(lab.command("router", "sh", ["-c", rule]).unwrap().status().unwrap().success());
    let address = SocketAddr::new(lab.v4("server").unwrap().into(), ALWAYS);
    let (mut server, mut heard) = play(&lab, "server", &format!("serve {address}"));
    let (mut client, mut said) = play(&lab, "home", &format!("fetch {address} 0.1"));
    // The server sees the port of the client, and not that of a relay.
    assert_eq!(line(&mut said).split(' ').next().unwrap(), line(&mut heard));
    client.wait().unwrap();
    let counted = edge.end();
    assert!(counted["split_repeated"].as_u64() >= Some(2) && counted["split_reached"] == 0, "{counted}");
    server.kill().unwrap();
    server.wait().unwrap();
    lab.down().unwrap();
}

#[test]
fn the_next_downloads_of_a_small_receiver_are_split_until_the_edge_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let Some((lab, mut edge, before)) = up("edge-split", folder.path()) else { return };
    let v4 = SocketAddr::new(lab.v4("server").unwrap().into(), 5000);
    let v6 = SocketAddr::new(lab.v6("server").unwrap().into(), ALWAYS);
    let near = SocketAddr::new(lab.v4("router").unwrap().into(), ALWAYS);
    let mut servers = [("server", v4), ("server", v6), ("router", near)]
        .map(|(node, address)| (address, play(&lab, node, &format!("serve {address}"))));
    let mut fetch_while = |address: SocketAddr, seconds: f64, meanwhile: &mut dyn FnMut()| {
        let home: IpAddr =
            if address.is_ipv4() { lab.v4("home").unwrap().into() } else { lab.v6("home").unwrap().into() };
        let (mut client, mut said) = play(&lab, "home", &format!("fetch {address} {seconds}"));
        let ends = line(&mut said);
        let ends: Vec<SocketAddr> = ends.split(' ').map(|end| end.parse().unwrap()).collect();
        let (_, (_, heard)) = servers.iter_mut().find(|(of, _)| *of == address).unwrap();
        let seen: SocketAddr = line(heard).parse().unwrap();
        meanwhile();
        let result = line(&mut said);
        let (rate, end) = result.split_once(' ').unwrap();
        client.wait().unwrap();
        Fetched {
            is_as_it_was: ends[1] == address && ends[0].ip() == home && seen.ip() == home,
            is_split: seen != ends[0],
            rate: rate.parse().unwrap(),
            end: end.to_owned(),
        }
    };
    // A handshake that nobody completes switches nothing off.
    play(&lab, "home", &format!("ask {}", SocketAddr::new(v4.ip(), ALWAYS))).0.wait().unwrap();
    let asked = (0..5).map(|_| next(&mut edge, "state")["counters"].clone()).last().unwrap();
    assert_eq!((&asked["split"], &asked["split_reached"]), (&1.into(), &1.into()), "{asked}");
    let (from, mut decided) = (now(), None);
    let held = fetch_while(v4, HELD, &mut || {
        decided = next_if(&mut edge, "decision", |said| said["strategies"][0] == "proxy");
    });
    let Some(decided) = decided else {
        assert!(was_late(&lab, from), "it has not decided");
        return;
    };
    let sentence = decided["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("has the next connections of its class from its host split"), "{sentence}");
    assert!(held.is_as_it_was && !held.is_split && held.end == "complete");
    let split = fetch_while(v4, SPLIT, &mut || ());
    println!("{sentence}\n{:.1} Mb/s, and split {:.1} Mb/s", held.rate / 1e6, split.rate / 1e6);
    assert!(split.is_as_it_was && split.is_split && split.end == "complete");
    assert!(split.rate >= 3.0 * held.rate || was_late(&lab, from), "{} and {}", held.rate, split.rate);
    let always = fetch_while(v6, 0.1, &mut || ());
    assert!(always.is_as_it_was && always.is_split && always.end == "complete");
    // The router itself is not beyond the link.
    let local = fetch_while(near, 0.1, &mut || ());
    assert!(local.is_as_it_was && !local.is_split && local.end == "complete");
    let broken = fetch_while(v4, 20.0, &mut || {
        edge.child.kill().unwrap();
        edge.child.wait().unwrap();
    });
    assert!(broken.is_split && broken.end == "reset", "{}", broken.end);
    let begun = Clock::now();
    while routing(&lab) != before {
        assert!(begun.elapsed() < TIMEOUT, "{}", routing(&lab));
        std::thread::sleep(Time::from_millis(20));
    }
    let after = fetch_while(v4, 0.1, &mut || ());
    assert!(after.is_as_it_was && !after.is_split && after.end == "complete");
    for (_, (mut server, _)) in servers {
        server.kill().unwrap();
        server.wait().unwrap();
    }
    lab.down().unwrap();
}

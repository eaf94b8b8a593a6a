//! `headway flows` at both ends of a path, with and without `headway edge` on it.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

use crate::edge::{PATH, POLICY, up};
use crate::support::labs::{ROLE, bring_up_text, line, name, now, play, was_late};
use crate::support::{PROGRAM, TIMEOUT, text, write};
use headway_lab::Lab;
use serde_json::Value;

/// Bytes of a download: enough for the window of its receiver to grow.
const SIZE: usize = 1_000_000;

#[test]
fn a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["source", address] => source(address.parse().unwrap()),
        ["sink", address] => sink(address.parse().unwrap()),
        _ => panic!("{role}"),
    }
}

/// Sends to whoever connects, and keeps the connection until standard input ends.
fn source(address: SocketAddr) {
    let listener = TcpListener::bind(address).unwrap();
    println!("ready");
    let mut stream = listener.accept().unwrap().0;
    socket2::SockRef::from(&stream).set_tcp_congestion(b"cubic").unwrap();
    stream.write_all(&vec![1; SIZE]).unwrap();
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Receives all of it, says so, and keeps the connection until standard input ends.
fn sink(address: SocketAddr) {
    println!("ready");
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).unwrap();
    stream.read_exact(&mut vec![0; SIZE]).unwrap();
    // So that the last ACK has passed all of the path, too.
    stream.write_all(&[1]).unwrap();
    println!("done");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Returns what the kernel of a node says about the only connection with this port.
fn look(lab: &Lab, node: &str, port: u16) -> Option<Value> {
    let filter = format!("port {port}");
    let command = ["flows", "--json", "--duration", "1ms", "--filter", &filter];
    let ran = lab.command(node, PROGRAM, command).unwrap().output().unwrap();
    if text(&ran.stderr).contains("cannot list connections") {
        println!("SKIPPED: {}", text(&ran.stderr));
        return None;
    }
    let said: Value = serde_json::from_str(text(&ran.stdout).lines().next().unwrap()).unwrap();
    assert_eq!(said["connections"].as_array().map(Vec::len), Some(1), "{said}");
    Some(said["connections"][0].clone())
}

/// Returns the window that the receiver of a download has told, and the one that its sender has seen.
fn told_and_seen(lab: &Lab, port: u16) -> Option<[u64; 2]> {
    let address = SocketAddr::new(lab.v4("server").unwrap().into(), port);
    let (mut source, _said) = play(lab, "server", &format!("source {address}"));
    let (mut sink, mut said) = play(lab, "home", &format!("sink {address}"));
    assert_eq!(line(&mut said), "done");
    // The last ACK is under way for a moment.
    let deadline = std::time::Instant::now() + TIMEOUT;
    let server = loop {
        let server = look(lab, "server", port)?;
        if server["received_bytes"] == 1 || std::time::Instant::now() > deadline {
            break server;
        }
    };
    let home = look(lab, "home", port)?;
    for role in [&mut source, &mut sink] {
        drop(role.stdin.take());
        assert!(role.wait().unwrap().success());
    }
    assert_eq!((&home["received_bytes"], &server["received_bytes"]), (&SIZE.into(), &1.into()));
    // Kernels before 6.2 do not tell both.
    Some([home["window_told_bytes"].as_u64()?, server["window_seen_bytes"].as_u64()?])
}

#[test]
fn an_end_sees_less_than_the_other_one_told_only_while_an_edge_is_on() {
    let Some(lab) = bring_up_text(PATH, &name("flows")) else { return };
    if let Some([told, seen]) = told_and_seen(&lab, 5000) {
        println!("without: told {told}, seen {seen}");
        assert_eq!(told, seen);
    }
    lab.down().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let policy = write(folder.path(), "policy.toml", POLICY);
    let Some((lab, edge)) = up("flows-edge", &["--policy", &policy]) else { return };
    let from = now();
    if let Some([told, seen]) = told_and_seen(&lab, 5000) {
        println!("with: told {told}, seen {seen}");
        // A fifth of 50 Mb/s in 20 ms are 25 kB; a handshake that was slow makes it more.
        assert!(seen < 40_000 && told > 60_000 || was_late(&lab, from), "told {told}, seen {seen}");
    }
    edge.end();
    if let Some([told, seen]) = told_and_seen(&lab, 5001) {
        println!("after it: told {told}, seen {seen}");
        assert_eq!(told, seen);
    }
    lab.down().unwrap();
}

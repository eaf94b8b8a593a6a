//! `headway proxy` as a process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Stdio;

use crate::support::{headway, output, text};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

#[test]
fn a_proxy_passes_bytes_on_and_says_what_it_did() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    let mut command = headway(&["proxy", "127.0.0.1:0", &target, "--json", "--client-window", "16kB"]);
    let mut proxy = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(proxy.stdout.take().unwrap()).lines();
    let mut until = |event: &str| {
        let mut objects = lines.by_ref().map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        objects.find(|said| said["event"] == event).unwrap()
    };
    let address = until("on")["listen"].as_str().unwrap().to_owned();
    let mut client = TcpStream::connect(address).unwrap();
    let mut server = listener.accept().unwrap().0;
    client.write_all(b"question").unwrap();
    server.read_exact(&mut [0; 8]).unwrap();
    server.write_all(b"answer").unwrap();
    client.read_exact(&mut [0; 6]).unwrap();
    drop((client, server));
    let ended = until("ended");
    assert_eq!((&ended["client_bytes"], &ended["target_bytes"]), (&8.into(), &6.into()));
    assert_eq!(ended["reason"], "complete");
    kill(Pid::from_raw(proxy.id() as i32), Signal::SIGINT).unwrap();
    let off = until("off");
    assert_eq!((&off["counters"]["accepted"], &off["counters"]["open"]), (&1.into(), &0.into()));
    assert!(proxy.wait().unwrap().success());
}

#[test]
fn a_proxy_refuses_what_cannot_be_meant() {
    for (arguments, words) in [
        (&["127.0.0.1:9", "127.0.0.1:9"][..], "connect to itself"),
        (&["0.0.0.0:9", "127.0.0.1:9"], "connect to itself"),
        (&["[::]:9", "localhost:9"], "connect to itself"),
        (&["127.0.0.1:0", "127.0.0.1"], "has no port; say 127.0.0.1:PORT"),
        (&["127.0.0.1:0", "127.0.0.1:9", "--target-controller", "no-such-law"], "no congestion controller"),
        (&["127.0.0.1:0", "127.0.0.1:9", "--target-window", "1kB"], "it must be 2920 B to"),
        (&["127.0.0.1:0", "127.0.0.1:9", "--buffer", "1kB"], "it must be 4096 B to"),
        (&["8080", "127.0.0.1:9"], "LISTEN"),
    ] {
        let refused = output(&mut headway(&[&["proxy"], arguments].concat()));
        let said = text(&refused.stderr);
        assert!(!refused.status.success() && said.contains(words), "{arguments:?}: {said}");
    }
}

//! The congestion header behind an ordinary kernel router that translates addresses: as a TCP option it
//! passes, as an IP protocol it does not.
//!
//! Where the machine does not allow namespaces, controllers or translation, the test says so and passes.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener};

use crate::support::labs::{On, ROLE, bring_up_text, line, name, now, play, was_late};
use crate::support::{TIMEOUT, text};
use headway_lab::Lab;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

const MEGABYTE: usize = 1 << 20;

/// A sender, a kernel router that translates its address, an explicit router, and a receiver.
const PATH: &str = r#"
[[link]]
from = "h1"
to = "nat"
forward = { rate = "100 Mb/s" }
[[link]]
from = "nat"
to = "h2"
forward = { rate = "10 Mb/s", delay = "5 ms", queue = { kind = "KIND" } }
"#;

#[test]
fn a_role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    match role.split(' ').collect::<Vec<_>>()[..] {
        ["flood", controller, address] => flood(controller, address.parse().unwrap()),
        ["sink", address] => sink(address.parse().unwrap()),
        _ => panic!("{role}"),
    }
}

/// Sends two megabytes and prints which controller the connection has then.
fn flood(controller: &str, address: SocketAddr) {
    println!("ready");
    let mut socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.set_tcp_congestion(controller.as_bytes()).unwrap();
    socket.set_write_timeout(Some(TIMEOUT)).unwrap();
    socket.connect(&address.into()).unwrap();
    socket.write_all(&vec![0; 2 * MEGABYTE]).unwrap();
    let controller = String::from_utf8(socket.tcp_congestion().unwrap()).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    // The other end closes when it has everything.
    assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    println!("controller {}", controller.trim_end_matches('\0'));
}

/// Takes one connection to its end.
fn sink(address: SocketAddr) {
    let listener = TcpListener::bind(address).unwrap();
    println!("ready");
    let (mut stream, peer) = listener.accept().unwrap();
    let bytes = std::io::copy(&mut stream, &mut std::io::sink()).unwrap();
    println!("received {bytes} from {}", peer.ip());
}

/// Brings the path up with translation in the middle; prints the reason and returns `None` if
/// that is not possible.
fn up(kind: &str, name: &str) -> Option<Lab> {
    let lab = bring_up_text(&PATH.replace("KIND", kind), name)?;
    let outer = &lab.interface("nat", "nat-h2").unwrap().name;
    let rules = format!(
        "table ip nat {{ chain hidden {{ type nat hook postrouting priority 100; oifname {outer} masquerade; }}; }}"
    );
    match lab.command("nat", "nft", [rules.as_str()]).unwrap().output() {
        Ok(done) if done.status.success() => Some(lab),
        Ok(done) => {
            let said = text(&done.stderr);
            assert!(said.contains("Could not process rule"), "{said}");
            println!("SKIPPED: the kernel does not translate addresses: {said}");
            None
        }
        Err(error) => {
            println!("SKIPPED: nft: {error}");
            None
        }
    }
}

/// Transfers two megabytes with a carrier; returns the controller at the end and the counters of the sender.
fn transfer(lab: &Lab, law: &str, carrier: &str) -> Result<(String, Value), String> {
    let [sender, receiver] = ["s", "r"].map(|end| format!("t{}_{end}", std::process::id()));
    let at_server = On::new(lab, "h2", &["cc", law, "--receive", "--carrier", carrier, "--name", &receiver])?;
    let at_client = On::new(lab, "h1", &["cc", law, "--carrier", carrier, "--name", &sender])?;
    let address = format!("{}:5000", lab.v4("h2").unwrap());
    let (mut sink, mut heard) = play(lab, "h2", &format!("sink {address}"));
    let (mut flood, mut said) = play(lab, "h1", &format!("flood {sender} {address}"));
    let hidden = lab.interface("nat", "nat-h2").unwrap().v4;
    assert_eq!(line(&mut heard), format!("received {} from {hidden}", 2 * MEGABYTE));
    let controller = line(&mut said).strip_prefix("controller ").unwrap().to_owned();
    assert!(sink.wait().unwrap().success() && flood.wait().unwrap().success());
    at_server.end();
    let controller = if controller == sender { law.to_owned() } else { controller };
    Ok((controller, at_client.end()))
}

#[test]
fn the_option_passes_a_translator_that_the_protocol_does_not() {
    for law in ["xcp", "rcp"] {
        let Some(lab) = up(law, &name(law)) else { return };
        let from = now();
        let (controller, counted) = match transfer(&lab, law, "option") {
            Ok(result) => result,
            Err(reason) => return println!("SKIPPED: {reason}"),
        };
        // Timeouts in a row look like a path that drops headers.
        if was_late(&lab, from) {
            return;
        }
        assert_eq!(controller, law, "{counted}");
        let headers = || lab.status().unwrap().links[1].forward_router.clone().unwrap().headers;
        let seen = headers();
        assert!(seen.rewritten > 1000 && seen.dropped() == 0, "{seen:?}");
        assert_eq!((&counted["without_peer"], &counted["timeouts"]), (&0.into(), &0.into()));

        let (controller, counted) = transfer(&lab, law, "protocol").unwrap();
        assert_eq!((controller.as_str(), &counted["without_peer"]), ("reno", &1.into()), "{counted}");
        lab.down().unwrap();
    }
}

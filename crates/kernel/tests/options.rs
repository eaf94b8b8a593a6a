//! XCP and RCP in the running kernel with the congestion header as a TCP option: connections
//! between network namespaces.
//!
//! Where the machine does not allow namespaces or BPF controllers, each test says so and passes.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

#[allow(dead_code, reason = "other tests use all of it")]
mod flood;
#[allow(dead_code, reason = "other tests use all of it")]
mod path;

use std::net::TcpStream;
use std::sync::Arc;

use flood::{RATE, treat_at};
use headway_kernel::{
    Carrier, Controller, EndCounters, EndOptions, Error, Interface, Loaded, Loader, Namespace,
};
use libbpf_rs::{TC_EGRESS, TC_INGRESS};
use path::{Host, Info, MEGABYTE, Path, V4, V6, WIRE, attach, close, controller_of, transfer};
use socket2::Socket;

/// Payload of a full segment without a header: 1500 bytes without those of IP and TCP, and TCP's timestamps.
const SEGMENT: u64 = 1500 - 20 - 20 - 12;
/// The header as a TCP option.
const OPTION: u64 = 20;

/// Loads a controller whose connections on a host may have the option. Prints the reason and returns `None`
/// if the kernel or its cgroups do not allow that.
fn load(host: &Host, loader: Loader, carrier: Carrier) -> Option<Loaded> {
    let loaded = host.run(move || {
        let namespace = Some(Namespace::here().unwrap());
        loader.end_options(EndOptions { namespace, carrier, ..EndOptions::default() }).load()
    });
    match loaded {
        Err(reason @ (Error::NoCgroup(_) | Error::NoTcpOptions)) => {
            println!("SKIPPED: {reason}");
            None
        }
        loaded => Some(loaded.unwrap_or_else(|error| panic!("{error}: {error:?}"))),
    }
}

/// A sender at the client and a receiver at the server.
struct Ends {
    sender: Loaded,
    receiver: Option<Loaded>,
}

impl Ends {
    fn sender(path: &Path, controller: Controller, what: &str) -> Option<Ends> {
        let name = format!("t{}_{what}", std::process::id());
        let sender = load(&path.client, Loader::new(controller).name(&name), Carrier::TcpOption)?;
        Some(Ends { sender, receiver: None })
    }

    fn both(path: &Path, controller: Controller, what: &str) -> Option<Ends> {
        let loader = Loader::new(controller).receives_only(true);
        let receiver = load(&path.server, loader, Carrier::TcpOption);
        Some(Ends { receiver, ..Ends::sender(path, controller, what)? })
    }

    fn connect(&self, path: &Path, to: &str) -> (Socket, TcpStream) {
        path.connect_to(to, self.sender.name(), "reno")
    }

    fn counters(&self) -> EndCounters {
        self.sender.end_counters().unwrap()
    }

    fn received(&self) -> EndCounters {
        self.receiver.as_ref().unwrap().end_counters().unwrap()
    }
}

/// Asserts that what each end sent has arrived at the other, also in buffers of several segments.
fn assert_all_arrived(ends: &Ends) {
    let (here, there) = (ends.counters(), ends.received());
    assert_eq!((here.sent, there.sent), (there.received, here.received), "{here:?} {there:?}");
}

#[test]
fn without_a_router_data_passes_with_options_until_the_sender_becomes_reno() {
    let Some(path) = Path::new() else { return };
    for controller in [Controller::Xcp, Controller::Rcp] {
        let Some(ends) = Ends::both(&path, controller, controller.command()) else { return };
        for server in [V4[1], V6[1]] {
            let (socket, mut peer) = ends.connect(&path, server);
            transfer(&socket, &mut peer, 4 * MEGABYTE);
            assert_eq!(controller_of(&socket), "reno");
            close(&socket, peer);
        }
        assert_all_arrived(&ends);
        let (here, there) = (ends.counters(), ends.received());
        // Then neither end answers the other's answers for ever; the last buffer may have tens of segments.
        assert!(here.sent + there.sent < 2 * 400 && here.sent > 4, "{here:?} {there:?}");
        assert_eq!((here.connections, here.without_router, here.without_peer), (2, 2, 0));
        assert_eq!((here.answered, there.answered, here.timeouts), (2, 2, 0));
        assert_eq!((here.malformed, here.too_large), (0, 0));
    }
}

#[test]
fn a_sender_of_rcp_is_paced_at_the_rate_of_the_router() {
    let Some(path) = Path::new() else { return };
    path.client.run(|| treat_at("grant_rate", TC_EGRESS));
    let Some(ends) = Ends::both(&path, Controller::Rcp, "rate") else { return };
    for (server, segment) in [(V4[1], SEGMENT), (V6[1], SEGMENT - 20)] {
        let sent = ends.counters().sent;
        let (socket, mut peer) = ends.connect(&path, server);
        transfer(&socket, &mut peer, MEGABYTE / 2);
        let info = Info::of(&socket);
        // The largest segment of TCP includes its options.
        assert_eq!((controller_of(&socket).as_str(), u64::from(info.segment)), (ends.sender.name(), segment));
        let payload = RATE * (segment - OPTION) / WIRE;
        assert!(info.pacing_rate.abs_diff(payload) * 1000 <= payload, "{info:?}, not {payload}");
        let counted = ends.counters();
        assert!(counted.sent - sent > (MEGABYTE / 2) as u64 / (segment - OPTION), "{counted:?}");
        assert_eq!((counted.too_large, counted.timeouts), (0, 0));
        close(&socket, peer);
    }
    assert_all_arrived(&ends);
}

#[test]
fn a_sender_of_xcp_that_is_granted_nothing_keeps_one_segment_per_round_trip() {
    let Some(path) = Path::new() else { return };
    path.client.run(|| treat_at("grant_nothing", TC_EGRESS));
    let Some(ends) = Ends::both(&path, Controller::Xcp, "none") else { return };
    let (socket, mut peer) = ends.connect(&path, V4[1]);
    transfer(&socket, &mut peer, MEGABYTE);
    let info = Info::of(&socket);
    // The kernel's window is rounded up; the pace is that of one.
    assert_eq!((controller_of(&socket).as_str(), info.window), (ends.sender.name(), 2));
    assert!(info.pacing_rate < u64::MAX && ends.counters().without_router == 0, "{info:?}");
}

#[test]
fn a_peer_that_does_not_know_the_option_costs_no_timeout_and_the_next_connection_asks_again() {
    let Some(path) = Path::new() else { return };
    let Some(ends) = Ends::sender(&path, Controller::Xcp, "legacy") else { return };
    for asked in 1..=2 {
        let (socket, mut peer) = ends.connect(&path, V4[1]);
        transfer(&socket, &mut peer, MEGABYTE);
        assert_eq!(controller_of(&socket), "reno");
        let counted = ends.counters();
        assert_eq!((counted.without_peer, counted.sent, counted.timeouts), (asked, 2 * asked, 0));
        close(&socket, peer);
    }
}

#[test]
fn boxes_that_blank_options_are_avoided_from_the_start_and_later() {
    let Some(path) = Path::new() else { return };
    let Some(ends) = Ends::both(&path, Controller::Xcp, "box") else { return };
    path.client.run(|| treat_at("grant_nothing", TC_EGRESS));
    let (socket, mut peer) = ends.connect(&path, V4[1]);
    transfer(&socket, &mut peer, MEGABYTE / 10);
    assert_eq!(controller_of(&socket), ends.sender.name());
    // The box appears while the connection is open. The receiver stops to answer what it
    // does not hear any more.
    path.server.run(|| treat_at("blank_options", TC_INGRESS));
    transfer(&socket, &mut peer, MEGABYTE);
    assert_eq!((controller_of(&socket).as_str(), ends.counters().without_peer), ("reno", 1));
    let (socket, mut peer) = ends.connect(&path, V4[1]);
    transfer(&socket, &mut peer, MEGABYTE);
    assert_eq!((controller_of(&socket).as_str(), ends.counters().without_peer), ("reno", 2));
    assert_eq!(ends.counters().timeouts, 0);
}

#[test]
fn options_of_another_length_are_counted_and_not_believed() {
    let Some(path) = Path::new() else { return };
    path.client.run(|| treat_at("shorten_options", TC_EGRESS));
    let Some(ends) = Ends::both(&path, Controller::Rcp, "length") else { return };
    let (socket, mut peer) = ends.connect(&path, V4[1]);
    transfer(&socket, &mut peer, MEGABYTE);
    assert_eq!((controller_of(&socket).as_str(), ends.counters().without_peer), ("reno", 1));
    let counted = ends.received();
    assert_eq!((counted.malformed, counted.received, counted.answered), (2, 0, 0), "{counted:?}");
}

#[test]
fn losses_leave_acks_without_room_but_no_sender_becomes_reno() {
    let Some(path) = Path::new() else { return };
    path.server.run(|| treat_at("grant_and_lose", TC_INGRESS));
    let Some(ends) = Ends::both(&path, Controller::Xcp, "loss") else { return };
    let (socket, mut peer) = ends.connect(&path, V4[1]);
    transfer(&socket, &mut peer, 8 * MEGABYTE);
    assert_eq!(controller_of(&socket), ends.sender.name());
    let counted = ends.counters();
    assert!(counted.loss_cuts > 0 && counted.without_peer == 0, "{counted:?}");
}

#[test]
fn a_receiver_answers_in_the_carrier_that_it_is_asked_in() {
    let Some(path) = Path::new() else { return };
    path.client.run(|| treat_at("grant_rate", TC_EGRESS));
    let loader = Loader::new(Controller::Rcp).receives_only(true);
    let Some(receiver) = load(&path.server, loader, Carrier::Protocol) else { return };
    let receiver = Arc::new(receiver);
    let _at_server = attach(&receiver, &path.server);
    let Some(by_option) = Ends::sender(&path, Controller::Rcp, "option") else { return };
    let name = format!("t{}_proto", std::process::id());
    let by_protocol = Arc::new(Loader::new(Controller::Rcp).name(&name).load().unwrap());
    let _at_client = attach(&by_protocol, &path.client);
    for (name, answered) in [(by_option.sender.name(), 1), (&name, 2)] {
        let (socket, mut peer) = path.connect_to(V4[1], name, "reno");
        transfer(&socket, &mut peer, MEGABYTE / 4);
        assert_eq!(controller_of(&socket), name);
        assert_eq!(receiver.end_counters().unwrap().answered, answered);
    }
    let [option, protocol] =
        [&by_option.sender, &by_protocol].map(|loaded: &Loaded| loaded.end_counters().unwrap());
    assert!(option.received > 0 && protocol.received > 0, "{option:?} {protocol:?}");
}

#[test]
fn other_namespaces_and_interfaces_stay_as_they_are_and_nothing_remains() {
    let Some(path) = Path::new() else { return };
    path.client.run(|| treat_at("grant_rate", TC_EGRESS));
    let segments = || path.client.run(|| Interface::here("eth0").unwrap().segments);
    let before = segments();
    for _ in 0..3 {
        let Some(ends) = Ends::both(&path, Controller::Rcp, "gone") else { return };
        assert_eq!(segments(), before);
        let (socket, mut peer) = ends.connect(&path, V4[1]);
        transfer(&socket, &mut peer, MEGABYTE / 10);
        assert_eq!(controller_of(&socket), ends.sender.name());
        drop(ends);
        // It gets no rate any more.
        transfer(&socket, &mut peer, MEGABYTE / 10);
        assert_eq!(controller_of(&socket), "reno");
    }
    // A receiver in another namespace than the server's does not answer.
    let loader = Loader::new(Controller::Rcp).receives_only(true);
    let Some(elsewhere) = load(&path.client, loader, Carrier::TcpOption) else { return };
    let Some(ends) = Ends::sender(&path, Controller::Rcp, "apart") else { return };
    let (socket, mut peer) = ends.connect(&path, V4[1]);
    transfer(&socket, &mut peer, MEGABYTE / 10);
    assert_eq!((controller_of(&socket).as_str(), elsewhere.end_counters().unwrap().received), ("reno", 0));
}

//! Clients that request more streams than their share: others still get theirs.

use crate::common::raw::Raw;
use crate::common::{Running, config, measure_undisturbed};
use headway_net::protocol::{Message, RefusedBy};
use headway_units::Duration;
use std::net::{Ipv4Addr, Shutdown};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn attacker(network: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, network, 1)
}

#[test]
fn two_packets_far_apart_keep_nobody_waiting() {
    let server = Running::start(config());
    let mut attackers: Vec<Raw> =
        (1..=4).map(|network| Raw::open_from(attacker(network), server.port)).collect();
    for raw in &mut attackers {
        assert_eq!(raw.ask_reverse(0, 2, Duration::from_ms(29_000)), Message::Ready { stream: 0 });
    }
    measure_undisturbed(&server.options());
    let counts = server.handle.counts();
    assert_eq!((counts.refused_busy, counts.streams_cut), (0, 0), "the slow streams go on");
}

#[test]
fn streams_that_keep_a_processor_busy_are_short_and_give_way() {
    let server = Running::start(config());
    let mut raw = Raw::open_from(attacker(1), server.port);
    let spinning = Duration::from_us(190);
    for (count, gap) in [(16_384, spinning), (2000, spinning), (16_000, Duration::from_ms(1))] {
        assert_eq!(raw.ask_reverse(0, count, gap), Message::Refused(RefusedBy::StreamTime), "{count}");
    }
    // The largest streams allowed, without pause, from several sessions of two networks.
    let stop = Arc::new(AtomicBool::new(false));
    let attackers: Vec<_> = [1, 1, 2, 2]
        .map(|network| {
            let (port, stop) = (server.port, Arc::clone(&stop));
            std::thread::spawn(move || {
                let mut raw = Raw::open_from(attacker(network), port);
                raw.tcp.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("a time");
                for stream in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    match raw.ask_reverse(stream, 700, spinning) {
                        Message::Ready { .. } => assert!(matches!(raw.hear(), Some(Message::Sent(_)))),
                        Message::Refused(RefusedBy::Busy) => {}
                        other => panic!("{other:?}"),
                    }
                }
            })
        })
        .into();
    server.wait_for("streams of the attackers", |counts| counts.reverse_streams >= 2);
    measure_undisturbed(&server.options());
    stop.store(true, Ordering::Relaxed);
    attackers.into_iter().for_each(|attacker| attacker.join().expect("an attacker without a panic"));
}

#[test]
fn a_stream_ends_with_its_client() {
    let server = Running::start(config());
    let mut raw = Raw::open_from(attacker(1), server.port);
    // A stream of half a minute; the client leaves as soon as the other measurement is done.
    assert_eq!(raw.ask_reverse(0, 300, Duration::from_ms(100)), Message::Ready { stream: 0 });
    measure_undisturbed(&server.options());
    raw.tcp.shutdown(Shutdown::Both).unwrap();
    while server.handle.open_sessions() > 0 {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    raw.udp.set_nonblocking(true).unwrap();
    let arrived = std::iter::from_fn(|| raw.udp.recv(&mut [0; 300]).ok()).count();
    assert!(arrived < 250, "{arrived} packets came");
}

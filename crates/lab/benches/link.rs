//! The cost of a packet in the emulator, without system calls: under drop-tail, CoDel, and routers
//! that rewrite the header.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use headway_lab::congestion_header::{Carrier, find, is_tcp, rewrite};
use headway_lab::link::Link;
use headway_lab::queue::{HostFrame, Packet, wire_size};
use headway_lab::{Direction, LinkSpec};
use headway_queue::QueueSpec;
use headway_queue::explicit::{
    Format, Header, OPTION_KIND, PROTOCOL, VERSION_RCP, VERSION_XCP, encode, encode_option,
};
use headway_units::{Duration, Instant, Rate};

/// Packets in one iteration: two milliseconds at 10 Gb/s.
const PACKETS: u64 = 1_000;
/// An Ethernet header and an IPv4 packet of 1500 bytes.
const FRAME: usize = 1_514;

/// The header of a sender with an RTT of 10 ms that asks for all it can get.
fn asking(version: u8) -> Header {
    Header { rtt: 2_684_354, x: 3_221, feedback: 0x7fff_ffff, ..Header::new(version, Format::Standard) }
}

/// A packet of a sender with an RTT of 10 ms.
fn frame(version: u8) -> Vec<u8> {
    let mut frame = vec![0; FRAME];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..18].copy_from_slice(&[0x45, 0, 0x05, 0xdc]);
    frame[23] = PROTOCOL;
    frame[34..54].copy_from_slice(&encode(&asking(version)));
    frame
}

/// The same with an option of TCP behind timestamps, or without it.
fn segment(version: Option<u8>) -> Vec<u8> {
    let mut frame = frame(VERSION_XCP);
    frame[23] = 6;
    frame[34..].fill(0);
    let timestamps = [1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1];
    frame[54..66].copy_from_slice(&timestamps);
    frame[46] = 0x80;
    if let Some(version) = version {
        let (option, length) = encode_option(&asking(version), OPTION_KIND).expect("a known version");
        frame[46] = 0xd0;
        frame[66..66 + length].copy_from_slice(&option[..length]);
    }
    frame
}

/// Passes packets at 80 % of the rate, as a lane does: finds the header, offers the packet,
/// rewrites what has left.
fn pass(link: &mut Link, frame: &mut [u8], now: &mut Instant) -> u64 {
    let carrier = Carrier { protocol: PROTOCOL, port: None, option: OPTION_KIND };
    let mut delivered = 0;
    for _ in 0..PACKETS {
        *now += Duration::from_ns(1_538);
        let reads_headers = !link.versions().is_empty();
        let found = reads_headers.then(|| find(black_box(frame), carrier)).flatten().and_then(Result::ok);
        let mut packet = Packet::new(*now, wire_size((FRAME - 14) as u64));
        packet.header = found.map(|found| found.header);
        packet.frame = Some(HostFrame { number: 0, is_tcp: is_tcp(black_box(frame)) });
        link.offer(packet);
        while let Some(decided) = link.take(*now) {
            delivered += 1;
            if let (Some(feedback), Some(found)) = (decided.feedback, &found)
                && let Some(place) = found.place
            {
                // The next packet asks for as much as this one did.
                rewrite(frame, place, feedback);
                rewrite(frame, place, found.header.feedback);
            }
        }
        while link.take_finished().is_some() {}
    }
    link.take_records();
    delivered
}

fn packets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a packet in the emulator");
    group.throughput(Throughput::Elements(PACKETS));
    for (name, kind, mut frame) in [
        ("drop-tail", "drop-tail", frame(VERSION_XCP)),
        ("codel", "codel", frame(VERSION_XCP)),
        ("xcp", "xcp", frame(VERSION_XCP)),
        ("errors", "errors", frame(VERSION_XCP)),
        ("rcp", "rcp", frame(VERSION_RCP)),
        ("rcp, an option of TCP", "rcp", segment(Some(VERSION_RCP))),
        ("rcp, TCP without it", "rcp", segment(None)),
    ] {
        let queue: QueueSpec = serde_json::from_value(serde_json::json!({ "kind": kind })).expect("a kind");
        let spec = LinkSpec {
            queue: Some(queue),
            ..LinkSpec::new(Rate::from_bps(10_000_000_000), Duration::from_ms(1))
        };
        let mut now = Instant::from_ns(1_000_000_000);
        let mut link = Link::new(Direction::Forward, &spec, &[], (1, 1500), now, Duration::from_ms(10));
        group.bench_function(name, |bench| bench.iter(|| pass(&mut link, &mut frame, &mut now)));
    }
    group.finish();
}

criterion_group!(benches, packets);
criterion_main!(benches);

//! The cost of a packet in the emulator, without system calls: under drop-tail, CoDel, and routers that rewrite the header.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use headway_core::explicit::{Format, Header, PROTOCOL, VERSION_RCP, VERSION_XCP, encode};
use headway_core::queue::QueueSpec;
use headway_core::{Duration, Instant, Rate};
use headway_lab::congestion_header::{Carrier, find, rewrite};
use headway_lab::link::{Link, Verdict};
use headway_lab::{Direction, LinkSpec};

/// Packets in one iteration: two milliseconds at 10 Gb/s.
const PACKETS: u64 = 1_000;
/// An Ethernet header and an IPv4 packet of 1500 bytes.
const FRAME: usize = 1_514;

/// A packet of a sender with an RTT of 10 ms.
fn frame(version: u8) -> Vec<u8> {
    let mut frame = vec![0; FRAME];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..18].copy_from_slice(&[0x45, 0, 0x05, 0xdc]);
    frame[23] = PROTOCOL;
    let header =
        Header { rtt: 2_684_354, x: 3_221, feedback: 0x7fff_ffff, ..Header::new(version, Format::Standard) };
    frame[34..54].copy_from_slice(&encode(&header));
    frame
}

/// Passes packets at 80 % of the rate, as a lane does: finds the header, offers the packet, rewrites what has left.
fn pass(link: &mut Link, frame: &mut [u8], now: &mut Instant) -> u64 {
    let carrier = Carrier { protocol: PROTOCOL, port: None };
    let mut delivered = 0;
    for _ in 0..PACKETS {
        *now += Duration::from_ns(1_538);
        let found = link.version().and_then(|_| find(black_box(frame), carrier)).and_then(Result::ok);
        let header = found.as_ref().map(|found| &found.header);
        let mut verdict = link.offer(*now, (FRAME - 14) as u64, false, header);
        if verdict == Verdict::Pending {
            link.advance(*now);
        }
        loop {
            if let Verdict::Deliver { feedback, .. } = verdict {
                delivered += 1;
                if let (Some(feedback), Some(found)) = (feedback, &found) {
                    // The next packet asks for as much as this one did.
                    rewrite(frame, found.place, feedback);
                    rewrite(frame, found.place, found.header.feedback);
                }
            }
            let Some(next) = link.decided() else { break };
            verdict = next;
        }
        while link.take_finished().is_some() {}
    }
    link.take_records();
    delivered
}

fn packets(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("a packet in the emulator");
    group.throughput(Throughput::Elements(PACKETS));
    for (kind, version) in [
        ("drop-tail", VERSION_XCP),
        ("codel", VERSION_XCP),
        ("xcp", VERSION_XCP),
        ("errors", VERSION_XCP),
        ("rcp", VERSION_RCP),
    ] {
        let queue: QueueSpec = serde_json::from_value(serde_json::json!({ "kind": kind })).expect("a kind");
        let spec = LinkSpec {
            queue: Some(queue),
            ..LinkSpec::new(Rate::from_bps(10_000_000_000), Duration::from_ms(1))
        };
        let mut now = Instant::from_ns(1_000_000_000);
        let mut link = Link::new(Direction::Forward, &spec, &[], 1, now, Duration::from_ms(10));
        let mut frame = frame(version);
        group.bench_function(kind, |bench| bench.iter(|| pass(&mut link, &mut frame, &mut now)));
    }
    group.finish();
}

criterion_group!(benches, packets);
criterion_main!(benches);

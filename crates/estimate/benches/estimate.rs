//! The cost of one stream from record to estimate: 64 packets behind interrupt coalescing.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use headway_arithmetic::rapid;
use headway_estimate::Gaps;
use headway_estimate::stream::Arrival;
use headway_estimate::{MultiRate, Scratch, Settings};
use headway_units::Duration;

#[path = "../tests/estimate/support/mod.rs"]
mod support;

use support::{Observed, Path, random_averages, send};

fn estimate(criterion: &mut Criterion) {
    // Many different streams, so that branch prediction cannot learn a single one.
    let streams = send(Path::usual(1), &random_averages(1_024, 5.0, 9.0, 1), None);
    let (settings, mut scratch) = (Settings::default(), Scratch::default());
    let mut gaps = Gaps::default();
    let mut means = Vec::new();
    let ready: Vec<Gaps> = streams
        .iter()
        .map(|stream| {
            stream.record.gaps(&mut gaps).expect("nothing is lost");
            gaps.clone()
        })
        .collect();
    let mut next = ready.iter().cycle();
    criterion.bench_function("denoise and estimate 64 gaps", |bench| {
        bench.iter(|| {
            let stream = next.next().expect("the cycle does not end");
            gaps.clone_from(stream);
            let kept = settings.denoise.apply(&mut gaps, &mut means);
            kept.and_then(|_| settings.excursion.estimate(support::PACKET, black_box(&gaps)))
        });
    });
    in_c(criterion, &streams, &ready);
    for method in MultiRate::ALL {
        let mut next = streams.iter().cycle();
        criterion.bench_function(method.name(), |bench| {
            bench.iter(|| {
                let stream = next.next().expect("the cycle does not end");
                black_box(method.estimate(&stream.record, &settings, &mut scratch))
            });
        });
    }
}

/// The same in integers of C, alone and from 64 stamps to the rate that follows.
fn in_c(criterion: &mut Criterion, streams: &[Observed], ready: &[Gaps]) {
    let mut config = rapid::Config::new(rapid::Preset::Default, 10_000_000_000, 9038, 10_000_000_000);
    config.flags |= rapid::flags::LITERAL_START;
    let (mut gaps, mut scratch) = (rapid::Gaps::default(), rapid::Gaps::default());
    let mut next = ready.iter().cycle();
    criterion.bench_function("denoise and estimate 64 gaps in C", |bench| {
        bench.iter(|| {
            let stream = next.next().expect("the cycle does not end");
            let ns = |gap: &Duration| gap.ns() as u64;
            gaps.fill(stream.send.iter().map(ns).zip(stream.receive.iter().map(ns)));
            gaps.estimate(&config, 16, &mut scratch)
        });
    });
    let packets: Vec<Vec<rapid::Packet>> = streams
        .iter()
        .map(|stream| {
            let arrivals = &stream.record.arrivals;
            let packet = |(index, pair): (u32, &[Arrival])| rapid::Packet {
                gap: (pair[1].sent - pair[0].sent).ns() as u64,
                index,
                stamp: (pair[1].received.expect("nothing is lost").ns() / 1000) as u32,
                ..rapid::Packet::default()
            };
            (0..).zip(arrivals.windows(2)).map(packet).collect()
        })
        .collect();
    let mut sender = rapid::Rapid::new(config, 0);
    let (mut next, mut stream) = (packets.iter().cycle(), 0_u32);
    criterion.bench_function("64 packets to a rate in C", |bench| {
        bench.iter(|| {
            for packet in next.next().expect("the cycle does not end") {
                sender.on_packet(&rapid::Packet { stream, ..*packet });
            }
            stream = stream.wrapping_add(1);
            black_box(sender.rate())
        });
    });
    assert!(sender.estimated() > sender.refused());
    criterion.bench_function("the gaps of 64 packets in C", |bench| {
        bench.iter(|| {
            let stream = sender.next_stream();
            (0..64).map(|index| stream.gap(index)).sum::<u64>()
        });
    });
}

criterion_group!(benches, estimate);
criterion_main!(benches);

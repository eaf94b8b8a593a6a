//! The cost of passive estimation per ACK, with the segments that it acknowledges.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use headway_estimate::sabes::{Flags, Form, Segment, Settings, Transfer, Way, Windows};
use headway_units::{Duration, Instant};

const MSS: u32 = 1_448;
/// ACKs in an iteration: a second of 100 Mb/s.
const ACKS: u64 = 4_065;
/// Segments in flight.
const FLIGHT: u64 = 200;

fn segment(way: Way, us: u64) -> Segment {
    Segment {
        at: Instant::from_ns(us * 1_000),
        way,
        sequence: 1,
        acknowledgement: Some(1),
        payload: 0,
        headers: 52,
        window: 60_000,
        flags: Flags::default(),
        window_scale: None,
        mss: None,
        cut: false,
        sack: false,
        timestamps: None,
    }
}

/// Returns the segments and ACKs of a full link, an ACK for two segments; gaps vary as with cross traffic.
fn trace(acks: u64) -> Vec<Segment> {
    let mut trace = Vec::new();
    let mut at = 50_000;
    for ack in 0..acks {
        at += 150 + ack * 7_919 % 190;
        for half in 0..2 {
            let number = 2 * ack + half;
            let sequence = (number * u64::from(MSS)) as u32;
            let sent = at - 25_000 + half * 12;
            trace.push(Segment { sequence, payload: MSS, ..segment(Way::Data, sent) });
        }
        let number = ((2 * ack + 2) * u64::from(MSS)) as u32;
        trace.push(Segment { acknowledgement: Some(number), ..segment(Way::Acks, at) });
    }
    trace.sort_by_key(|segment| segment.at);
    trace
}

fn acks_per_second(criterion: &mut Criterion) {
    let trace = trace(ACKS + FLIGHT);
    let mut group = criterion.benchmark_group("ACKs with two segments each");
    group.throughput(Throughput::Elements(ACKS + FLIGHT));
    let tumbling = Windows::Tumbling(Duration::from_ms(200));
    for (name, form, windows) in [
        ("guarded, tumbling", Form::Guarded, tumbling),
        ("literal, tumbling", Form::Literal, tumbling),
        ("guarded, sliding", Form::Guarded, Windows::Sliding),
        ("literal, sliding", Form::Literal, Windows::Sliding),
    ] {
        let settings = Settings { form, windows, ..Settings::default() };
        group.bench_function(name, |bench| {
            bench.iter(|| {
                let mut transfer = Transfer::new(&settings);
                for segment in &trace {
                    black_box(transfer.observe(black_box(segment)));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, acks_per_second);
criterion_main!(benches);

//! The cost of a packet at an explicit router, under each law.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use headway_arithmetic::explicit::{Config, ExplicitQueue, Format, Header, Law, VERSION_RCP, VERSION_XCP};
use headway_core::explicit::{decode, encode};

/// 10 Gb/s in B/s.
const CAPACITY: u64 = 1_250_000_000;

/// A packet of a sender with an RTT of 100 ms.
fn header(law: Law) -> Header {
    let version = if law.is_rate() { VERSION_RCP } else { VERSION_XCP };
    Header { rtt: 26_843_546, x: 3_221, feedback: 0x7fff_ffff, ..Header::new(version, Format::Standard) }
}

/// Returns a queue in the middle of its work.
fn queue(law: Law) -> ExplicitQueue {
    let mut queue = ExplicitQueue::new(&Config::new(law, CAPACITY, CAPACITY), 0, 0).expect("in range");
    for _ in 0..100 {
        (0..1000).for_each(|_| _ = queue.arrive(Some(&header(law)), 1500));
        let due = queue.due();
        queue.run_timer(9000, 6, due);
    }
    queue
}

fn packets(criterion: &mut Criterion) {
    for law in Law::ALL {
        let (mut queue, packet) = (queue(law), header(law));
        criterion.bench_function(&format!("departure, {law:?}"), |bench| {
            bench.iter(|| {
                let mut header = black_box(packet);
                queue.depart(Some(&mut header), 1500, 9000, 6);
                header.feedback
            });
        });
    }
    let (mut queue, packet) = (queue(Law::Xcp), header(Law::Xcp));
    criterion.bench_function("arrival", |bench| {
        bench.iter(|| queue.arrive(Some(black_box(&packet)), 1500));
    });
    let bytes = encode(&packet);
    criterion.bench_function("decode and encode a header", |bench| {
        bench.iter(|| decode(black_box(&bytes)).map(|header| encode(&header)));
    });
}

fn intervals(criterion: &mut Criterion) {
    for law in Law::ALL {
        let (mut queue, packet) = (queue(law), header(law));
        criterion.bench_function(&format!("measurement or control interval, {law:?}"), |bench| {
            bench.iter(|| {
                queue.arrive(Some(&packet), 1500);
                let due = queue.due();
                queue.run_timer(black_box(9000), 6, due)
            });
        });
    }
}

criterion_group!(benches, packets, intervals);
criterion_main!(benches);

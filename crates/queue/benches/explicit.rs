//! The cost of a packet at an explicit router, under each law.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use headway_arithmetic::explicit::{Config, ExplicitQueue, Format, Header, Law, VERSION_RCP, VERSION_XCP};
use headway_queue::explicit::{decode, encode};
use headway_queue::{Backlog, ClassesConfig, Discipline, ExplicitConfig, Packet, Queue, QueueSpec};
use headway_units::{Bytes, Duration, Instant, Rate};

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

/// A packet through a whole discipline of 10 Gb/s with timers, and where there are classes, the
/// choice of the next one.
fn disciplines(criterion: &mut Criterion) {
    let rate = Rate::from_bps(10_000_000_000);
    let wire = Bytes::new(1538);
    let backlog =
        Backlog { bytes: wire * 6, packets: 6, idle: Duration::ZERO, delay: rate.time_for(wire * 6) };
    let specs = [
        ("xcp", QueueSpec::Xcp(ExplicitConfig::default()), Law::Xcp),
        ("rcp", QueueSpec::Rcp(ExplicitConfig::default()), Law::Rcp),
        ("classes", QueueSpec::Classes(ClassesConfig::default()), Law::Xcp),
    ];
    for (name, spec, law) in specs {
        let (mut queue, mut now, packet) = (spec.build(Some(rate), 1), Instant::ZERO, header(law));
        criterion.bench_function(&format!("arrival and departure, {name}"), |bench| {
            bench.iter(|| {
                let mut header = black_box(packet);
                now += rate.time_for(wire);
                let mut packet = Packet { size: wire, ect: false, header: Some(&mut header), flow: None };
                queue.on_arrival(now, &backlog, &packet);
                if let Queue::Classes(classes) = &mut queue {
                    classes.next_class(black_box([Some(wire), None, Some(wire)]));
                }
                queue.on_departure(now, &backlog, backlog.delay, &mut packet);
                header.feedback
            });
        });
    }
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

criterion_group!(benches, packets, disciplines, intervals);
criterion_main!(benches);

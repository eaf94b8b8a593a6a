//! The cost of one stream from record to estimate: 64 packets behind interrupt coalescing.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use headway_core::Gaps;
use headway_core::estimate::{MultiRate, Scratch, Settings};

#[path = "../tests/support/mod.rs"]
mod support;

use support::{Path, random_averages, send};

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

criterion_group!(benches, estimate);
criterion_main!(benches);

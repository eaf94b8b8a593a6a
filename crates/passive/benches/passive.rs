//! CPU time per packet: reading a file, parsing headers, and following connections.
//!
//! `HEADWAY_BIG=1000` also streams a capture of this many MB, and prints packets per CPU-second
//! and the peak of memory.

#[path = "../tests/passive/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::io::{self, Read};
use std::time::Instant;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use headway_capture::{Next, Reader};
use headway_passive::{Options, Tracker, headers};
use support::{Bulk, Pcap};

/// Packets of `connections` transfers of `segments` segments each, interleaved, without their payload.
fn capture(connections: u32, segments: u32) -> Vec<u8> {
    let mut all = Vec::new();
    for k in 0..connections {
        let server = format!("198.51.{}.{}", k >> 8 & 255, k & 255);
        let bulk = Bulk {
            client: ("192.0.2.1", 1_024 + (k % 60_000) as u16),
            server: (&server, 443),
            at: 1_000_000_000 + u64::from(k) * 7_919,
            rtt: 20_000_000,
            gap: 246_080 * u64::from(connections),
            segments,
        };
        all.extend(bulk.packets());
    }
    all.sort_by_key(|(at, _)| *at);
    let mut file = Pcap::new(1);
    all.iter().for_each(|(at, tcp)| file.tcp(*at, tcp));
    file.bytes
}

fn follow(file: impl Read, tracker: &mut Tracker) -> u64 {
    let mut reader = Reader::new(file);
    while let Ok(Next::Packet(packet)) = reader.next() {
        tracker.packet(&packet, None);
    }
    tracker.counts().packets
}

fn benches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("passive");
    for (connections, segments) in [(1, 60_000), (1_000, 60), (50_000, 4)] {
        let file = capture(connections, segments);
        let packets = follow(&file[..], &mut Tracker::new(&Options::default()));
        group.throughput(Throughput::Elements(packets));
        if connections == 1 {
            group.bench_function("read", |bench| {
                bench.iter(|| {
                    let mut reader = Reader::new(black_box(&file[..]));
                    while let Ok(Next::Packet(packet)) = reader.next() {
                        black_box(&packet);
                    }
                });
            });
            group.bench_function("read and parse", |bench| {
                bench.iter(|| {
                    let mut reader = Reader::new(black_box(&file[..]));
                    while let Ok(Next::Packet(packet)) = reader.next() {
                        let _ = black_box(headers::parse(&packet));
                    }
                });
            });
        }
        group.bench_function(format!("follow {connections} connections"), |bench| {
            bench.iter_with_large_drop(|| {
                let mut tracker = Tracker::new(&Options::default());
                follow(black_box(&file[..]), &mut tracker);
                tracker
            });
        });
    }
    group.finish();
    if let Some(megabytes) = std::env::var("HEADWAY_BIG").ok().and_then(|size| size.parse().ok()) {
        big(megabytes);
    }
}

/// Repeats packets as a file of a given size, each time later and with other sequence numbers.
struct Repeated {
    file: Vec<u8>,
    at: usize,
    left: u64,
}

impl Read for Repeated {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let part = &self.file[self.at..];
        let count = part.len().min(out.len()).min(self.left as usize);
        out[..count].copy_from_slice(&part[..count]);
        self.left -= count as u64;
        self.at += count;
        if self.at == self.file.len() {
            // The file header is not repeated; the clock steps back, which costs nothing.
            self.at = 24;
        }
        Ok(count)
    }
}

/// Streams a large capture and prints speed and memory.
fn big(megabytes: u64) {
    let file = capture(1_000, 60);
    let mut tracker = Tracker::new(&Options::default());
    let (clock, cpu) = (Instant::now(), cpu_seconds());
    let packets = follow(Repeated { file, at: 0, left: megabytes << 20 }, &mut tracker);
    let cpu = cpu_seconds() - cpu;
    println!(
        "{megabytes} MB: {packets} packets in {:.2} s, {:.2} million per CPU-second, tables and transfers {} MB, peak {} MB",
        clock.elapsed().as_secs_f64(),
        packets as f64 / cpu / 1e6,
        tracker.memory() >> 20,
        peak_kilobytes() >> 10
    );
}

fn status(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

fn peak_kilobytes() -> u64 {
    status("VmHWM:").unwrap_or(0)
}

/// User and system time of this process.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = text.rsplit(')').next().unwrap_or_default();
    let ticks = |field: usize| after.split_whitespace().nth(field).and_then(|text| text.parse::<f64>().ok());
    (ticks(11).unwrap_or(0.0) + ticks(12).unwrap_or(0.0)) / 100.0
}

criterion_group!(all, benches);
criterion_main!(all);

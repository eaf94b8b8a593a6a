//! Prints what is free on the paths in a capture file, or on an interface for ten seconds:
//! `cargo run --release -p headway-capture --example follow -- FILE|INTERFACE`.
#![allow(clippy::print_stdout, reason = "an example")]

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use headway_capture::{Live, Next, Reader};
use headway_passive::{Options, Tracker};

/// How long an interface is captured on.
const CAPTURE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).ok_or("say a file or an interface")?;
    let mut tracker = Tracker::new(&Options::default());
    if Path::new(&name).is_file() {
        let mut reader = Reader::new(File::open(&name)?);
        loop {
            match reader.next()? {
                Next::Packet(packet) => tracker.packet(&packet, None),
                Next::OddRecord => tracker.odd_record(),
                Next::Pending | Next::End => break,
            }
        }
    } else {
        let mut live = Live::open(&name)?;
        let begun = Instant::now();
        while begun.elapsed() < CAPTURE {
            match live.packet() {
                Some((packet, outgoing)) => tracker.packet(&packet, outgoing),
                None => live.wait(CAPTURE.saturating_sub(begun.elapsed()))?,
            }
        }
        println!("{} packets dropped by the kernel", live.drops());
    }
    tracker.finish();
    for row in tracker.paths() {
        let free = row.known.free.map_or("unknown".to_owned(), |free| {
            format!("{} ({} to {}, {} windows)", free.rate, free.low, free.high, free.windows)
        });
        let limit = row.limit().map_or("-", |limit| limit.name());
        let capacity = row.known.capacity.map_or("-".to_owned(), |found| found.rate.to_string());
        let rtt = row.known.rtt.map_or("-".to_owned(), |rtt| rtt.to_string());
        println!(
            "{} {}: rate {}, RTT {rtt}, capacity {capacity}, free {free}, limited by {limit}; refused {:?}",
            row.key.direction.name(),
            row.key.peer,
            row.known.rate,
            row.known.sums.refused
        );
    }
    println!("{} packets, {} used", tracker.counts().packets, tracker.counts().used);
    Ok(())
}

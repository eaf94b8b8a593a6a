//! Measures how accurately this host paces and timestamps packets, and the cost of an idle server.
//!
//! Server and client run in this process over loopback: `cargo run --release --example loopback`.

use headway_estimate::Schedule;
use headway_net::{ConnectOptions, NetError, Server, ServerConfig, Session, StreamOutcome};
use headway_units::{Bytes, Duration, Rate};
use nix::time::{ClockId, clock_gettime};
use std::net::{IpAddr, Ipv4Addr};

/// Packets in each stream.
const PACKETS: usize = 500;

/// Streams per gap and direction.
const STREAMS: usize = 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bind = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    let server = Server::bind(ServerConfig { bind, port: 0, ..ServerConfig::default() })?;
    let options = ConnectOptions { port: server.port(), ..ConnectOptions::new("127.0.0.1") };
    let handle = server.handle();
    let thread = std::thread::spawn(move || server.run());
    let mut session = Session::connect(&options)?;
    println!("errors in us            sent gap - intended      received gap - sent gap   refused");
    println!("gap    direction        p1     p50     p99       p1     p50     p99      of {STREAMS}");
    for gap_us in [12, 120] {
        for (name, forward) in [("forward", true), ("reverse", false)] {
            measure(&mut session, Duration::from_us(gap_us), name, forward)?;
        }
    }
    idle();
    drop(session);
    handle.stop();
    thread.join().map_err(|_| "the server panicked")??;
    Ok(())
}

/// Sends streams and prints one line of results.
fn measure(session: &mut Session, gap: Duration, name: &str, forward: bool) -> Result<(), NetError> {
    let packet = Bytes::new(1538);
    let average = Rate::of(packet, gap).unwrap_or(Rate::ZERO);
    let schedule = Schedule { packet, gaps: vec![gap; PACKETS - 1], average };
    let (mut sent, mut received, mut refused, mut sources) = (Vec::new(), Vec::new(), 0, None);
    for _ in 0..STREAMS {
        let outcome =
            if forward { session.send_stream(&schedule)? } else { session.receive_stream(&schedule)? };
        refused += u32::from(outcome.refusal.is_some());
        sources = Some((outcome.send_stamps, outcome.receive_stamps));
        collect(&outcome, &mut sent, &mut received);
    }
    let [s1, s50, s99] = percentiles(&mut sent);
    let [r1, r50, r99] = percentiles(&mut received);
    println!(
        "{gap:<6} {name:<10} {s1:8.2}{s50:8.2}{s99:8.2} {r1:8.2}{r50:8.2}{r99:8.2} {refused:8}   {sources:?}"
    );
    Ok(())
}

/// Collects the errors of one stream, in us.
fn collect(outcome: &StreamOutcome, sent: &mut Vec<f64>, received: &mut Vec<f64>) {
    let record = &outcome.record;
    for (pair, intended) in record.arrivals.windows(2).zip(&record.intended) {
        let gap = pair[1].sent - pair[0].sent;
        sent.push((gap - *intended).us());
        if let (Some(before), Some(after)) = (pair[0].received, pair[1].received) {
            received.push(((after - before) - gap).us());
        }
    }
}

fn percentiles(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [0.01, 0.5, 0.99]
        .map(|share| values.get((values.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN))
}

/// Prints the CPU time of the whole process while a session is open but idle.
fn idle() {
    let used = || {
        clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID)
            .map_or(0.0, |time| time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
    };
    const SECONDS: f64 = 5.0;
    let before = used();
    std::thread::sleep(std::time::Duration::from_secs_f64(SECONDS));
    println!("idle with one open session: {:.4} % of one core", (used() - before) / SECONDS * 100.0);
}

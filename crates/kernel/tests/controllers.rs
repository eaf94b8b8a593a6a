//! Controllers in the running kernel: loaded, used by real connections between network
//! namespaces, and unloaded.
//!
//! Where the machine does not allow namespaces or BPF controllers, each test says so and passes.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

#[allow(dead_code, reason = "other tests use all of it")]
mod flood;
#[allow(dead_code, reason = "other tests use all of it")]
mod path;

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use flood::{flood, treat};
use headway_kernel::{Controller, Counters, Error, Loader, LsOptions, Record, available, counters};
use path::{Path, Set, TIMEOUT, V4, V6, close, load, transfer};
use socket2::Socket;

const MEGABYTE: usize = 1 << 20;

/// Returns the name of a socket's controller.
fn controller_of(socket: &Socket) -> String {
    let name = socket.tcp_congestion().unwrap();
    String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
}

#[test]
fn every_controller_carries_data_over_both_protocols() {
    let Some(path) = Path::new() else { return };
    let of_engine = |controller: &Controller| !controller.is_explicit() && *controller != Controller::Rapid;
    for controller in Controller::ALL.into_iter().filter(of_engine) {
        let (loaded, name) = load(Loader::new(controller));
        for server in [V4[1], V6[1]] {
            let (socket, mut peer) = path.connect(server, &name);
            transfer(&socket, &mut peer, 20 * MEGABYTE);
            assert_eq!(controller_of(&socket), name);
            close(&socket, peer);
        }
        let counted = loaded.counters().unwrap();
        assert_eq!((counted.connections, counted.fallbacks_to_reno, counted.marked), (4, 0, 0), "{name}");
    }
}

#[test]
fn connections_outlive_their_controller() {
    let Some(path) = Path::new() else { return };
    let (loaded, name) = load(Loader::new(Controller::LsDctcp));
    let (socket, mut peer) = path.connect(V4[1], &name);
    transfer(&socket, &mut peer, MEGABYTE);
    loaded.unload();
    assert!(!available().unwrap().contains(&name));
    transfer(&socket, &mut peer, 10 * MEGABYTE);
    assert_eq!(controller_of(&socket), name);
    close(&socket, peer);
}

#[test]
fn a_hundred_loads_under_traffic() {
    loads_under_traffic(Controller::LsDctcp, 100);
}

#[test]
fn twenty_loads_of_rapid_under_traffic() {
    loads_under_traffic(Controller::Rapid, 20);
}

/// Loads a controller again and again, each time for one connection, beside a connection of another.
fn loads_under_traffic(controller: Controller, rounds: u32) {
    let Some(path) = Path::new() else { return };
    let name = format!("t{}_{}", std::process::id(), if controller == Controller::Rapid { "r" } else { "c" });
    let (other, other_name) = load(Loader::new(Controller::HwDctcp));
    let (steady, mut steady_peer) = path.connect(V4[1], &other_name);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                transfer(&steady, &mut steady_peer, MEGABYTE);
            }
        });
        let _done = Set(&done);
        for round in 0..rounds {
            let loaded = Loader::new(controller).name(&name).load().unwrap();
            let (socket, mut peer) = path.connect(V4[1], &name);
            transfer(&socket, &mut peer, 100_000);
            // In half of the rounds the connection closes before its controller is unloaded, in half after.
            if round % 2 == 0 {
                loaded.unload();
            }
        }
    });
    assert!(!available().unwrap().contains(&name));
    drop(other);
}

#[test]
fn a_name_is_taken_once() {
    let Some(_path) = Path::new() else { return };
    let (_loaded, name) = load(Loader::new(Controller::HwReno));
    let second = Loader::new(Controller::LsReno).name(&name).load();
    assert!(matches!(second, Err(Error::NameTaken(taken, _)) if taken == name));
    for bad in ["", "a-b", "sixteen_letters_"] {
        assert!(matches!(Loader::new(Controller::LsReno).name(bad).load(), Err(Error::BadName(_))));
    }
}

#[test]
fn without_ecn_a_connection_gets_reno() {
    let Some(path) = Path::new() else { return };
    let (loaded, name) = load(Loader::new(Controller::LsDctcp));
    path.server.set_ecn("0");
    let (socket, mut peer) = path.connect_to(V4[1], &name, "reno");
    transfer(&socket, &mut peer, MEGABYTE);
    assert_eq!(controller_of(&socket), "reno");
    let counted = loaded.counters().unwrap();
    assert_eq!((counted.connections, counted.fallbacks_to_reno), (0, 1), "{counted:?}");
}

/// The last of two seconds over a link that marks everything.
struct Saturated {
    records: Vec<Record>,
    /// Bytes that arrived in that second.
    bytes: usize,
}

/// Sends for two seconds over a link that marks everything; without `to_the_end` it stops marking
/// for the last second.
fn saturate(path: &Path, loader: Loader, to_the_end: bool) -> Saturated {
    path.server.run(|| treat("mark"));
    let (loaded, name) = load(loader.telemetry(true));
    let ends = [path.connect(V4[1], &name)];
    let start = Instant::now();
    let is_late = || start.elapsed() > Duration::from_secs(1);
    let mut records = Vec::new();
    let bytes = AtomicUsize::new(0);
    let count = |_, read| {
        bytes.fetch_add(if is_late() { read } else { 0 }, Ordering::Relaxed);
    };
    flood(&ends, count, || {
        let mut marking = true;
        while start.elapsed() < Duration::from_secs(2) {
            if is_late() && marking && !to_the_end {
                path.server.run(leave_alone);
                marking = false;
            }
            loaded
                .poll(Duration::from_millis(50), |record| {
                    if is_late() {
                        records.push(record)
                    }
                })
                .unwrap();
        }
    });
    let counted: Counters = counters(loaded.counters_map().unwrap()).unwrap();
    assert!(counted.mark_cuts > 10 && counted.marked > 10, "{counted:?}");
    // The server has the controller, too, but its segments carry no data, so only the handshake
    // of it is acknowledged.
    records.retain(|record| record.acked > 0);
    assert!(!records.is_empty());
    Saturated { records, bytes: bytes.into_inner() }
}

/// Removes the program from the link again.
fn leave_alone() {
    let status = Command::new("tc").args(["qdisc", "del", "dev", "eth0", "clsact"]).status().unwrap();
    assert!(status.success());
}

/// Returns the mean window in bytes.
fn mean_window(records: &[Record]) -> f64 {
    records.iter().map(|record| record.window as f64 / 512.0).sum::<f64>() / records.len() as f64
}

#[test]
fn marks_push_the_window_below_a_segment_and_pace_it() {
    let Some(path) = Path::new() else { return };
    for controller in [Controller::LsDctcp, Controller::LsReno] {
        let options = LsOptions { scale: LsOptions::SCALE_ONE / 128, ..LsOptions::default() };
        let loader = Loader::new(controller).options(options);
        let Saturated { records, bytes } = saturate(&path, loader, true);
        for record in &records {
            assert_eq!((record.submss, record.cwnd), (1, 2));
            // W / RTT, apart from rounding the gap to nanoseconds and the rate to bytes.
            let rate = record.window as f64 / 512.0 / (record.rtt_pace as f64 / 1e9);
            assert!((record.pacing_rate as f64 - rate).abs() <= 1.0 + rate * 1e-3, "{record:?}");
        }
        // The equilibrium of increase and halving when every ACK is marked (ls-aimd 2.19), where S = W / 2.
        let add = f64::from(records[0].add) / 512.0;
        let least = (2.0 * add / 128.0 * 1448.0).sqrt();
        let window = mean_window(&records);
        assert!((window / least - 1.0).abs() < 0.3, "{window} B and {least} B");
        // Goodput follows the pacing rate. A busy machine sends late, and the kernel makes up for only part
        // of that: 0.3 was seen.
        let paced =
            records.iter().map(|record| record.pacing_rate as f64).sum::<f64>() / records.len() as f64;
        assert!((0.1..1.6).contains(&(bytes as f64 / paced)), "{bytes} B arrived at a pace of {paced} B/s");
    }
}

#[test]
fn the_baselines_stop_at_two_segments() {
    let Some(path) = Path::new() else { return };
    for controller in [Controller::HwDctcp, Controller::HwReno] {
        let Saturated { records, .. } = saturate(&path, Loader::new(controller), true);
        let low = records.iter().filter(|record| record.cwnd <= 3).count();
        assert!(low * 10 > records.len() * 9, "{low} of {}", records.len());
        assert!(
            records
                .iter()
                .all(|record| record.submss == 0 && record.pacing_rate == u64::MAX && record.cwnd >= 2)
        );
    }
}

#[test]
fn a_receiver_that_waits_does_not_slow_the_pace() {
    let Some(path) = Path::new() else { return };
    // Segments leave about 1448 round trips apart, which is longer than the delayed-ACK timer of 40 ms.
    let options = LsOptions { scale: 1, floor: 1, ..LsOptions::default() };
    let loader = Loader::new(Controller::LsDctcp).options(options);
    let Saturated { records, .. } = saturate(&path, loader, false);
    let unmarked = records.iter().filter(|record| record.marked == 0).count();
    assert!(unmarked >= 4, "{unmarked} of {} acknowledgements", records.len());
    for record in records {
        assert!(record.rtt_pace < 20_000_000, "{record:?}");
        assert_eq!(record.window, 512);
    }
}

/// Byte sequence numbers wrap: 2 GiB after a reduction it must not look like one in the future.
#[test]
fn marks_are_heard_gigabytes_after_the_last_one() {
    let Some(path) = Path::new() else { return };
    for controller in [Controller::LsDctcp, Controller::HwDctcp] {
        let (loaded, name) = load(Loader::new(controller));
        let (socket, mut peer) = path.connect(V4[1], &name);
        let mut cuts = Vec::new();
        for unmarked in [2200 * MEGABYTE, 0] {
            path.server.run(|| treat("mark"));
            transfer(&socket, &mut peer, MEGABYTE / 4);
            path.server.run(leave_alone);
            cuts.push(loaded.counters().unwrap().mark_cuts);
            transfer(&socket, &mut peer, unmarked);
        }
        assert!(0 < cuts[0] && cuts[0] < cuts[1], "{name}: {cuts:?}");
        close(&socket, peer);
    }
}

/// RFC 8257 3.5: a loss halves the window even if a mark of the same flight has already cut it a little.
#[test]
fn a_loss_counts_after_a_mark_of_the_same_flight() {
    let Some(path) = Path::new() else { return };
    path.server.run(|| treat("mark_then_drop"));
    for controller in [Controller::LsDctcp, Controller::HwDctcp] {
        let (loaded, name) = load(Loader::new(controller));
        let (socket, mut peer) = path.connect(V4[1], &name);
        transfer(&socket, &mut peer, 100 * MEGABYTE);
        let counted = loaded.counters().unwrap();
        assert!(counted.mark_cuts >= 10, "{counted:?}");
        assert!(counted.loss_cuts * 2 > counted.mark_cuts, "{counted:?}");
        close(&socket, peer);
    }
}

/// A window below a segment stays as it is after a timeout; one segment, as in RFC 5681, would
/// be many times larger.
#[test]
fn a_timeout_does_not_raise_a_window_below_a_segment() {
    let Some(path) = Path::new() else { return };
    let options = LsOptions { scale: LsOptions::SCALE_ONE / 128, ..LsOptions::default() };
    let loader = Loader::new(Controller::LsDctcp).options(options).telemetry(true);
    let (loaded, name) = load(loader);
    let ends = [path.connect(V4[1], &name)];
    // Polls until `done` or until TIMEOUT has passed.
    let until = |done: &mut dyn FnMut(Option<Record>) -> bool| {
        let start = Instant::now();
        let mut is_done = false;
        while !is_done && start.elapsed() < TIMEOUT {
            let take = |record: Record| is_done |= record.acked > 0 && done(Some(record));
            loaded.poll(Duration::from_millis(10), take).unwrap();
            is_done |= done(None);
        }
    };
    let mut after = Vec::new();
    flood(
        &ends,
        |_, _| {},
        || {
            path.server.run(|| treat("mark"));
            until(&mut |record| record.is_some_and(|record| record.window < 300 << 9));
            path.server.run(leave_alone);
            path.server.run(|| treat("drop"));
            until(&mut |_| loaded.counters().unwrap().timeouts > 0);
            path.server.run(leave_alone);
            path.server.run(|| treat("mark"));
            until(&mut |record| {
                after.extend(record.map(|record| record.window >> 9));
                after.len() > 4
            });
        },
    );
    assert!(after.len() > 4 && loaded.counters().unwrap().timeouts > 0, "{after:?}");
    assert!(after.iter().all(|&window| window < 724), "{after:?} B");
}

/// A good total could hide a single stalled connection.
#[test]
fn the_slowest_of_many_goes_on() {
    let Some(path) = Path::new() else { return };
    path.server.run(|| treat("mark"));
    // As on paths with a long RTT: pacing rate and RTT ask for less than a segment per buffer.
    path.client.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_tso_rtt_log", "0").unwrap());
    let options = LsOptions { scale: LsOptions::SCALE_ONE / 128, ..LsOptions::default() };
    for controller in [Controller::LsDctcp, Controller::LsReno] {
        let (_loaded, name) = load(Loader::new(controller).options(options));
        let ends: Vec<_> = (0..50).map(|_| path.connect(V4[1], &name)).collect();
        let arrived: Vec<_> = ends.iter().map(|_| AtomicUsize::new(0)).collect();
        let count = |index: usize, read| {
            arrived[index].fetch_add(read, Ordering::Relaxed);
        };
        let mut slowest = Vec::new();
        flood(&ends, count, || {
            for _ in 0..2 {
                let begun = Instant::now();
                let least = || arrived.iter().map(|bytes| bytes.load(Ordering::Relaxed)).min();
                while begun.elapsed() < Duration::from_secs(1)
                    || least() == Some(0) && begun.elapsed() < TIMEOUT
                {
                    thread::sleep(Duration::from_millis(20));
                }
                slowest.push(arrived.iter().map(|bytes| bytes.swap(0, Ordering::Relaxed)).min());
            }
        });
        assert!(slowest.iter().all(|&bytes| bytes > Some(0)), "{name}: {slowest:?} B");
    }
}

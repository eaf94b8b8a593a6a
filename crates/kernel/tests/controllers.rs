//! Controllers in this kernel: loaded, used by real connections between network namespaces, and taken off.
//!
//! Where the machine allows neither namespaces nor controllers each test says so and passes.
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod path;

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use headway_kernel::{Controller, Error, Loader, LsOptions, Record, available, counters};
use libbpf_rs::{ObjectBuilder, TC_INGRESS, TcHookBuilder};
use path::{Path, V4, V6, close, load, transfer};
use socket2::Socket;

const MEGABYTE: usize = 1 << 20;

/// The name of the controller a socket has.
fn controller_of(socket: &Socket) -> String {
    let name = socket.tcp_congestion().unwrap();
    String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
}

#[test]
fn every_controller_carries_data_over_both_protocols() {
    let Some(path) = Path::new() else { return };
    for controller in Controller::ALL {
        let (loaded, name) = load(Loader::new(controller), controller.name());
        for server in [V4[1], V6[1]] {
            let (socket, mut peer) = path.connect(server, &name);
            transfer(&socket, &mut peer, 20 * MEGABYTE);
            assert_eq!(controller_of(&socket), name);
            close(&socket, peer);
        }
        let counted = loaded.counters().unwrap();
        assert_eq!((counted.connections, counted.without_ecn, counted.marked), (4, 0, 0), "{name}");
    }
}

#[test]
fn connections_outlive_their_controller() {
    let Some(path) = Path::new() else { return };
    let (loaded, name) = load(Loader::new(Controller::LsDctcp), "outlive");
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
    let Some(path) = Path::new() else { return };
    let name = format!("t{}_cycles", std::process::id());
    let (other, other_name) = load(Loader::new(Controller::HwDctcp), "steady");
    let (steady, mut steady_peer) = path.connect(V4[1], &other_name);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                transfer(&steady, &mut steady_peer, MEGABYTE);
            }
        });
        for round in 0..100 {
            let loaded = Loader::new(Controller::LsDctcp).name(&name).load().unwrap();
            let (socket, mut peer) = path.connect(V4[1], &name);
            transfer(&socket, &mut peer, 100_000);
            // Sometimes the connection goes first, sometimes its controller.
            if round % 2 == 0 {
                loaded.unload();
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(!available().unwrap().contains(&name));
    drop(other);
}

#[test]
fn a_name_is_taken_once() {
    let Some(_path) = Path::new() else { return };
    let (_loaded, name) = load(Loader::new(Controller::HwReno), "once");
    let second = Loader::new(Controller::LsReno).name(&name).load();
    assert!(matches!(second, Err(Error::NameTaken(taken, _)) if taken == name));
    for bad in ["", "a-b", "sixteen_letters_"] {
        assert!(matches!(Loader::new(Controller::LsReno).name(bad).load(), Err(Error::BadName(_))));
    }
}

#[test]
fn without_ecn_a_connection_gets_reno() {
    let Some(path) = Path::new() else { return };
    let (loaded, name) = load(Loader::new(Controller::LsDctcp), "no_ecn");
    path.server.set_ecn("0");
    let (socket, mut peer) = path.connect_to(V4[1], &name, "reno");
    transfer(&socket, &mut peer, MEGABYTE);
    assert_eq!(controller_of(&socket), "reno");
    let counted = loaded.counters().unwrap();
    assert_eq!((counted.connections, counted.without_ecn), (0, 1), "{counted:?}");
}

/// What the last of two seconds was like, over a link that marks everything.
struct Saturated {
    records: Vec<Record>,
    /// Bytes that arrived in that second.
    bytes: usize,
}

/// Sends for two seconds over a link that marks everything, or nothing any more in the last.
fn saturate(path: &Path, loader: Loader, what: &str, to_the_end: bool) -> Saturated {
    path.server.run(mark_everything);
    let (loaded, name) = load(loader.telemetry(true), what);
    let (socket, mut peer) = path.connect(V4[1], &name);
    let end = peer.try_clone().unwrap();
    let start = Instant::now();
    let is_late = || start.elapsed() > Duration::from_secs(1);
    let mut records = Vec::new();
    let bytes = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| while (&socket).write(&[0; 16 << 10]).is_ok() {});
        scope.spawn(|| {
            let mut block = [0; 16 << 10];
            while let Ok(read @ 1..) = peer.read(&mut block) {
                bytes.fetch_add(if is_late() { read } else { 0 }, Ordering::Relaxed);
            }
        });
        let mut marking = true;
        while start.elapsed() < Duration::from_secs(2) {
            if is_late() && marking && !to_the_end {
                path.server.run(unmark);
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
        // Ends both threads, without waiting for what was written.
        socket.shutdown(Shutdown::Both).unwrap();
        end.shutdown(Shutdown::Both).unwrap();
    });
    let counted = counters(loaded.counters_map().unwrap()).unwrap();
    assert!(counted.mark_cuts > 10 && counted.marked > 10, "{counted:?}");
    // The server has the controller, too, and acknowledges nothing but the handshake.
    records.retain(|record| record.acked > 0);
    assert!(!records.is_empty());
    Saturated { records, bytes: bytes.into_inner() }
}

/// Attaches the marking to the interface of this host.
fn mark_everything() {
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/mark.bpf.o"));
    let object = ObjectBuilder::default().open_memory(object).unwrap().load().unwrap();
    let program = object.progs().next().unwrap();
    let interface = nix::net::if_::if_nametoindex("eth0").unwrap();
    let mut hook = TcHookBuilder::new(program.as_fd()).ifindex(interface as i32).hook(TC_INGRESS);
    hook.create().unwrap().attach().unwrap();
}

/// Takes the marking off again.
fn unmark() {
    let status = Command::new("tc").args(["qdisc", "del", "dev", "eth0", "clsact"]).status().unwrap();
    assert!(status.success());
}

/// The mean of the windows, bytes.
fn mean_window(records: &[Record]) -> f64 {
    records.iter().map(|record| record.window as f64 / 512.0).sum::<f64>() / records.len() as f64
}

#[test]
fn marks_push_the_window_below_a_segment_and_pace_it() {
    let Some(path) = Path::new() else { return };
    for controller in [Controller::LsDctcp, Controller::LsReno] {
        let options = LsOptions { scale: LsOptions::SCALE_ONE / 128, ..LsOptions::default() };
        let loader = Loader::new(controller).options(options);
        let Saturated { records, bytes } = saturate(&path, loader, controller.name(), true);
        for record in &records {
            assert_eq!((record.submss, record.cwnd), (1, 2));
            // W / RTT, within what rounding the gap to nanoseconds and the rate to bytes makes of it.
            let rate = record.window as f64 / 512.0 / (record.rtt_pace as f64 / 1e9);
            assert!((record.pacing_rate as f64 - rate).abs() <= 1.0 + rate * 1e-3, "{record:?}");
        }
        // Where increase and halving meet when every acknowledgement is marked (ls-aimd 2.19); add is that of S = W / 2.
        let add = f64::from(records[0].add) / 512.0;
        let least = (2.0 * add / 128.0 * 1448.0).sqrt();
        let window = mean_window(&records);
        assert!((window / least - 1.0).abs() < 0.3, "{window} B and {least} B");
        // What arrives is what is paced; a busy machine sends later, which the kernel makes up for in part only.
        let paced =
            records.iter().map(|record| record.pacing_rate as f64).sum::<f64>() / records.len() as f64;
        assert!((0.4..1.6).contains(&(bytes as f64 / paced)), "{bytes} B arrived at a pace of {paced} B/s");
    }
}

#[test]
fn the_baselines_stop_at_two_segments() {
    let Some(path) = Path::new() else { return };
    for controller in [Controller::HwDctcp, Controller::HwReno] {
        let Saturated { records, .. } = saturate(&path, Loader::new(controller), controller.name(), true);
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
    // Segments leave about 1448 round trips apart, and longer than the 40 ms for which a receiver waits for the second.
    let options = LsOptions { scale: 1, floor: 1, ..LsOptions::default() };
    let loader = Loader::new(Controller::LsDctcp).options(options);
    let Saturated { records, .. } = saturate(&path, loader, "wait", false);
    let unmarked = records.iter().filter(|record| record.marked == 0).count();
    assert!(unmarked >= 4, "{unmarked} of {} acknowledgements", records.len());
    for record in records {
        assert!(record.rtt_pace < 20_000_000, "{record:?}");
        assert_eq!(record.window, 512);
    }
}

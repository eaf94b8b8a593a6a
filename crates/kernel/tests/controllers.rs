//! Controllers in this kernel: loaded, used by real connections between network namespaces, and taken off.
//!
//! Where the machine allows neither namespaces nor controllers each test says so and passes.
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod path;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use headway_kernel::{Controller, Error, Loader, LsOptions, Record, available, counters};
use libbpf_rs::{ObjectBuilder, TC_INGRESS, TcHookBuilder};
use path::{Path, V4, V6, close, controller_of, load, transfer};
use std::os::fd::AsFd as _;

const MEGABYTE: usize = 1 << 20;

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
        let counted = counters(loaded.counters_map().unwrap()).unwrap();
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
    let counted = counters(loaded.counters_map().unwrap()).unwrap();
    assert_eq!((counted.connections, counted.without_ecn), (0, 1), "{counted:?}");
}

/// Sends for two seconds over a link that marks everything; returns the last second's records and bytes.
fn saturate(path: &Path, loader: Loader, what: &str) -> (Vec<Record>, usize) {
    path.server.run(|| {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/mark.bpf.o"));
        let object = ObjectBuilder::default().open_memory(object).unwrap().load().unwrap();
        let program = object.progs().next().unwrap();
        let interface = nix::net::if_::if_nametoindex("eth0").unwrap();
        let mut hook = TcHookBuilder::new(program.as_fd()).ifindex(interface as i32).hook(TC_INGRESS);
        hook.create().unwrap().attach().unwrap();
    });
    let (loaded, name) = load(loader.telemetry(true), what);
    let (socket, mut peer) = path.connect(V4[1], &name);
    let done = AtomicBool::new(false);
    let start = Instant::now();
    let mut records = Vec::new();
    let mut bytes = 0;
    thread::scope(|scope| {
        let sender = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                transfer(&socket, &mut peer, 5_000);
                if start.elapsed() > Duration::from_secs(1) {
                    bytes += 5_000;
                }
            }
        });
        while start.elapsed() < Duration::from_secs(2) {
            let late = start.elapsed() > Duration::from_secs(1);
            loaded
                .poll(Duration::from_millis(50), |record| {
                    if late {
                        records.push(record)
                    }
                })
                .unwrap();
        }
        done.store(true, Ordering::Relaxed);
        sender.join().unwrap();
    });
    let counted = counters(loaded.counters_map().unwrap()).unwrap();
    assert!(counted.mark_cuts > 10 && counted.marked > 10, "{counted:?}");
    (records, bytes)
}

#[test]
fn marks_push_the_window_below_a_segment_and_pace_it() {
    let Some(path) = Path::new() else { return };
    let options = LsOptions { scale: LsOptions::SCALE_ONE / 128, ..LsOptions::default() };
    let (records, bytes) = saturate(&path, Loader::new(Controller::LsDctcp).options(options), "submss");
    assert!(!records.is_empty());
    for record in &records {
        assert_eq!((record.submss, record.cwnd), (1, 2));
        // W / RTT, within what rounding of the gap to nanoseconds and of the rate to bytes makes of it.
        let rate = record.window as f64 / 512.0 / (record.rtt_pace as f64 / 1e9);
        assert!((record.pacing_rate as f64 - rate).abs() <= 1.0 + rate * 1e-3, "{record:?}");
    }
    println!("{} records, {bytes} B/s, {:?}", records.len(), records.last());
}

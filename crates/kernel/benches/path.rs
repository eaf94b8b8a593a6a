//! The cost of the controllers: goodput on a plain wire compared with the kernel's CUBIC, and CPU
//! time per ACK; for XCP and RCP the CPU time of both hosts per segment, compared with the kernel's
//! Reno in single segments.
//!
//! `cargo bench -p headway-kernel`, as root. Controllers take turns, so that load on the machine affects all
//! of them alike.
#![allow(clippy::unwrap_used, reason = "a bench that cannot run says why by failing")]

#[path = "../tests/path/mod.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod path;

use std::sync::Arc;
use std::time::Instant;

use headway_kernel::{Controller, CpuTime, EndOptions, Loader, cpu_time, enable_timing};
use headway_units::statistics::median;
use nix::time::{ClockId, clock_gettime};
use path::{Host, Path, V4, close, limit_pace, load, transfer};

const ROUNDS: usize = 8;
const GIGABYTE: usize = 1 << 30;
/// A send buffer this small keeps windows small and ACKs frequent.
const SMALL_BUFFER: usize = 30_000;

fn main() {
    let Some(path) = Path::new() else { return };
    let loaded: Vec<_> = Controller::ALL
        .into_iter()
        .filter(|controller| !controller.is_explicit())
        .map(|controller| (controller, load(Loader::new(controller))))
        .collect();
    let mut names = vec![("cubic", "cubic".to_owned())];
    names.extend(loaded.iter().map(|(controller, (_, name))| (controller.name(), name.clone())));
    let mut goodputs = vec![Vec::new(); names.len()];
    for _ in 0..ROUNDS {
        for ((_, name), goodputs) in names.iter().zip(&mut goodputs) {
            goodputs.push(goodput(&path, name));
        }
    }
    let stock = median(goodputs[0].clone()).unwrap();
    for ((name, _), goodputs) in names.iter().zip(goodputs) {
        let goodput = median(goodputs).unwrap();
        println!("{name:9} {goodput:6.1} Gb/s, {:.2} of cubic", goodput / stock);
    }
    for (controller, (loaded, name)) in &loaded {
        let calls = acknowledgements(&path, name, &loaded.programs().unwrap());
        println!("{:9} {:6.0} ns an acknowledgement", controller.name(), median(calls).unwrap());
    }
    ends(&path);
}

/// Payload of a full segment with the congestion header: 1500 bytes less headers, with TCP's timestamps.
const SEGMENT: usize = 1428;
/// Bytes of one transfer that is paced: half a second at 500 Mb/s.
const PACED: usize = 32 << 20;
/// What senders of XCP and RCP ask for, in b/s, and at which Reno is paced. XCP cannot say more than some
/// Gb/s at an RTT of microseconds and would become Reno.
const PACE: u64 = 500_000_000;

/// Prints the CPU time of both hosts per segment, and its ratio to Reno in single segments. All take turns.
fn ends(path: &Path) {
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..ROUNDS {
        times[0].push(per_segment(path, "reno"));
        set_segments(path, 1);
        times[1].push(per_segment(path, "reno"));
        set_segments(path, 65_535);
        for (controller, times) in [Controller::Xcp, Controller::Rcp].into_iter().zip(&mut times[2..]) {
            times.push(with_headers(path, controller));
        }
    }
    let names = ["reno", "reno in single segments", "xcp", "rcp"];
    let single = median(times[1].clone()).unwrap();
    for (name, mut times) in names.into_iter().zip(times) {
        times.sort_by(f64::total_cmp);
        let (least, middle, most) = (times[0], times[times.len() / 2], times[times.len() - 1]);
        println!(
            "{name:23} {middle:6.0} ns a segment ({least:.0} to {most:.0}), {:.2} of single segments",
            middle / single
        );
    }
}

fn set_segments(path: &Path, segments: u32) {
    for host in [&path.client, &path.server] {
        host.ip(format!("link set eth0 gso_max_segs {segments}"));
    }
}

/// Returns the CPU time of a transfer per segment with the header of a controller.
fn with_headers(path: &Path, controller: Controller) -> f64 {
    let options = EndOptions { demand: Some(PACE), ..EndOptions::default() };
    let (loaded, name) = load(Loader::new(controller).end_options(options));
    let loaded = Arc::new(loaded);
    let attach = |host: &Host| {
        let loaded = Arc::clone(&loaded);
        host.run(move || loaded.attach("eth0")).unwrap()
    };
    let _attached = [&path.client, &path.server].map(attach);
    let time = per_segment(path, &name);
    // Otherwise this would be the time of something else.
    let carried = loaded.end_counters().unwrap().sent;
    assert!(carried as usize > PACED / SEGMENT * 9 / 10, "{name}: {carried} packets with a header");
    time
}

/// Returns the CPU time of this process, which is both hosts, per segment of a transfer, in ns.
fn per_segment(path: &Path, name: &str) -> f64 {
    let (socket, mut peer) = path.connect_to(V4[1], name, "reno");
    limit_pace(&socket, PACE / 8);
    let before = cpu();
    transfer(&socket, &mut peer, PACED);
    let spent = cpu() - before;
    close(&socket, peer);
    spent / (PACED / SEGMENT) as f64
}

/// Returns the CPU time of this process in ns.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).unwrap();
    time.tv_sec() as f64 * 1e9 + time.tv_nsec() as f64
}

/// Returns the goodput of a one-gigabyte transfer in Gb/s.
fn goodput(path: &Path, name: &str) -> f64 {
    let (socket, mut peer) = path.connect(V4[1], name);
    let start = Instant::now();
    transfer(&socket, &mut peer, GIGABYTE);
    let seconds = start.elapsed().as_secs_f64();
    close(&socket, peer);
    8.0 * GIGABYTE as f64 / seconds / 1e9
}

/// Returns the mean time to process an ACK in ns, one value per round.
fn acknowledgements(path: &Path, name: &str, programs: &[u32]) -> Vec<f64> {
    let _timing = enable_timing().unwrap();
    let spent = || cpu_time(programs).into_iter().find(|time| time.program == "hw_cong_control").unwrap();
    let round = |_| {
        let (socket, mut peer) = path.connect(V4[1], name);
        socket.set_send_buffer_size(SMALL_BUFFER).unwrap();
        let CpuTime { calls, nanoseconds, .. } = spent();
        transfer(&socket, &mut peer, GIGABYTE / 4);
        let now = spent();
        close(&socket, peer);
        (now.nanoseconds - nanoseconds) as f64 / (now.calls - calls).max(1) as f64
    };
    (0..ROUNDS).map(round).collect()
}

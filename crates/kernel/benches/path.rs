//! The cost of the controllers: goodput on a plain wire compared with the kernel's CUBIC, and CPU time per ACK.
//!
//! `cargo bench -p headway-kernel`, as root. Controllers take turns, so that load on the machine affects all
//! of them alike.
#![allow(clippy::unwrap_used, reason = "a bench that cannot run says why by failing")]

#[path = "../tests/path/mod.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod path;

use std::time::Instant;

use headway_kernel::{Controller, CpuTime, Loader, cpu_time, enable_timing};
use path::{Path, V4, close, load, transfer};

const ROUNDS: usize = 8;
const GIGABYTE: usize = 1 << 30;
/// A send buffer this small keeps windows small and ACKs frequent.
const SMALL_BUFFER: usize = 30_000;

fn main() {
    let Some(path) = Path::new() else { return };
    let loaded: Vec<_> = Controller::ALL
        .into_iter()
        .filter(|controller| !controller.is_explicit())
        .map(|controller| (controller, load(Loader::new(controller), controller.name())))
        .collect();
    let mut names = vec![("cubic", "cubic".to_owned())];
    names.extend(loaded.iter().map(|(controller, (_, name))| (controller.name(), name.clone())));
    let mut goodputs = vec![Vec::new(); names.len()];
    for _ in 0..ROUNDS {
        for ((_, name), goodputs) in names.iter().zip(&mut goodputs) {
            goodputs.push(goodput(&path, name));
        }
    }
    let stock = median(goodputs[0].clone());
    for ((name, _), goodputs) in names.iter().zip(goodputs) {
        let goodput = median(goodputs);
        println!("{name:9} {goodput:6.1} Gb/s, {:.2} of cubic", goodput / stock);
    }
    for (controller, (loaded, name)) in &loaded {
        let calls = acknowledgements(&path, name, &loaded.programs().unwrap());
        println!("{:9} {:6.0} ns an acknowledgement", controller.name(), median(calls));
    }
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

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

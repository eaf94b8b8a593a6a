//! What TCP Rapid costs per segment, beside the kernel's CUBIC paced at the same rate in single
//! segments (rapid F59).
//!
//! `cargo bench -p headway-kernel --bench rapid`, as root. The timer that paces runs in whatever thread it
//! interrupts, so the CPU time of a process does not tell. Instead, a thread of the lowest priority on each
//! processor counts as fast as it can: what it does not get to count while a transfer lasts is what the
//! transfer takes. Both hosts and both programs are in it, and whatever else the machine does, so controllers
//! take turns; medians count, with quartiles in parentheses.
#![allow(clippy::unwrap_used, reason = "a bench that cannot run says why by failing")]

#[path = "../tests/path/mod.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod path;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use headway_arithmetic::rapid::{Config, Preset};
use headway_kernel::{Controller, Loader, RapidOptions};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use path::{Path, V4, WIRE, close, limit_pace, load, transfer};

const ROUNDS: usize = 21;
/// Rate of the sender's line, in bit/s: at lower ones, what else a virtual machine does is more
/// than a transfer takes.
const LINE: u64 = 200_000_000;
/// What a transfer takes at its line, in seconds.
const SECONDS: u64 = 1;
/// How long the threads that count are measured without a transfer.
const IDLE: Duration = Duration::from_millis(500);
/// Payload of a full segment of 1500 bytes.
const SEGMENT: usize = 1448;
/// A thread counts so far before it looks whether it is to end.
const BATCH: u64 = 1000;

fn main() {
    let Some(path) = Path::new() else { return };
    for host in [&path.client, &path.server] {
        host.ip("link set eth0 gso_max_segs 1".to_owned());
    }
    compare(&path, LINE);
}

fn compare(path: &Path, line: u64) {
    let config = Config::new(Preset::Default, line, WIRE as u32, line);
    let (loaded, name) =
        load(Loader::new(Controller::Rapid).rapid_options(RapidOptions { config, bridges_holes: true }));
    let mut times: [Vec<f64>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (name, times) in ["cubic", &name].into_iter().zip(&mut times) {
            times.push(per_segment(path, name, line));
        }
    }
    let estimated = loaded.rapid_counters().unwrap().estimated;
    let [cubic, rapid] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        (times[ROUNDS / 2], times[ROUNDS / 4], times[ROUNDS * 3 / 4])
    });
    let text = |(median, low, high): (f64, f64, f64)| format!("{median:.2} us ({low:.2} to {high:.2})");
    println!(
        "{} Mb/s: cubic {} a segment, rapid {}, {:.2} of cubic; {estimated} estimates",
        line / 1_000_000,
        text(cubic),
        text(rapid),
        rapid.0 / cubic.0
    );
}

/// Returns the CPU time of the whole machine per segment of a transfer, in us.
fn per_segment(path: &Path, name: &str, line: u64) -> f64 {
    // Of the line, what is payload.
    let bytes = line / 8 * SECONDS * SEGMENT as u64 / WIRE;
    let before = counted(|| thread::sleep(IDLE));
    let (socket, mut peer) = path.connect_to(V4[1], name, "reno");
    // CUBIC only: the gaps of Rapid vary around its rate.
    if name == "cubic" {
        limit_pace(&socket, line / 8 * SEGMENT as u64 / WIRE);
    }
    let busy = counted(|| transfer(&socket, &mut peer, bytes as usize));
    close(&socket, peer);
    let after = counted(|| thread::sleep(IDLE));
    let idle = f64::midpoint(before.rate(), after.rate());
    let processors = thread::available_parallelism().unwrap().get() as f64;
    let taken = (1.0 - busy.rate() / idle) * processors * busy.seconds;
    taken * 1e6 / (bytes as f64 / SEGMENT as f64)
}

/// How far the threads counted, and for how long.
struct Counted {
    number: u64,
    seconds: f64,
}

impl Counted {
    fn rate(&self) -> f64 {
        self.number as f64 / self.seconds
    }
}

/// Counts while `work` runs.
fn counted(work: impl FnOnce()) -> Counted {
    let (done, number) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for processor in 0..thread::available_parallelism().unwrap().get() {
            let (done, number) = (&done, &number);
            scope.spawn(move || count(processor, done, number));
        }
        let begin = Instant::now();
        work();
        let seconds = begin.elapsed().as_secs_f64();
        let number = number.load(Ordering::Relaxed);
        done.store(true, Ordering::Relaxed);
        Counted { number, seconds }
    })
}

/// Counts on one processor, when nothing else runs on it.
fn count(processor: usize, done: &AtomicBool, number: &AtomicU64) {
    let mut set = CpuSet::new();
    set.set(processor).unwrap();
    sched_setaffinity(Pid::from_raw(0), &set).unwrap();
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: the kernel reads the parameters.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameters) };
    assert_eq!(result, 0);
    while !done.load(Ordering::Relaxed) {
        for step in 0..BATCH {
            std::hint::black_box(step);
        }
        number.fetch_add(BATCH, Ordering::Relaxed);
    }
}

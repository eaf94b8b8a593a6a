//! A processor that others keep busy, and what this program takes of the machine.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use headway_units::Duration;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;

/// The unit of times in /proc (USER_HZ, the same on all machines).
const TICK: Duration = Duration::from_ms(10);

/// The parent of the kernel's threads, which also do the work of timers and arriving packets.
const KERNEL: u64 = 2;

/// A thread that keeps the last processor busy until it is stopped.
pub(super) struct Burner {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    clock: ClockId,
}

impl Burner {
    pub(super) fn start() -> Result<Burner> {
        let this = Pid::from_raw(0);
        let usable = sched_getaffinity(this)?;
        let last = (0..CpuSet::count()).rfind(|cpu| usable.is_set(*cpu) == Ok(true));
        let mut one = CpuSet::new();
        one.set(last.context("this process may use no processor")?)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let pinned = sched_setaffinity(this, &one).map(|()| own_clock());
            if ready.send(pinned).is_ok() {
                while !stopped.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            }
        });
        let clock = is_ready.recv()?.context("cannot bind a thread to a processor")?;
        Ok(Burner { stop, thread, clock })
    }

    /// Returns the processor time that it has taken.
    fn taken(&self) -> Duration {
        clock_gettime(self.clock).map_or(Duration::ZERO, |time| std::time::Duration::from(time).into())
    }

    pub(super) fn stop(self) {
        self.stop.store(true, Ordering::Relaxed);
        // It cannot panic.
        let _ = self.thread.join();
    }
}

/// Returns the clock of this thread's processor time, for other threads (`MAKE_THREAD_CPUCLOCK` of Linux).
fn own_clock() -> ClockId {
    ClockId::from_raw((!nix::unistd::gettid().as_raw() << 3) | 6)
}

/// Processor times since some moment.
pub(super) struct Meter {
    started: std::time::Instant,
    idle: Duration,
    others: Duration,
    burnt: Duration,
}

/// Shares of one processor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// By this program and by the kernel on its behalf, without the burner.
    pub(super) here: f64,
    /// By other programs.
    pub(super) others: f64,
}

impl Meter {
    pub(super) fn start(burner: Option<&Burner>) -> Result<Meter> {
        let burnt = burner.map_or(Duration::ZERO, Burner::taken);
        Ok(Meter { started: std::time::Instant::now(), idle: idle()?, others: others()?, burnt })
    }

    /// Returns what was taken since the start. What processors do not idle and no other program has is this
    /// one's: timers and arriving packets are counted to nobody.
    pub(super) fn end(&self, burner: Option<&Burner>) -> Result<Taken> {
        let elapsed = self.started.elapsed().as_secs_f64();
        let processors = std::thread::available_parallelism()?.get() as f64;
        let busy = processors * elapsed - (idle()? - self.idle).secs_f64();
        let others = (others()? - self.others).secs_f64();
        let burnt = (burner.map_or(Duration::ZERO, Burner::taken) - self.burnt).secs_f64();
        Ok(Taken { here: (busy - others - burnt) / elapsed, others: others / elapsed })
    }
}

/// Returns for how long processors have been idle, all together.
fn idle() -> Result<Duration> {
    let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
    let all = text.lines().next().unwrap_or_default();
    // User, nice, system, idle, and idle while waiting for a disk.
    let ticks: u64 = numbers(all, 4).take(2).sum();
    Ok(TICK * ticks as i64)
}

/// Returns the processor time of all other programs and of those that they waited for.
fn others() -> Result<Duration> {
    let own = std::process::id().to_string();
    let mut ticks = 0;
    for entry in fs::read_dir("/proc").context("cannot list /proc")?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == own || !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        // One that has ended meanwhile is counted to its parent.
        let text = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // The name in parentheses may contain spaces; the parent is the 2nd and times are the 12th to
        // 15th field after it.
        let fields = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        if numbers(fields, 1).next() != Some(KERNEL) {
            ticks += numbers(fields, 11).take(4).sum::<u64>();
        }
    }
    Ok(TICK * ticks as i64)
}

fn numbers(line: &str, skip: usize) -> impl Iterator<Item = u64> {
    line.split_whitespace().skip(skip).map_while(|field| field.parse().ok())
}

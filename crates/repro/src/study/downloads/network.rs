//! The network of downloads, and what is read from a run.

use std::fmt::Write as _;

use headway_record::{FlowResult, Results};
use headway_traffic::random;
use headway_units::{Bytes, Duration, Rate, WIRE_OVERHEAD};
use rand::RngExt as _;

use super::{Cell, Downloads, Numbers};
use crate::job::Job;
use crate::statistics::jain;

/// The access link.
const ACCESS: &str = "isp->home";
/// Rate of the servers as a multiple of the access link's: 10 and 1 Gb/s (wan 4.3).
const SERVERS: u64 = 10;
/// The access link whose buffers are written in the experiment, in Mb/s.
const WRITTEN: u64 = 1000;
/// Downloads begin within this time, each at random.
const BEGIN: Duration = Duration::from_ms(100);
/// Bytes of a full packet on the wire, and of its payload.
const PACKET: u64 = 1500 + WIRE_OVERHEAD.get();
const PAYLOAD: u64 = 1448;
/// A run lasts so many times as long as an ideal one, and this longer.
const PATIENCE: f64 = 4.0;
const PATIENCE_MORE: f64 = 10.0;

impl Downloads {
    fn rate(&self, job: &Job<'_>) -> Rate {
        Rate::from_bps(job.of(self.megabits) as u64 * 1_000_000)
    }

    fn size(&self, job: &Job<'_>) -> Bytes {
        Bytes::new(job.of(self.megabytes) as u64 * 1_000_000)
    }

    /// Returns the time that downloads take at least: on a link that is never idle, in s.
    pub(super) fn ideal(&self, cell: &Cell<'_>, job: &Job<'_>) -> f64 {
        let bits = (self.size(job) * cell.flows).get() as f64 * 8.0 * PACKET as f64 / PAYLOAD as f64;
        bits / (self.rate(job).bps_f64() * (1.0 - self.cross))
    }
}

/// Returns the scenario of a run.
pub(super) fn scenario(study: &Downloads, cell: &Cell<'_>, job: &Job<'_>, run: usize) -> String {
    let (rate, buffer) = (study.rate(job), study.buffers[cell.buffer]);
    let half = cell.rtt.ns() / 2;
    let jitter = study.jitter.ns();
    let wire = match jitter {
        0 => String::new(),
        // Only what comes from the servers is delayed at random.
        _ => format!("jitter = \"{} ns\"\nreordering = true\nreverse = {{}}\n", 2 * jitter),
    };
    let packets = (buffer.packets * rate.bps() / (WRITTEN * 1_000_000)).max(2);
    let mut text = format!(
        "duration = \"{:.3} s\"\n\
         [[link]]\nfrom = \"server\"\nto = \"isp\"\nduplex = false\nrate = \"{} b/s\"\ndelay = \"{} ns\"\n\
         buffer = \"1000 ms\"\nloss = {:?}\n\
         [[link]]\nfrom = \"isp\"\nto = \"server\"\nduplex = false\ndelay = \"{half} ns\"\n\
         [[link]]\nfrom = \"isp\"\nto = \"home\"\nrate = \"{} b/s\"\n{}{wire}\
         [[link]]\nfrom = \"home\"\nto = \"laptop\"\n",
        PATIENCE * study.ideal(cell, job) + PATIENCE_MORE,
        rate.bps() * SERVERS,
        half - jitter,
        buffer.loss,
        rate.bps(),
        queue(cell, packets),
    );
    let mut rng = random::generator(job.seed(run), "downloads", 0);
    for _ in 0..cell.flows {
        let _ = write!(
            text,
            "[[flow]]\nfrom = \"server\"\nto = \"laptop\"\ncontroller = \"{}\"\nsize = \"{} B\"\nstart = \"{} ns\"\n",
            cell.control.controller,
            study.size(job).get(),
            rng.random_range(0..BEGIN.ns()),
        );
    }
    if study.cross > 0.0 {
        let cross = rate.scale(study.cross).bps();
        let _ = write!(
            text,
            "[[traffic]]\nfrom = \"isp\"\nto = \"home\"\nmodel = \"poisson\"\nrate = \"{cross} b/s\"\n"
        );
    }
    if let Some(delta) = cell.control.delta {
        let held = rate.scale(1.0 - study.cross).bps();
        let _ = write!(
            text,
            "[[middlebox]]\nat = \"home\"\nkind = \"receive-window\"\nwan = \"isp\"\nrate = \"{held} b/s\"\n\
             policy = {{ delta = {delta:?}, share-by = \"number\" }}\n"
        );
    }
    text
}

/// Returns the keys of the queue of the access link.
fn queue(cell: &Cell<'_>, packets: u64) -> String {
    let buffer = format!("buffer = \"{packets} packets\"\n");
    match (&cell.control.kernel_queue, &cell.control.queue) {
        (Some(queue), _) => format!("kernel-queue = \"{queue}\"\n"),
        (None, Some(queue)) => format!("{buffer}queue = {queue}\n"),
        (None, None) => buffer,
    }
}

/// Extracts the numbers of a run.
pub(super) fn numbers(results: &Results, cell: &Cell<'_>) -> Numbers {
    let summary = &results.summary;
    let access = summary.links.iter().position(|link| link.link == ACCESS).unwrap_or_default();
    let waits = &results.delays[access];
    let ms = |wait: Duration| (cell.rtt + wait).ms();
    let [low, middle, high, late] = [0.25, 0.5, 0.75, 0.95].map(|part| ms(waits.quantile(part)));
    let completion = |flow: &FlowResult| {
        let end = flow.finished_ns.unwrap_or(summary.warmup_ns + summary.measured_ns);
        end.saturating_sub(flow.start_ns) as f64 / 1e9
    };
    Numbers {
        completions: results.flows.iter().map(completion).collect(),
        rtt: [ms(waits.mean()), waits.deviation().ms(), low, middle, high, late, ms(waits.max())],
        drops: summary.links[access].dropped as f64,
        jain: shares(results),
        timeouts: results.flows.iter().filter_map(|flow| flow.timeouts).sum::<u64>() as f64,
    }
}

/// Returns Jain's index of what downloads had received when the first of them ended.
fn shares(results: &Results) -> f64 {
    let first = results.flows.iter().filter_map(|flow| flow.finished_ns).min().unwrap_or(u64::MAX);
    let before = results.series.ends.iter().take_while(|end| end.ns() <= first).count();
    let received = |flow: &Vec<Bytes>| flow.iter().take(before).map(|bytes| bytes.get() as f64).sum();
    jain(&results.series.goodput.iter().map(received).collect::<Vec<f64>>())
}

//! Judges the default method over random simulated paths: error, coverage, width and cost by class of path.
//!
//! `paths FIRST COUNT ANSWERS [CLASS ...]` measures COUNT paths of every class, seeds FIRST and on, ANSWERS times each, and prints a
//! table. With `PATHS_CSV` set, every answer is also written there.

use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use headway_core::measure::{Answer, Config, Method};
use headway_core::queue::{DropTailConfig, QueueSpec};
use headway_core::{Bytes, Duration, Instant, Rate};
use headway_sim::config::Service;
use headway_sim::host::gap::Mechanism;
use headway_sim::host::nic::{Coalescing, Stamp};
use headway_sim::measurement::{MeasurementConfig, Measurements};
use headway_sim::traffic::Traffic;
use headway_sim::{LinkConfig, Network, SourceConfig, SourceId, random};
use nix::time::{ClockId, clock_gettime};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

const CLASSES: [&str; 15] = [
    "one-smooth",
    "one-batch",
    "one-lrd",
    "late-tight",
    "early-tight",
    "tight-burst",
    "two-equal",
    "many",
    "coalesced",
    "fast",
    "jitter",
    "reorder",
    "shallow",
    "shaper",
    "lossy",
];
const THREADS: usize = 2;

struct Hop {
    capacity: f64,
    buffer: DropTailConfig,
    traffic: Option<Traffic>,
    bucket: Option<Bytes>,
    loss: f64,
}

struct Path {
    hops: Vec<Hop>,
    jitter: (Duration, bool),
    coalescing: Option<Coalescing>,
    packet: u64,
    rtt: Duration,
    line: f64,
}

/// One random number after the other.
struct Draw(Pcg64Mcg);

impl Draw {
    fn even(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.0.random::<f64>()
    }
    fn log(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.0.random::<f64>())
    }
    fn chance(&mut self, p: f64) -> bool {
        self.0.random::<f64>() < p
    }
    fn smooth(&mut self, bps: f64) -> Option<Traffic> {
        let rate = Rate::from_bps_f64(bps);
        let size = Bytes::new(if self.chance(0.7) { 1538 } else { 600 });
        let cbr = self.chance(0.25);
        (bps > 0.0).then_some(if cbr { Traffic::Cbr { rate, size } } else { Traffic::Poisson { rate, size } })
    }
    fn batches(&mut self, bps: f64) -> Option<Traffic> {
        let batch = self.log(4.0, 20.0);
        let (rate, size) = (Rate::from_bps_f64(bps), Bytes::new(1538));
        (bps > 0.0).then_some(Traffic::Batches { rate, size, batch })
    }
    fn lrd(&mut self, bps: f64) -> Option<Traffic> {
        let on = Duration::from_us(self.log(5e3, 50e3) as i64);
        let peak = Rate::from_bps_f64(bps / 10.0 * 3.0);
        let size = Bytes::new(1538);
        Some(Traffic::ParetoOnOff { sources: 10, peak, on, off: on * 2, shape: 1.5, size })
    }
    fn any(&mut self, bps: f64) -> Option<Traffic> {
        match self.0.random_range(0..4) {
            0 => self.batches(bps),
            1 => self.lrd(bps),
            _ => self.smooth(bps),
        }
    }
    fn hop(&mut self, capacity: f64, traffic: Option<Traffic>) -> Hop {
        let buffer = Rate::from_bps_f64(capacity).bytes_in(Duration::from_ms(100)).max(Bytes::new(60_000));
        let buffer = DropTailConfig { limit: Some(buffer), packets: None };
        Hop { capacity, buffer, traffic, bucket: None, loss: 0.0 }
    }
    fn capacity(&mut self) -> f64 {
        self.log(5e6, 2e9)
    }

    fn path(&mut self, class: &str) -> Path {
        let mut path = Path {
            hops: Vec::new(),
            jitter: (Duration::ZERO, false),
            coalescing: None,
            packet: 1538,
            rtt: Duration::from_us(self.log(2e3, 60e3) as i64),
            line: 0.0,
        };
        let capacity = self.capacity();
        let load = self.even(0.0, 0.85);
        let bps = capacity * load;
        match class {
            "one-smooth" => {
                let t = self.smooth(bps);
                path.hops.push(self.hop(capacity, t));
            }
            "one-batch" => {
                let t = self.batches(bps);
                path.hops.push(self.hop(capacity, t));
            }
            "one-lrd" => {
                let t = self.lrd(bps);
                path.hops.push(self.hop(capacity, t));
            }
            "late-tight" | "early-tight" | "tight-burst" => {
                let free = capacity * self.even(0.2, 0.8);
                let tight = capacity * self.log(1.5, 10.0);
                let small = self.even(0.0, 0.5) * (capacity - free);
                let bursty = class == "tight-burst";
                let (a, b) = if bursty {
                    (self.batches(small), self.batches(tight - free))
                } else {
                    (self.smooth(small), self.smooth(tight - free))
                };
                let first = self.hop(capacity, a);
                let second = self.hop(tight, b);
                let early = class == "early-tight" || (bursty && self.chance(0.5));
                path.hops = if early { vec![second, first] } else { vec![first, second] };
            }
            "two-equal" => {
                for _ in 0..2 {
                    let t = self.smooth(bps.max(0.15 * capacity));
                    let hop = self.hop(capacity, t);
                    path.hops.push(hop);
                }
            }
            "many" => {
                for _ in 0..self.0.random_range(2..=5) {
                    let capacity = capacity * self.log(1.0, 10.0);
                    let load = self.even(0.0, 0.85);
                    let t = self.any(capacity * load);
                    let hop = self.hop(capacity, t);
                    path.hops.push(hop);
                }
            }
            "coalesced" => {
                let capacity = self.log(1e9, 10e9);
                if self.chance(0.6) {
                    path.packet = 9038;
                }
                let t = self.any(capacity * load);
                path.hops.push(self.hop(capacity, t));
                path.coalescing = Some(self.card());
            }
            "fast" => {
                let capacity = self.log(15e9, 60e9);
                if self.chance(0.3) {
                    path.packet = 9038;
                }
                let t = self.smooth(capacity * load);
                path.hops.push(self.hop(capacity, t));
                path.coalescing = Some(self.card());
            }
            "jitter" | "reorder" => {
                let t = self.smooth(bps);
                path.hops.push(self.hop(capacity, t));
                path.jitter = (Duration::from_us(self.log(100.0, 2e3) as i64), class == "reorder");
            }
            "shallow" => {
                let load = self.even(0.3, 0.8);
                let t = if self.chance(0.5) {
                    self.smooth(load * capacity)
                } else {
                    self.batches(load * capacity)
                };
                let mut hop = self.hop(capacity, t);
                hop.buffer = DropTailConfig { limit: None, packets: Some(self.log(15.0, 100.0) as u32) };
                path.hops.push(hop);
            }
            "shaper" => {
                let line = capacity * self.log(2.0, 20.0);
                path.hops.push(self.hop(line, None));
                let t = self.smooth(bps);
                let mut hop = self.hop(capacity, t);
                hop.bucket = Some(Bytes::new(self.log(4e3, 100e3) as u64));
                path.hops.push(hop);
            }
            "lossy" => {
                let t = self.smooth(bps);
                let mut hop = self.hop(capacity, t);
                hop.loss = self.log(0.001, 0.02);
                path.hops.push(hop);
            }
            _ => unreachable!("a class of the list"),
        }
        let narrow = path.hops.iter().map(|hop| hop.capacity).fold(f64::INFINITY, f64::min);
        path.line = narrow * self.log(2.0, 10.0);
        path
    }

    fn card(&mut self) -> Coalescing {
        let interval = Duration::from_us(self.log(30.0, 125.0) as i64);
        Coalescing::Fixed { interval, jitter: 0.2, frames: None }
    }
}

/// One answer beside the truth.
struct Row {
    class: usize,
    seed: u64,
    free: f64,
    narrow: f64,
    answer: Answer,
    seconds: f64,
    cpu: f64,
    others_lost: u64,
}

struct Truth {
    sources: Vec<Option<SourceId>>,
    capacities: Vec<f64>,
    /// Share of the packets that arrive after they were carried.
    kept: Vec<f64>,
    at: Instant,
    delivered: Vec<u64>,
    lost: u64,
}

impl Truth {
    fn delivered(&self, network: &Network) -> (Vec<u64>, u64) {
        let bytes = |(source, kept): (&Option<SourceId>, &f64)| {
            let delivered = |source| network.source_statistics(source).delivered.bytes.get();
            (source.map_or(0, delivered) as f64 / kept) as u64
        };
        let lost = |source: &Option<SourceId>| {
            source.map_or(0, |source| {
                let statistics = network.source_statistics(source);
                statistics.sent.packets - statistics.delivered.packets
            })
        };
        (self.sources.iter().zip(&self.kept).map(bytes).collect(), self.sources.iter().map(lost).sum())
    }
    fn mark(&mut self, network: &Network) {
        (self.delivered, self.lost) = self.delivered(network);
        self.at = network.now();
    }
    /// The least over links of what was free since the mark, and packets of others lost.
    fn free(&self, network: &Network) -> (f64, u64) {
        let (delivered, lost) = self.delivered(network);
        let seconds = (network.now() - self.at).secs_f64();
        let free = self.capacities.iter().zip(delivered.iter().zip(&self.delivered));
        let free = free.map(|(capacity, (after, before))| capacity - (after - before) as f64 * 8.0 / seconds);
        (free.fold(f64::INFINITY, f64::min), lost.saturating_sub(self.lost))
    }
}

fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("a clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

fn judge(class: usize, seed: u64, answers: usize) -> Vec<Row> {
    let mut draw = Draw(random::generator(seed, CLASSES[class], 0));
    let path = draw.path(CLASSES[class]);
    let mut network = Network::new(seed);
    let (mut links, mut sources) = (Vec::new(), Vec::new());
    let delay = path.rtt.scale(0.5 / path.hops.len() as f64);
    for hop in &path.hops {
        let rate = Rate::from_bps_f64(hop.capacity);
        let service =
            hop.bucket.map_or(Service::Constant(rate), |burst| Service::TokenBucket { rate, burst });
        let queue = QueueSpec::DropTail(hop.buffer.clone()).build(Some(rate), seed);
        let link = network.add_link(&LinkConfig { loss: hop.loss, ..LinkConfig::new(service, delay, queue) });
        links.push(link);
        sources.push(hop.traffic.clone().map(|traffic| {
            network.add_source(&SourceConfig { path: vec![link], traffic, start: Instant::ZERO, stop: None })
        }));
    }
    if path.jitter.0 > Duration::ZERO {
        let queue = QueueSpec::DropTail(DropTailConfig { limit: None, packets: None }).build(None, seed);
        let (jitter, reordering) = path.jitter;
        let link = LinkConfig::new(Service::Unlimited, Duration::ZERO, queue);
        links.push(network.add_link(&LinkConfig { jitter, reordering, ..link }));
    }
    let capacities: Vec<f64> = path.hops.iter().map(|hop| hop.capacity).collect();
    let narrow = capacities.iter().copied().fold(f64::INFINITY, f64::min);
    let line = Rate::from_bps_f64(path.line);
    let budget = std::env::var("PATHS_BUDGET")
        .ok()
        .map(|mb| Bytes::new((mb.parse::<f64>().expect("MB") * 1e6) as u64));
    let measure = Config {
        method: Method::Response,
        packet: Bytes::new(path.packet),
        budget,
        duration: budget.map(|_| Duration::from_ms(30_000)),
        rtt: path.rtt,
        top_rate: line,
        train_rate: line,
    };
    let config = MeasurementConfig {
        narrow: links[0],
        path: links,
        start: Instant::from_ns(500_000_000),
        every: Some(Duration::from_ns(1)),
        measure,
        line,
        mechanism: Mechanism::Exact,
        coalescing: path.coalescing,
        stamp: Stamp::Driver,
    };
    let kept = path.hops.iter().map(|hop| 1.0 - hop.loss).collect();
    let mut truth = Truth { sources, capacities, kept, at: Instant::ZERO, delivered: Vec::new(), lost: 0 };
    let mut simulated = Measurements::new(&mut network, config, seed, 0);
    let mut rows = Vec::new();
    let (mut cpu, mut fresh) = (0.0, true);
    while let Some(next) = simulated.next() {
        network.run_until(next);
        if std::mem::take(&mut fresh) {
            truth.mark(&network);
        }
        let before = cpu_time();
        simulated.poll(&mut network);
        cpu += cpu_time() - before;
        if simulated.ended().len() > rows.len() {
            let measured = &simulated.ended()[rows.len()];
            let (free, others_lost) = truth.free(&network);
            let seconds = (measured.end - measured.begin).secs_f64();
            rows.push(Row {
                class,
                seed,
                free,
                narrow,
                answer: measured.answer.clone(),
                seconds,
                cpu,
                others_lost,
            });
            (cpu, fresh) = (0.0, true);
            if rows.len() == answers {
                break;
            }
        }
    }
    rows
}

fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.retain(|value| value.is_finite());
    values.sort_by(f64::total_cmp);
    if values.is_empty() { f64::NAN } else { values[((values.len() - 1) as f64 * share).round() as usize] }
}

/// Whether the interval held the truth, relative error, relative half width; `None` without an answer. "At least" holds when it is true.
fn judged(row: &Row) -> Option<(bool, f64, f64)> {
    let interval = row.answer.available.ok()?;
    let (rate, low) = (interval.rate.bps_f64(), interval.low.bps_f64());
    let Some(high) = interval.high else { return Some((low <= row.free * 1.02, f64::NAN, f64::NAN)) };
    let high = high.bps_f64();
    Some((low <= row.free && row.free <= high, rate / row.free - 1.0, (high - low) / 2.0 / row.free))
}

fn table(rows: &[Row]) {
    println!(
        "{:12} {:>4} {:>5} {:>7} {:>7} {:>7} {:>7} {:>6} {:>7} {:>7} {:>6} {:>6} {:>7} {:>6} {:>7}",
        "class",
        "n",
        "held",
        "bias%",
        "|err|%",
        "p90%",
        "half%",
        "refus",
        "atleast",
        "narr|e|",
        "MB",
        "s",
        "delay",
        "lost",
        "cpu ms"
    );
    let print = |name: &str, rows: &[&Row]| {
        if rows.is_empty() {
            return;
        }
        let good: Vec<_> = rows.iter().filter_map(|row| judged(row)).collect();
        let held = good.iter().filter(|g| g.0).count() as f64 / good.len().max(1) as f64;
        let errors: Vec<f64> = good.iter().map(|g| g.1).collect();
        let magnitude: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
        let narrow = good.iter().filter(|g| g.2 < 0.15).map(|g| g.1.abs()).collect();
        println!(
            "{name:12} {:4} {:5.0} {:7.1} {:7.1} {:7.0} {:7.1} {:6.0} {:7} {:7.1} {:6.2} {:6.2} {:7.2} {:6.2} {:7.1}",
            rows.len(),
            held * 100.0,
            quantile(errors, 0.5) * 100.0,
            quantile(magnitude.clone(), 0.5) * 100.0,
            quantile(magnitude, 0.9) * 100.0,
            quantile(good.iter().map(|g| g.2).collect(), 0.5) * 100.0,
            (rows.len() - good.len()) as f64 / rows.len() as f64 * 100.0,
            good.iter().filter(|g| g.2.is_nan()).count(),
            quantile(narrow, 0.5) * 100.0,
            quantile(rows.iter().map(|r| r.answer.bytes.get() as f64 / 1e6).collect(), 0.5),
            quantile(rows.iter().map(|r| r.seconds).collect(), 0.5),
            quantile(rows.iter().map(|r| r.answer.added_delay.secs_f64() * 1e3).collect(), 0.5),
            rows.iter().map(|r| r.others_lost as f64).sum::<f64>() / rows.len() as f64,
            quantile(rows.iter().map(|r| r.cpu * 1e3).collect(), 0.5),
        );
    };
    for (class, name) in CLASSES.iter().enumerate() {
        print(name, &rows.iter().filter(|row| row.class == class).collect::<Vec<_>>());
    }
    print("all", &rows.iter().collect::<Vec<_>>());
}

fn csv(rows: &[Row]) -> String {
    let mut text =
        String::from("class,seed,free,narrow,rate,low,high,capacity,half,streams,mb,seconds,note\n");
    for row in rows {
        let (rate, low, high, note) = match row.answer.available {
            Ok(i) => (i.rate.mbps(), i.low.mbps(), i.high.map_or(f64::NAN, |h| h.mbps()), String::new()),
            Err(failure) => (f64::NAN, f64::NAN, f64::NAN, format!("{failure:?}")),
        };
        let held = judged(row).map_or("none", |j| if j.0 { "held" } else { "MISS" });
        let _ = writeln!(
            text,
            "{},{},{:.2},{:.2},{rate:.2},{low:.2},{high:.2},{:.2},{held},{},{:.2},{:.2},{note}",
            CLASSES[row.class],
            row.seed,
            row.free / 1e6,
            row.narrow / 1e6,
            row.answer.capacity.map_or(f64::NAN, Rate::mbps),
            row.answer.streams_used,
            row.answer.bytes.get() as f64 / 1e6,
            row.seconds,
        );
    }
    text
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |index: usize, default: u64| arguments.get(index).map_or(default, |a| a.parse().expect("a number"));
    let (first, count, answers) = (number(0, 1), number(1, 8), number(2, 3));
    let wanted = |name: &str| arguments.len() <= 3 || arguments[3..].iter().any(|a| a == name);
    let classes: Vec<usize> = (0..CLASSES.len()).filter(|class| wanted(CLASSES[*class])).collect();
    let jobs: Vec<(usize, u64)> =
        (first..first + count).flat_map(|seed| classes.iter().map(move |class| (*class, seed))).collect();
    let next = AtomicU64::new(0);
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(&(class, seed)) = jobs.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let judged = judge(class, seed, answers as usize);
                    rows.lock().expect("no panic").extend(judged);
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("no panic");
    rows.sort_by_key(|row| (row.class, row.seed));
    table(&rows);
    if let Ok(file) = std::env::var("PATHS_CSV") {
        std::fs::write(file, csv(&rows)).expect("a file that can be written");
    }
}

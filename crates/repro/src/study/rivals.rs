//! Explicit congestion control beside other systems on a shared link: flows that stay, flows that come and
//! go, and a capacity that fades.

use std::fmt::Write as _;

use headway_figures::{Curve, Figure, Panel};
use headway_record::{Histogram, Results};
use headway_traffic::random;
use headway_units::{Duration, Rate};
use serde::Deserialize;

use super::{Study, sharing};
use crate::closed_loop::segments_per_ack;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::{Findings, Measures};
use crate::statistics::{quantile, sorted};

/// Explicit congestion control beside other systems.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rivals {
    /// The systems that run; absent for all.
    systems: Option<Vec<String>>,
    /// Whether the explicit ones also run as published, without what this project repaired.
    #[serde(default)]
    published: bool,
    /// Rates of the shared link.
    rates: Vec<Rate>,
    /// Numbers of flows that stay.
    flows: Vec<u64>,
    /// The largest rate and the largest number of the quick size.
    largest_quick: (Rate, u64),
    /// Load of flows that come and go, as a share of the rate; absent without them.
    load: Option<f64>,
    /// Runs of each cell, with different seeds; the median is reported.
    runs: Count,
    /// Time before the measured time.
    warmup: Count,
    /// Measured time.
    milliseconds: Count,
}

/// A full packet on the wire, bytes.
const PACKET: u64 = 1538;
/// RTT without queues.
const RTT: Duration = Duration::from_ms(100);
/// Most packets that the link can carry in a run; on faster links, all times are shorter.
const MOST_PACKETS: f64 = 4e6;
/// The least buffer: 50 packets.
const LEAST_BUFFER: u64 = 50 * PACKET;
/// Least target of the queue of laws without a capacity, otherwise a tenth of the bandwidth-delay product:
/// four packets, as in the thesis. And the least of the longest queue that they reckon with, otherwise a
/// whole product: 20 kB.
const LEAST_TARGET: u64 = 6_000;
const LEAST_LARGEST: u64 = 20_000;
/// Payloads of flows that come and go, in kB; each size has the same share of the load.
const SIZES: [u64; 4] = [30, 100, 300, 1_000];
/// Bytes on the wire for each of payload, in full segments without a congestion header.
const WIRE_SHARE: f64 = 1538.0 / 1448.0;
/// The sizes whose completion times are reported.
const REPORTED: [u64; 3] = [100, 300, 1_000];
/// RTT and buffer of the link that fades, as in `scenarios/trace.toml`: 150 packets.
const FADING_RTT: Duration = Duration::from_ms(40);
const FADING_BUFFER: u64 = 150 * PACKET;
/// Flows on the link that fades, and the rate that its routers believe in if they know one.
const FADING_FLOWS: u64 = 4;
const FADING_RATE: Rate = Rate::from_bps(24_000_000);
/// Opportunities to send a packet, in ms, within two seconds.
const FADING: &str = include_str!("../../../../scenarios/fading.trace");
const FADING_PERIOD: u64 = 2_000;
/// Over how long they are averaged, in ms.
const FADING_STEP: u64 = 100;

/// A controller and the queue of the shared link.
struct System {
    name: &'static str,
    controller: &'static str,
    queue: Discipline,
    /// Further keys of its flows.
    keys: &'static str,
}

/// The queue of a system, whose parameters depend on the bandwidth-delay product.
#[derive(Clone, Copy)]
enum Discipline {
    DropTail,
    /// Marks at a sixth of the bandwidth-delay product (RFC 8257 recommends more than a seventh).
    Step,
    Codel,
    /// The law of a router that knows the capacity.
    Knowing(&'static str),
    /// RCP that updates its rate ten times in an RTT, as its authors do.
    Often,
    /// One that believes in none.
    Blind(&'static str),
}

impl System {
    /// Whether its first segment asks for a rate, as the SYN of a new connection would.
    fn is_explicit(&self) -> bool {
        matches!(self.queue, Discipline::Knowing(_) | Discipline::Often | Discipline::Blind(_))
    }
}

const SYSTEMS: [System; 10] = [
    System { name: "xcp", controller: "xcp", queue: Discipline::Knowing("xcp"), keys: "" },
    System { name: "xcp-b", controller: "xcp", queue: Discipline::Blind("xcp-b"), keys: "" },
    System { name: "errors", controller: "xcp", queue: Discipline::Blind("errors"), keys: "" },
    System { name: "rcp", controller: "rcp", queue: Discipline::Knowing("rcp"), keys: "" },
    System { name: "rcp-paced", controller: "rcp:paced", queue: Discipline::Often, keys: "" },
    System { name: "rcp-b", controller: "rcp", queue: Discipline::Blind("rcp-b"), keys: "" },
    System { name: "dctcp", controller: "dctcp", queue: Discipline::Step, keys: "ecn = \"dctcp\"\n" },
    System { name: "cubic", controller: "cubic", queue: Discipline::DropTail, keys: "" },
    System { name: "bbr", controller: "bbr", queue: Discipline::DropTail, keys: "" },
    System { name: "codel", controller: "cubic", queue: Discipline::Codel, keys: "" },
];

/// A system as it runs.
#[derive(Clone, Copy)]
struct Variant {
    system: &'static System,
    /// Whether router and senders are the published ones.
    published: bool,
}

impl Variant {
    fn name(self) -> String {
        format!("{}{}", self.system.name, if self.published { "-published" } else { "" })
    }
}

/// Returns what runs in a study; names that do not exist run nothing.
fn variants(study: &Rivals) -> Vec<Variant> {
    let chosen = |name: &str| study.systems.as_ref().is_none_or(|names| names.iter().any(|one| one == name));
    let mut variants = Vec::new();
    for system in SYSTEMS.iter().filter(|system| chosen(system.name)) {
        let forms: &[bool] = if study.published && system.is_explicit() { &[true, false] } else { &[false] };
        variants.extend(forms.iter().map(|&published| Variant { system, published }));
    }
    variants
}

/// What shares the link.
#[derive(Clone, Copy)]
enum Load {
    /// Flows that stay.
    Stay(u64),
    /// Flows that come and go, with this load as a share of the rate.
    Come(f64),
    /// Flows that stay on a link that fades.
    Fading,
}

#[derive(Clone, Copy)]
struct Cell {
    rate: Rate,
    load: Load,
}

impl Cell {
    fn name(self) -> String {
        match self.load {
            Load::Stay(flows) => format!("{:.0}/{flows}", self.rate.mbps()),
            Load::Come(_) => format!("{:.0}/web", self.rate.mbps()),
            Load::Fading => "fading".to_owned(),
        }
    }
}

/// The numbers of a run, in the order of the table: the share of the link in use in %; quantiles of the
/// queueing delay in ms; Jain's index of the goodputs of flows that stay; of those that come and go,
/// completion times from the opening of the connection in ms, of all and of each size in kB; and packets that
/// the queue dropped, in % of those that arrived.
const NUMBERS: [&str; 10] = [
    "utilisation",
    "queue-median",
    "queue-p95",
    "jain",
    "completion-median",
    "completion-p99",
    "completion-100",
    "completion-300",
    "completion-1000",
    "dropped",
];

impl Study for Rivals {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let (cells, variants) = (cells(self, job), variants(self));
        let pairs: Vec<(Cell, Variant)> =
            cells.iter().flat_map(|cell| variants.iter().map(|variant| (*cell, *variant))).collect();
        let done = job.each_run(&pairs, job.of(self.runs), |(cell, variant), run| {
            let opening = if variant.system.is_explicit() { Duration::ZERO } else { RTT };
            let name = format!("{}/{}", variant.name(), cell.name());
            let text = scenario(self, *cell, *variant, job);
            job.run_scenario(&text, &name, run, |results| numbers(results, opening))
        })?;
        let mut findings = evaluate(&pairs, &done);
        for cell in &cells {
            if let Load::Come(load) = cell.load {
                add_ideal(&mut findings, *cell, load, job.seed(0));
            }
        }
        findings.figure = figure(&findings, &cells, &variants);
        Ok(findings)
    }
}

/// Returns the cells of a size.
fn cells(study: &Rivals, job: &Job<'_>) -> Vec<Cell> {
    let (rate, flows) = study.largest_quick;
    let all = job.is_full();
    let mut cells = Vec::new();
    for &link in study.rates.iter().filter(|link| all || **link <= rate) {
        let counts = study.flows.iter().filter(|count| all || **count <= flows);
        cells.extend(counts.map(|count| Cell { rate: link, load: Load::Stay(*count) }));
        cells.extend(study.load.map(|load| Cell { rate: link, load: Load::Come(load) }));
    }
    cells.push(Cell { rate: FADING_RATE, load: Load::Fading });
    cells
}

/// Returns the time before the measured time in a cell, and the measured time.
fn times(study: &Rivals, cell: Cell, job: &Job<'_>) -> (Duration, Duration) {
    let [warmup, measured] = [study.warmup, study.milliseconds].map(|count| job.time(count));
    let packets = cell.rate.bytes_in(warmup + measured).get() as f64 / PACKET as f64;
    let share = (MOST_PACKETS / packets).min(1.0);
    (warmup.scale(share), measured.scale(share))
}

fn scenario(study: &Rivals, cell: Cell, variant: Variant, job: &Job<'_>) -> String {
    let system = variant.system;
    let (warmup, measured) = times(study, cell, job);
    let (rtt, least) = match cell.load {
        Load::Fading => (FADING_RTT, FADING_BUFFER),
        _ => (RTT, LEAST_BUFFER),
    };
    let product = cell.rate.bytes_in(rtt).get();
    let half = rtt.ns() / 2;
    let mut text = format!(
        "duration = \"{} ns\"\nwarmup = \"{} ns\"\n\
         [[link]]\nfrom = \"server\"\nto = \"client\"\nduplex = false\ndelay = \"{half} ns\"\nbuffer = \"{} B\"\n{}",
        (warmup + measured).ns(),
        warmup.ns(),
        product.max(least),
        queue(system.queue, cell.rate, product, variant.published),
    );
    let _ = match cell.load {
        Load::Fading => writeln!(text, "rates = [{}]", fading(warmup + measured)),
        _ => writeln!(text, "rate = \"{} b/s\"", cell.rate.bps()),
    };
    let _ =
        write!(text, "[[link]]\nfrom = \"client\"\nto = \"server\"\nduplex = false\ndelay = \"{half} ns\"\n");
    let flow = format!(
        "[[flow]]\nfrom = \"server\"\nto = \"client\"\ncontroller = \"{}\"\nack-every = {}\n{}",
        controller(variant),
        segments_per_ack(system.is_explicit()),
        system.keys
    );
    match cell.load {
        Load::Stay(count) => stay(&mut text, &flow, count, warmup),
        Load::Fading => stay(&mut text, &flow, FADING_FLOWS, warmup),
        Load::Come(load) => {
            for size in SIZES {
                let share = load / SIZES.len() as f64;
                let per_second = cell.rate.bps_f64() * share / (size as f64 * 8e3);
                let _ = write!(
                    text,
                    "{flow}name = \"{size}\"\narrivals = {{ per-second = {per_second:?}, \
                     size-distribution = {{ kind = \"fixed\", size = \"{size} kB\" }} }}\n"
                );
            }
        }
    }
    text
}

/// Adds flows that start one after the other during the first half of the warm-up.
fn stay(text: &mut String, flow: &str, count: u64, warmup: Duration) {
    let stagger = warmup.ns() / (2 * count as i64);
    let _ = write!(text, "{flow}name = \"stay\"\ncount = {count}\nstagger = \"{stagger} ns\"\n");
}

/// Returns the controller of the senders.
fn controller(variant: Variant) -> String {
    let name = variant.system.controller;
    let separator = if name.contains(':') { ',' } else { ':' };
    if variant.published { format!("{name}{separator}published") } else { name.to_owned() }
}

fn queue(discipline: Discipline, rate: Rate, product: u64, published: bool) -> String {
    match discipline {
        Discipline::DropTail => String::new(),
        Discipline::Step => {
            format!("queue = {{ kind = \"step\", threshold = \"{} B\" }}\n", (product / 6).max(2 * PACKET))
        }
        Discipline::Codel => "queue = { kind = \"codel\" }\n".to_owned(),
        Discipline::Knowing(kind) => {
            format!(
                "queue = {{ kind = \"{kind}\", capacity = \"{} b/s\", published = {published} }}\n",
                rate.bps()
            )
        }
        Discipline::Often => format!(
            "queue = {{ kind = \"rcp\", capacity = \"{} b/s\", interval-max = \"10 ms\", published = {published} }}\n",
            rate.bps()
        ),
        Discipline::Blind(kind) => format!(
            "queue = {{ kind = \"{kind}\", capacity = \"0 b/s\", kappa = \"{} B\", q-max = \"{} B\", published = {published} }}\n",
            (product / 10).max(LEAST_TARGET),
            product.max(LEAST_LARGEST)
        ),
    }
}

/// Returns the rates of the link that fades for this long, as the list of a scenario file.
fn fading(length: Duration) -> String {
    let steps = FADING_PERIOD / FADING_STEP;
    let mut packets = vec![0u64; steps as usize];
    for time in FADING.lines().filter_map(|line| line.parse::<u64>().ok()) {
        packets[(time.saturating_sub(1) / FADING_STEP % steps) as usize] += 1;
    }
    let rate = |count: u64| count * PACKET * 8_000 / FADING_STEP;
    let step = |number: u64| {
        let count = packets[(number % steps) as usize].max(1);
        format!("[\"{} ms\", \"{} b/s\"]", number * FADING_STEP, rate(count))
    };
    let all = length.ns().unsigned_abs() / 1_000_000 / FADING_STEP;
    (0..=all).map(step).collect::<Vec<String>>().join(", ")
}

/// Extracts the numbers of a run whose flows take this much longer with the opening of their connections.
/// Simulated connections are open, but the first round trip of an explicit flow brings its rate and
/// carries one segment: in a connection that has to be opened the SYN would, and the data come a round
/// trip later for all systems.
fn numbers(results: &Results, opening: Duration) -> Measures {
    let link = &results.summary.links[0];
    let mut numbers = Measures::from([
        ("utilisation".to_owned(), 100.0 * link.utilisation.unwrap_or_default()),
        ("queue-median".to_owned(), results.delays[0].quantile(0.5).ms()),
        ("queue-p95".to_owned(), results.delays[0].quantile(0.95).ms()),
        ("dropped".to_owned(), 100.0 * link.dropped as f64 / link.arrived.max(1) as f64),
    ]);
    let stay = results.summary.groups.iter().find(|group| group.name == "stay");
    numbers.extend(stay.map(|group| ("jain".to_owned(), group.total.fairness)));
    let mut all = Histogram::default();
    for size in REPORTED.map(|size| size.to_string()) {
        let group = results.completion_times.iter().find(|(name, _)| *name == size);
        if let Some((_, times)) = group.filter(|(_, times)| times.count() > 0) {
            numbers.insert(format!("completion-{size}"), (times.quantile(0.5) + opening).ms());
            all.merge(times);
        }
    }
    if all.count() > 0 {
        numbers.insert("completion-median".to_owned(), (all.quantile(0.5) + opening).ms());
        numbers.insert("completion-p99".to_owned(), (all.quantile(0.99) + opening).ms());
    }
    numbers
}

fn evaluate(pairs: &[(Cell, Variant)], done: &[Vec<Measures>]) -> Findings {
    let columns = "link Mb/s and load,system,utilisation %,median queue ms,p95 queue ms,fairness,median completion ms,p99 completion ms,median of 100 kB ms,median of 300 kB ms,median of 1 MB ms,dropped %";
    let mut findings = Findings::with_table(columns);
    for ((cell, variant), runs) in pairs.iter().zip(done) {
        let mut row = vec![cell.name(), variant.name()];
        for what in NUMBERS {
            let values = sorted(
                runs.iter().filter_map(|run| run.get(what).copied()).filter(|n| !n.is_nan()).collect(),
            );
            let [least, median, most] = [0.0, 0.5, 1.0].map(|part| quantile(&values, part));
            row.push(if median.is_nan() { String::new() } else { format!("{median:.3}") });
            let name = format!("{}/{}/{what}", variant.name(), cell.name());
            findings.add(&name, [("least", least), ("most", most)]);
            findings.measures.insert(name, median);
        }
        findings.table.rows.push(row);
    }
    findings
}

/// Adds the bound of a cell with flows that come and go: equal parts of the link at every moment, one RTT for
/// the opening of the connection and one for the data and the last ACK.
fn add_ideal(findings: &mut Findings, cell: Cell, load: f64, seed: u64) {
    let mut random = random::generator(seed, "ideal", cell.rate.bps());
    let per_ms = cell.rate.bps_f64() / 8e3;
    let flows = sharing::completions(&SIZES, per_ms, load, WIRE_SHARE, &mut random);
    let times = |wanted: &[u64]| {
        let found = flows.iter().filter(|(size, _)| wanted.contains(size));
        sorted(found.map(|(_, time)| time + 2.0 * RTT.ms()).collect())
    };
    let all = times(&REPORTED);
    let [small, medium, large] = REPORTED.map(|size| quantile(&times(&[size]), 0.5));
    let values = [
        ("completion-median", quantile(&all, 0.5)),
        ("completion-p99", quantile(&all, 0.99)),
        ("completion-100", small),
        ("completion-300", medium),
        ("completion-1000", large),
    ];
    let mut row = vec![cell.name(), "equal parts".to_owned()];
    for what in NUMBERS {
        let value = values.iter().find(|(name, _)| *name == what).map(|(_, value)| *value);
        row.push(value.map_or(String::new(), |value| format!("{value:.3}")));
        findings.measures.extend(value.map(|value| (format!("ideal/{}/{what}", cell.name()), value)));
    }
    findings.table.rows.push(row);
}

/// Draws utilisation over the queue for every system, a panel for each cell.
fn figure(findings: &Findings, cells: &[Cell], variants: &[Variant]) -> Figure {
    let panel = |cell: &Cell| {
        let panel = Panel::new(&cell.name(), "p95 queue, ms", "utilisation, %").with_y_range(80.0, 100.0);
        variants.iter().fold(panel, |panel, variant| {
            let value = |what: &str| findings.measures[&format!("{}/{}/{what}", variant.name(), cell.name())];
            panel.with(Curve::dots(&variant.name(), vec![(value("queue-p95"), value("utilisation"))]))
        })
    };
    Figure::curves(cells.iter().map(panel))
}

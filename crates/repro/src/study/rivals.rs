//! Explicit congestion control beside other systems on a shared link: flows that stay, flows that come and go, and a
//! capacity that fades.

use std::fmt::Write as _;

use headway_figures::{Curve, Figure, Panel};
use headway_record::{Histogram, Results};
use headway_traffic::random;
use headway_units::{Duration, Rate};
use serde::{Deserialize, Serialize};

use super::sharing;
use crate::closed_loop::{Place, segments_per_ack};
use crate::context::{Context, Error, Size};
use crate::experiment::{Experiment, Rivals};
use crate::outcome::{Findings, Table};
use crate::statistics::{quantile, sorted};

/// A full packet on the wire, bytes.
const PACKET: u64 = 1538;
/// RTT without queues.
const RTT: Duration = Duration::from_ms(100);
/// Most packets that the link can carry in a run; on faster links, all times are shorter.
const MOST_PACKETS: f64 = 4e6;
/// The least buffer: 50 packets.
const LEAST_BUFFER: u64 = 50 * PACKET;
/// Least target of the queue of laws without a capacity, otherwise a tenth of the bandwidth-delay product: four packets,
/// as in the thesis. And the least of the longest queue that they reckon with, otherwise a whole product: 20 kB.
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

/// The numbers of a run.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Numbers {
    /// Share of the link in use, %.
    utilisation: f64,
    /// Quantiles of the queueing delay, ms.
    queue_median: f64,
    queue_p95: f64,
    /// Jain's index of the goodputs; absent for flows that come and go.
    jain: Option<f64>,
    /// Completion times from the opening of the connection, ms; absent for flows that stay.
    completion_median: Option<f64>,
    completion_p99: Option<f64>,
    /// Medians of the completion times of each size, ms.
    completion_100: Option<f64>,
    completion_300: Option<f64>,
    completion_1000: Option<f64>,
    /// Packets that the queue dropped, % of those that arrived.
    dropped: f64,
}

/// The name of a number, and the number.
type Named = (&'static str, fn(&Numbers) -> Option<f64>);

const NUMBERS: [Named; 10] = [
    ("utilisation", |n| Some(n.utilisation)),
    ("queue-median", |n| Some(n.queue_median)),
    ("queue-p95", |n| Some(n.queue_p95)),
    ("jain", |n| n.jain),
    ("completion-median", |n| n.completion_median),
    ("completion-p99", |n| n.completion_p99),
    ("completion-100", |n| n.completion_100),
    ("completion-300", |n| n.completion_300),
    ("completion-1000", |n| n.completion_1000),
    ("dropped", |n| Some(n.dropped)),
];

pub(super) fn run(
    place: Place<'_>,
    study: &Rivals,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Findings, Error> {
    let (cells, variants) = (cells(study, context.size), variants(study));
    let runs = context.size.of(study.runs);
    let mut parts = Vec::new();
    for cell in &cells {
        parts.extend(variants.iter().flat_map(|variant| (0..runs).map(move |run| (*cell, *variant, run))));
    }
    let numbers = context.map(&parts, |_, (cell, variant, run)| {
        let name = format!("{}/{}-{}-{run}", experiment.id, variant.name(), cell.name().replace('/', "-"));
        let seed = context.seed_of(&experiment.id, *run);
        let opening = if variant.system.is_explicit() { Duration::ZERO } else { RTT };
        let text = scenario(study, *cell, *variant, context.size);
        place.run_scenario(text, &name, seed, context, |results| numbers(results, opening))
    })?;
    let mut findings = evaluate(&cells, &variants, &numbers, runs);
    for cell in &cells {
        if let Load::Come(load) = cell.load {
            add_ideal(&mut findings, *cell, load, context.seed_of(&experiment.id, 0));
        }
    }
    Ok(findings)
}

/// Returns the cells of a size.
fn cells(study: &Rivals, size: Size) -> Vec<Cell> {
    let (rate, flows) = study.largest_quick;
    let all = size == Size::Full;
    let mut cells = Vec::new();
    for &link in study.rates.iter().filter(|link| all || **link <= rate) {
        let counts = study.flows.iter().filter(|count| all || **count <= flows);
        cells.extend(counts.map(|count| Cell { rate: link, load: Load::Stay(*count) }));
        cells.extend(study.load.map(|load| Cell { rate: link, load: Load::Come(load) }));
    }
    cells.push(Cell { rate: FADING_RATE, load: Load::Fading });
    cells
}

/// Estimates the packets of a run of this size.
pub(crate) fn packets(study: &Rivals, size: Size) -> usize {
    let bytes = |cell: &Cell| {
        let (warmup, measured) = times(study, *cell, size);
        cell.rate.bytes_in(warmup + measured).get()
    };
    let bytes: u64 = cells(study, size).iter().map(bytes).sum();
    (bytes / PACKET) as usize * variants(study).len() * size.of(study.runs)
}

/// Returns the time before the measured time in a cell, and the measured time.
fn times(study: &Rivals, cell: Cell, size: Size) -> (Duration, Duration) {
    let [warmup, measured] =
        [study.warmup, study.milliseconds].map(|count| Duration::from_ms(size.of(count) as i64));
    let packets = cell.rate.bytes_in(warmup + measured).get() as f64 / PACKET as f64;
    let share = (MOST_PACKETS / packets).min(1.0);
    (warmup.scale(share), measured.scale(share))
}

fn scenario(study: &Rivals, cell: Cell, variant: Variant, size: Size) -> String {
    let system = variant.system;
    let (warmup, measured) = times(study, cell, size);
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

/// Extracts the numbers of a run whose flows take this much longer with the opening of their connections. Simulated
/// connections are open, but the first round trip of an explicit flow brings its rate and carries one segment: in a
/// connection that has to be opened the SYN would, and the data come a round trip later for all systems.
fn numbers(results: &Results, opening: Duration) -> Numbers {
    let link = &results.summary.links[0];
    let of = |size: &u64| {
        let group = results.completion_times.iter().find(|(name, _)| *name == size.to_string());
        group.map(|(_, times)| times).filter(|times| times.count() > 0)
    };
    let median = |size| of(&size).map(|times| (times.quantile(0.5) + opening).ms());
    let mut times = Histogram::default();
    REPORTED.iter().filter_map(of).for_each(|group| times.merge(group));
    let stay = results.summary.groups.iter().find(|group| group.name == "stay");
    let completion = |part| (times.count() > 0).then(|| (times.quantile(part) + opening).ms());
    Numbers {
        utilisation: 100.0 * link.utilisation.unwrap_or_default(),
        queue_median: results.delays[0].quantile(0.5).ms(),
        queue_p95: results.delays[0].quantile(0.95).ms(),
        jain: stay.map(|group| group.total.fairness),
        completion_median: completion(0.5),
        completion_p99: completion(0.99),
        completion_100: median(REPORTED[0]),
        completion_300: median(REPORTED[1]),
        completion_1000: median(REPORTED[2]),
        dropped: 100.0 * link.dropped as f64 / link.arrived.max(1) as f64,
    }
}

fn evaluate(cells: &[Cell], variants: &[Variant], numbers: &[Numbers], runs: usize) -> Findings {
    let columns = [
        "link Mb/s and load",
        "system",
        "utilisation %",
        "median queue ms",
        "p95 queue ms",
        "fairness",
        "median completion ms",
        "p99 completion ms",
        "median of 100 kB ms",
        "median of 300 kB ms",
        "median of 1 MB ms",
        "dropped %",
    ];
    let mut findings = Findings { table: Table::new(columns), ..Findings::default() };
    let mut chunks = numbers.chunks(runs);
    for cell in cells {
        for (variant, runs) in variants.iter().zip(&mut chunks) {
            let mut row = vec![cell.name(), variant.name()];
            for (what, number) in NUMBERS {
                let values = sorted(runs.iter().filter_map(number).filter(|n| !n.is_nan()).collect());
                let median = quantile(&values, 0.5);
                row.push(if median.is_nan() { String::new() } else { format!("{median:.3}") });
                let name = format!("{}/{}/{what}", variant.name(), cell.name());
                findings.measures.insert(format!("{name}/least"), quantile(&values, 0.0));
                findings.measures.insert(format!("{name}/most"), quantile(&values, 1.0));
                findings.measures.insert(name, median);
            }
            findings.table.rows.push(row);
        }
    }
    findings.figure = figure(&findings, cells, variants);
    findings
}

/// Adds the bound of a cell with flows that come and go: equal parts of the link at every moment, one RTT for the opening
/// of the connection and one for the data and the last ACK.
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
    for (what, _) in NUMBERS {
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

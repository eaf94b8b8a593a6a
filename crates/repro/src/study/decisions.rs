//! Decisions on single-rate streams (rapid B2, B3, B5, A1; bass P1 to P4).

use headway_estimate::{Decision, Schedule, Scratch, Settings, SingleRate, StreamRecord};
use headway_figures::{Figure, Stack, StackPanel};
use headway_host::nic::{Stamp, stamps};
use headway_traffic::random;
use headway_units::{Duration, Instant};
use rand::{Rng, RngExt as _};
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::{Count, Path, Sweep, gbps};
use crate::job::Job;
use crate::outcome::{Findings, Measures, Table};
use crate::statistics::{largest, mean, smallest};

/// Accuracy of the decisions on single-rate streams.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decisions {
    /// Names of the methods ([`headway_estimate::SingleRate`]). With ` @exit`, a method sees the gaps
    /// right behind the bottleneck; with ` @busy`, those of a NIC that another packet woke up less than
    /// one interval before.
    methods: Vec<String>,
    /// Stream lengths in packets.
    lengths: Vec<usize>,
    /// Rates in Gb/s.
    rates: Sweep,
    /// Streams per rate.
    streams: Count,
}

/// Streams sent by one testbed, as one part of the work.
const STREAMS_AT_ONCE: usize = 250;

/// Rates further than this from the available bandwidth count as easy (rapid 4.6, H5), in Gb/s.
const AWAY: f64 = 0.75;

/// A method as named in the experiment file.
struct Judge {
    name: String,
    method: SingleRate,
    sees: Sees,
}

/// The gaps presented to a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sees {
    /// Gaps at the receiver, whose NIC was idle when the stream arrived.
    Receiver,
    /// Gaps at a receiver whose NIC raised an interrupt for another packet less than one interval before.
    Busy,
    /// Gaps right behind the bottleneck.
    Exit,
}

/// A batch of streams of one length and rate.
struct Part {
    length: usize,
    rate: f64,
    streams: usize,
}

/// Numbers of right, wrong, ambiguous and refused streams.
type Tally = [usize; 4];

/// Returns a tally in percent of all streams.
fn percent(tally: &Tally) -> [f64; 4] {
    let all = tally.iter().sum::<usize>().max(1);
    tally.map(|count| 100.0 * count as f64 / all as f64)
}

/// Results of one testbed: a tally per method, the number of streams above the available bandwidth, and its
/// average in Gb/s.
struct Statistics {
    tallies: Vec<Tally>,
    above: usize,
    streams: usize,
    available: f64,
}

impl Study for Decisions {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let judges: Vec<Judge> = self.methods.iter().filter_map(|name| Judge::named(name)).collect();
        let rates = self.rates.values();
        let mut parts = Vec::new();
        for length in &self.lengths {
            for rate in &rates {
                let mut left = job.of(self.streams);
                while left > 0 {
                    let streams = left.min(STREAMS_AT_ONCE);
                    parts.push(Part { length: *length, rate: *rate, streams });
                    left -= streams;
                }
            }
        }
        let stats = job.map(&parts, |index, part| {
            let seed = job.seed(index);
            judge_streams(part, &judges, job, seed)
        })?;
        let mut findings =
            Findings::with_table("method,packets,rate Gb/s,right %,wrong %,ambiguous %,refused %");
        let mut panels = Vec::new();
        let available = mean(&stats.iter().map(|stats| stats.available).collect::<Vec<_>>());
        for length in &self.lengths {
            let cell = |rate: &f64| {
                let here = parts.iter().zip(&stats).filter(|(p, _)| p.length == *length && p.rate == *rate);
                here.map(|(_, stats)| stats).collect::<Vec<_>>()
            };
            let cells: Vec<Vec<&Statistics>> = rates.iter().map(cell).collect();
            let null: Vec<Tally> = cells.iter().map(|cell| constant(cell)).collect();
            let mut rows: Vec<(&str, Vec<Tally>)> = Vec::new();
            for (number, judge) in judges.iter().enumerate() {
                let total = |cell: &Vec<&Statistics>| -> Tally {
                    std::array::from_fn(|kind| cell.iter().map(|stats| stats.tallies[number][kind]).sum())
                };
                rows.push((&judge.name, cells.iter().map(total).collect()));
            }
            for (name, _) in &rows {
                measure(&mut findings.nulls, name, *length, &rates, &null, available);
            }
            rows.push(("null", null));
            for (name, tallies) in rows {
                measure(&mut findings.measures, name, *length, &rates, &tallies, available);
                tabulate(&mut findings.table, name, *length, &rates, &tallies);
                panels.push(panel(name, *length, &rates, &tallies));
            }
        }
        findings.measures.insert("path/available".to_owned(), available);
        findings.remarks.push(format!(
        "{available:.2} Gb/s were available on average. The null estimator gives the more frequent answer of each rate \
         regardless of the stream."
    ));
        findings.figure = Figure::Stacks {
            panels,
            columns: judges.len() + 1,
            names: ["right", "wrong", "ambiguous", "refused"],
            axis: "rate sent, Gb/s",
        };
        Ok(findings)
    }
}

impl Judge {
    fn named(name: &str) -> Option<Judge> {
        let (plain, sees) = match name.split_once(" @") {
            None => (name, Sees::Receiver),
            Some((plain, "busy")) => (plain, Sees::Busy),
            Some((plain, "exit")) => (plain, Sees::Exit),
            Some(_) => return None,
        };
        let method = SingleRate::ALL.into_iter().find(|method| method.name() == plain)?;
        Some(Judge { name: name.to_owned(), method, sees })
    }
}

fn judge_streams(part: &Part, judges: &[Judge], job: &Job<'_>, seed: u64) -> Result<Statistics, Error> {
    let path = &job.experiment.path;
    let mut testbed = path.testbed(None, seed);
    let schedule = Schedule::single_rate(gbps(part.rate), part.length, path.packet);
    let (settings, mut scratch) = (Settings::default(), Scratch::default());
    let mut stats =
        Statistics { tallies: vec![Tally::default(); judges.len()], above: 0, streams: 0, available: 0.0 };
    let mut rng = random::generator(seed, "busy card", 0);
    let busy = judges.iter().any(|judge| judge.sees == Sees::Busy);
    for _ in 0..part.streams {
        job.check()?;
        let observed = testbed.send(&schedule, path.silence);
        if !observed.complete {
            continue;
        }
        let above = gbps(part.rate) > observed.available;
        stats.streams += 1;
        stats.above += usize::from(above);
        stats.available += observed.available.mbps() / 1e3;
        let truth = if above { Decision::Above } else { Decision::NotAbove };
        let at_busy_nic = busy.then(|| at_busy_nic(&observed.exits, path, &mut rng));
        for (judge, tally) in judges.iter().zip(&mut stats.tallies) {
            let record = match judge.sees {
                Sees::Receiver => &observed.record,
                Sees::Busy => at_busy_nic.as_ref().unwrap_or(&observed.record),
                Sees::Exit => &observed.exits,
            };
            let kind = match judge.method.decide(record, &settings, &mut scratch) {
                Ok(Decision::Ambiguous) => 2,
                Ok(decision) => usize::from(decision != truth),
                Err(_) => 3,
            };
            tally[kind] += 1;
        }
    }
    stats.available /= stats.streams.max(1) as f64;
    Ok(stats)
}

/// Returns a complete stream as timestamped by a NIC that raised an interrupt for another packet less than
/// one interval before the first one.
fn at_busy_nic(exits: &StreamRecord, path: &Path, rng: &mut impl Rng) -> StreamRecord {
    let mut record = exits.clone();
    let Some(nic) = path.nic() else { return record };
    let mut times: Vec<Instant> = exits.arrivals.iter().filter_map(|arrival| arrival.received).collect();
    if let Some(first) = times.first().copied() {
        let before = Duration::from_ns(rng.random_range(0..path.coalescing.ns()));
        times.insert(0, first - before);
    }
    let stamps = stamps(nic, Stamp::Driver, &times, random::generator(rng.random(), "nic", 0));
    for (arrival, stamp) in record.arrivals.iter_mut().zip(stamps.into_iter().skip(1)) {
        arrival.received = Some(stamp);
    }
    record
}

/// Returns the tally of an estimator that always gives the more frequent correct decision for these streams.
fn constant(cell: &[&Statistics]) -> Tally {
    let streams: usize = cell.iter().map(|stats| stats.streams).sum();
    let above: usize = cell.iter().map(|stats| stats.above).sum();
    let right = above.max(streams - above);
    [right, streams - right, 0, 0]
}

fn measure(
    measures: &mut Measures,
    name: &str,
    length: usize,
    rates: &[f64],
    tallies: &[Tally],
    available: f64,
) {
    let percents: Vec<[f64; 4]> = tallies.iter().map(percent).collect();
    let mut insert = |what: &str, value: f64| {
        measures.insert(format!("{name} {length}/{what}"), value);
    };
    let column = |number: usize| percents.iter().map(move |percent| percent[number]);
    let at = |keep: &dyn Fn(f64) -> bool, number: usize| -> Vec<f64> {
        let kept = rates.iter().zip(&percents).filter(|(rate, _)| keep(**rate));
        kept.map(|(_, percent)| percent[number]).collect()
    };
    let away = |rate: f64| (rate - available).abs() > AWAY;
    insert("right-least", smallest(column(0)));
    insert("right-mean", mean(&column(0).collect::<Vec<_>>()));
    insert("right-least-away", smallest(at(&away, 0)));
    insert("wrong-most", largest(column(1)));
    insert("wrong-mean", mean(&column(1).collect::<Vec<_>>()));
    insert("wrong-most-away", largest(at(&away, 1)));
    insert("wrong-most-above-7.5", largest(at(&|rate| rate > 7.5, 1)));
    insert("ambiguous-mean", mean(&column(2).collect::<Vec<_>>()));
    insert("ambiguous-most", largest(column(2)));
    insert("ambiguous-rates-above-50", column(2).filter(|percent| *percent > 50.0).count() as f64);
    let sum = |number: usize| column(number).sum::<f64>();
    insert("wrong-of-decided", 100.0 * sum(1) / (sum(0) + sum(1)).max(1e-9));
    for (rate, percent) in rates.iter().zip(&percents) {
        insert(&format!("wrong-at-{rate}"), percent[1]);
        insert(&format!("ambiguous-at-{rate}"), percent[2]);
    }
}

fn tabulate(table: &mut Table, name: &str, length: usize, rates: &[f64], tallies: &[Tally]) {
    for (rate, tally) in rates.iter().zip(tallies) {
        let mut row = vec![name.to_owned(), length.to_string(), format!("{rate:.1}")];
        row.extend(percent(tally).map(|percent| format!("{percent:.1}")));
        table.rows.push(row);
    }
}

fn panel(name: &str, length: usize, rates: &[f64], tallies: &[Tally]) -> StackPanel {
    let stacks = rates
        .iter()
        .zip(tallies)
        .map(|(rate, tally)| Stack { label: format!("{rate}"), parts: percent(tally) })
        .collect();
    StackPanel { title: format!("{name}, {length} packets"), stacks }
}

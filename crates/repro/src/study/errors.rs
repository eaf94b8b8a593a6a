//! Error of estimates from multi-rate streams (rapid B7 to B13; bass P6 to P10).

use headway_core::denoise::{Denoise, SpikeThresholds, bass_pass};
use headway_core::estimate::{Excursion, prc_mt};
use headway_core::stream::{Arrival, DelayedAcks};
use headway_core::{Bytes, Duration, Gaps, Rate, Refusal, Schedule, StreamRecord};
use headway_sim::testbed::Observed;
use headway_traffic::random;
use rand::RngExt as _;

use super::path::gbps;
use crate::context::{Context, Error};
use crate::experiment::{Denoising, Errors, Estimator, Experiment, Read, Variant};
use crate::outcome::{Findings, Measures, Table};
use crate::statistics::{mean, percent, quantile, sorted};
use headway_figures::{BoxMark, Figure};

/// Streams of one shape with one kind of cross traffic, and the variants that read them.
struct Group<'a> {
    read: Read,
    variants: Vec<&'a Variant>,
}

/// Number of parts among which the averages of a group are dealt, each with its own testbed.
const PARTS: usize = 12;

/// Back-to-back streams in a train.
const TRAIN: usize = 50;

/// Relative errors of a variant, and the number of streams it refused.
#[derive(Clone, Debug, Default)]
struct Scores {
    errors: Vec<f64>,
    refused: usize,
}

/// Results of one testbed: the scores of each variant of its group, and those of the null estimator.
struct Statistics {
    variants: Vec<Scores>,
    null: Scores,
    available: Vec<f64>,
}

pub(super) fn run(study: &Errors, experiment: &Experiment, context: &Context<'_>) -> Result<Findings, Error> {
    let groups = groups(study);
    let parts: Vec<(usize, usize)> =
        (0..groups.len()).flat_map(|group| (0..PARTS).map(move |part| (group, part))).collect();
    let stats = context.map(&parts, |_, (group, part)| {
        // Groups with the same stream length meet the same traffic, so that they can be compared.
        let seed = context.seed_of(&experiment.id, *part);
        send_streams(&groups[*group], *part, study, experiment, context, seed)
    })?;
    let mut findings = Findings {
        table: Table::new([
            "variant",
            "streams",
            "refused",
            "p5 %",
            "p25 %",
            "median %",
            "p75 %",
            "p95 %",
            "within 10 %",
            "within 15 %",
        ]),
        ..Findings::default()
    };
    let mut marks = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let here: Vec<&Statistics> =
            parts.iter().zip(&stats).filter(|(part, _)| part.0 == number).map(|(_, stats)| stats).collect();
        let null = gather(here.iter().map(|stats| &stats.null));
        for (index, variant) in group.variants.iter().enumerate() {
            let scores = gather(here.iter().map(|stats| &stats.variants[index]));
            measure(&mut findings.nulls, &variant.name, &null);
            measure(&mut findings.measures, &variant.name, &scores);
            findings.table.rows.push(row(&variant.name, &scores));
            marks.push(mark(&variant.name, &scores, false));
        }
        let name = if groups.len() == 1 {
            "null".to_owned()
        } else {
            format!("null of {}", group.variants.first().map_or("", |variant| &variant.name))
        };
        findings.table.rows.push(row(&name, &null));
        marks.push(mark(&name, &null, true));
        if number == 0 {
            let available: Vec<f64> = here.iter().flat_map(|stats| stats.available.iter().copied()).collect();
            findings.measures.insert("path/available".to_owned(), mean(&available));
        }
    }
    findings.remarks.push(
        "Only streams count whose rates lie on both sides of what was available. The null estimator answers the average rate of \
         the stream."
            .to_owned(),
    );
    findings.figure = Figure::Boxes { axis: "relative error of the estimate, %".to_owned(), marks };
    Ok(findings)
}

fn groups(study: &Errors) -> Vec<Group<'_>> {
    let group = |read: Read| {
        let reads = |variant: &&Variant| study.read_by(variant) == read;
        Group { read, variants: study.variants.iter().filter(reads).collect() }
    };
    study.streams_read().into_iter().map(group).collect()
}

fn send_streams(
    group: &Group<'_>,
    part: usize,
    study: &Errors,
    experiment: &Experiment,
    context: &Context<'_>,
    seed: u64,
) -> Result<Statistics, Error> {
    let path = &experiment.path;
    let mut testbed = path.testbed(group.read.cross, seed);
    let mut stats = Statistics {
        variants: vec![Scores::default(); group.variants.len()],
        null: Scores::default(),
        available: Vec::new(),
    };
    let mut memory = Memory::default();
    for train in trains(group, part, study, experiment, context, seed) {
        context.check()?;
        // Only the first stream of a train meets an empty queue and an idle NIC.
        for observed in testbed.send_train(&train, path.silence).iter().skip(1) {
            stats.available.push(observed.available.mbps() / 1e3);
            if observed.complete && covered(observed) {
                score(group, observed, &mut memory, &mut stats);
            }
        }
    }
    Ok(stats)
}

/// Returns the streams of a part in random order, in trains that begin with a stream that is not evaluated.
fn trains(
    group: &Group<'_>,
    part: usize,
    study: &Errors,
    experiment: &Experiment,
    context: &Context<'_>,
    seed: u64,
) -> Vec<Vec<Schedule>> {
    let averages = group.read.averages.values().into_iter().skip(part).step_by(PARTS);
    let count = context.size.of(study.streams);
    let mut averages: Vec<f64> = averages.flat_map(|average| std::iter::repeat_n(average, count)).collect();
    let mut rng = random::generator(seed, "order", 0);
    for last in (1..averages.len()).rev() {
        averages.swap(last, rng.random_range(0..=last));
    }
    let schedule = |average: &f64| group.read.shape.schedule(gbps(*average), experiment.path.packet);
    averages.chunks(TRAIN).map(|train| train[..1].iter().chain(train).map(schedule).collect()).collect()
}

fn score(group: &Group<'_>, observed: &Observed, memory: &mut Memory, stats: &mut Statistics) {
    let error = |estimate: Rate| 100.0 * (estimate.bps_f64() / observed.available.bps_f64() - 1.0);
    stats.null.errors.push(error(observed.record.average));
    for (variant, scores) in group.variants.iter().zip(&mut stats.variants) {
        match estimate(variant, &observed.record, memory) {
            Ok(rate) => scores.errors.push(error(rate)),
            Err(_) => scores.refused += 1,
        }
    }
}

/// Whether the available bandwidth lies within the range of the probing rates (rapid 2.16).
fn covered(observed: &Observed) -> bool {
    let intended = &observed.record.intended;
    let rate = |gap: Option<&Duration>| gap.and_then(|gap| Rate::of(observed.record.packet, *gap));
    rate(intended.first()) <= Some(observed.available) && Some(observed.available) <= rate(intended.last())
}

/// Scratch buffers of the estimators.
#[derive(Default)]
struct Memory {
    gaps: Gaps,
    means: Vec<Duration>,
}

fn estimate(variant: &Variant, record: &StreamRecord, memory: &mut Memory) -> Result<Rate, Refusal> {
    let Memory { gaps, means } = memory;
    if variant.packets_per_stamp > 1 {
        delayed_gaps(record, variant.packets_per_stamp, gaps)?;
    } else {
        record.gaps(gaps)?;
    }
    let denoise = Denoise::default().with_window(variant.window);
    match variant.denoise {
        Denoising::None => {}
        Denoising::SinglePass => {
            denoise.first_pass(gaps)?;
        }
        Denoising::SinglePassWithEnds => {
            bass_pass(&mut gaps.send, &mut gaps.receive, SpikeThresholds::from_us(20, 10));
        }
        Denoising::MultiPass => {
            denoise.apply(gaps, means)?;
        }
    }
    let pick = |by| prc_mt::pick(by, record.packet, &record.intended, gaps, prc_mt::TOLERANCE);
    let estimate = match variant.estimator {
        Estimator::Excursion => {
            let excursion = Excursion { margin: variant.margin, ..Excursion::default() };
            excursion.estimate(record.packet, gaps)
        }
        Estimator::LastExcursion => return last_excursion(record.packet, gaps, variant.margin),
        Estimator::Dp1 => pick(prc_mt::Pick::BeforeFirstAbove),
        Estimator::Dp2 => pick(prc_mt::Pick::LastNotAbove),
    }?;
    Ok(estimate.rate)
}

/// Returns the rate before the excursion at the end of the stream; without one, the highest rate.
fn last_excursion(packet: Bytes, gaps: &Gaps, margin: Duration) -> Result<Rate, Refusal> {
    let congested = |i: &usize| gaps.receive[*i] > gaps.send[*i] + margin;
    let run = (0..gaps.len()).rev().take_while(congested).count();
    let run = if run >= Excursion::default().min_length { run } else { 0 };
    let before = (gaps.len() - run).saturating_sub(1);
    gaps.send.get(before).and_then(|gap| Rate::of(packet, *gap)).ok_or(Refusal::TooShort)
}

/// Returns the gaps of a stream in which only every `every`-th packet has a timestamp (rapid 2.8).
fn delayed_gaps(record: &StreamRecord, every: usize, gaps: &mut Gaps) -> Result<(), Refusal> {
    let stamp = |arrival: &Arrival| {
        arrival
            .received
            .filter(|_| (arrival.index as usize).is_multiple_of(every))
            .map(|at| (at.ns() / 1_000) as u32)
    };
    let (mut acks, mut before) = (DelayedAcks::default(), None);
    for arrival in &record.arrivals {
        let gap = before.map_or(Duration::ZERO, |before| arrival.sent - before);
        acks.push(gap, stamp(arrival));
        before = Some(arrival.sent);
    }
    // The packets after the last timestamp have no gaps.
    let packets = (record.arrivals.len() - 1) / every * every + 1;
    if acks.take(packets, gaps) { Ok(()) } else { Err(Refusal::TooShort) }
}

fn gather<'a>(scores: impl Iterator<Item = &'a Scores>) -> Scores {
    let mut all = Scores::default();
    for scores in scores {
        all.errors.extend_from_slice(&scores.errors);
        all.refused += scores.refused;
    }
    all.errors = sorted(all.errors);
    all
}

fn measure(measures: &mut Measures, name: &str, scores: &Scores) {
    let errors = &scores.errors;
    let mut insert = |what: &str, value: f64| {
        measures.insert(format!("{name}/{what}"), value);
    };
    insert("streams", errors.len() as f64);
    for (what, part) in [("p5", 0.05), ("p25", 0.25), ("median", 0.5), ("p75", 0.75), ("p95", 0.95)] {
        insert(what, quantile(errors, part));
    }
    insert("reach", quantile(errors, 0.95).abs().max(quantile(errors, 0.05).abs()));
    insert("span", quantile(errors, 0.95) - quantile(errors, 0.05));
    insert("within-10", percent(errors, |error| error.abs() <= 10.0));
    insert("within-15", percent(errors, |error| error.abs() <= 15.0));
    insert("over-10", percent(errors, |error| error > 10.0));
    insert("low", percent(errors, |error| error < 0.0));
    insert("high", percent(errors, |error| error > 0.0));
}

fn row(name: &str, scores: &Scores) -> Vec<String> {
    let errors = &scores.errors;
    let mut row = vec![name.to_owned(), errors.len().to_string(), scores.refused.to_string()];
    row.extend([0.05, 0.25, 0.5, 0.75, 0.95].map(|part| format!("{:+.2}", quantile(errors, part))));
    row.extend([10.0, 15.0].map(|limit| format!("{:.1}", percent(errors, |error| error.abs() <= limit))));
    row
}

fn mark(name: &str, scores: &Scores, null: bool) -> BoxMark {
    let quantiles = [0.05, 0.25, 0.5, 0.75, 0.95].map(|part| quantile(&scores.errors, part));
    BoxMark { name: name.to_owned(), quantiles, null }
}

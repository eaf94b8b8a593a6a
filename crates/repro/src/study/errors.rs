//! Error of estimates from multi-rate streams (rapid B7 to B13, R1; bass P6 to P10).

use headway_estimate::denoise::{Denoise, SpikeThresholds, bass_pass, centred_mean};
use headway_estimate::stream::{Arrival, DelayedAcks};
use headway_estimate::{Excursion, Gaps, Refusal, Schedule, StreamRecord, prc_mt};
use headway_figures::{BoxMark, Figure};
use headway_sim::testbed::Observed;
use headway_traffic::random;
use headway_units::{Bytes, Duration, Rate};
use rand::RngExt as _;
use serde::{Deserialize, Serialize};

use super::Study;
use super::scores::{Distribution, Scores};
use crate::context::Error;
use crate::experiment::{Count, Cross, StreamShape, Sweep, gbps};
use crate::job::Job;
use crate::outcome::{Findings, Measures};
use crate::statistics::{mean, percent, quantile};

/// Error of estimates from multi-rate streams.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Errors {
    /// Average rates of the streams in Gb/s.
    averages: Sweep,
    /// Streams per average rate, or groups of streams with the same truth.
    streams: Count,
    /// The estimators, each with its input streams.
    #[serde(rename = "variant")]
    variants: Vec<Variant>,
}

/// A set of streams that variants read.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Read {
    /// Shape of the streams.
    shape: StreamShape,
    /// Consecutive streams at the same average rate.
    together: usize,
    /// Cross traffic, if it differs from that of the path.
    cross: Option<Cross>,
    /// Average rates in Gb/s.
    averages: Sweep,
}

/// An estimator with its settings and input streams.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    /// Name in tables and in the keys of claims.
    name: String,
    /// Shape of the streams; variants with the same shape read the same streams.
    shape: StreamShape,
    /// Consecutive streams at the same average rate; the truth is the available bandwidth during all of them.
    #[serde(default = "one")]
    streams_per_truth: usize,
    /// Streams whose estimates are averaged before they are compared with the truth (rapid 2.12).
    #[serde(default = "one")]
    gamma: usize,
    /// Cross traffic, if it differs from that of the path.
    cross: Option<Cross>,
    /// Average rates in Gb/s, if they differ from those of the study.
    averages: Option<Sweep>,
    /// Denoising method.
    #[serde(default)]
    denoise: Denoising,
    /// The estimator.
    #[serde(default)]
    estimator: Estimator,
    /// Window of the final mean, in gaps.
    #[serde(default = "usual_window")]
    window: usize,
    /// Smallest excess of a receive gap that counts as congestion.
    #[serde(default = "usual_margin")]
    margin: Duration,
    /// The same as a share of the send gap, where that is more.
    #[serde(default)]
    relative_margin: f64,
    /// Where the receive gaps are from.
    #[serde(default)]
    input: Input,
    /// Packets per timestamp; 2 with delayed ACKs.
    #[serde(default = "one")]
    packets_per_stamp: usize,
}

headway_units::defaults! {
    usual_window: usize = 16;
    usual_margin: Duration = Duration::from_ns(100);
    one: usize = 1;
}

/// Where the receive gaps of a variant are from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Input {
    /// The stamps of the receiver.
    #[default]
    Stamps,
    /// Right behind the bottleneck, before the receiver's card.
    Bottleneck,
    /// A fluid that leaves free throughout what was free during the stream.
    Fluid,
}

/// The denoising applied to gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Denoising {
    /// No denoising.
    None,
    /// Only the final mean.
    Window,
    /// One pass of BASS, and removal of truncated events (rapid 2.9).
    SinglePass,
    /// One pass of BASS as printed, including the events truncated by the ends of the stream.
    SinglePassWithEnds,
    /// All passes of BASS, and the final mean (rapid 2.10).
    #[default]
    MultiPass,
}

/// The method that turns gaps into an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Estimator {
    /// The excursion search of Rapid (rapid 2.11).
    #[default]
    Excursion,
    /// The rate before the last excursion if that lasts to the end of the stream, otherwise the highest rate.
    LastExcursion,
    /// PRC-MT at each rate; the last rate before the first that is judged above (bass P10).
    Dp1,
    /// PRC-MT at each rate; the last rate that is judged not above (bass P10).
    Dp2,
}

/// Streams of one shape with one kind of cross traffic, and the variants that read them.
struct Group<'a> {
    read: Read,
    variants: Vec<&'a Variant>,
}

/// Number of parts among which the averages of a group are dealt, each with its own testbed.
const PARTS: usize = 12;

/// Back-to-back streams in a train.
const TRAIN: usize = 50;

/// Results of one testbed: the scores of each variant of its group, and those of the null estimator.
struct Statistics {
    variants: Vec<Scores>,
    null: Scores,
    available: Vec<f64>,
}

impl Study for Errors {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let groups = groups(self);
        let parts: Vec<(usize, usize)> =
            (0..groups.len()).flat_map(|group| (0..PARTS).map(move |part| (group, part))).collect();
        let stats = job.map(&parts, |_, (group, part)| {
            // Groups with the same stream length meet the same traffic, so that they can be compared.
            let seed = job.seed(*part);
            send_streams(&groups[*group], *part, self, job, seed)
        })?;
        let mut findings = Findings::with_table(
            "variant,streams,refused,p5 %,p25 %,median %,p75 %,p95 %,within 10 %,within 15 %",
        );
        let mut marks = Vec::new();
        for (number, group) in groups.iter().enumerate() {
            let here: Vec<&Statistics> = parts
                .iter()
                .zip(&stats)
                .filter(|(part, _)| part.0 == number)
                .map(|(_, stats)| stats)
                .collect();
            let null = Distribution::of(here.iter().map(|stats| &stats.null));
            for (index, variant) in group.variants.iter().enumerate() {
                let scores = Distribution::of(here.iter().map(|stats| &stats.variants[index]));
                measure(&mut findings.nulls, &variant.name, &null);
                measure(&mut findings.measures, &variant.name, &scores);
                findings.measures.insert(format!("{}/scatter", variant.name), scores.scatter());
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
                let available: Vec<f64> =
                    here.iter().flat_map(|stats| stats.available.iter().copied()).collect();
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
}

/// Groups the variants by the streams that they read.
fn groups(study: &Errors) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for variant in &study.variants {
        let read = Read {
            shape: variant.shape,
            together: variant.streams_per_truth,
            cross: variant.cross,
            averages: variant.averages.unwrap_or(study.averages),
        };
        match groups.iter_mut().find(|group| group.read == read) {
            Some(group) => group.variants.push(variant),
            None => groups.push(Group { read, variants: vec![variant] }),
        }
    }
    groups
}

fn send_streams(
    group: &Group<'_>,
    part: usize,
    study: &Errors,
    job: &Job<'_>,
    seed: u64,
) -> Result<Statistics, Error> {
    let path = &job.experiment.path;
    let mut testbed = path.testbed(group.read.cross, seed);
    let mut stats = Statistics {
        variants: vec![Scores::default(); group.variants.len()],
        null: Scores::default(),
        available: Vec::new(),
    };
    let mut memory = Memory::default();
    for train in trains(group, part, study, job, seed) {
        job.check()?;
        // Only the first stream of a train meets an empty queue and an idle NIC.
        for streams in testbed.send_train(&train, path.silence)[1..].chunks(group.read.together) {
            let available = available(streams);
            stats.available.push(available.mbps() / 1e3);
            if streams.iter().all(|stream| stream.complete) && covered(&streams[0], available) {
                score(group, streams, (path.capacity, available), &mut memory, &mut stats);
            }
        }
    }
    Ok(stats)
}

/// Returns the streams of a part in random order, in trains that begin with a stream that is not evaluated.
fn trains(group: &Group<'_>, part: usize, study: &Errors, job: &Job<'_>, seed: u64) -> Vec<Vec<Schedule>> {
    let averages = group.read.averages.values().into_iter().skip(part).step_by(PARTS);
    let count = job.of(study.streams);
    let mut averages: Vec<f64> = averages.flat_map(|average| std::iter::repeat_n(average, count)).collect();
    let mut rng = random::generator(seed, "order", 0);
    for last in (1..averages.len()).rev() {
        averages.swap(last, rng.random_range(0..=last));
    }
    let Read { shape, together, .. } = group.read;
    let schedule = |average: &f64| shape.schedule(gbps(*average), job.experiment.path.packet);
    let train = |averages: &[f64]| {
        let repeated = averages.iter().flat_map(|average| std::iter::repeat_n(average, together));
        averages[..1].iter().chain(repeated).map(schedule).collect()
    };
    averages.chunks((TRAIN / together).max(1)).map(train).collect()
}

fn score(
    group: &Group<'_>,
    streams: &[Observed],
    (capacity, available): (Rate, Rate),
    memory: &mut Memory,
    stats: &mut Statistics,
) {
    let error = |estimate: f64| 100.0 * (estimate / available.bps_f64() - 1.0);
    let null = error(streams[0].record.average.bps_f64());
    stats.null.add(null, null);
    for (variant, scores) in group.variants.iter().zip(&mut stats.variants) {
        for averaged in streams.chunks(variant.gamma) {
            let estimates = averaged.iter().flat_map(|stream| estimate(variant, stream, capacity, memory));
            let estimates: Vec<f64> = estimates.map(Rate::bps_f64).collect();
            if estimates.is_empty() {
                scores.refuse();
            } else {
                scores.add(error(mean(&estimates)), null);
            }
        }
    }
}

/// Returns the available bandwidth during consecutive streams.
fn available(streams: &[Observed]) -> Rate {
    let (mut bits, mut seconds) = (0.0, 0.0);
    for stream in streams {
        let mut exits = stream.exits.arrivals.iter().filter_map(|arrival| arrival.received);
        let time = exits.next().zip(exits.next_back()).map_or(0.0, |(first, last)| (last - first).secs_f64());
        bits += stream.available.bps_f64() * time;
        seconds += time;
    }
    Rate::from_bps_f64(bits / seconds)
}

/// Whether the available bandwidth lies within the range of a stream's probing rates (rapid 2.16).
fn covered(stream: &Observed, available: Rate) -> bool {
    let intended = &stream.record.intended;
    let rate = |gap: Option<&Duration>| gap.and_then(|gap| Rate::of(stream.record.packet, *gap));
    rate(intended.first()) <= Some(available) && Some(available) <= rate(intended.last())
}

/// Scratch buffers of the estimators.
#[derive(Default)]
struct Memory {
    gaps: Gaps,
    means: Vec<Duration>,
}

fn estimate(
    variant: &Variant,
    stream: &Observed,
    capacity: Rate,
    memory: &mut Memory,
) -> Result<Rate, Refusal> {
    let Memory { gaps, means } = memory;
    let record = if variant.input == Input::Bottleneck { &stream.exits } else { &stream.record };
    if variant.packets_per_stamp > 1 {
        delayed_gaps(record, variant.packets_per_stamp, gaps)?;
    } else {
        record.gaps(gaps)?;
    }
    if variant.input == Input::Fluid {
        flow(gaps, capacity, stream.available, record.packet);
    }
    let denoise = Denoise::default().with_window(variant.window);
    match variant.denoise {
        Denoising::None => {}
        Denoising::Window => {
            centred_mean(&mut gaps.send, variant.window, means);
            centred_mean(&mut gaps.receive, variant.window, means);
        }
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
            excursion.with_relative_margin(variant.relative_margin).estimate(record.packet, gaps)
        }
        Estimator::LastExcursion => return last_excursion(record.packet, gaps, variant.margin),
        Estimator::Dp1 => pick(prc_mt::Pick::BeforeFirstAbove),
        Estimator::Dp2 => pick(prc_mt::Pick::LastNotAbove),
    }?;
    Ok(estimate.rate)
}

/// Replaces receive gaps by those behind a link of `capacity`, of which a fluid leaves `available`, with an
/// empty queue before it.
fn flow(gaps: &mut Gaps, capacity: Rate, available: Rate, packet: Bytes) {
    let own = capacity.time_for(packet);
    let others = 1.0 - available.bps_f64() / capacity.bps_f64();
    for (send, receive) in gaps.send.iter().zip(&mut gaps.receive) {
        *receive = (own + send.scale(others)).max(*send);
    }
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

fn measure(measures: &mut Measures, name: &str, scores: &Distribution) {
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

fn row(name: &str, scores: &Distribution) -> Vec<String> {
    let errors = &scores.errors;
    let mut row = vec![name.to_owned(), errors.len().to_string(), scores.refused.to_string()];
    row.extend([0.05, 0.25, 0.5, 0.75, 0.95].map(|part| format!("{:+.2}", quantile(errors, part))));
    row.extend([10.0, 15.0].map(|limit| format!("{:.1}", percent(errors, |error| error.abs() <= limit))));
    row
}

fn mark(name: &str, scores: &Distribution, null: bool) -> BoxMark {
    let quantiles = [0.05, 0.25, 0.5, 0.75, 0.95].map(|part| quantile(&scores.errors, part));
    BoxMark { name: name.to_owned(), quantiles, null }
}

#[cfg(test)]
mod tests {
    use headway_units::Instant;

    use super::*;
    use crate::catalogue;

    /// Returns a stream of two packets that leave the bottleneck at these times.
    fn stream(available: f64, exits: [i64; 2]) -> Observed {
        let packet = Bytes::new(9038);
        let arrival = |(index, ms): (usize, i64)| Arrival {
            index: index as u32,
            size: packet,
            sent: Instant::ZERO,
            received: Some(Instant::ZERO + Duration::from_ms(ms)),
        };
        let record = StreamRecord {
            id: 0,
            packet,
            average: gbps(5.0),
            intended: Vec::new(),
            arrivals: exits.into_iter().enumerate().map(arrival).collect(),
        };
        Observed { exits: record.clone(), record, available: gbps(available), complete: true }
    }

    #[test]
    fn the_truth_of_several_streams_is_the_mean_over_their_time() {
        let streams = [stream(8.0, [10, 11]), stream(4.0, [11, 14])];
        assert_eq!(available(&streams[..1]), gbps(8.0));
        assert_eq!(available(&streams), gbps(5.0));
    }

    #[test]
    fn every_truth_belongs_to_whole_means() {
        for (id, study) in catalogue::studies::<Errors>("errors") {
            for variant in &study.variants {
                assert_eq!(variant.streams_per_truth % variant.gamma, 0, "{id}: {}", variant.name);
            }
        }
    }
}

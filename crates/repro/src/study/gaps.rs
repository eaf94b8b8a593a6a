//! The gaps that a sender creates, without a path (rapid G1, G2, G3, G6, A2).

use headway_figures::{Curve, Figure, Panel};
use headway_traffic::random;
use headway_units::{Bytes, Duration, Instant, Rate};
use rand::RngExt as _;
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::{Count, GapMechanism, Sweep, gbps};
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::{deviation, largest, mean, quantile, smallest, sorted};

/// Senders that send at constant rates, and what is looked at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gaps {
    /// Gap mechanisms.
    mechanisms: Vec<GapMechanism>,
    /// Wire sizes of the packets; that of the path if empty.
    #[serde(default)]
    packets: Vec<Bytes>,
    /// Rates of all flows together in Gb/s.
    rates: Sweep,
    /// What is looked at.
    view: View,
}

/// What is looked at.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
enum View {
    /// Errors of the gaps over the rate, from sending so long at each.
    Errors { milliseconds: Count },
    /// Errors of the gaps when so many flows share a sender.
    Flows { flows: Vec<usize>, milliseconds: Count },
    /// Variation of the rate between intervals.
    Bursts { interval: Duration, intervals: Count },
    /// Single gaps at the first rate, of which the figure shows `drawn`.
    Series { gaps: Count, drawn: usize },
}

/// Minimum number of gaps per rate: in a shorter series, packets held back at the end would distort the mean.
const MIN_GAPS: i64 = 5_000;
/// Gaps longer than this, in microseconds, are spikes (rapid G2).
const SPIKE: f64 = 100.0;
/// When the first packet is scheduled.
const START: Instant = Instant::from_ns(1_000_000);

/// A sender with its rate in Gb/s.
struct Cell {
    mechanism: GapMechanism,
    packet: Bytes,
    rate: f64,
    flows: usize,
}

/// Statistics of the errors of gaps in microseconds, or of rates in Mb/s.
struct Numbers {
    mean: f64,
    deviation: f64,
    least: f64,
    most: f64,
}

/// The cells of one mechanism with one packet size.
type Group<'a> = Vec<(&'a Cell, Numbers)>;

impl Study for Gaps {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let line = job.experiment.path.capacity;
        let cells = self.cells(job.experiment.path.packet);
        let groups = |values: &(dyn Fn(&Cell, u64) -> Vec<f64> + Sync)| -> Result<Vec<Group<'_>>, Error> {
            let numbers = job.map(&cells, |index, cell| Ok(Numbers::of(&values(cell, job.seed(index)))))?;
            let mut pairs = cells.iter().zip(numbers);
            let groups = self.mechanisms.len() * self.packets.len().max(1);
            Ok((0..groups).map(|_| pairs.by_ref().take(cells.len() / groups).collect()).collect())
        };
        Ok(match &self.view {
            View::Errors { milliseconds } => {
                let time = job.time(*milliseconds);
                errors(&groups(&|cell, seed| cell.errors(time, line, seed))?, line)
            }
            View::Flows { flows, milliseconds } => {
                let time = job.time(*milliseconds);
                let groups = groups(&|cell, seed| cell.shared_errors(time, line, seed))?;
                of_flows(&groups, flows, &self.rates.values())
            }
            View::Bursts { interval, intervals } => {
                bursts(&groups(&|cell, seed| cell.rates(*interval, job.of(*intervals), line, seed))?)
            }
            View::Series { gaps, drawn } => {
                series(&cells[0], &cells[0].made(job.of(*gaps), line, job.seed(0)), *drawn)
            }
        })
    }
}

impl Gaps {
    fn cells(&self, usual: Bytes) -> Vec<Cell> {
        let packets = if self.packets.is_empty() { &[usual][..] } else { &self.packets };
        let flows = if let View::Flows { flows, .. } = &self.view { flows } else { &vec![1] };
        let mut cells = Vec::new();
        for &mechanism in &self.mechanisms {
            for &packet in packets {
                for rate in self.rates.values() {
                    cells.extend(flows.iter().map(|&flows| Cell { mechanism, packet, rate, flows }));
                }
            }
        }
        cells
    }
}

impl Cell {
    /// Returns the intended gap between packets of a flow.
    fn gap(&self) -> Duration {
        gbps(self.rate / self.flows as f64).time_for(self.packet)
    }

    /// Sends one packet more than there are gaps, and returns the actual gaps.
    fn made(&self, gaps: usize, line: Rate, seed: u64) -> Vec<Duration> {
        let (gap, mut sender) = (self.gap(), self.mechanism.mechanism().sender(line, self.packet, seed));
        let mut last = sender.depart(START, self.packet);
        let made = |number: i64| {
            let departure = sender.depart(START + gap * number, self.packet);
            departure - std::mem::replace(&mut last, departure)
        };
        (1..=gaps as i64).map(made).collect()
    }

    /// Returns the differences between actual and intended gaps, in microseconds.
    fn errors(&self, time: Duration, line: Rate, seed: u64) -> Vec<f64> {
        let gap = self.gap();
        let count = (time.ns() / gap.ns()).max(MIN_GAPS) as usize;
        self.made(count, line, seed).iter().map(|made| (*made - gap).us()).collect()
    }

    /// Lets every flow send at its share of the rate, starting at a random phase; returns
    /// the errors of all gaps.
    fn shared_errors(&self, time: Duration, line: Rate, seed: u64) -> Vec<f64> {
        let gap = self.gap();
        let mut rng = random::generator(seed, "phase", 0);
        let flow = |_| {
            let phase = Duration::from_ns(rng.random_range(0..gap.ns()));
            (0..=time.ns() / gap.ns()).map(|number| START + phase + gap * number).collect()
        };
        let flows: Vec<Vec<Instant>> = (0..self.flows).map(flow).collect();
        let departures = self.mechanism.mechanism().departures(line, self.packet, &flows, seed);
        let error = |pair: &[Instant]| (pair[1] - pair[0] - gap).us();
        departures.iter().flat_map(|flow| flow.windows(2).map(error)).collect()
    }

    /// Returns the rate in every interval, in Mb/s.
    fn rates(&self, interval: Duration, intervals: usize, line: Rate, seed: u64) -> Vec<f64> {
        // Enough for all intervals even if a mechanism is slightly fast.
        let count = interval.ns() as f64 * intervals as f64 * 1.2 / self.gap().ns() as f64;
        let mut bits = vec![0u64; intervals];
        let mut now = Duration::ZERO;
        for made in self.made(count as usize + 16, line, seed) {
            now += made;
            if let Some(interval) = bits.get_mut((now.ns() / interval.ns()) as usize) {
                *interval += self.packet.get() * 8;
            }
        }
        bits.iter().map(|bits| *bits as f64 / interval.us()).collect()
    }
}

impl Numbers {
    fn of(values: &[f64]) -> Numbers {
        Numbers {
            mean: mean(values),
            deviation: deviation(values),
            least: smallest(values.iter().copied()),
            most: largest(values.iter().copied()),
        }
    }

    /// Returns the largest absolute value.
    fn reach(&self) -> f64 {
        self.least.abs().max(self.most.abs())
    }
}

/// Reports the errors of gaps over the rate.
fn errors(groups: &[Group<'_>], line: Rate) -> Findings {
    let mut findings =
        Findings::with_table("mechanism,packet B,rate Gb/s,mean us,deviation us,least us,most us");
    let mut panels = Vec::new();
    for group in groups {
        let name = format!("{} {}", group[0].0.mechanism.name(), group[0].0.packet);
        let all = |value: fn(&Numbers) -> f64| group.iter().map(move |(_, errors)| value(errors));
        // At line rate packets leave back to back, whatever the mechanism.
        let below = |value: fn(&Numbers) -> f64| {
            group.iter().filter(|(cell, _)| gbps(cell.rate) < line).map(move |(_, errors)| value(errors))
        };
        let measures = [
            ("mean-least", smallest(all(|errors| errors.mean))),
            ("mean-most", largest(below(|errors| errors.mean))),
            ("mean-reach", largest(all(|errors| errors.mean.abs()))),
            ("deviation-least", smallest(below(|errors| errors.deviation))),
            ("deviation-most", largest(all(|errors| errors.deviation))),
            ("error-least", smallest(all(|errors| errors.least))),
            ("error-most", largest(all(|errors| errors.most))),
        ];
        findings.add(&name, measures);
        for (cell, errors) in group {
            let mut row = vec![cell.mechanism.name().to_owned(), cell.packet.get().to_string()];
            row.push(format!("{:.1}", cell.rate));
            let values = [errors.mean, errors.deviation, errors.least, errors.most];
            row.extend(values.map(|value| format!("{value:.4}")));
            findings.table.rows.push(row);
        }
        let points = group.iter().map(|(cell, errors)| (cell.rate, errors.mean)).collect();
        let spread = group.iter().map(|(_, n)| (n.mean - n.deviation, n.mean + n.deviation)).collect();
        let panel = Panel::new(&name, "rate, Gb/s", "actual minus intended gap, us");
        panels.push(panel.with(Curve::intervals(&name, points, spread)));
    }
    findings.remarks.push("Bars are one standard deviation. Smallest deviations and largest means leave the rate of the line out, where packets leave back to back.".to_owned());
    findings.figure = Figure::curves(panels);
    findings
}

/// Reports the errors of gaps over the number of flows.
fn of_flows(groups: &[Group<'_>], flows: &[usize], rates: &[f64]) -> Findings {
    let mut findings = Findings::with_table("mechanism,rate Gb/s,flows,mean us,deviation us,largest us");
    let top = largest(rates.iter().copied());
    let mut panels = Vec::new();
    for group in groups {
        let name = group[0].0.mechanism.name();
        let reach = largest(group.iter().map(|(_, errors)| errors.mean.abs()));
        let deviation = largest(group.iter().map(|(_, errors)| errors.deviation));
        findings.add(name, [("mean-reach", reach), ("deviation-most", deviation)]);
        for &count in flows {
            let from = || group.iter().filter(move |(cell, _)| cell.flows >= count);
            // At line rate packets leave back to back, whatever the mechanism.
            let below = from().filter(|(cell, _)| cell.rate < top).map(|(_, errors)| errors.deviation);
            let measures = [
                (format!("largest-from-{count}"), smallest(from().map(|(_, errors)| errors.reach()))),
                (format!("largest-most-from-{count}"), largest(from().map(|(_, errors)| errors.reach()))),
                (format!("deviation-least-from-{count}"), smallest(below)),
            ];
            findings.add(name, measures);
        }
        for (cell, errors) in group {
            let mut row = vec![name.to_owned(), cell.rate.to_string(), cell.flows.to_string()];
            row.extend([errors.mean, errors.deviation, errors.reach()].map(|value| format!("{value:.3}")));
            findings.table.rows.push(row);
        }
        // A logarithmic axis has no zero; a nanosecond is negligible here.
        let least = Duration::from_ns(1).us();
        let panel = Panel::new(name, "flows", "standard deviation of the error of gaps, us").logarithmic();
        panels.push(rates.iter().fold(panel, |panel, rate| {
            let here = group.iter().filter(|(cell, _)| cell.rate == *rate);
            let points = here.map(|(cell, errors)| (cell.flows as f64, errors.deviation.max(least)));
            panel.with(Curve::line(&format!("{rate} Gb/s together"), points.collect()))
        }));
    }
    findings.figure = Figure::curves(panels);
    findings
}

/// Reports how much the rate varies between intervals.
fn bursts(groups: &[Group<'_>]) -> Findings {
    let mut findings = Findings::with_table("mechanism,rate Gb/s,mean Mb/s,deviation Mb/s");
    let mut panel = Panel::new("", "rate, Gb/s", "standard deviation over 1 ms, Mb/s").logarithmic();
    for group in groups {
        let name = group[0].0.mechanism.name();
        let most = |least: f64| {
            let above = group.iter().filter(|(cell, _)| cell.rate > least);
            largest(above.map(|(_, rates)| rates.deviation))
        };
        findings.add(name, [("deviation-most", most(0.0)), ("deviation-most-above-7", most(7.0))]);
        for (cell, rates) in group {
            let (rate, mean) = (format!("{:.1}", cell.rate), format!("{:.1}", rates.mean));
            findings.table.rows.push(vec![name.to_owned(), rate, mean, format!("{:.2}", rates.deviation)]);
        }
        // A logarithmic axis has no zero.
        let points = group.iter().map(|(cell, rates)| (cell.rate, rates.deviation.max(1.0))).collect();
        panel = panel.with(Curve::line(name, points));
    }
    findings.figure = Figure::curves([panel]);
    findings
}

/// Reports spikes among gaps, and the gaps behind them.
fn series(cell: &Cell, gaps: &[Duration], drawn: usize) -> Findings {
    let wanted = cell.gap().us();
    let gaps: Vec<f64> = gaps.iter().copied().map(Duration::us).collect();
    let spikes = gaps.iter().filter(|gap| **gap > SPIKE).count();
    let dips: Vec<f64> = gaps.windows(2).filter(|pair| pair[0] > SPIKE).map(|pair| pair[1]).collect();
    let mut findings = Findings::with_table("gap,wanted us,made us");
    let per_1000 = 1e3 * spikes as f64 / gaps.len().max(1) as f64;
    let measures = [("spikes-per-1000", per_1000), ("dip-median", quantile(&sorted(dips), 0.5))];
    findings.add(cell.mechanism.name(), measures);
    // The figure shows the surroundings of the first spike.
    let begin = gaps.iter().position(|gap| *gap > SPIKE).unwrap_or(0).saturating_sub(drawn / 4);
    let drawn = &gaps[begin..(begin + drawn).min(gaps.len())];
    let row = |(i, made): (usize, &f64)| {
        vec![(begin + i).to_string(), format!("{wanted:.3}"), format!("{made:.3}")]
    };
    findings.table.rows = drawn.iter().enumerate().map(row).collect();
    let made = drawn.iter().enumerate().map(|(i, made)| (i as f64, *made)).collect();
    let panel = Panel::new("", "gap", "length, us")
        .with(Curve::line("made", made))
        .with(Curve::line("wanted", vec![(0.0, wanted), (drawn.len() as f64, wanted)]));
    findings.figure = Figure::curves([panel]);
    findings
}

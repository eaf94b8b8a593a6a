//! Rates of consecutive ACKs with stamps taken in the NIC and behind its driver (wan 4.4).

use headway_control::Kind;
use headway_estimate::sabes::{Segment, Settings, Transfer, Way, Windows};
use headway_figures::{Curve, Figure, Panel};
use headway_host::nic::Coalescing;
use headway_sim::config::Burst;
use headway_units::{Duration, Instant, Rate};
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::Findings;
use crate::statistics::{percent, quantile, sorted};
use headway_dataset::dumbbell::{Dumbbell, End, Flow, Pattern, Ran};

/// Rates of consecutive ACKs by stamps in and behind a NIC: ACKs of one flow over 1 Gb/s, stamped
/// in and behind the NIC.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AckStamps {
    /// Coalescing of the NIC.
    nics: Vec<Nic>,
    /// Milliseconds per run.
    milliseconds: Count,
}

/// A NIC.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nic {
    /// The name with which its measures begin.
    name: String,
    /// How it coalesces interrupts.
    coalescing: Coalescing,
}

/// Rate of the path, Mb/s.
const LINE: f64 = 1000.0;
/// Bytes on the wire per byte of payload: MTU 1500 with timestamps.
const WIRE: f64 = 1538.0 / 1448.0;
/// Slow start is over after this time.
const WARM_UP: Duration = Duration::from_ms(100);
const START: Instant = Instant::from_ns(10_000_000);

/// Rates in Mb/s, by the way they were found.
struct Rates {
    hardware: Vec<f64>,
    software: Vec<f64>,
    /// From software stamps, after grouping by buffering events.
    grouped: Vec<f64>,
}

impl Study for AckStamps {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let time = job.time(self.milliseconds);
        let found = job.map(&self.nics, |index, nic| Ok(measure(nic, time, job.seed(index))))?;
        let columns = "card,stamps,samples,median Mb/s,above line rate %,within 5 %,within 10 %";
        let mut findings = Findings::with_table(columns);
        let mut panels = Vec::new();
        for (nic, rates) in self.nics.iter().zip(&found) {
            let kinds =
                [("hardware", &rates.hardware), ("software", &rates.software), ("grouped", &rates.grouped)];
            let mut panel = Panel::new(&nic.name, "Mb/s", "share of samples").with_y_range(0.0, 1.0);
            for (kind, rates) in kinds {
                let rates = sorted(rates.clone());
                let within = |part: f64| percent(&rates, |rate| (rate - LINE).abs() <= part * LINE);
                let numbers = [
                    ("impossible", percent(&rates, |rate| rate > LINE * 1.001)),
                    ("within-5", within(0.05)),
                    ("within-10", within(0.1)),
                ];
                for (what, value) in numbers {
                    findings.measures.insert(format!("{}/{kind}/{what}", nic.name), value);
                }
                let mut row = vec![nic.name.clone(), kind.to_owned(), rates.len().to_string()];
                row.push(format!("{:.1}", quantile(&rates, 0.5)));
                row.extend(numbers.map(|(_, value)| format!("{value:.1}")));
                findings.table.rows.push(row);
                let shares = (1..100).map(|k| f64::from(k) / 100.0);
                let points = shares.map(|share| (quantile(&rates, share).min(3.0 * LINE), share)).collect();
                panel = panel.with(Curve::line(kind, points));
            }
            panels.push(panel);
        }
        findings.figure = Figure::curves(panels);
        Ok(findings)
    }
}

fn measure(nic: &Nic, time: Duration, seed: u64) -> Rates {
    let flow = Flow {
        controller: Kind::Cubic,
        start: START,
        burst: Burst::Host,
        taps: vec![End::SenderCard, End::Sender],
        ..Flow::default()
    };
    let dumbbell = Dumbbell {
        capacity: Rate::from_mbps(LINE),
        rtt: Duration::from_us(200),
        queue: 300,
        load: 0.0,
        pattern: Pattern::OnOff,
        sources: 1,
        flows: vec![flow],
        coalescing: Some(nic.coalescing),
        probing: None,
        end: START + WARM_UP + time,
    };
    let Ran { seen, .. } = dumbbell.run(seed);
    let [hardware, software] = [&seen[0][0], &seen[0][1]];
    Rates {
        hardware: consecutive(hardware),
        software: consecutive(software),
        grouped: grouped(software, time),
    }
}

/// Returns the rates of consecutive advancing ACKs; equal stamps count as an infinite rate.
fn consecutive(segments: &[Segment]) -> Vec<f64> {
    let acks: Vec<(Instant, u32)> = segments
        .iter()
        .filter(|segment| segment.way == Way::Acks && segment.at > START + WARM_UP)
        .filter_map(|segment| Some((segment.at, segment.acknowledgement?)))
        .collect();
    let rate = |pair: &[(Instant, u32)]| {
        let bits = f64::from(pair[1].1.wrapping_sub(pair[0].1)) * WIRE * 8.0;
        (bits > 0.0).then(|| bits / (pair[1].0 - pair[0].0).secs_f64() / 1e6)
    };
    acks.windows(2).filter_map(rate).collect()
}

/// Returns the rates that a transfer takes from the same stamps.
fn grouped(segments: &[Segment], time: Duration) -> Vec<f64> {
    let period = Duration::from_ms(60_000);
    let mut transfer = Transfer::new(&Settings {
        windows: Windows::Tumbling(period),
        samples: usize::MAX,
        ..Settings::default()
    });
    for segment in segments {
        transfer.observe(segment);
    }
    debug_assert!(time < period, "the run fits into one window");
    let rates: Vec<f64> = transfer.rates().map(Rate::mbps).collect();
    // As many as in the time after slow start.
    let warm = rates.len() as f64 * WARM_UP.secs_f64() / (WARM_UP + time).secs_f64();
    rates[warm as usize..].to_vec()
}

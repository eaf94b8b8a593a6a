//! Stations that upload over one channel of 802.11, behind explicit routers (xcp-rcp 2.11, 4.2, 6.3).

use std::collections::BTreeMap;

use headway_control::Kind;
use headway_figures::{Curve, Figure, Panel};
use headway_queue::QueueSpec;
use headway_record::{ControlInterval, Results};
use headway_scenario::{FlowSpec, LinkSpec, Scenario, WifiSpec};
use headway_sim::config::Station;
use headway_units::{Duration, Rate, WIRE_OVERHEAD};
use serde::Deserialize;

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::{Findings, Measures, values};
use crate::statistics::{jain, largest, mean};

/// Stations that upload over one channel of 802.11: each has a flow, and a router at its interface.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wifi {
    /// What runs, by the name with which its measures begin.
    variants: BTreeMap<String, Uplink>,
    /// Runs of each variant, with different seeds; the median is reported.
    runs: Count,
}

/// What the stations have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Uplink {
    /// The queue at each station.
    queue: QueueSpec,
    /// The controller of all senders.
    controller: Kind,
    /// The rates of the frames of each station.
    rates: Vec<Rate>,
}

/// Time of a run, and the part at its beginning that does not count.
const TIME: Duration = Duration::from_ms(60_000);
const WARMUP: Duration = Duration::from_ms(10_000);
/// Delay from the access point to the server and back.
const BACK: Duration = Duration::from_ms(20);
/// Wire bytes of a full packet.
const PACKET: u16 = 1500 + WIRE_OVERHEAD.get() as u16;
/// Payload of a full segment with a congestion header, and without.
const PAYLOADS: [f64; 2] = [1428.0, 1448.0];
/// Retransmissions of a frame.
const RETRIES: u32 = 7;
/// Quantiles in the table.
const SPREAD: [f64; 3] = [0.0, 0.5, 1.0];

impl Study for Wifi {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let variants: Vec<(&String, &Uplink)> = self.variants.iter().collect();
        let runs = job.each_run(&variants, job.of(self.runs), |(name, uplink), run| {
            job.run_scenario(&uplink.scenario(), name, run, |results| uplink.numbers(results))
        })?;
        let mut findings = Findings::with_table("variant,number,lowest,median,highest");
        let mut panel = Panel::new("", "station", "share of the time on the air");
        for ((name, uplink), runs) in variants.into_iter().zip(runs) {
            for what in runs[0].keys() {
                findings.add_spread(name, what, values(&runs, what), &SPREAD, 4);
            }
            let time = |number: usize| findings.value(&format!("{name}/air-{}", number + 1));
            let points =
                (0..uplink.rates.len()).filter_map(|number| Some((number as f64 + 1.0, time(number)?)));
            panel = panel.with(Curve::line(name, points.collect()));
        }
        findings.figure = Figure::curves([panel]);
        Ok(findings)
    }
}

impl Uplink {
    fn scenario(&self) -> Scenario {
        let wifi = |rate: Rate, number: usize| LinkSpec {
            queue: Some(self.queue.clone()),
            wifi: Some(WifiSpec { channel: "one".to_owned(), retries: RETRIES, damage: 0.0 }),
            ..LinkSpec::at(&name(number), "point", rate, Duration::ZERO)
        };
        let server = LinkSpec::at("point", "server", Rate::from_mbps(1000.0), BACK);
        let links = self.rates.iter().enumerate().map(|(number, rate)| wifi(*rate, number)).chain([server]);
        let flows =
            (0..self.rates.len()).map(|number| FlowSpec::new(&name(number), "server", self.controller));
        let flow = flows.map(|flow| FlowSpec { ack_every: 1, ..flow }).collect();
        Scenario { duration: TIME, warmup: WARMUP, flow, ..Scenario::of(links.collect()) }
    }

    /// Returns the numbers of a run: goodput (Mb/s) and share of the time on the air of each station, how
    /// even both are, mean delay (ms) and longest queue (wire B) of any, and with laws that aim at a queue
    /// the mean of lambda over kappa, with ErrorS, which must believe in no capacity, the one that it found
    /// over what a station has.
    fn numbers(&self, results: &Results) -> Measures {
        let payload = PAYLOADS[usize::from(!self.controller.is_explicit())];
        let rates: Vec<f64> = results.flows.iter().map(|flow| flow.goodput_bps as f64 / 1e6).collect();
        let airs: Vec<f64> = rates
            .iter()
            .zip(&self.rates)
            .map(|(mbps, rate)| {
                let station = Station { address: 1, rate: *rate, retries: RETRIES, damage: 0.0 };
                mbps * 1e6 / 8.0 / payload * station.exchange(PACKET) as f64 / 1e9
            })
            .collect();
        let mut numbers = Measures::new();
        let mut put = |name: &str, value: f64| _ = numbers.insert(name.to_owned(), value);
        for (number, (rate, air)) in rates.iter().zip(&airs).enumerate() {
            put(&format!("rate-{}", number + 1), *rate);
            put(&format!("air-{}", number + 1), *air);
        }
        put("rates-jain", jain(&rates));
        put("air-jain", jain(&airs));
        put("rate", rates.iter().sum());
        let is_up = |link: &str| link.starts_with("station") && link.ends_with("->point");
        let ups = results.summary.links.iter().filter(|link| is_up(&link.link));
        put("delay", largest(ups.map(|link| link.delay_mean_ns as f64 / 1e6)));
        let counted =
            results.control.iter().filter(|record| is_up(&record.link) && record.end_ns as i64 > WARMUP.ns());
        let counted: Vec<&ControlInterval> = counted.collect();
        let of = |value: &dyn Fn(&ControlInterval) -> f64| -> Vec<f64> {
            counted.iter().map(|record| value(record)).collect()
        };
        put("queue", largest(of(&|record| record.backlog_bytes as f64)));
        let Some((law, config)) = self.queue.explicit() else { return numbers };
        if !law.needs_capacity() && !self.queue.needs_wifi() {
            put("lambda-kappa", mean(&of(&|record| record.lambda / record.kappa)));
        }
        if !matches!(self.queue, QueueSpec::Errors(_)) {
            return numbers;
        }
        let wire = rates.iter().sum::<f64>() * f64::from(PACKET) / payload / rates.len() as f64;
        put("found", -mean(&of(&|record| record.xi_bps / 1e6)) / config.alpha(law) / wire);
        numbers
    }
}

fn name(number: usize) -> String {
    format!("station-{}", number + 1)
}

//! A network of the wide matrix, and its conversion to a cell.

use crate::draw::Draw;
use crate::error::Error;
use headway_scenario::Change;

use crate::compare::cell::{Cell, flows, parsed};
use crate::compare::verdict::Group;

/// Wire size of a full packet in bits, with an MTU of 1500 bytes.
const PACKET_BITS: f64 = 1538.0 * 8.0;
/// Minimum buffer, in packets.
const MIN_BUFFER: f64 = 10.0;
/// Duration of a cell in cycles of Reno, unless they are too long.
const CYCLES: f64 = 8.0;
/// Minimum duration of a cell in RTTs.
const MIN_RTTS: f64 = 60.0;
/// Minimum and maximum duration of a cell in seconds: a hundred times the minimum RTO, and
/// a tolerable run time.
const SECONDS: (f64, f64) = (20.0, 90.0);
/// Packet limit of a cell: a second of work for a real stack.
pub(super) const MAX_PACKETS: f64 = 400e3;
/// Minimum duration of a truncated cell in seconds.
const KEPT: f64 = 10.0;
/// Factors on all start times and on the RTT, for each run, so that no result hinges on a coincidence of
/// times. Both are needed: flows that start within each other's bursts send the same packets in the same
/// order, whatever the exact start times.
const RUNS: [(f64, f64); 9] = [
    (1.0, 1.0),
    (0.7, 0.98),
    (1.3, 1.02),
    (0.85, 0.99),
    (1.15, 1.01),
    (0.6, 1.03),
    (1.4, 0.97),
    (0.78, 1.015),
    (1.22, 0.985),
];
/// Number of runs where neither randomness nor BBR is involved.
const FEW: usize = 5;

/// Returns the wire size of `packets` full packets in whole bytes.
pub(super) fn bytes(packets: f64) -> u64 {
    (packets * PACKET_BITS / 8.0).round() as u64
}

/// The link that the flows share.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) mbps: f64,
    pub(super) rtt_ms: f64,
    /// In packets.
    pub(super) buffer: f64,
    /// Further keys of the link, as TOML.
    pub(super) keys: String,
}

impl Path {
    /// Creates a path; `buffer` is in bandwidth-delay products.
    pub(super) fn new(mbps: f64, rtt_ms: f64, buffer: f64) -> Path {
        let mut path = Path { mbps, rtt_ms, buffer: 0.0, keys: String::new() };
        path.buffer = (path.bdp() * buffer).max(MIN_BUFFER).round();
        path
    }

    /// Draws a path of which everything is within these ranges.
    pub(super) fn drawn(draw: &mut Draw, mbps: (f64, f64), rtt_ms: (f64, f64), buffer: (f64, f64)) -> Path {
        let mut within = |(least, most)| draw.log_uniform(least, most);
        Path::new(within(mbps), within(rtt_ms), within(buffer))
    }

    pub(super) fn packets_per_second(&self) -> f64 {
        self.mbps * 1e6 / PACKET_BITS
    }

    /// Returns the bandwidth-delay product in packets.
    pub(super) fn bdp(&self) -> f64 {
        self.packets_per_second() * self.rtt_ms / 1e3
    }

    /// Returns the link as TOML, with the RTT scaled by `part` and split evenly between both directions.
    fn link(&self, (from, to): (&str, &str), part: f64) -> String {
        let Path { mbps, rtt_ms, buffer, keys } = self;
        let room = if keys.contains("queue") {
            String::new()
        } else {
            format!(", buffer = \"{} B\"", bytes(*buffer))
        };
        let delay = (rtt_ms * part * 500.0).round();
        format!(
            "{{ from = \"{from}\", to = \"{to}\", rate = \"{mbps} Mb/s\", delay = \"{delay} us\"{room}{keys} }}"
        )
    }

    /// Returns the duration for `count` flows, in seconds.
    fn seconds(&self, count: u64) -> f64 {
        let round = self.rtt_ms / 1e3 + self.buffer / self.packets_per_second() / 2.0;
        let window = (self.bdp() + self.buffer) / count as f64;
        let wanted = (CYCLES * round * window / 2.0).max(MIN_RTTS * round).clamp(SECONDS.0, SECONDS.1);
        wanted.min((MAX_PACKETS / self.packets_per_second()).max(KEPT)).ceil()
    }
}

/// A group of flows.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    pub(super) controller: &'static str,
    pub(super) count: u64,
    /// Start of the first flow and time between starts, in ms.
    pub(super) start: f64,
    pub(super) stagger: f64,
    /// Sender and receiver.
    pub(super) ends: [&'static str; 2],
    /// Further keys of the flow, as TOML.
    pub(super) keys: String,
}

impl Flows {
    pub(super) fn new(controller: &'static str, count: u64) -> Flows {
        Flows { controller, count, start: 0.0, stagger: 0.0, ends: ["client", "server"], keys: String::new() }
    }

    /// Returns the flows as TOML, with all start times scaled by `part`.
    fn text(&self, part: f64) -> String {
        let Flows { controller, count, ends: [from, to], keys, .. } = self;
        let ecn = if *controller == "dctcp" { ", ecn = \"dctcp\"" } else { "" };
        let [start, stagger] = [self.start, self.stagger].map(|ms| (ms * part * 1e3).round());
        format!(
            "{{ from = \"{from}\", to = \"{to}\", controller = \"{controller}\", count = {count}, start = \"{start} us\", stagger = \"{stagger} us\"{ecn}{keys} }}"
        )
    }
}

/// A network with its flows.
#[derive(Clone, Debug)]
pub(super) struct Network {
    pub(super) path: Path,
    /// The second bottleneck, if any.
    pub(super) further: Option<Path>,
    pub(super) flows: Vec<Flows>,
    /// Description of the special features.
    pub(super) special: String,
    /// Duration in seconds; `None` derives it from cycles and packets.
    pub(super) seconds: Option<f64>,
    /// Fraction of the duration excluded as warm-up.
    pub(super) warmup: f64,
    /// Whether the network itself is random, apart from the controllers.
    pub(super) random: bool,
}

impl Network {
    pub(super) fn new(path: Path, flows: Vec<Flows>, special: String) -> Network {
        Network { path, further: None, flows, special, seconds: None, warmup: 0.0, random: false }
    }

    fn count(&self) -> u64 {
        self.flows.iter().map(|flows| flows.count).sum()
    }

    fn controller(&self) -> &'static str {
        let first = self.flows[0].controller;
        if self.flows.iter().all(|flows| flows.controller == first) { first } else { "mixed" }
    }

    /// Returns the links as TOML, with the RTT scaled by `part`.
    fn links(&self, part: f64) -> String {
        let last = if self.further.is_some() { "router" } else { "server" };
        let further = self.further.iter().map(|path| path.link(("router", "server"), part));
        let links: Vec<String> =
            [self.path.link(("client", last), part)].into_iter().chain(further).collect();
        format!("link=[{}]", links.join(", "))
    }

    /// Returns the overrides of each run.
    fn runs(&self) -> Vec<Vec<String>> {
        let chance = self.random || self.flows.iter().any(|flows| flows.controller == "bbr");
        let run = |(number, (start, rtt)): (usize, &(f64, f64))| {
            let flows: Vec<String> = self.flows.iter().map(|flows| flows.text(*start)).collect();
            vec![self.links(*rtt), format!("flow=[{}]", flows.join(", ")), format!("seed={}", number + 1)]
        };
        RUNS.iter().take(if chance { RUNS.len() } else { FEW }).enumerate().map(run).collect()
    }

    pub(super) fn cell(&self, class: &str, set: &[Change]) -> Result<Cell, Error> {
        let path = &self.path;
        let seconds = self.seconds.unwrap_or_else(|| path.seconds(self.count()));
        let mut changes =
            vec![format!("duration={seconds} s"), format!("warmup={} s", (seconds * self.warmup).round())];
        // The user may override these, but not the parameters that name the cell.
        changes.extend(set.iter().map(ToString::to_string));
        changes.push("nodes=[\"client\", \"router\", \"server\"]".to_owned());
        let labels = [
            self.controller().to_owned(),
            class.to_owned(),
            format!("{} Mb/s", path.mbps),
            format!("{} ms", path.rtt_ms),
            format!("{} {}", flows(self.count()), self.special).trim().to_owned(),
        ];
        let runs = self.runs().iter().map(|run| parsed(run)).collect::<Result<_, Error>>()?;
        Ok(Cell { runs, group: Some(Group::Wide), ..Cell::new(labels, &changes)? })
    }
}

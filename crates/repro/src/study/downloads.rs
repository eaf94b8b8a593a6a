//! Downloads that share an access link, with and without a router that holds them at the receive
//! window (wan 4.1, 4.3).

mod network;
mod results;

use std::collections::BTreeMap;

use headway_scenario::FlowController;
use headway_units::Duration;
use headway_worlds::World;
use serde::{Deserialize, Serialize};

use super::Study;
use crate::context::Error;
use crate::experiment::Count;
use crate::job::Job;
use crate::outcome::Findings;

/// Downloads that share an access link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Downloads {
    /// Rate of the access link, in Mb/s on the wire. Buffers scale with it.
    megabits: Count,
    /// Payload of each download, in MB.
    megabytes: Count,
    /// RTTs without queueing.
    rtts: Vec<Duration>,
    /// Those in the kernel's world.
    kernel_rtts: Option<Vec<Duration>>,
    /// Buffers of the access link, by name.
    buffers: BTreeMap<String, Buffer>,
    /// Numbers of downloads at the same time.
    flows: Vec<u64>,
    /// Who controls them, by name. The gain of the others is relative to the first.
    controls: Vec<Control>,
    /// How much sooner or later packets arrive than after half an RTT, each at random, so that they overtake
    /// each other; none if absent.
    #[serde(default)]
    jitter: Duration,
    /// Poisson traffic beside the downloads, as a share of the link; none if absent.
    #[serde(default)]
    cross: f64,
    /// Runs per cell, with different times at which downloads begin.
    runs: Count,
    /// The same in the kernel's world.
    kernel_runs: Option<Count>,
}

/// The buffer of the access link.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Buffer {
    /// Full packets at a rate of 1 Gb/s.
    packets: u64,
    /// Share of packets that is lost at random before the link.
    #[serde(default)]
    loss: f64,
}

/// Senders, and whether the router at home holds them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Control {
    name: String,
    controller: FlowController,
    /// What windows are multiplied with; no router holds them if absent.
    delta: Option<f64>,
    /// The queue of the access link, as a table of a scenario file; drop-tail if absent.
    queue: Option<String>,
    /// A queue that only the kernel's world has, as for `tc`; in the simulator such a control does not run.
    kernel_queue: Option<String>,
}

/// What runs.
#[derive(Clone, Copy, Debug)]
struct Cell<'a> {
    rtt: Duration,
    buffer: &'a str,
    flows: u64,
    control: &'a Control,
}

impl Cell<'_> {
    /// Returns its name without the control.
    fn place(&self) -> String {
        format!("{:.0}/{}/{}", self.rtt.ms(), self.buffer, self.flows)
    }

    fn name(&self) -> String {
        format!("{}/{}", self.place(), self.control.name)
    }
}

/// The numbers of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Numbers {
    /// Completion times in s; for downloads that did not end, the time that they had.
    completions: Vec<f64>,
    /// RTT of packets that passed the queue, in ms: mean, standard deviation, quartiles, 95 %, maximum.
    rtt: [f64; 7],
    /// Packets that the queue dropped.
    drops: f64,
    /// Jain's index of what downloads had received when the first of them ended.
    jain: f64,
    timeouts: f64,
}

impl Study for Downloads {
    fn run(&self, job: &Job<'_>) -> Result<Findings, Error> {
        let cells = self.cells(job);
        let runs = job.of(job.choose(self.runs, self.kernel_runs));
        let done = job.each_run(&cells, runs, |cell, run| {
            let text = network::scenario(self, cell, job, run);
            job.run_scenario(&text, &cell.name(), run, |results| network::numbers(results, cell))
        })?;
        Ok(results::evaluate(self, job, &cells, &done))
    }

    fn other_worlds(&self) -> &'static [World] {
        if self.kernel_runs.is_some() { &[World::Uml] } else { &[] }
    }
}

impl Downloads {
    fn cells(&self, job: &Job<'_>) -> Vec<Cell<'_>> {
        let rtts = self.kernel_rtts.as_ref().filter(|_| job.as_scenarios).unwrap_or(&self.rtts);
        let has = |control: &&Control| control.kernel_queue.is_none() || job.world == World::Uml;
        let mut cells = Vec::new();
        for &rtt in rtts {
            for buffer in self.buffers.keys() {
                for &flows in &self.flows {
                    let controls = self.controls.iter().filter(has);
                    cells.extend(controls.map(|control| Cell { rtt, buffer, flows, control }));
                }
            }
        }
        cells
    }
}

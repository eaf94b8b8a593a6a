//! Senders whose gaps are bytes on their line: what fills the lines between their segments.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use headway_host::gap::Mechanism;
use headway_kernel::{Attached, Departures};
use headway_lab::Lab;
use headway_net::frames::{Filled, LineFiller};
use headway_record::csv;
use headway_record::row;
use headway_scenario::{FlowSpec, Scenario, Topology};
use headway_uml::run_dir;
use serde::Serialize;

use super::controllers::Controllers;
use super::translate::Translated;
use crate::endpoint::MARK;
use crate::error::{Error, bail};
use crate::outcome::RunFiles;
use crate::uml;

/// Whether it is a flow of TCP that Rapid does not schedule.
pub(super) fn are_paced(flow: &FlowSpec) -> bool {
    flow.fills_line() && !flow.is_rapid()
}

/// Rejects what makes no gaps on this host.
pub(super) fn check(index: usize, flow: &FlowSpec) -> Result<(), Error> {
    let makes_gaps = flow.is_rapid() || flow.pacing;
    if makes_gaps && !matches!(flow.gaps, Mechanism::Exact | Mechanism::ByteClock) {
        bail!(
            "`flow[{index}].gaps`: this host makes gaps by its own timers or by `byte-clock`; use --on sim"
        );
    }
    if flow.pacing && !flow.fills_line() {
        bail!(
            "`flow[{index}].pacing`: the lab has it with `gaps = \"byte-clock\"` only; use --on sim or --on uml"
        );
    }
    Ok(())
}

/// Gives the first links of flows whose gaps are filled the flow's line, if they have none.
pub(super) fn with_lines(scenario: &Scenario) -> Scenario {
    let mut changed = scenario.clone();
    let topology = Topology::new(scenario);
    for flow in scenario.flow.iter().filter(|flow| flow.fills_line()) {
        let route = topology.route(&flow.from, &flow.to, &flow.via).unwrap_or_default();
        let Some(first) = route.first().map(|hop| &topology.directions()[*hop]) else { continue };
        let line = &mut changed.link[first.link].line;
        if !first.back {
            *line = line.or_else(|| topology.line_of(scenario, flow));
        }
    }
    changed
}

/// What fills lines, until it is ended or dropped.
#[derive(Default)]
pub(super) struct Fillers {
    stop: Arc<AtomicBool>,
    threads: Vec<(String, JoinHandle<io::Result<Filled>>)>,
    _single: Vec<Attached>,
}

impl Fillers {
    /// Fills the lines of all nodes whose flows want it.
    pub(super) fn start(
        scenario: &Scenario,
        translated: &Translated,
        controllers: &Controllers,
        lab: &Lab,
    ) -> Result<Fillers, Error> {
        let mut fillers = Fillers::default();
        let mut nodes: Vec<&str> = Vec::new();
        for (group, flow) in scenario.flow.iter().enumerate().filter(|(_, flow)| flow.fills_line()) {
            let node = translated.node(&flow.from);
            if nodes.contains(&node) {
                continue;
            }
            nodes.push(node);
            let found = lab.nodes().find(|found| found.name == node);
            for interface in found.map_or(&[][..], |found| &found.interfaces) {
                let started = lab.inside(node, || fillers.at(node, &interface.name, controllers))?;
                started.with_context(|| format!("`flow[{group}].gaps`"))?;
            }
        }
        Ok(fillers)
    }

    /// Fills the line of an interface of this thread's network namespace.
    fn at(&mut self, node: &str, interface: &str, controllers: &Controllers) -> anyhow::Result<()> {
        let line = LineFiller::open(interface)?;
        self._single.push(Attached::single_segments(interface)?);
        let mut segments = Departures::take(interface, controllers.departure_times()?.as_ref(), Some(MARK))?;
        let stop = Arc::clone(&self.stop);
        let thread = thread::spawn(move || line.run(&mut segments, Departures::next, &stop));
        self.threads.push((format!("{node}:{interface}"), thread));
        Ok(())
    }

    /// Ends all, and returns what has left over each line, by node and interface.
    pub(super) fn end(mut self) -> Result<Vec<(String, Filled)>, Error> {
        self.stop.store(true, Ordering::Relaxed);
        let join = |(name, thread): (String, JoinHandle<io::Result<Filled>>)| {
            let ended = thread.join().map_err(|_| anyhow::anyhow!("what fills a line has ended"))?;
            Ok((name, ended.context("cannot fill a line")?))
        };
        self.threads.drain(..).map(join).collect()
    }
}

impl Drop for Fillers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Adds a file with what has left over each line to those of a run, if there are such lines.
pub(super) fn with_counts(
    lines: &[(String, Filled)],
    files: Option<RunFiles>,
) -> Result<Option<RunFiles>, Error> {
    const NAME: &str = "lines.csv";
    if lines.is_empty() {
        return Ok(files);
    }
    let mut files = match files {
        Some(files) => files,
        None => {
            let folder = run_dir::folder(&uml::cache()?).context("cannot write into the cache")?;
            RunFiles { folder, names: Vec::new() }
        }
    };
    let text = csv::header(counts("", &Filled::default()))
        + &csv::lines(lines.iter().map(|(line, filled)| counts(line, filled)));
    fs::write(files.folder.path().join(NAME), text).context("cannot write the counts of lines")?;
    files.names.push(NAME.to_owned());
    Ok(Some(files))
}

fn counts(line: &str, filled: &Filled) -> impl Serialize + use<> {
    row! {
        line: line.to_owned(),
        segments: filled.segments,
        segment_bytes: filled.segment_bytes,
        pause_frames: filled.pauses,
        pause_bytes: filled.pause_bytes,
        late_segments: filled.late,
        ran_dry: filled.dry,
    }
}

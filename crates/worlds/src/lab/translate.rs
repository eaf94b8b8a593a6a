//! Converts a scenario to an emulated path: two hosts, with at most one bottleneck in each direction.

use crate::error::{Context as _, Error, bail};
use headway_core::units::WIRE_OVERHEAD;
use headway_core::{Bytes, Duration, Rate};
use headway_lab::{Cross, Direction, LinkSpec as LabLink, Model, PathSpec, Spec};
use headway_scenario::{EcnMode, FlowSpec, LinkSpec, Scenario, Topology, TrafficSpec};
use headway_traffic::Traffic;

use super::controllers;

/// Flow limit: beyond it the machine, not the path, would limit the flows.
const MAX_FLOWS: u64 = 100;
/// Rate of a direction without a bottleneck: the emulator's maximum.
const UNLIMITED: Rate = Rate::from_bps(10_000_000_000);
/// Interval of the truth log, and so the largest error of the end of warm-up.
const INTERVAL: Duration = Duration::from_ms(1);

/// A scenario in the form that the lab runs.
#[derive(Debug)]
pub(crate) struct Translated {
    path: Spec,
    pub(crate) cross: Vec<Cross>,
    /// Names of the bottlenecks in results.
    pub(crate) names: [String; 2],
    ends: Ends,
}

/// The two hosts.
#[derive(Debug)]
struct Ends {
    client: String,
    server: String,
    /// Nodes between client and server.
    via: Vec<String>,
}

impl Ends {
    /// Returns the ends of the flows; without flows, the nodes of the programs.
    fn of(scenario: &Scenario) -> Result<Ends, Error> {
        let mut nodes: Vec<&String> =
            scenario.flow.iter().take(1).flat_map(|flow| [&flow.from, &flow.to]).collect();
        for program in &scenario.program {
            if !nodes.contains(&&program.at) {
                nodes.push(&program.at);
            }
        }
        let via = scenario.flow.first().map(|flow| flow.via.clone()).unwrap_or_default();
        match nodes[..] {
            [client, server] => Ok(Ends { client: client.clone(), server: server.clone(), via }),
            _ => bail!(
                "the lab has two hosts: flows and programs must be at two nodes; this scenario uses {}",
                nodes.len()
            ),
        }
    }
}

/// The common path of all flows in one direction.
struct Way {
    link: LabLink,
    /// Index and name of the direction whose queue is emulated.
    bottleneck: usize,
    name: String,
}

impl Translated {
    /// Converts a scenario, or names the key that the lab does not support.
    pub(crate) fn new(scenario: &Scenario) -> Result<Translated, Error> {
        let ends = Ends::of(scenario)?;
        if scenario.flow_count() > MAX_FLOWS {
            bail!("the lab runs at most {MAX_FLOWS} flows; this scenario has {}", scenario.flow_count());
        }
        if let Some(host) = scenario.host.keys().next() {
            bail!("the lab does not support `host.{host}`");
        }
        if !scenario.measure.is_empty() {
            bail!("the lab does not support `measure[0]`; `headway measure` measures emulated paths");
        }
        if scenario.interval < Duration::from_ms(10) {
            bail!("the lab does not support `interval` below 10 ms");
        }
        for (index, flow) in scenario.flow.iter().enumerate() {
            check_flow(index, flow, &scenario.flow[0])?;
        }
        let topology = Topology::new(scenario);
        let route =
            |from: &str, to: &str, via: &[String]| topology.route(from, to, via).map_err(Error::other);
        let back: Vec<String> = ends.via.iter().rev().cloned().collect();
        let forward = way(scenario, &topology, &route(&ends.client, &ends.server, &ends.via)?)?;
        let reverse = way(scenario, &topology, &route(&ends.server, &ends.client, &back)?)?;
        let mut cross = Vec::new();
        for (index, traffic) in scenario.traffic.iter().enumerate() {
            let path = route(&traffic.from, &traffic.to, &traffic.via)?;
            let direction = match (path.contains(&forward.bottleneck), path.contains(&reverse.bottleneck)) {
                (true, false) => Direction::Forward,
                (false, true) => Direction::Reverse,
                _ => bail!(
                    "the lab does not support `traffic[{index}]`: it does not pass the flows' bottleneck"
                ),
            };
            cross.push(translate_traffic(index, traffic, direction)?);
        }
        let names = [forward.name, reverse.name];
        let path = Spec {
            mtu: scenario.mtu,
            interval: INTERVAL,
            delays: true,
            ..Spec::pair(PathSpec { forward: forward.link, reverse: reverse.link })
        };
        path.validate().context("the lab cannot emulate this path")?;
        Ok(Translated { path, cross, names, ends })
    }

    /// Returns the lab node that represents a node of the scenario.
    pub(crate) fn node(&self, name: &str) -> &'static str {
        if name == self.ends.client { "client" } else { "server" }
    }

    /// Returns both lab nodes with their names in the scenario.
    pub(crate) fn hosts(&self) -> [(&'static str, &str); 2] {
        [("client", &self.ends.client), ("server", &self.ends.server)]
    }

    /// Returns the path if its rates change: their times count from the moment at which the path is set.
    pub(crate) fn changing_path(&self) -> Option<PathSpec> {
        let path = self.path.links.first()?.path.clone();
        (path.forward.rates.is_some() || path.reverse.rates.is_some()).then_some(path)
    }

    /// Returns the path with this seed; cross traffic is added when the flows begin.
    pub(crate) fn spec(&self, seed: u64) -> Spec {
        Spec { seed, ..self.path.clone() }
    }
}

fn check_flow(index: usize, flow: &FlowSpec, first: &FlowSpec) -> Result<(), Error> {
    controllers::check(index, flow)?;
    let same = (&flow.from, &flow.to, &flow.via) == (&first.from, &first.to, &first.via);
    // DCTCP's ECN echo belongs to the controller; classic ECN is a setting of the host.
    let classic = |flow: &FlowSpec| flow.ecn == EcnMode::Classic;
    let keys = [
        ("from", same),
        ("application-rate", flow.application_rate.is_none()),
        ("read-rate", flow.read_rate.is_none()),
        ("initial-window", flow.initial_window == 10),
        ("receive-buffer", flow.receive_buffer >= Bytes::new(64_000_000)),
        ("mtu", flow.mtu.is_none()),
        ("ack-every", flow.ack_every == first.ack_every && flow.ack_every <= 2),
        ("ack-timeout", flow.ack_timeout == Duration::from_ms(40)),
        ("ecn", flow.ecn == EcnMode::Dctcp || first.ecn == EcnMode::Dctcp || classic(flow) == classic(first)),
        ("pacing", !flow.pacing),
        ("arrivals", flow.arrivals.is_none()),
    ];
    refuse(&format!("flow[{index}]"), &keys)
}

/// Rejects the first unsupported key.
fn refuse(table: &str, keys: &[(&str, bool)]) -> Result<(), Error> {
    match keys.iter().find(|(_, right)| !right) {
        None => Ok(()),
        Some(("from", _)) => bail!("the lab does not support `{table}.from`: all flows must go the same way"),
        Some((key, _)) => bail!("the lab does not support this value of `{table}.{key}`; use --on sim"),
    }
}

/// Merges the links of one direction: at most one of them has a rate and one jitter; delays add up.
fn way(scenario: &Scenario, topology: &Topology, path: &[usize]) -> Result<Way, Error> {
    let directions = path.iter().map(|&index| (index, &topology.directions()[index]));
    let mut found: Option<Way> = None;
    let mut delay = Duration::ZERO;
    let mut jitter: Option<(Duration, bool)> = None;
    let mut delivered = 1.0;
    for (index, direction) in directions.clone() {
        let link = &scenario.link[direction.link];
        check_link(direction.link, link)?;
        delay += link.delay;
        delivered *= 1.0 - link.loss;
        if link.jitter > Duration::ZERO && jitter.replace((link.jitter, link.reordering)).is_some() {
            bail!("the lab does not support `link[{}].jitter`: another link has jitter, too", direction.link);
        }
        let Some(highest) = link.highest_rate() else { continue };
        if let Some(other) = &found {
            bail!(
                "the lab does not support a second link with a rate: {} and {}",
                other.name,
                direction.name
            );
        }
        let queue = Some(link.queue_spec(Some(highest)));
        let buffer = Some(link.buffer_at(highest).bytes(scenario.mtu));
        let (rate, rates) = (link.rate.unwrap_or_default(), link.rates.clone());
        let link = LabLink { buffer, queue, rates, ..LabLink::new(rate, Duration::ZERO) };
        found = Some(Way { link, bottleneck: index, name: direction.name.clone() });
    }
    let unlimited = || {
        let (bottleneck, direction) = directions.clone().next()?;
        let link = LabLink::new(UNLIMITED, Duration::ZERO);
        Some(Way { link, bottleneck, name: direction.name.clone() })
    };
    let mut way = found.or_else(unlimited).context("the lab needs a path of links")?;
    way.link.delay = delay;
    way.link.loss = 1.0 - delivered;
    (way.link.jitter, way.link.reordering) = jitter.unwrap_or_default();
    Ok(way)
}

fn check_link(index: usize, link: &LinkSpec) -> Result<(), Error> {
    if let Some(queue) = &link.kernel_queue {
        bail!("the lab does not support `link[{index}].kernel-queue`: it has no `{queue}`; `--on uml` has");
    }
    let keys = [
        // The lab applies jitter before its queue; a link with a rate has it behind the queue.
        ("jitter", link.jitter == Duration::ZERO || link.highest_rate().is_none()),
        ("trace", link.trace.is_none()),
        ("burst", link.burst.is_none()),
        ("police", link.police.is_none()),
    ];
    refuse(&format!("link[{index}]"), &keys)
}

fn translate_traffic(index: usize, traffic: &TrafficSpec, direction: Direction) -> Result<Cross, Error> {
    let (model, rate, size, batch) = match traffic.traffic {
        Traffic::Cbr { rate, size } => (Model::Cbr, rate, size, None),
        Traffic::Poisson { rate, size } => (Model::Poisson, rate, size, None),
        Traffic::Batches { rate, size, batch } => (Model::Bursty, rate, size, Some(batch)),
        #[allow(unreachable_patterns)]
        _ => bail!("the lab does not support this value of `traffic[{index}].model`; use --on sim"),
    };
    Ok(Cross {
        // The lab counts IP bytes, the simulator wire bytes.
        size: Bytes::new(size.get().saturating_sub(WIRE_OVERHEAD.get())),
        batch,
        start: traffic.start,
        stop: traffic.stop,
        ..Cross::new(direction, model, rate)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn rates_that_change_go_to_the_lab_with_their_times() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/rate-steps.toml");
        let scenario = Scenario::load(&file, &[]).unwrap();
        let path = Translated::new(&scenario).unwrap().changing_path().unwrap();
        assert_eq!(path.forward.rates, scenario.link[1].rates);
        assert_eq!((path.forward.rate, path.forward.buffer), (Rate::ZERO, Some(Bytes::new(250_000))));
        let constant = Scenario::load(&file.with_file_name("dumbbell-cubic.toml"), &[]).unwrap();
        assert!(Translated::new(&constant).unwrap().changing_path().is_none());
    }
}

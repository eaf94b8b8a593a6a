//! The parallel paths of everyone who chooses: each has copies of the tight links between two nodes of his own.

use headway_lab::of_scenario::side;
use headway_lab::{Cross, Direction, Edge, LinkSpec, PathSpec, Spec};
use headway_scenario::{Scenario, SelectSpec};
use headway_sim::select::{Contestant, PathsWorld, world};
use headway_traffic::channel::Outages;
use headway_units::config_error::check;
use headway_units::{ConfigError, Duration, Instant};

use crate::error::Error;
use anyhow::Context as _;

/// Interval of the truth log: nothing here is judged by less than a run.
const INTERVAL: Duration = Duration::from_ms(1_000);

/// The paths of one who chooses.
pub(super) struct Network {
    /// Index of the `[[select]]`.
    pub(super) select: usize,
    /// The strategy, or the rival.
    pub(super) name: String,
    pub(super) contestant: Contestant,
    pub(super) spec: SelectSpec,
    /// Who has how much cross traffic when, and what is free then.
    pub(super) world: PathsWorld,
    /// The nodes of the lab.
    pub(super) home: String,
    pub(super) server: String,
    /// The lab's names of the tight links, in the order of the world.
    pub(super) links: Vec<String>,
}

impl Network {
    /// Returns the lab's name of the link of a path.
    pub(super) fn link(&self, path: usize) -> &str {
        &self.links[self.world.paths[path].link]
    }
}

/// Returns the paths of all who choose.
pub(super) fn all(scenario: &Scenario, seed: u64) -> Result<Vec<Network>, Error> {
    let mut networks = Vec::new();
    for (select, spec) in scenario.select.iter().enumerate() {
        let world = world(scenario, select, spec, seed)?;
        check_outages(select, &world)?;
        let own = (spec.strategy.name(), Contestant::Selector(spec.settings()));
        let rivals = spec.rivals.iter().map(|rival| (rival.name(), Contestant::from(*rival)));
        for (name, contestant) in std::iter::once(own).chain(rivals) {
            let number = networks.len();
            networks.push(Network {
                select,
                name: name.to_owned(),
                contestant,
                spec: spec.clone(),
                home: format!("home{number}"),
                server: format!("server{number}"),
                links: (0..world.links.len()).map(|link| format!("l{number}-{link}")).collect(),
                world: world.clone(),
            });
        }
    }
    Ok(networks)
}

/// In a lab links fail, not paths.
fn check_outages(select: usize, world: &PathsWorld) -> Result<(), ConfigError> {
    for (number, path) in world.paths.iter().enumerate() {
        let users = world.paths.iter().filter(|other| other.link == path.link).count();
        let key = format!("select[{select}].path[{number}].down");
        check(&key, path.down.is_empty() || users == 1, "needs a tight link of its own in a lab")?;
        let is_late = path.down.first().is_none_or(|(from, _)| *from > Instant::ZERO);
        check(&key, is_late, "must begin after 0 s in a lab")?;
    }
    Ok(())
}

/// Returns the lab of all these paths.
pub(super) fn spec(scenario: &Scenario, seed: u64, networks: &[Network]) -> Result<Spec, Error> {
    let mut edges = Vec::new();
    for network in networks {
        for (link, name) in network.world.links.iter().zip(&network.links) {
            let written = &scenario.link[link.number];
            let way = |back: bool| LinkSpec {
                delay: link.delay,
                outages: outages(network, name),
                ..side(scenario, written, &written.wire(back))
            };
            edges.push(Edge {
                name: name.clone(),
                from: network.home.clone(),
                to: network.server.clone(),
                path: PathSpec { forward: way(false), reverse: way(true) },
            });
        }
    }
    let spec = Spec { mtu: scenario.mtu, interval: INTERVAL, seed, ..Spec::of(edges) };
    spec.validate().context("the lab cannot emulate these paths")?;
    Ok(spec)
}

/// Returns when the only path over a link is down.
fn outages(network: &Network, link: &str) -> Option<Outages> {
    let path = (0..network.world.paths.len()).find(|path| network.link(*path) == link)?;
    let down = &network.world.paths[path].down;
    let listed = down.iter().map(|(from, to)| (*from - Instant::ZERO, *to - *from)).collect();
    (!down.is_empty()).then_some(Outages::Listed(listed))
}

/// Returns the links with outages, whose times count from the moment at which they are set.
pub(super) fn changing(spec: &Spec) -> Vec<(&str, PathSpec)> {
    let links = spec.links.iter().filter(|link| link.path.forward.outages.is_some());
    links.map(|link| (link.name.as_str(), link.path.clone())).collect()
}

/// Returns the cross traffic of all links, a source for each time at which it has another rate.
pub(super) fn cross(networks: &[Network]) -> Vec<Cross> {
    let mut all = Vec::new();
    for network in networks {
        for (link, name) in network.world.links.iter().zip(&network.links) {
            let ends = link.levels.iter().skip(1).map(|(at, _)| Some(*at - Instant::ZERO)).chain([None]);
            for ((from, rate), stop) in link.levels.iter().zip(ends).filter(|((_, rate), _)| rate.bps() > 0) {
                let traffic = Cross::new(Direction::Forward, link.traffic(*rate)).on(name);
                all.push(Cross { start: *from - Instant::ZERO, stop, ..traffic });
            }
        }
    }
    all
}

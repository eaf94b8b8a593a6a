//! The parallel paths of everyone who chooses: each has copies of the tight links between
//! two nodes of his own.

use headway_lab::{Cross, Direction};
use headway_scenario::{LinkSpec, Scenario, SelectSpec, Topology, Wire};
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
    /// The lab's names of links, of which there are the tight ones, in the order of the world.
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
        let rivals = spec.rivals.iter().map(|rival| (rival.name(), Contestant::Rival(*rival)));
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

/// Returns the lab of all these paths: a link for each that is tight, with what else there is on its path.
pub(super) fn paths(scenario: &Scenario, seed: u64, networks: &[Network]) -> Result<Scenario, Error> {
    let topology = Topology::new(scenario);
    let mut links: Vec<LinkSpec> = Vec::new();
    for network in networks {
        let routes = network.spec.routes(network.select, scenario, &topology)?;
        for (number, route) in routes.iter().enumerate() {
            let name = network.link(number);
            let way = |hops: &[usize], from: &str, to: &str| {
                let (link, outages) =
                    (one_link(scenario, &topology, hops, [from, to])?, outages(network, name));
                Ok::<_, ConfigError>(LinkSpec { name: Some(name.to_owned()), outages, ..link })
            };
            let (home, server) = (&network.home, &network.server);
            let path = [way(&route.there, home, server)?, way(&route.back, server, home)?];
            let known: Vec<&LinkSpec> =
                links.iter().filter(|link| link.name.as_deref() == Some(name)).collect();
            if known.is_empty() {
                links.extend(path);
                continue;
            }
            let key = format!("select[{}].path[{number}].via", network.select);
            let rule = "has another delay, loss or jitter than another path over the same tight link; in a lab both are one \
                        link";
            check(&key, path.iter().eq(known), rule)?;
        }
    }
    let paths = Scenario { mtu: scenario.mtu, interval: INTERVAL, seed, ..Scenario::of(links) };
    headway_lab::check_network(&paths).context("the lab cannot emulate these paths")?;
    Ok(paths)
}

/// Returns one direction of a link that does what all these links do.
fn one_link(
    scenario: &Scenario,
    topology: &Topology,
    hops: &[usize],
    [from, to]: [&str; 2],
) -> Result<LinkSpec, ConfigError> {
    let (mut rated, mut wire, mut delay, mut arrive) = (None, Wire::default(), Duration::ZERO, 1.0);
    for hop in hops {
        let direction = &topology.directions()[*hop];
        let link = &scenario.link[direction.link];
        let of_hop = link.wire(direction.back);
        let key = |key: &str| format!("link[{}].{key}", direction.link);
        if link.has_queue() {
            let name = if link.rates.is_some() { "rates" } else { "rate" };
            check(&key(name), rated.is_none(), "is the second rate on a path; a lab emulates one")?;
            rated = Some(link);
        }
        if !of_hop.jitter.is_none() {
            check(
                &key("jitter"),
                wire.jitter.is_none(),
                "is the second jitter on a path; a lab emulates one",
            )?;
            (wire.jitter, wire.reordering) = (of_hop.jitter, of_hop.reordering);
        }
        arrive *= 1.0 - of_hop.loss;
        delay += link.delay;
    }
    wire.loss = 1.0 - arrive;
    // Without a rate any link will do.
    let first = hops.first().map(|hop| &scenario.link[topology.directions()[*hop].link]);
    let link = rated.or(first).ok_or_else(|| ConfigError::new("link", "is missing"))?;
    Ok(LinkSpec { delay, ..link.between(from, to, wire) })
}

/// Returns when the only path over a link is down.
fn outages(network: &Network, link: &str) -> Option<Outages> {
    let path = (0..network.world.paths.len()).find(|path| network.link(*path) == link)?;
    let down = &network.world.paths[path].down;
    let listed = down.iter().map(|(from, to)| (*from - Instant::ZERO, *to - *from)).collect();
    (!down.is_empty()).then_some(Outages::Listed(listed))
}

/// Returns the cross traffic of all links, a source for each time at which it has another rate.
pub(super) fn cross(networks: &[Network]) -> Vec<Cross> {
    let mut all = Vec::new();
    for network in networks {
        for (link, name) in network.world.links.iter().zip(&network.links) {
            let ends = link.levels.iter().skip(1).map(|(at, _)| Some(*at - Instant::ZERO)).chain([None]);
            for ((from, rate), stop) in link.levels.iter().zip(ends).filter(|((_, rate), _)| rate.bps() > 0) {
                let (start, traffic) = (*from - Instant::ZERO, link.traffic(*rate));
                let (link, direction) = (Some(name.clone()), Direction::Forward);
                all.push(Cross { link, direction, start, stop, traffic });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn spec_of(text: &str) -> Result<(Vec<Network>, Scenario), String> {
        let scenario = Scenario::parse(text, Path::new("x.toml"), &[]).map_err(|error| error.to_string())?;
        let networks = all(&scenario, 1).map_err(|error| error.to_string())?;
        let lab = paths(&scenario, 1, &networks).map_err(|error| error.to_string())?;
        Ok((networks, lab))
    }

    /// Returns two paths over a common first link with these keys, then a link each and one more each.
    fn text(common: &str, [a, b]: [&str; 2], a_end: &str) -> String {
        let link = |from: &str, to: &str, keys: &str| {
            format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\n{keys}\n")
        };
        let links = link("here", "up", common) + &link("up", "a", a) + &link("up", "b", b);
        let ends = link("a", "there", a_end) + &link("b", "there", "delay = \"5 ms\"");
        let select =
            "[[select]]\nfrom = \"here\"\nto = \"there\"\npath = [{ via = [\"a\"] }, { via = [\"b\"] }]\n";
        format!("duration = \"60 s\"\n{links}{ends}{select}")
    }

    const RATES: [&str; 2] = ["rate = \"20 Mb/s\"", "rate = \"30 Mb/s\""];
    const DELAY: &str = "delay = \"5 ms\"";

    #[test]
    fn a_link_of_a_lab_does_what_all_links_of_a_path_do() {
        let end =
            format!("{DELAY}\nloss = 0.1\njitter = \"2 ms\"\nreordering = true\nreverse = {{ loss = 0.5 }}");
        let (_, lab) = spec_of(&text("loss = 0.2\ndelay = \"1 ms\"", RATES, &end)).unwrap();
        let losses: Vec<f64> = lab.link.iter().map(|link| link.loss).collect();
        let close =
            losses.iter().zip([0.28, 0.6, 0.2, 0.2]).all(|(loss, wanted)| (loss - wanted).abs() < 1e-12);
        assert!(close, "{losses:?}");
        let [one, back, .., two] = &lab.link[..] else { panic!("two links") };
        assert!(one.reordering && !one.jitter.is_none() && back.jitter.is_none());
        let facts = |side: &LinkSpec| (side.rate.map(|rate| rate.mbps()), side.delay);
        assert_eq!(facts(one), (Some(20.0), Duration::from_ms(6)));
        assert_eq!(facts(two), (Some(30.0), Duration::from_ms(6)));
    }

    #[test]
    fn times_of_rates_count_from_the_begin_of_the_run() {
        let rates = "rates = [[\"0 s\", \"20 Mb/s\"], [\"30 s\", \"5 Mb/s\"]]";
        let (networks, lab) = spec_of(&text("", [rates, RATES[1]], DELAY)).unwrap();
        let changing = lab.link.iter().find(|link| link.rates.is_some()).unwrap();
        assert_eq!(changing.name.as_deref(), Some(networks[0].link(0)));
        // The cross traffic has another level where the rate has.
        assert!(cross(&networks).iter().any(|cross| cross.start == Duration::from_ms(30_000)));
    }

    #[test]
    fn what_one_link_cannot_do_is_refused_with_its_key() {
        let jitter = "jitter = \"1 ms\"";
        let narrow = "rate = \"5 Mb/s\"";
        for (text, wanted) in [
            (text(narrow, RATES, DELAY), "`link[1].rate`: is the second rate on a path"),
            (
                text(jitter, RATES, &format!("{DELAY}\n{jitter}")),
                "`link[3].jitter`: is the second jitter on a path",
            ),
            (
                text(narrow, ["loss = 0.1", ""], DELAY),
                "`select[0].path[1].via`: has another delay, loss or jitter",
            ),
        ] {
            let error = spec_of(&text).map(|_| ()).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        assert_eq!(spec_of(&text(narrow, ["", ""], DELAY)).unwrap().1.link.len(), 2);
    }
}

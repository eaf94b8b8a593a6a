//! The hard paths: loaded links in a row, TCP as cross traffic, managed queues and a policer.

use headway_queue::{CodelConfig, PieConfig, Policer, QueueSpec, RedConfig};
use headway_scenario::{LinkSpec, Scenario, TrafficSpec};
use headway_units::{Bytes, Duration, Rate};
use headway_worlds::{Demand, TcpFlows};

use headway_runs::testbed::Model;

/// What the paths of a class have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Class {
    TwoLinks,
    Chain,
    Tcp,
    Aqm,
    Policer,
}

/// A path from client to server.
pub(super) struct Path {
    pub(super) class: Class,
    links: &'static [Link],
}

/// A link with the traffic that crosses only this link.
struct Link {
    /// Its rate, or that of its policer.
    mbps: f64,
    /// Share of the rate that the traffic without congestion control offers.
    load: f64,
    model: Model,
    queue: Managed,
    /// TCP of this host's kernel.
    tcp: Option<Tcp>,
}

/// How the queue of a link is managed.
#[derive(Clone, Copy)]
enum Managed {
    DropTail,
    Codel,
    Pie,
    Red,
    /// A policer with a bucket of 100 kB, on a link three times as fast.
    Policed,
}

/// TCP flows that are alike.
#[derive(Clone, Copy)]
struct Tcp {
    controller: &'static str,
    count: u32,
    sends: Sends,
}

/// What TCP flows have to send.
#[derive(Clone, Copy)]
enum Sends {
    Everything,
    /// Flows that arrive at random, with this mean payload, and together this rate.
    Sessions {
        mbps: f64,
        mean_kb: u64,
    },
    /// Chunks as of a film, with a pause after each.
    Chunks {
        chunk_kb: u64,
        pause_ms: i64,
    },
}

use Managed::{Codel, DropTail, Pie, Policed, Red};
use Model::{Bursty, Cbr, Poisson};

const fn link(mbps: f64, load: f64, model: Model) -> Link {
    Link { mbps, load, model, queue: DropTail, tcp: None }
}

impl Link {
    const fn queue(self, queue: Managed) -> Link {
        Link { queue, ..self }
    }

    const fn greedy(self, controller: &'static str, count: u32) -> Link {
        Link { tcp: Some(Tcp { controller, count, sends: Sends::Everything }), ..self }
    }

    const fn sessions(self, controller: &'static str, mbps: f64, mean_kb: u64) -> Link {
        Link { tcp: Some(Tcp { controller, count: 1, sends: Sends::Sessions { mbps, mean_kb } }), ..self }
    }

    const fn films(self, controller: &'static str, count: u32, chunk_kb: u64, pause_ms: i64) -> Link {
        Link { tcp: Some(Tcp { controller, count, sends: Sends::Chunks { chunk_kb, pause_ms } }), ..self }
    }
}

const fn path(class: Class, links: &'static [Link]) -> Path {
    Path { class, links }
}

/// All paths, with rates from 3 to 500 Mb/s.
pub(super) const PATHS: [Path; 20] = [
    // The tight link first; equally tight links; the tight link before the narrow one.
    path(Class::TwoLinks, &[link(100.0, 0.6, Poisson), link(100.0, 0.3, Poisson)]),
    path(Class::TwoLinks, &[link(30.0, 0.6, Bursty), link(30.0, 0.3, Bursty)]),
    path(Class::TwoLinks, &[link(10.0, 0.5, Poisson), link(10.0, 0.5, Poisson)]),
    path(Class::TwoLinks, &[link(100.0, 0.5, Bursty), link(100.0, 0.5, Bursty)]),
    path(Class::TwoLinks, &[link(500.0, 0.4, Poisson), link(500.0, 0.4, Poisson)]),
    path(Class::TwoLinks, &[link(100.0, 0.85, Poisson), link(30.0, 0.2, Poisson)]),
    path(Class::TwoLinks, &[link(300.0, 0.8, Bursty), link(100.0, 0.2, Bursty)]),
    path(Class::Chain, &[link(36.0, 0.45, Poisson), link(30.0, 0.4, Poisson), link(33.0, 0.35, Bursty)]),
    path(
        Class::Chain,
        &[
            link(120.0, 0.45, Poisson),
            link(100.0, 0.3, Bursty),
            link(110.0, 0.4, Poisson),
            link(100.0, 0.35, Cbr),
        ],
    ),
    // An elephant beside traffic of a constant rate; several greedy flows; flows that come and go; films.
    path(Class::Tcp, &[link(30.0, 0.2, Cbr).greedy("cubic", 1)]),
    path(Class::Tcp, &[link(100.0, 0.2, Cbr).greedy("bbr", 1)]),
    path(Class::Tcp, &[link(10.0, 0.0, Cbr).greedy("reno", 8)]),
    path(Class::Tcp, &[link(3.0, 0.05, Poisson).sessions("reno", 0.9, 20)]),
    path(Class::Tcp, &[link(100.0, 0.05, Poisson).sessions("cubic", 45.0, 200)]),
    path(Class::Tcp, &[link(30.0, 0.05, Poisson).films("cubic", 3, 1_000, 1_200)]),
    path(
        Class::Tcp,
        &[
            link(100.0, 0.1, Poisson).sessions("cubic", 45.0, 100),
            link(60.0, 0.05, Poisson).films("bbr", 2, 1_000, 600),
        ],
    ),
    path(Class::Aqm, &[link(30.0, 0.6, Poisson).queue(Codel)]),
    path(Class::Aqm, &[link(100.0, 0.1, Poisson).queue(Pie).sessions("cubic", 40.0, 200)]),
    path(Class::Aqm, &[link(300.0, 0.5, Bursty).queue(Red)]),
    path(Class::Policer, &[link(30.0, 0.3, Poisson).queue(Policed)]),
];

/// What separates links in descriptions.
pub(super) const BETWEEN: &str = "; ";

/// RTT of all paths without queueing, as of a path within a country.
const RTT: Duration = Duration::from_ms(20);

/// Bucket of a policer, and how much faster than its rate the link is.
const BUCKET: Bytes = Bytes::new(100_000);
const FASTER: f64 = 3.0;

/// Thresholds of RED as times at the rate of the link; its authors advise that the larger be
/// three times the smaller.
const RED_MIN: Duration = Duration::from_ms(10);
const RED_MAX: Duration = Duration::from_ms(30);

/// Spread of the sizes of sessions: the few largest make up most of the bytes.
const SPREAD: f64 = 1.0;

impl Class {
    /// All classes, as tables name them.
    pub(super) const ALL: [Class; 5] =
        [Class::TwoLinks, Class::Chain, Class::Tcp, Class::Aqm, Class::Policer];

    pub(super) fn name(self) -> &'static str {
        match self {
            Class::TwoLinks => "two links",
            Class::Chain => "chain",
            Class::Tcp => "TCP",
            Class::Aqm => "AQM",
            Class::Policer => "policer",
        }
    }
}

impl Path {
    /// Returns the network with its cross traffic, without TCP.
    pub(super) fn network(&self, seed: u64) -> Scenario {
        let delay = Duration::from_ns(RTT.ns() / 2 / self.links.len() as i64);
        let (mut links, mut traffic) = (Vec::new(), Vec::new());
        for (index, link) in self.links.iter().enumerate() {
            let [from, to] = [index, index + 1].map(|number| self.node(number));
            links.extend(link.spec(&from, &to, delay).and_back());
            if link.load > 0.0 {
                let rate = Rate::from_mbps(link.mbps).scale(link.load);
                traffic.push(TrafficSpec::new(&from, &to, link.model.traffic(rate)));
            }
        }
        Scenario { traffic, seed, ..Scenario::of(links) }
    }

    /// Returns the flows of kernel TCP.
    pub(super) fn flows(&self, seed: u64) -> Vec<TcpFlows> {
        let flows = |(index, link): (usize, &Link)| {
            let Tcp { controller, count, sends } = link.tcp?;
            let nodes = [self.node(index), self.node(index + 1)];
            Some(TcpFlows { nodes, controller: controller.to_owned(), count, demand: sends.demand(seed) })
        };
        self.links.iter().enumerate().filter_map(flows).collect()
    }

    fn node(&self, number: usize) -> String {
        match number {
            0 => "client".to_owned(),
            number if number == self.links.len() => "server".to_owned(),
            number => format!("r{number}"),
        }
    }

    /// Says which rates its links have in Mb/s, and which traffic, with [`BETWEEN`] between them.
    pub(super) fn describe(&self) -> String {
        self.links.iter().map(Link::describe).collect::<Vec<_>>().join(BETWEEN)
    }
}

impl Link {
    /// The buffer is that of a common access router: 100 ms, at least 64 kB.
    fn spec(&self, from: &str, to: &str, delay: Duration) -> LinkSpec {
        let rate = Rate::from_mbps(self.mbps);
        let (queue, police) = match self.queue {
            DropTail => (None, None),
            Codel => (Some(QueueSpec::Codel(CodelConfig::default())), None),
            Pie => (Some(QueueSpec::Pie(PieConfig::default())), None),
            Red => (
                Some(QueueSpec::Red(RedConfig::between(rate.bytes_in(RED_MIN), rate.bytes_in(RED_MAX)))),
                None,
            ),
            Policed => (None, Some(Policer { rate, burst: BUCKET })),
        };
        let rate = if police.is_some() { rate.scale(FASTER) } else { rate };
        LinkSpec { queue, police, ..LinkSpec::at(from, to, rate, delay) }
    }

    fn describe(&self) -> String {
        let queue = match self.queue {
            DropTail => "",
            Codel => " CoDel",
            Pie => " PIE",
            Red => " RED",
            Policed => " policed",
        };
        let traffic = format!("{:.0} % {}", self.load * 100.0, self.model.name());
        let traffic = Some(traffic).filter(|_| self.load > 0.0);
        let tcp = self.tcp.as_ref().map(Tcp::describe);
        let all: Vec<String> = traffic.into_iter().chain(tcp).collect();
        format!("{}{queue}: {}", self.mbps, all.join(", "))
    }
}

impl Tcp {
    fn describe(&self) -> String {
        let Tcp { controller, count, .. } = self;
        match self.sends {
            Sends::Everything => format!("{count} greedy {controller}"),
            Sends::Sessions { mbps, .. } => format!("{mbps} in {controller} sessions"),
            Sends::Chunks { .. } => format!("{count} {controller} films"),
        }
    }
}

impl Sends {
    fn demand(&self, seed: u64) -> Demand {
        match *self {
            Sends::Everything => Demand::Greedy,
            Sends::Sessions { mbps, mean_kb } => {
                let per_second = mbps * 1e6 / 8.0 / (mean_kb as f64 * 1e3);
                Demand::Arrivals { per_second, mean: Bytes::new(mean_kb * 1_000), spread: SPREAD, seed }
            }
            Sends::Chunks { chunk_kb, pause_ms } => {
                Demand::Chunks { chunk: Bytes::new(chunk_kb * 1_000), pause: Duration::from_ms(pause_ms) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_path_is_a_valid_network_with_something_left() {
        let mut seen = BTreeSet::new();
        for path in &PATHS {
            let network = path.network(1).checked().unwrap();
            assert_eq!(headway_lab::check_network(&network).unwrap(), [""; 0], "{}", path.describe());
            assert!(seen.insert(path.describe()), "twice: {}", path.describe());
            for flows in path.flows(1) {
                let nodes: Vec<&str> =
                    network.link.iter().flat_map(|link| [link.from.as_str(), link.to.as_str()]).collect();
                assert!(flows.nodes.iter().all(|node| nodes.contains(&node.as_str())));
                // The default of this host may be any; every path chooses.
                assert!(["cubic", "reno", "bbr"].contains(&flows.controller.as_str()));
            }
        }
    }

    #[test]
    fn paths_cover_what_makes_paths_hard() {
        let of = |class: Class| PATHS.iter().filter(move |path| path.class == class);
        let links = || PATHS.iter().flat_map(|path| path.links);
        assert!(Class::ALL.iter().all(|class| of(*class).count() >= 1));
        assert!(of(Class::TwoLinks).all(|path| path.links.len() == 2));
        assert!(of(Class::Chain).all(|path| path.links.len() >= 3));
        for mbps in [3.0, 10.0, 30.0, 100.0, 300.0, 500.0] {
            assert!(links().any(|link| link.mbps == mbps), "{mbps}");
        }
        let sends =
            |wanted: fn(&Sends) -> bool| links().filter_map(|link| link.tcp).any(|tcp| wanted(&tcp.sends));
        assert!(sends(|sends| matches!(sends, Sends::Everything)));
        assert!(sends(|sends| matches!(sends, Sends::Sessions { .. })));
        assert!(sends(|sends| matches!(sends, Sends::Chunks { .. })));
    }

    #[test]
    fn a_policed_link_is_faster_than_what_it_lets_pass() {
        let policed = link(30.0, 0.3, Poisson).queue(Policed).spec("a", "b", Duration::ZERO);
        assert_eq!(policed.rate, Some(Rate::from_mbps(90.0)));
        assert_eq!(policed.police.map(|policer| policer.rate), Some(Rate::from_mbps(30.0)));
    }
}

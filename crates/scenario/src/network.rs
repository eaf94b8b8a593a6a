//! Networks and what runs on them, made by programs instead of files, with the same defaults.

use headway_traffic::Traffic;
use headway_units::{ConfigError, Duration, Rate};
use serde::Deserialize;
use serde::de::value::{Error, MapDeserializer};

use crate::controller::FlowController;
use crate::model::{FlowSpec, LinkSpec, Scenario, TrafficSpec, Wire};
use crate::read::{DAY, INTERVAL};

/// Returns what a file has that sets these keys only.
fn written<'de, T: Deserialize<'de>>(keys: &[(&'de str, &'de str)]) -> T {
    let keys = MapDeserializer::<_, Error>::new(keys.iter().copied());
    T::deserialize(keys).expect("these are the keys without a default")
}

impl Scenario {
    /// Returns a network of these links on which nothing runs, with the defaults of files for the rest.
    pub fn of(link: Vec<LinkSpec>) -> Scenario {
        Scenario { link, interval: INTERVAL, duration: DAY, ..written(&[]) }
    }

    /// Returns the scenario with a link for each direction, in the order of
    /// [`Topology::directions`](crate::Topology).
    pub fn one_way(&self) -> Scenario {
        let ways =
            |link: &LinkSpec| [false, true].map(|back| (!back || link.duplex).then(|| link.one_way(back)));
        Scenario { link: self.link.iter().flat_map(ways).flatten().collect(), ..self.clone() }
    }

    /// Returns the network if all of its values are right.
    ///
    /// # Errors
    /// Names the offending key.
    pub fn checked(self) -> Result<Scenario, ConfigError> {
        self.check_network()?;
        Ok(self)
    }
}

impl LinkSpec {
    /// Creates a duplex link without a rate and a delay.
    pub fn new(from: &str, to: &str) -> LinkSpec {
        written(&[("from", from), ("to", to)])
    }

    /// Creates a duplex link with a rate and a delay.
    pub fn at(from: &str, to: &str, rate: Rate, delay: Duration) -> LinkSpec {
        LinkSpec { rate: Some(rate), delay, ..LinkSpec::new(from, to) }
    }

    /// Returns one of the two directions of a duplex link, as a link of its own.
    pub fn one_way(&self, back: bool) -> LinkSpec {
        let (from, to) = if back { (&self.to, &self.from) } else { (&self.from, &self.to) };
        self.between(from, to, self.wire(back))
    }

    /// Returns the link with other ends, in one direction only, and with this on its wire.
    pub fn between(&self, from: &str, to: &str, wire: Wire) -> LinkSpec {
        let Wire { delay_trace, loss, loss_bursts, duplicate, corrupt, ecn, jitter, reordering } = wire;
        let (from, to) = (from.to_owned(), to.to_owned());
        let link = LinkSpec { from, to, duplex: false, reverse: None, ..self.clone() };
        LinkSpec { delay_trace, loss, loss_bursts, duplicate, corrupt, ecn, jitter, reordering, ..link }
    }

    /// Returns this link in its own direction only, and one back that has its rate and delay and nothing
    /// else: what `forward` alone means in a file.
    pub fn and_back(self) -> [LinkSpec; 2] {
        let LinkSpec { rate, delay, burst, peak_rate, .. } = self;
        let (rates, trace) = (self.rates.clone(), self.trace.clone());
        let back =
            LinkSpec { rate, rates, trace, burst, peak_rate, delay, ..LinkSpec::new(&self.to, &self.from) };
        [LinkSpec { duplex: false, ..self }, LinkSpec { duplex: false, ..back }]
    }
}

impl FlowSpec {
    /// Creates a TCP flow that always has data to send.
    pub fn new(from: &str, to: &str, controller: impl Into<FlowController>) -> FlowSpec {
        let flow = written(&[("from", from), ("to", to), ("controller", "reno")]);
        FlowSpec { controller: controller.into(), ..flow }
    }
}

impl TrafficSpec {
    /// Creates a source that lasts as long as the run.
    pub fn new(from: &str, to: &str, traffic: Traffic) -> TrafficSpec {
        let (from, to) = (from.to_owned(), to.to_owned());
        TrafficSpec { from, to, via: Vec::new(), start: Duration::ZERO, stop: None, traffic }
    }
}

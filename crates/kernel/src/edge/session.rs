//! A middlebox at work: it hears which connections there are, and says what each may have.

use std::collections::{HashMap, HashSet};
use std::time::{Duration as Span, Instant as Clock};

use headway_arithmetic::flow::{Flow, Key, Rules};
use headway_arithmetic::rwm::SHARE_BITS;
use headway_arithmetic::virtual_queue::COST_BITS;
use headway_edge::{Connections, Policy, Rates, Shares, Treatment, Treatments};
use headway_units::{PerSide, Rate, Side};

use super::{
    Connection, Edge, EdgeCounters, EdgeInterface, EdgeOptions, Event, Events, Exchange, MOST_CLASSES,
    Marking, SmallReceiver, now,
};
use crate::error::Error;

const _: () = assert!(headway_edge::MOST_CLASSES == MOST_CLASSES);

/// Longest time of a round; events end it earlier.
const ROUND: Span = Span::from_millis(100);
/// How often the programs hear that the process lives: well within their patience.
const EVERY: Span = Span::from_secs(1);
/// How often the connections are compared with those that the programs have, and silent ones are removed.
const RECONCILE: Span = Span::from_secs(10);
/// A connection has ended after so long without a packet, in ns (wan 2.1).
const IDLE: u64 = 300_000_000_000;
/// A flow of UDP has ended after so long without a datagram, in ns: QUIC gives a connection up after
/// 30 s or a little more.
const EXCHANGE_IDLE: u64 = 60_000_000_000;
/// The same for one of a question and an answer, which most are: the place is for others then.
const SHORT_EXCHANGE_IDLE: u64 = 5_000_000_000;
/// The part of its share at which a virtual queue drains, so that the queue at the link, which has the whole
/// share, becomes empty. Range 0.9 to 1: that of Kunniyur and Srikant (AVQ, 2001) is 0.98.
const DRAINS: f64 = 0.98;
/// Fewer datagrams are a question and its answer, with some repetitions.
const FEW: u64 = 10;

/// The programs at an interface, and the connections that they hold. Until this is dropped
/// or the process ends.
#[derive(Debug)]
pub struct Session {
    sides: [EdgeInterface; 2],
    pub(super) edge: Edge,
    events: Events,
    /// The rules of the policy, and how often they have changed.
    rules: Rules,
    ruled: u32,
    capacity: PerSide<Rate>,
    connections: Connections,
    /// What shares are computed from, as the last look has it.
    rates: Rates,
    /// What the programs do with flows by their numbers, but for windows.
    treated: HashMap<u64, Treatment>,
    /// What they heard last.
    marking: Marking,
    /// Where a relay takes connections that are split, if there is one, and the hosts of which
    /// the programs know that.
    pub(super) relay: Option<[u16; 2]>,
    pub(super) small_receivers: HashSet<SmallReceiver>,
    said: Clock,
    reconciled: Clock,
    /// When connections were looked at last, and how long the next look waits after that.
    pub(super) looked: Clock,
    pub(super) pause: Span,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// A look at all flows.
    pub look: bool,
    /// What they hear every second.
    pub second: bool,
}

impl Session {
    /// Attaches the programs to the first of two interfaces, for connections between hosts there and hosts
    /// beyond the second. `capacity` is the rate of the link towards each of the two sides. When this
    /// returns, connections that begin are held.
    ///
    /// # Errors
    /// When the user lacks the privileges, or the kernel refuses.
    pub fn start(
        sides: [EdgeInterface; 2],
        options: &EdgeOptions,
        policy: &Policy,
        capacity: PerSide<Rate>,
    ) -> Result<Session, Error> {
        let [lan, wan] = &sides;
        let rules = policy.rules();
        let edge = Edge::start([lan, wan], options, &rules)?;
        let events = edge.events()?;
        let connections = Connections::new(policy, capacity);
        edge.say(&connections.shares().0, 0, 0)?;
        let now = Clock::now();
        Ok(Session {
            sides,
            edge,
            events,
            rules,
            ruled: 0,
            capacity,
            connections,
            rates: Rates::default(),
            treated: HashMap::new(),
            marking: Marking::default(),
            relay: None,
            small_receivers: HashSet::new(),
            said: now,
            reconciled: now,
            looked: now,
            pause: Span::ZERO,
        })
    }

    /// Works for a tenth of a second at most, or until connections begin or end; returns what is due. To be
    /// called again at once: after five seconds without it, the programs let everything pass.
    ///
    /// # Errors
    /// When an interface is gone, with which the programs went, or the kernel refuses.
    pub fn work(&mut self) -> Result<Due, Error> {
        let before = self.connections.shares();
        for event in self.events.wait(ROUND)? {
            match event {
                Event::Begun(key, flow) => self.connections.begin(key, class_of(&self.rules, &key, &flow)),
                Event::Ended(key, _) => self.connections.end(&key),
            }
        }
        if self.reconciled.elapsed() >= RECONCILE {
            self.reconcile()?;
            self.reconciled = Clock::now();
        }
        let is_due = self.said.elapsed() >= EVERY;
        if is_due || self.connections.shares() != before {
            self.say()?;
        }
        if is_due {
            // What changed is said at once, but the second goes on.
            self.said = Clock::now();
            self.check_sides()?;
        }
        Ok(Due { look: self.looked.elapsed() >= self.pause, second: is_due })
    }

    /// Returns the connections that there are.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn connections(&self) -> Result<Vec<(Key, Connection)>, Error> {
        self.edge.connections()
    }

    /// Returns the flows of UDP that cross the link, and removes those that are silent. To be
    /// called every second.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn exchanges(&self) -> Result<Vec<(Key, Exchange)>, Error> {
        let now = now()?;
        let mut there = self.edge.exchanges()?;
        for (key, _) in there.extract_if(.., |(_, exchange)| is_over(exchange, now)) {
            self.edge.remove_exchange(&key)?;
        }
        there.retain(|(_, exchange)| exchange.is_answered());
        Ok(there)
    }

    /// Returns the index of a connection's class in the policy; none if it is of no class.
    pub fn class(&self, key: &Key, client: usize, dscp: u8) -> Option<u32> {
        self.rules.classify(key, client, dscp)
    }

    /// Gives the connections classes and shares of another policy at once. What the options of
    /// [`Session::start`] say does not change.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn set_policy(&mut self, policy: &Policy) -> Result<(), Error> {
        self.rules = policy.rules();
        self.ruled = self.ruled.wrapping_add(1);
        self.edge.set_rules(&self.rules)?;
        self.connections = Connections::new(policy, self.capacity);
        // Their classes may have other numbers now.
        self.forget_receivers()?;
        self.say_splitting(policy)?;
        for (key, Connection { flow, .. }) in self.edge.connections()? {
            self.connections.begin(key, class_of(&self.rules, &key, &flow));
        }
        self.connections.follow(self.rates);
        self.say()
    }

    /// Does with flows what was decided. The programs hear of changes only.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn carry_out(&mut self, treatments: &Treatments) -> Result<(), Error> {
        self.rates = treatments.rates;
        self.connections.apply(treatments);
        let judged = treatments.judged.iter().map(|judged| (judged.seen.number, judged.treatment()));
        let treated: HashMap<u64, Treatment> =
            judged.filter(|(_, treatment)| *treatment != Treatment::Window).collect();
        // Those that have ended first, so that there is room for as many as there are flows.
        for number in self.treated.keys().filter(|number| !treated.contains_key(number)) {
            self.edge.treat(*number, Treatment::Window)?;
        }
        for (number, treatment) in &treated {
            if self.treated.get(number) != Some(treatment) {
                self.edge.treat(*number, *treatment)?;
            }
        }
        self.treated = treated;
        self.say()
    }

    /// Returns which packets to mark: the flows of a class that are marked have their shares together.
    fn marking(&self) -> Marking {
        let (mut flows, shares) = ([0; MOST_CLASSES], self.connections.shares());
        for treatment in self.treated.values() {
            if let Treatment::Marked(class) = treatment {
                flows.get_mut(*class as usize).into_iter().for_each(|flows| *flows += 1);
            }
        }
        let cost = |side: Side, class: usize| match (flows[class], shares[side][class]) {
            (0, _) | (_, 0) => 0,
            (flows, share) => cost_of(share.saturating_mul(flows)),
        };
        let costs = Side::BOTH.map(|side| std::array::from_fn(|class| cost(side, class)));
        Marking { flows: flows.iter().sum(), costs }
    }

    fn say(&mut self) -> Result<(), Error> {
        self.edge.say(&self.connections.shares().0, self.rates.period, self.ruled)?;
        let marking = self.marking();
        if self.marking != marking {
            self.edge.mark(&marking)?;
            self.marking = marking;
        }
        Ok(())
    }

    /// Returns what a connection of each class may have.
    pub fn shares(&self) -> Shares {
        self.connections.shares()
    }

    /// Returns how many connections of a class there are.
    pub fn live(&self, class: u32) -> u32 {
        self.connections.live(class)
    }

    /// Returns what has passed since the beginning.
    ///
    /// # Errors
    /// When the counters cannot be read.
    pub fn counters(&self) -> Result<EdgeCounters, Error> {
        self.edge.counters()
    }

    /// Removes silent connections, and makes up for events that were missed.
    fn reconcile(&mut self) -> Result<(), Error> {
        let now = now()?;
        let mut there = self.edge.connections()?;
        let is_silent = |connection: &Connection| now.saturating_sub(connection.flow.seen()) > IDLE;
        for (key, _) in there.extract_if(.., |(_, connection)| is_silent(connection)) {
            self.edge.remove(&key)?;
        }
        let rules = &self.rules;
        let classed = |(key, Connection { flow, .. })| (key, class_of(rules, &key, &flow));
        self.connections.reconcile(there.into_iter().map(classed));
        Ok(())
    }

    /// The programs of an interface go with it, also if another one gets its name.
    fn check_sides(&self) -> Result<(), Error> {
        match self.sides.iter().find(|side| EdgeInterface::find(&side.name).ok().as_ref() != Some(side)) {
            Some(side) => Err(Error::Device {
                interface: side.name.clone(),
                reason: "it is gone; start again when it is back".to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// Returns what a byte costs in a virtual queue that has this part of the link, in bytes per ns as
/// [`Shares`] has it, 1 at least.
fn cost_of(share: u64) -> u64 {
    let units = (1_u64 << (SHARE_BITS + COST_BITS)) as f64;
    (units / (DRAINS * share as f64)).round() as u64
}

/// Returns the class of a connection by rules that may be newer than those by which the programs gave it one.
fn class_of(rules: &Rules, key: &Key, flow: &Flow) -> u32 {
    rules.classify(key, flow.client(), flow.dscp()).unwrap_or(u32::MAX)
}

/// Whether a flow of UDP has ended.
fn is_over(exchange: &Exchange, now: u64) -> bool {
    let [one, other] = &exchange.sent;
    let idle = if one.packets + other.packets < FEW { SHORT_EXCHANGE_IDLE } else { EXCHANGE_IDLE };
    now.saturating_sub(exchange.seen()) > idle
}

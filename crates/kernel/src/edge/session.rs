//! A middlebox at work: it hears which connections there are, and says what each may have.

use std::time::{Duration as Span, Instant as Clock};

use headway_arithmetic::flow::{Flow, Key};
use headway_edge::{Connections, Drain, Policy, Shares, active};
use headway_units::{Duration, Instant, Rate};

use super::{Edge, EdgeCounters, EdgeOptions, Event, Events, MOST_CLASSES, Side, now};
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

/// The programs at an interface, and the connections that they hold. Until this is dropped or the process ends.
#[derive(Debug)]
pub struct Session {
    sides: [Side; 2],
    edge: Edge,
    events: Events,
    connections: Connections,
    /// None where RTTs are not followed.
    drain: Option<Drain>,
    said: Clock,
    reconciled: Clock,
}

impl Session {
    /// Attaches the programs to the first of two interfaces, for connections between hosts there and hosts beyond the second.
    /// `capacity` is the rate of the link towards each of the two sides. When this returns, connections that begin are held.
    ///
    /// # Errors
    /// When the user lacks the privileges, or the kernel refuses.
    pub fn start(
        sides: [Side; 2],
        options: &EdgeOptions,
        policy: &Policy,
        capacity: [Rate; 2],
    ) -> Result<Session, Error> {
        let [lan, wan] = &sides;
        let edge = Edge::start([lan, wan], options, &policy.rules())?;
        let events = edge.events()?;
        let connections = Connections::new(policy, capacity);
        edge.say(&connections.shares(), 0)?;
        let drain = options.follow_rtt.then(now_here).transpose()?.map(Drain::new);
        let now = Clock::now();
        Ok(Session { sides, edge, events, connections, drain, said: now, reconciled: now })
    }

    /// Works for a tenth of a second at most, or until connections begin or end; returns whether a second has passed since this
    /// was so last. To be called again at once: after five seconds without it, the programs let everything pass.
    ///
    /// # Errors
    /// When an interface is gone, with which the programs went, or the kernel refuses.
    pub fn work(&mut self) -> Result<bool, Error> {
        let before = self.connections.shares();
        for event in self.events.wait(self.round()?)? {
            match event {
                Event::Begun(key, flow) => self.connections.begin(key, flow.class),
                Event::Ended(key, _) => self.connections.end(&key),
            }
        }
        self.turn_drain()?;
        if self.reconciled.elapsed() >= RECONCILE {
            self.reconcile()?;
            self.reconciled = Clock::now();
        }
        let is_due = self.said.elapsed() >= EVERY;
        if is_due || self.connections.shares() != before {
            let period = self.drain.as_ref().map_or(0, Drain::period);
            self.edge.say(&self.connections.shares(), period)?;
        }
        if is_due {
            // What changed is said at once, but the second goes on.
            self.said = Clock::now();
            self.check_sides()?;
        }
        Ok(is_due)
    }

    /// Returns the connections that there are.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn flows(&self) -> Result<Vec<(Key, Flow)>, Error> {
        self.edge.connections()
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

    /// Returns how long to wait for events.
    fn round(&self) -> Result<Span, Error> {
        let Some(drain) = &self.drain else { return Ok(ROUND) };
        // Never nothing, so that a drain that is late cannot keep the processor busy.
        let until = (drain.due() - now_here()?).max(Duration::from_ms(1));
        Ok(until.to_std().min(ROUND))
    }

    /// Begins or ends a step of a drain that is due.
    fn turn_drain(&mut self) -> Result<(), Error> {
        let now = now_here()?;
        let Some(drain) = self.drain.as_mut().filter(|drain| drain.due() <= now) else { return Ok(()) };
        let flows = self.edge.connections()?;
        let part = drain.turn(now, active(flows.iter().map(|(key, flow)| (*key, flow)), now));
        self.connections.set_part(part);
        Ok(())
    }

    /// Removes silent connections, and makes up for events that were missed.
    fn reconcile(&mut self) -> Result<(), Error> {
        let now = now()?;
        let mut there = self.edge.connections()?;
        let silent = |flow: &Flow| now.saturating_sub(flow.seen()) > IDLE;
        for (key, _) in there.extract_if(.., |(_, flow)| silent(flow)) {
            self.edge.remove(&key)?;
        }
        self.connections.reconcile(there.into_iter().map(|(key, flow)| (key, flow.class)));
        Ok(())
    }

    /// The programs of an interface go with it, also if another one gets its name.
    fn check_sides(&self) -> Result<(), Error> {
        match self.sides.iter().find(|side| Side::find(&side.name).ok().as_ref() != Some(side)) {
            Some(side) => Err(Error::Device {
                interface: side.name.clone(),
                reason: "it is gone; start again when it is back".to_owned(),
            }),
            None => Ok(()),
        }
    }
}

/// Returns the time since the machine was started, as programs and [`Drain`] know it.
fn now_here() -> Result<Instant, Error> {
    Ok(Instant::from_ns(now()?))
}

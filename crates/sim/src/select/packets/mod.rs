//! A choice among parallel paths in one network whose packets are all simulated: other traffic, questions,
//! and what users send.
//!
//! Here probes meet what users send, and a queue that they leave is there for the next question. An hour
//! takes minutes, so these are worlds of some minutes; [`super::PathsWorld`] has days.

mod run;

use headway_select::Settings;
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};

use self::run::Run;
use crate::config::{LinkConfig, TcpConfig};

/// A link that is the tight one of a path, with all its traffic but that of users.
#[derive(Clone, Debug)]
pub struct PacketLink {
    /// The direction that users send in.
    pub forward: LinkConfig,
    /// The other one.
    pub back: LinkConfig,
    /// Sources of datagrams, from when on and until when.
    pub sources: Vec<(Traffic, Instant, Option<Instant>)>,
    /// TCP of others; links and controller are replaced.
    pub flows: Vec<TcpConfig>,
    /// What is free from when on.
    pub free: Vec<(Instant, Rate)>,
}

/// A path over one of the links.
#[derive(Clone, Debug)]
pub struct PacketPath {
    /// Its name.
    pub name: String,
    /// The number of its tight link.
    pub link: usize,
    /// When it is down, as its interface shows: from, to, in order.
    pub down: Vec<(Instant, Instant)>,
    /// When its far end does not answer, though packets pass.
    pub away: Vec<(Instant, Instant)>,
    /// Whether its far end refuses to be asked.
    pub refuses: bool,
}

/// Parallel paths with users.
#[derive(Clone, Debug)]
pub struct PacketWorld {
    /// The links.
    pub links: Vec<PacketLink>,
    /// The paths over them.
    pub paths: Vec<PacketPath>,
    /// What users send: when, and how much.
    pub transfers: Vec<(Instant, Bytes)>,
    /// Users do not wait longer for a transfer.
    pub patience: Duration,
    /// The end of the run.
    pub end: Instant,
    /// The seed of all packets.
    pub seed: u64,
}

/// Who chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Chooser {
    /// The selector.
    Selector(Settings),
    /// Always this path.
    Always(usize),
    /// The lowest of the round-trip times, that are asked for so often, by more than this.
    LowestRtt {
        /// Time between two of them.
        every: Duration,
        /// Round trips of each request.
        trips: i64,
        /// The path in use stays unless another takes less by this.
        tolerance: Duration,
    },
}

/// What was said of a path, beside the truth.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// When.
    pub at: Instant,
    /// The path.
    pub path: usize,
    /// Whether it was in use.
    pub is_used: bool,
    /// The median and the ends of the 90 % interval.
    pub free: [Rate; 3],
    /// What was free.
    pub truth: Rate,
    /// The odds that it is better than the one in use by more than the tolerance.
    pub odds: f64,
}

/// What came of a run.
#[derive(Clone, Debug, Default)]
pub struct PacketRun {
    /// From when on which path was used.
    pub chosen: Vec<(Instant, usize)>,
    /// How long every transfer took, at most the patience.
    pub times: Vec<Duration>,
    /// What was said of the paths, once every half a minute.
    pub statements: Vec<Statement>,
    /// Decisions for a better path: when, from which path to which, and with which odds.
    pub claims: Vec<(Instant, [usize; 2], f64)>,
    /// What was sent to measure each path.
    pub spent: Vec<Bytes>,
}

impl PacketWorld {
    fn is_among(times: &[(Instant, Instant)], at: Instant) -> bool {
        times.iter().any(|(from, to)| *from <= at && at < *to)
    }

    /// Returns what is free on a path at `at`.
    pub fn free(&self, path: usize, at: Instant) -> Rate {
        let path = &self.paths[path];
        if Self::is_among(&path.down, at) {
            return Rate::ZERO;
        }
        let levels = &self.links[path.link].free;
        let next = levels.partition_point(|(from, _)| *from <= at);
        levels.get(next.saturating_sub(1)).map_or(Rate::ZERO, |(_, rate)| *rate)
    }

    /// Returns what somebody who chooses does here.
    pub fn run(&self, chooser: &Chooser) -> PacketRun {
        Run::new(self, chooser).finish()
    }
}

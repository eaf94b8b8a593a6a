//! Looks at what the programs have counted, judges it, and has it carried out.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use headway_arithmetic::flow::Key;
use headway_edge::snapshot::{DecisionState, LinkState, Snapshot};
use headway_edge::{Judged, LinkView, Monitor, News, Passive, Policy, Shares};
use headway_kernel::{EdgeCounters, EdgeSession, Error};
use headway_units::{Bytes, Instant, Rate, Side};

use super::capture::{Capture, Ends, Report};
use super::peer::PeerSocket;
use super::probing::{Answered, Probing};
use super::signals::SignalSocket;

/// Most flows that a snapshot has, those with the highest rate: more nobody reads, and each costs every
/// viewer half a kilobyte a second.
const MOST_FLOWS: usize = 200;

/// What is watched, and what was found in the last second.
pub(super) struct Watch {
    lan: String,
    wan: String,
    dry_run: bool,
    classes: Vec<String>,
    monitor: Monitor,
    sources: Sources,
    /// Whether it was reported that probes fail.
    has_warned: bool,
    /// What the last look found, and what a capture said then.
    judged: Vec<Judged>,
    report: Arc<Report>,
    /// The decisions since the last second that are news: about another kind of thing, and
    /// about another amount.
    decided: [Vec<DecisionState>; 2],
}

/// From where something is known besides the tables of the kernel.
pub(super) struct Sources {
    /// None where this process may not capture.
    pub(super) capture: Option<Capture>,
    pub(super) signals: Option<SignalSocket>,
    pub(super) peer: Option<PeerSocket>,
    /// With the most bytes an hour.
    pub(super) probing: Option<(Probing, Bytes)>,
}

/// What was found in a second.
#[derive(Debug)]
pub struct Found {
    /// What a page shows of it, with the flows of the highest rate only.
    pub snapshot: Snapshot,
    /// All flows, those with the highest rate first.
    pub judged: Vec<Judged>,
    /// The names of the classes, and how many connections each has.
    pub classes: Vec<String>,
    /// In their order.
    pub connections: Vec<u32>,
    /// What each class may have of the link, towards the hosts and from them.
    pub shares: Shares,
    /// What the programs have counted since the beginning.
    pub counted: EdgeCounters,
    /// How many of the snapshot's decisions, which come first, are about another kind of thing and not
    /// about another amount.
    pub new_kinds: usize,
}

impl Watch {
    pub(super) fn new(
        [lan, wan]: [&str; 2],
        dry_run: bool,
        (policy, rates): (&Policy, Option<[Rate; 2]>),
        sources: Sources,
    ) -> Watch {
        let monitor = Monitor::new(policy, rates);
        let mut monitor = match &sources.probing {
            Some((_, budget)) => monitor.probing(*budget),
            None => monitor,
        };
        if sources.peer.is_some() {
            monitor.coordinate();
        }
        Watch {
            lan: lan.to_owned(),
            wan: wan.to_owned(),
            dry_run,
            classes: names(policy),
            monitor,
            sources,
            has_warned: false,
            judged: Vec::new(),
            report: Arc::default(),
            decided: Default::default(),
        }
    }

    pub(super) fn set_policy(&mut self, policy: &Policy) {
        self.classes = names(policy);
        self.monitor.set_policy(policy);
    }

    /// Hears what others say of the link, and talks with the edge at its other end. To be called often, so
    /// that it is known when they said it.
    ///
    /// # Errors
    /// When the machine has no clock.
    pub(super) fn listen(&mut self) -> Result<(), Error> {
        let now = Instant::from_ns(headway_kernel::now()?);
        if let Some(socket) = &mut self.sources.signals {
            socket.read(now, self.monitor.signals());
        }
        if let (Some(socket), Some(peer)) = (&mut self.sources.peer, self.monitor.peer()) {
            socket.talk(now, peer);
        }
        Ok(())
    }

    /// Looks at all flows, decides, and has the edge do it.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub(super) fn look(&mut self, edge: &mut EdgeSession) -> Result<&[Judged], Error> {
        self.report = self.sources.capture.as_ref().map(Capture::report).unwrap_or_default();
        self.probe(Instant::from_ns(headway_kernel::now()?));
        self.judged = edge.look(&mut self.monitor, |key| join(key, &self.report.flows))?;
        let time_ms = time_ms();
        for judged in self.judged.iter().filter(|judged| judged.news > News::None) {
            self.decided[usize::from(judged.news < News::Kind)].push(judged.decided(time_ms));
        }
        Ok(&self.judged)
    }

    /// Returns what was found since the last call.
    ///
    /// # Errors
    /// When the counters cannot be read.
    pub(super) fn found(&mut self, edge: &EdgeSession) -> Result<Found, Error> {
        let now = headway_kernel::now()?;
        let (mut judged, report) = (std::mem::take(&mut self.judged), Arc::clone(&self.report));
        // In place, as there may be many; those with the same rate in the order of their beginning.
        judged
            .sort_unstable_by_key(|judged| (Reverse(judged.rates[0] + judged.rates[1]), judged.seen.number));
        let (shares, counted, time_ms) = (edge.shares(), edge.counters()?, time_ms());
        let [kinds, amounts] = std::mem::take(&mut self.decided);
        let (new_kinds, decisions) = (kinds.len(), kinds.into_iter().chain(amounts).collect());
        let snapshot = Snapshot {
            time_ms,
            lan: self.lan.clone(),
            wan: self.wan.clone(),
            dry_run: self.dry_run,
            links: self.links(Instant::from_ns(now), &judged, &report),
            paths: report.paths.clone(),
            flows: judged
                .iter()
                .take(MOST_FLOWS)
                .map(|judged| judged.state(&self.classes, &shares))
                .collect(),
            flows_in_all: judged.len() as u64,
            decisions,
            probes: self.monitor.probes(Instant::from_ns(now)),
            lowered_segments: counted.lowered,
            segments: counted.segments,
            other_packets: counted.other,
            history_lost: None,
        };
        let connections = (0..self.classes.len() as u32).map(|class| edge.live(class)).collect();
        let classes = self.classes.clone();
        Ok(Found { snapshot, judged, classes, connections, shares, counted, new_kinds })
    }

    /// Takes what a probe has found, and asks for the next one if it is time.
    fn probe(&mut self, now: Instant) {
        let Some((probing, _)) = &self.sources.probing else { return };
        if let Some(Answered { probe, cost, result }) = probing.answer() {
            match &result {
                Err(why) if !self.has_warned => {
                    tracing::warn!("cannot probe {why}; the edge goes on without, and tries again");
                    self.has_warned = true;
                }
                Err(_) => {}
                Ok(_) => self.has_warned = false,
            }
            self.monitor.report_probe(now, probe, cost, result);
        }
        if let Some(probe) = self.monitor.next_probe(now) {
            probing.ask(probe);
        }
    }

    fn links(&mut self, now: Instant, judged: &[Judged], report: &Report) -> [LinkState; 2] {
        Side::BOTH.map(|side| {
            let LinkView { capacity_bps, available, narrow, followed } = self.monitor.link(now, side);
            LinkState {
                capacity_bps,
                rate_bps: judged.iter().map(|judged| judged.towards()[side].bps()).sum(),
                available: report.available[side].iter().cloned().chain(available).collect(),
                followed,
                narrow: report.narrow[side].iter().cloned().chain(narrow).collect(),
            }
        })
    }
}

fn names(policy: &Policy) -> Vec<String> {
    policy.class.iter().map(|class| class.name.clone()).collect()
}

/// Returns the time since 1970, in ms.
fn time_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Returns what a capture says of the data of each end.
fn join(key: &Key, passive: &HashMap<Ends, Passive>) -> [Passive; 2] {
    let address = |end| SocketAddr::new(key.address(end), key.port(end));
    [0, 1].map(|end| passive.get(&[address(end), address(1 - end)]).copied().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use headway_arithmetic::flow::Packet;
    use headway_edge::classify::LimitedBy;

    use super::*;

    #[test]
    fn what_a_capture_says_joins_the_end_that_sends_over_both_versions_of_ip() {
        for ends in [["10.0.0.1:5000", "192.0.2.1:443"], ["[fd00::1]:5000", "[2001:db8::1]:443"]] {
            let [host, server]: [SocketAddr; 2] = ends.map(|end| end.parse().unwrap());
            let passive = HashMap::from([([server, host], Passive { limited_by: LimitedBy::Path })]);
            let packet = Packet::between((host.ip(), host.port()), (server.ip(), server.port()));
            let joined = join(packet.key(), &passive).map(|passive| passive.limited_by);
            // The packet is of the host, and the data of the server.
            let mut expected = [LimitedBy::Path; 2];
            expected[packet.sender()] = LimitedBy::Unknown;
            assert_eq!(joined, expected);
        }
    }
}

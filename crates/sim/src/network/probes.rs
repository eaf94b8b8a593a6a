//! Sending and logging of probe packets, and their effect on other traffic.

use headway_units::{Bytes, Duration, Instant};

use super::bundles::first_of;
use super::{DESTINATION, Network, first_link, number};
use crate::config::{LinkId, ProberId};
use crate::packet::Packet;
use crate::probe::{ProbeLog, Prober};
use crate::schedule::EventKind;

impl Network {
    /// Adds a prober whose packets take `path`. The link `tap` records when each of them leaves its queue and
    /// how much other traffic it accepted before it.
    pub fn add_prober(&mut self, path: &[LinkId], tap: Option<LinkId>) -> ProberId {
        let id = number(self.probers.len());
        let route = self.add_route(path);
        self.probers.push(Prober::new(id, route, tap.map(|tap| tap.0)));
        ProberId(id)
    }

    /// Tracks how probes delay or displace other packets on `path`; call it before the network runs.
    pub fn watch(&mut self, path: &[LinkId]) {
        path.iter().for_each(|link| self.links[link.0 as usize].watch());
    }

    /// Returns how many more packets of other traffic a watched link has dropped since the start of the run
    /// than it would have without probes; negative where probes happen to have saved packets.
    pub fn displaced(&self, link: LinkId) -> i64 {
        self.links[link.0 as usize].displaced()
    }

    /// Returns how many packets of other traffic a watched link has dropped since the start of the run.
    pub(crate) fn others_dropped(&self, link: LinkId) -> u64 {
        self.links[link.0 as usize].others_dropped()
    }

    /// Returns the wire bytes of a prober's packets that `link` has accepted since the start of the run.
    pub(crate) fn accepted_of(&self, prober: ProberId, link: LinkId) -> Bytes {
        Bytes::new(self.probers[prober.0 as usize].accepted_by(link.0))
    }

    /// Schedules a probe packet of `size` wire bytes that enters the path at `at`; times must not decrease.
    pub fn send_probe(&mut self, prober: ProberId, at: Instant, size: Bytes) {
        let id = prober.0 as usize;
        let at = at.ns().max(self.queues.now);
        if self.probers[id].plan(at, size) {
            let partition =
                self.queues.partitions.ingress(first_link(&self.routes, self.probers[id].route()));
            self.queues.add_to(partition, at, EventKind::Probe, id);
        }
    }

    /// Returns the log entries of the probe packets sent since the last call, in order. Packets still in
    /// flight are not followed any further.
    pub fn take_probe_log(&mut self, prober: ProberId) -> Vec<ProbeLog> {
        self.probers[prober.0 as usize].take_log()
    }

    /// Whether all scheduled probe packets whose log has not been taken have arrived.
    pub(crate) fn probes_arrived(&self, prober: ProberId) -> bool {
        self.probers[prober.0 as usize].all_arrived()
    }

    /// Whether a link of a prober's path has sent nothing since `since`, because its rate is zero.
    pub(crate) fn is_out(&self, prober: ProberId, since: Instant) -> bool {
        let route = self.probers[prober.0 as usize].route() as usize;
        let hops = self.routes[route..].iter().take_while(|hop| **hop != DESTINATION);
        let links = hops.filter_map(|hop| self.links.get(first_of(*hop) as usize));
        links.filter_map(|link| link.limit(since, self.now())).any(|bytes| bytes == Bytes::ZERO)
    }

    /// Returns the one-way delay of the latest packet sent that has arrived, among those whose
    /// log has not been taken.
    pub(crate) fn latest_probe_delay(&self, prober: ProberId) -> Option<Duration> {
        self.probers[prober.0 as usize].latest_delay()
    }

    /// Sends a probe packet over a link and logs its passage.
    #[inline(never)]
    pub(super) fn forward_probe(&mut self, hop: u32, packet: &Packet) {
        let link = &mut self.links[hop as usize];
        let before = link.accepted();
        let next_event = link.push(self.queues.now, *packet, &mut self.reports);
        self.probers[packet.owner as usize].on_link(self.queues.now, (hop, link), before, packet.seq);
        self.queues.add_link_event(hop as usize, next_event);
    }

    pub(super) fn on_probe(&mut self, index: usize) {
        let (packet, next) = self.probers[index].send(self.queues.now);
        self.queues.replace_first(next, EventKind::Probe, index);
        if let Some(packet) = packet {
            self.forward(&packet);
        }
    }
}

//! The flows of a network: permanent flows, and groups whose flows arrive and leave.
//!
//! Every flow occupies a slot, and an arriving flow may reuse the slot of one that has left. Late packets of
//! the old flow must not reach the new one: each packet carries the time at which its segment was sent (an
//! ACK: the segment it acknowledges), and a packet whose segment was sent before the flow was added is
//! discarded. Timer events of the old flow do not match the deadlines of the new one and are ignored.

use std::collections::VecDeque;

use headway_traffic::random;
use headway_units::{Bytes, Duration, Instant};
use rand::Rng;

use super::partitions::Partitions;
use super::{NO_LINE, NO_NIC, Network, first_link, number, taps};
use crate::config::{Burst, FlowId, GroupId, LinkId, TcpConfig};
use crate::packet::{Packet, REPORT};
use crate::schedule::{EventKind, MAX_COMPONENTS};
use crate::statistics::FlowStatistics;
use crate::transport::receiver::Receiver;
use crate::transport::sender::{SEGMENT_OVERHEAD, Sender};

/// The deadlines of a flow's timers, and its counters at the last reset. The fields that every
/// packet needs come first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Flow {
    /// Times of the pending events (ns); `u64::MAX` when there is none.
    pub(super) retransmit_event: u64,
    pub(super) send_event: u64,
    pub(super) acknowledge_event: u64,
    /// When the flow was added (ns); `u64::MAX` after it has left.
    pub(super) added_at: u64,
    pub(super) nic: u32,
    pub(super) line: u32,
    /// The flow belongs to a group and frees its slot when all its data have been acknowledged.
    pub(super) is_temporary: bool,
    /// The flow sends the ACK that ends its handshake.
    pub(super) ends_handshake: bool,
    /// The partitions of its sender and its receiver.
    pub(super) sender_partition: u8,
    pub(super) receiver_partition: u8,
    mss: u32,
    pub(super) base_received: u64,
    pub(super) base_delivered: u64,
    pub(super) base_marked: u64,
    group: u32,
    size: Bytes,
    path: Path,
}

impl Flow {
    /// Updates the partitions of sender and receiver.
    pub(super) fn update_partitions(&mut self, partitions: &Partitions, routes: &[u32]) {
        self.sender_partition = partitions.ingress(first_link(routes, self.path.forward)) as u8;
        self.receiver_partition = partitions.ingress(first_link(routes, self.path.reverse)) as u8;
    }
}

/// A flow of a group that has completed: all its data have been acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The group of the flow.
    pub group: GroupId,
    /// Its number, which another flow may have taken since.
    pub flow: FlowId,
    /// Its payload.
    pub size: Bytes,
    /// When it was due to start.
    pub start: Instant,
    /// When its last segment was acknowledged.
    pub end: Instant,
    /// Segments sent, retransmissions included.
    pub sent: u64,
    /// Segments retransmitted.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// What the flows of a group share.
#[derive(Debug)]
struct Group {
    config: TcpConfig,
    path: Path,
}

/// Indices of the routes of a flow, and its round-trip time on an empty path (ns).
#[derive(Clone, Copy, Debug)]
struct Path {
    forward: u32,
    reverse: u32,
    round_trip: u64,
}

/// The groups of a network, and the slots that their flows have freed.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// Free slots with the times at which they were freed (ns), oldest first.
    free: VecDeque<(u32, u64)>,
    completions: Vec<Completion>,
    /// Flows added so far.
    added: u64,
}

impl Groups {
    pub(super) fn memory(&self) -> usize {
        self.groups.len() * size_of::<Group>()
            + self.free.capacity() * size_of::<(u32, u64)>()
            + self.completions.capacity() * size_of::<Completion>()
    }

    /// Returns a slot that was freed before `now`.
    fn take_slot(&mut self, now: u64) -> Option<u32> {
        self.free.pop_front_if(|(_, left)| *left < now).map(|(slot, _)| slot)
    }
}

impl Network {
    /// Adds a permanent TCP flow.
    pub fn add_tcp(&mut self, config: &TcpConfig) -> FlowId {
        let path = self.add_path(config);
        let slot = number(self.flows.len());
        self.install(slot, config, path, None);
        FlowId(slot)
    }

    /// Replaces the controller of a permanent flow with congestion headers by that of `config`, which must
    /// have them, too (xcp-rcp F42). The new one begins with a window of one segment.
    pub(crate) fn change_controller(&mut self, flow: FlowId, config: &TcpConfig) {
        let seed = random::generator(self.seed, "controller change", flow.0.into()).next_u64();
        self.senders[flow.0 as usize].change_controller(config, seed);
    }

    /// Adds a group of flows that arrive and leave; [`Network::start_flow`] adds each flow with
    /// its own start and size.
    pub fn add_group(&mut self, config: &TcpConfig) -> GroupId {
        let path = self.add_path(config);
        self.groups.groups.push(Group { config: config.clone(), path });
        GroupId(number(self.groups.groups.len() - 1))
    }

    /// Adds a flow of a group that sends `size` bytes of payload, starting at `start` or now, whichever is
    /// later. When all data have been acknowledged, the flow is listed by [`Network::take_completions`] and
    /// its number may be reused. Returns `None` when the network has no room for another flow.
    pub fn start_flow(&mut self, group: GroupId, start: Instant, size: Bytes) -> Option<FlowId> {
        let slot = match self.groups.take_slot(self.queues.now) {
            Some(slot) => slot,
            None if self.flows.len() < MAX_COMPONENTS => number(self.flows.len()),
            None => return None,
        };
        let mut groups = std::mem::take(&mut self.groups.groups);
        let Group { config, path } = &mut groups[group.0 as usize];
        config.start = Instant::from_ns(start.ns().max(self.queues.now));
        config.size = Some(size);
        self.install(slot, config, *path, Some(group));
        self.groups.groups = groups;
        Some(FlowId(slot))
    }

    /// Returns the flows of groups that have completed since the last call, in order of completion.
    pub fn take_completions(&mut self) -> std::vec::Drain<'_, Completion> {
        self.groups.completions.drain(..)
    }

    /// Returns the number of flows that have been added and have not left.
    pub fn flows_alive(&self) -> usize {
        self.flows.len() - self.groups.free.len()
    }

    fn add_path(&mut self, config: &TcpConfig) -> Path {
        let stations = taps::stations(config);
        let forward = self.add_route_with_stations(&config.forward, &stations.forward);
        let reverse = self.add_route_with_stations(&config.reverse, &stations.reverse);
        self.constraints.flow(&config.forward, &config.reverse);
        if config.burst == Burst::Host {
            config.forward.iter().for_each(|link| self.links[link.0 as usize].expect_host());
        }
        for (nic, last) in [(config.nic, config.forward.last()), (config.ack_nic, config.reverse.last())] {
            if let (Some(nic), Some(last)) = (nic, last) {
                let nic = &mut self.nics[nic.0 as usize];
                self.constraints.nic(*nic.link.get_or_insert(*last), *last);
            }
        }
        self.topology_changed = true;
        Path { forward, reverse, round_trip: self.round_trip(config) }
    }

    /// Returns the round-trip time of a full segment on an empty path (ns).
    fn round_trip(&self, config: &TcpConfig) -> u64 {
        let latency = |path: &[LinkId], size| -> u64 {
            path.iter().map(|link| self.links[link.0 as usize].empty_latency(size)).sum()
        };
        let header = config.header_bytes();
        latency(&config.forward, config.mss + SEGMENT_OVERHEAD + header)
            + latency(&config.reverse, SEGMENT_OVERHEAD + header)
    }

    /// Puts a flow into a free slot, or into a new one at the end.
    fn install(&mut self, slot: u32, config: &TcpConfig, path: Path, group: Option<GroupId>) {
        let seed = random::generator(self.seed, "controller", self.groups.added).next_u64();
        self.groups.added += 1;
        let sender = Sender::new(config, (slot, path.forward), seed, path.round_trip, self.queues.now);
        let mut receiver = Receiver::new(config, slot, path.reverse, path.round_trip);
        if sender.wants_stamps() {
            receiver.take_stamps(config.stamp);
        }
        if sender.is_explicit() {
            receiver.take_headers();
        }
        let begin = sender.begin_at().max(self.queues.now);
        let flow = Flow {
            mss: config.mss,
            nic: config.nic.map_or(NO_NIC, |nic| nic.0),
            line: config.line.map_or(NO_LINE, |line| line.id.0),
            base_received: 0,
            base_delivered: 0,
            base_marked: 0,
            retransmit_event: u64::MAX,
            send_event: begin,
            acknowledge_event: u64::MAX,
            added_at: self.queues.now,
            is_temporary: group.is_some(),
            ends_handshake: config.completes_handshake(),
            group: group.map_or(0, |group| group.0),
            size: config.size.unwrap_or(Bytes::ZERO),
            path,
            sender_partition: 0,
            receiver_partition: 0,
        };
        let place = slot as usize;
        if place == self.flows.len() {
            self.senders.push(sender);
            self.receivers.push(receiver);
            self.flows.push(flow);
        } else {
            (self.senders[place], self.receivers[place], self.flows[place]) = (sender, receiver, flow);
        }
        self.note_connection(slot, config);
        self.flows[place].update_partitions(&self.queues.partitions, &self.routes);
        let partition = usize::from(self.flows[place].sender_partition);
        self.queues.add_to(partition, begin, EventKind::Send, place);
    }

    /// A flow of a group has completed: frees its slot and cancels its timers.
    #[cold]
    pub(super) fn release(&mut self, slot: usize) {
        let (flow, sender) = (&mut self.flows[slot], &self.senders[slot]);
        self.groups.completions.push(Completion {
            group: GroupId(flow.group),
            flow: FlowId(slot as u32),
            size: flow.size,
            start: Instant::from_ns(sender.start()),
            end: Instant::from_ns(self.queues.now),
            sent: sender.counters().sent,
            retransmitted: sender.counters().retransmitted,
            timeouts: sender.counters().timeouts,
        });
        (flow.added_at, flow.is_temporary) = (u64::MAX, false);
        (flow.retransmit_event, flow.send_event, flow.acknowledge_event) = (u64::MAX, u64::MAX, u64::MAX);
        self.groups.free.push_back((slot as u32, self.queues.now));
    }

    /// Discards a packet whose flow has left.
    #[cold]
    pub(super) fn discard_late(&mut self, packet: &Packet) {
        if packet.has(REPORT) {
            self.reports.release(packet.extra);
        }
    }

    /// Returns the statistics of a flow; after it has left, until its number is reused.
    pub fn flow(&self, flow: FlowId) -> FlowStatistics {
        let id = flow.0 as usize;
        let (sender, receiver, flow) = (&self.senders[id], &self.receivers[id], &self.flows[id]);
        let counters = sender.counters();
        let delivered = receiver.in_order() - flow.base_delivered;
        let shortfall = sender.shortfall(receiver.in_order()) - sender.shortfall(flow.base_delivered);
        let known = |ns: u64| (ns > 0 && ns < u64::MAX).then(|| Duration::from_ns(ns as i64));
        FlowStatistics {
            sent: counters.sent,
            retransmitted: counters.retransmitted,
            received: receiver.received() - flow.base_received,
            delivered,
            goodput: Bytes::new((delivered * u64::from(flow.mss)).saturating_sub(shortfall)),
            marked: receiver.marked() - flow.base_marked,
            echoed: counters.echoed,
            timeouts: counters.timeouts,
            recoveries: counters.recoveries,
            reductions: counters.reductions,
            undone: counters.undone,
            cwnd: sender.cwnd(),
            window: sender.window(),
            ssthresh: sender.ssthresh(),
            srtt: known(sender.rtt().smoothed()),
            min_rtt: known(sender.rtt().min()),
            pacing: sender.pacing(),
            inside: sender.inside(),
            finished: sender.finished().map(Instant::from_ns),
        }
    }
}

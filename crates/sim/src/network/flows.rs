//! The flows of a network: those that stay, and groups of flows that come and go.
//!
//! A flow has a slot, and one that comes takes a slot that another has left. What is still under way for that one when it leaves must not
//! be taken for the new one's: every packet of a flow tells when the segment was sent that it is or answers, and whatever was sent before
//! a flow was added is not its own. Timers of the former flow find that they are not the ones set.

use std::collections::VecDeque;

use headway_core::{Bytes, Duration, Instant};
use headway_traffic::random;
use rand::Rng;

use super::parts::Parts;
use super::{HERE, Network, number};
use crate::config::{FlowId, GroupId, LinkId, TcpConfig};
use crate::packet::{Kind, Packet, REPORT};
use crate::schedule::{MAX_COMPONENTS, Topic};
use crate::statistics::FlowStatistics;
use crate::transport::receiver::Receiver;
use crate::transport::sender::{SEGMENT_OVERHEAD, Sender};

/// Where the counters of a flow stood at the last reset, and what its timers are set to.
#[derive(Debug)]
pub(super) struct Flow {
    mss: u32,
    pub(super) card: u32,
    pub(super) base_received: u64,
    pub(super) base_delivered: u64,
    pub(super) base_marked: u64,
    /// Times of the pending events (ns); `u64::MAX` when there is none.
    pub(super) retransmit: u64,
    pub(super) send: u64,
    pub(super) acknowledge: u64,
    /// When it was added (ns); `u64::MAX` when it has left.
    pub(super) born: u64,
    /// It belongs to a group, and leaves its slot when all its data have been acknowledged.
    pub(super) leaves: bool,
    group: u32,
    size: Bytes,
    way: Way,
    /// The parts of the network that its sender and its receiver are in.
    pub(super) sends: u8,
    pub(super) receives: u8,
}

impl Flow {
    /// Looks where its ends are now.
    pub(super) fn find_parts(&mut self, parts: &Parts, routes: &[u32]) {
        self.sends = parts.near(routes[self.way.forward as usize]) as u8;
        self.receives = parts.near(routes[self.way.reverse as usize]) as u8;
    }
}

/// A flow of a group that has sent all its data and heard so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Its group.
    pub group: GroupId,
    /// The number it had, which another flow may have by now.
    pub flow: FlowId,
    /// Its payload.
    pub size: Bytes,
    /// When it was to start.
    pub start: Instant,
    /// When its last segment had been acknowledged.
    pub end: Instant,
    /// Segments sent, retransmissions included.
    pub sent: u64,
    /// Segments that it sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
}

/// What the flows of a group have in common.
#[derive(Debug)]
struct Group {
    config: TcpConfig,
    way: Way,
}

/// Where the routes of a flow begin, and how long they take (ns).
#[derive(Clone, Copy, Debug)]
struct Way {
    forward: u32,
    reverse: u32,
    round_trip: u64,
}

/// The groups of a network, and the slots that their flows have left.
#[derive(Debug, Default)]
pub(super) struct Groups {
    groups: Vec<Group>,
    /// Free slots, and when they were left (ns), in that order.
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

    /// A slot that was left before `now`.
    fn take_slot(&mut self, now: u64) -> Option<u32> {
        self.free.pop_front_if(|(_, left)| *left < now).map(|(slot, _)| slot)
    }
}

impl Network {
    /// Adds a TCP flow that stays.
    pub fn add_tcp(&mut self, config: &TcpConfig) -> FlowId {
        let way = self.way(config);
        let slot = number(self.flows.len());
        self.occupy(slot, config, way, None);
        FlowId(slot)
    }

    /// Adds a group of flows that come and go: [`Network::start_flow`] adds each, with a start and a size of its own.
    pub fn add_group(&mut self, config: &TcpConfig) -> GroupId {
        let way = self.way(config);
        self.groups.groups.push(Group { config: config.clone(), way });
        GroupId(number(self.groups.groups.len() - 1))
    }

    /// Adds a flow of a group that sends `size` bytes of payload from `start` on, or from now on when that is over. When all of it has been
    /// acknowledged, [`Network::take_completions`] tells, and the number of the flow is free for another. `None` when there are as many
    /// flows as a network can have.
    pub fn start_flow(&mut self, group: GroupId, start: Instant, size: Bytes) -> Option<FlowId> {
        let slot = match self.groups.take_slot(self.now) {
            Some(slot) => slot,
            None if self.flows.len() < MAX_COMPONENTS => number(self.flows.len()),
            None => return None,
        };
        let mut groups = std::mem::take(&mut self.groups.groups);
        let Group { config, way } = &mut groups[group.0 as usize];
        config.start = Instant::from_ns(start.ns().max(self.now));
        config.size = Some(size);
        self.occupy(slot, config, *way, Some(group));
        self.groups.groups = groups;
        Some(FlowId(slot))
    }

    /// The flows of groups that have ended since the last call, in that order.
    pub fn take_completions(&mut self) -> std::vec::Drain<'_, Completion> {
        self.groups.completions.drain(..)
    }

    /// Flows that have been added and have not left.
    pub fn flows_alive(&self) -> usize {
        self.flows.len() - self.groups.free.len()
    }

    fn way(&mut self, config: &TcpConfig) -> Way {
        let (forward, reverse) = (self.add_route(&config.forward), self.add_route(&config.reverse));
        self.ties.flow(&config.forward, &config.reverse);
        if let (Some(card), Some(last)) = (config.card, config.forward.last()) {
            let card = &mut self.cards[card.0 as usize];
            self.ties.card(*card.link.get_or_insert(*last), *last);
        }
        self.grown = true;
        Way { forward, reverse, round_trip: self.round_trip(config) }
    }

    /// The round-trip time of a full segment on an empty path (ns).
    fn round_trip(&self, config: &TcpConfig) -> u64 {
        let passage = |path: &[LinkId], size| -> u64 {
            path.iter().map(|link| self.links[link.0 as usize].passage(size)).sum()
        };
        passage(&config.forward, config.mss + SEGMENT_OVERHEAD) + passage(&config.reverse, SEGMENT_OVERHEAD)
    }

    /// Puts a flow into a slot that is free or comes next.
    fn occupy(&mut self, slot: u32, config: &TcpConfig, way: Way, group: Option<GroupId>) {
        let seed = random::generator(self.seed, "controller", self.groups.added).next_u64();
        self.groups.added += 1;
        let sender = Sender::new(config, (slot, way.forward), seed, way.round_trip, self.now);
        let receiver = Receiver::new(config, slot, way.reverse, way.round_trip);
        let begin = sender.begin_at().max(self.now);
        let flow = Flow {
            mss: config.mss,
            card: config.card.map_or(HERE, |card| card.0),
            base_received: 0,
            base_delivered: 0,
            base_marked: 0,
            retransmit: u64::MAX,
            send: begin,
            acknowledge: u64::MAX,
            born: self.now,
            leaves: group.is_some(),
            group: group.map_or(0, |group| group.0),
            size: config.size.unwrap_or(Bytes::ZERO),
            way,
            sends: 0,
            receives: 0,
        };
        let place = slot as usize;
        if place == self.flows.len() {
            self.senders.push(sender);
            self.receivers.push(receiver);
            self.flows.push(flow);
        } else {
            (self.senders[place], self.receivers[place], self.flows[place]) = (sender, receiver, flow);
        }
        self.flows[place].find_parts(&self.parts, &self.routes);
        let part = usize::from(self.flows[place].sends);
        self.schedules[part].insert(self.now, begin, Topic::Send, place);
    }

    /// A flow of a group has ended: its slot is free, its timers are none.
    #[cold]
    pub(super) fn release(&mut self, slot: usize) {
        let (flow, sender) = (&mut self.flows[slot], &self.senders[slot]);
        self.groups.completions.push(Completion {
            group: GroupId(flow.group),
            flow: FlowId(slot as u32),
            size: flow.size,
            start: Instant::from_ns(sender.start()),
            end: Instant::from_ns(self.now),
            sent: sender.counters().sent,
            retransmitted: sender.counters().resent,
            timeouts: sender.counters().timeouts,
        });
        (flow.born, flow.leaves) = (u64::MAX, false);
        (flow.retransmit, flow.send, flow.acknowledge) = (u64::MAX, u64::MAX, u64::MAX);
        self.groups.free.push_back((slot as u32, self.now));
    }

    /// A packet arrives whose flow has left.
    #[cold]
    pub(super) fn discard_late(&mut self, packet: &Packet) {
        if packet.kind == Kind::Ack && packet.has(REPORT) {
            self.reports.release(packet.extra);
        }
    }

    /// What a flow has done; of one that has left, until another has its number.
    pub fn flow(&self, flow: FlowId) -> FlowStatistics {
        let id = flow.0 as usize;
        let (sender, receiver, flow) = (&self.senders[id], &self.receivers[id], &self.flows[id]);
        let counters = sender.counters();
        let delivered = receiver.in_order() - flow.base_delivered;
        let shortfall = sender.shortfall(receiver.in_order()) - sender.shortfall(flow.base_delivered);
        let known = |ns: u64| (ns > 0 && ns < u64::MAX).then(|| Duration::from_ns(ns as i64));
        FlowStatistics {
            sent: counters.sent,
            retransmitted: counters.resent,
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
            finished: sender.finished().map(Instant::from_ns),
        }
    }
}

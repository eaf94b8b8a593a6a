//! Radio channels that links share (`headway_link::wifi`).
//!
//! A link with a packet contends for its channel, which has one pending event: the next time at which it
//! becomes busy or idle. That event is a `Served` of the first link of the channel. It is armed lazily: one
//! that an earlier one has replaced is ignored.

use std::collections::BTreeMap;

use headway_link::wifi::{Channel, Sent, Station};

use super::Network;
use crate::config::ChannelId;
use crate::schedule::EventKind;

/// A channel, the links that are its stations, and the time of its pending event (ns);
/// `u64::MAX` without one.
#[derive(Debug)]
struct Shared {
    channel: Channel,
    links: Vec<usize>,
    event: u64,
}

/// All channels of a network.
#[derive(Debug, Default)]
pub(super) struct Air {
    channels: Vec<Shared>,
    /// Channel and station of each link that has one.
    places: BTreeMap<usize, (usize, usize)>,
    /// Frames that are over, for reuse.
    sent: Vec<Sent>,
}

impl Air {
    pub(super) fn add_channel(&mut self, seed: u64) -> ChannelId {
        let id = self.channels.len();
        let channel = Channel::new(seed, id as u64);
        self.channels.push(Shared { channel, links: Vec::new(), event: u64::MAX });
        ChannelId(id as u32)
    }

    pub(super) fn add_station(&mut self, channel: ChannelId, station: Station, link: usize) {
        let shared = &mut self.channels[channel.0 as usize];
        self.places.insert(link, (channel.0 as usize, shared.channel.add(station)));
        shared.links.push(link);
    }

    /// A link has a packet to send at `now`; returns the event of its channel if it is a new one.
    pub(super) fn offer(&mut self, link: usize, now: u64, size: u16) -> Option<(u64, usize)> {
        let (channel, station) = *self.places.get(&link)?;
        self.channels[channel].channel.offer(station, now, size);
        self.arm(channel)
    }

    /// Returns the time of the next event of a channel and the link that stands for it, if that is a new one.
    fn arm(&mut self, channel: usize) -> Option<(u64, usize)> {
        let shared = &mut self.channels[channel];
        let at = shared.channel.next().filter(|at| *at < shared.event)?;
        shared.event = at;
        Some((at, shared.links[0]))
    }
}

impl Network {
    /// The channel for which this link stands becomes busy or idle.
    #[cold]
    pub(super) fn on_air(&mut self, link: usize) {
        let (now, air) = (self.queues.now, &mut self.queues.air);
        let Some((number, _)) = air.places.get(&link).copied() else { return };
        let shared = &mut air.channels[number];
        if shared.event != now {
            return;
        }
        shared.event = u64::MAX;
        let mut sent = std::mem::take(&mut air.sent);
        shared.channel.step(&mut sent);
        for station in 0..shared.links.len() {
            let heard = shared.channel.take_heard(station);
            self.links[shared.links[station]].hear(now, &heard);
        }
        for Sent { station, arrived } in sent.drain(..) {
            let link = self.queues.air.channels[number].links[station];
            self.end_transmission(link, arrived);
        }
        self.queues.air.sent = sent;
        if let Some((at, first)) = self.queues.air.arm(number) {
            self.queues.add(at, EventKind::Served, first);
        }
    }
}

//! What others ask a link: its queue, capacity, latencies, the truth about probes, and memory.

use headway_units::{Bytes, Instant};

use super::{Count, Link};
use headway_link::Server;
use headway_queue::explicit::Heard;
use headway_record::Histogram;

impl Link {
    /// Returns the packets queued or in service.
    pub fn queued(&self) -> Count {
        self.totals.queued()
    }

    /// Returns the number of packets on the wire: transmitted, but not arrived.
    pub fn in_flight(&self) -> u64 {
        self.totals.on_wire.packets
    }

    /// Returns the wire bytes that the link can transmit between two instants; `None` when it is unlimited.
    pub fn capacity(&self, from: Instant, to: Instant) -> Option<Bytes> {
        self.server.capacity(from, to)
    }

    /// Returns the wire bytes that can pass the link between two instants: the lower of
    /// capacity and policer rate.
    pub(crate) fn limit(&self, from: Instant, to: Instant) -> Option<Bytes> {
        let policed = self.policed.map(|rate| rate.bytes_in(to - from));
        self.capacity(from, to).into_iter().chain(policed).min()
    }

    /// Returns the minimum time between joining and arrival (ns); zero where packets may overtake each other,
    /// because the next arrival is then unknown.
    pub(crate) fn min_latency(&self) -> u64 {
        let overtaking = self.staged.as_ref().is_some_and(|staged| staged.overtaking.is_some());
        if overtaking { 0 } else { self.delay }
    }

    /// Returns the latency of a packet of `size` wire bytes on an empty link at the start of the run (ns).
    pub(crate) fn empty_latency(&self, size: u32) -> u64 {
        let busy = match &self.server {
            Server::Constant(_) | Server::Steps(_) => self.server.estimate(0, size.into()),
            _ => 0,
        };
        self.staged.as_ref().map_or(self.delay, |staged| staged.wire.first_delay()) + busy
    }

    /// Returns the bytes of all packets accepted since the start of the run.
    pub(crate) fn accepted(&self) -> u64 {
        self.totals.accepted.bytes.get() - self.withdrawn
    }

    /// Returns the bytes of datagrams accepted since the start of the run.
    pub(crate) fn accepted_datagrams(&self) -> u64 {
        self.accepted_datagrams
    }

    /// Returns how many more packets of other traffic were dropped since the start of the run than would have
    /// been without probes; zero unless watched.
    pub(crate) fn displaced(&self) -> i64 {
        self.shadow.as_ref().map_or(0, |shadow| shadow.displaced())
    }

    /// Returns how many packets of other traffic were dropped since the start of the run;
    /// zero unless watched.
    pub(crate) fn others_dropped(&self) -> u64 {
        self.shadow.as_ref().map_or(0, |shadow| shadow.dropped_by_link())
    }

    /// Returns the additional queueing delay that probes cause for a packet arriving now (ns);
    /// zero unless watched.
    pub(crate) fn added_delay(&self, now: u64) -> u64 {
        let Some(shadow) = &self.shadow else { return 0 };
        let without = shadow.delay(now);
        self.remaining(now).saturating_sub(without)
    }

    /// Returns when the transmission of the last accepted packet ends (ns).
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// Tells the discipline what the MAC has counted until `now`.
    pub(crate) fn hear(&mut self, now: u64, heard: &Heard) {
        self.queue.hear(Instant::from_ns(now), heard);
    }

    /// Whether a radio channel says how long transmissions take.
    pub(crate) fn is_wifi(&self) -> bool {
        self.is_wifi
    }

    /// Whether the departure time of a packet is known when it joins.
    pub(crate) fn knows_departure(&self) -> bool {
        self.staged.is_none()
    }

    pub(crate) fn memory(&self) -> usize {
        let staged = self.staged.as_ref().map_or(0, |staged| {
            staged.waiting.memory() + staged.overtaking.as_ref().map_or(0, |flight| flight.len() * 100)
        });
        let discarded = self.discarded.capacity() * size_of::<u32>();
        let shadow = self.shadow.as_ref().map_or(0, |shadow| shadow.memory());
        size_of::<Link>() + self.flight.memory() + staged + discarded + shadow + size_of::<Histogram>()
    }
}

//! A single link behind an explicit router: just enough to close the loop.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use headway_arithmetic::explicit::{Event, ExplicitQueue, Format, Header, Record, VERSION_RCP, VERSION_XCP};

use crate::support::units;

const SECOND: f64 = 1e9;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Send(usize, u32),
    Transmitted,
    Acknowledged(usize, u64, u8, u32),
    Lost(usize),
}

struct Packet {
    flow: usize,
    sent: u64,
    header: Header,
}

/// A sender that does not send again what was lost.
pub(crate) struct Flow {
    begin: f64,
    end: f64,
    rtt: f64,
    window: f64,
    srtt: f64,
    flight: f64,
    last: u64,
    generation: u32,
    /// Bytes that arrived.
    pub(crate) delivered: f64,
}

impl Flow {
    /// Returns the rate in B/s.
    pub(crate) fn rate(&self) -> f64 {
        if self.srtt == 0.0 { 0.0 } else { self.window / self.srtt }
    }
}

/// The link, its queue and the senders.
pub(crate) struct Network {
    pub(crate) router: ExplicitQueue,
    pub(crate) flows: Vec<Flow>,
    /// Whether senders are paced, with whole packets or less per RTT, and not clocked by ACKs of a window.
    pub(crate) paced: bool,
    /// Rate of the link in B/s.
    pub(crate) capacity: f64,
    /// Largest queue since this was last reset, in bytes.
    pub(crate) peak: u64,
    /// Packets that found no room.
    pub(crate) drops: u64,
    /// The records of control intervals.
    pub(crate) records: Vec<Record>,
    buffer: u64,
    size: u32,
    queue: VecDeque<Packet>,
    busy: Option<Packet>,
    events: BinaryHeap<Reverse<(u64, u64, Kind)>>,
    order: u64,
    now: u64,
}

impl Network {
    /// Creates a link of `capacity` B/s with a buffer of `buffer` bytes for packets of `size` bytes. The
    /// router must have been created at time 0.
    pub(crate) fn new(router: ExplicitQueue, capacity: f64, buffer: u64, size: u32) -> Network {
        Network {
            router,
            flows: Vec::new(),
            paced: false,
            capacity,
            peak: 0,
            drops: 0,
            records: Vec::new(),
            buffer,
            size,
            queue: VecDeque::new(),
            busy: None,
            events: BinaryHeap::new(),
            order: 0,
            now: 0,
        }
    }

    /// Adds a flow from `begin` to `end`, in s, with an RTT without queues of `rtt` s.
    pub(crate) fn flow(&mut self, begin: f64, end: f64, rtt: f64) {
        self.flows.push(Flow {
            begin,
            end,
            rtt,
            window: f64::from(self.size),
            srtt: 0.0,
            flight: 0.0,
            last: 0,
            generation: 0,
            delivered: 0.0,
        });
        self.at((begin * SECOND) as u64, Kind::Send(self.flows.len() - 1, 0));
    }

    /// Returns the bytes in the queue.
    pub(crate) fn backlog(&self) -> u64 {
        self.queue.len() as u64 * u64::from(self.size)
    }

    /// Runs until `end`, in s.
    pub(crate) fn run(&mut self, end: f64) {
        let end = (end * SECOND) as u64;
        while let Some(Reverse((time, _, kind))) = self.events.peek().copied() {
            if time > end {
                break;
            }
            self.events.pop();
            self.timers(time);
            self.now = time;
            match kind {
                Kind::Send(flow, generation) => self.wake(flow, generation),
                Kind::Transmitted => self.transmitted(),
                Kind::Acknowledged(flow, sent, version, feedback) => {
                    self.acknowledged(flow, sent, version, feedback);
                }
                Kind::Lost(flow) => {
                    self.flows[flow].flight -= f64::from(self.size);
                    self.go_on(flow);
                }
            }
        }
        self.timers(end);
        self.now = end;
    }

    fn at(&mut self, time: u64, kind: Kind) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, kind)));
    }

    fn timers(&mut self, now: u64) {
        let (bytes, packets) = (self.backlog(), self.queue.len() as u32);
        while let Some(event) = self.router.run_timer(bytes, packets, now) {
            if event == Event::Controlled {
                self.records.push(*self.router.record());
            }
        }
    }

    fn is_rate(&self) -> bool {
        self.router.config().law.is_rate()
    }

    /// Sends a packet if no later event has replaced this one.
    fn wake(&mut self, index: usize, generation: u32) {
        if self.flows[index].generation == generation {
            self.send(index);
            self.go_on(index);
        }
    }

    /// Sends what the window holds, or sets the time of the next packet.
    fn go_on(&mut self, index: usize) {
        let size = f64::from(self.size);
        while !self.paced && self.flows[index].flight + size <= self.flows[index].window {
            if !self.send(index) {
                return;
            }
        }
        let paced = self.paced;
        let flow = &mut self.flows[index];
        flow.generation += 1;
        let generation = flow.generation;
        let gap = if paced && flow.srtt > 0.0 { size / flow.rate() * SECOND } else { SECOND };
        let next = flow.last + gap as u64;
        self.at(next.max(self.now), Kind::Send(index, generation));
    }

    /// Sends a packet; returns whether the flow still lasts.
    fn send(&mut self, index: usize) -> bool {
        let (now, size, is_rate) = (self.now, self.size, self.is_rate());
        let flow = &mut self.flows[index];
        if now as f64 >= flow.end * SECOND {
            return false;
        }
        let mut header = Header::new(if is_rate { VERSION_RCP } else { VERSION_XCP }, Format::Standard);
        flow.flight += f64::from(size);
        flow.last = now;
        header.feedback = if is_rate { u32::MAX } else { 12_500_000 };
        if flow.srtt > 0.0 {
            header.rtt = units(flow.srtt);
            header.x = units(f64::from(size) / flow.rate());
        }
        self.router.arrive(Some(&header), size);
        if self.backlog() + u64::from(size) > self.buffer {
            self.router.drop_packet();
            self.drops += 1;
            self.at(now + 200_000_000, Kind::Lost(index));
            return true;
        }
        self.queue.push_back(Packet { flow: index, sent: now, header });
        self.peak = self.peak.max(self.backlog());
        if self.busy.is_none() {
            self.transmit();
        }
        true
    }

    fn transmit(&mut self) {
        let Some(mut packet) = self.queue.pop_front() else { return };
        let (bytes, packets) = (self.backlog(), self.queue.len() as u32);
        self.router.depart(Some(&mut packet.header), self.size, bytes, packets);
        let time = f64::from(self.size) / self.capacity * SECOND;
        self.busy = Some(packet);
        self.at(self.now + time as u64, Kind::Transmitted);
    }

    fn transmitted(&mut self) {
        if let Some(packet) = self.busy.take() {
            let flow = &mut self.flows[packet.flow];
            flow.delivered += f64::from(self.size);
            let back = self.now + (flow.rtt * SECOND) as u64;
            let Header { version, feedback, .. } = packet.header;
            self.at(back, Kind::Acknowledged(packet.flow, packet.sent, version, feedback));
        }
        self.transmit();
    }

    fn acknowledged(&mut self, index: usize, sent: u64, version: u8, feedback: u32) {
        let (size, paced) = (f64::from(self.size), self.paced);
        let sample = (self.now - sent) as f64 / SECOND;
        let flow = &mut self.flows[index];
        flow.flight -= size;
        flow.srtt = if flow.srtt == 0.0 { sample } else { flow.srtt * 0.875 + sample * 0.125 };
        if version == VERSION_RCP {
            let least = if paced { 0.0 } else { size };
            flow.window = (f64::from(feedback) * flow.srtt).max(least);
        } else {
            flow.window = (flow.window + f64::from(feedback.cast_signed()) * flow.srtt).max(size);
        }
        self.go_on(index);
    }
}

/// Returns Jain's index of the flows' rates.
pub(crate) fn fairness(flows: &[Flow]) -> f64 {
    let (sum, squares) = flows
        .iter()
        .fold((0.0, 0.0), |(sum, squares), flow| (sum + flow.rate(), squares + flow.rate().powi(2)));
    sum * sum / (flows.len() as f64 * squares)
}

/// Returns the sum of bytes that arrived.
pub(crate) fn delivered(network: &Network) -> f64 {
    network.flows.iter().map(|flow| flow.delivered).sum()
}

impl Network {
    /// Runs until `end` and returns the share of the link's rate that was used from `begin` on, both in s.
    pub(crate) fn utilisation(&mut self, begin: f64, end: f64) -> f64 {
        self.run(begin);
        let before = delivered(self);
        self.peak = 0;
        self.run(end);
        (delivered(self) - before) / (self.capacity * (end - begin))
    }

    /// Returns the times at which flows begin, in s.
    pub(crate) fn begins(&self) -> Vec<f64> {
        self.flows.iter().map(|flow| flow.begin).collect()
    }
}

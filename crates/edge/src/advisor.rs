//! What an evaluator would do with the connections of a middlebox.

use std::collections::{HashMap, VecDeque};

use headway_arithmetic::flow::{Key, Packet};
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::classify::{Behaviour, LimitedBy, Meter, TURN, Thresholds, classify};
use crate::evaluate::{Decision, Evaluator, Facts, FlowFacts, Input, Means, Registry};
use crate::monitor::fills_window;
use crate::notes::{News, Note};
use crate::{Middlebox, Policy, Tracked};

/// Connections are judged so often at least (wan 2.20).
const EVERY: Duration = Duration::from_ms(1_000);
/// Most decisions that are kept; the oldest make room.
const MOST_NOTED: usize = 200;

/// A decision that differs from the one before about the same connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Noted {
    /// When it was made.
    pub at: Instant,
    /// The connection.
    pub key: Key,
    /// The end of it that asked for the connection, 0 or 1.
    pub client: usize,
    /// What it was taken for.
    pub behaviour: Behaviour,
    /// What is done with it, and why; it is counted from 1.
    pub decision: Decision,
}

/// The packets with data of one end of a connection.
#[derive(Clone, Copy, Debug)]
struct Sent {
    bytes: u64,
    turned: Instant,
    /// Since the last turn, and since the one before.
    latest: Meter,
    longer: Meter,
}

impl Sent {
    fn new(now: Instant, size: Bytes) -> Sent {
        let meter = Meter::new(now, size);
        Sent { bytes: size.get(), turned: now, latest: meter, longer: meter }
    }

    fn on_packet(&mut self, now: Instant, size: Bytes) {
        self.bytes = self.bytes.saturating_add(size.get());
        self.longer.on_packet(now, size);
        self.latest.on_packet(now, size);
        if now - self.turned >= TURN {
            (self.longer, self.latest, self.turned) = (self.latest, Meter::new(now, size), now);
        }
    }
}

/// What was seen of a connection, and noted about it.
#[derive(Clone, Debug, Default)]
struct Watched {
    sent: [Option<Sent>; 2],
    note: Note,
}

impl Watched {
    /// Returns the end that has sent more, the server's if none has.
    fn sender(&self, client: usize) -> usize {
        let bytes = self.sent.map(|sent| sent.map_or(0, |sent| sent.bytes));
        if bytes[client] > bytes[1 - client] { client } else { 1 - client }
    }
}

/// The connections of a middlebox, judged whenever one begins or ends, and every second.
///
/// It only watches: windows are those that the middlebox has.
#[derive(Debug)]
pub struct Advisor {
    evaluator: Evaluator,
    thresholds: Thresholds,
    watched: HashMap<Key, Watched>,
    due: Instant,
    /// How many connections had begun and ended when all were judged last.
    judged: [u64; 2],
    noted: VecDeque<Noted>,
}

impl Advisor {
    /// Creates one for a middlebox with this policy and these rates, whose connections are all still to begin.
    pub fn new(policy: &Policy, capacity: [Rate; 2]) -> Advisor {
        let evaluator = Evaluator::new(policy.clone(), Registry::default(), capacity, Means::default());
        let noted = VecDeque::with_capacity(MOST_NOTED);
        Advisor {
            evaluator,
            thresholds: policy.classifier,
            watched: HashMap::new(),
            due: Instant::ZERO + EVERY,
            judged: [0; 2],
            noted,
        }
    }

    /// Sees a segment that the middlebox has let pass.
    pub fn on_packet(&mut self, packet: &Packet, middlebox: &Middlebox, now: Instant) {
        let counts = middlebox.counts();
        if self.judged != [counts.begun, counts.ended] || now >= self.due {
            self.judge(middlebox, now);
            self.judged = [counts.begun, counts.ended];
            self.due = now + EVERY;
        }
        if packet.data == 0 {
            return;
        }
        let Some(watched) = self.watched.get_mut(packet.key()) else { return };
        let size = Bytes::new(packet.data.into());
        match &mut watched.sent[packet.sender() & 1] {
            Some(sent) => sent.on_packet(now, size),
            none => *none = Some(Sent::new(now, size)),
        }
    }

    fn judge(&mut self, middlebox: &Middlebox, now: Instant) {
        self.watched.retain(|key, _| middlebox.connection(key).is_some());
        let mut all: Vec<(&Key, &Tracked)> = middlebox.connections().collect();
        // In the order of their beginning, so that the same packets give the same decisions.
        all.sort_unstable_by_key(|(_, tracked)| tracked.number());
        let (watched, thresholds) = (&mut self.watched, &self.thresholds);
        let flows: Vec<FlowFacts> = all
            .iter()
            .map(|(key, tracked)| {
                facts(watched.entry(**key).or_default(), tracked, middlebox, thresholds, now)
            })
            .collect();
        let decisions = self.evaluator.evaluate(now, &mut [&mut Flows(&flows)]);
        for (((key, tracked), flow), decision) in all.into_iter().zip(&flows).zip(decisions) {
            let note = &mut self.watched.entry(*key).or_default().note;
            if note.take(flow.behaviour, &decision) > News::None {
                if self.noted.len() == MOST_NOTED {
                    self.noted.pop_front();
                }
                let (client, behaviour) = (tracked.flow().client(), flow.behaviour);
                self.noted.push_back(Noted { at: now, key: *key, client, behaviour, decision });
            }
        }
    }

    /// Returns the latest decisions that differ from those before, the oldest first.
    pub fn noted(&self) -> impl Iterator<Item = &Noted> {
        self.noted.iter()
    }

    /// Returns the memory that its tables take, in bytes.
    pub fn memory(&self) -> usize {
        self.watched.capacity() * size_of::<(Key, Watched)>() + self.noted.capacity() * size_of::<Noted>()
    }
}

/// Flows as they were looked at.
pub(crate) struct Flows<'a>(pub(crate) &'a [FlowFacts]);

impl Input for Flows<'_> {
    fn tell(&mut self, _: Instant, facts: &mut Facts) {
        facts.flows.extend(self.0);
    }
}

/// Returns what is known of a connection.
fn facts(
    watched: &Watched,
    tracked: &Tracked,
    middlebox: &Middlebox,
    thresholds: &Thresholds,
    now: Instant,
) -> FlowFacts {
    let flow = tracked.flow();
    let sender = watched.sender(flow.client());
    let receiver = 1 - sender;
    // Of the end that receives: its window limits what is sent to its side.
    let side = flow.side() ^ usize::from(receiver != flow.client());
    let rtt = flow.rtt().map(|rtt| Duration::from_ns(rtt as i64));
    let limit = middlebox.limits_of(tracked)[side].unwrap_or(u64::MAX);
    let window = flow.let_through(receiver, limit);
    let features = |limited_by| watched.sent[sender].map(|sent| sent.longer.features(now, limited_by));
    let rate = features(LimitedBy::Unknown).map_or(Rate::ZERO, |features| features.rate);
    let is_full = rtt.zip(window).is_some_and(|(rtt, window)| fills_window(rate, rtt, window));
    let limited_by = if is_full { LimitedBy::ReceiveWindow } else { LimitedBy::Unknown };
    let behaviour =
        features(limited_by).map_or(Behaviour::Unknown, |features| classify(&features, thresholds).0);
    FlowFacts {
        id: tracked.number(),
        behaviour,
        class: Some(flow.class).filter(|class| *class != u32::MAX),
        side: side as u8,
        is_tcp: true,
        rtt,
        scale: flow.scale(receiver),
        held_at: None,
        is_split: false,
        ecn: false,
        rate,
        unused: [0.0; 2],
    }
}

//! Judges flows by what was seen of them, and says what is done with each.

use std::collections::HashMap;

use headway_arithmetic::flow::{Delays, Times};
use headway_units::{Bytes, Duration, Instant, PerSide, Rate, Side};

use crate::classify::{Behaviour, Features, LimitedBy, Rule, Thresholds, Window, classify};
use crate::evaluate::{Decision, Evaluator, Facts, FlowFacts, Input, Means, Registry};
use crate::load::Passed;
use crate::notes::{News, Note};
use crate::policy::HEADERS;
use crate::snapshot::{ProbeState, RateState};
use crate::usage::Usage;
use crate::waited::Waited;
use crate::{
    Demand, Judged, LinkRate, Load, Peer, Policy, Probe, Probed, Prober, Seen, Shares, Signals, Weight,
};

/// Receivers acknowledge every second segment (RFC 9293 3.8.6.3).
pub(crate) const SEGMENTS_PER_ACK: u64 = 2;

/// Time between two looks.
pub const LOOKS: Duration = Duration::from_ms(250);
/// Flows that have this part of what they share use all of it. Range 0.6 to 0.9: windows are whole segments.
const PRESSES: f64 = 0.8;
/// They do so without a queue if that is a smaller part of the RTT. Range 0.1 to 0.5.
const SHORT: f64 = 0.25;

/// What is kept of a flow from one look to the next.
#[derive(Debug, Default)]
struct Watched {
    windows: [Window; 2],
    note: Note,
    looks: u64,
    /// Whether it was limited when it was judged last, or would be with a lower rate of the link.
    is_limited: bool,
    /// Whether it shares with others of its class; none before it was judged.
    shares: Option<bool>,
    /// What it uses of its share towards each side, and what that is in parts of that of others.
    usage: PerSide<Usage>,
    weight: Weight,
    /// What was measured of its RTTs, and what that says of the latest look in which there was something.
    times: Times,
    delays: Option<Delays>,
    waited: Waited,
    /// How many packets with data each end has sent.
    packets: [u64; 2],
    /// Its rates, as those who show them have them.
    shown: [f64; 2],
}

/// Judges flows again and again, whatever their number, with memory for those that there are.
#[derive(Debug)]
pub struct Monitor {
    evaluator: Evaluator,
    signals: Signals,
    /// Whether the rates of the link are known.
    is_known: bool,
    link: LinkRate,
    /// None where nothing is probed.
    prober: Option<Prober>,
    /// None without another edge at the link.
    peer: Option<Peer>,
    /// What flows did with the link until the last look.
    demand: Demand,
    thresholds: Thresholds,
    /// What the router does besides lowering windows.
    means: Means,
    /// The part of what passes the link that is data, and what an ACK takes there in bytes. The headers of
    /// data are a part of what a rate of data means.
    payload: f64,
    ack: u64,
    /// To what rate of data all that leaves for the link is held, if it is.
    held: Option<Rate>,
    watched: HashMap<u64, Box<Watched>>,
    /// When flows were looked at last.
    at: Option<Instant>,
    looks: u64,
}

/// Returns what a router does by this policy, besides lowering windows. Bulk without a window has a share
/// only where the rate is known: what is found is for flows with windows.
fn means(policy: &Policy, is_known: bool) -> Means {
    let (smoothing, shaping) = (policy.shape, policy.shape && is_known);
    Means { proxy: policy.splits(), marking: policy.mark, smoothing, shaping }
}

/// What is known of a flow before it is decided what to do with it.
struct Known {
    features: Option<Features>,
    behaviour: (Behaviour, Rule),
    rates: [Rate; 2],
    /// What the ACKs of the data of each end take.
    acks: [Rate; 2],
    facts: FlowFacts,
}

/// What is to be done, as a look found it.
#[derive(Clone, Debug)]
pub struct Treatments {
    /// The flows, in the order in which they were seen.
    pub judged: Vec<Judged>,
    /// What shares are computed from.
    pub rates: Rates,
}

/// What shares are computed from, towards each side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// What flows share; none where that is the whole link.
    pub available: PerSide<Option<Rate>>,
    /// What windows are multiplied with.
    pub factors: PerSide<f64>,
    /// The number of the period of RTTs.
    pub period: u32,
}

impl Default for Rates {
    /// Returns the whole link, and windows as they are.
    fn default() -> Rates {
        Rates { available: PerSide::default(), factors: PerSide::both(1.0), period: 0 }
    }
}

/// What is known of the link towards a side, in bytes on its wire.
#[derive(Clone, Debug)]
pub struct LinkView {
    /// What it carries: what was given, or else what probes found, or else the most that was seen to pass; 0
    /// where nothing is known.
    pub capacity_bps: u64,
    /// What all who know it say of what it has for flows.
    pub available: Vec<RateState>,
    /// The capacity of the narrow link as probes found it.
    pub narrow: Option<RateState>,
    /// Who says what flows share; none where that is the whole link, or the narrow one.
    pub followed: Option<String>,
}

/// Flows as they were looked at.
struct Flows<'a>(&'a [FlowFacts]);

impl Input for Flows<'_> {
    fn tell(&mut self, _: Instant, facts: &mut Facts) {
        facts.flows.extend(self.0);
    }
}

/// What passes besides the flows that share, and the part of what passes that is data.
struct Besides(PerSide<Rate>, f64);

impl Input for Besides {
    fn tell(&mut self, _: Instant, facts: &mut Facts) {
        (facts.besides, facts.payload) = (self.0, self.1);
    }
}

impl Monitor {
    /// Creates one for a router that can lower windows and mark packets, at a link with these rates towards
    /// its two sides. Where they are unknown, it finds them by the queue that flows make.
    pub fn new(policy: &Policy, rates: Option<impl Into<PerSide<Rate>>>) -> Monitor {
        let rates = rates.map(Into::into);
        let means = means(policy, rates.is_some());
        let evaluator = Evaluator::new(policy.clone(), Registry::of_edge(), policy.capacity(rates), means);
        let mut monitor = Monitor {
            evaluator: if rates.is_some() { evaluator } else { evaluator.of_unknown_link() },
            signals: Signals::default(),
            is_known: rates.is_some(),
            link: LinkRate::default(),
            prober: None,
            peer: None,
            demand: Demand::default(),
            thresholds: policy.classifier,
            means,
            payload: 1.0,
            ack: 0,
            held: None,
            watched: HashMap::new(),
            at: None,
            looks: 0,
        };
        monitor.set_policy(policy);
        monitor
    }

    /// Judges by another policy from now on.
    pub fn set_policy(&mut self, policy: &Policy) {
        self.thresholds = policy.classifier;
        self.payload = policy.payload();
        self.signals.set_payload(self.payload);
        self.ack = u64::from(HEADERS + policy.overhead);
        self.means = means(policy, self.is_known);
        self.evaluator.set_policy(policy.clone(), self.means);
    }

    /// Returns what others say of the link.
    pub const fn signals(&mut self) -> &mut Signals {
        &mut self.signals
    }

    /// Has the link probed for at most so many bytes an hour, by whoever asks [`Monitor::next_probe`].
    pub fn probing(self, budget: Bytes) -> Monitor {
        Monitor { prober: Some(Prober::new(budget)), ..self }
    }

    /// Has the link, whose rates must be known, shared with an edge at its other end.
    pub fn coordinate(&mut self) {
        self.peer.get_or_insert_default();
    }

    /// Returns the edge at the other end, if there is one.
    pub const fn peer(&mut self) -> Option<&mut Peer> {
        self.peer.as_mut()
    }

    /// Returns what is to be measured after the last look, if anything is; one at a time, until
    /// [`Monitor::report_probe`].
    pub fn next_probe(&mut self, now: Instant) -> Option<Probe> {
        self.prober.as_mut()?.next(now, &self.demand)
    }

    /// Takes what came of a probe, and what it has cost.
    pub fn report_probe(&mut self, now: Instant, probe: Probe, cost: Bytes, result: Result<Probed, String>) {
        if let Ok(Probed { capacity: Some([capacity, ..]), .. }) = &result {
            self.link.raise(probe.side, *capacity);
        }
        if let Some(prober) = &mut self.prober {
            prober.report(now, probe, cost, result);
        }
    }

    /// Returns what probes cost and bought; none where nothing is probed.
    pub fn probes(&mut self, now: Instant) -> Option<ProbeState> {
        self.prober.as_mut().map(|prober| prober.state(now))
    }

    /// Returns what is known of the link towards a side, as the last look has it.
    pub fn link(&self, now: Instant, side: Side) -> LinkView {
        let [probed, narrow] = self.prober.as_ref().map(|prober| prober.rates(now, side)).unwrap_or_default();
        let most = self.link.capacity(side);
        let told = self.is_known.then(|| self.evaluator.capacity()[side]);
        let capacity = told.or(narrow.as_ref().map(|narrow| Rate::from_bps(narrow.rate_bps))).or(most);
        let available = self.link.state(side).into_iter().chain(probed).chain(self.signals.states(now, side));
        LinkView {
            capacity_bps: capacity.map_or(0, |rate| rate.scale(1.0 / self.payload).bps()),
            available: available.map(|state| state.scale(1.0 / self.payload)).collect(),
            narrow: narrow.map(|state| state.scale(1.0 / self.payload)),
            followed: self.evaluator.followed(side).map(str::to_owned),
        }
    }

    /// Judges the flows that there are at `now`; `shares` is what a connection of each class might have until
    /// then. One that is not among them has ended.
    pub fn look(&mut self, now: Instant, mut seen: Vec<Seen>, shares: &Shares) -> Treatments {
        self.looks += 1;
        for seen in &mut seen {
            seen.weight =
                self.watched.get(&seen.number).map_or_else(Weight::default, |watched| watched.weight);
        }
        let time = self.at.replace(now).map(|before| now - before);
        let known: Vec<Known> = seen.iter().map(|seen| self.know(now, time, seen, shares)).collect();
        let facts: Vec<FlowFacts> = known.iter().map(|known| known.facts).collect();
        let loads = loads(&seen, &known, &self.watched);
        self.demand = self.demand_of(&seen, &known, &loads);
        let others = self.besides(&seen, &known, &loads);
        // What others tell of the link is less than it has; where that is not known, what they tell is.
        let shared = self.shared();
        let goals = PerSide::of(|side| Some(shared[side]).filter(|_| self.is_told(side)));
        let before = self.link.queues();
        self.link.look(now, &loads, others, goals);
        let queues = self.link.queues();
        let queues = PerSide::of(|side| before[side].min(queues[side]));
        for watched in self.watched.values_mut() {
            watched.waited.begin(watched.delays, queues);
        }
        let (mut flows, mut besides) = (Flows(&facts), Besides(others, self.payload));
        let mut inputs: Vec<&mut dyn Input> =
            vec![&mut flows, &mut besides, &mut self.signals, &mut self.link];
        if let Some(prober) = &mut self.prober {
            inputs.push(prober);
        }
        if let Some(peer) = &mut self.peer {
            inputs.push(peer);
        }
        let decisions = self.evaluator.evaluate(now, &mut inputs);
        let held = facts.iter().zip(&decisions).filter(|(flow, _)| flow.side == Side::Wan);
        let held = held.filter_map(|(_, decision)| decision.bucket()).min();
        self.held = held.map(|rate| rate.scale(self.payload));
        let looks = self.looks;
        self.watched.retain(|_, watched| watched.looks == looks);
        let judge = |((mut seen, known), decision): ((Seen, Known), Decision)| {
            let Known { features, behaviour, facts, .. } = known;
            let (unused, main_side) = (facts.unused, facts.side);
            let (mut rates, mut news) = ([Rate::ZERO; 2], News::None);
            if let Some(watched) = self.watched.get_mut(&seen.number) {
                watched.is_limited = !decision.passes();
                (watched.shares, watched.weight) = (Some(decision.shares), decision.weight);
                seen.weight = decision.weight;
                news = watched.note.take(behaviour.0, &decision);
                rates = watched.shown.map(Rate::from_bps_f64);
            }
            Judged { seen, features, behaviour, rates, main_side, unused, decision, news }
        };
        let judged: Vec<Judged> = seen.into_iter().zip(known).zip(decisions).map(judge).collect();
        if let Some(peer) = &mut self.peer {
            peer.look(&judged);
        }
        let rates = Rates {
            available: self.evaluator.available(),
            factors: self.link.factors(),
            period: self.link.period(),
        };
        Treatments { judged, rates }
    }

    /// Returns what passed towards each side besides the data of flows that share.
    fn besides(&self, seen: &[Seen], known: &[Known], loads: &[Load]) -> PerSide<Rate> {
        let mut besides = PerSide::of(|side| {
            let rate = |(seen, known): (&Seen, &Known)| {
                let sender = seen.sender_to(side);
                let judged = self.watched.get(&seen.number).and_then(|watched| watched.shares);
                let shares = judged.unwrap_or(known.facts.class.is_some());
                let data = if shares { 0 } else { known.rates[sender].bps() };
                data + if seen.tcp.is_some() { known.acks[1 - sender].bps() } else { 0 }
            };
            Rate::from_bps(seen.iter().zip(known).map(rate).sum())
        });
        if let Some(held) = self.held {
            // Behind here, the token bucket drops the rest.
            let ahead = loads.iter().filter(|load| load.side == Side::Wan).map(|load| load.rate.bps());
            let most = held.saturating_sub(Rate::from_bps(ahead.sum()));
            besides[Side::Wan] = besides[Side::Wan].min(most);
        }
        besides
    }

    fn demand_of(&self, seen: &[Seen], known: &[Known], loads: &[Load]) -> Demand {
        let towards = |side: Side| {
            let rate = |(seen, known): (&Seen, &Known)| known.rates[seen.sender_to(side)].bps();
            Rate::from_bps(seen.iter().zip(known).map(rate).sum())
        };
        let shared = self.shared();
        let presses = |side: Side| {
            let passed = Passed::new(loads, side, LOOKS);
            passed.asks > PRESSES * shared[side].bps_f64() && passed.queue < passed.least * SHORT
        };
        Demand { rate: PerSide::of(towards), presses: PerSide::of(presses) }
    }

    /// Whether what flows share towards a side was given, and not found.
    fn is_told(&self, side: Side) -> bool {
        let found = self.link.available(side);
        self.is_known || found.is_some_and(|found| found > self.shared()[side])
    }

    /// Returns what flows share towards each side.
    fn shared(&self) -> PerSide<Rate> {
        PerSide::of(|side| self.evaluator.available()[side].unwrap_or(self.evaluator.capacity()[side]))
    }

    fn know(&mut self, now: Instant, time: Option<Duration>, seen: &Seen, shares: &Shares) -> Known {
        let watched = self.watched.entry(seen.number).or_default();
        watched.looks = self.looks;
        let bytes = [0, 1].map(|end| watched.windows[end].look(now.ns(), &seen.sent[end]));
        let rate = |bytes| Rate::of(Bytes::new(bytes), time?);
        let rates = bytes.map(|bytes| rate(bytes).unwrap_or(Rate::ZERO));
        let part = time.map_or(0.0, |time| time.secs_f64().min(1.0));
        for (shown, rate) in watched.shown.iter_mut().zip(rates) {
            *shown += part * (rate.bps_f64() - *shown);
        }
        let packets = seen.sent.map(|meter| meter.packets);
        let before = std::mem::replace(&mut watched.packets, packets);
        let acks = [0, 1].map(|end| {
            let acks = packets[end].saturating_sub(before[end]) / SEGMENTS_PER_ACK;
            rate(acks * self.ack).unwrap_or(Rate::ZERO)
        });
        let delays = seen.tcp.as_ref().and_then(|flow| flow.delays(&watched.times));
        if let (Some(flow), Some(delays)) = (&seen.tcp, delays) {
            watched.times = flow.times();
            let before = watched.delays.replace(delays);
            watched.waited.look(
                before,
                &delays,
                self.link.period(),
                time.map_or(0.0, |time| time.secs_f64()),
            );
        }
        let delays = watched.waited.correct(watched.delays);
        let time = time.unwrap_or(Duration::ZERO);
        let unused = PerSide::of(|side| {
            let share = seen.share(side, shares);
            let load = seen.load(side, rates[seen.sender_to(side)], delays);
            watched.usage[side].unused(time, &load, self.link.queue(side), share)
        });
        // The end that has sent more, the server's if none has.
        let [one, other] = [0, 1].map(|end| watched.windows[end].bytes());
        let sender = if one == other { 1 - seen.client } else { usize::from(other > one) };
        let window = &watched.windows[sender];
        let features = window.features(LimitedBy::Unknown);
        let rate = features.map_or(Rate::ZERO, |features| features.rate);
        let rtt = delays.map(|(delays, _)| Duration::from_ns(delays.rtt as i64)).or(seen.rtt());
        let features = features.map(|features| {
            let makes_queue = self.link.makes_queue(seen.side_of(1 - sender), rates[sender]);
            let limited_by = seen.limited_by(sender, rate, rtt, (features.mean_size, makes_queue), shares);
            let features = Features { limited_by, ..features };
            let answers = watched.windows[1 - sender].features(LimitedBy::Unknown);
            answers.map_or(features, |answers| features.with_answers(&answers))
        });
        let behaviour = features
            .map_or((Behaviour::Unknown, Rule::TooLittle), |features| classify(&features, &self.thresholds));
        let held_at = seen.held_at(sender, rates[sender], shares);
        // What has just become faster would take more, though its mean does not show it yet.
        let fastest = rate.max(rates[sender]);
        let mut facts = FlowFacts { unused, held_at, ..seen.facts(sender, behaviour.0, fastest) };
        // What cannot be limited takes no share from what can.
        let Means { marking, shaping, .. } = self.means;
        let is_held = facts.is_tcp || facts.ecn && marking || facts.behaviour == Behaviour::Bulk && shaping;
        facts.class = facts.class.filter(|_| is_held);
        Known { features, behaviour, rates, acks, facts }
    }
}

/// Returns what the flows that are limited did since the last look.
fn loads(seen: &[Seen], known: &[Known], watched: &HashMap<u64, Box<Watched>>) -> Vec<Load> {
    let is_limited = |seen: &Seen| watched.get(&seen.number).is_some_and(|watched| watched.is_limited);
    let limited = seen.iter().zip(known).filter(|(seen, _)| is_limited(seen));
    limited
        .filter_map(|(seen, known)| {
            let side = known.facts.side;
            let sender = seen.sender_to(side);
            let delays = watched.get(&seen.number).and_then(|watched| watched.waited.correct(watched.delays));
            seen.tcp.is_some().then(|| seen.load(side, known.rates[sender], delays))
        })
        .collect()
}

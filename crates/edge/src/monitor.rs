//! Judges the flows that programs of the kernel count, and joins with them what a capture says.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use headway_arithmetic::flow::{Flow, Key, Meter};
use headway_arithmetic::rwm;
use headway_units::{Bytes, Duration, Instant, Rate};

use crate::advisor::Flows;
use crate::classify::{Behaviour, Features, LimitedBy, Rule, Thresholds, Window, classify};
use crate::evaluate::{Decision, Evaluator, Facts, FlowFacts, Input, Means, Registry};
use crate::link_rate::presses;
use crate::notes::{News, Note};
use crate::snapshot::{DecisionState, FlowState, ProbeState, RateState};
use crate::usage::Usage;
use crate::{Demand, FASTEST, LinkRate, Load, Policy, Probe, Probed, Prober, Shares, Signals, Widening};

/// A connection that has more than this part of what its window allows is limited by it.
///
/// Range 0.6 to 0.95: a window holds whole segments, and is younger than the rate.
const FILLS_WINDOW: f64 = 0.8;

/// Receivers acknowledge every second segment (RFC 9293 3.8.6.3).
pub(crate) const SEGMENTS_PER_ACK: u64 = 2;
/// What an ACK takes of a link, beside data: 52 bytes of IPv4 and 38 of Ethernet. The headers of data are a part of what a rate of data means.
pub(crate) const ACK: u64 = 90;

/// Whether a flow of this rate is as fast as a window in bytes allows.
pub(crate) fn fills_window(rate: Rate, rtt: Duration, window: u32) -> bool {
    rate.bytes_in(rtt).get() as f64 >= FILLS_WINDOW * f64::from(window)
}

/// What a capture says of the data that one end of a connection sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passive {
    /// What limited it in the last seconds.
    pub limited_by: LimitedBy,
}

/// A flow as the tables of the kernel show it. Arrays have an entry for each end of its key.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its number, which no other flow has.
    pub number: u64,
    /// Its ends.
    pub key: Key,
    /// The end that began.
    pub client: usize,
    /// The side of that, 0 or 1.
    pub side: usize,
    /// The index of its class in the policy.
    pub class: Option<u32>,
    /// What is known of a connection of TCP; none of other flows.
    pub tcp: Option<Flow>,
    /// The packets with data that each end has sent.
    pub sent: [Meter; 2],
    /// Whether the router has split it, and this is the half towards the link.
    pub is_split: bool,
    /// Whether each end has sent packets that may be marked, so that its peer tells it of marks (RFC 3168 6.1).
    pub ecn: [bool; 2],
    /// What a capture says of them.
    pub passive: [Passive; 2],
}

/// A flow that was judged.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The flow.
    pub seen: Seen,
    /// What its packets looked like; none without any.
    pub features: Option<Features>,
    /// What it is for, and by which rule.
    pub behaviour: (Behaviour, Rule),
    /// What each end has sent since the last look.
    pub rates: [Rate; 2],
    /// The side, 0 or 1, to which most of its data goes.
    pub main_side: usize,
    /// The part that it leaves of its share towards each side.
    pub unused: [f64; 2],
    /// What is done with it, and why.
    pub decision: Decision,
    /// Whether that is news.
    pub news: News,
}

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
    /// What it uses of its share towards each side.
    usage: [Usage; 2],
    /// How many packets with data each end has sent.
    packets: [u64; 2],
}

/// Judges flows again and again, whatever their number, with memory for those that there are.
#[derive(Debug)]
pub struct Monitor {
    evaluator: Evaluator,
    signals: Signals,
    /// None where the rate of the link is known.
    found: Option<LinkRate>,
    widening: Widening,
    /// None where nothing is probed.
    prober: Option<Prober>,
    /// What flows did with the link until the last look.
    demand: Demand,
    thresholds: Thresholds,
    /// What the router does besides lowering windows.
    means: Means,
    watched: HashMap<u64, Box<Watched>>,
    /// When flows were looked at last, in ns.
    at: Option<u64>,
    looks: u64,
}

/// Returns what a router does by this policy, besides lowering windows. Bulk without a window makes no queue by which a rate could be
/// found, so it is held only where that is known.
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

/// What passes besides the flows that share, and how much wider windows are.
struct Besides([Rate; 2], [f64; 2]);

impl Input for Besides {
    fn tell(&mut self, _: Instant, facts: &mut Facts) {
        (facts.besides, facts.widening) = (self.0, self.1);
    }
}

impl Monitor {
    /// Creates one for a router that can lower windows and mark packets, at a link with these rates towards its two sides.
    pub fn new(policy: &Policy, capacity: [Rate; 2]) -> Monitor {
        let evaluator = Evaluator::new(policy.clone(), Registry::of_edge(), capacity, means(policy, true));
        Monitor {
            evaluator,
            signals: Signals::default(),
            found: None,
            widening: Widening::default(),
            prober: None,
            demand: Demand::default(),
            thresholds: policy.classifier,
            means: means(policy, true),
            watched: HashMap::new(),
            at: None,
            looks: 0,
        }
    }

    /// Creates one at a link whose rate nobody knows: it finds it by the queue that flows make.
    pub fn finding_the_rate(policy: &Policy) -> Monitor {
        let mut monitor = Monitor::new(policy, [FASTEST; 2]);
        monitor.evaluator = monitor.evaluator.of_unknown_link();
        monitor.found = Some(LinkRate::default());
        monitor.set_policy(policy);
        monitor
    }

    /// Returns the most that was seen to pass towards a side, 0 or 1, where the rate of the link is to be found and a queue has stood.
    pub fn found(&self, side: usize) -> Option<Rate> {
        self.found.as_ref()?.capacity(side)
    }

    /// Judges by another policy from now on.
    pub fn set_policy(&mut self, policy: &Policy) {
        self.thresholds = policy.classifier;
        self.means = means(policy, self.found.is_none());
        if let Some(found) = &mut self.found {
            found.set_smoothed(policy.shape);
        }
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

    /// Returns what is to be measured after the last look, if anything is; one at a time, until [`Monitor::report_probe`].
    pub fn next_probe(&mut self, now: Instant) -> Option<Probe> {
        self.prober.as_mut()?.next(now, &self.demand)
    }

    /// Takes what came of a probe, and what it has cost.
    pub fn report_probe(&mut self, now: Instant, probe: Probe, cost: Bytes, result: Result<Probed, String>) {
        if let (Some(found), Ok(Probed { capacity: Some([capacity, ..]), .. })) = (&mut self.found, &result) {
            found.raise(probe.side, *capacity);
        }
        if let Some(prober) = &mut self.prober {
            prober.report(now, probe, cost, result);
        }
    }

    /// Returns what probes cost and bought; none where nothing is probed.
    pub fn probes(&mut self, now: Instant) -> Option<ProbeState> {
        self.prober.as_mut().map(|prober| prober.state(now))
    }

    /// Returns the capacity of the narrow link towards a side as probes found it.
    pub fn narrow(&self, now: Instant, side: usize) -> Option<RateState> {
        self.prober.as_ref().and_then(|prober| prober.rates(now, side)[1].clone())
    }

    /// Returns what all who know the link say of what it has for flows towards a side.
    pub fn states(&self, now: Instant, side: usize) -> impl Iterator<Item = RateState> {
        let found = self.found.as_ref().and_then(|found| found.state(side));
        let probed = self.prober.as_ref().and_then(|prober| prober.rates(now, side)[0].clone());
        found.into_iter().chain(probed).chain(self.signals.states(now, side))
    }

    /// Returns what flows share towards each side, as the last look has it; none where that is the whole link.
    pub const fn available(&self) -> [Option<Rate>; 2] {
        self.evaluator.available()
    }

    /// Returns who says what flows share towards a side, as the last look has it; none where that is the whole link, or the narrow one.
    pub fn followed(&self, side: usize) -> Option<&str> {
        self.evaluator.followed(side)
    }

    /// Returns what windows towards each side are multiplied with, as the last look has it.
    pub const fn factors(&self) -> [f64; 2] {
        self.widening.factors()
    }

    /// Judges the flows that there are at `now`, in ns; `shares` is what a connection of each class might have until then. One that is
    /// not among them has ended.
    pub fn look(&mut self, now: u64, seen: Vec<Seen>, shares: &Shares) -> Vec<Judged> {
        self.looks += 1;
        let time = self.at.replace(now).map(|before| Duration::from_ns(now.saturating_sub(before) as i64));
        let known: Vec<Known> = seen.iter().map(|seen| self.know(now, time, seen, shares)).collect();
        let facts: Vec<FlowFacts> = known.iter().map(|known| known.facts).collect();
        let loads = loads(now, &seen, &known, &self.watched);
        self.demand = self.demand_of(&seen, &known, &loads);
        let mut flows = Flows(&facts);
        // What is found by the queue is what windows can be, and has its bound in what was measured.
        let found = |side| self.found.as_ref().and_then(|found| found.available(side));
        let is_told = |side, shared| found(side).is_none_or(|found| found > shared);
        let shared = self.shared();
        self.widening
            .look(&loads, [0, 1].map(|side| Some(shared[side]).filter(|shared| is_told(side, *shared))));
        let others = self.besides(&seen, &known);
        let mut besides = Besides(others, self.widening.factors());
        let mut inputs: Vec<&mut dyn Input> = vec![&mut flows, &mut besides, &mut self.signals];
        if let Some(found) = &mut self.found {
            found.look(&loads, others);
            inputs.push(found);
        }
        if let Some(prober) = &mut self.prober {
            inputs.push(prober);
        }
        let decisions = self.evaluator.evaluate(Instant::from_ns(now), &mut inputs);
        let looks = self.looks;
        self.watched.retain(|_, watched| watched.looks == looks);
        let judge = |((seen, known), decision): ((Seen, Known), Decision)| {
            let Known { features, behaviour, rates, facts, .. } = known;
            let (unused, main_side) = (facts.unused, facts.side.into());
            let news = self.watched.get_mut(&seen.number).map_or(News::None, |watched| {
                watched.is_limited = !decision.passes();
                watched.shares = Some(decision.shares);
                watched.note.take(behaviour.0, &decision)
            });
            Judged { seen, features, behaviour, rates, main_side, unused, decision, news }
        };
        seen.into_iter().zip(known).zip(decisions).map(judge).collect()
    }

    /// Returns what passed towards each side besides the data of flows that share.
    fn besides(&self, seen: &[Seen], known: &[Known]) -> [Rate; 2] {
        [0, 1].map(|side| {
            let rate = |(seen, known): (&Seen, &Known)| {
                let sender = seen.sender_to(side);
                let judged = self.watched.get(&seen.number).and_then(|watched| watched.shares);
                let shares = judged.unwrap_or(known.facts.class.is_some());
                let data = if shares { 0 } else { known.rates[sender].bps() };
                data + if seen.tcp.is_some() { known.acks[1 - sender].bps() } else { 0 }
            };
            Rate::from_bps(seen.iter().zip(known).map(rate).sum())
        })
    }

    fn demand_of(&self, seen: &[Seen], known: &[Known], loads: &[Load]) -> Demand {
        let towards = |side| {
            let rate = |(seen, known): (&Seen, &Known)| known.rates[seen.sender_to(side)].bps();
            Rate::from_bps(seen.iter().zip(known).map(rate).sum())
        };
        Demand { rate: [towards(0), towards(1)], presses: presses(loads, self.shared()) }
    }

    /// Returns what flows share towards each side.
    fn shared(&self) -> [Rate; 2] {
        [0, 1].map(|side| self.available()[side].unwrap_or(self.evaluator.capacity()[side]))
    }

    fn know(&mut self, now: u64, time: Option<Duration>, seen: &Seen, shares: &Shares) -> Known {
        let watched = self.watched.entry(seen.number).or_default();
        watched.looks = self.looks;
        let bytes = [0, 1].map(|end| watched.windows[end].look(now, &seen.sent[end]));
        let rate = |bytes| Rate::of(Bytes::new(bytes), time?);
        let rates = bytes.map(|bytes| rate(bytes).unwrap_or(Rate::ZERO));
        let packets = seen.sent.map(|meter| meter.packets);
        let before = std::mem::replace(&mut watched.packets, packets);
        let acks = [0, 1].map(|end| {
            let acks = packets[end].saturating_sub(before[end]) / SEGMENTS_PER_ACK;
            rate(acks * ACK).unwrap_or(Rate::ZERO)
        });
        let unused = [0, 1].map(|side| {
            let share = seen.class.and_then(|class| shares[side].get(class as usize)).copied().unwrap_or(0);
            let rate = rates[seen.sender_to(side)];
            watched.usage[side].unused(seen.load(side, rate, now).map_or(rate, |load| load.asks()), share)
        });
        // The end that has sent more, the server's if none has.
        let [one, other] = [0, 1].map(|end| watched.windows[end].bytes());
        let sender = if one == other { 1 - seen.client } else { usize::from(other > one) };
        let window = &watched.windows[sender];
        let features = window.features(LimitedBy::Unknown);
        let rate = features.map_or(Rate::ZERO, |features| features.rate);
        let limited_by = seen.limited_by(sender, rate, shares);
        let features = features.map(|features| Features { limited_by, ..features });
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
fn loads(now: u64, seen: &[Seen], known: &[Known], watched: &HashMap<u64, Box<Watched>>) -> Vec<Load> {
    let is_limited = |seen: &Seen| watched.get(&seen.number).is_some_and(|watched| watched.is_limited);
    let limited = seen.iter().zip(known).filter(|(seen, _)| is_limited(seen));
    limited
        .filter_map(|(seen, known)| {
            let side = usize::from(known.facts.side & 1);
            let sender = seen.sender_to(side);
            seen.load(side, known.rates[sender], now)
        })
        .collect()
}

impl Seen {
    /// Returns what a connection of TCP did at this rate towards a side in the second before `now`, in ns.
    fn load(&self, side: usize, rate: Rate, now: u64) -> Option<Load> {
        self.tcp.as_ref().map(|flow| Load::new(flow, side, rate, Instant::from_ns(now)))
    }

    /// Returns the side, 0 or 1, on which an end is.
    fn side_of(&self, end: usize) -> usize {
        self.side ^ usize::from(end != self.client)
    }

    /// Returns the end, 0 or 1, that sends towards a side.
    fn sender_to(&self, side: usize) -> usize {
        usize::from(self.side_of(0) == side)
    }

    fn rtt(&self) -> Option<Duration> {
        self.tcp.as_ref()?.rtt().map(|rtt| Duration::from_ns(rtt as i64))
    }

    /// Returns the window of an end that is let through with these shares; none where it cannot be lowered.
    fn let_through(&self, end: usize, shares: &Shares) -> Option<u32> {
        let flow = self.tcp.as_ref()?;
        let class = self.class.and_then(|class| shares[self.side_of(end)].get(class as usize));
        flow.let_through(end, rwm::bytes(class.copied().unwrap_or(0), flow.rtt().unwrap_or(0)))
    }

    /// Returns what limits what an end sends at this rate. A window that the router has lowered is not in a capture on the hosts'
    /// side of it.
    fn limited_by(&self, sender: usize, rate: Rate, shares: &Shares) -> LimitedBy {
        let is_full = self
            .rtt()
            .zip(self.let_through(1 - sender, shares))
            .is_some_and(|(rtt, window)| fills_window(rate, rtt, window));
        if is_full { LimitedBy::ReceiveWindow } else { self.passive[sender].limited_by }
    }

    /// Returns the window that a host, not the router, lets an end beyond the link fill, if it is filled at this rate.
    fn held_at(&self, sender: usize, rate: Rate, shares: &Shares) -> Option<Bytes> {
        let host = 1 - sender;
        // A window of nothing is that of an application which does not read.
        let told = self.tcp.as_ref()?.told(host).filter(|told| self.side_of(host) == 0 && *told > 0)?;
        let is_own = self.let_through(host, shares) == Some(told);
        (is_own && fills_window(rate, self.rtt()?, told)).then_some(Bytes::new(told.into()))
    }

    fn facts(&self, sender: usize, behaviour: Behaviour, rate: Rate) -> FlowFacts {
        let receiver = 1 - sender;
        FlowFacts {
            id: self.number,
            behaviour,
            class: self.class,
            side: self.side_of(receiver) as u8,
            is_tcp: self.tcp.is_some(),
            rtt: self.rtt(),
            scale: self.tcp.as_ref().and_then(|flow| flow.scale(receiver)),
            held_at: None,
            is_split: self.is_split,
            ecn: self.ecn[sender],
            rate,
            unused: [0.0; 2],
        }
    }
}

impl Judged {
    /// Returns `tcp` or `udp`.
    pub const fn protocol(&self) -> &'static str {
        if self.seen.tcp.is_some() { "tcp" } else { "udp" }
    }

    /// Returns the address of the end on the side of the hosts.
    pub fn host(&self) -> IpAddr {
        self.seen.key.address(self.seen.sender_to(1))
    }

    /// Returns the address of the end that began, and that of the other one.
    pub fn ends(&self) -> [SocketAddr; 2] {
        let key = &self.seen.key;
        [self.seen.client, 1 - self.seen.client].map(|end| SocketAddr::new(key.address(end), key.port(end)))
    }

    /// Returns what passes towards each side.
    pub fn towards(&self) -> [Rate; 2] {
        [0, 1].map(|side| self.rates[self.seen.sender_to(side)])
    }

    /// Returns the window that an end, 0 or 1, has told last, and what is let through of it with these shares.
    pub fn windows(&self, end: usize, shares: &Shares) -> [Option<u32>; 2] {
        let told = self.seen.tcp.as_ref().and_then(|flow| flow.told(end));
        let shares = if self.decision.passes() { &[[0; crate::MOST_CLASSES]; 2] } else { shares };
        [told, self.seen.let_through(end, shares)]
    }

    /// Returns what pages and history show of it. `shares` is what a connection of each class may have from now on.
    pub fn state(&self, classes: &[String], shares: &Shares) -> FlowState {
        let [client, server] = self.ends();
        let [down, up] = self.towards();
        let host = usize::from(self.seen.side_of(0) != 0);
        let [told, let_through] = self.windows(host, shares).map(|bytes| bytes.map(u64::from));
        FlowState {
            id: self.seen.number,
            protocol: self.protocol().to_owned(),
            client,
            server,
            class: self.seen.class.and_then(|class| classes.get(class as usize)).cloned(),
            behaviour: self.behaviour.0.name().to_owned(),
            rule: self.behaviour.1.to_string(),
            down_bps: down.bps(),
            up_bps: up.bps(),
            rtt_ns: self.seen.rtt().map(|rtt| rtt.ns() as u64),
            window_bytes: told,
            window_let_through_bytes: let_through,
            limited_by: self.limited_by().name().to_owned(),
            mean_gap_ns: self.features.map_or(0, |features| features.mean_gap.ns() as u64),
            burstiness: self.features.map_or(0.0, |features| features.slot_variation),
            decision: self.decision.to_string(),
        }
    }

    /// Returns what limits its rate.
    pub fn limited_by(&self) -> LimitedBy {
        self.features.map_or(LimitedBy::Unknown, |features| features.limited_by)
    }

    /// Returns the decision about it, made at a time since 1970 in ms.
    pub fn decided(&self, time_ms: u64) -> DecisionState {
        let [client, server] = self.ends();
        DecisionState {
            time_ms,
            flow: self.seen.number,
            client,
            server,
            behaviour: self.behaviour.0.name().to_owned(),
            strategies: self.decision.chain.iter().map(|step| step.strategy.to_owned()).collect(),
            sentence: self.decision.to_string(),
        }
    }
}

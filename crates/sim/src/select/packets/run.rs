//! A run in a world whose packets are all simulated: who chooses, with what asks paths for him, and users.

use headway_control::Kind;
use headway_estimate::measure::{Config, Failure, Measurement, Method};
use headway_estimate::question::{Question, QuestionConfig};
use headway_select::{Action, Answer, Decision, Selector, Settings, Trouble, Why};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::{Chooser, PacketPath, PacketRun, PacketWorld, Statement};
use crate::config::{FlowId, GroupId, LinkId, ProberId, SourceConfig, TcpConfig};
use crate::network::{Completion, Network};
use crate::select::window::{Machine, Sender};
use crate::statistics::FlowStatistics;

/// Time between two looks at what passes interfaces, as of the program.
const LOOK: Duration = Duration::from_ms(1_000);
/// Size of a packet that asks for a round-trip time.
const PING: Bytes = Bytes::new(100);
/// Two attempts that nobody answers take so long.
const VAIN: Duration = Duration::from_ms(5_000);
/// The first and the longest pause until a far end that is away is tried again.
const AGAIN: [Duration; 2] = [Duration::from_ms(2_000), Duration::from_ms(60_000)];
/// Bytes of a full segment on the wire.
const SEGMENT: u64 = 1_538;

/// A path while it is in use.
#[derive(Debug)]
struct Used {
    group: GroupId,
    prober: ProberId,
    rtt: Duration,
    is_up: bool,
    /// What asks it something, and bytes of users that had passed when that began.
    asked: Option<(Asked, u64, Instant)>,
    /// A packet that asks for a round-trip time, and until when it may come back.
    pinged: Option<Instant>,
    ping_at: Instant,
    pause: Duration,
    is_away: bool,
    rtt_seen: Option<Duration>,
    /// Bytes of users by the last look; none if it was asked something since.
    counted: Option<(Instant, u64)>,
    ended: u64,
    flows: Vec<(usize, FlowId)>,
}

#[derive(Debug)]
enum Asked {
    Streams(Box<Sender>),
    /// Nobody answers until then.
    Vain(Instant),
    Ping,
}

/// A run in a world.
pub(super) struct Run<'a> {
    world: &'a PacketWorld,
    network: Network,
    selector: Option<Selector>,
    chooser: Chooser,
    paths: Vec<Used>,
    now: Instant,
    next_transfer: usize,
    look_at: Instant,
    note_at: Instant,
    chosen: usize,
    run: PacketRun,
}

impl<'a> Run<'a> {
    pub(super) fn new(world: &'a PacketWorld, chooser: &Chooser) -> Run<'a> {
        let mut network = Network::new(world.seed);
        let links: Vec<[LinkId; 2]> = world
            .links
            .iter()
            .map(|link| [network.add_link(&link.forward), network.add_link(&link.back)])
            .collect();
        for (link, [there, back]) in world.links.iter().zip(&links) {
            for (traffic, start, stop) in &link.sources {
                let (traffic, path) = (traffic.clone(), vec![*there]);
                network.add_source(&SourceConfig { path, traffic, start: *start, stop: *stop });
            }
            for flow in &link.flows {
                let (forward, reverse) = (vec![*there], vec![*back]);
                network.add_tcp(&TcpConfig { forward, reverse, ..flow.clone() });
            }
        }
        let path = |path: &PacketPath| {
            let [there, back] = links[path.link];
            let link = &world.links[path.link];
            Used {
                group: network.add_group(&TcpConfig::new(Kind::Cubic, vec![there], vec![back])),
                prober: network.add_prober(&[there], None),
                rtt: link.forward.delay + link.back.delay,
                is_up: true,
                asked: None,
                pinged: None,
                ping_at: Instant::ZERO,
                pause: Duration::ZERO,
                is_away: false,
                rtt_seen: None,
                counted: None,
                ended: 0,
                flows: Vec::new(),
            }
        };
        let paths = world.paths.iter().map(path).collect();
        let (selector, chosen) = match chooser {
            Chooser::Selector(settings) => {
                let names = world.paths.iter().map(|path| path.name.as_str());
                (Selector::new(*settings, names, Instant::ZERO), 0)
            }
            Chooser::Always(path) => (None, *path),
            Chooser::LowestRtt { .. } => (None, 0),
        };
        let run = PacketRun {
            chosen: vec![(Instant::ZERO, chosen)],
            times: vec![world.patience; world.transfers.len()],
            spent: vec![Bytes::ZERO; world.paths.len()],
            ..PacketRun::default()
        };
        Run {
            world,
            network,
            selector,
            chooser: *chooser,
            paths,
            now: Instant::ZERO,
            next_transfer: 0,
            look_at: Instant::ZERO + LOOK,
            note_at: Instant::ZERO + LOOK * 30,
            chosen,
            run,
        }
    }

    fn step(&mut self) {
        let next = self.next().max(self.now + Duration::from_us(1)).min(self.world.end);
        self.network.run_until(next);
        self.now = next;
        self.completed();
        self.start_transfers();
        self.links();
        self.streams();
        self.pings();
        if self.now >= self.look_at {
            self.look();
        }
        self.poll();
        if self.now >= self.note_at {
            self.note();
        }
    }

    fn next(&self) -> Instant {
        let mut next = self.look_at.min(self.note_at);
        if let Some((at, _)) = self.world.transfers.get(self.next_transfer) {
            next = next.min(*at);
        }
        if let Some(selector) = &self.selector {
            next = next.min(selector.next());
        }
        for path in &self.paths {
            next = match &path.asked {
                Some((Asked::Streams(sender), ..)) => sender.next().map_or(next, |at| next.min(at)),
                Some((Asked::Vain(at), ..)) => next.min(*at),
                _ => next,
            };
            next =
                next.min(if path.pinged.is_some() { self.now + Duration::from_ms(1) } else { path.ping_at });
        }
        next
    }

    fn completed(&mut self) {
        let done: Vec<Completion> = self.network.take_completions().collect();
        for one in done {
            for path in &mut self.paths {
                if path.group != one.group {
                    continue;
                }
                if let Some(at) = path.flows.iter().position(|(_, flow)| *flow == one.flow) {
                    let (number, _) = path.flows.swap_remove(at);
                    path.ended += one.sent * SEGMENT;
                    let took = one.end - self.world.transfers[number].0;
                    self.run.times[number] = took.min(self.world.patience);
                }
            }
        }
    }

    fn start_transfers(&mut self) {
        while let Some((at, size)) = self.world.transfers.get(self.next_transfer) {
            if *at > self.now {
                return;
            }
            let path = &mut self.paths[self.chosen];
            // Connecting takes a round trip.
            if let Some(flow) = self.network.start_flow(path.group, *at + path.rtt, *size) {
                path.flows.push((self.next_transfer, flow));
            }
            self.next_transfer += 1;
        }
    }

    /// Returns what users have sent over a path.
    fn passed(&self, path: usize) -> u64 {
        let path = &self.paths[path];
        let sent = |(_, flow): &(usize, FlowId)| {
            let FlowStatistics { sent, .. } = self.network.flow(*flow);
            sent * SEGMENT
        };
        path.ended + path.flows.iter().map(sent).sum::<u64>()
    }

    fn links(&mut self) {
        for number in 0..self.paths.len() {
            let is_up = !PacketWorld::is_among(&self.world.paths[number].down, self.now);
            if is_up == self.paths[number].is_up {
                continue;
            }
            self.paths[number].is_up = is_up;
            if let Some(selector) = &mut self.selector {
                match is_up {
                    true => selector.up(self.now, number),
                    false => selector.failed(self.now, number, Trouble::Down, Bytes::ZERO),
                }
            }
        }
    }

    fn is_there(&self, number: usize) -> bool {
        let path = &self.world.paths[number];
        self.paths[number].is_up && !path.refuses && !PacketWorld::is_among(&path.away, self.now)
    }

    /// Goes on with what asks paths something.
    fn streams(&mut self) {
        for number in 0..self.paths.len() {
            let Some((mut asked, before, since)) = self.paths[number].asked.take() else { continue };
            let is_over = match &mut asked {
                Asked::Streams(sender) => {
                    if sender.next().is_some_and(|at| at <= self.now) {
                        sender.poll(&mut self.network);
                    }
                    sender.next().is_none()
                }
                Asked::Vain(until) => *until <= self.now,
                Asked::Ping => false,
            };
            if !is_over {
                self.paths[number].asked = Some((asked, before, since));
                continue;
            }
            match asked {
                Asked::Streams(sender) => self.answered(number, *sender, before, since),
                _ => self.vain(number, Bytes::new(1_000)),
            }
        }
    }

    fn vain(&mut self, number: usize, cost: Bytes) {
        let path = &mut self.paths[number];
        path.is_away = true;
        path.pause = (path.pause * 2).max(AGAIN[0]).min(AGAIN[1]);
        path.ping_at = self.now + path.pause;
        self.run.spent[number] += cost;
        if let Some(selector) = &mut self.selector {
            let trouble = if self.world.paths[number].refuses { Trouble::Refused } else { Trouble::Away };
            selector.failed(self.now, number, trouble, cost);
            selector.failed(self.now, number, trouble, Bytes::ZERO);
        }
    }

    fn answered(&mut self, number: usize, sender: Sender, before: u64, since: Instant) {
        let (answer, cost) = sender.into_answer();
        self.run.spent[number] += cost;
        let own = Rate::of(Bytes::new(self.passed(number) - before), self.now - since).unwrap_or_default();
        let rtt = self.paths[number].rtt_seen.unwrap_or(self.paths[number].rtt);
        let Some(selector) = &mut self.selector else { return };
        selector.own(self.now, number, own);
        match answer {
            Ok(answer) => selector.answer(self.now, number, &answer, Some(rtt), cost),
            Err(Failure::AllLost) => selector.failed(self.now, number, Trouble::Away, cost),
            Err(_) => selector.failed(self.now, number, Trouble::Unclear, cost),
        }
    }

    /// Asks for round-trip times where nothing else is asked.
    fn pings(&mut self) {
        let every = match self.chooser {
            Chooser::Selector(settings) => settings.interval / 2,
            Chooser::LowestRtt { every, .. } => every,
            Chooser::Always(_) => {
                self.paths.iter_mut().for_each(|path| path.ping_at = self.world.end);
                return;
            }
        };
        for number in 0..self.paths.len() {
            let path = &mut self.paths[number];
            let streams = matches!(path.asked, Some((Asked::Streams(_) | Asked::Vain(_), ..)));
            match path.pinged {
                Some(_) if streams => path.pinged = None,
                Some(sent) => self.await_pong(number, sent),
                None if streams => path.ping_at = self.now + every,
                None if self.now >= path.ping_at => {
                    path.ping_at = self.now + every;
                    self.ping(number);
                }
                None => {}
            }
        }
    }

    fn ping(&mut self, number: usize) {
        let is_there = self.is_there(number);
        let path = &mut self.paths[number];
        if is_there {
            self.network.send_probe(path.prober, self.now, PING);
            path.pinged = Some(self.now);
        } else if path.is_up && !path.is_away {
            path.asked = Some((Asked::Vain(self.now + VAIN), 0, self.now));
        } else if path.is_up {
            path.pause = (path.pause * 2).max(AGAIN[0]).min(AGAIN[1]);
            path.ping_at = self.now + path.pause;
        }
    }

    fn await_pong(&mut self, number: usize, sent: Instant) {
        let path = &mut self.paths[number];
        if self.network.probes_arrived(path.prober) {
            let log = self.network.take_probe_log(path.prober);
            let back = self.world.links[self.world.paths[number].link].back.delay;
            path.pinged = None;
            if let Some(rtt) = log.last().and_then(|one| Some(one.arrived? - one.sent + back)) {
                self.pong(number, rtt);
            }
        } else if self.now - sent > VAIN {
            self.network.take_probe_log(path.prober);
            path.pinged = None;
            path.asked = None;
            self.vain(number, PING);
        }
    }

    fn pong(&mut self, number: usize, rtt: Duration) {
        let path = &mut self.paths[number];
        path.rtt_seen = Some(rtt);
        let was_asked = path.asked.take().is_some() || path.is_away;
        (path.is_away, path.pause) = (false, Duration::ZERO);
        if let Some(selector) = &mut self.selector {
            match was_asked {
                true => selector.answer(self.now, number, &Answer::Pong, Some(rtt), PING),
                false => selector.rtt(self.now, number, rtt),
            }
        }
    }

    /// Tells what users send, once a second.
    fn look(&mut self) {
        self.look_at = self.now + LOOK;
        for number in 0..self.paths.len() {
            let passed = self.passed(number);
            let path = &mut self.paths[number];
            let before = path.counted.replace((self.now, passed));
            if path.asked.is_some() {
                path.counted = None;
            }
            if let (Some((at, before)), Some(selector), None) = (before, &mut self.selector, &path.asked)
                && let Some(own) = Rate::of(Bytes::new(passed - before), self.now - at)
            {
                selector.carried(self.now, number, own);
            }
        }
        self.by_rtt();
    }

    /// Chooses by round-trip times, if that is what is compared.
    fn by_rtt(&mut self) {
        let Chooser::LowestRtt { trips, tolerance, .. } = self.chooser else { return };
        let value = |path: &Used| {
            let is_usable = path.is_up && !path.is_away;
            path.rtt_seen.filter(|_| is_usable).map_or(Duration::from_ms(60_000), |rtt| rtt * trips)
        };
        let best = (0..self.paths.len()).min_by_key(|path| value(&self.paths[*path])).unwrap_or(0);
        if value(&self.paths[best]) + tolerance < value(&self.paths[self.chosen]) {
            self.choose(best);
        }
    }

    fn choose(&mut self, path: usize) {
        self.chosen = path;
        self.run.chosen.push((self.now, path));
    }

    fn poll(&mut self) {
        while let Some(action) = self.selector.as_mut().and_then(|selector| selector.poll(self.now)) {
            match action {
                Action::Choose(decision) => self.decided(&decision),
                Action::Ask { path, rate, capacity, bucket, most } => {
                    self.question(path, (rate, capacity), bucket, most);
                }
                Action::Together { paths, rate, capacities, most } => {
                    for (path, capacity) in paths.into_iter().zip(capacities) {
                        self.question(path, (rate, capacity), None, most);
                    }
                }
                Action::Measure { path, most } => self.measurement(path, most),
                Action::Ping { path } => {
                    self.paths[path].ping_at = self.now;
                    self.paths[path].asked = Some((Asked::Ping, 0, self.now));
                }
            }
        }
    }

    fn question(
        &mut self,
        path: usize,
        (rate, capacity): (Rate, Option<Rate>),
        bucket: Option<Bytes>,
        most: Bytes,
    ) {
        let packet = Settings::default().packet;
        let rtt = self.paths[path].rtt_seen.unwrap_or(self.paths[path].rtt);
        let config = QuestionConfig { rate, most, packet, rtt, capacity, bucket };
        self.ask(path, Machine::Question(Question::new(config, self.now)));
    }

    fn measurement(&mut self, path: usize, most: Bytes) {
        /// A host sends up to this.
        const LINE: Rate = Rate::from_bps(1_000_000_000);
        let config = Config {
            method: Method::Response,
            packet: Settings::default().packet,
            budget: Some(most),
            gentle: false,
            duration: None,
            rtt: self.paths[path].rtt_seen.unwrap_or(self.paths[path].rtt),
            top_rate: LINE,
            train_rate: LINE,
        };
        self.ask(path, Machine::Measurement(Box::new(Measurement::new(config, self.now))));
    }

    fn ask(&mut self, number: usize, machine: Machine) {
        let (before, is_there) = (self.passed(number), self.is_there(number));
        let path = &mut self.paths[number];
        let asked = if is_there {
            self.network.take_probe_log(path.prober);
            Asked::Streams(Box::new(Sender::new(machine, path.prober, path.rtt, self.now)))
        } else {
            Asked::Vain(self.now + VAIN)
        };
        path.asked = Some((asked, before, self.now));
    }

    fn decided(&mut self, decision: &Decision) {
        if let (Why::Better { odds, .. } | Why::Sooner { odds, .. }, Some((before, _))) =
            (&decision.why, &decision.before)
        {
            self.run.claims.push((self.now, [*before, decision.path], *odds));
        }
        self.choose(decision.path);
    }

    fn note(&mut self) {
        self.note_at = self.now + LOOK * 30;
        let now = self.now;
        let Some(selector) = &mut self.selector else { return };
        let snapshot = selector.snapshot(now);
        for (path, state) in snapshot.paths.iter().enumerate() {
            let (Some(free), true) = (state.free_bps, self.paths[path].is_up) else { continue };
            let statement = Statement {
                at: now,
                path,
                is_used: state.is_chosen,
                free: free.map(Rate::from_bps),
                truth: self.world.free(path, now),
                odds: state.odds,
            };
            self.run.statements.push(statement);
        }
    }

    /// Runs to the end.
    pub(super) fn finish(mut self) -> PacketRun {
        while self.now < self.world.end {
            self.step();
        }
        self.run
    }
}

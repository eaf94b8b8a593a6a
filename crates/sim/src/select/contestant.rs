//! Who chooses: the selector, and its rivals.

use headway_estimate::measure::{Config, Failure, Measurement, Method};
use headway_estimate::question::{Question, QuestionConfig};
use headway_scenario::SelectRival;
use headway_select::{Action, Answer, Decision, Selector, Settings, Trouble, Why};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::timeline::Timeline;
use super::window::{Machine, Window};
use super::world::PathsWorld;

/// A GET of sing-box's proposal is so large, and made so often.
pub const GET: (Bytes, Duration) = (Bytes::new(1_000_000), Duration::from_ms(180_000));
/// iperf3 runs for so long, so often.
pub const IPERF: (Duration, Duration) = (Duration::from_ms(3_000), Duration::from_ms(300_000));
/// Users do not wait longer for a transfer.
pub const LONGEST_GET: Duration = Duration::from_ms(30_000);
/// The odds of all paths are noted so often.
const EVERY_LOOK: Duration = Duration::from_ms(60_000);
/// Streams are sent at up to this many times the rate of the fastest link.
const LINE: f64 = 4.0;

/// A way of choosing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contestant {
    /// The selector.
    Selector(Settings),
    /// Another way.
    Rival(SelectRival),
}

impl Contestant {
    /// Returns what it does in a world.
    pub fn run(&self, world: &PathsWorld) -> Timeline {
        match self {
            Contestant::Selector(settings) => select(world, settings),
            Contestant::Rival(SelectRival::LowestPing) => of_values(world, |path, at| {
                if world.is_up(path, at) { 1.0 / world.rtt(path).secs_f64().max(1e-9) } else { 0.0 }
            }),
            Contestant::Rival(SelectRival::LargestCapacity) => {
                of_values(
                    world,
                    |path, at| {
                        if world.is_up(path, at) { world.capacity(path, at).bps_f64() } else { 0.0 }
                    },
                )
            }
            Contestant::Rival(SelectRival::Oracle) => {
                of_values(world, |path, at| world.free(path, at).bps_f64())
            }
            Contestant::Rival(SelectRival::Get) => by_transfers(world, GET.1, |window, path| {
                let (bytes, took) = window.transfer(path, Some(GET.0), LONGEST_GET);
                // Without the time to the first byte.
                (bytes, took - world.rtt(path) * 2)
            }),
            Contestant::Rival(SelectRival::Iperf) => by_transfers(world, IPERF.1, |window, path| {
                let (bytes, took) = window.transfer(path, None, IPERF.0);
                (bytes, took)
            }),
        }
    }
}

/// Chooses the highest value at every change of the truth.
fn of_values(world: &PathsWorld, value: impl Fn(usize, Instant) -> f64) -> Timeline {
    let mut timeline = Timeline::default();
    for at in world.changes() {
        let best = (0..world.paths.len()).max_by(|one, other| {
            let order = value(*one, at).total_cmp(&value(*other, at));
            order.then(other.cmp(one))
        });
        timeline.choose(at, best.unwrap_or(0));
    }
    timeline
}

/// Transfers over all paths at regular times, and chooses the fastest by more than the usual tolerance.
fn by_transfers(
    world: &PathsWorld,
    every: Duration,
    transfer: impl Fn(&mut Window<'_>, usize) -> (Bytes, Duration),
) -> Timeline {
    let tolerance = 1.0 + Settings::default().tolerance;
    let mut timeline = Timeline { chosen: vec![(Instant::ZERO, 0)], ..Timeline::default() };
    let mut at = Instant::ZERO + Duration::from_ms(1_000);
    while at < world.end {
        let mut speeds = vec![0.0; world.paths.len()];
        let mut ended = at;
        for path in (0..world.paths.len()).filter(|path| world.is_up(*path, at)) {
            let mut window = Window::new(world, &[path], at, 1);
            let (bytes, took) = transfer(&mut window, path);
            speeds[path] = bytes.get() as f64 / took.secs_f64().max(1e-3);
            ended = ended.max(at + took);
            timeline.spent.push((at + took, path, wire(bytes)));
            timeline.others_lost += window.cross_lost();
        }
        let here = timeline.at(ended);
        let best = (0..speeds.len()).max_by(|one, other| speeds[*one].total_cmp(&speeds[*other]));
        if let Some(best) = best.filter(|best| speeds[*best] > tolerance * speeds[here]) {
            timeline.choose(ended, best);
        }
        at += every;
    }
    timeline
}

/// Returns what payload of TCP has on the wire.
pub fn wire(payload: Bytes) -> Bytes {
    Bytes::new(payload.get() * 1_538 / 1_448)
}

/// Drives the selector.
struct Driver<'a> {
    world: &'a PathsWorld,
    selector: Selector,
    now: Instant,
    timeline: Timeline,
    /// Which paths were up at the last report.
    up: Vec<bool>,
    settings: Settings,
    /// When the odds of all paths are noted next.
    look: Instant,
}

fn select(world: &PathsWorld, settings: &Settings) -> Timeline {
    let names = world.paths.iter().map(|path| path.name.clone());
    let Some(selector) = Selector::new(*settings, names, Instant::ZERO) else { return Timeline::default() };
    let timeline = Timeline { chosen: vec![(Instant::ZERO, 0)], ..Timeline::default() };
    let up = vec![true; world.paths.len()];
    let settings = *settings;
    let mut driver =
        Driver { world, selector, now: Instant::ZERO, timeline, up, settings, look: Instant::ZERO };
    while driver.now < world.end {
        driver.step();
    }
    Timeline { asked: driver.selector.asked(), ..driver.timeline }
}

impl Driver<'_> {
    fn step(&mut self) {
        self.tell_outages();
        self.note_odds();
        match self.selector.poll(self.now) {
            Some(Action::Choose(decision)) => self.choose(&decision),
            Some(Action::Ask { path, rate, capacity, bucket, most }) => {
                self.ask(&[(path, capacity)], rate, bucket, most);
            }
            Some(Action::Together { paths, rate, capacities, most }) => {
                self.ask(&[(paths[0], capacities[0]), (paths[1], capacities[1])], rate, None, most);
            }
            Some(Action::Measure { path, most }) => {
                self.measure(path, most);
            }
            Some(Action::Ping { path }) => {
                let rtt = self.world.rtt(path);
                self.now += rtt;
                self.spend(path, Bytes::new(200));
                self.selector.answer(self.now, path, &Answer::Pong, Some(rtt), Bytes::new(200));
            }
            None => self.wait(),
        }
    }

    fn wait(&mut self) {
        let next = self.next();
        if matches!(self.selector.decision().why, Why::Vain { .. }) {
            self.timeline.vain += next - self.now;
        }
        self.now = next;
    }

    /// Notes the odds of all paths once a minute.
    fn note_odds(&mut self) {
        if self.now < self.look {
            return;
        }
        self.look = self.now + EVERY_LOOK;
        let chosen = self.selector.chosen();
        for path in (0..self.up.len()).filter(|path| *path != chosen && self.up[*path]) {
            let odds = self.selector.odds(self.now, path);
            let is_better = self.is_better(path, chosen);
            self.timeline.looks.push((odds, is_better));
        }
    }

    /// Whether more is truly free on a path than on another by more than the tolerance.
    fn is_better(&self, path: usize, other: usize) -> bool {
        let free = |path: usize| self.world.free(path, self.now).bps_f64();
        free(path) > (1.0 + self.settings.tolerance) * free(other)
    }

    /// Returns when to look next: when the selector wants, or when a path goes down or comes up.
    fn next(&self) -> Instant {
        let downs =
            self.world.paths.iter().flat_map(|path| path.down.iter().flat_map(|(from, to)| [*from, *to]));
        let due = downs.filter(|at| *at > self.now).min();
        let next = self.selector.next().max(self.now + Duration::from_ms(1));
        due.map_or(next, |due| due.min(next)).min(self.world.end)
    }

    fn tell_outages(&mut self) {
        for path in 0..self.up.len() {
            let is_up = self.world.is_up(path, self.now);
            if is_up != self.up[path] {
                self.up[path] = is_up;
                match is_up {
                    true => self.selector.up(self.now, path),
                    false => self.selector.failed(self.now, path, Trouble::Down, Bytes::ZERO),
                }
            }
        }
    }

    fn choose(&mut self, decision: &Decision) {
        if let (Why::Better { odds, .. }, Some((before, _))) = (&decision.why, &decision.before) {
            let is_better = self.is_better(decision.path, *before);
            self.timeline.claims.push((*odds, is_better));
        }
        self.timeline.choose(self.now, decision.path);
    }

    fn ask(&mut self, paths: &[(usize, Option<Rate>)], rate: Rate, bucket: Option<Bytes>, most: Bytes) {
        let numbers: Vec<usize> = paths.iter().map(|(path, _)| *path).collect();
        let mut window = Window::new(self.world, &numbers, self.now, 2);
        let packet = self.settings.packet;
        let (answers, took) = window.ask(|start| {
            let machine = |(path, capacity): &(usize, Option<Rate>)| {
                let rtt = self.world.rtt(*path);
                let config = QuestionConfig { rate, most, packet, rtt, capacity: *capacity, bucket };
                (*path, Machine::Question(Question::new(config, start)))
            };
            paths.iter().map(machine).collect()
        });
        self.took(&window, took);
        for (path, machine) in answers {
            if let Machine::Question(question) = machine {
                let answer = question.answer().map(Answer::Reply);
                self.tell(path, answer, question.bytes());
            }
        }
    }

    fn measure(&mut self, path: usize, most: Bytes) {
        let mut window = Window::new(self.world, &[path], self.now, 2);
        let fastest = self.world.links.iter().map(|link| link.rate).max().unwrap_or_default();
        let config = Config {
            method: Method::Response,
            packet: self.settings.packet,
            budget: Some(most),
            gentle: false,
            duration: None,
            rtt: self.world.rtt(path),
            top_rate: fastest.scale(LINE),
            train_rate: fastest.scale(LINE),
        };
        let (answers, took) =
            window.ask(|start| vec![(path, Machine::Measurement(Box::new(Measurement::new(config, start))))]);
        self.took(&window, took);
        for (path, machine) in answers {
            if let Machine::Measurement(measurement) = machine {
                let found = measurement.answer();
                let (capacity, bucket) = (found.capacity, found.bucket);
                let answer = found.available.map(|free| Answer::Measured { free, capacity, bucket });
                self.tell(path, answer, found.bytes);
            }
        }
    }

    fn took(&mut self, window: &Window<'_>, took: Duration) {
        self.timeline.others_lost += window.others_lost();
        self.now = window.begin() + took;
    }

    fn tell(&mut self, path: usize, answer: Result<Answer, Failure>, cost: Bytes) {
        self.spend(path, cost);
        let is_up = self.world.is_up(path, self.now);
        match answer {
            Ok(answer) if is_up => {
                self.selector.answer(self.now, path, &answer, Some(self.world.rtt(path)), cost);
            }
            Ok(_) => self.selector.failed(self.now, path, Trouble::Away, cost),
            Err(_) => self.selector.failed(self.now, path, Trouble::Unclear, cost),
        }
    }

    fn spend(&mut self, path: usize, cost: Bytes) {
        self.timeline.spent.push((self.now, path, cost));
    }
}

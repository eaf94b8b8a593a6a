//! Drives the selector: has paths asked, and tells it what came of that.
//!
//! Each path has a thread, because sessions block; the selector is in one, which waits for no hook and no
//! viewer. Own traffic is counted from the counters of the interface while a question is under way, less the
//! probes: what it used a second before or after says nothing of the answer. A transfer that had just ended
//! once made a path of 52 Mb/s look like one of 78.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration as Span, Instant as Clock};

use anyhow::{Context as _, Result};
use headway_net::asking::elapsed;
use headway_net::{ConnectOptions, Sockets};
use headway_select::{
    Action, Answer, Decision, DecisionState, Selector, Settings, Snapshot, Spending, Trouble,
};
use headway_telemetry::interfaces::Changes;
use headway_telemetry::netlink::{Netlink, SockProtocol};
use headway_units::{Bytes, Instant};

use super::asker::{Ask, Asker, Heard, Told, Vain, What};
use super::file::File;
use super::hush::Hush;
use super::link::{Interfaces, Link, Reading};
use super::opener::{Opener, PathSockets};
use super::route::ROUTES;
use super::state::{Known, State, Timed};
use super::subflows::Subflows;

/// Time between two looks at interfaces.
const LOOK: Span = Span::from_secs(1);
/// Decisions that a state has: what a terminal has room for.
const PAST: usize = 10;
/// When the clock of the selector begins: 40 days, so that it has times for what was sent
/// in the last 30 before.
const BEGIN: Instant = Instant::from_ns(40 * 86_400_000_000_000);
/// The longest wait for something to happen: signals and hooks are looked at in between.
const NAP: Span = Span::from_millis(100);

/// The least and the longest time between two changes that are reported, while they follow each other: a
/// router may change thousands of routes.
const CALM: [Span; 2] = [Span::from_millis(20), Span::from_millis(200)];

/// Something that is to be said.
#[derive(Clone, Debug)]
pub(super) enum News {
    /// The choice has changed, or stays for a new reason.
    Decision(Decision),
    /// A path or what was asked of it is in trouble, as a sentence; none when that is over.
    Path(usize, Option<String>),
    /// The same, of which enough was said of late.
    Again,
}

/// A path while it is watched.
struct Watched {
    name: String,
    asker: Asker,
    link: Link,
    /// Whether it was asked something since bytes of its interface were counted, and has not answered.
    is_asked: bool,
    waits: bool,
    /// What had passed its interface when it was asked.
    before: Option<Reading>,
    /// Whether anything came of it.
    is_settled: bool,
    /// What was last reported of its trouble, with the sentence.
    trouble: Option<(Vain, String)>,
    /// Whether that was said, and when the last time was that streams had told nothing.
    is_said: bool,
    hush: Hush,
}

/// The selector, and the paths.
pub(super) struct Driver {
    selector: Selector,
    /// Tells interfaces of this network namespace.
    netlink: Netlink,
    paths: Vec<Watched>,
    /// None without Multipath TCP.
    subflows: Option<Subflows>,
    told: Receiver<Heard>,
    /// Whether interfaces, addresses or routes have changed since that was asked.
    has_changed: bool,
    clock: Clock,
    looked: Option<Clock>,
    reverse: bool,
    /// The last decision that was said.
    said: Option<Decision>,
    news: Vec<News>,
}

impl Driver {
    /// Starts asking by these connections of each path.
    ///
    /// # Errors
    /// When there can be no thread, or the kernel does not tell interfaces.
    pub(super) fn start(
        file: &File,
        settings: Settings,
        opener: &Arc<Opener>,
        connections: Vec<Vec<ConnectOptions>>,
    ) -> Result<Driver> {
        let netlink = Netlink::open(SockProtocol::NetlinkRoute).context("cannot list interfaces")?;
        let (tell, told) = channel();
        watch(tell.clone())?;
        let names = file.path.iter().map(|path| path.name.as_str());
        let selector = Selector::new(settings, names, BEGIN).context("there is no path")?;
        let mut selector = selector;
        for (number, entry) in file.path.iter().enumerate() {
            selector.wish(number, entry.wishes());
        }
        let mut paths = Vec::new();
        for (number, (entry, hosts)) in file.path.iter().zip(connections).enumerate() {
            let sockets = PathSockets::new(opener, number);
            let link = Link::new(entry.namespace.clone(), entry.via(number), sockets.clone(), &hosts);
            let sockets: Arc<dyn Sockets> = Arc::new(sockets);
            let hosts =
                hosts.into_iter().map(|host| ConnectOptions { sockets: Some(Arc::clone(&sockets)), ..host });
            let hosts = hosts.collect();
            let asker = Asker::start(number, hosts, (file.reverse, file.interval), tell.clone())?;
            let name = entry.name.clone();
            let (is_asked, waits, is_settled) = (false, false, false);
            let (before, trouble, is_said, hush) = (None, None, false, Hush::default());
            paths.push(Watched {
                name,
                asker,
                link,
                is_asked,
                waits,
                before,
                is_settled,
                trouble,
                is_said,
                hush,
            });
        }
        Ok(Driver {
            selector,
            netlink,
            paths,
            subflows: file.mptcp.then(Subflows::open).transpose()?,
            told,
            has_changed: false,
            clock: Clock::now(),
            looked: None,
            reverse: file.reverse,
            said: None,
            news: Vec::new(),
        })
    }

    /// Waits for a moment, and does what is due; returns what is to be said.
    pub(super) fn step(&mut self) -> Vec<News> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK) {
            self.look();
        }
        self.ask();
        let now = self.now();
        let wait = (self.selector.next() - now).max(headway_units::Duration::ZERO).to_std().min(NAP);
        // A decision is not to wait.
        let wait = if self.news.is_empty() { wait } else { Span::ZERO };
        match self.told.recv_timeout(wait) {
            Ok(heard) => self.hear(heard),
            Err(RecvTimeoutError::Timeout) => {}
            // Its threads have ended, which they do not while this is there.
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(NAP),
        }
        while let Ok(heard) = self.told.try_recv() {
            self.hear(heard);
        }
        std::mem::take(&mut self.news)
    }

    /// Returns the time by the clock of the selector.
    pub(super) fn now(&self) -> Instant {
        BEGIN + (elapsed(self.clock) - Instant::ZERO)
    }

    /// Returns what was sent to measure each path, as far as it counts.
    pub(super) fn spending(&self) -> impl Iterator<Item = (&str, Spending)> {
        self.paths
            .iter()
            .enumerate()
            .map(|(number, path)| (path.name.as_str(), self.selector.spending(number)))
    }

    /// Takes what was sent to measure each path before; to be called before anything is asked.
    pub(super) fn restore(&mut self, spending: impl Fn(&str) -> Spending) {
        for (number, path) in self.paths.iter().enumerate() {
            self.selector.restore(number, &spending(&path.name));
        }
    }

    /// Returns the number of the chosen path.
    pub(super) const fn chosen(&self) -> usize {
        self.selector.chosen()
    }

    /// Returns why it is chosen.
    pub(super) const fn decision(&self) -> &Decision {
        self.selector.decision()
    }

    /// Returns the state of all paths.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        self.selector.snapshot(self.now())
    }

    /// Returns the share of traffic that each path should get.
    pub(super) fn weights(&self) -> Vec<f64> {
        self.selector.weights(self.now())
    }

    /// Returns which paths one connection should use together; `used` are those that it uses now.
    pub(super) fn together(&self, used: &[bool]) -> Vec<bool> {
        self.selector.together(self.now(), used)
    }

    /// Returns the state as others see it, with the last decisions.
    pub(super) fn state(&mut self) -> State {
        let mut snapshot = self.snapshot();
        let at = snapshot.at;
        snapshot.decision = snapshot.decision.aged(at);
        let last = self.selector.decisions().rev().take(PAST);
        let decisions = last.map(|one| DecisionState::from(one).aged(at)).collect();
        Timed::now("state", Known { snapshot, decisions })
    }

    /// Whether something came of each path, if only that it fails.
    pub(super) fn is_settled(&self) -> bool {
        self.paths.iter().all(|path| path.is_settled)
    }

    /// Takes why paths have no answer, as sentences too, in their order.
    pub(super) fn take_troubles(&mut self) -> Vec<Option<(Vain, String)>> {
        self.paths.iter_mut().map(|path| path.trouble.take()).collect()
    }

    /// Whether interfaces, addresses or routes have changed since this was asked last.
    pub(super) fn has_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Whether this host has a way over a path.
    pub(super) fn is_up(&self, path: usize) -> bool {
        self.paths[path].link.down().is_none()
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Path(told) => self.take(told),
            Heard::Change => {
                self.has_changed = true;
                let interfaces = Interfaces::look(&mut self.netlink);
                for number in 0..self.paths.len() {
                    if self.paths[number].link.look_again(&interfaces) {
                        self.went(number);
                    }
                }
            }
        }
    }

    /// Looks at interfaces, sources and routes, and at what own traffic uses.
    fn look(&mut self) {
        self.looked = Some(Clock::now());
        let interfaces = Interfaces::look(&mut self.netlink);
        self.look_at_subflows(&interfaces);
        let now = self.now();
        for number in 0..self.paths.len() {
            let path = &mut self.paths[number];
            let (has_changed, own) = path.link.look(&interfaces, self.reverse, path.is_asked || path.waits);
            path.is_asked = false;
            self.selector.passed(now, number, self.paths[number].link.passed());
            if let Some(own) = own {
                self.selector.carried(now, number, own);
            }
            if has_changed {
                self.went(number);
            }
        }
    }

    /// Looks at what connections of Multipath TCP get of each path.
    fn look_at_subflows(&mut self, interfaces: &Interfaces) {
        let Some(subflows) = &mut self.subflows else { return };
        let rates = subflows.look();
        let now = self.now();
        for (number, path) in self.paths.iter().enumerate() {
            let here = rates.iter().filter(|(from, _)| interfaces.leads(from, path.link.via()));
            if let Some(rate) = here.map(|(_, rate)| *rate).max() {
                self.selector.backlogged(now, number, rate);
            }
        }
    }

    /// Tells that a path went down or came up.
    fn went(&mut self, number: usize) {
        let now = self.now();
        match self.paths[number].link.down().map(str::to_owned) {
            Some(why) => {
                self.selector.failed(now, number, Trouble::Down, Bytes::ZERO);
                self.in_trouble(number, Vain::Down(why));
            }
            None => {
                self.selector.up(now, number);
                self.is_well(number);
            }
        }
    }

    /// Has the paths asked what the selector wants to know.
    fn ask(&mut self) {
        while let Some(action) = self.selector.poll(self.now()) {
            match action {
                Action::Choose(_) => {}
                Action::Measure { path, most } => self.ask_path(path, Ask::Measure(most)),
                Action::Ping { path } => self.ask_path(path, Ask::Ping),
                Action::Ask { path, rate, capacity, bucket, most } => {
                    self.ask_path(path, Ask::Rate { rate, capacity, bucket, most });
                }
                Action::Together { paths, rate, capacities, most } => {
                    for (path, capacity) in paths.into_iter().zip(capacities) {
                        self.ask_path(path, Ask::Rate { rate, capacity, bucket: None, most });
                    }
                }
            }
        }
        let since = self.selector.decisions().rev().take_while(|one| self.said.as_ref() != Some(*one));
        let mut since: Vec<Decision> = since.cloned().collect();
        since.reverse();
        if let Some(last) = since.last() {
            self.said = Some(last.clone());
        }
        self.news.extend(since.into_iter().map(News::Decision));
    }

    fn ask_path(&mut self, number: usize, ask: Ask) {
        let path = &mut self.paths[number];
        (path.is_asked, path.waits) = (true, true);
        path.before = path.link.reading(&mut self.netlink, self.reverse);
        path.asker.ask(ask);
    }

    /// Tells the selector what came of a path.
    fn take(&mut self, Told { path: number, what }: Told) {
        let now = self.now();
        let is_up = self.paths[number].link.down().is_none();
        match what {
            What::Answer(answer, rtt, cost) => {
                let path = &mut self.paths[number];
                path.waits = false;
                // What own traffic used meanwhile counts as free, and not what it uses now.
                let after = path.link.reading(&mut self.netlink, self.reverse);
                if let (Some(before), Some(after)) = (path.before.take(), after)
                    && !matches!(answer, Answer::Pong)
                    && let Some(own) = after.since(&before, cost)
                {
                    self.selector.own(now, number, own);
                }
                self.selector.answer(now, number, &answer, rtt, cost);
                self.answers(number, !matches!(answer, Answer::Pong));
            }
            What::Rtt(rtt) => {
                self.selector.rtt(now, number, rtt);
                if is_up {
                    self.answers(number, false);
                }
            }
            What::Failed { trouble, attempts, cost, why } => {
                self.paths[number].waits = false;
                self.selector.failed(now, number, trouble, cost);
                for _ in 1..attempts {
                    self.selector.failed(now, number, trouble, Bytes::ZERO);
                }
                if is_up {
                    self.in_trouble(number, why);
                }
            }
        }
    }

    /// Takes that a far end answers. That streams told nothing is over only when others have.
    fn answers(&mut self, number: usize, by_streams: bool) {
        let is_unclear = |(why, _): &(Vain, String)| why.is_unclear();
        if by_streams || !self.paths[number].trouble.as_ref().is_some_and(is_unclear) {
            self.is_well(number);
        }
    }

    fn in_trouble(&mut self, number: usize, why: Vain) {
        let path = &mut self.paths[number];
        path.is_settled = true;
        let sentence = why.sentence();
        let is_new = path.trouble.as_ref().is_none_or(|(_, before)| *before != sentence);
        // A busy host often comes and goes. What was not said is said when it lasts.
        let mut is_due = || !why.is_unclear() || path.hush.says(Clock::now());
        if (is_new || !path.is_said) && is_due() {
            path.is_said = true;
            self.news.push(News::Path(number, Some(format!("{}: {sentence}", path.name))));
        } else if is_new {
            self.news.push(News::Again);
        }
        path.trouble = Some((why, sentence));
    }

    fn is_well(&mut self, number: usize) {
        let path = &mut self.paths[number];
        path.is_settled = path.link.down().is_none() && (path.is_settled || !path.waits);
        if path.trouble.take().is_some() {
            let is_said = std::mem::take(&mut path.is_said);
            self.news.push(if is_said { News::Path(number, None) } else { News::Again });
        }
    }
}

/// Tells changes of interfaces, addresses and routes from now on, by a thread of its own.
fn watch(tell: Sender<Heard>) -> Result<()> {
    let mut changes = Changes::open(ROUTES.protocol).context("cannot watch interfaces")?;
    let work = move || {
        let mut pause = CALM[0];
        let mut waits = Clock::now();
        while changes.wait().is_ok() && tell.send(Heard::Change).is_ok() {
            pause = if waits.elapsed() < pause { (2 * pause).min(CALM[1]) } else { CALM[0] };
            std::thread::sleep(pause);
            waits = Clock::now();
        }
    };
    std::thread::Builder::new().name("changes".to_owned()).spawn(work).context("cannot start a thread")?;
    Ok(())
}

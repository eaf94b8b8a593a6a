//! Chooses until it is to end, or once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Span, Instant as Clock, SystemTime};

use anyhow::{Result, bail};
use headway_select::{Decision, DecisionState, PathState, Settings, Snapshot, Strategy};
use headway_units::Duration;

use super::driver::{Driver, News};
use super::file::File;
use super::hook::{Change, Hook};
use super::keeper::Keeper;
use super::ledger::{Ledger, Now};
use super::mptcp::Endpoints;
use super::route::{Router, Rules};
use super::shares::Shares;
use super::socket::Socket;
use super::state::{Timed, since_1970};
use super::steps::{ALL, ONCE, Parts, Step};
use super::viewers::Viewers;
use super::{Event, Measured, Options};
use crate::life::{Life as _, Living};

/// Why nothing can be done with what has not begun.
const NOT_BEGUN: &str = "the choice has not begun";

/// In a choice that is made once, a path that replaces another is compared with the rest at once.
const AT_ONCE: Duration = Duration::from_ms(20);

/// Time between two states for those who ask for one.
const FRESH: Span = Span::from_secs(1);

/// Measures every path once. None if `interrupted` was set before all were measured.
///
/// # Errors
/// When routes cannot be changed that the file needs, or the system refuses.
pub fn once(file: &File, options: &Options, interrupted: &AtomicBool) -> Result<Option<Measured>> {
    let settings = Settings { interval: AT_ONCE, ..file.settings() };
    let mut parts = Living::begin(Parts::new(file, options, settings, false), &ONCE)?;
    let Some(driver) = &mut parts.0.driver else { bail!(NOT_BEGUN) };
    let mut settled: Option<Clock> = None;
    while settled.is_none_or(|since| since.elapsed() < 2 * AT_ONCE.to_std()) {
        if interrupted.load(Ordering::Relaxed) {
            return Ok(None);
        }
        driver.step();
        if settled.is_none() && driver.is_settled() {
            settled = Some(Clock::now());
        }
    }
    let mut snapshot = driver.snapshot();
    let paths = std::mem::take(&mut snapshot.paths);
    let mut paths: Vec<(PathState, _)> = paths.into_iter().zip(driver.take_troubles()).collect();
    paths.sort_by_key(|(path, trouble)| (trouble.is_some(), order(path, file.settings().strategy)));
    let (paths, troubles) = paths.into_iter().unzip();
    Ok(Some(Measured { snapshot: Snapshot { paths, ..snapshot }, troubles }))
}

/// Returns a number that is the smaller, the better a path is.
fn order(path: &PathState, strategy: Strategy) -> i128 {
    let value = match strategy {
        Strategy::Latency => path.rtt_ns.map(i128::from),
        Strategy::TransferTime => path.transfer_ns.map(|[median, ..]| median.into()),
        Strategy::Available | Strategy::AvailableWithLatencyFloor => {
            path.free_bps.map(|[median, ..]| -i128::from(median))
        }
    };
    value.unwrap_or(i128::MAX)
}

/// Hears what happens.
type Tell<'a> = dyn FnMut(Event<'_>) + 'a;

/// What is done for each decision, and told.
struct Running<'a> {
    file: &'a File,
    driver: &'a mut Driver,
    rules: Option<&'a Rules<'a>>,
    router: Option<&'a Router>,
    endpoints: Option<&'a Endpoints>,
    /// The paths that connections of Multipath TCP use together; none before that was decided.
    together: Vec<bool>,
    /// How connections are spread, if they are.
    shares: Option<Shares>,
    hook: Option<&'a mut Hook>,
    ledger: Option<&'a mut Ledger>,
    status: Option<&'a Socket>,
    viewers: &'a Viewers,
    keeper: &'a mut Keeper,
    tell: &'a mut Tell<'a>,
    /// The path that was acted upon last, and the last warning.
    taken: Option<usize>,
    warned: Option<String>,
}

/// Chooses until `interrupted` is set.
///
/// # Errors
/// When routes, sockets or processes cannot be had.
pub fn run(file: &File, options: &Options, interrupted: &AtomicBool, tell: &mut Tell<'_>) -> Result<()> {
    let parts = Parts::new(file, options, file.settings(), !options.dry_run);
    let mut parts = Living::begin(parts, &ALL)?;
    let ignored = parts.0.ignored.take();
    let mut running = Running::new(file, &mut parts.0, tell)?;
    running.begin(ignored);
    running.work(interrupted);
    let changes = running.end();
    let restores = parts.0.router.is_some();
    parts.0.end(Step::Router);
    tell(Event::Off(changes, restores));
    Ok(())
}

impl<'a> Running<'a> {
    fn new(file: &'a File, parts: &'a mut Parts<'_>, tell: &'a mut Tell<'_>) -> Result<Running<'a>> {
        let Parts { rules, status, ledger, keeper, hook, router, endpoints, driver, viewers, .. } = parts;
        let (Some(driver), Some(viewers), Some(keeper)) = (driver, viewers, keeper) else {
            bail!(NOT_BEGUN);
        };
        let shares = file.balance.then(|| Shares::new(file.settings().tolerance));
        Ok(Running {
            file,
            driver,
            rules: rules.as_ref(),
            router: router.as_ref(),
            endpoints: endpoints.as_ref(),
            together: Vec::new(),
            shares,
            hook: hook.as_mut(),
            ledger: ledger.as_mut(),
            status: status.as_ref(),
            viewers,
            keeper,
            tell,
            taken: None,
            warned: None,
        })
    }

    /// Says that it has begun, and why what was sent before does not count, if so.
    fn begin(&mut self, ignored: Option<String>) {
        (self.tell)(Event::On(self.viewers.address()));
        ignored.into_iter().for_each(|sentence| self.warn(sentence));
    }

    fn work(&mut self, interrupted: &AtomicBool) {
        let interval = self.file.interval.to_std();
        let [mut told, mut fresh] = [Clock::now(); 2];
        while !interrupted.load(Ordering::Relaxed) {
            self.step();
            if fresh.elapsed() >= FRESH {
                fresh = Clock::now();
                self.refresh();
            }
            if told.elapsed() >= interval {
                told = Clock::now();
                self.repeat();
            }
        }
    }

    fn step(&mut self) {
        let news = self.driver.step();
        let is_news = !news.is_empty();
        let mut decisions = Vec::new();
        for news in news {
            match news {
                News::Decision(decision) => {
                    let decision = DecisionState { at_ns: None, ..(&decision).into() };
                    (self.tell)(Event::Decision(&decision));
                    decisions.push(Timed::now("decision", decision));
                }
                News::Again => {}
                News::Path(number, trouble) => {
                    let name = &self.file.path[number].name;
                    let sentence = trouble.unwrap_or_else(|| format!("{name} answers again"));
                    (self.tell)(Event::Path(name, &sentence));
                }
            }
        }
        if is_news {
            self.viewers.publish(&self.driver.state(), &decisions);
        }
        self.act();
        if is_news {
            self.spread();
            self.join();
        }
        if self.driver.has_changed() {
            self.restore();
        }
        if let Some(failed) = self.hook.as_mut().and_then(|hook| hook.look()) {
            self.warn(failed);
        }
        if let Some(socket) = self.status {
            socket.answer(|| self.driver.state());
        }
    }

    /// Has the chosen path used, if it is another one than before.
    fn act(&mut self) {
        let chosen = self.driver.chosen();
        if self.taken == Some(chosen) {
            return;
        }
        let before = self.taken.replace(chosen);
        let change = self.change(before, chosen, &self.driver.decision().clone());
        if let Some(hook) = &mut self.hook {
            hook.tell(change);
        }
        self.route();
    }

    fn change(&self, before: Option<usize>, chosen: usize, decision: &Decision) -> Change {
        let path = &self.file.path[chosen];
        Change {
            old: before.map_or_else(String::new, |before| self.file.path[before].name.clone()),
            new: path.name.clone(),
            number: chosen,
            why: decision.why.name().to_owned(),
            reason: decision.to_string(),
            interface: path.interface.clone().unwrap_or_default(),
            next_hop: path.next_hop.map_or_else(String::new, |hop| hop.to_string()),
        }
    }

    /// Spreads connections as it should be now, if they are to be spread.
    fn spread(&mut self) {
        let weights = self.driver.weights();
        let Some(shares) = self.shares.as_mut() else { return };
        if !shares.follow(&weights) {
            return;
        }
        (self.tell)(Event::Shares(shares.parts()));
        self.route();
    }

    /// Has connections of Multipath TCP use the paths that they should use now, if they are to.
    fn join(&mut self) {
        if !self.file.mptcp {
            return;
        }
        let together = self.driver.together(&self.together);
        if together != self.together {
            self.together = together;
            (self.tell)(Event::Multipath(&self.together));
            self.set_endpoints();
        }
    }

    fn set_endpoints(&mut self) {
        if let Some(endpoints) = self.endpoints.filter(|_| !self.together.is_empty())
            && let Err(refused) = endpoints.take(&self.together)
        {
            self.warn(format!("an endpoint of Multipath TCP cannot be set: {refused:#}"));
        }
    }

    fn route(&mut self) {
        let (Some(router), Some(chosen)) = (self.router, self.taken) else { return };
        let only_chosen: Vec<u8> = (0..self.file.path.len()).map(|path| u8::from(path == chosen)).collect();
        let parts = self.shares.as_ref().map_or(&only_chosen[..], Shares::parts);
        if parts.is_empty() {
            return;
        }
        match router.take(parts) {
            Ok(()) => self.warned = None,
            Err(refused) => {
                let over = match self.shares {
                    Some(_) => "several paths",
                    None => &self.file.path[chosen].name,
                };
                let sentence = format!(
                    "the route over {over} cannot be set, so what was there before holds: {refused:#}"
                );
                self.warn(sentence);
            }
        }
    }

    /// Does once a second what follows from what ages.
    fn refresh(&mut self) {
        self.spread();
        self.join();
        let driver = &mut *self.driver;
        self.viewers.refresh(|| driver.state());
        self.keep(false);
    }

    /// Keeps what was sent, if it is to be kept.
    fn keep(&mut self, is_end: bool) {
        let Some(ledger) = &mut self.ledger else { return };
        let now = Now { here: self.driver.now(), wall: since_1970(SystemTime::now()) };
        let text = ledger.keep(now, is_end, self.driver.spending());
        let done = match text {
            Some(text) => self.keeper.write(&text),
            None => self.keeper.look(),
        };
        if let Err(failed) = done {
            self.warn(format!("{failed:#}"));
        }
    }

    /// Sets again what the kernel removes with an interface.
    fn restore(&mut self) {
        // What is in vain now is reported after an interval.
        let _ = self.rules.map(Rules::keep);
        if self.taken.is_some_and(|chosen| self.driver.is_up(chosen)) {
            self.route();
        }
        self.set_endpoints();
    }

    /// Does once an interval what may have become undone, and tells the state.
    fn repeat(&mut self) {
        if let Some(Err(refused)) = self.rules.map(Rules::keep) {
            self.warn(format!("a rule for a `next-hop` cannot be set: {refused:#}"));
        }
        self.route();
        self.set_endpoints();
        let state = self.driver.state();
        self.viewers.publish(&state, &[]);
        (self.tell)(Event::State(&state));
    }

    /// Says a sentence, unless it was the last one of its kind.
    fn warn(&mut self, sentence: String) {
        if self.warned.as_ref() != Some(&sentence) {
            (self.tell)(Event::Warning(&sentence));
            self.warned = Some(sentence);
        }
    }

    /// Keeps what was sent, and returns how often the choice has changed.
    fn end(mut self) -> u64 {
        self.keep(true);
        self.driver.snapshot().changes
    }
}

//! Chooses until it is to end, or once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Span, Instant as Clock, SystemTime};

use anyhow::{Result, bail};
use headway_net::{ConnectOptions, Token};
use headway_select::{Decision, PathState, Settings, Snapshot, Strategy};
use headway_units::Duration;

use super::driver::{Driver, News};
use super::file::File;
use super::hook::{Change, Hook};
use super::keeper::Keeper;
use super::ledger::{Ledger, Now};
use super::lock::Lock;
use super::opener::Opener;
use super::route::{Router, Rules};
use super::shares::Shares;
use super::socket::{SOCKET, Socket};
use super::state::{event, since_1970};
use super::viewers::{Doors, Viewers};
use super::{Event, Measured, Options};

/// In a choice that is made once, a path that replaces another is compared with the rest at once.
const AT_ONCE: Duration = Duration::from_ms(20);

/// Time between two states for those who ask for one.
const FRESH: Span = Span::from_secs(1);

/// What it takes to ask, which needs rights that are given up before anybody is asked.
struct Asking {
    opener: Arc<Opener>,
    connections: Vec<Vec<ConnectOptions>>,
}

impl Asking {
    fn start(file: &File, token: Option<&Token>) -> Result<Asking> {
        Ok(Asking { opener: Opener::start(&file.path)?, connections: file.connections(token) })
    }

    fn driver(self, file: &File, settings: Settings) -> Result<Driver> {
        Driver::start(file, settings, &self.opener, self.connections)
    }
}

/// Sets the rules that the file needs, as the only process that sets any in this network namespace, if it sets some. What changes nothing
/// else may use those of another process.
fn rules(file: &File, only_asks: bool) -> Result<(Option<Lock>, Option<Rules<'_>>)> {
    let sets_routes = !only_asks && (file.route || file.balance);
    if !file.sets_rules() && !sets_routes {
        return Ok((None, None));
    }
    match Lock::take()? {
        Ok(lock) => {
            let rules = file.sets_rules().then(|| Rules::start(&file.path)).transpose()?;
            Ok((Some(lock), rules))
        }
        Err(holder) if only_asks => Ok((None, Some(Rules::borrow(&file.path, &holder)?))),
        Err(holder) => bail!(
            "{holder} chooses already and sets the routes of this host; end it first, or look at it with `headway select status`"
        ),
    }
}

/// Measures every path once. None if `interrupted` was set before all were measured.
///
/// # Errors
/// When routes cannot be changed that the file needs, or the system refuses.
pub fn once(file: &File, token: Option<&Token>, interrupted: &AtomicBool) -> Result<Option<Measured>> {
    // Before anything is changed; and the other processes, which have what this one has open, before there are threads.
    let (_lock, _rules) = rules(file, true)?;
    let asking = Asking::start(file, token)?;
    headway_privileges::drop_all_but_talk()?;
    let mut driver = asking.driver(file, Settings { interval: AT_ONCE, ..file.settings() })?;
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
    let mut paths: Vec<(PathState, _)> = paths.into_iter().zip(driver.troubles()).collect();
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
    driver: Driver,
    rules: Option<Rules<'a>>,
    router: Option<Router>,
    /// How connections are spread, if they are.
    shares: Option<Shares>,
    hook: Option<Hook>,
    ledger: Option<Ledger>,
    status: Option<Socket>,
    viewers: Viewers,
    /// Ends after all that uses its sockets.
    keeper: Keeper,
    tell: &'a mut Tell<'a>,
    /// The path that was acted upon last, and the last warning.
    taken: Option<usize>,
    warned: Option<String>,
}

/// Chooses until `interrupted` is set.
///
/// # Errors
/// When routes, sockets or processes cannot be had.
pub fn run<'a>(
    file: &'a File,
    options: &Options,
    interrupted: &AtomicBool,
    tell: &'a mut Tell<'a>,
) -> Result<()> {
    // Before anything is changed; and the other processes, which have what this one has open, before there are threads.
    let (_lock, rules) = rules(file, options.dry_run)?;
    let mut running = start(file, options, rules, tell)?;
    let interval = file.interval.to_std();
    let [mut told, mut fresh] = [Clock::now(); 2];
    while !interrupted.load(Ordering::Relaxed) {
        running.step();
        if fresh.elapsed() >= FRESH {
            fresh = Clock::now();
            running.refresh();
        }
        if told.elapsed() >= interval {
            told = Clock::now();
            running.repeat();
        }
    }
    running.end();
    Ok(())
}

/// Takes sockets, starts the other processes, gives up all rights, and then begins to ask.
fn start<'a>(
    file: &'a File,
    options: &Options,
    rules: Option<Rules<'a>>,
    tell: &'a mut Tell<'a>,
) -> Result<Running<'a>> {
    let acts = !options.dry_run;
    let usual = nix::unistd::geteuid().is_root().then(|| SOCKET.as_ref());
    let status = match (options.socket.as_deref(), usual) {
        // One that goes on beside this has it.
        (None, Some(usual)) if options.dry_run => Socket::open(usual, "--socket").ok(),
        (named, usual) => named.or(usual).map(|path| Socket::open(path, "--socket")).transpose()?,
    };
    let doors = Doors::open(options)?;
    let sockets: Vec<PathBuf> =
        status.iter().map(Socket::path).chain(doors.path()).map(Path::to_owned).collect();
    let (mut ledger, ignored) = file.state_file.as_deref().map(Ledger::open).unzip();
    // What goes on beside this may keep the file.
    let keeper = Keeper::start(file.state_file.as_deref().filter(|_| acts), &sockets)?;
    let asking = Asking::start(file, options.token.as_ref())?;
    let interval = file.interval.to_std();
    let hook = (acts && !file.hook.is_empty())
        .then(|| Hook::start(&file.hook, file.hook_timeout.to_std(), interval))
        .transpose()?;
    let router = (acts && (file.route || file.balance))
        .then(|| Router::start(&file.path, file.balance))
        .transpose()?;
    // From now on it reads what far ends send.
    headway_privileges::drop_all_but_talk()?;
    let mut driver = asking.driver(file, file.settings())?;
    if let Some(ledger) = &ledger {
        let now = Now { here: driver.now(), wall: since_1970(SystemTime::now()) };
        driver.restore(|name| ledger.spending(name, now));
    }
    ledger = ledger.filter(|_| acts);
    let viewers = Viewers::start(doors, &driver.state())?;
    let shares = file.balance.then(|| Shares::new(file.settings().tolerance));
    let (taken, warned) = (None, None);
    let mut running = Running {
        file,
        driver,
        rules,
        router,
        shares,
        hook,
        ledger,
        status,
        viewers,
        keeper,
        tell,
        taken,
        warned,
    };
    (running.tell)(Event::On(running.viewers.address()));
    ignored.flatten().into_iter().for_each(|sentence| running.warn(sentence));
    Ok(running)
}

impl Running<'_> {
    fn step(&mut self) {
        let news = self.driver.step();
        let is_news = !news.is_empty();
        let mut decisions = Vec::new();
        for news in news {
            match news {
                News::Decision(decision) => {
                    decisions.push(event("decision", serde_json::to_value(&decision).unwrap_or_default()));
                    (self.tell)(Event::Decision(&decision));
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
        }
        if self.driver.has_changed() {
            self.restore();
        }
        if let Some(failed) = self.hook.as_mut().and_then(Hook::look) {
            self.warn(failed);
        }
        if let Some(socket) = &self.status {
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

    fn route(&mut self) {
        let (Some(router), Some(chosen)) = (&self.router, self.taken) else { return };
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
        let driver = &mut self.driver;
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
        // What is in vain now is told after an interval.
        let _ = self.rules.as_ref().map(Rules::keep);
        if self.taken.is_some_and(|chosen| self.driver.is_up(chosen)) {
            self.route();
        }
    }

    /// Does once an interval what may have become undone, and tells the state.
    fn repeat(&mut self) {
        if let Some(Err(refused)) = self.rules.as_ref().map(Rules::keep) {
            self.warn(format!("a rule for a `next-hop` cannot be set: {refused:#}"));
        }
        self.route();
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

    fn end(mut self) {
        self.keep(true);
        let changes = self.driver.snapshot().changes;
        let restores = self.router.take().is_some();
        (self.tell)(Event::Off(changes, restores));
    }
}

//! Attaches the programs, watches and decides every second, and tells what happens.

use std::io::{ErrorKind, Read as _};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result, bail};
use headway_capture::Live;
use headway_edge::Policy;
use headway_history::{SIZE, Store, Writer};
use headway_kernel::{EdgeCounters, EdgeInstance, EdgeOptions, EdgeSession, Side};

use super::capture::Capture;
use super::page::{Page, Plan};
use super::policy::{PolicyFile, kept, unchanged};
use super::probing::Probing;
use super::shaper::Shaper;
use super::signals::SignalSocket;
use super::splitter::{Change, Splitter};
use super::watch::{Sources, Watch};
use super::{Event, Options, default_route};

/// Hears what happens; an error of it ends the edge.
type Tell<'a> = dyn FnMut(Event<'_>) -> Result<()> + 'a;

/// Runs an edge until that is asked for, and returns what has passed.
///
/// # Errors
/// When interfaces, policy or history cannot be used, the kernel refuses, or `tell` fails.
pub fn run(options: &Options, ends: &Ends, tell: &mut Tell<'_>) -> Result<EdgeCounters> {
    let (file, policy) = options.policy.as_deref().map(PolicyFile::open).transpose()?.unzip();
    let policy = policy.unwrap_or_default();
    let [lan, wan] = [Side::find(&options.lan)?, Side::find(&options.wan)?];
    if lan == wan {
        bail!("`--lan` and `--wan` are the same interface; an edge is between two");
    }
    if let Some(sentence) = default_route::contradiction(&options.lan, &options.wan) {
        tracing::warn!("{sentence}");
    }
    if options.rates.is_none() && !policy.follows_rtt() {
        bail!("without `--rate` the rate is found by RTTs; say it, or leave out `follow-rtt = false`");
    }
    // Before anything else is open that the process for token buckets would have, too.
    let splits = policy.splits() && !options.dry_run;
    let shaper = Shaper::start([&lan, &wan], policy.shape && !options.dry_run || splits)?;
    // After the other process, which removes the rule of routing when this one has ended.
    let splitter = splits.then(Splitter::start).transpose()?;
    let _instance = EdgeInstance::begin(&lan, &wan)?;
    Shaper::remove_left([&lan, &wan])?;
    Splitter::remove_left()?;
    let signal_socket = options.signals.as_deref().map(SignalSocket::open).transpose()?;
    let history = options.history.as_deref().map(|path| Store::open(path, SIZE)).transpose()?;
    let page = Plan::new(options)?;
    let programs = EdgeOptions {
        dry_run: options.dry_run,
        connections: options.connections,
        splits,
        ..EdgeOptions::of(&policy)
    };
    let mut edge = EdgeSession::start([lan, wan], &programs, &policy, policy.capacity(options.rates))?;
    if let Some(splitter) = &splitter {
        shaper.deliver().context("cannot set the rule of routing for connections that are split")?;
        edge = edge.with_relay(&policy, splitter.ports())?;
    }
    let live = Live::open(&options.lan)
        .inspect_err(|refused| tracing::warn!("{refused}; what limits connections is not known"))
        .ok();
    headway_privileges::drop_all_but_maps()?;
    // After the privileges are gone, which is for each thread.
    let capture = live.map(Capture::start).transpose()?;
    let probing = Probing::start(&options.probe)?.map(|probing| (probing, options.probe_budget));
    let sources = Sources { capture, signals: signal_socket, probing };
    let watch = Watch::new([&options.lan, &options.wan], options.dry_run, (&policy, options.rates), sources);
    let page = page.start()?;
    let history = history.map(Writer::start).transpose()?;
    tell(Event::On(&policy, page.address()))?;
    if let Some(reason) = file.as_ref().and_then(PolicyFile::is_out_of_reach) {
        tracing::warn!("{reason}");
    }
    let running = policy.clone();
    let mut session = Session { edge, watch, splitter, shaper, file, running, policy, page, history };
    let result = session.work(ends, tell);
    let counted = session.edge.counters()?;
    drop(session);
    result.map(|()| counted)
}

/// Where somebody says that the edge is to end, or to read its policy again.
#[derive(Debug)]
pub struct Ends {
    end: UnixStream,
    reload: Option<UnixStream>,
}

impl Ends {
    /// A byte that arrives at the first one ends the edge, one at the other has the policy read.
    ///
    /// # Errors
    /// The system's error.
    pub fn new(end: UnixStream, reload: Option<UnixStream>) -> Result<Ends> {
        for stream in reload.iter().chain([&end]) {
            stream.set_nonblocking(true)?;
        }
        Ok(Ends { end, reload })
    }

    fn has_ended(&self) -> Result<bool> {
        has_come(&self.end)
    }

    fn is_to_reload(&self) -> Result<bool> {
        self.reload.as_ref().map_or(Ok(false), has_come)
    }
}

/// Whether there is something to read.
fn has_come(mut from: &UnixStream) -> Result<bool> {
    loop {
        match from.read(&mut [0]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return Ok(result.map(|_| true)?),
        }
    }
}

/// What the edge knows while it runs.
struct Session {
    /// Dropped first, while the programs bring it what belongs to it, and before the other process, to which it has a socket, too.
    splitter: Option<Splitter>,
    edge: EdgeSession,
    watch: Watch,
    shaper: Shaper,
    file: Option<PolicyFile>,
    /// With which the programs began, but for what can change.
    running: Policy,
    /// What holds now.
    policy: Policy,
    page: Page,
    /// Dropped after the page, which reads the same file: the last to close it tidies it up.
    history: Option<Writer>,
}

impl Session {
    /// Works until it is to end.
    fn work(&mut self, ends: &Ends, tell: &mut Tell<'_>) -> Result<()> {
        loop {
            if ends.has_ended()? {
                return Ok(());
            }
            let due = self.edge.work()?;
            self.watch.listen()?;
            let is_other = self.look_at_policy(ends.is_to_reload()?, tell)?;
            if due.look || is_other {
                self.shaper.hold(self.watch.look(&mut self.edge)?, self.policy.overhead);
            }
            if due.second || is_other {
                let mut found = self.watch.found(&self.edge)?;
                found.snapshot.history_lost = self.history.as_ref().map(Writer::lost);
                self.look_at_splitter(&found.counted)?;
                self.page.publish(&found.snapshot);
                if let Some(history) = &self.history {
                    history.push(&found.snapshot);
                }
                tell(Event::Second(Box::new(found)))?;
            }
        }
    }

    /// Has connections pass, or split again, if that is to change.
    fn look_at_splitter(&mut self, counted: &EdgeCounters) -> Result<()> {
        let Some(splitter) = &mut self.splitter else { return Ok(()) };
        match splitter.look(counted) {
            Some(Change::Stop) => self.edge.split_no_more()?,
            Some(Change::Resume) => self.edge.split_by(&self.policy, splitter.ports())?,
            None => {}
        }
        Ok(())
    }

    /// Takes another policy if there is one; returns whether there was.
    fn look_at_policy(&mut self, now: bool, tell: &mut Tell<'_>) -> Result<bool> {
        match self.file.as_mut().and_then(|file| file.look(now)) {
            None => Ok(false),
            Some(Err(mistake)) => {
                tell(Event::Mistake(&mistake))?;
                Ok(false)
            }
            Some(Ok(policy)) => {
                let unchanged = unchanged(&self.running, &policy);
                let policy = kept(&self.running, policy);
                self.edge.set_policy(&policy)?;
                self.watch.set_policy(&policy);
                tell(Event::Policy(&policy, &unchanged))?;
                self.policy = policy;
                Ok(true)
            }
        }
    }
}

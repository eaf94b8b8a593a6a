//! Attaches the programs, watches and decides every second, and reports.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result, bail};
use headway_capture::Live;
use headway_edge::Policy;
use headway_edge::snapshot::DecisionState;
use headway_history::{SIZE, Store, Writer};
use headway_kernel::{EdgeCounters, EdgeInstance, EdgeOptions, EdgeSession, Side};
use headway_program::out::escape_controls;
use headway_program::{out, print_error, print_line};
use headway_units::Rate;
use serde_json::{Map, Value, json};
use signal_hook::consts::SIGHUP;

use super::capture::Capture;
use super::flows::{self, lines};
use super::page::{Page, Plan};
use super::policy::{PolicyFile, kept, unchanged};
use super::second;
use super::shaper::Shaper;
use super::signals::SignalSocket;
use super::splitter::{Change, Splitter};
use super::watch::{Found, Sources, Watch};
use super::{EdgeArgs, default_route, probing};
use crate::lab::signals_but;
use crate::line_writer::LineWriter;
use crate::screen::Screen;
use crate::service::start_log;

/// Most seconds of JSON that wait for a reader, and less where they are long: the newest says all.
const LINES: usize = 4;
/// Most decisions of a second that a person is shown.
const SHOWN: usize = 20;

/// Runs the subcommand until a signal ends it.
///
/// # Errors
/// When interfaces, policy or history cannot be used, or the kernel refuses.
pub(super) fn run(args: &EdgeArgs, json: bool) -> Result<()> {
    start_log("warn")?;
    let mut page = Plan::new(args)?;
    let (file, policy) = args.policy.as_deref().map(PolicyFile::open).transpose()?.unzip();
    let policy = policy.unwrap_or_default();
    let [lan, wan] = [Side::find(&args.lan)?, Side::find(&args.wan)?];
    if lan == wan {
        bail!("`--lan` and `--wan` are the same interface; an edge is between two");
    }
    if let Some(sentence) = default_route::contradiction(&args.lan, &args.wan) {
        tracing::warn!("{sentence}");
    }
    // Registered before anything is changed, so that every signal leads to a cleanup.
    let signals = Signals::new(file.is_some())?;
    // Before anything else is open that the process for token buckets would have, too.
    let splits = policy.splits() && !args.dry_run;
    let shaper = Shaper::start([&lan, &wan], policy.shape && !args.dry_run || splits)?;
    // After the other process, which removes the rule of routing when this one has ended.
    let splitter = splits.then(Splitter::start).transpose()?;
    let _instance = EdgeInstance::begin(&lan, &wan)?;
    Shaper::remove_left([&lan, &wan])?;
    Splitter::remove_left()?;
    let options = EdgeOptions {
        dry_run: args.dry_run,
        connections: args.connections,
        splits,
        ..EdgeOptions::of(&policy)
    };
    let rates = args.rate.map(|rate| [rate, args.up.unwrap_or(rate)]);
    if rates.is_none() && !policy.follows_rtt() {
        bail!("without `--rate` the rate is found by RTTs; say it, or leave out `follow-rtt = false`");
    }
    let probes = probing::Plan::new(args)?;
    let signal_socket = args.signals.as_deref().map(SignalSocket::open).transpose()?;
    let history = args.history.as_deref().map(|path| Store::open(path, SIZE)).transpose()?;
    if let Some(history) = args.history.as_deref() {
        page = page.with_history(history)?;
    }
    let mut edge = EdgeSession::start([lan, wan], &options, &policy, policy.capacity(rates))?;
    if let Some(splitter) = &splitter {
        shaper.deliver().context("cannot set the rule of routing for connections that are split")?;
        edge = edge.with_relay(&policy, splitter.ports())?;
    }
    let live = Live::open(&args.lan)
        .inspect_err(|refused| tracing::warn!("{refused}; what limits connections is not known"))
        .ok();
    headway_privileges::drop_all_but_maps()?;
    // After the privileges are gone, which is for each thread. A reader that does not read must not keep the edge from saying that
    // it lives.
    let lines = json.then(|| LineWriter::with_queue(std::io::stdout(), LINES)).transpose()?;
    let capture = live.map(Capture::start).transpose()?;
    let sources = Sources {
        capture,
        signals: signal_socket,
        probing: probes.start()?.map(|probing| (probing, args.probe_budget)),
    };
    let watch = Watch::new([&args.lan, &args.wan], args.dry_run, (&policy, rates), sources);
    let screen = Screen::new(args.flows && !json);
    let page = page.start()?;
    let history = history.map(Writer::start).transpose()?;
    let output = Output { json: lines.clone(), screen, shows_flows: args.flows, dry_run: args.dry_run };
    let running = policy.clone();
    let mut session = Session { edge, watch, splitter, shaper, file, running, policy, page, history, output };
    session.begin(args, rates);
    let result = session.work(&signals);
    session.output.screen.clear();
    let counted = session.edge.counters()?;
    drop(session);
    result?;
    let Some(mut lines) = lines else {
        let ends = if args.dry_run { "Nothing was changed." } else { "Everything passes as it is again." };
        print_line!("{ends} {}", flows::describe(&counted));
        return out::check();
    };
    write_line(&mut lines, &json!({ "event": "off", "counters": counted }));
    lines.finish();
    if lines.lost() > 0 {
        tracing::warn!(
            "{} lines were not written, because nobody read them or there was no room",
            lines.lost()
        );
    }
    Ok(())
}

/// Writes a line, or loses it where nobody reads; [`LineWriter`] never fails.
fn write_line(lines: &mut LineWriter, value: &Value) {
    let _ = lines.write_all(format!("{value}\n").as_bytes());
}

/// What signals have said since.
struct Signals {
    end: UnixStream,
    reload: Option<UnixStream>,
}

impl Signals {
    /// With a policy to read again, SIGHUP does not end the edge.
    fn new(reloads: bool) -> Result<Signals> {
        let end = signals_but(reloads.then_some(SIGHUP))?;
        end.set_nonblocking(true)?;
        let reload = reloads.then(|| {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(SIGHUP, write)?;
            Ok::<_, std::io::Error>(read)
        });
        Ok(Signals { end, reload: reload.transpose()? })
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

/// What the command knows while it runs.
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
    output: Output,
}

impl Session {
    /// Tells that it is on.
    fn begin(&mut self, args: &EdgeArgs, rates: Option<[Rate; 2]>) {
        match &mut self.output.json {
            Some(lines) => {
                let mut on = on(args, &self.running, rates);
                if let Some(address) = self.page.address() {
                    on["page"] = json!(address);
                }
                write_line(lines, &on);
            }
            None => {
                report_on(args, &self.running, rates);
                if let Some(address) = self.page.address() {
                    print_line!("The page is http://{address}/.");
                }
            }
        }
        if let Some(reason) = self.file.as_ref().and_then(PolicyFile::is_out_of_reach) {
            tracing::warn!("{reason}");
        }
    }

    /// Works until a signal arrives.
    fn work(&mut self, signals: &Signals) -> Result<()> {
        loop {
            if signals.has_ended()? {
                return Ok(());
            }
            let due = self.edge.work()?;
            self.watch.listen()?;
            let is_other = self.look_at_policy(signals.is_to_reload()?)?;
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
                let live = (0..).map(|class| self.edge.live(class));
                let connections = self.watch.classes().iter().cloned().zip(live.map(Value::from)).collect();
                self.output.show(found, self.watch.classes(), connections);
                out::check()?;
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
    fn look_at_policy(&mut self, now: bool) -> Result<bool> {
        match self.file.as_mut().and_then(|file| file.look(now)) {
            None => Ok(false),
            Some(Err(mistake)) => {
                self.output.refused(&mistake);
                Ok(false)
            }
            Some(Ok(policy)) => {
                let unchanged = unchanged(&self.running, &policy);
                let policy = kept(&self.running, policy);
                self.edge.set_policy(&policy)?;
                self.watch.set_policy(&policy);
                self.output.changed(&policy, &unchanged);
                self.policy = policy;
                Ok(true)
            }
        }
    }
}

/// Where the command says what happens.
struct Output {
    json: Option<LineWriter>,
    screen: Screen,
    shows_flows: bool,
    dry_run: bool,
}

impl Output {
    /// Shows what was found in a second.
    fn show(&mut self, found: Found, classes: &[String], connections: Map<String, Value>) {
        if let Some(json) = &self.json {
            let classes = self.shows_flows.then_some(classes);
            // A slow reader loses all of a second or nothing.
            json.write_all_or_none(|| second::lines(found, classes, connections));
        } else if self.shows_flows {
            let flows = (&found.snapshot.flows[..], found.judged.len());
            self.screen.show(&lines(flows, &found.counted, self.screen.size()));
        } else if self.dry_run {
            say_decisions(&found.snapshot.decisions[..found.new_kinds]);
        }
    }

    /// Tells of a policy that holds from now on.
    fn changed(&mut self, policy: &Policy, unchanged: &[String]) {
        if let Some(json) = &mut self.json {
            return write_line(
                json,
                &json!({ "event": "policy", "shares": shares(policy), "unchanged": unchanged }),
            );
        }
        self.screen.clear();
        print_line!("The policy has changed:");
        say_classes(policy);
        unchanged.iter().for_each(|sentence| print_line!("{sentence}"));
    }

    /// Tells of a policy that cannot be used.
    fn refused(&mut self, mistake: &str) {
        if let Some(json) = &mut self.json {
            return write_line(json, &json!({ "event": "policy", "mistake": mistake }));
        }
        self.screen.clear();
        print_error!("The policy stays as it was: {mistake}");
    }
}

/// Says what would be done with flows, one line for each.
fn say_decisions(decisions: &[DecisionState]) {
    for DecisionState { client, server, behaviour, sentence, .. } in decisions.iter().take(SHOWN) {
        print_line!("{}", escape_controls(&format!("{client} to {server}, {behaviour}: it {sentence}")));
    }
    if let more @ 1.. = decisions.len().saturating_sub(SHOWN) {
        print_line!("... and {more} more decisions in this second; --json has them all");
    }
}

fn shares(policy: &Policy) -> Map<String, Value> {
    policy.class.iter().map(|class| (class.name.clone(), class.share.into())).collect()
}

/// The event that it is on.
fn on(args: &EdgeArgs, policy: &Policy, rates: Option<[Rate; 2]>) -> Value {
    let [down, up] = [0, 1].map(|side| rates.map(|rates| rates[side].bps()));
    json!({
        "event": "on",
        "lan": args.lan,
        "wan": args.wan,
        "down_bps": down,
        "up_bps": up,
        "dry_run": args.dry_run,
        "shares": shares(policy),
    })
}

fn report_on(args: &EdgeArgs, policy: &Policy, rates: Option<[Rate; 2]>) {
    let does = if args.dry_run { "deciding what it would do" } else { "holding connections" };
    let link = match rates {
        Some([down, up]) => format!("{down} down, {up} up"),
        None => "the rate is to be found".to_owned(),
    };
    print_line!("{does} between {} and {}: {link}", args.lan, args.wan);
    say_classes(policy);
    match args.dry_run {
        true => print_line!("Nothing is changed: all connections pass as they are. Ctrl-C ends it."),
        false => {
            print_line!(
                "New connections are held; those that were there before pass as they are. Ctrl-C ends it."
            );
        }
    }
}

fn say_classes(policy: &Policy) {
    for class in &policy.class {
        let ceiling = class.ceiling.map_or(String::new(), |ceiling| format!(", {ceiling} at most"));
        let more = if class.priority { ", never limited".to_owned() } else { ceiling };
        print_line!("  {:<12} {:.0} %{more}", class.name, class.share * 100.0);
    }
}

//! Chooses until a signal arrives, or once.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration as Span, Instant as Clock};

use anyhow::{Result, anyhow, bail};
use headway_net::ConnectOptions;
use headway_program::build::stamped;
use headway_program::exit::{Code, Failed};
use headway_program::{out, print_line};
use headway_select::{Decision, Settings};
use headway_units::Duration;
use serde_json::{Map, Value, json};

use super::SelectArgs;
use super::driver::{Driver, News};
use super::file::File;
use super::hook::{Change, Hook};
use super::keeper::Keeper;
use super::ledger::{Ledger, Now};
use super::lock::Lock;
use super::opener::Opener;
use super::route::{Router, Rules};
use super::shares::Shares;
use super::show::{event, table};
use super::socket::Socket;
use super::status::{self, SOCKET};
use super::viewers::{Doors, Viewers};
use crate::connection::stop_on_signals;
use crate::line_writer::LineWriter;
use crate::service::start_log;

/// In a choice that is made once, a path that replaces another is compared with the rest at once.
const AT_ONCE: Duration = Duration::from_ms(20);

/// Time between two states for those who ask for one.
const FRESH: Span = Span::from_secs(1);

/// Runs the command.
///
/// # Errors
/// When the file has a mistake, routes cannot be changed, or no path answers.
pub(super) fn run(args: &SelectArgs, json: bool) -> Result<(), Failed> {
    start_log("warn")?;
    let file = File::read(&args.file).map_err(|mistake| Failed::new(Code::Arguments, mistake))?;
    let interrupted = Arc::new(AtomicBool::new(false));
    stop_on_signals(&interrupted)?;
    // Before anything is changed; and the other processes, which have what this one has open, before there are threads.
    let (_lock, rules) = rules(args, &file)?;
    if args.once {
        let asking = Asking::start(&file)?;
        headway_privileges::drop_all_but_talk().map_err(anyhow::Error::from)?;
        once(&file, asking, &interrupted, json)
    } else {
        Ok(go_on(args, &file, rules, &interrupted, json)?)
    }
}

/// What it takes to ask, which needs rights that are given up before anybody is asked.
struct Asking {
    opener: Arc<Opener>,
    connections: Vec<Vec<ConnectOptions>>,
}

impl Asking {
    fn start(file: &File) -> Result<Asking> {
        Ok(Asking { opener: Opener::start(&file.path)?, connections: file.connections()? })
    }

    fn driver(self, file: &File, settings: Settings) -> Result<Driver> {
        Driver::start(file, settings, &self.opener, self.connections)
    }
}

/// Sets the rules that the file needs, as the only process that sets any in this network namespace, if it sets some. What changes nothing
/// else may use those of another process.
fn rules<'a>(args: &SelectArgs, file: &'a File) -> Result<(Option<Lock>, Option<Rules<'a>>)> {
    let only_asks = args.once || args.dry_run;
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

/// Measures every path, and prints their order.
fn once(file: &File, asking: Asking, interrupted: &AtomicBool, json: bool) -> Result<(), Failed> {
    let mut driver = asking.driver(file, Settings { interval: AT_ONCE, ..file.settings() })?;
    let mut settled: Option<Clock> = None;
    while settled.is_none_or(|since| since.elapsed() < 2 * AT_ONCE.to_std()) {
        if interrupted.load(Ordering::Relaxed) {
            return Err(Failed::new(Code::Interrupted, anyhow!("interrupted; not all paths were measured")));
        }
        driver.step();
        if settled.is_none() && driver.is_settled() {
            settled = Some(Clock::now());
        }
    }
    let snapshot = serde_json::to_value(driver.snapshot())?;
    let mut paths: Vec<(usize, Value)> =
        snapshot["paths"].as_array().cloned().unwrap_or_default().into_iter().enumerate().collect();
    for (number, path) in &mut paths {
        if let Some((_, why)) = driver.trouble(*number) {
            path["error"] = why.as_str().into();
        }
    }
    let key = |path: &Value| {
        let fails = path.get("error").is_some();
        let value = match snapshot["strategy"].as_str() {
            Some("latency") => path["rtt_ns"].as_i64(),
            Some("transfer-time") => path["transfer_ns"][0].as_i64(),
            _ => path["free_bps"][0].as_i64().map(|bps| -bps),
        };
        (fails, value.unwrap_or(i64::MAX))
    };
    paths.sort_by_key(|(_, path)| key(path));
    let first = paths.first().and_then(|(number, path)| Some((path.get("error")?, driver.trouble(*number)?)));
    if let Some((_, (code, why))) = first {
        return Err(Failed::new(*code, anyhow!("no path gave an answer: {why}")));
    }
    print_order(&snapshot, paths.into_iter().map(|(_, path)| path).collect(), json)
}

fn print_order(snapshot: &Value, paths: Vec<Value>, json: bool) -> Result<(), Failed> {
    if json {
        let object = json!({
            "type": "select",
            "strategy": snapshot["strategy"],
            "chosen": snapshot["chosen"],
            "decision": snapshot["decision"],
            "paths": paths,
        });
        out::document(&serde_json::to_string(&stamped(object))?);
    } else {
        print_line!("{}", snapshot["decision"]["sentence"].as_str().unwrap_or_default());
        print_line!("{}", table(&paths).trim_end());
        for path in &paths {
            if let (Some(name), Some(why)) = (path["name"].as_str(), path["error"].as_str()) {
                print_line!("{name}: {why}");
            }
        }
    }
    Ok(out::check()?)
}

/// What is done for each decision, and said.
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
    lines: LineWriter,
    json: bool,
    /// The path that was acted upon last, and the last warning.
    taken: Option<usize>,
    warned: Option<String>,
}

/// Chooses until a signal arrives.
fn go_on(
    args: &SelectArgs,
    file: &File,
    rules: Option<Rules<'_>>,
    interrupted: &AtomicBool,
    json: bool,
) -> Result<()> {
    let mut running = start(args, file, rules, json)?;
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
fn start<'a>(args: &SelectArgs, file: &'a File, rules: Option<Rules<'a>>, json: bool) -> Result<Running<'a>> {
    let acts = !args.dry_run;
    let usual = nix::unistd::geteuid().is_root().then(|| SOCKET.as_ref());
    let status = match (args.socket.as_deref(), usual) {
        // One that goes on beside this has it.
        (None, Some(usual)) if args.dry_run => Socket::open(usual, "--socket").ok(),
        (named, usual) => named.or(usual).map(|path| Socket::open(path, "--socket")).transpose()?,
    };
    let doors = Doors::open(args, file.token_file())?;
    let sockets: Vec<PathBuf> =
        status.iter().map(Socket::path).chain(doors.path()).map(Path::to_owned).collect();
    let (mut ledger, ignored) = file.state_file.as_deref().map(Ledger::open).unzip();
    // What goes on beside this may keep the file.
    let keeper = Keeper::start(file.state_file.as_deref().filter(|_| acts), &sockets)?;
    let asking = Asking::start(file)?;
    let interval = file.interval.to_std();
    let hook = (acts && !file.hook.is_empty())
        .then(|| Hook::start(&file.hook, file.hook_timeout.to_std(), interval))
        .transpose()?;
    let router = (acts && (file.route || file.balance))
        .then(|| Router::start(&file.path, file.balance))
        .transpose()?;
    // From now on it reads what far ends send.
    headway_privileges::drop_all_but_talk()?;
    let lines = LineWriter::start(std::io::stdout())?;
    let mut driver = asking.driver(file, file.settings())?;
    if let Some(ledger) = &ledger {
        let now = Now { here: driver.now(), wall: headway_program::time::now() };
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
        lines,
        json,
        taken,
        warned,
    };
    running.begin(args);
    ignored.flatten().into_iter().for_each(|sentence| running.warn(sentence));
    Ok(running)
}

impl Running<'_> {
    fn begin(&mut self, args: &SelectArgs) {
        let names: Vec<&str> = self.file.path.iter().map(|path| path.name.as_str()).collect();
        let mut on = json!({ "strategy": self.file.settings().strategy.name(), "paths": names, "dry_run": args.dry_run });
        let mut text = format!("Chooses among {}. Ctrl-C ends it.", names.join(", "));
        if let Some(address) = self.viewers.address() {
            on["listen"] = address.to_string().into();
            text += &format!(" Programs see the paths at http://{address}/v1/paths.");
        }
        self.say(event("on", on), &text);
    }

    fn step(&mut self) {
        let news = self.driver.step();
        let is_news = !news.is_empty();
        let mut decisions = Vec::new();
        for news in news {
            match news {
                News::Decision(decision) => {
                    let said = event("decision", serde_json::to_value(&decision).unwrap_or_default());
                    decisions.push(said.clone());
                    self.say(said, &decision.to_string());
                }
                News::Again => {}
                News::Path(number, trouble) => {
                    let name = &self.file.path[number].name;
                    let sentence = trouble.unwrap_or_else(|| format!("{name} answers again"));
                    let said = json!({ "path": name, "sentence": sentence });
                    self.say(event("path", said), &sentence);
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
            status::answer(socket, || self.driver.state());
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
        let named = || self.file.path.iter().map(|path| path.name.as_str()).zip(shares.parts());
        let told: Vec<String> = named().map(|(name, part)| format!("{name} {part} %")).collect();
        let sentence = format!("new connections are spread: {}", told.join(", "));
        let parts: Map<String, Value> =
            named().map(|(name, part)| (name.to_owned(), (*part).into())).collect();
        self.say(event("shares", json!({ "percent": parts, "sentence": sentence })), &sentence);
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
        let now = Now { here: self.driver.now(), wall: headway_program::time::now() };
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
        if self.json {
            self.say(state, "");
        }
    }

    /// Says a sentence, unless it was the last one of its kind.
    fn warn(&mut self, sentence: String) {
        if self.warned.as_ref() != Some(&sentence) {
            self.say(event("warning", json!({ "sentence": sentence })), &sentence);
            self.warned = Some(sentence);
        }
    }

    fn say(&mut self, object: Value, text: &str) {
        let line = if self.json {
            object.to_string()
        } else {
            headway_program::out::escape_controls(text).into_owned()
        };
        let _ = self.lines.write_all(format!("{line}\n").as_bytes());
    }

    fn end(mut self) {
        self.keep(true);
        let changes = self.driver.snapshot().changes;
        let text = if self.router.is_some() { "The default route holds again." } else { "It has ended." };
        drop(self.router.take());
        self.say(event("off", json!({ "counters": { "changes": changes } })), text);
        self.lines.finish();
    }
}

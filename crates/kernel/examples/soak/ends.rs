//! Starts and ends the ends of XCP or RCP again and again at both sides of a router, or TCP Rapid at one, and
//! kills them, while data flows. Is everything as before afterwards, and does no transfer stall?
//!
//! `cargo build --release`, then `sudo target/release/examples/soak ends xcp option 100 20`: the law, the
//! carrier of the header, how often the ends are asked to end, and how often they are killed; or
//! `soak ends rapid 100 20`. What it runs is `headway` in the folder above its own. One transfer lasts all
//! the time, with Reno and a fifth of the link; in every cycle there is another with the controller that has
//! just been loaded. One in four kills hits a program that is just starting.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use headway_lab::{Lab, Life};
use headway_scenario::Scenario;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::left::{Object, Settings, describe, held, objects, traces};
use crate::transfer::{STALL, Transfer};

const PATH: &str = "[forward]\nrate = \"10 Mb/s\"\ndelay = \"5 ms\"\n";
const NODES: [&str; 2] = ["client", "server"];
/// A fifth of the link, in B/s.
const STEADY: u64 = 250_000;
/// Half of the link, in B/s: what the transfers of cycles send at most. Reno, which they become, must not
/// fill the queue of the router, or the next sender of RCP gets a rate of some packets per minute.
const HALF: u64 = 600_000;
/// What must arrive with the ends loaded, and after.
const SOME: u64 = 100_000;
/// How long the kernel may take to free what is no longer used.
const FREED: Duration = Duration::from_secs(10);
/// When a program that is just starting is killed, at the latest.
const START: u64 = 400;

/// What is loaded at the two hosts.
pub(crate) enum Ends<'a> {
    /// XCP or RCP at both, and what carries its header.
    Explicit { law: &'a str, carrier: &'a str },
    /// TCP Rapid at the sender.
    Rapid,
}

impl Ends<'_> {
    fn name(&self) -> String {
        match self {
            Ends::Explicit { law, carrier } => format!("{law} {carrier}"),
            Ends::Rapid => "rapid".to_owned(),
        }
    }

    /// The path between the hosts.
    fn path(&self) -> String {
        match self {
            Ends::Explicit { law, .. } => format!("{PATH}queue = {{ kind = \"{law}\" }}\n"),
            Ends::Rapid => PATH.to_owned(),
        }
    }

    /// The arguments of `headway cc` at each host.
    fn arguments(&self) -> Vec<Vec<&str>> {
        match self {
            Ends::Explicit { law, carrier } => {
                ["--default", "--receive"].map(|role| vec!["cc", law, "--carrier", carrier, role]).to_vec()
            }
            Ends::Rapid => vec![vec!["cc", "rapid", "--line", "10 Mb/s", "--default", "--offloads-off"]],
        }
    }

    /// The counter that says that the ends work.
    fn counter(&self) -> &'static str {
        match self {
            Ends::Explicit { .. } => "received",
            Ends::Rapid => "estimated",
        }
    }
}

struct Soak<'a> {
    program: PathBuf,
    lab: Lab,
    ends: Ends<'a>,
    /// Of the sender and the receiver.
    names: [String; 2],
    settings: [Settings; 2],
    problems: usize,
    /// The longest silence of a transfer of a cycle.
    silence: Duration,
    /// How many of these transfers had the controller, and it worked.
    working: usize,
    random: u64,
}

/// Returns whether everything was right.
pub(crate) fn run(ends: Ends<'_>, cycles: u32, kills: u32) -> bool {
    let Some(mut soak) = Soak::new(ends) else { return false };
    let before = objects();
    let steady = Transfer::start(&soak.lab, "reno", STEADY);
    for number in 1..=cycles {
        soak.cycle(number);
        soak.progress("cycle", number, cycles, &steady);
    }
    for number in 1..=kills {
        soak.kill(number);
        soak.progress("kill", number, kills, &steady);
    }
    let going = steady.goes_on(SOME);
    let silence = steady.end();
    soak.check(going && silence < STALL, || format!("the transfer stalled for {silence:?}"));
    soak.check_objects(&before);
    let traces = traces(&soak.names);
    soak.check(traces.is_empty(), || format!("left behind: {traces:?}"));
    println!(
        "{}: {cycles} cycles, {kills} kills, {} problems; {} transfers whose controller worked; longest silence {silence:?}, of \
         transfers of cycles {:?}",
        soak.ends.name(),
        soak.problems,
        soak.working,
        soak.silence
    );
    soak.problems == 0
}

impl<'a> Soak<'a> {
    /// Brings the lab up; says why if that is not possible.
    fn new(ends: Ends<'a>) -> Option<Soak<'a>> {
        let me = std::env::current_exe().unwrap();
        let program = me.ancestors().nth(2).unwrap().join("headway-lab");
        let network = Scenario::parse_network(&ends.path(), Path::new("soak.toml")).unwrap();
        let id = std::process::id();
        let lab = Lab::up_with(&program, &network, &format!("soak-{id}"), Life::Owned);
        let lab = lab.inspect_err(|error| eprintln!("with {}: {error}", program.display())).ok()?;
        let settings = NODES.map(|node| Settings::of(&lab, node));
        Some(Soak {
            program,
            lab,
            ends,
            names: ["s", "r"].map(|end| format!("soak{id}{end}")),
            settings,
            problems: 0,
            silence: Duration::ZERO,
            working: 0,
            random: u64::from(id),
        })
    }

    fn check(&mut self, right: bool, problem: impl FnOnce() -> String) {
        if !right {
            self.problems += 1;
            println!("PROBLEM: {}", problem());
        }
    }

    fn progress(&self, what: &str, number: u32, of: u32, steady: &Transfer) {
        if number.is_multiple_of(10) || number == of {
            println!("{what} {number} of {of}: longest silence {:?}, {:?}", steady.silence(), self.silence);
        }
    }

    /// The number of ends.
    fn count(&self) -> usize {
        self.ends.arguments().len()
    }

    /// Starts `headway cc` at a node: 0 sends, 1 receives.
    fn start(&self, end: usize) -> On {
        let mut arguments = self.ends.arguments().swap_remove(end);
        arguments.extend(["--name", &self.names[end], "--json"]);
        let mut command = self.lab.command(NODES[end], &self.program, arguments).unwrap();
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        On { child, lines }
    }

    /// The ends, loaded, and a transfer between them.
    fn load(&self) -> (Vec<Option<On>>, Transfer) {
        let mut ends: Vec<On> = (0..self.count()).map(|end| self.start(end)).collect();
        for on in &mut ends {
            let event = on.event();
            assert_eq!(event["event"], "on", "{event}");
        }
        let transfer = Transfer::start(&self.lab, &self.names[0], HALF);
        (ends.into_iter().map(Some).collect(), transfer)
    }

    /// Loads and unloads the ends under a transfer.
    fn cycle(&mut self, number: u32) {
        let (mut ends, transfer) = self.load();
        let began = transfer.goes_on(SOME);
        self.check(began, || format!("cycle {number}: the transfer does not begin"));
        let has_it = transfer.controller() == self.names[0];
        // Both orders.
        for end in [number as usize % 2, 1 - number as usize % 2] {
            let Some(on) = ends.get_mut(end).and_then(Option::take) else { continue };
            let (success, event) = on.end();
            self.check(success && event["event"] == "off", || format!("cycle {number}: {event}"));
            let counter = self.ends.counter();
            let works = event["counters"][counter].as_u64() > Some(0);
            self.check(works, || format!("cycle {number}: end {end} has 0 `{counter}`"));
            self.working += usize::from(end == 0 && works && has_it);
            let goes_on = transfer.goes_on(SOME);
            self.check(goes_on, || format!("cycle {number}: the transfer stalls without end {end}"));
        }
        self.finish(&format!("cycle {number}"), transfer);
        self.check_settings(&format!("cycle {number}"));
    }

    /// Kills one end or both under a transfer, or one that is just starting, and restores what is left.
    fn kill(&mut self, number: u32) {
        let what = format!("kill {number}");
        if number.is_multiple_of(4) {
            let mut on = self.start(number as usize / 4 % self.count());
            thread::sleep(Duration::from_millis(self.draw(START)));
            on.kill();
        } else {
            let (mut ends, transfer) = self.load();
            let began = transfer.goes_on(SOME);
            self.check(began, || format!("{what}: the transfer does not begin"));
            thread::sleep(Duration::from_millis(self.draw(200)));
            // The sender is killed, the receiver, both.
            let first = usize::from(number % 4 == 2 && self.count() == 2);
            for end in [first, 1 - first] {
                let Some(mut on) = ends.get_mut(end).and_then(Option::take) else { continue };
                if end == first || number % 4 == 3 {
                    on.kill();
                } else {
                    let (success, event) = on.end();
                    self.check(success, || format!("{what}: {event}"));
                }
                let goes_on = transfer.goes_on(SOME);
                self.check(goes_on, || format!("{what}: the transfer stalls without end {end}"));
            }
            self.finish(&what, transfer);
        }
        self.restore(number.is_multiple_of(2));
        self.check_settings(&what);
    }

    /// Waits until a transfer has gone on without the ends, and ends it.
    fn finish(&mut self, what: &str, transfer: Transfer) {
        let goes_on = transfer.goes_on(SOME);
        let silence = transfer.end();
        self.silence = self.silence.max(silence);
        self.check(goes_on && silence < STALL, || format!("{what}: the transfer stalled for {silence:?}"));
    }

    /// Restores what killed ends have left, by asking for it or by starting them again.
    fn restore(&mut self, by_stop: bool) {
        for (end, node) in NODES.into_iter().take(self.count()).enumerate() {
            if by_stop {
                let stop = ["cc", "stop", &self.names[end]];
                // It fails if it finds nothing to do.
                self.lab.command(node, &self.program, stop).unwrap().output().unwrap();
            } else {
                let mut on = self.start(end);
                let event = on.event();
                let (success, _) = on.end();
                self.check(success && event["event"] == "on", || format!("after a kill: {event}"));
            }
        }
    }

    fn check_settings(&mut self, what: &str) {
        for (end, node) in NODES.into_iter().enumerate() {
            let now = Settings::of(&self.lab, node);
            let before = &self.settings[end];
            let problem = (now != *before).then(|| format!("{what}: {node} has {now:?}, had {before:?}"));
            self.check(problem.is_none(), || problem.unwrap_or_default());
        }
    }

    /// Waits until no BPF object is there that was not there before and that no living process has.
    fn check_objects(&mut self, before: &BTreeSet<Object>) {
        let deadline = Instant::now() + FREED;
        let left = || {
            let (mut left, held) = (objects(), held());
            left.retain(|object| !before.contains(object) && !held.contains(object));
            left
        };
        let mut left_now = left();
        while !left_now.is_empty() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(100));
            left_now = left();
        }
        let left: Vec<String> = left_now.iter().map(describe).collect();
        self.check(left.is_empty(), || format!("BPF objects stay: {left:?}"));
    }

    /// A random number below `end`.
    fn draw(&mut self, end: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % end
    }
}

/// A running `headway cc`.
struct On {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl On {
    /// Reads the next event that it reports.
    fn event(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or(Value::Null)
    }

    /// Asks it to end; returns whether it did so without an error, and what it reported.
    fn end(mut self) -> (bool, Value) {
        kill(Pid::from_raw(self.child.id() as i32), Signal::SIGINT).unwrap();
        let event = self.event();
        (self.child.wait().unwrap().success(), event)
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

//! Runs with this host's TCP on an emulated path, in real time.

mod controllers;
mod programs;
mod results;
mod translate;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration as Span, Instant as Clock};

use anyhow::{Context as _, bail};
use headway_core::{Duration, Instant};
use headway_lab::{Lab, Life};
use headway_scenario::{EcnMode, Scenario};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use controllers::Controllers;
use programs::Programs;

use super::endpoint::{Look, Plan, PlannedFlow, READY, Role, now};
use super::{Outcome, is_set};
use crate::progress::Progress;
use crate::stage;
pub(crate) use translate::Translated;

/// From when both endpoints are ready to time zero, of which they have to hear.
const LEAD: Duration = Duration::from_ms(100);
/// How often the bar moves and Ctrl-C is looked for.
const TICK: Span = Span::from_millis(100);

/// Runs the scenario with every seed, one after the other; those not begun before an interruption are missing.
pub(crate) fn run(
    scenario: &Scenario,
    seeds: &[u64],
    interrupted: &AtomicBool,
) -> anyhow::Result<Vec<Outcome>> {
    let translated = Translated::new(scenario)?;
    let controllers = Controllers::load(scenario)?;
    let ticks = scenario.duration.to_std().as_millis().div_ceil(TICK.as_millis()) as u64;
    let progress = Progress::new(ticks * seeds.len() as u64);
    let mut outcomes = Vec::new();
    for &seed in seeds {
        if is_set(interrupted) {
            break;
        }
        progress
            .say(format!("{} in the lab, seed {seed}, {} of real time", scenario.name, scenario.duration));
        outcomes.push(one(scenario, &translated, &controllers, seed, &progress, interrupted)?);
    }
    Ok(outcomes)
}

fn one(
    scenario: &Scenario,
    translated: &Translated,
    controllers: &Controllers,
    seed: u64,
    progress: &Progress,
    interrupted: &AtomicBool,
) -> anyhow::Result<Outcome> {
    let clock = Clock::now();
    let spec = translated.spec(seed);
    let lab = Lab::up(&spec, &format!("run-{}-{seed}", std::process::id()), Life::Owned)?;
    if scenario.flow.iter().any(|flow| flow.ack_every == 1) {
        lab.acknowledge_at_once("server")?;
    }
    let mut programs = Programs::new(scenario, translated, controllers, &lab)?;
    let plan = |role| plan(scenario, controllers, &lab, role);
    let mut receiver = Endpoint::start(&lab, "server", &plan(Role::Receive)?)?;
    let mut sender = Endpoint::start(&lab, "client", &plan(Role::Send)?)?;
    let begin = now() + LEAD;
    receiver.begin(begin)?;
    sender.begin(begin)?;
    thread::sleep((begin - now()).to_std());
    lab.set_cross(&translated.cross)?;
    let end = begin + scenario.duration;
    let mut tick = now();
    while now() < end && !is_set(interrupted) {
        let next = programs.settle(now() - begin)?.map_or(end, |next| end.min(begin + next));
        thread::sleep((next - now()).to_std().min(TICK));
        if now() >= tick {
            tick += Duration::from(TICK);
            progress.advance(1);
        }
    }
    programs.end(now() - begin)?;
    if is_set(interrupted) {
        sender.end();
        receiver.end();
    }
    let (sent, received) = (sender.looks()?, receiver.looks()?);
    let last = received.last().map_or(begin, |look| look.at).max(begin + Duration::from_ms(1));
    let truth = lab.truth_between(begin, last)?;
    lab.down()?;
    let run = results::Run {
        scenario,
        translated,
        seed,
        begin,
        last,
        sent: &sent,
        received: &received,
        truth: &truth,
    };
    let (mut results, trouble) = run.results();
    let (ended, files) = programs.finish();
    results.summary.programs = ended;
    Ok(Outcome { results, events: 0, wall: clock.elapsed(), trouble, files })
}

/// What an endpoint has to do: look at every interval's end, at the end of warm-up and at the end.
fn plan(scenario: &Scenario, controllers: &Controllers, lab: &Lab, role: Role) -> anyhow::Result<Plan> {
    let mut looks: Vec<Duration> = (1..=scenario.duration.ns() / scenario.interval.ns())
        .map(|index| scenario.interval * index)
        .chain([scenario.warmup, scenario.duration])
        .collect();
    looks.sort();
    looks.dedup();
    let mut flows = Vec::new();
    for (group, spec) in scenario.flow.iter().enumerate() {
        for index in 0..spec.count {
            flows.push(PlannedFlow {
                controller: controllers.of_flow(group).to_owned(),
                start: spec.starts(index) - Instant::ZERO,
                stop: spec.stop,
                size: spec.size.map(|size| size.get()),
            });
        }
    }
    let ecn = scenario.flow.iter().any(|flow| flow.ecn == EcnMode::Classic);
    Ok(Plan { role, address: lab.v4("server")?, looks, ecn, flows })
}

/// A process in a node.
struct Endpoint {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Endpoint {
    fn start(lab: &Lab, node: &str, plan: &Plan) -> anyhow::Result<Endpoint> {
        let program = std::env::current_exe().context("cannot find this program's own file")?;
        let mut command =
            lab.command(node, program, ["endpoint".to_owned(), serde_json::to_string(plan)?])?;
        stage::end_with_this_process(&mut command);
        stage::punctual(&mut command);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut output = BufReader::new(child.stdout.take().context("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let mut endpoint = Endpoint { child, output };
        if line.trim() != READY {
            bail!("the {node} could not start: {}", endpoint.complaint());
        }
        Ok(endpoint)
    }

    /// Tells it when time zero is, on `CLOCK_REALTIME`.
    fn begin(&mut self, begin: Instant) -> anyhow::Result<()> {
        let mut input = self.child.stdin.take().context("no input")?;
        Ok(input.write_all(format!("{}\n", serde_json::to_string(&begin)?).as_bytes())?)
    }

    /// What it said before it ended.
    fn complaint(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            // Without the text the sentence is still true.
            let _ = errors.read_to_string(&mut text);
        }
        text.trim().trim_start_matches("headway: ").to_owned()
    }

    /// Asks it to report what it has so far.
    fn end(&mut self) {
        // It may have ended already.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
    }

    fn looks(&mut self) -> anyhow::Result<Vec<Look>> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            bail!("an end of the flows failed: {}", self.complaint());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Both fail only when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

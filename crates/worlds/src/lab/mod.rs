//! Runs with this host's TCP over an emulated path, in real time.

mod controllers;
mod programs;
mod results;
mod translate;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdout, Stdio};
use std::thread;
use std::time::{Duration as Span, Instant as Clock};

use crate::error::{Context as _, Error, bail};
use headway_core::{Duration, Instant};
use headway_lab::{Lab, Lateness, Life};
use headway_scenario::{EcnMode, Scenario};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use controllers::Controllers;
use programs::Programs;

use translate::Translated;

use crate::endpoint::{COMMAND, Plan, PlannedFlow, READY, Role, Sample, now};
use crate::options::{Event, Options};
use crate::outcome::Outcome;
use crate::process;
use crate::sim::STEPS;

/// Lead time from both endpoints being ready to time zero; covers telling them.
const START_DELAY: Duration = Duration::from_ms(100);
/// Interval of progress reports and of checks for cancellation.
const TICK: Span = Span::from_millis(100);

/// Fraction of the emulator's packets that may be more than 1 ms late; beyond it, a run says more about the
/// machine than about the method.
const LATE_SHARE: f64 = 0.01;

/// Runs the scenario with every seed, one after the other; seeds not started before a cancellation have no
/// outcome.
pub(crate) fn run(scenario: &Scenario, seeds: &[u64], options: &Options<'_>) -> Result<Vec<Outcome>, Error> {
    let translated = Translated::new(scenario)?;
    let controllers = Controllers::load(scenario)?;
    let mut outcomes = Vec::new();
    for &seed in seeds {
        if options.cancellation.is_cancelled() {
            break;
        }
        let what = format!("{} in the lab, seed {seed}, {} of real time", scenario.name, scenario.duration);
        options.report_event(Event::Started(&what));
        outcomes.push(run_once(scenario, &translated, &controllers, seed, options)?);
    }
    Ok(outcomes)
}

/// Whether the emulator was too late for a run to be meaningful.
pub fn disturbed(lateness: &Lateness) -> bool {
    lateness.very_late_share > LATE_SHARE || lateness.missed > 0
}

fn run_once(
    scenario: &Scenario,
    translated: &Translated,
    controllers: &Controllers,
    seed: u64,
    options: &Options<'_>,
) -> Result<Outcome, Error> {
    let clock = Clock::now();
    let spec = translated.spec(seed);
    let lab = Lab::up(&spec, &format!("run-{}-{seed}", std::process::id()), Life::Owned)?;
    if scenario.flow.iter().any(|flow| flow.ack_every == 1) {
        lab.acknowledge_at_once("server")?;
    }
    let mut programs = Programs::new(scenario, translated, controllers, &lab)?;
    let plan = |role| plan(scenario, controllers, &lab, role);
    let mut receiver = Endpoint::start(&lab, "server", &plan(Role::Receive)?, options)?;
    let mut sender = Endpoint::start(&lab, "client", &plan(Role::Send)?, options)?;
    let begin = now() + START_DELAY;
    receiver.begin(begin)?;
    sender.begin(begin)?;
    thread::sleep((begin - now()).to_std());
    if let Some(path) = translated.changing_path() {
        lab.set_path(&path)?;
    }
    lab.set_cross(&translated.cross)?;
    let end = begin + scenario.duration;
    let mut shown = 0;
    while now() < end && !options.cancellation.is_cancelled() {
        let next = programs.run_due(now() - begin)?.map_or(end, |next| end.min(begin + next));
        thread::sleep((next - now()).to_std().min(TICK));
        let part = (now() - begin).secs_f64() / scenario.duration.secs_f64();
        let steps = (part.clamp(0.0, 1.0) * STEPS as f64) as u64;
        options.report_event(Event::Advanced(steps - shown));
        shown = steps;
    }
    programs.end(now() - begin)?;
    if options.cancellation.is_cancelled() {
        sender.end();
        receiver.end();
    }
    let (sent, received) = (sender.samples()?, receiver.samples()?);
    let last = received.last().map_or(begin, |sample| sample.at).max(begin + Duration::from_ms(1));
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
    let (mut results, invalid_reason) = run.results();
    let (ended, files) = programs.finish();
    results.summary.programs = ended;
    Ok(Outcome { results, events: 0, wall: clock.elapsed(), invalid_reason, files })
}

/// Returns the plan of an endpoint, which samples its counters at the end of every interval, of warm-up and of
/// the run.
fn plan(scenario: &Scenario, controllers: &Controllers, lab: &Lab, role: Role) -> Result<Plan, Error> {
    let mut samples: Vec<Duration> = (1..=scenario.duration.ns() / scenario.interval.ns())
        .map(|index| scenario.interval * index)
        .chain([scenario.warmup, scenario.duration])
        .collect();
    samples.sort();
    samples.dedup();
    let mut flows = Vec::new();
    for (group, spec) in scenario.flow.iter().enumerate() {
        for index in 0..spec.count {
            flows.push(PlannedFlow {
                controller: controllers.of_flow(group).to_owned(),
                start: spec.start_of(index) - Instant::ZERO,
                stop: spec.stop,
                size: spec.size.map(|size| size.get()),
            });
        }
    }
    let ecn = scenario.flow.iter().any(|flow| flow.ecn == EcnMode::Classic);
    Ok(Plan { role, address: lab.v4("server")?, samples, ecn, flows })
}

/// An endpoint process in a node.
struct Endpoint {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Endpoint {
    fn start(lab: &Lab, node: &str, plan: &Plan, options: &Options<'_>) -> Result<Endpoint, Error> {
        let program = options.program()?;
        let mut command = lab.command(node, program, [COMMAND.to_owned(), serde_json::to_string(plan)?])?;
        process::die_with_parent(&mut command);
        process::prioritise(&mut command);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut output = BufReader::new(child.stdout.take().context("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let mut endpoint = Endpoint { child, output };
        if line.trim() != READY {
            bail!("the endpoint on {node} could not start: {}", endpoint.error_output());
        }
        Ok(endpoint)
    }

    /// Tells the endpoint time zero, on `CLOCK_REALTIME`.
    fn begin(&mut self, begin: Instant) -> Result<(), Error> {
        let mut input = self.child.stdin.take().context("no input")?;
        Ok(input.write_all(format!("{}\n", serde_json::to_string(&begin)?).as_bytes())?)
    }

    /// Returns what the endpoint wrote to standard error before it exited.
    fn error_output(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            // If this fails, the error message just has less detail.
            let _ = errors.read_to_string(&mut text);
        }
        text.trim().trim_start_matches("headway: ").to_owned()
    }

    /// Asks the endpoint to report its samples so far.
    fn end(&mut self) {
        // It may have exited already.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
    }

    fn samples(&mut self) -> Result<Vec<Sample>, Error> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            bail!("a flow endpoint failed: {}", self.error_output());
        }
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Both fail only if it has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

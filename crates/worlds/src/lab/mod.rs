//! Runs with this host's TCP over an emulated network, in real time.

mod background;
mod changes;
mod controllers;
mod gaps;
mod graph;
mod middlebox;
mod pair;
mod programs;
mod rapid;
mod results;
mod select;
mod transfer;
mod translate;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration as Span, Instant as Clock};

use crate::error::{Error, bail};
use anyhow::Context as _;
use headway_lab::{Lab, Lateness, Life};
use headway_scenario::{EcnMode, FlowSpec, MiddleboxEnd, Scenario};
use headway_units::{Duration, Instant};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::Serialize;
use serde::de::DeserializeOwned;

use changes::Changes;
use controllers::Controllers;
use programs::Programs;

pub use background::{Background, TcpFlows};
pub use transfer::transfer;
use translate::Translated;

use crate::endpoint::{COMMAND, Demand, Plan, PlannedFlow, READY, Role, Sample, now};
use crate::options::{Event, Options};
use crate::outcome::Outcome;
use crate::process;

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
    if scenario.select.is_empty() {
        Translated::new(scenario)?;
    }
    let controllers = Controllers::load(scenario)?;
    let mut outcomes = Vec::new();
    for &seed in seeds {
        if options.cancellation.is_cancelled() {
            break;
        }
        let what = format!("{} in the lab, seed {seed}, {} of real time", scenario.name, scenario.duration);
        options.report_event(Event::Started(&what));
        let drawn = scenario.drawn(seed);
        if !scenario.select.is_empty() {
            outcomes.push(select::run(&drawn, seed, options)?);
            continue;
        }
        let translated = Translated::new(&drawn)?;
        outcomes.push(run_once(&drawn, &translated, &controllers, seed, options)?);
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
    let network = translated.idle(seed);
    let name = format!("run-{}-{seed}", std::process::id());
    let lab = Lab::up_with(&options.program()?, &network, &name, Life::Owned)?;
    translated.prepare(scenario, &lab)?;
    let _stamps = rapid::prepare_receivers(scenario, translated, &lab)?;
    let mut programs = Programs::new(scenario, translated, controllers, &lab)?;
    let flows = flows(scenario, translated, controllers, &lab)?;
    let mut ends: Vec<&str> = flows.iter().flat_map(|flow| flow.nodes.iter().map(String::as_str)).collect();
    ends.sort();
    ends.dedup();
    let mut attached = controllers.attach(&lab, ends.into_iter())?;
    let fillers = gaps::Fillers::start(scenario, translated, controllers, &lab)?;
    let mut middleboxes = middlebox::start(scenario, translated, &lab, options)?;
    let start = |role| start_all(scenario, translated, &flows, &lab, role, options);
    // Receivers first: senders open their connections before they are ready.
    let (mut receivers, mut senders) = (start(Role::Receive)?, start(Role::Send)?);
    let begin = now() + START_DELAY;
    receivers.iter_mut().chain(&mut senders).try_for_each(|endpoint| endpoint.begin(begin))?;
    thread::sleep((begin - now()).to_std());
    lab.begin(&translated.network)?;
    let end = begin + scenario.duration;
    let mut changes = Changes::new(&translated.steps, scenario, controllers, &lab);
    let mut shown = 0;
    while now() < end && !options.cancellation.is_cancelled() {
        let change = changes.run_due(now() - begin, &mut attached, &mut senders)?;
        let program = programs.run_due(now() - begin)?;
        let next = change.into_iter().chain(program).map(|next| begin + next).fold(end, Instant::min);
        thread::sleep((next - now()).to_std().min(TICK));
        options.report_part(&mut shown, (now() - begin).secs_f64() / scenario.duration.secs_f64());
    }
    programs.end(now() - begin)?;
    if options.cancellation.is_cancelled() {
        senders.iter_mut().chain(&mut receivers).for_each(Endpoint::end);
    }
    let sent = samples(&mut senders, &flows, Role::Send)?;
    let received = samples(&mut receivers, &flows, Role::Receive)?;
    // Without flows nobody samples.
    let last = received.last().map_or(now().min(end), |sample| sample.at).max(begin + Duration::from_ms(1));
    let truths = lab.truths_between(begin, last)?;
    let control = lab.control_between(begin, last)?;
    let passed = middleboxes.iter_mut().map(Endpoint::finish).collect::<Result<Vec<MiddleboxEnd>, _>>()?;
    let filled = fillers.end()?;
    drop(attached);
    lab.down()?;
    let run = results::Run {
        scenario,
        translated,
        seed,
        begin,
        last,
        sent: &sent,
        received: &received,
        truths: &truths,
        control,
        passed: &passed,
    };
    let (mut results, invalid_reason) = run.results();
    let (ended, files) = programs.finish();
    let files = gaps::with_counts(&filled, files)?;
    results.summary.programs = ended;
    Ok(Outcome { results, events: 0, wall: clock.elapsed(), invalid_reason, files })
}

/// Returns all flows with their nodes and addresses.
fn flows(
    scenario: &Scenario,
    translated: &Translated,
    controllers: &Controllers,
    lab: &Lab,
) -> Result<Vec<PlannedFlow>, Error> {
    let mut flows = Vec::new();
    for (group, spec) in scenario.flow.iter().enumerate() {
        let nodes = [&spec.from, &spec.to].map(|name| translated.node(name).to_owned());
        let routes = translated.routes(group);
        let destination = routes.map_or_else(|| lab.v4(&nodes[1]), |routes| Ok(routes.destination))?;
        for index in 0..spec.count {
            flows.push(PlannedFlow {
                controller: controllers.of_flow(group).to_owned(),
                nodes: nodes.clone(),
                source: routes.map(|routes| routes.source),
                destination,
                start: spec.start_of(index) - Instant::ZERO,
                stop: spec.stop,
                size: spec.size.map(|size| size.get()),
                demand: demand(spec),
                marked: gaps::are_paced(spec),
            });
        }
    }
    Ok(flows)
}

/// Returns what the application of a flow has to send.
fn demand(flow: &FlowSpec) -> Demand {
    match (flow.chunk, flow.pause) {
        (Some(chunk), Some(pause)) => Demand::Chunks { chunk, pause },
        _ => Demand::Greedy,
    }
}

/// Starts an endpoint in every node that sends, or receives. They sample their counters at the end of every
/// interval, of warm-up and of the run.
fn start_all(
    scenario: &Scenario,
    translated: &Translated,
    flows: &[PlannedFlow],
    lab: &Lab,
    role: Role,
    options: &Options<'_>,
) -> Result<Vec<Endpoint>, Error> {
    let mut samples: Vec<Duration> = (1..=scenario.duration.ns() / scenario.interval.ns())
        .map(|index| scenario.interval * index)
        .chain([scenario.warmup, scenario.duration])
        .collect();
    samples.sort();
    samples.dedup();
    let ecn = scenario.flow.iter().any(|flow| flow.ecn == EcnMode::Classic);
    let mut nodes: Vec<&String> = flows.iter().map(|flow| flow.node(role)).collect();
    nodes.sort();
    nodes.dedup();
    let program = options.program()?;
    let start = |node: &String| {
        let host = translated.host(node);
        let (node, samples, flows) = (node.clone(), samples.clone(), flows.to_vec());
        Endpoint::start(lab, host, Plan { role, node, samples, ecn, flows }, &program)
    };
    nodes.into_iter().map(start).collect()
}

/// Returns the samples of all endpoints of a role, each flow's from the endpoint that has it.
fn samples(endpoints: &mut [Endpoint], flows: &[PlannedFlow], role: Role) -> Result<Vec<Sample>, Error> {
    let mut all: Vec<Sample> = Vec::new();
    for endpoint in endpoints {
        let samples = endpoint.samples()?;
        if all.is_empty() {
            all = samples;
            continue;
        }
        // After a cancellation the last samples were taken at almost the same time.
        all.truncate(samples.len());
        for (sample, other) in all.iter_mut().zip(samples) {
            sample.at = sample.at.min(other.at);
            let mine = |flow: &&PlannedFlow| *flow.node(role) == endpoint.node;
            for (number, _) in flows.iter().enumerate().filter(|(_, flow)| mine(flow)) {
                sample.flows[number] = other.flows[number];
            }
        }
    }
    Ok(all)
}

/// A helper process in a node: an end of flows, or a middlebox.
#[derive(Debug)]
struct Endpoint {
    node: String,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Endpoint {
    /// Starts the program as an end of flows; `host` is what error messages call its node.
    fn start(lab: &Lab, host: &str, plan: Plan, program: &Path) -> Result<Endpoint, Error> {
        let command = lab.command(&plan.node, program, [COMMAND])?;
        Endpoint::of(command, &format!("the endpoint on {host}"), &plan.node, &plan)
    }

    /// Starts a command as a helper in a node, gives it its plan, and waits until it is ready; `what` is what
    /// error messages call it.
    fn of(mut command: Command, what: &str, node: &str, plan: &impl Serialize) -> Result<Endpoint, Error> {
        process::die_with_parent(&mut command);
        process::prioritise(&mut command);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let mut endpoint = Endpoint { node: node.to_owned(), child, output };
        // A plan with thousands of samples is too long for an argument. An end that failed says why.
        let _ = endpoint.tell(plan);
        let mut line = String::new();
        endpoint.output.read_line(&mut line)?;
        if line.trim() != READY {
            let reason = endpoint.error_output();
            bail!("{what} could not start: {reason}");
        }
        Ok(endpoint)
    }

    /// Tells the endpoint time zero, on `CLOCK_REALTIME`.
    fn begin(&mut self, begin: Instant) -> Result<(), Error> {
        self.tell(&begin)
    }

    /// Sends the endpoint a value as a line of JSON.
    fn tell(&mut self, value: &impl Serialize) -> Result<(), Error> {
        let input = self.child.stdin.as_mut().context("no input")?;
        Ok(input.write_all(format!("{}\n", serde_json::to_string(value)?).as_bytes())?)
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

    /// Asks it to report what it has so far.
    fn end(&mut self) {
        // It may have exited already.
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
    }

    fn samples(&mut self) -> Result<Vec<Sample>, Error> {
        self.report("a flow endpoint")
    }

    /// Ends a middlebox, and returns what has passed.
    fn finish(&mut self) -> Result<MiddleboxEnd, Error> {
        self.end();
        self.report("a middlebox")
    }

    /// Waits for its report.
    fn report<T: DeserializeOwned>(&mut self, what: &str) -> Result<T, Error> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.is_empty() {
            bail!("{what} failed: {}", self.error_output());
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

//! Accuracy on simulated paths of many classes.

mod class;
mod goals;
mod page;
mod path;
mod print;
mod reliability;
mod report;
mod scored;
mod subject;
mod tally;
#[cfg(test)]
mod tests;
mod traffic;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::Context as _;
use clap::Args;
use clap::builder::PossibleValuesParser;
use headway_estimate::measure::Method;
use headway_record::MeasureResult;
use headway_runs::interruption;
use headway_scenario::{Change, Scenario};
use headway_sim::Run;
use headway_units::{Bytes, Instant};

use headway_program::exit::{Code, Failed};
use headway_program::print_line;
use headway_program::progress::Progress;
use headway_worlds::{Cancellation, available_memory, pool};
use report::Report;
use subject::Subject;

#[cfg(feature = "sensitivity")]
pub(super) use scored::Scored;
#[cfg(not(feature = "sensitivity"))]
use scored::Scored;
#[cfg(feature = "sensitivity")]
pub(super) use subject::drawn_path;

/// Measures simulated paths of many classes, drawn from a seed, in virtual time.
///
/// One queue or several, rates from 1 Mb/s to 100 Gb/s, every kind of traffic, shallow buffers, jitter, loss,
/// shapers, receivers with interrupt coalescing. Errors are shares of the available bandwidth, or of a
/// quarter of the narrow link's capacity where less was available.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  headway-bench accuracy simulated --output report/accuracy
  headway-bench accuracy simulated --classes token-bucket,jitter --paths-per-class 10 --seed 7
  headway-bench accuracy simulated --paths my-path.toml --answers 20 --methods response,bass
  headway-bench accuracy simulated --paths-per-class 2 --write-paths paths

The same seed gives the same paths and answers, whatever the number of jobs.")]
pub(super) struct SimulatedArgs {
    /// Methods to compare [default: response, or the method in the file with --paths].
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    methods: Vec<Method>,
    /// Only these classes; default: all.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(classes()), value_name = "NAME,...")]
    classes: Vec<String>,
    /// Paths drawn for each class.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N")]
    paths_per_class: u32,
    /// Consecutive answers on each path.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    answers: u32,
    /// Seed from which paths are drawn.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u32,
    /// Paths to simulate at the same time [default: one per core].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024), value_name = "N")]
    jobs: Option<u16>,
    /// Use this path instead: a scenario with a [[measure]], or a folder of them; may be repeated.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["classes", "paths_per_class", "seed", "write_paths"])]
    paths: Vec<PathBuf>,
    /// Only write the paths as scenarios into this folder.
    #[arg(long, conflicts_with = "set", value_name = "DIR")]
    write_paths: Option<PathBuf>,
    /// Sets a value of every path, such as `measure.0.budget=16 MB`; may be repeated.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<Change>,
    /// Also write every answer, a page and a figure into this folder: accuracy.json, report.html
    /// and reliability.svg.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
}

impl SimulatedArgs {
    /// Whether nothing is measured.
    pub(super) fn only_writes_paths(&self) -> bool {
        self.write_paths.is_some()
    }
}

/// Returns the names of all classes.
fn classes() -> impl Iterator<Item = &'static str> {
    class::CLASSES.iter().map(|class| class.name)
}

/// A path and the method to measure it with.
struct Task<'a> {
    subject: &'a Subject,
    method: Option<Method>,
}

pub(super) fn run(args: &SimulatedArgs, json: bool) -> Result<ExitCode, Failed> {
    if let Some(folder) = &args.write_paths {
        let count = subject::write(args, folder)?;
        print_line!("{count} paths: {}", folder.display());
        return Ok(ExitCode::SUCCESS);
    }
    let subjects = subject::subjects(args)?;
    let interrupted = interruption()?;
    let scored = score(args, &subjects, &interrupted)?;
    let partial = interrupted.is_cancelled();
    let reports = Report::of_each_method(&scored);
    print::print(&reports, args.output.as_deref(), json, partial)?;
    Ok(if partial { Code::Interrupted.into() } else { ExitCode::SUCCESS })
}

/// Returns all answers, ordered by method and path whatever the number of jobs.
fn score(
    args: &SimulatedArgs,
    subjects: &[Subject],
    interrupted: &Cancellation,
) -> anyhow::Result<Vec<Scored>> {
    let methods: Vec<Option<Method>> =
        if args.methods.is_empty() { vec![None] } else { args.methods.iter().copied().map(Some).collect() };
    let tasks: Vec<Task<'_>> = methods
        .into_iter()
        .flat_map(|method| subjects.iter().map(move |subject| Task { subject, method }))
        .collect();
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.map_or_else(cores, usize::from).min(tasks.len()).max(1);
    let memory = Bytes::new(available_memory()?.get() / jobs as u64);
    let answers = args.answers as usize;
    let progress = Progress::new(tasks.len() as u64);
    progress.begin("paths in the simulator", tasks.len() as u64);
    let done = AtomicU64::new(0);
    let work = |task: &Task<'_>| {
        let scored = one(task, answers, memory, interrupted)
            .with_context(|| format!("the path `{}`", task.subject.scenario.name))?;
        progress.reach(done.fetch_add(1, Ordering::Relaxed) + 1, tasks.len() as u64);
        Ok(scored)
    };
    let pool::Done { results, error } = pool::each(&tasks, jobs, interrupted, work);
    error.map_or_else(|| Ok(results.into_iter().flatten().collect()), Err)
}

/// Returns the answers on one path; `None` when interrupted.
fn one(
    task: &Task<'_>,
    answers: usize,
    memory: Bytes,
    interrupted: &Cancellation,
) -> anyhow::Result<Option<Vec<Scored>>> {
    let mut scenario = task.subject.repeated();
    if let Some(method) = task.method {
        scenario.measure.iter_mut().for_each(|measure| measure.method = Some(method.to_string()));
    }
    let mut run = Run::new(&scenario, scenario.seed, memory)?;
    while run.measured() < answers && run.step()? {
        if interrupted.is_cancelled() {
            return Ok(None);
        }
    }
    let results: Vec<MeasureResult> = run.measurements().into_iter().take(answers).collect();
    let unmeasured = task.subject.unmeasured();
    let without =
        unmeasured.map(|scenario| dropped(&scenario, run.now(), memory, interrupted)).transpose()?;
    let lost = without.map(|without| run.others_dropped() as f64 - without as f64);
    let scored = |result: MeasureResult| Scored {
        class: task.subject.class.clone(),
        path: scenario.name.clone(),
        least_buffer_packets: task.subject.least_buffer(),
        lost: lost.map_or(result.others_lost as f64, |lost| lost / results.len() as f64),
        result,
    };
    Ok(Some(results.iter().cloned().map(scored).collect()))
}

/// Returns how many packets are dropped on a path until `end`.
fn dropped(
    scenario: &Scenario,
    end: Instant,
    memory: Bytes,
    interrupted: &Cancellation,
) -> anyhow::Result<u64> {
    let mut run = Run::new(scenario, scenario.seed, memory)?;
    while run.now() < end && !interrupted.is_cancelled() && run.step()? {}
    Ok(run.others_dropped())
}

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

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::Context as _;
use headway_core::measure::Method;
use headway_core::{Bytes, Instant};
use headway_record::MeasureResult;
use headway_scenario::Scenario;
use headway_sim::Run;

use super::AccuracyArgs;
use crate::exit::{Code, Failed};
use crate::out::print_line;
use crate::progress::Progress;
use crate::run;
use headway_worlds::{Cancellation, available_memory, pool};
use report::Report;
use scored::Scored;
use subject::Subject;

/// Returns the names of all classes.
pub(super) fn classes() -> impl Iterator<Item = &'static str> {
    class::CLASSES.iter().map(|class| class.name)
}

/// A path and the method to measure it with.
struct Task<'a> {
    subject: &'a Subject,
    method: Option<Method>,
}

pub(super) fn run(args: &AccuracyArgs) -> Result<ExitCode, Failed> {
    let options = &args.simulated;
    if let Some(folder) = &options.write_paths {
        let count = subject::write(options, folder)?;
        print_line!("{count} paths: {}", folder.display());
        return Ok(ExitCode::SUCCESS);
    }
    let subjects = subject::subjects(options)?;
    let interrupted = run::interruption()?;
    let scored = score(args, &subjects, &interrupted)?;
    let partial = interrupted.is_cancelled();
    let reports = Report::of_each_method(&scored);
    print::print(args, &reports, partial)?;
    Ok(if partial { Code::Interrupted.into() } else { ExitCode::SUCCESS })
}

/// Returns all answers, ordered by method and path whatever the number of jobs.
fn score(
    args: &AccuracyArgs,
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
    let jobs = args.simulated.jobs.map_or_else(cores, usize::from).min(tasks.len()).max(1);
    let memory = Bytes::new(available_memory()?.get() / jobs as u64);
    let answers = args.simulated.answers.unwrap_or(subject::ANSWERS) as usize;
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
        scenario.measure.iter_mut().for_each(|measure| measure.method = method);
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

//! Goes through all constants, and prints what came of them.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context as _, bail};
use headway_program::build::BUILD;
use headway_program::exit::{Code, Failed};
use headway_program::progress::Progress;
use headway_program::table::table;
use headway_program::{out, print_line};
use headway_runs::{interruption, testbed};
use headway_worlds::{Cancellation, pool};
use serde::Serialize;
use serde_json::json;

use super::SensitivityArgs;
use super::compare::{Effect, Outcome, Outcomes};
use super::locate::Chains;
use super::measure::Paths;
use super::rapid::Flows;
use super::study::{Constant, Study, Variant};

/// What a study showed.
#[derive(Debug, Serialize)]
struct Findings {
    name: &'static str,
    columns: [&'static str; 4],
    legend: &'static str,
    paths: Vec<String>,
    /// Without a change, seed by seed and path by path.
    usual: Outcomes,
    rows: Vec<Row>,
}

/// What a constant does.
#[derive(Debug, Serialize)]
struct Row {
    constant: String,
    value: String,
    unit: String,
    half: Effect,
    double: Effect,
}

pub(super) fn run(args: &SensitivityArgs, json: bool) -> Result<ExitCode, Failed> {
    let interrupted = interruption()?;
    let findings = all(args, &interrupted)?;
    let partial = interrupted.is_cancelled();
    let found = json!({ "build": BUILD, "partial": partial, "seeds": args.seeds, "seed": args.seed, "studies": findings });
    let text = serde_json::to_string_pretty(&found).context("cannot write the tables")?;
    if json {
        out::document(&text);
    } else {
        findings.iter().for_each(|findings| print(findings, args.seeds));
        if partial {
            print_line!("Interrupted: constants that are missing were not reached.");
        }
    }
    if let Some(file) = &args.output {
        testbed::write(file, &text)?;
    }
    Ok(if partial { Code::Interrupted.into() } else { ExitCode::SUCCESS })
}

/// Returns what all wanted constants do, as far as there was time.
fn all(args: &SensitivityArgs, interrupted: &Cancellation) -> anyhow::Result<Vec<Findings>> {
    let studies: [Box<dyn Study>; 3] =
        [Box::new(Paths::new(args.seed)?), Box::new(Chains::new()), Box::new(Flows::new()?)];
    let chosen = chosen(&studies, &args.only)?;
    let seeds: Vec<u64> = (0..u64::from(args.seeds)).map(|seed| u64::from(args.seed) + seed).collect();
    let runs = |study: &dyn Study, chosen: usize| {
        let changes = if chosen == 0 { 0 } else { 1 + 2 * chosen };
        (study.paths().len() * seeds.len() * changes) as u64 * study.rounds()
    };
    let watch = Watch {
        progress: Progress::new(1),
        interrupted,
        done: AtomicU64::new(0),
        all: studies.iter().zip(&chosen).map(|(study, chosen)| runs(study.as_ref(), chosen.len())).sum(),
    };
    watch.progress.begin("runs in the simulator", watch.all);
    let mut findings = Vec::new();
    for (study, chosen) in studies.iter().zip(&chosen).filter(|(_, chosen)| !chosen.is_empty()) {
        findings.extend(watch.study(study.as_ref(), chosen, &seeds)?);
    }
    Ok(findings)
}

/// Returns the constants of each study that are wanted, with their places; all if no name is given.
fn chosen(studies: &[Box<dyn Study>], only: &[String]) -> anyhow::Result<Vec<Vec<(usize, Constant)>>> {
    let all: Vec<Vec<Constant>> = studies.iter().map(|study| study.constants()).collect();
    let names = |name: &str, constant: &Constant| name == constant.name || name == constant.group();
    if let Some(unknown) =
        only.iter().find(|name| !all.iter().flatten().any(|constant| names(name, constant)))
    {
        let mut groups: Vec<&str> = all.iter().flatten().map(Constant::group).collect();
        groups.dedup();
        bail!("there is no constant or group `{unknown}`; groups are {}", groups.join(", "));
    }
    let wanted = |constant: &Constant| only.is_empty() || only.iter().any(|name| names(name, constant));
    let chosen =
        |constants: Vec<Constant>| constants.into_iter().enumerate().filter(|(_, one)| wanted(one)).collect();
    Ok(all.into_iter().map(chosen).collect())
}

/// What watches over the runs: progress, and whether Ctrl-C was pressed.
struct Watch<'a> {
    progress: Progress,
    interrupted: &'a Cancellation,
    done: AtomicU64,
    all: u64,
}

impl Watch<'_> {
    fn study(
        &self,
        study: &dyn Study,
        constants: &[(usize, Constant)],
        seeds: &[u64],
    ) -> anyhow::Result<Option<Findings>> {
        let paths = study.paths();
        let Some(usual) = self.outcomes(study, &paths, seeds, None)? else { return Ok(None) };
        let mut rows = Vec::new();
        for (number, constant) in constants {
            let effect = |doubled| {
                let variant = Variant { constant: *number, doubled };
                let changed = self
                    .outcomes(study, &paths, seeds, Some(variant))
                    .with_context(|| format!("with {}", constant.name))?;
                anyhow::Ok(changed.map(|changed| Effect::between(&usual, &changed, &paths)))
            };
            let Some((half, double)) = effect(false)?.zip(effect(true)?) else { break };
            let Constant { name, value, unit } = constant.clone();
            rows.push(Row { constant: name, value, unit, half, double });
        }
        Ok(Some(Findings {
            name: study.name(),
            columns: study.columns(),
            legend: study.legend(),
            paths,
            usual,
            rows,
        }))
    }

    /// Runs all paths with all seeds; `None` when interrupted.
    fn outcomes(
        &self,
        study: &dyn Study,
        paths: &[String],
        seeds: &[u64],
        variant: Option<Variant>,
    ) -> anyhow::Result<Option<Outcomes>> {
        study.choose(variant);
        let rounds = study.rounds();
        let traffic = seeds.iter().flat_map(|seed| (0..rounds).map(move |round| seed * rounds + round));
        let tasks: Vec<(u64, usize)> =
            traffic.flat_map(|seed| (0..paths.len()).map(move |path| (seed, path))).collect();
        let work = |(seed, path): &(u64, usize)| {
            let outcome = study.run(*path, *seed, variant)?;
            self.progress.reach(self.done.fetch_add(1, Ordering::Relaxed) + 1, self.all);
            anyhow::Ok(Some(outcome))
        };
        let jobs = thread::available_parallelism().map_or(1, usize::from);
        let pool::Done { results, error } = pool::each(&tasks, jobs, self.interrupted, work);
        study.choose(None);
        error.map_or(Ok(()), Err)?;
        let is_whole = results.len() == tasks.len();
        Ok(is_whole.then(|| results.chunks(tasks.len() / seeds.len()).map(<[Outcome]>::to_vec).collect()))
    }
}

fn print(findings: &Findings, seeds: u16) {
    let [error, right, cost, time] = findings.columns;
    let outcomes = || findings.usual.iter().flatten();
    let runs = outcomes().count();
    print_line!("{}: {} paths, {seeds} seeds, {runs} runs", findings.name, findings.paths.len());
    let mean = |value: fn(&Outcome) -> f64| outcomes().map(value).sum::<f64>() / runs.max(1) as f64;
    print_line!(
        "Unchanged, in the mean of all runs: {error} {:.1} %, {right} {:.0} %, {cost} {:.2}, {time} {:.2}",
        100.0 * mean(|outcome| outcome.error),
        100.0 * mean(|outcome| outcome.right),
        mean(|outcome| outcome.cost),
        mean(|outcome| outcome.time),
    );
    let points = |what: &str| format!("{what}, points");
    let percent = |what: &str| format!("{what}, %");
    let header = ["constant", "value", "at", "changed runs"].map(str::to_owned).into_iter().chain([
        points(error),
        points(right),
        percent(cost),
        percent(time),
        "worst path".to_owned(),
    ]);
    let rows = findings.rows.iter().flat_map(|row| {
        [(&row.half, "half"), (&row.double, "double")].map(|(effect, at)| {
            let is_first = at == "half";
            let own = if is_first { [row.constant.as_str(), row.value.as_str()] } else { ["", ""] };
            own.into_iter().chain([at]).map(str::to_owned).chain(effect.cells()).collect::<Vec<_>>()
        })
    });
    print_line!("{}", table(header, rows));
    print_line!("{}", findings.legend);
    print_line!(
        "Changes are medians over seeds, with the least and the largest one; errors of the worst path in points.\n"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_declared_constant_has_a_row() {
        let listed: usize = [&Paths::new(1).unwrap() as &dyn Study, &Chains::new()]
            .iter()
            .map(|study| study.constants().len())
            .sum();
        assert_eq!(listed, headway_estimate::sensitivity::constants().len());
    }

    #[test]
    fn constants_are_chosen_by_name_and_by_group() {
        let studies: [Box<dyn Study>; 1] = [Box::new(Chains::new())];
        let count = |name: &str| chosen(&studies, &[name.to_owned()]).map(|chosen| chosen[0].len());
        assert_eq!((count("SURVEY").unwrap(), count("TIGHT.sure").unwrap()), (1, 1));
        let error = count("TIGHT.su").unwrap_err().to_string();
        assert_eq!(error, "there is no constant or group `TIGHT.su`; groups are LOCATE, TIGHT, SURVEY");
    }

    #[test]
    fn a_factor_of_one_changes_nothing() {
        let paths = Paths::new(1).unwrap();
        let run = || paths.run(2, 5, None).unwrap();
        let usual = run();
        for constant in headway_estimate::sensitivity::constants() {
            constant.scale(1);
            assert_eq!(run(), usual, "{}.{}", constant.group, constant.name);
        }
        headway_estimate::sensitivity::restore();
    }
}

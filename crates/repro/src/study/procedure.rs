//! Four flows that share a narrow link with explicit congestion control (xcp-rcp 4).

use headway_figures::{Curve, Figure, Panel};

use crate::closed_loop::Place;
use crate::context::{Context, Error};
use crate::experiment::{Count, Drawn, Experiment, Procedure, Router};
use crate::outcome::{Findings, Measures, Table};
use crate::procedure::{self, Trace};
use crate::statistics::{quantile, sorted};

/// A variant and its runs.
struct Done<'a> {
    name: &'a str,
    /// The first run, for the figure.
    first: Option<Trace>,
    numbers: Vec<Measures>,
}

pub(super) fn run(
    study: &Procedure,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Findings, Error> {
    run_variants(study, study.runs, context, |_, variant, run| {
        Ok(procedure::run(variant, context.seed_of(&experiment.id, run)))
    })
}

/// Runs the study as scenarios in another world, `runs` times.
pub(super) fn run_in(
    place: Place<'_>,
    study: &Procedure,
    runs: Count,
    experiment: &Experiment,
    context: &Context<'_>,
) -> Result<Findings, Error> {
    run_variants(study, runs, context, |name, variant, run| {
        let description = format!("{}/{name}/{}", experiment.id, run + 1);
        procedure::run_in(place, variant, &description, context.seed_of(&experiment.id, run), context)
    })
}

fn run_variants(
    study: &Procedure,
    runs: Count,
    context: &Context<'_>,
    work: impl Fn(&str, &Router, usize) -> Result<Trace, Error> + Sync,
) -> Result<Findings, Error> {
    let runs = context.size.of(runs);
    let parts: Vec<_> =
        study.variants.iter().flat_map(|variant| (0..runs).map(move |run| (variant, run))).collect();
    let traces = context.map(&parts, |_, ((name, variant), run)| {
        let trace = work(name, variant, *run)?;
        // Only the first run of a variant is drawn.
        Ok((trace.numbers(), (*run == 0).then_some(trace)))
    })?;
    let mut traces = traces.into_iter();
    let done: Vec<Done<'_>> = study
        .variants
        .keys()
        .map(|name| {
            let (numbers, mut drawn): (Vec<_>, Vec<_>) = traces.by_ref().take(runs).unzip();
            Done { name, first: drawn.swap_remove(0), numbers }
        })
        .collect();
    Ok(evaluate(study, &done))
}

/// Reports every number of every variant, and every comparison.
fn evaluate(study: &Procedure, done: &[Done<'_>]) -> Findings {
    let mut findings = Findings {
        table: Table::new(["variant", "number", "lowest", "p10", "median", "p90", "highest"]),
        ..Findings::default()
    };
    for variant in done {
        for what in variant.numbers[0].keys() {
            let values = variant.numbers.iter().map(|numbers| numbers[what]);
            report(&mut findings, variant.name, what, values.collect());
        }
    }
    let runs: Vec<Findings> = (0..done[0].numbers.len()).map(|run| together(done, run)).collect();
    for (name, comparison) in &study.paired {
        let values = runs.iter().map(|run| run.value(comparison).unwrap_or(f64::NAN));
        report(&mut findings, "paired", name, values.collect());
    }
    findings.figure = figure(study, done);
    findings
}

/// Returns the numbers of all variants in one run.
fn together(done: &[Done<'_>], run: usize) -> Findings {
    let numbers = |variant: &Done<'_>| -> Measures {
        variant.numbers[run]
            .iter()
            .map(|(what, value)| (format!("{}/{what}", variant.name), *value))
            .collect()
    };
    Findings { measures: done.iter().flat_map(numbers).collect(), ..Findings::default() }
}

/// Reports the median of a number over the runs under its own name, and its extremes.
fn report(findings: &mut Findings, who: &str, what: &str, values: Vec<f64>) {
    let values = sorted(values.into_iter().filter(|value| !value.is_nan()).collect());
    let spread = [0.0, 0.1, 0.5, 0.9, 1.0].map(|part| quantile(&values, part));
    for (suffix, value) in [("", spread[2]), ("/least", spread[0]), ("/most", spread[4])] {
        findings.measures.insert(format!("{who}/{what}{suffix}"), value);
    }
    if !values.is_empty() {
        let mut row = vec![who.to_owned(), what.to_owned()];
        row.extend(spread.map(|value| format!("{value:.4}")));
        findings.table.rows.push(row);
    }
}

fn figure(study: &Procedure, done: &[Done<'_>]) -> Figure {
    let (from, to) = study.window;
    let each = |title: &str, y: &str, curves: &dyn Fn(&Trace) -> Vec<Curve>| -> Vec<Panel> {
        let panel = |variant: &Done<'_>| {
            let panel = Panel::new(&format!("{}: {title}", variant.name), "time, s", y);
            variant.first.iter().flat_map(curves).fold(panel, Panel::with)
        };
        done.iter().map(panel).collect()
    };
    let together = |title: &str, y: &str, points: &dyn Fn(&Trace) -> Vec<(f64, f64)>| -> Vec<Panel> {
        let panel = Panel::new(title, "time, s", y);
        let with_points =
            done.iter().filter_map(|variant| Some((variant.name, points(variant.first.as_ref()?))));
        let curves = with_points.filter(|(_, points)| !points.is_empty());
        vec![curves.fold(panel, |panel, (name, points)| panel.with(Curve::line(name, points)))]
    };
    let panels = study.draw.iter().flat_map(|what| match what {
        Drawn::Rates => each("rates", "Mb/s", &|trace| trace.rate_curves(from, to)),
        Drawn::Queue => each("queue", "kB", &|trace| trace.queue_curves(from, to)),
        Drawn::Queues => together("queue", "kB", &|trace| trace.queue_points(from, to)),
        Drawn::Announced => {
            together("rate that the router announces", "Mb/s", &|trace| trace.announced_points(from, to))
        }
        Drawn::Error => together("error of the capacity", "Mb/s", &|trace| trace.error_points(from, to)),
        Drawn::Fairness => together("fairness (Jain)", "index", &|trace| trace.fairness_points(from, to)),
        Drawn::Delivered => {
            together("delivered by the third flow", "kB", &|trace| trace.delivered_points(from, to))
        }
    });
    Figure::curves(panels)
}

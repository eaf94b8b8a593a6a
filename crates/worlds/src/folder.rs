//! Folders of results.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, bail};
use anyhow::Context as _;
use headway_record::{Results, json_lines, spread};
use headway_scenario::{Change, World};
use serde_json::{Value, json};

use crate::outcome::{Outcome, RunFiles};
use crate::output::Output;
use crate::page;

/// The file that identifies a folder of results.
const MANIFEST: &str = "manifest.json";
/// The key of the manifest that identifies its format.
const FORMAT: &str = "headway-results";

/// The origin of results, for repeating the runs.
#[derive(Clone, Copy, Debug)]
pub struct Manifest<'a> {
    /// Text of the scenario file.
    pub scenario: &'a str,
    /// Overrides of the scenario.
    pub set: &'a [Change],
    /// Time dilation of the runs.
    pub dilation: u32,
    /// The world of the runs.
    pub world: World,
    /// Number of seeds requested.
    pub repeat: u32,
    /// The build of the program, as text.
    pub build: &'a str,
}

/// A folder that can receive results.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    /// Files of earlier results, to be replaced.
    old: Vec<PathBuf>,
}

impl Folder {
    /// Opens a folder that does not exist, is empty or holds earlier results; with `force`, any folder.
    ///
    /// Writes no results yet, so a mistake in the scenario leaves earlier results alone.
    ///
    /// # Errors
    /// When the folder holds other files, or cannot be created.
    pub fn open(path: &Path, force: bool) -> Result<Folder, Error> {
        let failed = || format!("cannot read {}", path.display());
        let empty = !path.exists() || fs::read_dir(path).with_context(failed)?.next().is_none();
        let old = earlier(path);
        if !empty && old.is_none() && !force {
            bail!(
                "{} is not empty and holds no earlier results; choose another folder or use --force",
                path.display()
            );
        }
        // Creating the folder now avoids a failure after a long run.
        fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Folder { path: path.to_owned(), old: old.unwrap_or_default() })
    }

    /// Writes results, replacing earlier ones.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, from: &Manifest<'_>, outcomes: &[Outcome], partial: bool) -> Result<(), Error> {
        let output = Output::make(&self.path)?;
        self.old.iter().for_each(|file| output.remove(file));
        let mut files = Vec::new();
        for run in outcomes {
            let sub =
                if from.repeat > 1 { format!("seed-{}", run.results.summary.seed) } else { String::new() };
            for (name, text) in contents(&run.results, from.build)? {
                let file = Path::new(&sub).join(name);
                output.write(&file, &text)?;
                files.push(file);
            }
            for (name, path) in run.files.iter().flat_map(RunFiles::paths) {
                let file = Path::new(&sub).join(name);
                output.copy(&path, &file).with_context(|| format!("cannot keep {name}"))?;
                files.push(file);
            }
        }
        if from.repeat > 1 {
            let summaries: Vec<_> = outcomes.iter().map(|run| run.results.summary.clone()).collect();
            let text = json!({ "build": from.build, "partial": partial, "runs": summaries, "spread": spread(&summaries) });
            output.write("summary.json", &pretty(&text)?)?;
            files.push("summary.json".into());
        }
        let manifest = manifest(from, outcomes, partial, &files);
        output.write(MANIFEST, &pretty(&manifest)?)
    }
}

/// Returns the files listed in the manifest of a folder; `None` if it is not a folder of results.
fn earlier(path: &Path) -> Option<Vec<PathBuf>> {
    let manifest: Value = serde_json::from_str(&fs::read_to_string(path.join(MANIFEST)).ok()?).ok()?;
    manifest.get(FORMAT)?;
    let files = manifest.get("files")?.as_array()?.iter().filter_map(Value::as_str).map(PathBuf::from);
    // A forged manifest must not name files outside of the folder.
    let inside =
        |file: &PathBuf| file.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    Some(files.filter(inside).collect())
}

fn contents(results: &Results, build: &str) -> Result<Vec<(&'static str, String)>, Error> {
    let mut summary = serde_json::to_value(&results.summary)?;
    summary["build"] = build.into();
    let mut files = vec![
        ("summary.json", pretty(&summary)?),
        ("flows.csv", results.flows_csv()),
        ("links.csv", results.links_csv()),
        ("goodput.csv", results.goodput_csv()),
        ("truth.csv", results.series.truth_csv()),
        ("report.html", page::page(results)?),
    ];
    if !results.series.tcp.is_empty() {
        files.push(("tcp.csv", results.tcp_csv()));
    }
    if let Some(trace) = results.trace_csv() {
        files.push(("trace.csv", trace));
    }
    if !results.completion_times.is_empty() {
        files.push(("completions.csv", results.completions_csv()));
    }
    if !results.control.is_empty() {
        files.push(("control.jsonl", json_lines(&results.control)?));
    }
    if !results.streams.is_empty() {
        files.push(("streams.csv", results.streams_csv()));
    }
    Ok(files)
}

/// Returns all data needed to repeat the run; values that differ between identical runs are under `run`.
fn manifest(from: &Manifest<'_>, outcomes: &[Outcome], partial: bool, files: &[PathBuf]) -> Value {
    let wall: f64 = outcomes.iter().map(|run| run.wall.as_secs_f64()).sum();
    let events: u64 = outcomes.iter().map(|run| run.events).sum();
    let reasons: Vec<_> =
        outcomes.iter().flat_map(|run| run.invalid_reason.iter().cloned().chain(run.failures())).collect();
    json!({
        FORMAT: 1,
        "scenario": from.scenario,
        "set": from.set.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "dilation": from.dilation,
        "world": from.world.to_string(),
        "seeds": outcomes.iter().map(|run| run.results.summary.seed).collect::<Vec<_>>(),
        "partial": partial,
        "valid": outcomes.iter().all(|run| run.results.summary.valid),
        "troubles": reasons,
        "files": files,
        "run": {
            "build": from.build,
            "wall_seconds": wall,
            "events": events,
            "events_per_second": if wall > 0.0 { events as f64 / wall } else { 0.0 },
        },
    })
}

fn pretty(value: &Value) -> Result<String, Error> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}

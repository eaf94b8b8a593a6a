use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::*;
use crate::cancel::Cancellation;

const SCENARIO: &str = r#"
duration = "50 ms"
[[link]]
from = "a"
to = "b"
rate = "10 Mb/s"
delay = "1 ms"
buffer = "20 kB"
loss = 0.01
[[flow]]
from = "a"
to = "b"
controller = "reno"
"#;

const SWEEP: &str = r#"
scenario = "path.toml"
on = "sim"
seeds = "3, 1-2"
columns = ["total.goodput_bps", "links.*.loss"]
[set]
warmup = "10 ms"
link.0.rate = ["5 Mb/s", "2 Mb/s"]
[vary.path]
short = { link.0.delay = "1 ms", "link.0.buffer" = "10 kB" }
long = { link.0.delay = "5 ms", "link.0.buffer" = "30 kB" }
"#;

/// A folder with a scenario.
struct Trial(TempDir);

impl Trial {
    fn new() -> Trial {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("path.toml"), SCENARIO).unwrap();
        Trial(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn sweep(&self, text: &str) -> Result<Sweep, Error> {
        Sweep::parse(text, &self.path("sweep.toml"))
    }

    fn open(&self, name: &str, build: &str) -> Result<Folder, Error> {
        Folder::open(&self.path(name), build.to_owned(), |_| {})
    }

    /// Runs what is missing; returns how many cells that were.
    fn run(&self, sweep: &Sweep, output: &str, options: &Options<'_>) -> usize {
        let folder = self.open(output, "one").unwrap();
        folder.begin(sweep).unwrap();
        let mut results = folder.records(sweep).unwrap();
        let ran = AtomicUsize::new(0);
        let count = |_: usize, _: &CellResult| {
            ran.fetch_add(1, Ordering::Relaxed);
        };
        sweep.run(&folder, &mut results, options, &count).unwrap();
        folder.write(sweep, &results).unwrap();
        ran.into_inner()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }
}

#[test]
fn the_last_dimension_changes_fastest_and_the_seeds_faster_still() {
    let sweep = Trial::new().sweep(SWEEP).unwrap();
    assert_eq!(sweep.dimensions().collect::<Vec<_>>(), ["link.0.rate", "path"]);
    let cells: Vec<String> = sweep.cells().iter().map(|cell| sweep.describe(cell).to_string()).collect();
    assert_eq!(cells.len(), 12);
    assert_eq!(cells[0], "link.0.rate = 5 Mb/s, path = short, seed 3");
    assert_eq!(cells[1], "link.0.rate = 5 Mb/s, path = short, seed 1");
    assert_eq!(cells[3], "link.0.rate = 5 Mb/s, path = long, seed 3");
    assert_eq!(cells[6], "link.0.rate = 2 Mb/s, path = short, seed 3");
    let set = ["warmup=10 ms", "link.0.rate=2 Mb/s", "link.0.delay=5 ms", "link.0.buffer=30 kB"];
    assert_eq!(sweep.cells()[11].set, set);
}

#[test]
fn without_dimensions_and_seeds_there_is_one_cell_with_the_scenarios_seed() {
    let trial = Trial::new();
    std::fs::write(trial.path("path.toml"), format!("seed = 7{SCENARIO}")).unwrap();
    let sweep = trial.sweep("scenario = \"path.toml\"\non = \"sim\"").unwrap();
    assert_eq!(sweep.cells(), [Cell { values: vec![], set: vec![], seed: 7 }]);
}

#[test]
fn values_are_taken_as_the_command_line_takes_them() {
    let text = "scenario = \"path.toml\"\non = \"sim\"\n[set]\nlink.0.loss = [0, 0.5]\nflow.0.count = \"2\"\n\
                \"link.0.queue\" = [{ kind = \"fq-codel\" }]\n";
    let sweep = Trial::new().sweep(text).unwrap();
    let queue = "link.0.queue={ kind = \"fq-codel\" }";
    assert_eq!(sweep.cells()[1].set, ["link.0.loss=0.5", "flow.0.count=2", queue]);
    assert_eq!(sweep.cells()[1].values, ["0.5", &queue["link.0.queue=".len()..]]);
}

#[test]
fn a_mistake_is_shown_with_its_place_before_anything_runs() {
    let begin = "scenario = \"path.toml\"\non = \"sim\"\n";
    for (text, words) in [
        ("on = \"sim\"", "sweep.toml: `scenario`: is missing"),
        ("scenario = \"no.toml\"\non = \"sim\"", "sweep.toml: `scenario`: cannot read"),
        ("scenario = \"path.toml\"\non = \"moon\"", "line 2: `on`: `moon`"),
        ("{begin}seed = 1", "line 3: `seed`: unknown key `seed`"),
        ("{begin}seeds = 5", "line 3: `seeds`: must be a text"),
        ("{begin}seeds = [1, \"x\"]", "line 3: `seeds`: every seed"),
        ("{begin}seeds = [1, 1]", "line 3: `seeds`: has 1 twice"),
        ("{begin}columns = \"x\"", "line 3: `columns`: must be a list"),
        ("{begin}[set]\nlink.0.raet = 1", "line 4: `link.0.raet=1`: unknown field `raet`"),
        ("{begin}[set]\nlink.0.rate = [\"1 Mb/s\",\n\"6 Mbs\"]", "line 5: `link.0.rate=6 Mbs`"),
        ("{begin}[set]\nlink.1.rate = \"6 Mb/s\"", "line 4: `link.1.rate=6 Mb/s`: `link` has 1 elements"),
        ("{begin}[set]\nflow.0.count = []", "line 4: `flow.0.count`: has no values"),
        ("{begin}[set]\nseed = [1, 1]", "line 4: `seed`: has `1` twice"),
        ("{begin}[set.link]\n0 = 5", "line 4: `link.0=5`"),
        ("{begin}[[set.link]]\nrate = 5", "line 3: `link`: must be a value"),
        ("{begin}[vary]\nx = 5", "line 4: `vary.x`: must be a table"),
        ("{begin}[vary.seed]\nx = { warmup = 0 }", "line 3: `vary.seed`: is the name of a column"),
        ("{begin}[vary.x]\na = 5", "line 4: `vary.x.a`: must be a table of keys"),
        ("{begin}[vary.x]\na = { warmup = \"9 s\" }", "line 4, column 7: `warmup=9 s`: must be shorter"),
        ("{begin}[set", "line 3: unclosed table"),
        ("{begin}seeds = \"1-60000\"\n[set]\nwarmup = [0, \"1 ms\"]", "more than 100000 cells"),
        ("scenario = \"path.toml\"\non = \"uml\"\n[set]\nlink.0.duplicate = 0.5", "`link.0.duplicate=0.5`"),
    ] {
        let text = text.replace("{begin}", begin);
        let refused = Trial::new().sweep(&text).map(|sweep| sweep.cells().len()).unwrap_err().chain();
        assert!(refused.contains(words), "{text}\nfound {refused}\nexpected {words}");
    }
}

#[test]
fn neither_jobs_nor_an_earlier_run_change_a_byte() {
    let trial = Trial::new();
    let sweep = trial.sweep(SWEEP).unwrap();
    assert_eq!(trial.run(&sweep, "one", &Options::default()), 12);
    assert_eq!(trial.run(&sweep, "one", &Options::default()), 0, "everything is kept");
    // A smaller sweep was there before, in another order.
    let part = trial.sweep(&SWEEP.replace("3, 1-2", "2-3")).unwrap();
    let two = Options { jobs: 2, ..Options::default() };
    assert_eq!((trial.run(&part, "two", &two), trial.run(&sweep, "two", &two)), (8, 4));
    for file in ["cells.csv", "cells.jsonl", "manifest.json"] {
        assert_eq!(trial.read(&format!("one/{file}")), trial.read(&format!("two/{file}")), "{file}");
    }
    let csv = trial.read("one/cells.csv");
    let header = "world,link.0.rate,path,seed,error,total.goodput_bps,links.a->b.loss,links.b->a.loss";
    assert_eq!((csv.lines().next(), csv.lines().count()), (Some(header), 13));
    let line = trial.read("one/cells.jsonl").lines().next().unwrap().to_owned();
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&line["path"], &line["seed"], &line["error"]), (&"short".into(), &3.into(), &().into()));
    assert!(line["total.goodput_bps"].as_u64().is_some_and(|goodput| goodput > 0), "{line}");
}

#[test]
fn a_cell_that_fails_leaves_the_others_alone_and_is_run_again() {
    let trial = Trial::new();
    let text = "scenario = \"path.toml\"\non = \"sim\"\ncolumns = [\"total.flows\"]\n[set]\nflow.0.count = [1, 200000, 2]\n";
    let sweep = trial.sweep(text).unwrap();
    let options = Options { memory: Some(Bytes::new(100_000_000)), ..Options::default() };
    assert_eq!((trial.run(&sweep, "out", &options), trial.run(&sweep, "out", &options)), (3, 1));
    let csv = trial.read("out/cells.csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!((lines[1], lines[3]), ("sim,1,1,,1", "sim,2,1,,2"));
    assert!(lines[2].starts_with("sim,200000,1,\"this scenario needs about"), "{csv}");
}

#[test]
fn a_cancelled_sweep_has_the_rows_that_ended() {
    let trial = Trial::new();
    let sweep = trial.sweep(SWEEP).unwrap();
    let folder = trial.open("out", "one").unwrap();
    let mut results = folder.records(&sweep).unwrap();
    let cancellation = Cancellation::default();
    let options = Options { cancellation: cancellation.clone(), ..Options::default() };
    let after_two = |number: usize, _: &CellResult| {
        if number == 1 {
            cancellation.cancel();
        }
    };
    sweep.run(&folder, &mut results, &options, &after_two).unwrap();
    assert_eq!(results.iter().flatten().count(), 2);
    folder.write(&sweep, &results).unwrap();
    assert_eq!(trial.read("out/cells.csv").lines().count(), 3);
}

#[test]
fn a_record_is_used_only_for_the_same_build_and_the_same_trace() {
    let trial = Trial::new();
    std::fs::write(trial.path("slow.trace"), "0\n1\n2\n").unwrap();
    let text = "scenario = \"path.toml\"\non = \"sim\"\n[set]\n\"link.0.trace\" = \"slow.trace\"\n";
    let scenario = SCENARIO.replace("rate = \"10 Mb/s\"\n", "trace = \"slow.trace\"\n");
    std::fs::write(trial.path("path.toml"), scenario).unwrap();
    let sweep = trial.sweep(text).unwrap();
    let ran = || trial.run(&sweep, "out", &Options::default());
    assert_eq!((ran(), ran()), (1, 0));
    std::fs::write(trial.path("slow.trace"), "0\n1\n3\n").unwrap();
    assert_eq!((ran(), ran()), (1, 0));
    let other = trial.open("out", "two").unwrap();
    assert!(other.record(&sweep.job(&sweep.cells()[0])).unwrap().is_none());
}

#[test]
fn a_folder_belongs_to_one_sweep_at_a_time() {
    let trial = Trial::new();
    let first = trial.open("out", "one").unwrap();
    let refused = trial.open("out", "one").unwrap_err().chain();
    assert!(refused.contains("another command works in"), "{refused}");
    drop(first);
    // As a command leaves it that is killed at once, or while it writes.
    std::fs::write(trial.path("out/kept/.unfinished-1-x.json"), "{").unwrap();
    drop(trial.open("out", "one").unwrap());
    assert!(!trial.path("out/kept/.unfinished-1-x.json").exists());
    let refused = Folder::open(Path::new(env!("CARGO_MANIFEST_DIR")), String::new(), |_| {});
    assert!(refused.unwrap_err().chain().contains("holds no results of a sweep"));
}

#[test]
fn a_column_that_no_result_has_is_named() {
    let trial = Trial::new();
    let text = "scenario = \"path.toml\"\non = \"sim\"\ncolumns = [\"total\", \"total.godput_bps\"]\n";
    let sweep = trial.sweep(text).unwrap();
    let folder = trial.open("out", "one").unwrap();
    let mut results = folder.records(&sweep).unwrap();
    sweep.run(&folder, &mut results, &Options::default(), &|_, _| {}).unwrap();
    let said = folder.write(&sweep, &results).unwrap();
    assert_eq!(said, ["no result has the column `total.godput_bps`; did you mean `total.goodput_bps`?"]);
}

#[test]
fn whatever_a_file_says_is_read_or_refused() {
    // Pieces of a file, and what is special in TOML, in a random order (a linear congruential generator).
    let pieces: Vec<&str> =
        SWEEP.split_inclusive([' ', '\n', '=', '[', ']', '{', '}', '"', '.', ',']).collect();
    let others =
        ["\"\"\"", "'", "\\u00e9", "ä", "-", "0-9", "[[", "1e400", "nan", "1979-05-27", "\r\n", "\0", "#"];
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut read = 0;
    for _ in 0..20_000 {
        let mut text = pieces.clone();
        for _ in 0..=next(4) {
            let at = next(text.len());
            match next(3) {
                0 => drop(text.remove(at)),
                1 => text.insert(at, pieces[next(pieces.len())]),
                _ => text[at] = others[next(others.len())],
            }
        }
        read += usize::from(file::read(&text.concat(), Path::new("x.toml")).is_ok());
    }
    assert!((1_000..19_000).contains(&read), "{read} of 20000 were read");
}

//! `headway sweep` as users run it: real processes, the simulator only.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::PROGRAM;

const SCENARIO: &str = r#"
duration = "50 ms"
[[link]]
from = "a"
to = "b"
rate = "10 Mb/s"
buffer = "20 kB"
[[flow]]
from = "a"
to = "b"
controller = "reno"
"#;

/// Returns a folder with a scenario and a sweep of it.
fn folder(sweep: &str) -> TempDir {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("path.toml"), SCENARIO).unwrap();
    let text = format!("scenario = \"path.toml\"\non = \"sim\"\n{sweep}");
    std::fs::write(folder.path().join("grid.toml"), text).unwrap();
    folder
}

fn command(folder: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    // As `headway` starts it.
    command
        .arg0("headway")
        .args(["sweep", "grid.toml"])
        .args(args)
        .current_dir(folder.path())
        .stdin(Stdio::null());
    command
}

fn sweep(folder: &TempDir, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn objects(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_dry_run_lists_the_cells_and_leaves_no_folder() {
    let folder = folder("seeds = [4, 5]\n[set]\nlink.0.delay = [\"1 ms\", \"2 ms\"]\n");
    let printed = sweep(&folder, &["--dry-run"]);
    let lines = text(&printed.stdout);
    assert!(printed.status.success() && lines.contains("     4  link.0.delay = 2 ms, seed 5\n"), "{lines}");
    assert!(lines.ends_with("4 cells of path.toml on sim\n"), "{lines}");
    assert!(!folder.path().join("results").exists());
    let cells = objects(&sweep(&folder, &["--dry-run", "--json"]));
    assert_eq!(cells[3]["values"]["link.0.delay"], "2 ms");
    assert_eq!((cells.len(), &cells[3]["cell"], &cells[3]["seed"]), (4, &4.into(), &5.into()));
}

#[test]
fn every_cell_is_a_line_in_order_and_a_row() {
    let folder = folder("seeds = \"1-3\"\n[set]\nlink.0.delay = [\"1 ms\", \"2 ms\"]\n");
    let first = sweep(&folder, &["--json", "--jobs", "2"]);
    let lines = objects(&first);
    assert!(first.status.success() && lines.len() == 7, "{}", text(&first.stderr));
    let order: Vec<_> = lines[..6].iter().map(|line| line["cell"].as_u64().unwrap()).collect();
    assert_eq!(order, [1, 2, 3, 4, 5, 6]);
    assert_eq!(lines[5]["summary"]["seed"], 3);
    assert_eq!(
        (&lines[6]["type"], &lines[6]["kept"], &lines[6]["failed"]),
        (&"sweep".into(), &0.into(), &0.into())
    );
    let rows = std::fs::read_to_string(folder.path().join("results/grid/cells.csv")).unwrap();
    assert_eq!(rows.lines().count(), 7);
    let second = objects(&sweep(&folder, &["--json"]));
    assert_eq!((&second[..6], &second[6]["kept"]), (&lines[..6], &6.into()));
}

#[test]
fn a_failed_cell_is_a_row_and_an_exit_code() {
    let folder = folder("[set]\nflow.0.count = [1, 200000]\n");
    let output = sweep(&folder, &["--memory", "100MB", "--output", "out"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("headway: flow.0.count = 200000, seed 1: this scenario needs"));
    assert_eq!(text(&output.stdout).lines().next(), Some("2 of 2 cells have ended, 1 failed."));
}

#[test]
fn an_interruption_writes_what_has_ended() {
    let folder = folder("seeds = \"1-100\"\n[set]\nduration = [\"50 ms\", \"20 s\"]\nlink.0.loss = 0.001\n");
    let mut child = command(&folder, &["--jobs", "1", "--json", "--output", "out"]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let total: Value = serde_json::from_str(&lines.last().unwrap().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let ended = total["ended"].as_u64().unwrap();
    assert!(first.contains("\"cell\":1,") && (1..200).contains(&ended), "{total}");
    let rows = std::fs::read_to_string(folder.path().join("out/cells.csv")).unwrap();
    assert_eq!(rows.lines().count() as u64, 1 + ended);
}

#[test]
fn mistakes_are_sentences() {
    let of_grid = folder("[set]\nlink.0.rate = [\"1 Mb/s\", \"fast\"]\n");
    let output = sweep(&of_grid, &[]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors.starts_with("headway: grid.toml, line 4: `link.0.rate=fast`: `fast` is not a rate"),
        "{errors}"
    );
    let whole = folder("");
    std::fs::write(whole.path().join("notes.txt"), "mine").unwrap();
    let errors = text(&sweep(&whole, &["--output", "."]).stderr);
    assert!(errors.contains("is not empty and holds no results of a sweep"), "{errors}");
}

#[test]
fn the_sweeps_of_the_repository_are_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/sweeps");
    let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        let output = Command::new(PROGRAM).arg("sweep").arg(&file).arg("--dry-run").output().unwrap();
        assert!(output.status.success(), "{}: {}", file.display(), text(&output.stderr));
    }
}

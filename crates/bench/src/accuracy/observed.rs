//! A TCP flow on an emulated path that `headway passive` observes.

use std::io::Read as _;
use std::process::{Child, Stdio};

use anyhow::{Context as _, bail};
use headway_lab::{Direction, Truth};
use headway_units::{Duration, Instant};
use headway_worlds::{disturbed, transfer};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use headway_runs::testbed::Testbed;

/// The congestion controller of the observed flow, which every Linux kernel has.
const CONTROLLER: &str = "cubic";

/// What `headway passive` said about a flow, and what was free.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Observed {
    /// Over the whole capture: median of the windows, and medians of the ends of their intervals.
    pub(super) free_bps: Option<u64>,
    pub(super) free_low_bps: Option<u64>,
    pub(super) free_high_bps: Option<u64>,
    /// Mean over the capture of the capacity less the cross traffic that the emulator sent over the link.
    pub(super) truth_bps: u64,
    /// Rate of the narrow link that was found.
    pub(super) capacity_bps: Option<u64>,
    /// Rate of the flow on the wire.
    pub(super) throughput_bps: u64,
    pub(super) sent_bytes: u64,
    /// The rows of the live table that have an estimate.
    pub(super) seconds: Vec<Second>,
    /// Whether the machine kept the emulator from delivering on time.
    pub(super) disturbed: bool,
}

/// A row of the live table, and what was free in its second.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Second {
    pub(super) free_bps: u64,
    pub(super) free_low_bps: u64,
    pub(super) free_high_bps: u64,
    pub(super) truth_bps: u64,
}

impl Second {
    /// Whether the interval contains the truth.
    pub(super) fn covered(&self) -> bool {
        (self.free_low_bps..=self.free_high_bps).contains(&self.truth_bps)
    }
}

/// A line of `headway passive --json`.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Line {
    Interval { at_unix_ns: u64, paths: Vec<Path> },
    Passive { started_unix_ns: u64, finished_unix_ns: u64, sent_bytes: u64, paths: Vec<Path> },
}

#[derive(Debug, Deserialize)]
struct Path {
    direction: String,
    rate_bps: u64,
    capacity_bps: Option<u64>,
    free_bps: Option<u64>,
    free_low_bps: Option<u64>,
    free_high_bps: Option<u64>,
}

/// Observes a flow from client to server for `length`, and scores what `headway passive` says.
pub(super) fn observe(testbed: &Testbed, length: Duration) -> anyhow::Result<Observed> {
    let mut command = testbed.client_command(["passive", "--interface", "eth0", "--json"])?;
    let mut capture = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let sent = transfer(testbed.lab(), ["client", "server"], CONTROLLER, length);
    let text = end(&mut capture)?;
    sent?;
    score_capture(testbed, &text)
}

fn score_capture(testbed: &Testbed, text: &str) -> anyhow::Result<Observed> {
    let lines: Vec<Line> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let Some(Line::Passive { started_unix_ns, finished_unix_ns, sent_bytes, paths }) = lines.last() else {
        bail!("`headway passive` failed: {}", text.lines().last().unwrap_or("no output"));
    };
    let Some(path) = towards(paths) else { bail!("`headway passive` did not see the flow") };
    let (from, to) = (Instant::from_ns(*started_unix_ns), Instant::from_ns(*finished_unix_ns));
    let truth = testbed.truth(from, to)?;
    Ok(Observed {
        free_bps: path.free_bps,
        free_low_bps: path.free_low_bps,
        free_high_bps: path.free_high_bps,
        truth_bps: free(&truth, from, to)?,
        capacity_bps: path.capacity_bps,
        throughput_bps: path.rate_bps,
        sent_bytes: *sent_bytes,
        seconds: seconds(&lines, from, &truth)?,
        disturbed: disturbed(&truth.lateness_between(Direction::Forward, from, to)),
    })
}

/// Ends a capture as Ctrl-C does; returns what it printed.
fn end(capture: &mut Child) -> anyhow::Result<String> {
    // It may have failed already, which its output says.
    let _ = kill(Pid::from_raw(capture.id() as i32), Signal::SIGINT);
    let mut text = String::new();
    if let Some(out) = &mut capture.stdout {
        out.read_to_string(&mut text)?;
    }
    capture.wait()?;
    Ok(text)
}

/// Returns the path to the server.
fn towards(paths: &[Path]) -> Option<&Path> {
    paths.iter().find(|path| path.direction == "to")
}

/// Returns the mean of what was free, in bit/s.
fn free(truth: &Truth, from: Instant, to: Instant) -> anyhow::Result<u64> {
    let free = truth.free_between(Direction::Forward, from, to);
    Ok(free.context("the emulator's log does not cover the capture")?.bps())
}

/// Returns the rows of the live table that have an estimate; the first interval begins at `from`.
fn seconds(lines: &[Line], mut from: Instant, truth: &Truth) -> anyhow::Result<Vec<Second>> {
    let mut seconds = Vec::new();
    for line in lines {
        let Line::Interval { at_unix_ns, paths } = line else { continue };
        let to = Instant::from_ns(*at_unix_ns);
        let begin = std::mem::replace(&mut from, to);
        let Some(Path { free_bps: Some(rate), free_low_bps: Some(low), free_high_bps: Some(high), .. }) =
            towards(paths)
        else {
            continue;
        };
        seconds.push(Second {
            free_bps: *rate,
            free_low_bps: *low,
            free_high_bps: *high,
            truth_bps: free(truth, begin, to)?,
        });
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

    use super::*;

    #[test]
    fn the_lines_of_headway_passive_are_understood() {
        let path = r#"{"direction":"to","peer":"10.77.0.0/24","rate_bps":5,"capacity_bps":null,"free_bps":4,"free_low_bps":3,"free_high_bps":9}"#;
        let interval = format!(r#"{{"type":"interval","at_unix_ns":7,"dropped":0,"paths":[{path}]}}"#);
        let Line::Interval { at_unix_ns: 7, paths } = serde_json::from_str(&interval).unwrap() else {
            panic!("{interval}");
        };
        let path = towards(&paths).unwrap();
        assert_eq!((path.free_bps, path.capacity_bps, path.rate_bps), (Some(4), None, 5));
        let result =
            r#"{"type":"passive","started_unix_ns":1,"finished_unix_ns":9,"sent_bytes":0,"paths":[]}"#;
        assert!(matches!(serde_json::from_str(result), Ok(Line::Passive { sent_bytes: 0, .. })));
        let nothing = r#"{"type":"error","reason":"there is no interface eth0"}"#;
        assert!(serde_json::from_str::<Line>(nothing).is_err());
    }

    #[test]
    fn an_interval_holds_its_ends() {
        let second = Second { free_bps: 5, free_low_bps: 4, free_high_bps: 6, truth_bps: 6 };
        assert!(second.covered() && !Second { truth_bps: 7, ..second }.covered());
    }
}

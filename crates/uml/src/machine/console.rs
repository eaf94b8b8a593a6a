//! The console of a guest: what it printed last, and what its kernel found.

use std::collections::VecDeque;
use std::io::{BufRead, Read};
use std::sync::Mutex;
use std::time::Instant as Clock;

use headway_units::Duration;

use crate::guest::PROGRESS;

/// Number of console lines kept.
const TAIL_LINES: usize = 12;
/// Longest console line kept, in characters.
const LINE: usize = 300;
/// How a report of the kernel's own checks begins.
const FINDINGS: [&str; 3] = ["BUG: ", "WARNING: ", "UBSAN: "];
/// Lines kept from the beginning of a report on.
const FINDING_LINES: usize = 40;
/// Parts of lines to ignore: printed at every start, or in a trace, which would push out
/// the message before it.
const NOISE: [&str; 6] = [
    "Failed to initialize ubd device",
    "a channel type",
    "channel pair",
    "Core dump limits",
    "[<",
    "Call Trace:",
];

/// The last lines of console output.
#[derive(Clone, Debug, Default)]
pub struct ConsoleTail(VecDeque<String>);

impl std::fmt::Display for ConsoleTail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, "; last console output:")?;
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// The console output of a guest.
#[derive(Debug, Default)]
pub(super) struct Console {
    heard: Mutex<Heard>,
}

/// The parsed console output.
#[derive(Debug, Default)]
struct Heard {
    /// The latest virtual time reported.
    at: Option<Duration>,
    /// The last lines; after a finding, lines after those kept in `found`.
    last: VecDeque<String>,
    /// When the first finding began, in real time, and its first lines with the trace.
    found: Option<(Clock, VecDeque<String>)>,
}

impl Console {
    pub(super) fn listen(&self, mut output: impl BufRead) {
        let mut line = Vec::new();
        // The limit keeps a line without end from filling the memory.
        while let Ok(length) = (&mut output).take(LINE as u64 * 8).read_until(b'\n', &mut line)
            && length > 0
        {
            let text = String::from_utf8_lossy(&line).trim_end().chars().take(LINE).collect::<String>();
            line.clear();
            self.hear(text);
        }
    }

    fn hear(&self, text: String) {
        let Ok(mut heard) = self.heard.lock() else { return };
        let at = text.strip_prefix(PROGRESS).and_then(|ns| ns.parse().ok());
        if let Some(ns) = at {
            heard.at = Some(Duration::from_ns(ns));
            return;
        }
        if heard.found.is_none() && FINDINGS.iter().any(|begin| text.contains(begin)) {
            heard.found = Some((Clock::now(), VecDeque::new()));
            heard.last.clear();
        }
        if let Some((_, lines)) = &mut heard.found
            && lines.len() < FINDING_LINES
        {
            lines.extend((!is_dump(&text)).then_some(text));
        } else if !text.is_empty() && !is_noise(&text) {
            heard.last.push_back(text);
            if heard.last.len() > TAIL_LINES {
                heard.last.pop_front();
            }
        }
    }

    pub(super) fn at(&self) -> Option<Duration> {
        self.heard.lock().ok()?.at
    }

    /// When the kernel began to report a finding.
    pub(super) fn found(&self) -> Option<Clock> {
        self.heard.lock().ok()?.found.as_ref().map(|(since, _)| *since)
    }

    pub(super) fn tail(&self) -> ConsoleTail {
        let Ok(heard) = self.heard.lock() else { return ConsoleTail::default() };
        let found = heard.found.iter().flat_map(|(_, lines)| lines);
        ConsoleTail(found.chain(&heard.last).cloned().collect())
    }
}

fn is_noise(text: &str) -> bool {
    NOISE.iter().any(|noise| text.contains(noise)) || is_dump(text)
}

/// Whether a line is part of a stack dump, or empty, after removing a timestamp that some kernels print.
fn is_dump(text: &str) -> bool {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let stamped = text.trim_start_matches(|c: char| "<>".contains(c) || c.is_ascii_digit());
    let text = stamped.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(text, |(_, rest)| rest);
    text.trim() == "Stack:" || text.split(' ').all(is_number)
}

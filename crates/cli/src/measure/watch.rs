//! The live view of `--watch`: a chart of the last answers, redrawn in place.

use std::collections::VecDeque;

use console::Term;
use headway_estimate::measure::Answer;
use headway_units::{Instant, Rate};

use super::report::Context;
use headway_program::lines::{Direction, direction_words};

/// Number of answers in the chart, one per column.
const COLUMNS: usize = 60;
/// Rows of the chart.
const ROWS: usize = 8;
/// Eighths of a character cell, from empty to full.
const EIGHTHS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One answer in the chart; `None` if that measurement failed.
type Column = Option<Rate>;

pub(super) struct Watch {
    term: Term,
    host: String,
    sides: [Side; 2],
    drawn: usize,
}

#[derive(Default)]
struct Side {
    columns: VecDeque<Column>,
    latest: Option<String>,
    spent: u64,
    since: Option<Instant>,
    until: Instant,
}

impl Watch {
    pub(super) fn new(host: &str) -> Watch {
        Watch { term: Term::stdout(), host: host.to_owned(), sides: Default::default(), drawn: 0 }
    }

    pub(super) fn show(&mut self, context: &Context, answer: &Answer) -> std::io::Result<()> {
        let side = match context.direction {
            Direction::Forward => &mut self.sides[0],
            Direction::Reverse => &mut self.sides[1],
        };
        side.take(context, answer);
        self.draw()
    }

    /// Shows that a measurement in these directions failed before there was an answer.
    pub(super) fn fail(&mut self, directions: &[Direction], reason: &str) -> std::io::Result<()> {
        for direction in directions {
            self.sides[usize::from(*direction == Direction::Reverse)].miss(reason);
        }
        self.draw()
    }

    fn draw(&mut self) -> std::io::Result<()> {
        let mut lines = Vec::new();
        for (direction, side) in [Direction::Forward, Direction::Reverse].iter().zip(&self.sides) {
            if side.latest.is_some() {
                lines.push(format!("{}, available bandwidth {}", self.host, direction_words(*direction)));
                lines.extend(side.lines());
            }
        }
        lines.push("Ctrl-C ends.".to_owned());
        if self.term.is_term() {
            self.term.clear_last_lines(self.drawn)?;
        }
        for line in &lines {
            self.term.write_line(line)?;
        }
        self.drawn = lines.len();
        Ok(())
    }
}

impl Side {
    fn take(&mut self, context: &Context, answer: &Answer) {
        self.push(answer.available.as_ref().ok().map(|interval| interval.rate));
        self.spent += context.probes.get();
        self.since.get_or_insert(context.started);
        self.until = context.finished;
        self.latest = Some(match &answer.available {
            Ok(interval) => match interval.high {
                Some(high) => format!("now {}  (90 % interval {} to {high})", interval.rate, interval.low),
                None => format!("now at least {}", interval.low),
            },
            Err(failure) => format!("now unknown: {failure}"),
        });
    }

    fn miss(&mut self, reason: &str) {
        self.push(None);
        self.latest = Some(format!("now unknown: {reason}"));
    }

    fn push(&mut self, column: Column) {
        self.columns.push_back(column);
        while self.columns.len() > COLUMNS {
            self.columns.pop_front();
        }
    }

    fn lines(&self) -> Vec<String> {
        let top = self.columns.iter().flatten().copied().max().unwrap_or_default();
        let mut lines: Vec<String> = (0..ROWS).rev().map(|row| self.row(row, top)).collect();
        lines.push(format!("{:>11} └{}", "0", "─".repeat(self.columns.len())));
        lines.extend(self.latest.clone());
        let seconds = self.since.map_or(0.0, |since| (self.until - since).secs_f64());
        let average = self.spent as f64 * 8.0 / seconds.max(1.0);
        lines.push(format!(
            "{} of probes so far, {} on average",
            headway_units::Bytes::new(self.spent),
            Rate::from_bps_f64(average)
        ));
        lines
    }

    /// Formats one row of the chart; row 0 is the lowest.
    fn row(&self, row: usize, top: Rate) -> String {
        let label = if row + 1 == ROWS { top.to_string() } else { String::new() };
        let cells: String = self.columns.iter().map(|column| cell(*column, row, top)).collect();
        format!("{label:>11} │{cells}")
    }
}

fn cell(column: Column, row: usize, top: Rate) -> char {
    let Some(rate) = column else { return if row == 0 { '?' } else { ' ' } };
    let height = rate.bps_f64() / top.bps_f64().max(1.0) * (ROWS * 8) as f64;
    let eighths = (height - (row * 8) as f64).clamp(0.0, 8.0);
    EIGHTHS[eighths.round() as usize]
}

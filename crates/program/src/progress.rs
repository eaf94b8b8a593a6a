//! Progress of long operations: a progress bar on a terminal, lines of text elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::out::escape_controls;
use crate::print_error;

/// Interval between progress lines where there is no bar, in seconds.
const SECONDS_A_LINE: u64 = 10;

/// Shows the progress of a task on standard error.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    /// Without a bar: the number of line intervals that had passed at the last line.
    last_line: AtomicU64,
}

impl Progress {
    /// Shows a task with `steps` steps.
    pub fn new(steps: u64) -> Progress {
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}, {eta} left  {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, last_line: AtomicU64::new(0) }
    }

    /// Shows the current activity.
    pub fn show_activity(&self, what: String) {
        if self.prints_lines() {
            print_error!("{what}");
        }
        self.bar.set_message(escape_controls(&what).into_owned());
    }

    /// Starts another task with `steps` steps.
    pub fn begin(&self, what: &str, steps: u64) {
        self.last_line.store(0, Ordering::Relaxed);
        self.bar.set_length(steps);
        self.bar.reset();
        self.show_activity(what.to_owned());
    }

    /// Reports that `done` of `steps` steps are complete.
    pub fn reach(&self, done: u64, steps: u64) {
        self.reach_as(done, steps, || format!("{}: {done} of {steps}", self.bar.message()));
    }

    /// Reports that `done` steps are complete of `all` items with `per_item` steps each.
    pub fn reach_items(&self, done: u64, per_item: u64, all: u64, items: &str) {
        let text = format!("{} of {all} {items}", done / per_item);
        self.bar.set_message(text.clone());
        self.reach_as(done, per_item * all, || text);
    }

    fn reach_as(&self, done: u64, steps: u64, text: impl FnOnce() -> String) {
        self.bar.set_length(steps);
        self.bar.set_position(done);
        let moments = self.bar.elapsed().as_secs() / SECONDS_A_LINE;
        if self.prints_lines() && moments > self.last_line.swap(moments, Ordering::Relaxed) {
            let share = steps.saturating_sub(done) as f64 / done.max(1) as f64;
            let left = indicatif::HumanDuration(self.bar.elapsed().mul_f64(share));
            print_error!("{}, {left} left", text());
        }
    }

    /// Whether progress is shown as lines instead of a bar.
    fn prints_lines(&self) -> bool {
        self.bar.is_hidden()
    }

    /// Reports one more completed step.
    pub fn step(&self) {
        self.advance(1);
    }

    /// Reports `steps` more completed steps.
    pub fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

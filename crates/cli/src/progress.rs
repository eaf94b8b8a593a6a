//! Progress of long work: a bar on a terminal, a line a step elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Counts the steps of a piece of work on standard error.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(steps: u64) -> Progress {
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}, {eta} left  {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// Says what is going on now.
    pub(crate) fn say(&self, what: String) {
        if self.0.is_hidden() {
            eprintln!("{what}");
        }
        self.0.set_message(what);
    }

    /// One more step is done.
    pub(crate) fn step(&self) {
        self.advance(1);
    }

    /// So many steps are done.
    pub(crate) fn advance(&self, steps: u64) {
        self.0.inc(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

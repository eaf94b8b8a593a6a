//! Progress of long work: a bar on a terminal, a line a step elsewhere.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::out::{plain, tell};

/// Where no bar is shown, how far work is gets a line this often.
const SECONDS_A_LINE: u64 = 10;

/// Counts the steps of a piece of work on standard error.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Where no bar is shown: how often a line could have told how far the present work is.
    told: AtomicU64,
}

impl Progress {
    pub(crate) fn new(steps: u64) -> Progress {
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}, {eta} left  {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, told: AtomicU64::new(0) }
    }

    /// Says what is going on now.
    pub(crate) fn say(&self, what: String) {
        if self.tells() {
            tell!("{what}");
        }
        self.bar.set_message(plain(&what).into_owned());
    }

    /// Begins another piece of work, of so many steps.
    pub(crate) fn begin(&self, what: &str, steps: u64) {
        self.told.store(0, Ordering::Relaxed);
        self.bar.set_length(steps);
        self.bar.reset();
        self.say(what.to_owned());
    }

    /// So many steps of so many are done since the beginning.
    pub(crate) fn reach(&self, done: u64, steps: u64) {
        self.bar.set_length(steps);
        self.bar.set_position(done);
        let moments = self.bar.elapsed().as_secs() / SECONDS_A_LINE;
        if self.tells() && moments > self.told.swap(moments, Ordering::Relaxed) {
            tell!("{}: {done} of {steps}", self.bar.message());
        }
    }

    /// Whether lines take the place of the bar.
    fn tells(&self) -> bool {
        self.bar.is_hidden()
    }

    /// One more step is done.
    pub(crate) fn step(&self) {
        self.advance(1);
    }

    /// So many steps are done.
    pub(crate) fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

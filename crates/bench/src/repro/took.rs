//! What an experiment took when it last ran: a file beside its results.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use headway_repro::Context;
use headway_worlds::Output;
use serde::{Deserialize, Serialize};

/// Name of the file.
const FILE: &str = "took.json";

/// The cost of a run.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Took {
    seconds: f64,
    size: String,
    /// Number of threads.
    jobs: usize,
}

impl Took {
    pub(super) fn new(time: Duration, context: &Context<'_>) -> Took {
        Took { seconds: time.as_secs_f64(), size: context.size.name().to_owned(), jobs: context.jobs }
    }

    /// Writes the file into the folder of the experiment's results.
    pub(super) fn write(&self, output: &Output, folder: &Path) -> anyhow::Result<()> {
        Ok(output.write(folder.join(FILE), &serde_json::to_string_pretty(self)?)?)
    }

    /// Returns what the last run took that wrote its results below `folder`; `None` if none has.
    pub(super) fn read(folder: &Path, id: &str) -> Option<Took> {
        serde_json::from_str(&std::fs::read_to_string(folder.join(id).join(FILE)).ok()?).ok()
    }
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} s, {}, {} threads", self.seconds, self.size, self.jobs)
    }
}

//! The outcome of a run.

use std::time::Duration as Span;

use headway_record::Results;
use headway_uml::run_dir::RunDir;

/// The results of a run and its cost; the cost stays out of the results, which are compared byte by byte.
#[derive(Debug)]
pub struct Outcome {
    /// Results of the run.
    pub results: Results,
    /// Events processed; zero in worlds that do not count events.
    pub events: u64,
    /// Wall time of the run.
    pub wall: Span,
    /// Why the run is invalid; `None` if it is valid.
    pub invalid_reason: Option<String>,
    /// Files that the run wrote besides its results.
    pub files: Option<RunFiles>,
}

/// Packet captures and program outputs, in a folder that is removed when this is dropped.
#[derive(Debug)]
pub struct RunFiles {
    pub(crate) folder: RunDir,
    pub(crate) names: Vec<String>,
}

impl RunFiles {
    /// Iterates over the files, as names and paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = (&str, std::path::PathBuf)> {
        self.names.iter().map(|name| (name.as_str(), self.folder.path().join(name)))
    }
}

impl Outcome {
    /// Returns a sentence for every program that failed.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let failed = self.results.summary.programs.iter().filter(|program| program.failed());
        failed.map(|program| {
            let (number, at) = (program.program, &program.at);
            format!("program {number} at {at} failed: {}; see program-{number}.err", program.ending())
        })
    }
}

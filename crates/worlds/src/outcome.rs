//! What a run leaves behind.

use std::time::Duration as Span;

use headway_record::Results;
use headway_uml::place::Place;

/// A run and what it took; nothing of the latter goes into results that are compared byte by byte.
#[derive(Debug)]
pub struct Outcome {
    /// What the run found out.
    pub results: Results,
    /// Events handled; zero where there are none to count.
    pub events: u64,
    /// Real time that the run took.
    pub wall: Span,
    /// Why the run does not count, if it does not.
    pub trouble: Option<String>,
    /// Files that the run wrote besides its results.
    pub files: Option<RunFiles>,
}

/// Captures of packets and outputs of programs, in a folder that goes away with this.
#[derive(Debug)]
pub struct RunFiles {
    pub(crate) folder: Place,
    pub(crate) names: Vec<String>,
}

impl RunFiles {
    /// The files, each with its name.
    pub fn paths(&self) -> impl Iterator<Item = (&str, std::path::PathBuf)> {
        self.names.iter().map(|name| (name.as_str(), self.folder.path().join(name)))
    }
}

impl Outcome {
    /// A sentence for every program that failed.
    pub fn failures(&self) -> impl Iterator<Item = String> {
        let failed = self.results.summary.programs.iter().filter(|program| program.failed());
        failed.map(|program| {
            let (number, at) = (program.program, &program.at);
            format!("program {number} at {at} failed: {}; see program-{number}.err", program.ending())
        })
    }
}

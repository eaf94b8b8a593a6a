//! What a sensitivity is found with: constants, and paths on which they matter.

use super::compare::Outcome;

/// A constant of a study.
#[derive(Clone, Debug)]
pub(super) struct Constant {
    pub(super) name: String,
    pub(super) value: String,
    pub(super) unit: String,
}

impl Constant {
    /// Returns the group: what is before the dot.
    pub(super) fn group(&self) -> &str {
        self.name.split('.').next().unwrap_or_default()
    }
}

/// A constant, by its place among those of the study, and whether it is halved or doubled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) constant: usize,
    pub(super) doubled: bool,
}

/// Constants with the paths on which they matter.
pub(super) trait Study: Sync {
    /// What is studied.
    fn name(&self) -> &'static str;
    /// The headers of error, right, cost and time.
    fn columns(&self) -> [&'static str; 4];
    /// What they mean.
    fn legend(&self) -> &'static str;
    /// Runs of each path with each seed: more where a run is short.
    fn rounds(&self) -> u64 {
        1
    }
    fn constants(&self) -> Vec<Constant>;
    /// The names of the paths.
    fn paths(&self) -> Vec<String>;
    /// Changes a constant for all threads, or none.
    fn choose(&self, _: Option<Variant>) {}
    /// Runs a path with traffic of a seed.
    ///
    /// # Errors
    /// What the simulator says.
    fn run(&self, path: usize, seed: u64, variant: Option<Variant>) -> anyhow::Result<Outcome>;
}

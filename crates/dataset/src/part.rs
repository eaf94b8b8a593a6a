//! What a run is for.

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Models learn from it.
    Train,
    /// Models are scored on it, and have not seen it before.
    Test,
}

impl Part {
    /// Returns what run `index` of `runs` is for, if the last `tests` are tests.
    pub(crate) fn of(index: u32, runs: u32, tests: u32) -> Part {
        if index + tests < runs { Part::Train } else { Part::Test }
    }

    /// Returns the name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Train => "train",
            Part::Test => "test",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_runs_are_tests() {
        let parts = |runs, tests| (0..runs).map(|index| Part::of(index, runs, tests)).collect::<Vec<_>>();
        assert_eq!(parts(3, 1), [Part::Train, Part::Train, Part::Test]);
        assert_eq!(parts(2, 0), [Part::Train; 2]);
        assert_eq!(parts(2, 5), [Part::Test; 2]);
    }
}

//! Results of runs in a folder, so that interrupted work can be resumed.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::output::Output;

/// A folder with one file per run, of one build of the program.
pub struct Kept {
    folder: PathBuf,
    output: Output,
    build: String,
    /// Told once of every other build whose results the folder has.
    report: Box<dyn Fn(&str) + Send + Sync>,
    others: Mutex<BTreeSet<String>>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept")
            .field("folder", &self.folder)
            .field("build", &self.build)
            .finish_non_exhaustive()
    }
}

/// What determines the result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The world in which it ran.
    pub world: String,
    /// The scenario file.
    pub scenario: String,
    /// Overrides of the scenario, each as in `--set`.
    #[serde(default)]
    pub set: Vec<String>,
    /// The seed of all random numbers.
    pub seed: u64,
}

#[derive(Serialize, Deserialize)]
struct Entry<R> {
    /// The build that computed it; the version only, in files of earlier builds.
    #[serde(alias = "version")]
    build: String,
    key: Key,
    result: R,
}

impl Kept {
    /// Opens the folder, creating it if necessary. `build` is a text that no other build of the program has.
    /// Results of other builds are computed again and replaced; `report` is called once with each such build.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn open(
        folder: &Path,
        build: String,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Kept, Error> {
        Ok(Kept {
            folder: folder.to_owned(),
            output: Output::make(folder)?,
            build,
            report: Box::new(report),
            others: Mutex::default(),
        })
    }

    /// Returns the result in this file, if the same build of the program computed it for the same key. Files
    /// that cannot be read count as missing.
    pub fn get<R: DeserializeOwned>(&self, file: &str, key: &Key) -> Option<R> {
        let text = std::fs::read_to_string(self.folder.join(file)).ok()?;
        let entry: Entry<serde_json::Value> = serde_json::from_str(&text).ok()?;
        if entry.key != *key {
            return None;
        }
        if entry.build != self.build {
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            if !others.contains(&entry.build) {
                (self.report)(&entry.build);
                others.insert(entry.build);
            }
            return None;
        }
        serde_json::from_value(entry.result).ok()
    }

    /// Writes a result to a file; whoever reads the file at any time finds all of it or nothing.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn put<R: Serialize>(&self, file: &str, key: &Key, result: R) -> Result<(), Error> {
        let entry = Entry { build: self.build.clone(), key: key.clone(), result };
        self.output.write(file, &serde_json::to_string_pretty(&entry)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_result_is_found_by_the_key_for_which_it_was_computed() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = Kept::open(folder.path(), "one".to_owned(), |_| {}).expect("writable");
        let key = Key { world: "sim".to_owned(), scenario: "duration".to_owned(), set: Vec::new(), seed: 1 };
        assert_eq!(kept.get::<f64>("rapid/R5/x.json", &key), None);
        kept.put("rapid/R5/x.json", &key, 2.5).expect("writable");
        assert_eq!(kept.get("rapid/R5/x.json", &key), Some(2.5));
        assert_eq!(kept.get::<f64>("rapid/R5/x.json", &Key { seed: 2, ..key.clone() }), None);
        let set = vec!["duration=2 s".to_owned()];
        assert_eq!(kept.get::<f64>("rapid/R5/x.json", &Key { set, ..key }), None);
    }

    #[test]
    fn a_number_is_kept_to_the_last_bit() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = Kept::open(folder.path(), "one".to_owned(), |_| {}).expect("writable");
        let key = Key { world: "sim".to_owned(), scenario: String::new(), set: Vec::new(), seed: 1 };
        // A multiple of every magnitude: a parser that is only nearly right misses some.
        let numbers: Vec<f64> = (1..300).map(|power| 1.1_f64.powi(power) / 3.0).collect();
        kept.put("x.json", &key, &numbers).expect("writable");
        assert_eq!(kept.get("x.json", &key), Some(numbers));
    }

    #[test]
    fn results_of_another_build_are_named_once_and_not_used() {
        let folder = tempfile::tempdir().expect("a folder");
        let said = Arc::new(Mutex::new(Vec::new()));
        let open = |build: &str| {
            let said = Arc::clone(&said);
            let report = move |other: &str| said.lock().expect("whole").push(other.to_owned());
            Kept::open(folder.path(), build.to_owned(), report).expect("writable")
        };
        let key = Key { world: "sim".to_owned(), scenario: "duration".to_owned(), set: Vec::new(), seed: 1 };
        let old = open("0.1.0 (a)");
        ["x.json", "y.json"].iter().for_each(|file| old.put(file, &key, 2.5).expect("writable"));
        let new = open("0.1.0 (b)");
        assert_eq!((new.get::<f64>("x.json", &key), new.get::<f64>("y.json", &key)), (None, None));
        new.put("x.json", &key, 3.5).expect("writable");
        assert_eq!(open("0.1.0 (b)").get("x.json", &key), Some(3.5));
        assert_eq!(*said.lock().expect("whole"), ["0.1.0 (a)"]);
        // What earlier versions wrote has no build.
        let text = std::fs::read_to_string(folder.path().join("y.json")).expect("readable");
        let text = text.replace("\"build\": \"0.1.0 (a)\"", "\"version\": \"0.1.0\"");
        std::fs::write(folder.path().join("y.json"), text).expect("writable");
        assert_eq!(open("0.1.0 (b)").get::<f64>("y.json", &key), None);
        assert_eq!(said.lock().expect("whole").last().map(String::as_str), Some("0.1.0"));
    }
}

//! Results of runs in a folder, so that an interrupted experiment can be resumed.

use std::path::{Path, PathBuf};

use headway_worlds::Output;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// A folder with one file per run.
#[derive(Debug)]
pub struct Kept {
    folder: PathBuf,
    output: Output,
}

/// What determines the result of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Key {
    /// The world in which it ran.
    pub(crate) world: String,
    /// The scenario file.
    pub(crate) scenario: String,
    pub(crate) seed: u64,
}

#[derive(Serialize, Deserialize)]
struct Entry<R> {
    version: String,
    key: Key,
    result: R,
}

impl Kept {
    /// Opens the folder, creating it if necessary.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn open(folder: &Path) -> Result<Kept, headway_worlds::Error> {
        Ok(Kept { folder: folder.to_owned(), output: Output::make(folder)? })
    }

    /// Returns the result in this file, if the same version of the program computed it for the same key. Files that
    /// cannot be read count as missing.
    pub(crate) fn get<R: DeserializeOwned>(&self, file: &str, key: &Key) -> Option<R> {
        let text = std::fs::read_to_string(self.folder.join(file)).ok()?;
        let entry: Entry<R> = serde_json::from_str(&text).ok()?;
        (entry.key == *key && entry.version == env!("CARGO_PKG_VERSION")).then_some(entry.result)
    }

    /// Writes a result to a file.
    pub(crate) fn put<R: Serialize>(
        &self,
        file: &str,
        key: &Key,
        result: R,
    ) -> Result<(), headway_worlds::Error> {
        let entry = Entry { version: env!("CARGO_PKG_VERSION").to_owned(), key: key.clone(), result };
        self.output.write(file, &serde_json::to_string_pretty(&entry)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_found_by_the_key_for_which_it_was_computed() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = Kept::open(folder.path()).expect("writable");
        let key = Key { world: "sim".to_owned(), scenario: "duration".to_owned(), seed: 1 };
        assert_eq!(kept.get::<f64>("rapid/R5/x.json", &key), None);
        kept.put("rapid/R5/x.json", &key, 2.5).expect("writable");
        assert_eq!(kept.get("rapid/R5/x.json", &key), Some(2.5));
        assert_eq!(kept.get::<f64>("rapid/R5/x.json", &Key { seed: 2, ..key }), None);
    }
}

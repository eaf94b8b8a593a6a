//! One cell of a sweep, as any process with the same build can run it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use headway_record::Summary;
use headway_scenario::{Change, Scenario, World};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::error::{Error, bail};
use crate::kept::Key;
use crate::options::Options;
use crate::run::run_all;

/// All that determines the result of a cell, besides the build of the program and the files
/// that the scenario names.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// World, scenario, overrides and seed.
    pub key: Key,
    /// The scenario file, which errors name, and in whose folder the files are that the scenario names.
    pub path: PathBuf,
}

/// The result of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Hashes (SHA-256) of the traces and captures that the run read, by their names in the scenario.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<PathBuf, String>,
    /// What came out.
    pub summary: Summary,
}

impl Job {
    /// Runs the cell.
    ///
    /// # Errors
    /// When the scenario is wrong, or the run fails, is invalid, is cancelled or has a program that fails.
    pub fn run(&self, options: &Options<'_>) -> Result<Record, Error> {
        let Key { world, scenario, set, seed } = &self.key;
        let set: Result<Vec<Change>, String> = set.iter().map(|text| text.parse()).collect();
        let scenario = Scenario::parse(scenario, &self.path, &set.map_err(Error::other)?)?;
        let world: World = world.parse().map_err(Error::other)?;
        let outcome = run_all(&scenario, world, &[*seed], options)?.pop().ok_or(Error::Cancelled)?;
        if outcome.results.summary.partial {
            return Err(Error::Cancelled);
        }
        let failures = outcome.failures();
        if let Some(reason) = outcome.invalid_reason.clone().into_iter().chain(failures).next() {
            bail!("{reason}");
        }
        Ok(Record { files: hashes(&scenario)?, summary: outcome.results.summary })
    }

    /// Returns the name of its file among the results that are kept.
    pub(super) fn file(&self) -> Result<String, Error> {
        Ok(format!("{}-{}.json", self.key.seed, &hex(&serde_json::to_vec(&self.key)?)[..20]))
    }
}

fn hashes(scenario: &Scenario) -> Result<BTreeMap<PathBuf, String>, Error> {
    let files = scenario.files.iter();
    files.map(|file| Ok((file.clone(), hash(&scenario.folder.join(file))?))).collect()
}

/// Returns the hash of a file.
pub(super) fn hash(path: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

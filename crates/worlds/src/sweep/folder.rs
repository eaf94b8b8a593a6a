//! The folder of a sweep: its table, and the record of every cell that has ended.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::Context as _;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use serde_json::json;

use super::job::{self, Job, Record};
use super::table::{self, Table};
use super::{CellResult, Sweep};
use crate::error::{Error, bail};
use crate::kept::Kept;
use crate::output::Output;

/// The file that identifies such a folder, and the key in it.
const MANIFEST: &str = "manifest.json";
const FORMAT: &str = "headway-sweep";
/// The file that a command locks as long as it works in the folder.
const LOCK: &str = ".lock";
/// The folder of records.
const KEPT: &str = "kept";

/// A folder of results, in which no other command works at the same time.
#[derive(Debug)]
pub struct Folder {
    output: Output,
    kept: Kept,
    build: String,
    /// Hashes of files that records depend on; `None` for one that cannot be read.
    hashes: Mutex<BTreeMap<PathBuf, Option<String>>>,
    _lock: Flock<File>,
}

impl Folder {
    /// Opens a folder that does not exist, is empty or has results of a sweep. `build` is a text
    /// that no other build of the program has; `report` is called once with each other build whose
    /// records the folder has.
    ///
    /// # Errors
    /// When another command works in the folder, or it has other files, or cannot be written.
    pub fn open(
        path: &Path,
        build: String,
        report: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Folder, Error> {
        if holds_other_files(path)? {
            bail!("{} is not empty and holds no results of a sweep; choose another folder", path.display());
        }
        let output = Output::make(path)?;
        let lock = lock(path)?;
        // Only now: nobody else writes here.
        let kept_path = path.join(KEPT);
        for folder in [path, &kept_path] {
            remove_unfinished(folder);
        }
        let kept = Kept::open(&kept_path, build.clone(), report)?;
        Ok(Folder { output, kept, build, hashes: Mutex::default(), _lock: lock })
    }

    /// Returns the records of earlier runs, where the cell, the build and the files that the
    /// cell reads are the same.
    pub fn records(&self, sweep: &Sweep) -> Result<Vec<Option<CellResult>>, Error> {
        let record = |cell| Ok(self.record(&sweep.job(cell))?.map(Ok));
        sweep.cells().iter().map(record).collect()
    }

    /// Returns the record of an earlier run.
    ///
    /// # Errors
    /// When the job cannot be named.
    pub fn record(&self, job: &Job) -> Result<Option<Record>, Error> {
        let record: Option<Record> = self.kept.get(&job.file()?, &job.key);
        Ok(record.filter(|record| self.is_current(job, record)))
    }

    /// Keeps the record of a cell.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, job: &Job, record: &Record) -> Result<(), Error> {
        self.kept.put(&job.file()?, &job.key, record)
    }

    /// Writes the table of the cells that have a result, and where it comes from. Returns a sentence for
    /// every column that was asked for and that no result has.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, sweep: &Sweep, results: &[Option<CellResult>]) -> Result<Vec<String>, Error> {
        let table = Table::new(sweep, results)?;
        self.output.write("cells.csv", &table.csv())?;
        self.output.write("cells.jsonl", &table.json_lines()?)?;
        table::absent(sweep, results)
    }

    /// Writes which sweep the folder is for.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn begin(&self, sweep: &Sweep) -> Result<(), Error> {
        let manifest = json!({
            FORMAT: 1,
            "build": self.build,
            "sweep": sweep.text,
            "scenario": sweep.scenario_text,
            "world": sweep.world.name(),
            "cells": sweep.cells().len(),
        });
        self.output.write(MANIFEST, &format!("{}\n", serde_json::to_string_pretty(&manifest)?))
    }

    /// Whether the files that the run read are still the same.
    fn is_current(&self, job: &Job, record: &Record) -> bool {
        let folder = job.path.parent().unwrap_or(Path::new(""));
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        record.files.iter().all(|(file, hash)| {
            let path = folder.join(file);
            let now = hashes.entry(path).or_insert_with_key(|path| job::hash(path).ok());
            now.as_ref() == Some(hash)
        })
    }
}

/// Whether a folder has visible files and is not that of a sweep.
fn holds_other_files(path: &Path) -> Result<bool, Error> {
    if !path.exists() {
        return Ok(false);
    }
    if let Ok(text) = fs::read_to_string(path.join(MANIFEST)) {
        let manifest: Result<serde_json::Value, _> = serde_json::from_str(&text);
        return Ok(!manifest.is_ok_and(|manifest| manifest.get(FORMAT).is_some()));
    }
    let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    // A command that was killed at once leaves its lock, and perhaps the folder of records.
    let is_ours = |name: &str| name.starts_with('.') || name == KEPT;
    Ok(entries.flatten().any(|entry| !is_ours(&entry.file_name().to_string_lossy())))
}

fn lock(folder: &Path) -> Result<Flock<File>, Error> {
    let path = folder.join(LOCK);
    let flags = nix::libc::O_NOFOLLOW;
    let file = File::options().write(true).create(true).truncate(false).custom_flags(flags).open(&path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err((_, Errno::EWOULDBLOCK)) => {
            bail!("another command works in {}; wait for its end, or choose another folder", folder.display())
        }
        Err((_, reason)) => Err(reason).with_context(|| format!("cannot lock {}", path.display()))?,
    }
}

/// Removes what commands left that were killed while they wrote. What cannot be removed is in nobody's way.
fn remove_unfinished(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if crate::output::is_unfinished(&entry.file_name().to_string_lossy()) {
            let _ = fs::remove_file(entry.path());
        }
    }
}

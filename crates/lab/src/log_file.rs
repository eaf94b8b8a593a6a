//! A file that grows without end and so is rotated.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// At this size a file is rotated, and the previous rotated one is removed. Two files hold one to two hours of 10 ms
/// intervals of one link, and a forgotten lab does not fill `/run`, which lies in memory (16 to 256 MB is sensible).
const LIMIT: u64 = 64 << 20;

/// A log of lines.
pub(crate) struct LogFile {
    path: PathBuf,
    /// Where the full file goes.
    old: PathBuf,
    /// The first line of each file, with its line break; empty if there is none.
    header: String,
    file: File,
    size: u64,
}

impl LogFile {
    /// Creates a file with only the header.
    pub(crate) fn create(path: &Path, old: &Path, header: &str) -> Result<LogFile, Error> {
        let file = open(path, header).map_err(|e| Error::file("write", path, e))?;
        let header = header.to_owned();
        Ok(LogFile { path: path.to_owned(), old: old.to_owned(), header, file, size: 0 })
    }

    /// Appends whole lines.
    pub(crate) fn append(&mut self, lines: &str) -> io::Result<()> {
        if self.size > LIMIT {
            fs::rename(&self.path, &self.old)?;
            self.file = open(&self.path, &self.header)?;
            self.size = 0;
        }
        self.size += lines.len() as u64;
        self.file.write_all(lines.as_bytes())
    }
}

fn open(path: &Path, header: &str) -> io::Result<File> {
    let mut file = File::create(path)?;
    file.write_all(header.as_bytes())?;
    Ok(file)
}

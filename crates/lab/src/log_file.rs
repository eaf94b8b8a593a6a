//! A file that grows without end and so is rotated.

use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::Error;

/// At this size a file is rotated, and the previous rotated one is removed. Two files hold one to two hours
/// of 10 ms intervals of one link, and a forgotten lab does not fill `/run`, which lies in memory (16 to
/// 256 MB is sensible).
const LIMIT: u64 = 64 << 20;

/// A log of lines.
pub(crate) struct LogFile {
    /// The first line of each file, with its line break; empty if there is none.
    header: String,
    file: File,
    old: Old,
    size: u64,
    limit: u64,
}

/// Where a full file goes.
enum Old {
    /// The file with the first path is renamed to the second.
    Renamed(PathBuf, PathBuf),
    /// What it has is copied to this one, because the process may not change the folder any more.
    Copied(File),
}

impl LogFile {
    /// Creates a file with only the header.
    pub(crate) fn create(path: &Path, old: &Path, header: &str) -> Result<LogFile, Error> {
        let old_file = Old::Renamed(path.to_owned(), old.to_owned());
        LogFile::new(path, old_file, header, LIMIT)
    }

    /// Creates a file that can be rotated without the right to do anything in its folder, and the rotated
    /// one, empty. Both belong to who called `sudo`.
    pub(crate) fn create_both(path: &Path, old: &Path) -> Result<LogFile, Error> {
        LogFile::create_both_with(path, old, LIMIT)
    }

    fn create_both_with(path: &Path, old: &Path, limit: u64) -> Result<LogFile, Error> {
        let old_file = open(old).map_err(|e| Error::file("write", old, e))?;
        headway_privileges::give_to_caller(&old_file).map_err(|e| Error::file("write", old, e))?;
        let log = LogFile::new(path, Old::Copied(old_file), "", limit)?;
        headway_privileges::give_to_caller(&log.file).map_err(|e| Error::file("write", path, e))?;
        Ok(log)
    }

    fn new(path: &Path, old: Old, header: &str, limit: u64) -> Result<LogFile, Error> {
        let failed = |e| Error::file("write", path, e);
        let mut file = open(path).map_err(failed)?;
        file.write_all(header.as_bytes()).map_err(failed)?;
        Ok(LogFile { header: header.to_owned(), file, old, size: 0, limit })
    }

    /// Appends whole lines.
    pub(crate) fn append(&mut self, lines: &str) -> io::Result<()> {
        if self.size > self.limit {
            self.rotate()?;
            self.file.write_all(self.header.as_bytes())?;
            self.size = 0;
        }
        self.size += lines.len() as u64;
        self.file.write_all(lines.as_bytes())
    }

    fn rotate(&mut self) -> io::Result<()> {
        match &mut self.old {
            Old::Renamed(path, old) => {
                fs::rename(&path, old)?;
                self.file = open(path)?;
            }
            Old::Copied(old) => {
                for file in [&mut *old, &mut self.file] {
                    file.rewind()?;
                }
                old.set_len(0)?;
                io::copy(&mut self.file, old)?;
                self.file.set_len(0)?;
                self.file.rewind()?;
            }
        }
        Ok(())
    }
}

/// Creates a file, or empties it.
fn open(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_becomes_the_old_one_by_name_or_by_copy() {
        let folder = tempfile::tempdir().unwrap();
        let [path, old] = ["new", "old"].map(|name| folder.path().join(name));
        let renamed = |limit| LogFile::new(&path, Old::Renamed(path.clone(), old.clone()), "", limit);
        let copied = |limit| LogFile::create_both_with(&path, &old, limit);
        for mut log in [renamed(4).unwrap(), copied(4).unwrap()] {
            for lines in ["1\n2\n3\n", "4\n", "5\n6\n", "7\n"] {
                log.append(lines).unwrap();
            }
            assert_eq!(fs::read_to_string(&old).unwrap(), "4\n5\n6\n");
            assert_eq!(fs::read_to_string(&path).unwrap(), "7\n");
        }
    }
}

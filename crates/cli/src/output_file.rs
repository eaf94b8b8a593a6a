//! Files that are opened before privileges are given up, and written after.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// A file that gets its text at the end; until then it has what it had.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    file: File,
}

impl OutputFile {
    /// Opens the file, and makes it and its folder if they do not exist.
    pub(crate) fn open(path: &Path) -> Result<OutputFile> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let file = open(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(OutputFile { path: path.to_owned(), file })
    }

    /// Replaces what is in the file.
    pub(crate) fn write(&mut self, text: &str) -> Result<()> {
        empty(&self.file)
            .and_then(|()| self.file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Creates a file, or empties it.
pub(crate) fn create(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    empty(&file)?;
    Ok(file)
}

/// Opens a file for writing; a new one of root belongs to who called `sudo`.
fn open(path: &Path) -> io::Result<File> {
    match File::options().write(true).create_new(true).open(path) {
        Ok(file) => {
            headway_privileges::give_to_caller(&file)?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => File::options().write(true).open(path),
        Err(error) => Err(error),
    }
}

/// Empties a file; a pipe or a device has nothing that could be removed.
fn empty(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_what_it_had_until_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new folder").join("report.html");
        let mut file = OutputFile::open(&path).unwrap();
        file.write("a long text").unwrap();
        let mut file = OutputFile::open(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a long text");
        file.write("short").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "short");
        OutputFile::open(Path::new("/dev/null")).unwrap().write("lost").unwrap();
        create(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "");
    }
}

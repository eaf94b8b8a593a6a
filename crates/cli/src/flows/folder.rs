//! A CSV file for each connection.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use headway_record::csv;
use headway_units::Instant;

use super::watch::Followed;

/// Most files in a folder. They hold what fits the table of connections when it changes once.
const MOST_FILES: usize = 8192;
/// Most rows of all files together, which take about 2 GB.
const MOST_ROWS: u64 = 10_000_000;
/// Bytes of rows that wait in memory for each file until they are written.
const WAITING: usize = 1 << 14;

/// The rows of a connection that have not been written.
#[derive(Debug)]
struct Waiting {
    name: String,
    rows: String,
    is_begun: bool,
}

/// A folder of files. None stays open: each is opened to add rows.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    waiting: HashMap<u64, Waiting>,
    files: usize,
    rows: u64,
    /// Rows for which there was no room.
    pub(super) lost: u64,
}

impl Folder {
    /// Makes the folder, or takes an empty one.
    pub(super) fn make(path: &Path) -> Result<Folder> {
        let failed = || format!("cannot use the folder {}", path.display());
        match fs::create_dir(path) {
            Ok(()) => headway_privileges::give_to_caller(&File::open(path).with_context(failed)?)
                .with_context(failed)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if fs::read_dir(path).with_context(failed)?.next().is_some() {
                    bail!("the folder {} is not empty; name another one", path.display());
                }
            }
            Err(error) => return Err(error).with_context(failed),
        }
        Ok(Folder { path: path.to_owned(), waiting: HashMap::new(), files: 0, rows: 0, lost: 0 })
    }

    /// Adds what the last look at a connection found.
    pub(super) fn add(&mut self, followed: &Followed, at: Instant) -> Result<()> {
        let cookie = followed.now.cookie;
        let is_new = !self.waiting.contains_key(&cookie);
        if self.rows >= MOST_ROWS || is_new && self.files >= MOST_FILES {
            self.lost += 1;
            return Ok(());
        }
        self.rows += 1;
        self.files += usize::from(is_new);
        let waiting = self.waiting.entry(cookie).or_insert_with(|| {
            let name = name(followed.now.local, followed.now.peer, cookie);
            Waiting { name, rows: csv::header(followed.row(at)), is_begun: false }
        });
        waiting.rows += &csv::lines([followed.row(at)]);
        if waiting.rows.len() < WAITING { Ok(()) } else { write(&self.path, waiting) }
    }

    /// Writes all rows that wait.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.waiting.values_mut().try_for_each(|waiting| write(&self.path, waiting))
    }

    /// Writes the rest of a connection that has ended.
    pub(super) fn end(&mut self, cookie: u64) -> Result<()> {
        self.waiting.remove(&cookie).map_or(Ok(()), |mut waiting| write(&self.path, &mut waiting))
    }
}

/// Adds the rows to their file. A new one is nobody else's, and belongs to who called `sudo`.
fn write(folder: &Path, waiting: &mut Waiting) -> Result<()> {
    if waiting.rows.is_empty() {
        return Ok(());
    }
    let path = folder.join(&waiting.name);
    let added = || -> io::Result<()> {
        let mut options = File::options();
        options.append(true).create_new(!waiting.is_begun).custom_flags(libc::O_NOFOLLOW);
        let mut file = options.open(&path)?;
        if !waiting.is_begun {
            headway_privileges::give_to_caller(&file)?;
        }
        file.write_all(waiting.rows.as_bytes())
    };
    added().with_context(|| format!("cannot write {}", path.display()))?;
    waiting.rows.clear();
    waiting.is_begun = true;
    Ok(())
}

/// Names a file after a connection, without colons, which other systems do not allow. The number of the
/// socket tells it from others between the same ends.
fn name(local: SocketAddr, peer: SocketAddr, cookie: u64) -> String {
    let end = |end: SocketAddr| format!("{}.{}", end.ip().to_string().replace(':', "-"), end.port());
    format!("{}_{}_{cookie}.csv", end(local), end(peer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_that_is_new_or_empty_is_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("telemetry");
        assert!(Folder::make(&path).is_ok() && Folder::make(&path).is_ok());
        fs::write(path.join("mine.csv"), "what was there").unwrap();
        assert!(Folder::make(&path).unwrap_err().to_string().contains("is not empty"));
        assert!(Folder::make(&path.join("mine.csv")).is_err());
    }

    #[test]
    fn rows_go_behind_those_that_are_there_and_never_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let rows =
            |rows: &str, is_begun| Waiting { name: "a.csv".to_owned(), rows: rows.to_owned(), is_begun };
        write(folder.path(), &mut rows("x\n1\n", false)).unwrap();
        write(folder.path(), &mut rows("2\n", true)).unwrap();
        assert_eq!(fs::read_to_string(folder.path().join("a.csv")).unwrap(), "x\n1\n2\n");
        // A file that somebody else has made, and a link that somebody else has put there.
        assert!(write(folder.path(), &mut rows("3\n", false)).is_err());
        let secret = folder.path().join("secret");
        fs::rename(folder.path().join("a.csv"), &secret).unwrap();
        std::os::unix::fs::symlink(&secret, folder.path().join("a.csv")).unwrap();
        assert!(write(folder.path(), &mut rows("3\n", true)).is_err());
        assert_eq!(fs::read_to_string(&secret).unwrap(), "x\n1\n2\n");
    }

    #[test]
    fn a_name_is_one_for_every_system() {
        let ends = ["[2001:db8::7]:443", "192.0.2.7:40000"].map(|end| end.parse().unwrap());
        assert_eq!(name(ends[0], ends[1], 5), "2001-db8--7.443_192.0.2.7.40000_5.csv");
    }
}

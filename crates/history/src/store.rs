//! The file: its tables, what is added, and what makes room.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use headway_edge::snapshot::DecisionState;
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement, params_from_iter};

use crate::Error;
use crate::point::{COLUMNS, Point, WIDTH};

/// Version of the tables, in the file's `user_version`.
pub(crate) const VERSION: i64 = 1;
/// Marks a file as a history (`application_id`): "HWhi".
pub(crate) const MARK: i64 = 0x4857_6869;
/// Most bytes of the file unless somebody says another number: all rows of a year and their indices had 84 MB with rates of 1 to 100 Mb/s.
pub const SIZE: u64 = 128 << 20;
/// The smallest file that is useful: ten minutes of seconds, and two days of minutes.
pub const LEAST_SIZE: u64 = 1 << 20;
/// Bytes of a page, the least that the file grows by.
const PAGE: u64 = 4096;
/// Bytes after which the log of changes is written back and cut: a small part of the file.
const LOG: u64 = 1 << 20;
/// Seconds in a day.
const SECONDS: u64 = 86_400;
/// Minutes in a year.
const MINUTES: u64 = 365 * 24 * 60;
/// Decisions that are kept beside them: with some 300 bytes each a quarter of the file.
const DECISIONS: u64 = 100_000;
/// Room for text in a decision, in bytes; sentences have some 200.
const TEXT: usize = 1_000;

/// How many rows of each table stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    seconds: u64,
    minutes: u64,
    decisions: u64,
}

impl Kept {
    /// Returns what fits a file of this size; of a larger one no more than all.
    fn within(bytes: u64) -> Kept {
        let part = |rows: u64| (u128::from(rows) * u128::from(bytes.min(SIZE)) / u128::from(SIZE)) as u64;
        Kept { seconds: part(SECONDS), minutes: part(MINUTES), decisions: part(DECISIONS) }
    }

    fn tables(self) -> [(&'static str, u64); 3] {
        [("second", self.seconds), ("minute", self.minutes), ("decision", self.decisions)]
    }
}

/// A history that can be added to.
#[derive(Debug)]
pub struct Store {
    file: Connection,
    kept: Kept,
}

/// What is added at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) seconds: Vec<Point>,
    pub(crate) minutes: Vec<Point>,
    pub(crate) decisions: Vec<DecisionState>,
}

impl Store {
    /// Opens a history, or begins one, of at most so many bytes ([`SIZE`]; at least [`LEAST_SIZE`]). A link is not followed.
    ///
    /// # Errors
    /// When the file cannot be opened, is something else, or of another version.
    pub fn open(path: &Path, bytes: u64) -> Result<Store, Error> {
        create(path)?;
        let file = Connection::open_with_flags(
            path,
            OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_READ_WRITE | FLAGS,
        )
        .map_err(|error| unusable(path, &error))?;
        let bytes = bytes.max(LEAST_SIZE);
        prepare(&file, bytes - LOG.min(bytes / 2)).map_err(|error| unusable(path, &error))?;
        check_version(&file, path)?;
        Ok(Store { file, kept: Kept::within(bytes) })
    }

    /// Adds rows, all of them or none. Where the file is as large as it may be, the oldest tenth makes room first.
    pub(crate) fn add(&mut self, batch: &Batch) -> Result<(), rusqlite::Error> {
        match self.try_add(batch) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                self.make_room()?;
                self.try_add(batch)
            }
            result => result,
        }
    }

    fn try_add(&mut self, batch: &Batch) -> Result<(), rusqlite::Error> {
        let change = self.file.transaction()?;
        for (table, points) in [("second", &batch.seconds), ("minute", &batch.minutes)] {
            let mut insert = change.prepare(&insert(table))?;
            for point in points {
                insert.execute(params_from_iter(point.values()))?;
            }
        }
        {
            let mut insert = change.prepare(DECISION)?;
            batch.decisions.iter().try_for_each(|decision| add_decision(&mut insert, decision))?;
        }
        for (table, rows) in self.kept.tables() {
            // Rows are numbered as they come, so this does not depend on clocks.
            let old = format!("DELETE FROM {table} WHERE id <= (SELECT max(id) FROM {table}) - ?1");
            change.prepare(&old)?.execute([rows as i64])?;
        }
        change.commit()
    }

    fn make_room(&self) -> Result<(), rusqlite::Error> {
        for (table, _) in self.kept.tables() {
            let old = format!(
                "DELETE FROM {table} WHERE id <= (SELECT min(id) + (max(id) - min(id)) / 10 FROM {table})"
            );
            self.file.execute(&old, [])?;
        }
        Ok(())
    }
}

/// A link is not followed, as somebody else may have put it there; one thread uses a connection at a time.
pub(crate) const FLAGS: OpenFlags = OpenFlags::SQLITE_OPEN_NOFOLLOW.union(OpenFlags::SQLITE_OPEN_NO_MUTEX);

/// Creates the file, and its folder, if there is none: who talks to whom is nobody else's business.
fn create(path: &Path) -> Result<(), Error> {
    let failed = |reason: io::Error| Error::File { path: path.to_owned(), reason: reason.to_string() };
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        DirBuilder::new().mode(0o755).create(folder).map_err(failed)?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Err(reason) if reason.kind() != io::ErrorKind::AlreadyExists => Err(failed(reason)),
        _ => check_kind(path),
    }
}

/// Checks that it is a file: reading a pipe would wait for ever, and a link may have been put there by somebody else.
pub(crate) fn check_kind(path: &Path) -> Result<(), Error> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => Err(Error::File { path: path.to_owned(), reason: why_not(path) }),
        _ => Ok(()),
    }
}

/// Sets how the file is written, and makes its tables.
fn prepare(file: &Connection, bytes: u64) -> Result<(), rusqlite::Error> {
    file.busy_timeout(std::time::Duration::from_secs(2))?;
    file.pragma_update(None, "page_size", PAGE as i64)?;
    file.pragma_update(None, "journal_mode", "wal")?;
    // A power cut may cost what the system has not written back yet, some minutes at most, but never the file.
    file.pragma_update(None, "synchronous", "normal")?;
    file.pragma_update(None, "journal_size_limit", LOG as i64)?;
    file.pragma_update(None, "wal_autocheckpoint", (LOG / PAGE / 2) as i64)?;
    file.pragma_update(None, "temp_store", "memory")?;
    file.pragma_update_and_check(None, "max_page_count", (bytes / PAGE) as i64, |_| Ok(()))?;
    let tables: i64 = file.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if tables == 0 {
        file.execute_batch(&schema())?;
    }
    Ok(())
}

fn schema() -> String {
    let columns = COLUMNS.map(|column| format!("{column} INTEGER")).join(", ");
    let table = |name: &str, columns: &str| {
        format!(
            "CREATE TABLE {name} (id INTEGER PRIMARY KEY, {columns}) STRICT; CREATE INDEX {name}_time ON {name} (time_ms);"
        )
    };
    let texts = "time_ms INTEGER, flow INTEGER, client TEXT, server TEXT, behaviour TEXT, strategies TEXT, sentence TEXT";
    format!(
        "BEGIN; PRAGMA application_id = {MARK}; PRAGMA user_version = {VERSION}; {} {} {} COMMIT;",
        table("second", &columns),
        table("minute", &columns),
        table("decision", texts),
    )
}

fn insert(table: &str) -> String {
    let places = vec!["?"; WIDTH].join(", ");
    format!("INSERT INTO {table} ({}) VALUES ({places})", COLUMNS.join(", "))
}

/// Adds a row of decisions.
const DECISION: &str = "INSERT INTO decision (time_ms, flow, client, server, behaviour, strategies, sentence) VALUES (?, ?, ?, ?, ?, ?, ?)";

fn add_decision(insert: &mut Statement<'_>, decision: &DecisionState) -> Result<(), rusqlite::Error> {
    let sentence = &decision.sentence[..decision.sentence.floor_char_boundary(TEXT)];
    insert.execute((
        decision.time_ms as i64,
        decision.flow as i64,
        decision.client.to_string(),
        decision.server.to_string(),
        &decision.behaviour,
        decision.strategies.join(" "),
        sentence,
    ))?;
    Ok(())
}

/// Checks that a file is a history of this version.
pub(crate) fn check_version(file: &Connection, path: &Path) -> Result<(), Error> {
    let number = |pragma| file.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    let (mark, found) = number("application_id")
        .and_then(|mark| Ok((mark, number("user_version")?)))
        .map_err(|error| unusable(path, &error))?;
    if mark != MARK {
        return Err(Error::File {
            path: path.to_owned(),
            reason: "it is the database of another program".to_owned(),
        });
    }
    if found != VERSION {
        return Err(Error::Version { path: path.to_owned(), found, known: VERSION });
    }
    Ok(())
}

/// Says what is wrong with a file.
pub(crate) fn unusable(path: &Path, error: &rusqlite::Error) -> Error {
    let reason = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => "it is no database; move it away, or name another file".to_owned(),
        Some(ErrorCode::CannotOpen) => why_not(path),
        Some(ErrorCode::DatabaseBusy) => "another process writes to it".to_owned(),
        Some(ErrorCode::ReadOnly) => "it cannot be written by this user".to_owned(),
        _ => error.to_string(),
    };
    Error::File { path: PathBuf::from(path), reason }
}

/// SQLite does not say why a file cannot be opened.
fn why_not(path: &Path) -> String {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => "it is a link, which is not followed".to_owned(),
        Ok(found) if found.is_dir() => "it is a folder".to_owned(),
        Ok(found) if !found.is_file() => "it is a device or a pipe".to_owned(),
        Ok(_) => "this user may not open it".to_owned(),
        Err(reason) if path.parent().is_some_and(Path::is_dir) => reason.to_string(),
        Err(_) => "its folder does not exist".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_file_keeps_the_same_parts() {
        assert_eq!(Kept::within(SIZE), Kept { seconds: 86_400, minutes: 525_600, decisions: 100_000 });
        assert_eq!(Kept::within(u64::MAX), Kept::within(SIZE));
        assert_eq!(Kept::within(SIZE / 16), Kept { seconds: 5_400, minutes: 32_850, decisions: 6_250 });
    }
}

//! The file: its tables, what is added, and what makes room.

use std::path::Path;

use headway_edge::snapshot::DecisionState;
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement, params_from_iter};

use crate::Error;
use crate::file::{Own, why_not};
use crate::point::{COLUMNS, Point, WIDTH};

/// Version of the tables, in the file's `user_version`.
pub(crate) const VERSION: i64 = 1;
/// Marks a file as a history (`application_id`): "HWhi".
pub(crate) const MARK: i64 = 0x4857_6869;
/// Most bytes of the file unless somebody says another number: all rows of a year and their indices had 84 MB
/// with rates of 1 to 100 Mb/s.
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
    /// Declared after `file`, which must be closed first.
    own: Own,
}

/// What is added at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    pub(crate) seconds: Vec<Point>,
    pub(crate) minutes: Vec<Point>,
    pub(crate) decisions: Vec<DecisionState>,
}

impl Store {
    /// Opens a history, or begins one, of at most this many bytes ([`SIZE`]; at least [`LEAST_SIZE`]). A
    /// link is not followed.
    ///
    /// # Errors
    /// When the file cannot be opened, is something else, which stays as it is, or of another version, or
    /// another process adds to it.
    pub fn open(path: &Path, bytes: u64) -> Result<Store, Error> {
        let own = Own::open(path)?;
        if !own.is_empty() {
            check_content(path)?;
        }
        own.make_private(path)?;
        let unusable = |error| unusable(path, &error);
        let file = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(unusable)?;
        let bytes = bytes.max(LEAST_SIZE);
        prepare(&file, bytes - LOG.min(bytes / 2)).map_err(unusable)?;
        Ok(Store { file, kept: Kept::within(bytes), own })
    }

    /// Adds rows, all of them or none. Where the file is as large as it may be, the oldest
    /// tenth makes room first.
    pub(crate) fn add(&mut self, batch: &Batch) -> Result<(), Error> {
        if self.own.is_deleted() {
            return Err(Error::Deleted);
        }
        match self.try_add(batch) {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull) => {
                self.make_room()?;
                self.try_add(batch)?;
            }
            result => result?,
        }
        Ok(())
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

/// Opens a file in SQLite for one thread at a time. A link to the file is not followed, as somebody
/// else may have put it there. Links on the way to its folder are, such as `/var` of OpenWrt; SQLite
/// would refuse these, too.
pub(crate) fn connect(path: &Path, access: OpenFlags) -> Result<Connection, rusqlite::Error> {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let resolved = folder.and_then(|folder| Some(folder.join(path.file_name()?)));
    let flags = access | OpenFlags::SQLITE_OPEN_NOFOLLOW | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(resolved.as_deref().unwrap_or(path), flags)
}

/// Sets how the file is written, and makes its tables.
fn prepare(file: &Connection, bytes: u64) -> Result<(), rusqlite::Error> {
    file.busy_timeout(std::time::Duration::from_secs(2))?;
    file.pragma_update(None, "page_size", PAGE as i64)?;
    file.pragma_update(None, "journal_mode", "wal")?;
    // A power cut may cost what the system has not written back yet, some minutes at
    // most, but never the file.
    file.pragma_update(None, "synchronous", "normal")?;
    file.pragma_update(None, "journal_size_limit", LOG as i64)?;
    file.pragma_update(None, "wal_autocheckpoint", (LOG / PAGE / 2) as i64)?;
    file.pragma_update(None, "temp_store", "memory")?;
    file.pragma_update_and_check(None, "max_page_count", (bytes / PAGE) as i64, |_| Ok(()))?;
    if tables(file)? == 0 {
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

/// Checks that a file is a history of this version, or one that was only begun, without changing it.
fn check_content(path: &Path) -> Result<(), Error> {
    let file = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|error| unusable(path, &error))?;
    let is_begun = tables(&file).and_then(|tables| Ok(tables == 0 && number(&file, "application_id")? == 0));
    match is_begun.map_err(|error| unusable(path, &error))? {
        true => Ok(()),
        false => check_version(&file, path),
    }
}

fn tables(file: &Connection) -> Result<i64, rusqlite::Error> {
    file.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
}

fn number(file: &Connection, pragma: &str) -> Result<i64, rusqlite::Error> {
    file.pragma_query_value(None, pragma, |row| row.get(0))
}

/// Checks that a file is a history of this version.
pub(crate) fn check_version(file: &Connection, path: &Path) -> Result<(), Error> {
    let (mark, found) = number(file, "application_id")
        .and_then(|mark| Ok((mark, number(file, "user_version")?)))
        .map_err(|error| unusable(path, &error))?;
    if mark != MARK {
        return Err(Error::unusable(path, "it is the database of another program".to_owned()));
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
    Error::unusable(path, reason)
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

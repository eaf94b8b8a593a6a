//! Reading a history, also while it is written.

use std::path::Path;

use headway_edge::snapshot::DecisionState;
use rusqlite::{Connection, OpenFlags, Row};

use crate::Error;
use crate::file::check_kind;
use crate::point::{COLUMNS, Point};
use crate::store::{check_version, connect, unusable};

/// What a row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A second; there is a day of them.
    Second,
    /// The mean of a minute; there is a year of them.
    Minute,
}

/// Times since 1970 in ms, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The earliest.
    pub since_ms: u64,
    /// The latest.
    pub until_ms: u64,
}

impl Range {
    fn values(self) -> [i64; 2] {
        [self.since_ms, self.until_ms].map(|time| i64::try_from(time).unwrap_or(i64::MAX))
    }
}

/// Selects decisions as they are read below.
const DECISIONS: &str = "SELECT time_ms, flow, client, server, behaviour, strategies, sentence FROM decision";
/// Selects those of a range, by an index.
const WITHIN: &str = "WHERE time_ms BETWEEN ? AND ?";

/// A history that is only read.
#[derive(Debug)]
pub struct Reader {
    file: Connection,
}

impl Reader {
    /// Opens a history. A link is not followed.
    ///
    /// # Errors
    /// When it cannot be opened, is something else, or of another version.
    pub fn open(path: &Path) -> Result<Reader, Error> {
        check_kind(path)?;
        let file = connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(|error| unusable(path, &error))?;
        check_version(&file, path)?;
        // So that nothing else is opened later, when the process may be allowed less.
        file.pragma_update(None, "temp_store", "memory").map_err(|error| unusable(path, &error))?;
        Ok(Reader { file })
    }

    /// Gives the points of a time to `each`, in the order of their times, until it fails.
    ///
    /// # Errors
    /// When the file cannot be read, or those of `each`.
    pub fn points<E: From<Error>>(
        &self,
        step: Step,
        range: Range,
        each: impl FnMut(Point) -> Result<(), E>,
    ) -> Result<(), E> {
        let table = match step {
            Step::Second => "second",
            Step::Minute => "minute",
        };
        self.rows(&format!("SELECT {} FROM {table}", COLUMNS.join(", ")), range, Point::read, each)
    }

    /// Gives the decisions of a time to `each`, in the order of their times, until it fails.
    ///
    /// # Errors
    /// When the file cannot be read, or those of `each`.
    pub fn decisions<E: From<Error>>(
        &self,
        range: Range,
        each: impl FnMut(DecisionState) -> Result<(), E>,
    ) -> Result<(), E> {
        self.rows(DECISIONS, range, decision, each)
    }

    /// Returns how many decisions a time has, and the latest of them, at most `most`, in the
    /// order of their times.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn last_decisions(&self, range: Range, most: usize) -> Result<(u64, Vec<DecisionState>), Error> {
        let count = format!("SELECT count(*) FROM decision {WITHIN}");
        let count: i64 = self.file.query_row(&count, range.values(), |row| row.get(0))?;
        let select = format!("{DECISIONS} {WITHIN} ORDER BY time_ms DESC, id DESC LIMIT {most}");
        let mut statement = self.file.prepare(&select)?;
        let last = statement.query_map(range.values(), decision)?.collect::<Result<Vec<_>, _>>()?;
        Ok((count.max(0) as u64, last.into_iter().rev().collect()))
    }

    fn rows<T, E: From<Error>>(
        &self,
        select: &str,
        range: Range,
        read: fn(&Row<'_>) -> rusqlite::Result<T>,
        mut each: impl FnMut(T) -> Result<(), E>,
    ) -> Result<(), E> {
        let failed = |error| E::from(Error::Statement(error));
        let select = format!("{select} {WITHIN} ORDER BY time_ms, id");
        let mut statement = self.file.prepare(&select).map_err(failed)?;
        let mut rows = statement.query(range.values()).map_err(failed)?;
        while let Some(row) = rows.next().map_err(failed)? {
            each(read(row).map_err(failed)?)?;
        }
        Ok(())
    }
}

fn decision(row: &Row<'_>) -> rusqlite::Result<DecisionState> {
    let address = |column| {
        let text: String = row.get(column)?;
        text.parse().map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
        })
    };
    let strategies: String = row.get(5)?;
    Ok(DecisionState {
        time_ms: row.get::<_, i64>(0)?.max(0) as u64,
        flow: row.get::<_, i64>(1)? as u64,
        client: address(2)?,
        server: address(3)?,
        behaviour: row.get(4)?,
        strategies: strategies.split_whitespace().map(str::to_owned).collect(),
        sentence: row.get(6)?,
    })
}

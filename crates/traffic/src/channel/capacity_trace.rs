//! Capacity traces: the times at which a link can send a packet.

use std::path::{Path, PathBuf};

use headway_units::config_error::check;
use headway_units::{Bytes, ConfigError, Duration, Rate};
use serde::{Deserialize, Serialize};

/// Wire bytes that one opportunity can carry: a packet of 1500 IP bytes.
const OPPORTUNITY: Bytes = Bytes::new(1538);

/// Opportunities to send a packet within a period that repeats: that of the last opportunity.
///
/// In a scenario file, the name of a file in the format of mahimahi: one time in milliseconds per line,
/// ascending, for each packet of 1500 bytes. `#` starts a comment. A trace that has been read is written as a
/// list of milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct CapacityTrace {
    /// A file that has not been read yet.
    file: Option<PathBuf>,
    opportunities: Vec<Duration>,
}

/// The form in a file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    File(PathBuf),
    Milliseconds(Vec<u32>),
}

impl From<Written> for CapacityTrace {
    fn from(written: Written) -> CapacityTrace {
        let ms = |ms: u32| Duration::from_ms(i64::from(ms));
        match written {
            Written::File(file) => CapacityTrace { file: Some(file), opportunities: Vec::new() },
            Written::Milliseconds(times) => {
                CapacityTrace { file: None, opportunities: times.into_iter().map(ms).collect() }
            }
        }
    }
}

impl From<CapacityTrace> for Written {
    fn from(trace: CapacityTrace) -> Written {
        let ms = |time: Duration| u32::try_from(time.ns() / 1_000_000).unwrap_or(u32::MAX);
        let times = || trace.opportunities.into_iter().map(ms).collect();
        trace.file.map_or_else(|| Written::Milliseconds(times()), Written::File)
    }
}

impl CapacityTrace {
    /// Returns the file, as named, that has not been read yet.
    pub fn unread(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads the file, if it has not been read, relative to `folder`, and checks the opportunities.
    ///
    /// # Errors
    /// Names `key`, and the file with the line if there is one, when that cannot be read or when
    /// opportunities are missing or not ascending.
    pub fn load(&mut self, folder: &Path, key: &str) -> Result<(), ConfigError> {
        let Some(file) = self.file.take() else { return self.check(key) };
        let path = folder.join(&file);
        let wrong = |why: String| ConfigError::new(key, &why);
        let text = headway_input::text(&path, headway_input::TRACE)
            .map_err(|error| wrong(format!("{}: {error}", path.display())))?;
        *self = CapacityTrace::parse(&text, &path).map_err(|mistake| wrong(mistake.to_string()))?;
        self.check(key).map_err(|mistake| wrong(format!("{}: {}", path.display(), mistake.message())))
    }

    /// Parses the text of such a file, without the checks of [`CapacityTrace::check`];
    /// `path` is named in errors.
    ///
    /// # Errors
    /// When a line is not a time or is earlier than the line before.
    pub fn parse(text: &str, path: &Path) -> Result<CapacityTrace, ConfigError> {
        let mut opportunities: Vec<Duration> = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let wrong = |what: &str| ConfigError::at(text, path, Some(start..start), what);
            let word = line.split('#').next().unwrap_or_default().trim();
            if !word.is_empty() {
                let ms: u32 =
                    word.parse().map_err(|_| wrong("must be a whole number of milliseconds, from 0 on"))?;
                let time = Duration::from_ms(i64::from(ms));
                if opportunities.last().is_some_and(|last| *last > time) {
                    return Err(wrong("is earlier than the line before"));
                }
                opportunities.push(time);
            }
            start += line.len();
        }
        Ok(CapacityTrace { file: None, opportunities })
    }

    /// Checks the opportunities.
    ///
    /// # Errors
    /// Names `key` if they do not ascend or none is after 0 ms.
    pub fn check(&self, key: &str) -> Result<(), ConfigError> {
        check(key, self.opportunities.is_sorted(), "must have ascending times")?;
        let rule = "must have a time after 0 ms: one in milliseconds for each packet of 1500 bytes";
        check(key, self.period() > Duration::ZERO, rule)
    }

    /// Returns the times of the opportunities, ascending.
    pub fn opportunities(&self) -> &[Duration] {
        &self.opportunities
    }

    /// Returns the time after which the trace repeats.
    pub fn period(&self) -> Duration {
        self.opportunities.last().copied().unwrap_or_default()
    }

    /// Returns the mean rate, counting wire bytes.
    pub fn mean_rate(&self) -> Rate {
        Rate::of(OPPORTUNITY * self.opportunities.len() as u64, self.period()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<CapacityTrace, ConfigError> {
        CapacityTrace::parse(text, Path::new("x.trace"))
    }

    #[test]
    fn a_trace_repeats_after_its_last_opportunity() {
        let trace = parse("0\n5 # comment\n5\n10\n").unwrap();
        assert_eq!((trace.period(), trace.opportunities().len()), (Duration::from_ms(10), 4));
        assert_eq!(trace.mean_rate(), Rate::from_bps(4 * 1538 * 800));
    }

    #[test]
    fn mistakes_name_the_line() {
        let error = |text| parse(text).unwrap_err().to_string();
        assert_eq!(error("1\nx\n"), "x.trace, line 2: must be a whole number of milliseconds, from 0 on");
        assert_eq!(error("5\n\n4\n"), "x.trace, line 3: is earlier than the line before");
    }

    #[test]
    fn what_has_no_period_is_refused_with_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let error = |written: &str| {
            let mut trace: CapacityTrace = serde_json::from_str(written).unwrap();
            trace.load(folder.path(), "link[0].trace").unwrap_err().to_string()
        };
        let rule = "must have a time after 0 ms: one in milliseconds for each packet of 1500 bytes";
        let path = folder.path().join("t");
        for text in ["", "# nothing\n", "0\n0\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(error("\"t\""), format!("`link[0].trace`: {}: {rule}", path.display()));
        }
        std::fs::write(&path, "1\nx\n").unwrap();
        let line = format!(
            "`link[0].trace`: {}, line 2: must be a whole number of milliseconds, from 0 on",
            path.display()
        );
        assert_eq!(error("\"t\""), line);
        for list in ["[]", "[0]"] {
            assert_eq!(error(list), format!("`link[0].trace`: {rule}"));
        }
        assert_eq!(error("[5, 4]"), "`link[0].trace`: must have ascending times");
    }
}

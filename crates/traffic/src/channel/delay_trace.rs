//! A one-way delay that changes over time as given by a list or a file.

use std::path::{Path, PathBuf};

use headway_units::config_error::check;
use headway_units::{ConfigError, Duration};
use serde::{Deserialize, Serialize};

/// Delays and the times from which they apply, counted from when the link came up; the last delay stays.
///
/// In a scenario file, either a list such as `[["0 s", "10 ms"], ["5 s", "30 ms"]]` or the name of a
/// file. Each line of the file has two numbers in milliseconds: a time and the delay from then on.
/// `#` starts a comment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Written", into = "Written")]
pub struct DelayTrace {
    /// A file that has not been read yet.
    file: Option<PathBuf>,
    points: Vec<(Duration, Duration)>,
}

/// The form in a scenario file.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    File(PathBuf),
    Points(Vec<(Duration, Duration)>),
}

impl From<Written> for DelayTrace {
    fn from(written: Written) -> DelayTrace {
        match written {
            Written::File(file) => DelayTrace { file: Some(file), points: Vec::new() },
            Written::Points(points) => DelayTrace { file: None, points },
        }
    }
}

impl From<DelayTrace> for Written {
    fn from(trace: DelayTrace) -> Written {
        trace.file.map_or(Written::Points(trace.points), Written::File)
    }
}

impl DelayTrace {
    /// Returns the file, as named, that has not been read yet.
    pub fn unread(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// Reads and checks the file, if there is one, relative to `folder`.
    ///
    /// # Errors
    /// Names `key` and the file if that cannot be read or understood, or breaks a rule of
    /// [`DelayTrace::check`].
    pub fn load(&mut self, folder: &Path, key: &str) -> Result<(), ConfigError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let path = folder.join(&file);
        let wrong = |why: String| ConfigError::new(key, &format!("{}: {why}", path.display()));
        let text =
            headway_input::text(&path, headway_input::TRACE).map_err(|error| wrong(error.to_string()))?;
        self.points = DelayTrace::parse(&text)
            .map_err(|line| wrong(format!("line {line}: must be two numbers of milliseconds, from 0 on")))?
            .points;
        self.check(key).map_err(|mistake| wrong(mistake.message().to_owned()))
    }

    /// Parses the text of a file, without the checks of [`DelayTrace::check`].
    ///
    /// # Errors
    /// The number of the first line, from 1, that is not two numbers of milliseconds.
    pub fn parse(text: &str) -> Result<DelayTrace, usize> {
        let mut points = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                points.push(point(line).ok_or(number + 1)?);
            }
        }
        Ok(DelayTrace { file: None, points })
    }

    /// Checks the points.
    ///
    /// # Errors
    /// Names `key` if there are none, if times do not ascend, or if values are out of range.
    pub fn check(&self, key: &str) -> Result<(), ConfigError> {
        check(key, !self.points.is_empty(), "has no points")?;
        let ascending = self.points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        check(key, ascending, "must have ascending times")?;
        let range = Duration::ZERO..=Duration::from_ms(10_000);
        let bounded = self.points.iter().all(|(at, delay)| *at >= Duration::ZERO && range.contains(delay));
        check(key, bounded, "must have times of at least 0 and delays of at most 10 s")
    }

    /// Returns the delay at time `since` after the link came up; before the first point, the
    /// delay of the first point.
    pub fn at(&self, since: Duration) -> Duration {
        let index = self.points.partition_point(|(at, _)| *at <= since).saturating_sub(1);
        self.points.get(index).map_or(Duration::ZERO, |(_, delay)| *delay)
    }

    /// Returns the shortest delay.
    pub fn least(&self) -> Duration {
        self.points.iter().map(|(_, delay)| *delay).min().unwrap_or_default()
    }

    /// Returns the longest delay.
    pub fn most(&self) -> Duration {
        self.points.iter().map(|(_, delay)| *delay).max().unwrap_or_default()
    }

    /// Returns the trace with `delay` added to all delays.
    pub fn plus(&self, delay: Duration) -> DelayTrace {
        let points = self.points.iter().map(|(at, before)| (*at, *before + delay)).collect();
        DelayTrace { points, ..self.clone() }
    }

    /// Returns the trace with all times and delays multiplied by `factor`.
    pub fn dilated(&self, factor: u32) -> DelayTrace {
        let factor = i64::from(factor);
        let points = self.points.iter().map(|(at, delay)| (*at * factor, *delay * factor)).collect();
        DelayTrace { points, ..self.clone() }
    }
}

/// Parses one line of a trace file.
fn point(line: &str) -> Option<(Duration, Duration)> {
    let mut numbers = line.split([' ', '\t', ',']).filter(|word| !word.is_empty()).map(str::parse::<f64>);
    let (at, delay) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    let right = numbers.next().is_none() && (0.0..1e9).contains(&at) && (0.0..1e9).contains(&delay);
    right.then(|| (Duration::from_secs_f64(at / 1e3), Duration::from_secs_f64(delay / 1e3)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_is_that_of_the_last_point_passed() {
        let trace: DelayTrace =
            serde_json::from_str(r#"[["1 s", "10 ms"], ["2 s", "30 ms"], ["2500 ms", "0 ms"]]"#).unwrap();
        assert!(trace.check("x").is_ok());
        let ms = |at| trace.at(Duration::from_ms(at)).ms();
        assert_eq!([ms(0), ms(1_999), ms(2_000), ms(2_499), ms(9_000)], [10.0, 10.0, 30.0, 30.0, 0.0]);
    }

    #[test]
    fn a_file_has_two_numbers_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            std::fs::write(folder.path().join("t"), text).unwrap();
            let mut trace: DelayTrace = serde_json::from_str("\"t\"").unwrap();
            trace.load(folder.path(), "forward.delay-trace").map(|()| trace)
        };
        let trace = read("# ms, ms\n0 10.5\n\n100,20 # later\n").unwrap();
        assert_eq!(trace.at(Duration::from_ms(99)), Duration::from_us(10_500));
        assert_eq!(trace.at(Duration::from_ms(100)), Duration::from_ms(20));
        let again: DelayTrace = serde_json::from_str(&serde_json::to_string(&trace).unwrap()).unwrap();
        assert_eq!(again, trace);
        for (text, complaint) in [
            ("0 10\n5\n", "line 2"),
            ("0 x\n", "line 1"),
            ("0 -10\n", "line 1: must be two numbers of milliseconds, from 0 on"),
            ("0 10 3\n", "line 1"),
            ("", "no points"),
            ("5 1\n5 2\n", "ascending"),
            ("0 10001\n", "at most 10 s"),
        ] {
            let error = read(text).unwrap_err().to_string();
            let file = folder.path().join("t").display().to_string();
            for part in [complaint, "forward.delay-trace", &file] {
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }
}

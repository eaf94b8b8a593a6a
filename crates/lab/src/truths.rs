//! The truth file: lines of all links and directions, in order of time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use headway_units::Instant;

use crate::error::Error;
use crate::spec::Direction;
use crate::truth::{Interval, Truth};

/// How far [`Truths::load_since`] first goes back, in bytes: about a minute of 10 ms intervals of one link.
const PIECE: u64 = 1 << 20;

/// The truth about all links of a lab.
#[derive(Clone, Debug, Default)]
pub struct Truths {
    /// Names and truths; the only link of a file has no name.
    links: Vec<(String, Truth)>,
}

impl Truths {
    /// Reads a truth file and ignores an incomplete last line, which is still being written.
    ///
    /// # Errors
    /// If the file cannot be read or has an invalid line.
    pub(crate) fn load(path: &Path) -> Result<Truths, Error> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::file("read", path, e))?;
        Truths::parse(&text).map_err(|line| Error::Truth { path: path.to_owned(), line })
    }

    /// Parses the text of a truth file and ignores an incomplete last line.
    ///
    /// # Errors
    /// The number of the first invalid line, from 1.
    pub fn parse(text: &str) -> Result<Truths, usize> {
        let body = text.split_once('\n').map_or("", |(_, body)| body);
        Truths::parse_lines(body).map_err(|line| line + 1)
    }

    /// Reads the end of a truth file with this number of lanes, back to the intervals that contain `from` or
    /// to the beginning of the file.
    pub(crate) fn load_since(path: &Path, from: Instant, lanes: usize) -> Result<Truths, Error> {
        let failed = |e| Error::file("read", path, e);
        let file = File::open(path).map_err(failed)?;
        let mut start = file.metadata().map_err(failed)?.len();
        let (mut text, mut size) = (Vec::new(), PIECE);
        loop {
            let step = start.min(size);
            size *= 2;
            start -= step;
            let mut piece = vec![0; step as usize];
            file.read_exact_at(&mut piece, start).map_err(failed)?;
            text.splice(..0, piece);
            // Skip the first line: it is incomplete, or the header.
            let body = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| end + 1);
            let body = String::from_utf8_lossy(&text[body..]);
            if start == 0 || begins_before(&body, from, lanes) {
                let unknown = |line| Error::Truth { path: path.to_owned(), line };
                return Truths::parse_lines(&body).map_err(unknown);
            }
        }
    }

    /// Parses lines without the header; the error is the number of the invalid line, from 1.
    fn parse_lines(text: &str) -> Result<Truths, usize> {
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut truths = Truths::default();
        for (number, line) in complete.lines().enumerate() {
            let (lane, interval) = Interval::read_csv(line).ok_or(number + 1)?;
            let (link, direction) = lane.split_once(':').unwrap_or(("", lane));
            truths.link_mut(link).push(direction.parse().map_err(|_| number + 1)?, interval);
        }
        Ok(truths)
    }

    /// Returns the truth about the link of this name.
    ///
    /// # Errors
    /// If the file has no such link. The only link of a lab has no name in its file.
    pub fn link(&self, name: &str) -> Result<&Truth, Error> {
        let found = self.links.iter().find(|(link, _)| link == name);
        found
            .map(|(_, truth)| truth)
            .ok_or_else(|| Error::Link(format!("`{name}` is not a link of this truth")))
    }

    /// Returns all links with their names, in the order of the lab.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Truth)> {
        self.links.iter().map(|(name, truth)| (name.as_str(), truth))
    }

    /// Returns the truth about the only link.
    ///
    /// # Errors
    /// If there are several.
    pub(crate) fn into_only(mut self) -> Result<Truth, Error> {
        match (self.links.pop(), self.links.is_empty()) {
            (last, true) => Ok(last.map(|(_, truth)| truth).unwrap_or_default()),
            _ => Err(Error::Link("this truth is about several links, so one must be named".to_owned())),
        }
    }

    /// Names the only link of a file.
    pub(crate) fn named(mut self, name: &str) -> Truths {
        if let [(only, _)] = &mut self.links[..] {
            name.clone_into(only);
        }
        self
    }

    /// Prepends the intervals of `earlier`.
    pub(crate) fn prepend(&mut self, earlier: Truths) {
        for (name, truth) in earlier.links {
            self.link_mut(&name).prepend(truth);
        }
    }

    /// Whether a direction of a link is missing or begins after `time`.
    pub(crate) fn begins_after(&self, time: Instant) -> bool {
        let late = |truth: &Truth, direction| {
            truth.intervals(direction).first().is_none_or(|first| first.start > time)
        };
        self.links.is_empty()
            || self.links.iter().any(|(_, truth)| Direction::BOTH.iter().any(|way| late(truth, *way)))
    }

    fn link_mut(&mut self, name: &str) -> &mut Truth {
        let index = self.links.iter().position(|(link, _)| link == name).unwrap_or_else(|| {
            self.links.push((name.to_owned(), Truth::default()));
            self.links.len() - 1
        });
        &mut self.links[index].1
    }
}

/// Whether all lanes have a line for an interval that begins at or before `time`.
fn begins_before(body: &str, time: Instant, lanes: usize) -> bool {
    let mut seen: Vec<&str> = Vec::new();
    for line in body.lines() {
        let Some((lane, interval)) = Interval::read_csv(line) else { return false };
        if seen.contains(&lane) {
            continue;
        }
        if interval.start > time {
            return false;
        }
        seen.push(lane);
        if seen.len() == lanes {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use headway_record::csv::{header, lines};
    use headway_units::{Duration, Rate};

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(1_700_000_000_000_000_000 + ms * 1_000_000)
    }

    fn interval(ms: u64) -> Interval {
        let delays = (0..8).map(|delay| (delay, 1)).collect();
        Interval { delays, ..Interval::empty(at(ms), Duration::from_ms(10), Rate::from_mbps(100.0)) }
    }

    fn text(lanes: &[&str], count: u64) -> String {
        let rows = (0..count).flat_map(|k| lanes.iter().map(move |lane| interval(10 * k).row(lane)));
        header(Interval::default().row("")) + &lines(rows)
    }

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn an_incomplete_last_line_is_ignored_and_nonsense_is_not() {
        let file = file(&(text(&["forward", "reverse"], 3) + "1700000"));
        let truth = Truth::load(file.path()).unwrap();
        assert_eq!(truth.intervals(Direction::Forward)[1], interval(10));
        assert_eq!(truth.intervals(Direction::Reverse).len(), 3);
        for line in ["nonsense\n", "0,10,h1-r1:sideways,1\n", "10,0,forward,1\n"] {
            assert_eq!(Truths::parse_lines(line).unwrap_err(), 1);
        }
    }

    #[test]
    fn the_first_columns_are_those_of_the_truth_of_a_run() {
        let (of_lab, of_run) =
            (header(Interval::default().row("")), headway_record::Series::default().truth_csv());
        assert!(of_lab.starts_with(of_run.trim_end()), "{of_lab}{of_run}");
        let (begin, bits) = (at(0).ns(), 8 * 12_345 + 7);
        let logged = Interval { cross_bits: bits, host_drops: 2, cross_drops: 3, ..interval(0) };
        let line = lines([logged.row("forward")]);
        let expected = format!("{begin},{},forward,125000,0,12345,112655,5,0,", begin + 10_000_000);
        assert!(line.starts_with(&expected), "{line}");
        assert_eq!(Interval::read_csv(line.trim_end()), Some(("forward", logged)));
    }

    #[test]
    fn every_link_has_a_truth_of_its_own() {
        let lanes = ["h1-r1:forward", "h1-r1:reverse", "r1-h2:forward", "r1-h2:reverse"];
        let truths = Truths::parse_lines(text(&lanes, 3).split_once('\n').unwrap().1).unwrap();
        assert_eq!(truths.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["h1-r1", "r1-h2"]);
        assert_eq!(truths.link("r1-h2").unwrap().intervals(Direction::Reverse).len(), 3);
        assert!(truths.link("h1-h2").is_err());
        assert!(truths.into_only().is_err());
    }

    #[test]
    fn the_end_of_a_long_file_is_enough() {
        for lanes in [&["forward", "reverse"][..], &["a:forward", "a:reverse", "b:forward", "b:reverse"]] {
            let text = text(lanes, 30_000);
            assert!(text.len() as u64 > 4 * PIECE);
            let file = file(&text);
            for ms in [0, 250_005, 299_990, 299_999] {
                let part = Truths::load_since(file.path(), at(ms), lanes.len()).unwrap();
                for (_, truth) in part.iter() {
                    assert!(truth.intervals(Direction::Forward)[0].start <= at(ms));
                    assert_eq!(truth.end(), Some(at(300_000)));
                    assert_eq!(truth.intervals(Direction::Reverse).len() == 30_000, ms == 0);
                }
            }
            let whole = Truths::load(file.path()).unwrap();
            assert!(whole.iter().all(|(_, truth)| truth.intervals(Direction::Forward).len() == 30_000));
        }
    }
}

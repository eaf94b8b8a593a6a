//! Capacity traces: the times at which a link can send a packet.

use std::path::Path;

use headway_core::{Bytes, Duration, Mistake, Rate};

use crate::error::Error;

/// Wire bytes that one opportunity can carry: a packet of 1500 IP bytes.
const OPPORTUNITY: Bytes = Bytes::new(1538);

/// Delivery opportunities within a repeating period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Times of the opportunities, ascending.
    pub opportunities: Vec<Duration>,
    /// The time after which the trace repeats: that of the last opportunity.
    pub period: Duration,
}

impl Trace {
    /// Reads a file in the format of mahimahi: one time in milliseconds per line, one line per 1500-byte
    /// packet.
    ///
    /// # Errors
    /// When the file cannot be read, or a line is not a time or is earlier than the line before.
    pub fn load(path: &Path) -> Result<Trace, Error> {
        let text =
            headway_input::text(path, headway_input::TRACE).map_err(|e| Error::file("read", path, e))?;
        Ok(Trace::parse(&text, path)?)
    }

    /// Parses the text of such a file; `path` is named in errors.
    ///
    /// # Errors
    /// As for [`Trace::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Trace, Mistake> {
        let mut opportunities: Vec<Duration> = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let wrong = |what: &str| Mistake::at(text, path, Some(start..start), what);
            let word = line.split('#').next().unwrap_or_default().trim();
            if !word.is_empty() {
                let ms: u32 = word.parse().map_err(|_| wrong("must be a whole number of milliseconds"))?;
                let time = Duration::from_ms(i64::from(ms));
                if opportunities.last().is_some_and(|last| *last > time) {
                    return Err(wrong("is earlier than the line before"));
                }
                opportunities.push(time);
            }
            start += line.len();
        }
        match opportunities.last() {
            Some(&period) if period > Duration::ZERO => Ok(Trace { opportunities, period }),
            _ => Err(Mistake::at(text, path, None, "must have an opportunity after 0 ms")),
        }
    }

    /// Returns the mean rate, counting wire bytes.
    pub fn mean_rate(&self) -> Rate {
        Rate::of(OPPORTUNITY * self.opportunities.len() as u64, self.period).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Trace, Mistake> {
        Trace::parse(text, Path::new("x.trace"))
    }

    #[test]
    fn a_trace_repeats_after_its_last_opportunity() {
        let trace = parse("0\n5 # comment\n5\n10\n").unwrap();
        assert_eq!((trace.period, trace.opportunities.len()), (Duration::from_ms(10), 4));
        assert_eq!(trace.mean_rate(), Rate::from_bps(4 * 1538 * 800));
    }

    #[test]
    fn mistakes_name_the_line() {
        let error = |text| parse(text).unwrap_err().to_string();
        assert_eq!(error("1\nx\n"), "x.trace, line 2: must be a whole number of milliseconds");
        assert_eq!(error("5\n\n4\n"), "x.trace, line 3: is earlier than the line before");
        assert_eq!(error("0\n"), "x.trace: must have an opportunity after 0 ms");
    }
}

//! Times in which a link transmits nothing.

use headway_units::{Duration, RateSteps};
use serde::{Deserialize, Serialize};

use super::OutOfRange;

/// Most outages of a link: 3 MB of rates.
const MOST: i64 = 100_000;

/// Times in which a link transmits nothing: packets wait in its queue.
///
/// In files a list of starts and lengths, such as `[["10 s", "200 ms"], ["20 s", "1 s"]]`, or the table of
/// outages that recur: `{ every = "5 s", length = "200 ms" }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "needs starts and lengths such as `[[\"10 s\", \"200 ms\"]]`, or `every` and `length`"
)]
pub enum Outages {
    /// Starts and lengths.
    Listed(Vec<(Duration, Duration)>),
    /// Outages that recur.
    Recurring(Recurring),
}

/// Outages that recur.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recurring {
    /// Time from the beginning of one to that of the next.
    pub every: Duration,
    /// How long each lasts.
    pub length: Duration,
    /// When the first begins; default after `every`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Duration>,
}

impl Outages {
    /// Returns what is wrong, if anything is.
    pub fn mistake(&self) -> Option<OutOfRange> {
        match self {
            Outages::Listed(list) => {
                let starts = list.first().is_none_or(|(start, _)| *start > Duration::ZERO);
                if !starts || list.iter().any(|(_, length)| *length <= Duration::ZERO) {
                    return Some(("", "must begin after 0 s and last longer than 0 s"));
                }
                let apart = list.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0);
                (!apart).then_some(("", "must have ascending times, with a pause between outages"))
            }
            Outages::Recurring(Recurring { every, length, start }) => {
                if *length <= Duration::ZERO {
                    return Some((".length", "must be more than 0"));
                }
                if length >= every {
                    return Some((".every", "must be longer than `length`"));
                }
                let starts = start.is_none_or(|start| start > Duration::ZERO);
                (!starts).then_some((".start", "must be more than 0"))
            }
        }
    }

    /// Returns `rates` with these outages, of those that recur the ones that begin before
    /// `end`, 100 000 at most.
    pub fn apply(&self, rates: &RateSteps, end: Duration) -> RateSteps {
        match self {
            Outages::Listed(list) => rates.with_outages(list.iter().copied()),
            Outages::Recurring(Recurring { every, length, start }) => {
                let first = start.unwrap_or(*every);
                let times = (0..MOST).map(|number| first + *every * number);
                rates.with_outages(times.take_while(|at| *at < end).map(|at| (at, *length)))
            }
        }
    }

    /// Returns the same outages with all times multiplied by `factor`.
    pub fn dilated(&self, factor: u32) -> Outages {
        let factor = i64::from(factor);
        match self {
            Outages::Listed(list) => Outages::Listed(
                list.iter().map(|(start, length)| (*start * factor, *length * factor)).collect(),
            ),
            Outages::Recurring(Recurring { every, length, start }) => Outages::Recurring(Recurring {
                every: *every * factor,
                length: *length * factor,
                start: start.map(|start| start * factor),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use headway_units::Rate;

    use super::*;

    fn read(text: &str) -> Outages {
        let mut table: std::collections::HashMap<String, Outages> =
            toml::from_str(&format!("outages = {text}")).unwrap();
        table.remove("outages").unwrap()
    }

    #[test]
    fn outages_recur_until_the_end() {
        let outages = read(r#"{every="5 s",length="200 ms"}"#);
        let rates = outages.apply(&RateSteps::constant(Rate::from_mbps(1.0)), Duration::from_ms(15_000));
        let steps: Vec<_> = rates.list().map(|(at, rate)| (at.ns() / 1_000_000, rate.mbps())).collect();
        let expected = [(0, 1.0), (5_000, 0.0), (5_200, 1.0), (10_000, 0.0), (10_200, 1.0)];
        assert_eq!(steps, expected);
        let twice = outages.dilated(2);
        assert_eq!(twice, read(r#"{every="10 s",length="400 ms"}"#));
    }

    #[test]
    fn outages_that_make_no_sense_are_refused_with_their_key() {
        for (text, key) in [
            (r#"[["0 s","1 s"]]"#, ""),
            (r#"[["1 s","0 s"]]"#, ""),
            (r#"[["1 s","1 s"],["2 s","1 s"]]"#, ""),
            (r#"{every="1 s",length="0 s"}"#, ".length"),
            (r#"{every="1 s",length="1 s"}"#, ".every"),
            (r#"{every="1 s",length="1 ms",start="0 s"}"#, ".start"),
        ] {
            assert_eq!(read(text).mistake().map(|(key, _)| key), Some(key), "{text}");
        }
        assert_eq!(read(r#"[["1 s","1 s"],["3 s","1 ms"]]"#).mistake(), None);
    }
}

//! What a model has seen: a range for each statistic, and how far a stream or window may be from their mean.

use std::fmt;

use headway_units::{Duration, Rate};

use crate::error::{FileError, wrong};
use crate::file::{self, TimeUnit};
use crate::network::dot;
use crate::{check, stream, window};

/// No path of a training is silent for so long: interrupts come far more often, and no data are made with
/// outages. Range 20 to 50 ms.
const STALL: Duration = Duration::from_ms(40);

/// A statistic of a stream or of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Statistic {
    /// Of a stream, whose gaps are counted in this unit.
    Stream(stream::Statistic, TimeUnit),
    /// Of a window.
    Window(window::Statistic),
}

/// Where a stream or window lies outside of what a model has seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Outside {
    /// A statistic is out of its range.
    Range {
        /// Which one.
        statistic: Statistic,
        /// Its value.
        value: f64,
        /// The lowest one that the model has seen.
        low: f64,
        /// The highest one.
        high: f64,
    },
    /// Each statistic is within its range, but together they are too far from the mean of all.
    Distance {
        /// In standard deviations.
        distance: f64,
        /// The largest one that is taken.
        limit: f64,
    },
    /// Delays vary where nothing queues.
    Jitter {
        /// By how much.
        span: Duration,
    },
    /// Nothing arrives for a time.
    Stall {
        /// For how long.
        length: Duration,
    },
    /// What is available moves while it is measured.
    Moving {
        /// The lowest rate that streams said.
        low: Rate,
        /// The highest one.
        high: Rate,
    },
    /// Streams are like those that the model has seen, but what they say of the path is not.
    Free {
        /// The available bandwidth as a share of the capacity.
        share: f64,
        /// The lowest one that the model has seen.
        low: f64,
        /// The highest one.
        high: f64,
    },
}

/// The statistics that are checked, in the order of the file.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    /// Each with its place among all statistics of its kind, and its range.
    ranges: Vec<(Statistic, usize, f64, f64)>,
    mean: Vec<f64>,
    /// A row for each direction.
    whiten: Vec<f64>,
    limit: f64,
    free: Option<(f64, f64)>,
}

/// The kind of input that statistics are of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Stream(TimeUnit),
    Window,
}

impl Kind {
    /// Returns the statistic of a name, and its place among all.
    fn find(self, name: &str) -> Option<(Statistic, usize)> {
        match self {
            Kind::Stream(unit) => {
                let place = stream::Statistic::ALL.into_iter().position(|one| one.name() == name)?;
                Some((Statistic::Stream(stream::Statistic::ALL[place], unit), place))
            }
            Kind::Window => {
                let place = window::Statistic::ALL.into_iter().position(|one| one.name() == name)?;
                Some((Statistic::Window(window::Statistic::ALL[place]), place))
            }
        }
    }

    fn names(self) -> String {
        match self {
            Kind::Stream(_) => stream::Statistic::ALL.map(stream::Statistic::name).join(", "),
            Kind::Window => window::Statistic::ALL.map(window::Statistic::name).join(", "),
        }
    }
}

impl Domain {
    pub(crate) fn new(file: &file::Domain, kind: Kind) -> Result<Domain, FileError> {
        let count = file.statistics.len();
        for (name, values) in [("low", &file.low), ("high", &file.high), ("mean", &file.mean)] {
            let place = format!("domain.{name}");
            check::length(&place, values.len(), count, "statistics")?;
            check::finite(&place, values)?;
        }
        check::length("domain.whiten", file.whiten.len(), count, "statistics")?;
        for (number, row) in file.whiten.iter().enumerate() {
            let place = format!("domain.whiten[{number}]");
            check::length(&place, row.len(), count, "statistics")?;
            check::finite(&place, row)?;
        }
        if !(file.limit.is_finite() && file.limit >= 0.0) {
            return Err(wrong("domain.limit", "must be at least 0"));
        }
        if file.free.is_some_and(|(low, high)| !(0.0 <= low && low <= high && high.is_finite())) {
            return Err(wrong("domain.free", "must be two shares of the capacity in ascending order"));
        }
        let ranges = (0..count).map(|number| range(file, kind, number)).collect::<Result<Vec<_>, _>>()?;
        Ok(Domain {
            ranges,
            mean: file.mean.clone(),
            whiten: file.whiten.concat(),
            limit: file.limit,
            free: file.free,
        })
    }

    /// Whether it has a statistic that depends on the capacity; all of a window do but their number.
    pub(crate) fn needs_capacity(&self) -> bool {
        let free = |one: &Statistic| *one == Statistic::Window(window::Statistic::LogSamples);
        self.ranges.iter().any(|(statistic, ..)| !free(statistic))
    }

    /// Returns the range of the logarithm of the mean send gap.
    pub(crate) fn send_gaps(&self) -> Option<(f64, f64)> {
        let is_send = |one: &Statistic| matches!(one, Statistic::Stream(stream::Statistic::LogSendGap, _));
        self.ranges.iter().find(|(statistic, ..)| is_send(statistic)).map(|(.., low, high)| (*low, *high))
    }

    /// Checks what a measurement of many streams found to be available, as a share of the capacity.
    pub(crate) fn check_free(&self, share: f64) -> Result<(), Outside> {
        match self.free {
            Some((low, high)) if !(low..=high).contains(&share) => Err(Outside::Free { share, low, high }),
            _ => Ok(()),
        }
    }

    /// Checks whether nothing arrived for a time during a stream.
    pub(crate) fn check_stall(&self, gaps: stream::Gaps<'_>) -> Result<(), Outside> {
        let silent = gaps.send.iter().zip(gaps.receive).map(|(send, receive)| *receive - *send).max();
        match silent {
            Some(length) if length >= STALL => Err(Outside::Stall { length }),
            _ => Ok(()),
        }
    }

    /// Checks the statistics of a stream or of a window, `all` in their usual order; `away` is memory.
    pub(crate) fn check(&self, all: &[f64], away: &mut Vec<f64>) -> Result<(), Outside> {
        if let Some(outside) = self.farthest(all) {
            return Err(outside);
        }
        away.clear();
        away.extend(self.ranges.iter().zip(&self.mean).map(|((_, place, ..), mean)| all[*place] - mean));
        let rows = self.whiten.chunks_exact(away.len().max(1));
        let distance = rows.map(|row| dot(row, away).powi(2)).sum::<f64>().sqrt();
        if distance <= self.limit { Ok(()) } else { Err(Outside::Distance { distance, limit: self.limit }) }
    }

    /// Returns the statistic that is farthest out of its range, as a share of it.
    fn farthest(&self, all: &[f64]) -> Option<Outside> {
        let mut worst = None;
        for &(statistic, place, low, high) in &self.ranges {
            let value = all[place];
            if (low..=high).contains(&value) {
                continue;
            }
            let by = (low - value).max(value - high) / (high - low).max(f64::MIN_POSITIVE);
            if worst.is_none_or(|(most, _)| by > most) {
                worst = Some((by, Outside::Range { statistic, value, low, high }));
            }
        }
        worst.map(|(_, outside)| outside)
    }
}

/// Reads the name and the range of one statistic.
fn range(file: &file::Domain, kind: Kind, number: usize) -> Result<(Statistic, usize, f64, f64), FileError> {
    let name = &file.statistics[number];
    let place = format!("domain.statistics[{number}]");
    let Some((statistic, at)) = kind.find(name) else {
        return Err(wrong(place, format!("is none of {}", kind.names())));
    };
    if file.statistics[..number].contains(name) {
        return Err(wrong(place, "is there twice"));
    }
    let (low, high) = (file.low[number], file.high[number]);
    if low > high {
        return Err(wrong(format!("domain.low[{number}]"), "is above the entry of `high`"));
    }
    Ok((statistic, at, low, high))
}

impl fmt::Display for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Outside::Range { statistic, value, low, high } => {
                let [value, low, high] = [value, low, high].map(|one| shown(statistic, one));
                write!(f, "{}; the model has seen {low} to {high}", sentence(statistic, &value))
            }
            Outside::Distance { distance, limit } => write!(
                f,
                "what it sees is as a whole unlike what the model has seen: {distance:.1} standard deviations from it, \
                 where {limit:.1} are the most"
            ),
            Outside::Jitter { span } => write!(
                f,
                "delays vary by {span} where nothing queues; the model has seen no jitter, so gaps mean something else to it"
            ),
            Outside::Stall { length } => {
                write!(f, "the path stalls: nothing arrives for {length}; the model has seen no stalls")
            }
            Outside::Moving { low, high } => write!(
                f,
                "what is available moves between {low} and {high} while it is measured; the model has seen only paths whose \
                 rate and load stay as they are"
            ),
            Outside::Free { share, low, high } => write!(
                f,
                "{:.0} % of the capacity would be free; the model has seen {:.0} % to {:.0} %, so the true share is another one",
                share * 100.0,
                low * 100.0,
                high * 100.0
            ),
        }
    }
}

/// Returns a value with its unit.
fn shown(statistic: Statistic, value: f64) -> String {
    use {stream::Statistic as S, window::Statistic as W};
    let time = |unit: TimeUnit| match unit {
        TimeUnit::Ns => Duration::from_ns(10f64.powf(value).round() as i64).to_string(),
        TimeUnit::PacketTimes => format!("{:.3} packet times", 10f64.powf(value)),
        TimeUnit::SendGaps => format!("{:.3} send gaps", 10f64.powf(value)),
    };
    match statistic {
        Statistic::Stream(S::LogSendGap | S::LogBatchGap | S::LogLongestGap, unit) => time(unit),
        Statistic::Window(W::LogCapacity) => Rate::from_bps_f64(10f64.powf(value + 9.0)).to_string(),
        Statistic::Window(W::LogSamples) => format!("{:.0}", 10f64.powf(value)),
        Statistic::Stream(S::ShortReceiveShare, _) | Statistic::Window(_) => {
            format!("{:.0} %", value * 100.0)
        }
        Statistic::Stream(..) => format!("{value:.2}"),
    }
}

/// Returns what is the case, with `value` in it.
fn sentence(statistic: Statistic, value: &str) -> String {
    use {stream::Statistic as S, window::Statistic as W};
    match statistic {
        Statistic::Stream(one, _) => match one {
            S::LogSendGap => format!("packets are sent every {value} on average"),
            S::ReceiveOverSend => format!("receive gaps are {value} times as long as send gaps on average"),
            S::ReceiveVariation => format!("the deviation of the receive gaps is {value} times their mean"),
            S::ShortReceiveShare => format!("{value} of the receive gaps are short"),
            S::LogBatchGap => format!("packets arrive in batches every {value}"),
            S::LogLongestGap => format!("the longest receive gap is {value}"),
            S::ReceiveCorrelation => format!("receive gaps have a correlation of {value} with the next ones"),
            S::SendSlope => format!("the last send gaps are {value} times as long as the first"),
            S::LongestSend => format!("the longest send gap is {value} times as long as the mean"),
        },
        Statistic::Window(one) => match one {
            W::LogCapacity => format!("the capacity is {value}"),
            W::LogSamples => format!("the window has {value} samples"),
            W::Mean => format!("the mean of the samples is {value} of the capacity"),
            W::QuartileRange => {
                format!("the interquartile range of the samples is {value} of the capacity")
            }
            W::AboveCapacity => format!("{value} of the samples are above the capacity"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: Kind = Kind::Stream(TimeUnit::Ns);

    /// Send gaps of 10 to 1000 ns, batches every 2 to 120 us, both independent with a deviation of 1
    /// around 100 ns and 10 us.
    fn domain(limit: f64) -> Domain {
        let file = file::Domain {
            statistics: vec!["log10-send-gap".to_owned(), "log10-batch-gap".to_owned()],
            low: vec![1.0, 2_000f64.log10()],
            high: vec![3.0, 120_000f64.log10()],
            mean: vec![2.0, 4.0],
            whiten: vec![vec![1.0, 0.0], vec![0.0, 1.0]],
            limit,
            free: Some((0.7, 0.8)),
        };
        Domain::new(&file, KIND).expect("a domain")
    }

    fn statistics(send_ns: f64, batch_ns: f64) -> [f64; 9] {
        let mut all = [0.0; 9];
        (all[0], all[4]) = (send_ns.log10(), batch_ns.log10());
        all
    }

    #[test]
    fn a_statistic_out_of_its_range_is_named_with_what_was_seen() {
        let found = domain(9.0).check(&statistics(100.0, 300_000.0), &mut Vec::new());
        let reason = found.expect_err("out of range").to_string();
        assert_eq!(reason, "packets arrive in batches every 300 us; the model has seen 2 us to 120 us");
        let found = domain(9.0).check(&statistics(100.0, f64::NAN), &mut Vec::new());
        assert!(matches!(found, Err(Outside::Range { .. })));
    }

    #[test]
    fn a_load_that_the_model_has_not_seen_is_named() {
        assert_eq!(domain(1.0).check_free(0.75), Ok(()));
        let found = domain(1.0).check_free(0.57).expect_err("another load").to_string();
        assert_eq!(
            found,
            "57 % of the capacity would be free; the model has seen 70 % to 80 %, so the true share is another one"
        );
        assert!(domain(1.0).check_free(f64::NAN).is_err());
    }

    #[test]
    fn what_is_within_every_range_may_be_too_far_from_the_mean() {
        let mut away = Vec::new();
        assert_eq!(domain(1.0).check(&statistics(10.0, 10_000.0), &mut away), Ok(()));
        let found = domain(1.0).check(&statistics(10.0, 100_000.0), &mut away);
        assert!(
            matches!(found, Err(Outside::Distance { distance, .. }) if (distance - 2f64.sqrt()).abs() < 1e-9)
        );
    }

    #[test]
    fn all_statistics_have_a_sentence_with_their_value() {
        let streams = stream::Statistic::ALL.map(|one| Statistic::Stream(one, TimeUnit::PacketTimes));
        let windows = window::Statistic::ALL.map(Statistic::Window);
        for statistic in streams.into_iter().chain(windows) {
            let outside = Outside::Range { statistic, value: 0.5, low: 1.0, high: 2.0 };
            assert!(outside.to_string().contains(&shown(statistic, 0.5)), "{outside}");
        }
    }
}

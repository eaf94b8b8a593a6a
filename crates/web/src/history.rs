//! What a router kept for a year, in spans that a person looks at.
//!
//! A span is read by one thread beside the others, one at a time, and its answer is used again for a while:
//! viewers cannot make the router read more often.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use headway_edge::snapshot::DecisionState;
use headway_history::{Error, Point, Range, Reader, Step};
use serde::Serialize;
use tokio::sync::Mutex;

use crate::shown::{Columns, LinkPoint, json};

/// Most decisions of a span: as many as those that are kept in memory.
const DECISIONS: usize = 200;
/// The longest that an answer is used again. A year has half a million rows, which take half a
/// second of a fast core.
const OLDEST: Duration = Duration::from_secs(600);

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// How far back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub(crate) enum Span {
    Day,
    Month,
    Year,
}

impl Span {
    const ALL: [Span; 3] = [Span::Day, Span::Month, Span::Year];

    /// Reads the query of an address, which is `span=NAME` and nothing else.
    pub(crate) fn parse(query: Option<&str>) -> Option<Span> {
        let name = query?.strip_prefix("span=")?;
        Span::ALL.into_iter().find(|span| span.name() == name)
    }

    fn name(self) -> &'static str {
        self.into()
    }

    /// Returns its length and that of the bins that are one point each, in ms: 1440 to 1460 bins,
    /// about one for each pixel.
    fn lengths(self) -> (u64, u64) {
        match self {
            Span::Day => (DAY, MINUTE),
            Span::Month => (30 * DAY, 30 * MINUTE),
            Span::Year => (365 * DAY, 6 * HOUR),
        }
    }

    /// Returns which rows it is made of.
    fn rows(self) -> Step {
        match self {
            Span::Day => Step::Second,
            Span::Month | Span::Year => Step::Minute,
        }
    }

    /// Returns how long an answer is used again: not longer than there is nothing new to see.
    fn fresh_for(self) -> Duration {
        Duration::from_millis(self.lengths().1).min(OLDEST)
    }
}

/// A history, and what was answered of each span last.
pub(crate) struct History {
    reader: std::sync::Mutex<Reader>,
    answers: [Arc<Mutex<Option<Answer>>>; Span::ALL.len()],
}

/// JSON or the reason why there is none, and when that was made.
struct Answer {
    text: Result<Bytes, String>,
    made: Instant,
}

impl History {
    pub(crate) fn new(reader: Reader) -> History {
        History { reader: std::sync::Mutex::new(reader), answers: Default::default() }
    }

    /// Returns a span that ends at this time since 1970 in ms as JSON, or as it was a while ago.
    ///
    /// # Errors
    /// When the file cannot be read: the reason, for the viewer.
    pub(crate) async fn text(self: &Arc<Self>, span: Span, until_ms: u64) -> Result<Bytes, String> {
        let mut last = Arc::clone(&self.answers[span as usize]).lock_owned().await;
        if let Some(answer) = last.as_ref().filter(|answer| answer.made.elapsed() < span.fresh_for()) {
            return answer.text.clone();
        }
        let history = Arc::clone(self);
        // It ends and is kept also if the viewer goes away meanwhile, who could make the router read again
        // and again otherwise.
        let read = tokio::task::spawn_blocking(move || {
            let text = history.read(span, until_ms).map_err(|error| error.to_string());
            *last = Some(Answer { text: text.clone(), made: Instant::now() });
            text
        });
        read.await.map_err(|error| error.to_string())?
    }

    fn read(&self, span: Span, until_ms: u64) -> Result<Bytes, Error> {
        let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let (length_ms, step_ms) = span.lengths();
        let range = Range { since_ms: until_ms.saturating_sub(length_ms), until_ms };
        let mut bins = Bins { step_ms, ..Bins::default() };
        reader.points(span.rows(), range, |point| {
            bins.add(point);
            Ok::<(), Error>(())
        })?;
        bins.close();
        let (decided, decisions) = reader.last_decisions(range, DECISIONS)?;
        let Bins { time_ms, links, .. } = bins;
        let past =
            Past { span: span.name(), length_ms, step_ms, until_ms, time_ms, links, decided, decisions };
        Ok(json(&past).into())
    }
}

/// The answer.
#[derive(Serialize)]
struct Past {
    span: &'static str,
    length_ms: u64,
    step_ms: u64,
    until_ms: u64,
    time_ms: Vec<u64>,
    links: [Binned; 2],
    /// How many decisions there were, of which the last are here.
    decided: u64,
    decisions: Vec<DecisionState>,
}

/// One direction: means of bins, and the highest rate in each.
#[derive(Default, Serialize)]
struct Binned {
    #[serde(flatten)]
    means: Columns,
    peak_bps: Vec<u64>,
}

/// Rows in the order of their times become bins of the same length, those without a row left out.
#[derive(Default)]
struct Bins {
    step_ms: u64,
    /// The rows of the last bin, which is not full yet.
    open: Vec<[LinkPoint; 2]>,
    /// The ends of bins.
    time_ms: Vec<u64>,
    links: [Binned; 2],
}

impl Bins {
    fn add(&mut self, point: Point) {
        let end = (point.time_ms / self.step_ms + 1) * self.step_ms;
        if self.time_ms.last() != Some(&end) {
            self.close();
            self.time_ms.push(end);
        }
        self.open.push(sides(&point));
    }

    /// Ends a bin.
    fn close(&mut self) {
        let rows = std::mem::take(&mut self.open);
        for (side, link) in self.links.iter_mut().enumerate() {
            let rows = || rows.iter().map(|row| row[side]);
            link.means.extend(mean(rows));
            link.peak_bps.extend(rows().map(|row| row.rate_bps).max());
        }
    }
}

/// Returns what a bin has: means, the widest interval, and the last capacity.
fn mean<I: Iterator<Item = LinkPoint>>(rows: impl Fn() -> I) -> Option<LinkPoint> {
    let of = |values: &mut dyn Iterator<Item = u64>| {
        let (sum, count) =
            values.fold((0_u128, 0_u128), |(sum, count), value| (sum + u128::from(value), count + 1));
        sum.checked_div(count).map(|mean| mean as u64)
    };
    Some(LinkPoint {
        rate_bps: of(&mut rows().map(|row| row.rate_bps))?,
        capacity_bps: rows().last()?.capacity_bps,
        available_bps: of(&mut rows().filter_map(|row| row.available_bps)),
        low_bps: rows().filter_map(|row| row.low_bps).min(),
        high_bps: rows().filter_map(|row| row.high_bps).max(),
    })
}

fn sides(point: &Point) -> [LinkPoint; 2] {
    let down = LinkPoint {
        rate_bps: point.down_bps,
        capacity_bps: point.down_capacity_bps,
        available_bps: point.down_available_bps,
        low_bps: point.down_available_low_bps,
        high_bps: point.down_available_high_bps,
    };
    let up = LinkPoint {
        rate_bps: point.up_bps,
        capacity_bps: point.up_capacity_bps,
        available_bps: point.up_available_bps,
        low_bps: point.up_available_low_bps,
        high_bps: point.up_available_high_bps,
    };
    [down, up]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bin_has_means_the_peak_and_the_widest_interval() {
        let mut bins = Bins { step_ms: 60_000, ..Bins::default() };
        for (second, rate, free) in [(1, 10, None), (2, 40, Some(7)), (59, 10, Some(9)), (200, 5, None)] {
            bins.add(Point {
                time_ms: second * 1000,
                down_bps: rate,
                down_capacity_bps: second,
                down_available_bps: free,
                down_available_low_bps: free.map(|free| free - 1),
                down_available_high_bps: free.map(|free| free + 1),
                ..Point::default()
            });
        }
        bins.close();
        assert_eq!(bins.time_ms, [60_000, 240_000]);
        let shown = serde_json::to_value(&bins.links[0]).unwrap();
        let expected = serde_json::json!({
            "rate_bps": [20, 5], "peak_bps": [40, 5], "capacity_bps": [59, 200],
            "available_bps": [8, null], "low_bps": [6, null], "high_bps": [10, null],
        });
        assert_eq!(shown, expected);
    }

    #[test]
    fn no_span_has_more_than_1500_points() {
        for span in Span::ALL {
            let (length, step) = span.lengths();
            assert!((1_000..=1_500).contains(&(length / step)), "{span:?}");
            assert_eq!(Span::parse(Some(&format!("span={}", span.name()))), Some(span));
        }
        for query in
            [None, Some(""), Some("span="), Some("span=hour"), Some("span=day&span=day"), Some("span=%64ay")]
        {
            assert_eq!(Span::parse(query), None, "{query:?}");
        }
    }
}

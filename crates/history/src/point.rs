//! A row of numbers: a second, or the mean of a minute.

use headway_edge::snapshot::{LinkState, RateState, Snapshot};
use rusqlite::Row;
use serde::Serialize;

/// How many columns a point has.
pub(crate) const WIDTH: usize = 14;
/// Their names in the file, in the order of [`Point::values`].
pub(crate) const COLUMNS: [&str; WIDTH] = [
    "time_ms",
    "down_bps",
    "up_bps",
    "down_capacity_bps",
    "up_capacity_bps",
    "down_available_bps",
    "down_available_low_bps",
    "down_available_high_bps",
    "up_available_bps",
    "up_available_low_bps",
    "up_available_high_bps",
    "down_narrow_bps",
    "up_narrow_bps",
    "flows",
];

/// What passed in a second, or in the mean of a minute, and what was known of the link.
///
/// Of several estimates of the same quantity it has the one that shares follow, or else that with
/// the narrowest interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Point {
    /// The end of the second or minute since 1970, ms.
    pub time_ms: u64,
    /// What passed towards the hosts.
    pub down_bps: u64,
    /// What passed from the hosts.
    pub up_bps: u64,
    /// What the access link carries towards the hosts.
    pub down_capacity_bps: u64,
    /// What it carries from the hosts.
    pub up_capacity_bps: u64,
    /// What is available towards the hosts.
    pub down_available_bps: Option<u64>,
    /// The lower end of its interval; of a minute, the lowest.
    pub down_available_low_bps: Option<u64>,
    /// The upper end of its interval; of a minute, the highest.
    pub down_available_high_bps: Option<u64>,
    /// What is available from the hosts.
    pub up_available_bps: Option<u64>,
    /// The lower end of its interval; of a minute, the lowest.
    pub up_available_low_bps: Option<u64>,
    /// The upper end of its interval; of a minute, the highest.
    pub up_available_high_bps: Option<u64>,
    /// Capacity of the narrow link towards the hosts.
    pub down_narrow_bps: Option<u64>,
    /// Capacity of the narrow link from the hosts.
    pub up_narrow_bps: Option<u64>,
    /// How many flows there were.
    pub flows: u64,
}

impl Point {
    /// Returns what is kept of a snapshot.
    pub fn of(snapshot: &Snapshot) -> Point {
        let [down, up] = &snapshot.links;
        let [free_down, free_up] = [down, up].map(LinkState::drawn);
        let narrow = |link: &LinkState| RateState::best(&link.narrow).map(|narrow| narrow.rate_bps);
        Point {
            time_ms: snapshot.time_ms,
            down_bps: down.rate_bps,
            up_bps: up.rate_bps,
            down_capacity_bps: down.capacity_bps,
            up_capacity_bps: up.capacity_bps,
            down_available_bps: free_down.map(|free| free.rate_bps),
            down_available_low_bps: free_down.map(|free| free.low_bps),
            down_available_high_bps: free_down.map(|free| free.high_bps),
            up_available_bps: free_up.map(|free| free.rate_bps),
            up_available_low_bps: free_up.map(|free| free.low_bps),
            up_available_high_bps: free_up.map(|free| free.high_bps),
            down_narrow_bps: narrow(down),
            up_narrow_bps: narrow(up),
            flows: snapshot.flows_in_all,
        }
    }

    /// Returns its values in the order of [`COLUMNS`]. What is beyond the integers of the file is
    /// the largest of them.
    pub(crate) fn values(&self) -> [Option<i64>; WIDTH] {
        let whole = |value: u64| Some(i64::try_from(value).unwrap_or(i64::MAX));
        let some = |value: Option<u64>| value.and_then(whole);
        [
            whole(self.time_ms),
            whole(self.down_bps),
            whole(self.up_bps),
            whole(self.down_capacity_bps),
            whole(self.up_capacity_bps),
            some(self.down_available_bps),
            some(self.down_available_low_bps),
            some(self.down_available_high_bps),
            some(self.up_available_bps),
            some(self.up_available_low_bps),
            some(self.up_available_high_bps),
            some(self.down_narrow_bps),
            some(self.up_narrow_bps),
            whole(self.flows),
        ]
    }

    /// Reads the columns of [`COLUMNS`].
    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<Point> {
        let whole = |column| Ok::<u64, rusqlite::Error>(row.get::<_, i64>(column)?.max(0) as u64);
        let some = |column| {
            Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(|value| value.max(0) as u64))
        };
        Ok(Point {
            time_ms: whole(0)?,
            down_bps: whole(1)?,
            up_bps: whole(2)?,
            down_capacity_bps: whole(3)?,
            up_capacity_bps: whole(4)?,
            down_available_bps: some(5)?,
            down_available_low_bps: some(6)?,
            down_available_high_bps: some(7)?,
            up_available_bps: some(8)?,
            up_available_low_bps: some(9)?,
            up_available_high_bps: some(10)?,
            down_narrow_bps: some(11)?,
            up_narrow_bps: some(12)?,
            flows: whole(13)?,
        })
    }
}

/// Points of the same minute.
#[derive(Debug, Default)]
pub(crate) struct Minute {
    points: Vec<Point>,
}

/// Length of a minute, ms.
const MINUTE: u64 = 60_000;
/// Most points of a minute; a clock that is set back would add to it.
const MOST: usize = 120;

impl Minute {
    /// Adds a point; returns the mean of the minute before if this one begins another.
    pub(crate) fn add(&mut self, point: Point) -> Option<Point> {
        let last = self.points.last();
        let ends = last.is_some_and(|last| last.time_ms / MINUTE != point.time_ms / MINUTE);
        let mean = if ends || self.points.len() == MOST { self.end() } else { None };
        self.points.push(point);
        mean
    }

    /// Returns the mean of the points, if there are any, and begins anew.
    pub(crate) fn end(&mut self) -> Option<Point> {
        let points = std::mem::take(&mut self.points);
        let last = points.last()?;
        let mean = |value: fn(&Point) -> u64| {
            (points.iter().map(|point| u128::from(value(point))).sum::<u128>() / points.len() as u128) as u64
        };
        let some = |value: fn(&Point) -> Option<u64>| points.iter().filter_map(value).collect::<Vec<u64>>();
        let some_mean = |value| {
            let values = some(value);
            let sum: u128 = values.iter().copied().map(u128::from).sum();
            (!values.is_empty()).then(|| (sum / values.len() as u128) as u64)
        };
        Some(Point {
            time_ms: last.time_ms,
            down_bps: mean(|point| point.down_bps),
            up_bps: mean(|point| point.up_bps),
            down_capacity_bps: last.down_capacity_bps,
            up_capacity_bps: last.up_capacity_bps,
            down_available_bps: some_mean(|point| point.down_available_bps),
            down_available_low_bps: some(|point| point.down_available_low_bps).into_iter().min(),
            down_available_high_bps: some(|point| point.down_available_high_bps).into_iter().max(),
            up_available_bps: some_mean(|point| point.up_available_bps),
            up_available_low_bps: some(|point| point.up_available_low_bps).into_iter().min(),
            up_available_high_bps: some(|point| point.up_available_high_bps).into_iter().max(),
            down_narrow_bps: some_mean(|point| point.down_narrow_bps),
            up_narrow_bps: some_mean(|point| point.up_narrow_bps),
            flows: mean(|point| point.flows),
        })
    }
}

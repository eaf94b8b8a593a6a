//! What viewers see: the newest snapshot, the last decisions, and an hour of points.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use headway_edge::snapshot::{DecisionState, LinkState, Snapshot};
use headway_history::Reader;
use serde::Serialize;
use tokio::sync::{Semaphore, watch};

use crate::events::{Position, Source, VIEWERS};
use crate::history::History;

/// Decisions that are kept: what fits on a page that a person reads.
const DECISIONS: usize = 200;
/// Points that are kept: an hour at one a second.
const POINTS: usize = 3600;

/// Everything that viewers see. Publishing and reading hold the lock only to copy.
pub(crate) struct Shown {
    kept: Mutex<Kept>,
    newest: watch::Sender<u64>,
    viewers: Arc<Semaphore>,
    /// Tells this run from others.
    run: u64,
    history: Option<Arc<History>>,
}

#[derive(Default)]
struct Kept {
    newest: Arc<Published>,
    decisions: VecDeque<Arc<DecisionState>>,
    points: VecDeque<Point>,
}

/// A snapshot without its decisions, and its number.
#[derive(Default)]
struct Published {
    number: u64,
    /// How many decisions there were until then.
    decided: u64,
    snapshot: Snapshot,
    point: Point,
    /// Its JSON, made by the first viewer for all.
    text: OnceLock<String>,
}

/// A second of the link.
#[derive(Clone, Copy, Default, Serialize)]
struct Point {
    time_ms: u64,
    links: [LinkPoint; 2],
}

/// A second of one direction, with the estimate of what is available, if there is one.
#[derive(Clone, Copy, Default, Serialize)]
pub(crate) struct LinkPoint {
    pub(crate) rate_bps: u64,
    pub(crate) capacity_bps: u64,
    pub(crate) available_bps: Option<u64>,
    pub(crate) low_bps: Option<u64>,
    pub(crate) high_bps: Option<u64>,
}

impl LinkPoint {
    fn new(link: &LinkState) -> LinkPoint {
        let available = link.drawn();
        LinkPoint {
            rate_bps: link.rate_bps,
            capacity_bps: link.capacity_bps,
            available_bps: available.map(|rate| rate.rate_bps),
            low_bps: available.map(|rate| rate.low_bps),
            high_bps: available.map(|rate| rate.high_bps),
        }
    }
}

impl Shown {
    pub(crate) fn new(run: u64, history: Option<Reader>) -> Shown {
        Shown {
            kept: Mutex::default(),
            newest: watch::Sender::new(0),
            viewers: Arc::new(Semaphore::new(VIEWERS)),
            run,
            history: history.map(|reader| Arc::new(History::new(reader))),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // What is kept is whole after each line that changes it.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a snapshot, and tells viewers.
    pub(crate) fn publish(&self, snapshot: &Snapshot) {
        let mut snapshot = snapshot.clone();
        let decisions: Vec<_> = std::mem::take(&mut snapshot.decisions).into_iter().map(Arc::new).collect();
        let point = Point { time_ms: snapshot.time_ms, links: snapshot.links.each_ref().map(LinkPoint::new) };
        let mut kept = self.kept();
        let number = kept.newest.number + 1;
        let decided = kept.newest.decided + decisions.len() as u64;
        kept.newest = Arc::new(Published { number, decided, snapshot, point, text: OnceLock::new() });
        push(&mut kept.decisions, decisions, DECISIONS);
        push(&mut kept.points, [point], POINTS);
        drop(kept);
        self.newest.send_replace(number);
    }

    /// Returns the newest snapshot, how many there were, and how many decisions.
    pub(crate) fn newest<T>(&self, read: impl FnOnce(&Snapshot, u64, u64) -> T) -> T {
        let newest = Arc::clone(&self.kept().newest);
        read(&newest.snapshot, newest.number, newest.decided)
    }

    /// Returns what was kept in a file, if anything is.
    pub(crate) fn history(&self) -> Option<&Arc<History>> {
        self.history.as_ref()
    }

    /// Returns how many event streams there are.
    pub(crate) fn watched(&self) -> usize {
        VIEWERS - self.viewers.available_permits()
    }

    /// Returns the newest snapshot and all decisions that are kept, as JSON.
    pub(crate) fn all(&self) -> String {
        self.message(None).1
    }

    /// Returns the newest snapshot and the decisions after so many.
    fn message(&self, seen: Option<u64>) -> (Position, String) {
        let (newest, decisions) = {
            let kept = self.kept();
            let new = kept.newest.decided.saturating_sub(seen.unwrap_or(0));
            let old = kept.decisions.len().saturating_sub(usize::try_from(new).unwrap_or(usize::MAX));
            (Arc::clone(&kept.newest), kept.decisions.iter().skip(old).cloned().collect::<Vec<_>>())
        };
        let decisions = json(&decisions.iter().map(AsRef::as_ref).collect::<Vec<&DecisionState>>());
        let state = newest.text.get_or_init(|| json(&newest.snapshot));
        let Published { number, decided, .. } = *newest;
        let (run, all, history) = (self.run, seen.is_none(), self.history.is_some());
        let point = json(&newest.point);
        let text = format!(
            r#"{{"run":{run},"history":{history},"number":{number},"all":{all},"decided":{decided},"point":{point},"state":{state},"decisions":{decisions}}}"#
        );
        (Position { run, decided }, text)
    }

    /// Returns the points as JSON, a list for each column, which is how they are drawn.
    pub(crate) fn recent(&self) -> String {
        let points: Vec<Point> = self.kept().points.iter().copied().collect();
        json(&Recent {
            run: self.run,
            time_ms: points.iter().map(|point| point.time_ms).collect(),
            links: [0, 1].map(|side| points.iter().map(|point| point.links[side]).collect()),
        })
    }
}

impl Source for Shown {
    fn viewers(&self) -> &Arc<Semaphore> {
        &self.viewers
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    fn messages(&self, seen: Option<Position>) -> (Position, String) {
        let (position, data) = self.message(seen.and_then(|seen| seen.decided_in(self.run)));
        (position, format!("id: {position}\ndata: {data}\n\n"))
    }
}

/// Appends and forgets the oldest.
pub(crate) fn push<T>(ring: &mut VecDeque<T>, new: impl IntoIterator<Item = T>, most: usize) {
    ring.extend(new);
    ring.drain(..ring.len().saturating_sub(most));
}

/// JSON of what has only numbers and texts, which always works.
pub(crate) fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// The last hour.
#[derive(Serialize)]
struct Recent {
    run: u64,
    time_ms: Vec<u64>,
    links: [Columns; 2],
}

/// Points of one direction.
#[derive(Default, Serialize)]
pub(crate) struct Columns {
    rate_bps: Vec<u64>,
    capacity_bps: Vec<u64>,
    available_bps: Vec<Option<u64>>,
    low_bps: Vec<Option<u64>>,
    high_bps: Vec<Option<u64>>,
}

impl Extend<LinkPoint> for Columns {
    fn extend<T: IntoIterator<Item = LinkPoint>>(&mut self, points: T) {
        for point in points {
            self.rate_bps.push(point.rate_bps);
            self.capacity_bps.push(point.capacity_bps);
            self.available_bps.push(point.available_bps);
            self.low_bps.push(point.low_bps);
            self.high_bps.push(point.high_bps);
        }
    }
}

impl FromIterator<LinkPoint> for Columns {
    fn from_iter<T: IntoIterator<Item = LinkPoint>>(points: T) -> Columns {
        let mut columns = Columns::default();
        columns.extend(points);
        columns
    }
}

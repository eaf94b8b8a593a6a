//! What a capture on the interface towards the hosts says of connections and paths, in a thread of its own.
//!
//! There packets have the addresses that the edge's tables know, also where the router translates them. An
//! interface's capture comes before the programs for what arrives, and behind them for what leaves: of
//! downloads it has the windows that hosts told, not those that the edge let through. How full those are, the
//! edge judges by its own tables.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Clock};

use anyhow::{Context as _, Result};
use headway_capture::Live;
use headway_edge::Passive;
use headway_edge::classify::LimitedBy;
use headway_edge::snapshot::{PathState, RateState};
use headway_estimate::sabes::Limit;
use headway_passive::{Direction, Endpoint, Free, Options, PathKey, PathRow, Tracker};
use headway_units::{Duration as Span, PerSide, Rate, Side};

/// Longest wait for packets.
const WAIT: Duration = Duration::from_millis(100);
/// Packets between two looks at the clock.
const BATCH: usize = 1_024;
/// How often what was seen is reported.
const EVERY: Duration = Duration::from_secs(1);
/// What is left of the time under a limit after a second: limits count for some 5 s, as the
/// classifier looks at 5 to 10.
const KEPT: f64 = 0.8;
/// An estimate is shown for so long after it was made.
const OLDEST: Duration = Duration::from_secs(60);
/// Most paths that are shown.
const MOST_PATHS: usize = 50;
/// What a tracker may use: for a link that this router shares, and within 40 MB with its tables.
const OPTIONS: (usize, usize, usize) = (8_192, 1_024, 16 << 20);
/// For how long a closed connection is remembered, so that late copies of its packets begin
/// none. Range 1 s to 4 min.
const CLOSED: Span = Span::from_ms(10_000);
/// A connection has ended after so long without a packet, as for the edge's tables (wan 2.1).
const IDLE: Span = Span::from_ms(300_000);
/// Who says what is from this capture.
const SOURCE: &str = "passive";

/// From whom data comes, and to whom.
pub(super) type Ends = [SocketAddr; 2];

/// For how long each limit held, in seconds.
type Times = [f64; Limit::ALL.len()];

/// What was seen in the last second.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    pub(super) flows: HashMap<Ends, Passive>,
    /// Those with most data first.
    pub(super) paths: Vec<PathState>,
    /// What is free, and the capacity, on the path with most data towards each side.
    pub(super) available: PerSide<Option<RateState>>,
    pub(super) narrow: PerSide<Option<RateState>>,
}

/// A capture that goes on until this is dropped.
pub(super) struct Capture {
    report: Arc<Mutex<Arc<Report>>>,
    ended: Arc<AtomicBool>,
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Capture {
    /// Starts a thread that reads what `live` captures.
    pub(super) fn start(live: Live) -> Result<Capture> {
        let capture = Capture { report: Arc::default(), ended: Arc::default() };
        let (report, ended) = (Arc::clone(&capture.report), Arc::clone(&capture.ended));
        std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(move || read(live, &report, &ended))
            .context("cannot start a thread")?;
        Ok(capture)
    }

    /// Returns the latest report.
    pub(super) fn report(&self) -> Arc<Report> {
        Arc::clone(&self.report.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn read(mut live: Live, report: &Mutex<Arc<Report>>, ended: &AtomicBool) {
    let (connections, paths, memory) = OPTIONS;
    let mut options = Options { connections, paths, memory, ..Options::default() };
    options.settings.nic = live.speed().unwrap_or(options.settings.nic);
    let (mut tracker, mut memory) = (Tracker::new(&options), Memory::default());
    let mut told = Clock::now();
    while !ended.load(Ordering::Relaxed) {
        take(&mut live, &mut tracker);
        if told.elapsed() >= EVERY {
            told = Clock::now();
            tracker.expire(CLOSED, IDLE);
            let new = Arc::new(memory.report(&mut tracker, told));
            *report.lock().unwrap_or_else(PoisonError::into_inner) = new;
        }
    }
}

/// Gives the packets that there are to the tracker, and waits if there are none.
fn take(live: &mut Live, tracker: &mut Tracker) {
    for _ in 0..BATCH {
        let Some((packet, leaves)) = live.packet() else {
            // While an interface is down there is nothing to read; the edge itself looks whether it is gone.
            if live.wait(WAIT).is_err() {
                std::thread::sleep(WAIT);
            }
            return;
        };
        // What arrives from the hosts is on its way out: they are the near ends.
        tracker.packet(&packet, leaves.map(|leaves| !leaves));
    }
}

/// What is kept from one report to the next.
#[derive(Default)]
struct Memory {
    /// Of each transfer, for how long each limit held in all, and in the last seconds.
    limits: HashMap<Ends, [Times; 2]>,
    free: HashMap<PathKey, (Free, Clock)>,
}

impl Memory {
    fn report(&mut self, tracker: &mut Tracker, now: Clock) -> Report {
        let rows = tracker.end_interval();
        for row in &rows {
            if let Some(free) = row.known.free {
                self.free.insert(row.key, (free, now));
            }
        }
        self.free.retain(|_, (_, at)| now.duration_since(*at) < OLDEST);
        let mut report = Report { flows: self.flows(tracker.limits()), ..Report::default() };
        for row in rows.iter().filter(|row| !row.is_others()) {
            let side = if row.key.direction == Direction::From { Side::Lan } else { Side::Wan };
            let free = self.free(row, now);
            if report.available[side].is_none() {
                report.available[side].clone_from(&free);
            }
            if report.narrow[side].is_none() {
                report.narrow[side] = row
                    .known
                    .capacity
                    .map(|found| known([found.rate, found.low, found.high], Duration::ZERO));
            }
            if report.paths.len() < MOST_PATHS {
                report.paths.push(path(row, free));
            }
        }
        report
    }

    fn free(&self, row: &PathRow, now: Clock) -> Option<RateState> {
        let (free, at) = self.free.get(&row.key)?;
        Some(known([free.rate, free.low, free.high], now.duration_since(*at)))
    }

    /// Returns what limited each transfer in the last seconds, of which these are the limits so far.
    fn flows(&mut self, limits: impl Iterator<Item = ([Endpoint; 2], Times)>) -> HashMap<Ends, Passive> {
        let mut before = std::mem::take(&mut self.limits);
        let mut flows = HashMap::with_capacity(before.len());
        for (ends, all) in limits {
            let ends = ends.map(|end| SocketAddr::new(end.address, end.port));
            let [was, mut recent] = before.remove(&ends).unwrap_or_default();
            for ((recent, all), was) in recent.iter_mut().zip(all).zip(was) {
                // The end of a burst may change its limit.
                *recent = *recent * KEPT + (all - was).max(0.0);
            }
            self.limits.insert(ends, [all, recent]);
            flows.insert(ends, Passive { limited_by: longest(&recent) });
        }
        flows
    }
}

/// Returns the limit that held for longest.
fn longest(times: &Times) -> LimitedBy {
    let limits = Limit::ALL.into_iter().zip(times).filter(|(_, time)| **time > 0.0);
    limits.max_by(|(_, one), (_, other)| one.total_cmp(other)).map_or(LimitedBy::Unknown, |(limit, _)| {
        match limit {
            Limit::Application => LimitedBy::Application,
            Limit::ReceiveWindow => LimitedBy::ReceiveWindow,
            Limit::Path => LimitedBy::Path,
            Limit::Unknown => LimitedBy::Unknown,
        }
    })
}

fn known([rate, low, high]: [Rate; 3], age: Duration) -> RateState {
    RateState {
        rate_bps: rate.bps(),
        low_bps: low.bps(),
        high_bps: high.bps(),
        age_ms: age.as_millis() as u64,
        source: SOURCE.to_owned(),
    }
}

fn path(row: &PathRow, available: Option<RateState>) -> PathState {
    let way = if row.key.direction == Direction::To { "to" } else { "from" };
    PathState {
        to: format!("{way} {}", row.key.peer),
        connections: row.transfers,
        rate_bps: row.known.rate.bps(),
        rtt_ns: row.known.rtt.map(|rtt| rtt.ns() as u64),
        capacity_bps: row.known.capacity.map(|found| found.rate.bps()),
        available,
        limited_by: row.limit().map(|limit| limit.name().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_held_for_longest_of_late_counts() {
        let (mut memory, mut recent) = (Memory::default(), LimitedBy::Unknown);
        let end = |last: u8, port| Endpoint { address: std::net::IpAddr::from([10, 0, 0, last]), port };
        let mut times = Times::default();
        // Ten seconds of an application that waits, and then the path.
        for second in 0..14 {
            times[if second < 10 { Limit::Application } else { Limit::Path } as usize] += 1.0;
            let flows = memory.flows([([end(2, 80), end(1, 5000)], times)].into_iter());
            recent = flows[&["10.0.0.2:80".parse().unwrap(), "10.0.0.1:5000".parse().unwrap()]].limited_by;
            assert!(second > 9 || recent == LimitedBy::Application);
        }
        assert_eq!(recent, LimitedBy::Path);
        // What has ended is forgotten.
        memory.flows(std::iter::empty());
        assert!(memory.limits.is_empty());
    }
}

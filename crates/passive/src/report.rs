//! What a tracker knows: a row for every path, and for every transfer.

use std::cmp::Reverse;
use std::collections::HashMap;

use headway_estimate::sabes::{Capacity, Limit, PairCapacity, PairRefusal};
use headway_units::{Duration, Instant, Rate};

use crate::conclude::{Measured, Said, Unknown, conclude};
use crate::connection::{Evidence, Followed, Half, Key, Sum};
use crate::headers::Endpoint;
use crate::path::{Direction, Free, Path, PathKey, Peer, RoundTrips, Sums, Volume};
use crate::tracker::{Tracker, rate};

/// A path, over the whole capture or an interval of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathRow {
    /// The peers and the direction of the data.
    pub key: PathKey,
    /// Transfers with data: of the whole capture, or in the interval.
    pub transfers: u64,
    /// What its transfers tell.
    pub known: Known,
}

/// A transfer in the table of connections.
#[derive(Clone, Copy, Debug)]
pub struct FlowRow {
    /// The end near the tap.
    pub near: Endpoint,
    /// The other end.
    pub far: Endpoint,
    /// Where the data goes.
    pub direction: Direction,
    /// How the near end is known.
    pub evidence: Evidence,
    /// Time from its first to its last packet.
    pub duration: Duration,
    /// RTT of the handshake.
    pub handshake: Option<Duration>,
    /// What it tells.
    pub known: Known,
}

/// What is known of the path of some transfers, or of one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// Data on the wire.
    pub volume: Volume,
    /// Mean rate of that data over the time in which it was seen.
    pub rate: Rate,
    /// Smoothed RTT of the transfer, or of that with the most data; near the receiver that of its handshake.
    pub rtt: Option<Duration>,
    /// Capacity of the narrow link, as the transfer with most samples found it.
    pub capacity: Option<Capacity>,
    /// The same by packets that TCP sent together, as the transfer with most of them found it; or why not.
    pub pairs: Option<Result<PairCapacity, PairRefusal>>,
    /// The available bandwidth: means over its windows.
    pub free: Option<Free>,
    /// Why it is not known.
    pub why: Option<Unknown>,
    /// Times between segments and their ACKs at the tap.
    pub round_trips: Option<RoundTrips>,
    /// Windows, limits and anomalies.
    pub sums: Sums,
}

/// A shorter interval tells nothing of the rate of a second.
const SECOND: Duration = Duration::from_ms(1_000);

/// The transfers of a path that are in the table.
#[derive(Default)]
struct Live {
    transfers: u64,
    /// Bytes and RTT of the transfer with the most data.
    largest: (u64, Option<Duration>),
}

impl Tracker {
    /// Returns the paths with data over the whole capture, those with the most data first.
    pub fn paths(&mut self) -> Vec<PathRow> {
        self.update_paths(Instant::ZERO);
        let paths = self.paths.places().filter(|(_, _, path)| path.transfers > 0);
        let mut rows: Vec<PathRow> = paths.map(|(_, key, path)| path_row(key, path)).collect();
        sort(&mut rows);
        rows
    }

    /// Ends an interval at the time of the latest packet; returns the paths with data or estimates in it.
    pub fn end_interval(&mut self) -> Vec<PathRow> {
        let begin = std::mem::replace(&mut self.interval, self.now);
        let length = self.now - begin;
        let mut live = self.update_paths(begin);
        let mut rows = Vec::new();
        self.paths.visit_places(|place, key, path| {
            if path.last >= begin {
                let transfers = live.remove(&place).unwrap_or_default().transfers;
                rows.extend(interval_row(key, path, transfers, length));
            }
        });
        sort(&mut rows);
        rows
    }

    /// Adds what is new of the connections with packets since `begin` to their paths.
    fn update_paths(&mut self, begin: Instant) -> HashMap<u32, Live> {
        let mut all: HashMap<u32, Live> = HashMap::new();
        let paths = &mut self.paths;
        self.connections.visit(|_, connection| {
            for Half { followed, volume, .. } in &mut connection.halves {
                let Some(followed) = followed else { continue };
                let Some(path) = paths.value(followed.path) else { continue };
                followed.add_to(path);
                let live = all.entry(followed.path).or_default();
                live.transfers += 1;
                let rtt = followed.transfer.rtt();
                if rtt.is_some() && volume.wire >= live.largest.0 {
                    live.largest = (volume.wire, rtt);
                    path.rtt = rtt;
                }
            }
            connection.last >= begin
        });
        all
    }

    /// Returns the transfers in the table, those with the most data first.
    pub fn flows(&self) -> Vec<FlowRow> {
        self.each_flow().collect()
    }

    /// Returns the rows of [`Tracker::flows`] one by one, so that they are not in memory together.
    pub fn each_flow(&self) -> impl Iterator<Item = FlowRow> {
        let mut order = Vec::new();
        for (place, Key(ends), connection) in self.connections.places() {
            let Some((near, _)) = connection.near else { continue };
            for (of, half) in connection.halves.iter().enumerate().filter(|(_, half)| half.followed.is_some())
            {
                order.push((Reverse(half.volume.wire), ends[near], ends[1 - near], of, place));
            }
        }
        order.sort_unstable();
        order.into_iter().filter_map(|(.., of, place)| {
            let (key, connection) = self.connections.at(place)?;
            let (near, evidence) = connection.near?;
            flow(key, near, of, &connection.halves[of], evidence, connection.last - connection.first)
        })
    }

    /// Returns the transfers in the table, in no order: from whom the data comes, and to whom, and for how
    /// long each limit has held, in seconds, in the order of [`Limit::ALL`].
    pub fn limits(&self) -> impl Iterator<Item = ([Endpoint; 2], [f64; Limit::ALL.len()])> {
        self.connections.iter().flat_map(|(Key(ends), connection)| {
            let halves = connection.halves.iter().enumerate();
            halves.filter_map(|(of, half)| {
                let limits = half.followed.as_ref()?.transfer.limits();
                Some(([ends[of], ends[1 - of]], Limit::ALL.map(|limit| limits.time(limit).secs_f64())))
            })
        })
    }

    /// Returns the number of connections in the table of which only packets of one end were captured, and of
    /// those that have left it.
    pub fn one_way(&self) -> u64 {
        let live = self.connections.iter().filter(|(_, connection)| connection.is_one_way()).count();
        self.counts.one_way + live as u64
    }

    /// Returns the number of transfers in the table whose near end is assumed.
    pub fn assumed(&self) -> usize {
        let connections = self.connections.iter().map(|(_, connection)| connection);
        connections
            .filter(|connection| connection.near.is_some_and(|(_, by)| by == Evidence::Assumed))
            .count()
    }
}

fn path_row(key: &PathKey, path: &Path) -> PathRow {
    let rate = rate(path.volume.wire, path.last - path.first);
    let said = conclude(Measured {
        is_loopback: path.is_loopback,
        by_model: path.by_model,
        peak: path.peak.rates(),
        capacity: path.capacity,
        pairs: path.pairs.unwrap_or(Err(PairRefusal::TooFew)),
        free: path.estimates.free(),
        sums: path.sums,
    });
    let mut round_trips = path.round_trips.clone();
    round_trips.merge(&path.recent_round_trips);
    let known = Known::new(path.volume, rate, (path.rtt, RoundTrips::of(&round_trips)), said);
    PathRow { key: *key, transfers: path.transfers, known }
}

fn interval_row(key: &PathKey, path: &mut Path, transfers: u64, length: Duration) -> Option<PathRow> {
    let before = std::mem::replace(&mut path.volume_before, path.volume);
    let volume =
        Volume { packets: path.volume.packets - before.packets, wire: path.volume.wire - before.wire };
    let sums = path.sums.since(&std::mem::replace(&mut path.sums_before, path.sums));
    let free = std::mem::take(&mut path.recent).free();
    let round_trips = path.end_round_trips();
    let rate = rate(volume.wire, length);
    let has_estimate = free.is_some();
    let peak = if length >= SECOND { [rate; 2] } else { [Rate::ZERO; 2] };
    let (is_loopback, by_model) = (path.is_loopback, path.by_model);
    let pairs = path.pairs.unwrap_or(Err(PairRefusal::TooFew));
    let capacity = path.capacity;
    let said = conclude(Measured { is_loopback, by_model, peak, capacity, pairs, free, sums });
    let known = Known::new(volume, rate, (path.rtt, round_trips), said);
    (volume.wire > 0 || has_estimate).then_some(PathRow { key: *key, transfers, known })
}

fn flow(
    key: &Key,
    near: usize,
    of: usize,
    half: &Half,
    evidence: Evidence,
    duration: Duration,
) -> Option<FlowRow> {
    let Followed { transfer, estimates, peak, .. } = &**half.followed.as_ref()?;
    let Sum { count, bytes, .. } = *estimates;
    let free = estimates.means();
    let free = free.map(|[rate, low, high]| Free { rate, low, high, windows: count.into(), bytes });
    let rate = rate(half.volume.wire, duration);
    let said = conclude(Measured {
        is_loopback: key.is_loopback(),
        by_model: transfer.has_model(),
        peak: peak.rates(),
        capacity: transfer.narrow_link(),
        pairs: transfer.pair_capacity(),
        free,
        sums: Sums::of(transfer),
    });
    Some(FlowRow {
        near: key.0[near],
        far: key.0[1 - near],
        direction: if near == of { Direction::To } else { Direction::From },
        evidence,
        duration,
        handshake: transfer.handshake_rtt(),
        known: Known::new(half.volume, rate, (transfer.rtt(), RoundTrips::of(transfer.round_trips())), said),
    })
}

impl Known {
    fn new(
        volume: Volume,
        rate: Rate,
        (rtt, round_trips): (Option<Duration>, Option<RoundTrips>),
        Said { capacity, pairs, free, sums }: Said,
    ) -> Known {
        let (free, why, pairs) = (free.ok(), free.err(), Some(pairs));
        Known { volume, rate, rtt, capacity, pairs, free, why, round_trips, sums }
    }
}

/// Sorts paths by their data, largest first.
fn sort(rows: &mut [PathRow]) {
    rows.sort_by_key(|row| (Reverse(row.known.volume.wire), row.key));
}

impl PathRow {
    /// Whether the row is of peers that did not fit the table.
    pub fn is_others(&self) -> bool {
        self.key.peer == Peer::Others
    }

    /// Returns the limit under which most data passed.
    pub fn limit(&self) -> Option<Limit> {
        self.known.sums.main_limit()
    }
}

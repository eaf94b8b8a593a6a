//! Follows the TCP connections in a capture and estimates what is free on their paths.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use headway_estimate::sabes::{Segment, Settings, Side, Transfer, Way};
use headway_learned::{Model, Outside};
use headway_units::{Duration, Instant, Rate};

use crate::connection::{Connection, Evidence, Key};
use crate::copies::{Kind, Place, Recent};
use crate::filter::Filter;
use crate::headers::{self, Refused, Skipped, Tcp};
use crate::lru::Lru;
use crate::order::Order;
use crate::path::{Direction, Grouping, Path, PathKey, Peer};
use headway_capture::layers::Unread;
use headway_capture::{ClockCounts, Packet, Timing};

/// Most addresses that are remembered as near.
const NEAR_ADDRESSES: usize = 4_096;

/// Most protocols that are not read that are counted by their numbers.
const UNREAD: usize = 16;

/// The settings of a [`Tracker`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Where the tap is, for all transfers; `None` to infer it for every connection.
    pub side: Option<Side>,
    /// Which transfers share a path.
    pub grouping: Grouping,
    /// Most connections in the table.
    pub connections: usize,
    /// Most paths in the table.
    pub paths: usize,
    /// Most bytes that transfers may use besides the tables.
    pub memory: usize,
    /// The settings of transfers; their side is replaced.
    pub settings: Settings,
}

impl Default for Options {
    /// Returns tables for 65 536 connections and 8192 paths, and 96 MB for transfers.
    fn default() -> Options {
        Options {
            side: None,
            grouping: Grouping::Prefix,
            connections: 65_536,
            paths: 8_192,
            memory: 96 << 20,
            settings: Settings { samples: 1_024, ..Settings::default() },
        }
    }
}

/// What a tracker counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// All packets.
    pub packets: u64,
    /// Their original bytes.
    pub bytes: u64,
    /// TCP segments that were used.
    pub used: u64,
    /// Packets not used, in the order of [`Skipped::ALL`].
    pub skipped: [u64; Skipped::ALL.len()],
    /// Connections seen.
    pub connections: u64,
    /// Connections removed from the full table to make room for others.
    pub evicted: u64,
    /// Packets with more payload than the MSS.
    pub oversized: u64,
    /// Connections that ended, or left the table, with packets of one direction only.
    pub one_way: u64,
    /// Transfers of which only ACKs were captured.
    pub acks_only: u64,
    /// Connections that a proxy near the tap answers: the handshake took far longer than the first data.
    pub proxies: u64,
    /// Protocols that are not read, in the order in which they appeared, with their packets. Those that came
    /// after the table was full are counted in `skipped` only.
    pub unread: [Option<(Unread, u64)>; UNREAD],
}

impl Counts {
    /// Returns the number of packets that were not used for this reason.
    pub fn skipped(&self, reason: Skipped) -> u64 {
        self.skipped[reason as usize]
    }

    fn skip(&mut self, reason: Skipped) {
        self.skipped[reason as usize] += 1;
    }

    /// Counts a packet of a protocol that is not read; those that do not fit the table are in the
    /// sums of skipped ones.
    fn name(&mut self, unread: Unread) {
        let known = |entry: &&mut Option<(Unread, u64)>| entry.is_none_or(|(other, _)| other == unread);
        if let Some(entry) = self.unread.iter_mut().find(known) {
            entry.get_or_insert((unread, 0)).1 += 1;
        }
    }
}

/// Follows connections packet by packet, in bounded memory.
///
/// The first packets, and those whose time stamps leap, are used when the packets after them have shown that
/// their times are right, and those of a capture out of order when earlier ones have come; see
/// [`Tracker::finish`].
#[derive(Debug)]
pub struct Tracker {
    options: Options,
    pub(crate) counts: Counts,
    timing: Timing<Result<Tcp, Refused>>,
    /// Packets whose time is known, with their interfaces.
    order: Order<(u32, Result<Tcp, Refused>)>,
    pub(crate) connections: Lru<Key, Connection>,
    pub(crate) paths: Lru<PathKey, Path>,
    recent: Recent,
    filter: Option<Filter>,
    /// A trained model that judges the windows of all transfers.
    model: Option<Arc<Model>>,
    outside: Option<Outside>,
    /// Bytes that transfers use.
    memory: usize,
    /// Addresses that are near, as other connections showed.
    near: HashMap<IpAddr, Evidence>,
    pub(crate) first: Option<Instant>,
    pub(crate) now: Instant,
    /// When the current interval began.
    pub(crate) interval: Instant,
}

impl Tracker {
    /// Creates a tracker, with memory for full tables.
    pub fn new(options: &Options) -> Tracker {
        let mut paths = Lru::new(options.paths.max(1) + 2);
        for direction in [Direction::To, Direction::From] {
            paths.insert(PathKey { peer: Peer::Others, direction }, Path::new(Instant::ZERO));
        }
        Tracker {
            options: *options,
            counts: Counts::default(),
            timing: Timing::default(),
            order: Order::new(),
            connections: Lru::new(options.connections),
            paths,
            recent: Recent::new(),
            filter: None,
            model: None,
            outside: None,
            memory: 0,
            near: HashMap::new(),
            first: None,
            now: Instant::ZERO,
            interval: Instant::ZERO,
        }
    }

    /// Uses only the segments that pass a filter.
    pub fn set_filter(&mut self, filter: Filter) {
        self.filter = Some(filter);
    }

    /// Lets all packets wait up to a second for earlier ones that come behind them, by the clock of the
    /// capture: those of the first ten seconds, which show how long others have to wait, or `always`. Without
    /// this call none waits before one was late, as [`ClockCounts::late`] tells.
    pub fn expect_late(&mut self, always: bool) {
        self.order.expect_late(always);
    }

    /// Lets a trained model judge the windows of transfers; see [`Transfer::set_model`].
    pub fn set_model(&mut self, model: Arc<Model>) {
        self.model = Some(model);
    }

    /// Returns in what the last window that was refused for it is unlike those that the model has seen.
    pub fn outside(&self) -> Option<Outside> {
        self.outside
    }

    /// Returns what has been counted.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Returns what was odd about the time stamps.
    pub fn clock(&self) -> ClockCounts {
        self.timing.counts()
    }

    /// Returns the time of the latest packet.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the time of the first packet; `None` before it.
    pub fn first(&self) -> Option<Instant> {
        self.first
    }

    /// Returns when the current interval began; see [`Tracker::end_interval`].
    pub fn interval(&self) -> Instant {
        self.interval
    }

    /// Returns the bytes of memory in use: tables of full size, transfers and packets that wait.
    pub fn memory(&self) -> usize {
        let paths: usize = self.paths.iter().map(|(_, path)| path.memory()).sum();
        self.connections.memory()
            + self.paths.memory()
            + self.recent.memory()
            + self.memory
            + paths
            + self.order.memory()
    }

    /// Takes the next packet of a capture; `outgoing` overrides what its link layer says.
    pub fn packet(&mut self, packet: &Packet<'_>, outgoing: Option<bool>) {
        self.counts.packets += 1;
        self.counts.bytes += u64::from(packet.length);
        let mut parsed = headers::read(packet);
        match &mut parsed {
            Ok(tcp) => tcp.outgoing = outgoing.or(tcp.outgoing),
            Err(refused) => refused.unread.into_iter().for_each(|unread| self.counts.name(unread)),
        }
        match self.timing.next(packet.interface, packet.at) {
            Some(at) => match self.order.pass(at) {
                Some(at) => self.timed(at, packet.interface, &parsed),
                None => self.sort(at, packet.interface, parsed),
            },
            None => {
                self.timing.push(packet.interface, packet.at, parsed);
                self.judge(false);
            }
        }
    }

    /// Counts a record without a packet that could be used.
    pub fn odd_record(&mut self) {
        self.counts.packets += 1;
        self.counts.skip(Skipped::OddRecord);
    }

    /// Uses the packets that wait for later ones: call it at the end of a capture.
    pub fn finish(&mut self) {
        self.judge(true);
        while let Some((at, (interface, parsed))) = self.order.next(true) {
            self.timed(at, interface, &parsed);
        }
    }

    /// Uses the packets whose times are known by now, all of them if it is the `last` occasion.
    fn judge(&mut self, last: bool) {
        while let Some((interface, at, parsed)) = self.timing.pop(last) {
            match at {
                Some(at) => match self.order.pass(at) {
                    Some(at) => self.timed(at, interface, &parsed),
                    None => self.sort(at, interface, parsed),
                },
                None => self.counts.skip(Skipped::WrongStamp),
            }
        }
    }

    /// Takes a packet whose time is known and that may have to wait; uses those whose wait is over.
    fn sort(&mut self, at: Instant, interface: u32, parsed: Result<Tcp, Refused>) {
        if let Some((at, (interface, parsed))) =
            self.order.take(at, (interface, parsed), self.timing.counts_mut())
        {
            self.timed(at, interface, &parsed);
        }
        while let Some((at, (interface, parsed))) = self.order.next(false) {
            self.timed(at, interface, &parsed);
        }
    }

    /// Takes a packet in its turn.
    fn timed(&mut self, at: Instant, interface: u32, parsed: &Result<Tcp, Refused>) {
        let first = *self.first.get_or_insert_with(|| {
            self.interval = at;
            at
        });
        self.now = self.now.max(at);
        match parsed {
            Ok(tcp) => match &self.filter {
                Some(filter) if !filter.passes(tcp, at, first) => self.counts.skip(Skipped::Filtered),
                _ => self.segment(at, interface, tcp),
            },
            Err(refused) => self.counts.skip(refused.reason),
        }
    }

    /// Takes a TCP segment that was captured on an interface.
    fn segment(&mut self, at: Instant, interface: u32, tcp: &Tcp) {
        let (key, end) = Key::of(tcp);
        let place = self.place(key, end, at, tcp);
        let Some(connection) = self.connections.value(place) else { return };
        let captured = (at, Place::new(interface, tcp.outgoing));
        let kind = connection.halves[end].places.judge(&mut self.recent, (place, end), captured, tcp);
        if let Kind::Copy { forwarded } = kind {
            if forwarded && !connection.forwarded {
                self.forward(place, &key);
            }
            return self.counts.skip(Skipped::Copy);
        }
        self.counts.used += 1;
        connection.last = connection.last.max(at);
        connection.closed |= tcp.segment.flags.fin || tcp.segment.flags.rst;
        // Once a transfer is followed, its side and path stay.
        if let Some(outgoing) = tcp.outgoing
            && !connection.forwarded
            && connection.halves.iter().all(|half| half.followed.is_none())
        {
            connection.near = Some((if outgoing { end } else { 1 - end }, Evidence::Heading));
        }
        let mut segment = Segment { at, ..tcp.segment };
        let mut answered = None;
        if connection.shake_hands(end, &segment) {
            self.memory = self.memory.wrapping_add_signed(change_side(
                connection,
                &key,
                &self.options,
                &mut self.paths,
                at,
            ));
        }
        for of in [end, 1 - end] {
            if connection.begins(of, end, tcp) {
                self.counts.acks_only += u64::from(of != end);
                self.memory +=
                    begin(connection, &key, of, &self.options, &mut self.near, &mut self.paths, at);
                if let (Some(model), Some(followed)) = (&self.model, &mut connection.halves[of].followed) {
                    followed.transfer.set_model(Arc::clone(model));
                    self.paths.value(followed.path).into_iter().for_each(|path| path.by_model = true);
                }
            }
        }
        let counted = connection.count(end, tcp, self.options.settings.framing.get());
        self.counts.oversized += u64::from(counted.packets > 1);
        for (of, way) in [(end, Way::Data), (1 - end, Way::Acks)] {
            let Some(followed) = &mut connection.halves[of].followed else { continue };
            segment.way = way;
            let estimate = followed.transfer.observe(&segment);
            let Some(path) = self.paths.value(followed.path) else { continue };
            path.last = path.last.max(at);
            if of == end {
                path.volume.packets += counted.packets;
                path.volume.wire += counted.wire;
            }
            if let Some(time) = followed.transfer.timed() {
                path.recent_round_trips.add(time);
                answered = Some((of, time));
            }
            self.outside = followed.transfer.outside().or(self.outside);
            let passed = followed.transfer.passed();
            let carried = match (followed.transfer.shows_delivery(), of == end) {
                (true, true) => counted.wire,
                // Behind a loss much is acknowledged at once.
                (false, false) => {
                    passed.filter(|passed| passed.counts).map_or(0, |passed| passed.bytes.get())
                }
                _ => 0,
            };
            if carried > 0 {
                path.peak.add(at, carried);
                followed.peak.add(at, carried);
            }
            // A model knows single transfers only.
            if let Some(passed) = passed.filter(|_| self.model.is_none()) {
                let shared = path.shared_memory();
                path.pass(&passed, &followed.transfer);
                self.memory = self.memory + path.shared_memory() - shared;
            }
            if let Some(estimate) = estimate {
                followed.estimates.add(&estimate);
                path.estimate(&estimate);
                share_capacity(path, &mut followed.transfer);
            }
        }
        if let Some((of, time)) = answered {
            self.counts.proxies += u64::from(connection.answered(of, time));
        }
        let memory = connection.memory();
        self.memory = self.memory + memory - std::mem::replace(&mut connection.counted, memory);
        while self.memory > self.options.memory && self.connections.len() > 1 {
            self.evict();
        }
    }

    /// Forgets which end of a connection is near: the capturing host received a packet and sent it on, so the
    /// headings of its packets do not tell. What began on a wrong path begins again.
    #[cold]
    fn forward(&mut self, place: u32, key: &Key) {
        let Some(connection) = self.connections.value(place) else { return };
        if !connection.forward() {
            return;
        }
        self.memory -= std::mem::take(&mut connection.counted);
        for half in &mut connection.halves {
            let Some(followed) = half.followed.take() else { continue };
            let Some(path) = self.paths.value(followed.path) else { continue };
            let shared = path.shared_memory();
            path.leave();
            self.memory = self.memory + path.shared_memory() - shared;
            path.give_up(half.volume);
        }
        key.0.iter().for_each(|end| {
            self.near.remove(&end.address);
        });
    }

    /// Returns the place of a segment's connection, which is added if it is new.
    fn place(&mut self, key: Key, end: usize, at: Instant, tcp: &Tcp) -> u32 {
        if let Some(place) = self.connections.find(&key) {
            let connection = self.connections.value(place);
            if connection.is_none_or(|connection| !connection.is_reused_by(end, tcp)) {
                return place;
            }
            if let Some((_, connection)) = self.connections.remove(place) {
                self.retire(connection);
            }
        }
        if self.connections.is_full() {
            self.evict();
        }
        self.counts.connections += 1;
        self.connections.insert(key, Connection::new(at))
    }

    /// Gives up connections without a packet for this long, those that were closed and all. For trackers that
    /// never end: others keep all that the table holds, to tell of them at the end.
    pub fn expire(&mut self, closed: Duration, idle: Duration) {
        let now = self.now;
        let is_over = |connection: &Connection| {
            let silent = now - connection.last;
            silent > if connection.closed { closed } else { idle }
        };
        let over = self.connections.places().filter(|(_, _, connection)| is_over(connection));
        let over: Vec<u32> = over.map(|(place, ..)| place).collect();
        for place in over {
            if let Some((_, connection)) = self.connections.remove(place) {
                self.retire(connection);
            }
        }
    }

    /// Gives up the connection idle for longest.
    fn evict(&mut self) {
        if let Some((_, connection)) = self.connections.remove_oldest() {
            self.counts.evicted += u64::from(!connection.closed);
            self.retire(connection);
        }
    }

    /// Adds what is known of a connection that leaves the table to its paths.
    fn retire(&mut self, mut connection: Connection) {
        self.memory -= connection.counted;
        self.counts.one_way += u64::from(connection.is_one_way());
        for followed in connection.halves.iter_mut().flat_map(|half| &mut half.followed) {
            let Some(path) = self.paths.value(followed.path) else { continue };
            let shared = path.shared_memory();
            path.leave();
            self.memory = self.memory + path.shared_memory() - shared;
            followed.add_to(path);
        }
    }
}

/// A path knows the capacity that its transfers found, and tells those that did not.
fn share_capacity(path: &mut Path, transfer: &mut Transfer) {
    if let Some(found) = transfer.narrow_link() {
        path.learn(found);
    } else if let Some(known) = path.capacity {
        transfer.share_capacity(known.rate);
    }
}

/// Starts to follow the data of one end of a connection; returns the bytes that its path uses more.
fn begin(
    connection: &mut Connection,
    key: &Key,
    of: usize,
    options: &Options,
    known: &mut HashMap<IpAddr, Evidence>,
    paths: &mut Lru<PathKey, Path>,
    at: Instant,
) -> usize {
    let (near, evidence) = nearest(connection, key, of, options.side, known);
    connection.near = Some((near, evidence));
    let (settings, place) = route(key, near, of, options, paths, at);
    connection.begin(of, &settings, place);
    let Some(path) = paths.value(place) else { return 0 };
    let shared = path.shared_memory();
    // Data in the SYN came before there was a path.
    path.join(&settings, connection.halves[of].volume);
    path.is_loopback |= key.is_loopback();
    if let (Some(capacity), Some(followed)) = (path.capacity, &mut connection.halves[of].followed) {
        followed.transfer.share_capacity(capacity.rate);
    }
    path.shared_memory() - shared
}

/// Returns the settings of a transfer, and the place of its path, where the end `near` of a
/// connection is near the tap.
fn route(
    key: &Key,
    near: usize,
    of: usize,
    options: &Options,
    paths: &mut Lru<PathKey, Path>,
    at: Instant,
) -> (Settings, u32) {
    let (side, direction) =
        if near == of { (Side::Sender, Direction::To) } else { (Side::Receiver, Direction::From) };
    let peer = Peer::new(key.0[1 - near].address, options.grouping);
    (Settings { side, ..options.settings }, path(paths, PathKey { peer, direction }, at))
}

/// The handshake ended behind the first data, and another end is near than was assumed: the transfers move to
/// other paths. Returns by how many bytes the memory of the paths grew.
fn change_side(
    connection: &mut Connection,
    key: &Key,
    options: &Options,
    paths: &mut Lru<PathKey, Path>,
    at: Instant,
) -> isize {
    let Some((near, _)) = connection.near else { return 0 };
    let mut grown = 0;
    for (of, half) in connection.halves.iter_mut().enumerate() {
        let Some(followed) = &mut half.followed else { continue };
        if let Some(path) = paths.value(followed.path) {
            grown -= path.shared_memory() as isize;
            path.leave();
            path.give_up(half.volume);
            grown += path.shared_memory() as isize;
        }
        let (settings, place) = route(key, near, of, options, paths, at);
        followed.transfer.move_to(settings.side);
        followed.path = place;
        let Some(path) = paths.value(place) else { continue };
        grown -= path.shared_memory() as isize;
        path.join(&settings, half.volume);
        grown += path.shared_memory() as isize;
    }
    grown
}

/// Returns the end near the tap, and how that is known; `of` is the end that sends the data.
fn nearest(
    connection: &Connection,
    key: &Key,
    of: usize,
    side: Option<Side>,
    known: &mut HashMap<IpAddr, Evidence>,
) -> (usize, Evidence) {
    if let Some(side) = side {
        return (if side == Side::Sender { of } else { 1 - of }, Evidence::Given);
    }
    let addresses = key.0.map(|end| end.address);
    if let Some((near, evidence)) = connection.near {
        if evidence >= Evidence::Handshake && known.len() < NEAR_ADDRESSES {
            known.insert(addresses[near], evidence);
        }
        return (near, evidence);
    }
    let one = |is: &dyn Fn(&IpAddr) -> bool| match addresses.each_ref().map(is) {
        [true, false] => Some(0),
        [false, true] => Some(1),
        _ => None,
    };
    if let Some(near) = one(&|address| known.contains_key(address)) {
        return (near, Evidence::Known);
    }
    match one(&is_private) {
        Some(near) => (near, Evidence::Private),
        None => (of, Evidence::Assumed),
    }
}

fn is_private(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private() || address.is_loopback() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_unique_local() || address.is_loopback() || address.is_unicast_link_local()
        }
    }
}

/// Returns the place of a path, which is added if it is new.
fn path(paths: &mut Lru<PathKey, Path>, key: PathKey, at: Instant) -> u32 {
    if let Some(place) = paths.find(&key) {
        return place;
    }
    // The two paths of others stay in the table.
    for _ in 0..2 {
        if let Some((PathKey { peer: Peer::Others, direction }, _)) = paths.oldest() {
            let others = PathKey { peer: Peer::Others, direction: *direction };
            paths.find(&others);
        }
    }
    if paths.is_full() {
        // A path whose connections are in the table keeps its place.
        if paths.oldest().is_some_and(|(_, path)| path.live > 0)
            && let Some(place) = paths.find(&PathKey { peer: Peer::Others, ..key })
        {
            return place;
        }
        paths.remove_oldest();
    }
    paths.insert(key, Path::new(at))
}

/// The rate of some bytes in some time.
pub(crate) fn rate(bytes: u64, time: Duration) -> Rate {
    let seconds = time.secs_f64();
    if seconds > 0.0 { Rate::from_bps_f64(bytes as f64 * 8.0 / seconds) } else { Rate::ZERO }
}

//! What is known of connections from one look at them to the next.

use std::collections::HashMap;
use std::time::Instant as Clock;

use headway_record::csv::Text;
use headway_record::{Histogram, row};
use headway_telemetry::{Connection, Dump};
use headway_units::{Bytes, Duration, Instant, Rate};
use serde::Serialize;

/// A connection has ended when so many looks in a row did not find it: the kernel may leave one out that it
/// moves while it lists them.
const ABSENT: u32 = 2;
/// The kernel's value of a least RTT that was not measured.
const NEVER: u32 = u32::MAX;

/// Payload of a connection since its beginning, bytes: acknowledged by the peer, and received.
type Payload = [u64; 2];

fn payload(connection: &Connection) -> Payload {
    [connection.info.bytes_acked(), connection.info.bytes_received()]
}

/// Returns the rates out and in between two states.
fn rates(before: (Clock, Payload), now: (Clock, Payload)) -> [Rate; 2] {
    let time = Duration::from(now.0.saturating_duration_since(before.0));
    [0, 1].map(|way| {
        let bytes = Bytes::new(now.1[way].saturating_sub(before.1[way]));
        Rate::of(bytes, time).unwrap_or_default()
    })
}

/// The least and the most of a window, and how often it was zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// `None` where the kernel did not tell it.
    pub(super) range: Option<(u32, u32)>,
    /// Looks at which it was zero.
    pub(super) zeros: u64,
}

impl Window {
    fn add(&mut self, window: Option<u32>) {
        let Some(window) = window else { return };
        let (least, most) = self.range.unwrap_or((window, window));
        self.range = Some((least.min(window), most.max(window)));
        self.zeros += u64::from(window == 0);
    }
}

/// A connection that was seen at least once.
#[derive(Debug)]
pub(super) struct Followed {
    /// What it was at the last look that found it.
    pub(super) now: Connection,
    /// The rates out and in between the last two looks that found it.
    pub(super) rates: [Rate; 2],
    /// How often it was found.
    pub(super) looks: u64,
    /// The RTT at every look.
    pub(super) rtts: Histogram,
    /// The windows of both ends at every look.
    pub(super) told: Window,
    pub(super) seen: Window,
    first: (Clock, Payload),
    last: (Clock, Payload),
    shown: (Clock, Payload),
    absent: u32,
}

impl Followed {
    fn new(connection: Connection, at: Clock) -> Followed {
        let state = (at, payload(&connection));
        let mut followed = Followed {
            now: connection,
            rates: [Rate::ZERO; 2],
            looks: 0,
            rtts: Histogram::default(),
            told: Window::default(),
            seen: Window::default(),
            first: state,
            last: state,
            shown: state,
            absent: 0,
        };
        followed.count();
        followed
    }

    fn look(&mut self, connection: Connection, at: Clock) {
        let state = (at, payload(&connection));
        self.rates = rates(self.last, state);
        (self.now, self.last, self.absent) = (connection, state, 0);
        self.count();
    }

    fn count(&mut self) {
        let info = &self.now.info;
        self.looks += 1;
        if info.rtt() > 0 {
            self.rtts.add(u64::from(info.rtt()) * 1000);
        }
        self.told.add(info.window_told());
        self.seen.add(info.window_seen());
    }

    /// Returns the rates since this was called before.
    pub(super) fn fresh_rates(&mut self) -> [Rate; 2] {
        rates(std::mem::replace(&mut self.shown, self.last), self.last)
    }

    /// How long it was followed.
    pub(super) fn time(&self) -> Duration {
        Duration::from(self.last.0.saturating_duration_since(self.first.0))
    }

    /// Payload out and in while it was followed.
    pub(super) fn moved(&self) -> [Bytes; 2] {
        [0, 1].map(|way| Bytes::new(self.last.1[way].saturating_sub(self.first.1[way])))
    }

    /// The rates out and in while it was followed.
    pub(super) fn mean_rates(&self) -> [Rate; 2] {
        rates(self.first, self.last)
    }

    /// Returns what the last look found, as the columns of CSV and the keys of JSON.
    pub(super) fn row(&self, at: Instant) -> impl Serialize + use<> {
        let (now, info) = (&self.now, &self.now.info);
        let us = |us: u32| Some(us).filter(|us| *us > 0 && *us != NEVER);
        row! {
            at_unix_ns: at,
            local: Text(now.local.to_string()),
            peer: Text(now.peer.to_string()),
            controller: Text(now.controller.clone()),
            out_bps: self.rates[0].bps(),
            in_bps: self.rates[1].bps(),
            cwnd_segments: info.cwnd(),
            mss_bytes: info.send_mss(),
            window_told_bytes: info.window_told(),
            window_seen_bytes: info.window_seen(),
            rtt_us: us(info.rtt()),
            min_rtt_us: us(info.min_rtt()),
            unread_bytes: now.unread,
            receive_memory_bytes: now.memory.received,
            receive_buffer_bytes: now.memory.receive_buffer,
            unacknowledged_bytes: now.unacknowledged,
            send_memory_bytes: now.memory.queued,
            send_buffer_bytes: now.memory.send_buffer,
            acknowledged_bytes: info.bytes_acked(),
            received_bytes: info.bytes_received(),
            retransmitted_segments: info.retransmitted(),
        }
    }
}

/// How much was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Counts {
    /// Times that the kernel was asked.
    pub(super) looks: u64,
    /// Of them, those that the kernel called incomplete.
    pub(super) interrupted: u64,
    /// Connections that were followed.
    pub(super) connections: u64,
    /// Of them, those that have ended.
    pub(super) ended: u64,
    /// Most connections for which there was no room at a time.
    pub(super) without_room: u64,
}

/// The connections that are followed.
#[derive(Debug)]
pub(super) struct Watch {
    live: HashMap<u64, Followed>,
    most: usize,
    pub(super) counts: Counts,
}

impl Watch {
    /// Follows at most so many connections at a time.
    pub(super) fn new(most: usize) -> Watch {
        Watch { live: HashMap::new(), most, counts: Counts::default() }
    }

    /// Takes what the kernel says at a time; returns the connections that have ended.
    ///
    /// A connection is known by the kernel's number of its socket, so that a later one between the
    /// same ends is another.
    pub(super) fn look(&mut self, dump: Dump, at: Clock) -> Vec<Followed> {
        self.counts.looks += 1;
        self.counts.interrupted += u64::from(dump.is_interrupted);
        // An incomplete list says nothing about those that are not in it.
        let absent = u32::from(!dump.is_interrupted);
        self.live.values_mut().for_each(|followed| followed.absent += absent);
        let mut without_room = 0;
        for connection in dump.connections {
            if let Some(followed) = self.live.get_mut(&connection.cookie) {
                followed.look(connection, at);
            } else if self.live.len() < self.most {
                self.counts.connections += 1;
                self.live.insert(connection.cookie, Followed::new(connection, at));
            } else {
                without_room += 1;
            }
        }
        self.counts.without_room = self.counts.without_room.max(without_room);
        let ended = self.live.extract_if(|_, followed| followed.absent >= ABSENT);
        let ended: Vec<Followed> = ended.map(|(_, followed)| followed).collect();
        self.counts.ended += ended.len() as u64;
        ended
    }

    /// Returns the connections that the last look found.
    pub(super) fn found(&self) -> impl Iterator<Item = &Followed> {
        self.live.values().filter(|followed| followed.absent == 0)
    }

    /// Returns what was known of all that have not ended.
    pub(super) fn known(&self) -> impl Iterator<Item = &Connection> {
        self.live.values().map(|followed| &followed.now)
    }

    /// Returns the connections, to be shown.
    pub(super) fn visible(&mut self) -> impl Iterator<Item = &mut Followed> {
        self.live.values_mut().filter(|followed| followed.absent == 0)
    }

    /// Returns all that have not ended.
    pub(super) fn into_rest(self) -> impl Iterator<Item = Followed> {
        self.live.into_values()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration as Span;

    use headway_telemetry::{Key, Memory, TcpInfo};

    use super::*;

    /// A connection between the same two ends that has received so much.
    fn connection(cookie: u64, received: u64) -> Connection {
        let mut info = [0; 248];
        info[68..72].copy_from_slice(&2000_u32.to_ne_bytes());
        info[128..136].copy_from_slice(&received.to_ne_bytes());
        Connection {
            cookie,
            local: "192.0.2.7:443".parse().unwrap(),
            peer: "[2001:db8::7]:40000".parse().unwrap(),
            unread: 0,
            unacknowledged: 0,
            memory: Memory::default(),
            controller: "cubic".to_owned(),
            multipath: None,
            info: TcpInfo::from_bytes(&info),
            key: Key::default(),
        }
    }

    fn dump(connections: &[(u64, u64)]) -> Dump {
        let connections = connections.iter().map(|(cookie, received)| connection(*cookie, *received));
        Dump { connections: connections.collect(), is_interrupted: false }
    }

    #[test]
    fn rates_are_between_looks_and_over_all_time() {
        let (mut watch, begun) = (Watch::new(9), Clock::now());
        for (ms, received) in [(0, 1000), (100, 2000), (200, 7000)] {
            assert!(watch.look(dump(&[(1, received)]), begun + Span::from_millis(ms)).is_empty());
        }
        let followed = watch.found().next().unwrap();
        assert_eq!(followed.rates, [Rate::ZERO, Rate::from_bps(400_000)]);
        assert_eq!(followed.mean_rates()[1], Rate::from_bps(240_000));
        assert_eq!((followed.looks, followed.moved()[1]), (3, Bytes::new(6000)));
        assert_eq!((followed.rtts.count(), followed.told.zeros), (3, 3));
        let followed = watch.visible().next().unwrap();
        assert_eq!(followed.fresh_rates()[1], Rate::from_bps(240_000));
        assert_eq!(followed.fresh_rates()[1], Rate::ZERO);
    }

    #[test]
    fn a_connection_has_ended_that_two_looks_in_a_row_do_not_find() {
        let (mut watch, at) = (Watch::new(9), Clock::now());
        let mut look = |connections: &[(u64, u64)]| watch.look(dump(connections), at).len();
        assert_eq!(look(&[(1, 500), (2, 5)]), 0);
        assert_eq!(look(&[(2, 5)]), 0);
        assert_eq!(look(&[(1, 600), (2, 5)]), 0);
        assert_eq!(look(&[(1, 600)]), 0);
        // Another one between the same ends, which begins at zero.
        assert_eq!(look(&[(3, 7)]), 1);
        assert_eq!(look(&[(3, 7)]), 1);
        assert_eq!((watch.counts.connections, watch.counts.ended), (3, 2));
        assert_eq!(watch.into_rest().map(|it| it.moved()[1].get()).sum::<u64>(), 0);
    }

    #[test]
    fn an_incomplete_list_ends_no_connection() {
        let (mut watch, at) = (Watch::new(9), Clock::now());
        watch.look(dump(&[(1, 5)]), at);
        for _ in 0..5 {
            assert!(watch.look(Dump { is_interrupted: true, ..dump(&[]) }, at).is_empty());
        }
        assert_eq!(watch.counts.interrupted, 5);
        assert_eq!(watch.into_rest().count(), 1);
    }

    #[test]
    fn what_has_no_room_is_counted() {
        let (mut watch, at) = (Watch::new(2), Clock::now());
        watch.look(dump(&[(1, 0), (2, 0), (3, 0), (4, 0)]), at);
        watch.look(dump(&[(1, 0), (2, 0), (3, 0)]), at);
        assert_eq!((watch.found().count(), watch.counts.without_room), (2, 2));
    }

    #[test]
    fn a_row_has_the_columns_of_telemetry() {
        let followed = Followed::new(connection(1, 5), Clock::now());
        let row = serde_json::to_value(followed.row(Instant::from_ns(8))).unwrap();
        assert_eq!((&row["rtt_us"], &row["min_rtt_us"]), (&2000.into(), &serde_json::Value::Null));
        assert_eq!((&row["peer"], &row["received_bytes"]), (&"[2001:db8::7]:40000".into(), &5.into()));
        assert_eq!(row["at_unix_ns"], 8);
    }
}

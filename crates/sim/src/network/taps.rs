//! Taps, which record the segments and ACKs that pass a place on the path of a flow.
//!
//! A tap is a hop of the routes of its flows, and so are middleboxes, and NICs that hold ACKs: a *station*.
//! Packets of other flows never meet one, so a network without taps does nothing for them.

use headway_units::{Bytes, Instant};

use super::{FIRST_BUNDLE, FIRST_MIDDLEBOX, FIRST_NIC, FIRST_STATION, Network, number};
use crate::config::{FlowId, TapId, TapPlace, TcpConfig};
use crate::packet::{Kind, Packet, REPORT, RETRANSMITTED, WINDOW_PROBE};

/// A packet of a flow that passed a tap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TapRecord {
    /// When it passed.
    pub at: Instant,
    /// Its flow.
    pub flow: FlowId,
    /// Its size on the wire.
    pub size: Bytes,
    /// Its contents.
    pub event: TapEvent,
}

/// The contents of a packet that passed a tap. Sequence numbers and windows count segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapEvent {
    /// The SYN of the sender.
    Syn,
    /// The SYN-ACK of the receiver.
    SynAck,
    /// The ACK that ends the handshake.
    HandshakeAck,
    /// A segment.
    Segment {
        /// Its sequence number.
        sequence: u64,
        /// Whether it was sent before.
        retransmitted: bool,
    },
    /// An ACK.
    Ack {
        /// The cumulative acknowledgement: the first missing segment.
        number: u64,
        /// The advertised window beyond it.
        window: u32,
        /// Whether it carries SACK blocks.
        sack: bool,
    },
}

/// A tap and what it has seen since its records were taken.
#[derive(Debug, Default)]
pub(super) struct Tap {
    records: Vec<TapRecord>,
}

impl Tap {
    pub(super) fn memory(&self) -> usize {
        size_of::<Tap>() + self.records.capacity() * size_of::<TapRecord>()
    }
}

/// The stations on the path of a flow, each with the number of links before it.
#[derive(Debug, Default)]
pub(super) struct Stations {
    pub(super) forward: Vec<(usize, u32)>,
    pub(super) reverse: Vec<(usize, u32)>,
}

/// Returns the stations that a flow with this configuration passes.
pub(super) fn stations(config: &TcpConfig) -> Stations {
    let mut stations = Stations::default();
    let (there, back) = (config.forward.len(), config.reverse.len());
    let mut behind_nic = Vec::new();
    for (tap, place) in &config.taps {
        let station = FIRST_STATION + tap.0;
        let (forward, reverse) = match *place {
            TapPlace::Sender | TapPlace::SenderNic => (0, back),
            TapPlace::Receiver => (there, 0),
            TapPlace::Node { forward, reverse } => (forward.min(there), reverse.min(back)),
        };
        stations.forward.push((forward, station));
        let list = if *place == TapPlace::Sender { &mut behind_nic } else { &mut stations.reverse };
        list.push((reverse, station));
    }
    for passage in &config.middleboxes {
        let station = FIRST_MIDDLEBOX + passage.middlebox.0;
        stations.forward.push((passage.forward.min(there), station));
        stations.reverse.push((passage.reverse.min(back), station));
    }
    // The sort is stable: of stations at one node, the NIC comes behind the taps in it.
    stations.reverse.extend(config.ack_nic.map(|nic| (back, FIRST_NIC + nic.0)));
    stations.reverse.append(&mut behind_nic);
    stations.forward.sort_by_key(|station| station.0);
    stations.reverse.sort_by_key(|station| station.0);
    stations
}

impl Network {
    /// Adds a tap; [`TcpConfig::taps`] says which flows pass it.
    pub fn add_tap(&mut self) -> TapId {
        self.taps.push(Tap::default());
        TapId(number(self.taps.len() - 1))
    }

    /// Moves the records of a tap since the last call to `records`, in order of time; those of the same
    /// moment are in the order in which they happened.
    pub fn take_tap_records(&mut self, tap: TapId, records: &mut Vec<TapRecord>) {
        let tap = &mut self.taps[tap.0 as usize];
        // The two directions may belong to partitions that ran one after the other.
        tap.records.sort_by_key(|record| record.at);
        records.append(&mut tap.records);
    }

    /// Passes a packet on at a station that is not the end of its route.
    #[cold]
    pub(super) fn pass_station(&mut self, station: u32, packet: &Packet) {
        if station >= FIRST_BUNDLE {
            return self.send_in_turn(station, packet);
        }
        let packet = Packet { route: packet.route + 1, ..*packet };
        if station >= FIRST_NIC {
            return self.receive_at_nic((station - FIRST_NIC) as usize, &packet);
        }
        if station >= FIRST_MIDDLEBOX {
            return self.pass_middlebox(station - FIRST_MIDDLEBOX, packet);
        }
        self.record(station - FIRST_STATION, &packet);
        self.forward(&packet);
    }

    fn record(&mut self, tap: u32, packet: &Packet) {
        let event = match packet.kind {
            Kind::Syn => TapEvent::Syn,
            Kind::SynAck => TapEvent::SynAck,
            Kind::HandshakeAck => TapEvent::HandshakeAck,
            // A window probe carries no data.
            Kind::Segment if packet.has(WINDOW_PROBE) => return,
            Kind::Segment => {
                TapEvent::Segment { sequence: packet.seq, retransmitted: packet.has(RETRANSMITTED) }
            }
            Kind::Ack if packet.has(REPORT) => {
                let report = self.reports.get(packet.extra);
                TapEvent::Ack { number: packet.seq, window: report.window, sack: report.has_blocks() }
            }
            Kind::Ack => TapEvent::Ack { number: packet.seq, window: packet.extra, sack: false },
            Kind::Datagram | Kind::Probe | Kind::Train | Kind::Damaged => return,
        };
        self.taps[tap as usize].records.push(TapRecord {
            at: Instant::from_ns(self.queues.now),
            flow: FlowId(packet.owner),
            size: Bytes::new(packet.size.into()),
            event,
        });
    }
}

//! The receiving end of a TCP flow: reassembly, ACKs, ECN echo, receive window.

mod compression;
mod host_reader;
mod reader;
#[cfg(test)]
mod tests;

use headway_host::nic::AckStamp;
use headway_queue::explicit::{Echo, Format, HEADER_BYTES, Header};

use self::compression::{COMPRESSION_SLACK, Compression};
use self::host_reader::HostReader;
use self::reader::Reader;
use super::blocks::Blocks;
use super::paws::Paws;
use super::range_set::RangeSet;
use super::receive_window::{GROWTH, ReceiveWindow};
use crate::config::{Ecn, TcpConfig};
use crate::packet::{
    CE, CWR, DUPLICATE, ECE, Kind, Packet, REPORT, RETRANSMITTED, Report, SACK_BLOCKS, WINDOW_PROBE,
};

/// Bytes on the wire of an ACK with timestamps and without SACK blocks: 20 + 32 of
/// headers and 38 of Ethernet.
const ACK_SIZE: u16 = 90;
/// Bytes added by the first SACK block, and by each further one.
const FIRST_BLOCK: u16 = 12;
const MORE_BLOCK: u16 = 8;
/// Most segments acknowledged one by one at the start of a flow to speed up slow start
/// (Linux's quickack mode).
const QUICKACKS: u32 = 16;
/// Minimum variance term of the RTO, ns. Quickack mode starts again after an idle time longer than an RTO,
/// because the sender's window is small then (Linux's `tcp_event_data_recv`).
const RTO_MIN: u64 = 200_000_000;
/// Segments in quickack mode after a CE mark that begins an echo, since the sender's window may be small from
/// now on (Linux, without DCTCP).
const QUICKACKS_AFTER_MARK: u32 = 2;
/// SACK blocks of an ACK that are expected to reach the sender (Linux's `TCP_SACK_BLOCKS_EXPECTED`).
const BLOCKS_EXPECTED: usize = 2;

/// The receiver of one flow. The fields that every segment in order needs come first.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Receiver {
    /// The cumulative ACK: the first missing segment.
    next: u64,
    /// When a delayed ACK or window update is due (ns); `u64::MAX` if none is.
    deadline: u64,
    timeout: u64,
    /// Segments in order that no ACK covers yet.
    unacknowledged: u32,
    every: u32,
    quickack: u32,
    owner: u32,
    route: u32,
    ecn: Ecn,
    echo: bool,
    /// ECE is echoed until the sender reports CWR (Linux's `TCP_ECN_DEMAND_CWR`).
    demand_cwr: bool,
    /// The next segment in order is acknowledged immediately.
    ack_now: bool,
    received: u64,
    /// When the last segment arrived (ns), and the idle time that starts quickack mode again.
    last_arrival: u64,
    idle_limit: u64,
    /// Of the last segment: when it was sent (ns), and its flag for retransmissions.
    last: (u64, u8),
    paws: Paws,
    /// The highest right edge of the window advertised so far.
    right_edge: u64,
    window: ReceiveWindow,
    out_of_order: RangeSet,
    compression: Compression,
    /// Where stamps are taken; `None` also if the sender does not want them.
    stamp: AckStamp,
    /// The feedback that is owed to a sender whose segments have congestion headers.
    feedback: Option<Echo>,
    /// An application that reads at a limited rate, at a textbook's receiver or on a host.
    reader: Option<Reader>,
    host_reader: Option<Box<HostReader>>,
    blocks: Blocks,
    marked: u64,
    /// How many segments quickack mode acknowledges at most.
    most_quick: u32,
}

/// Returns how many segments are acknowledged one by one at the start of a flow with a receive window
/// of so many segments (Linux's `tcp_incr_quickack`): half of them, so that a small window still gets
/// ACKs that cover two.
fn most_quick(window: u64) -> u32 {
    match window / 2 {
        0 => 2,
        half => half.min(QUICKACKS.into()) as u32,
    }
}

/// Returns after how many segments an ACK is due with a window of so many: on a host that reads at once, when
/// half of it is used, because reading then doubles what is left (Linux's `tcp_cleanup_rbuf`).
fn every(config: &TcpConfig, window: u64) -> u32 {
    let doubles = config.has_host_receiver() && config.read_rate.is_none();
    let half = if doubles { window.div_ceil(2) } else { u64::MAX };
    u64::from(config.ack.every).min(half) as u32
}

impl Receiver {
    /// Returns the receiver of a new flow. A host knows the RTT of the empty path, `round_trip` ns, from its
    /// handshake.
    pub(crate) fn new(config: &TcpConfig, owner: u32, route: u32, round_trip: u64) -> Receiver {
        let is_host = config.has_host_receiver();
        let round_trip = if is_host { round_trip } else { 0 };
        let window = ReceiveWindow::new(config);
        let most_quick = most_quick(window.initial);
        Receiver {
            next: 0,
            unacknowledged: 0,
            every: every(config, window.max),
            quickack: most_quick.max((window.growth / GROWTH) as u32),
            deadline: u64::MAX,
            timeout: config.ack.timeout.ns().unsigned_abs(),
            owner,
            route,
            ecn: config.ecn,
            echo: false,
            demand_cwr: false,
            ack_now: false,
            compression: Compression::new(round_trip),
            stamp: AckStamp::None,
            feedback: None,
            right_edge: window.initial,
            window,
            out_of_order: RangeSet::default(),
            blocks: Blocks::default(),
            reader: config.read_rate.filter(|_| !is_host).map(|rate| Reader::new(rate, config.mss)),
            host_reader: config.read_rate.filter(|_| is_host).map(|rate| {
                let buffer = config.receive_buffer.get();
                Box::new(HostReader::new(rate, config.mss, config.start.ns(), buffer))
            }),
            last: (0, 0),
            paws: Paws::new(is_host),
            last_arrival: 0,
            idle_limit: if is_host { round_trip + RTO_MIN.max(2 * round_trip) } else { u64::MAX },
            received: 0,
            marked: 0,
            most_quick,
        }
    }

    /// The sender wants stamps. ACKs are then never compressed, because each stamps one segment only (Linux:
    /// `tcp_comp_sack_nr` of 0).
    pub(crate) fn take_stamps(&mut self, stamp: AckStamp) {
        self.stamp = stamp;
        self.compression = Compression::default();
    }

    /// Segments have congestion headers, and ACKs return their feedback.
    pub(crate) fn take_headers(&mut self) {
        self.feedback = Some(Echo::default());
    }

    /// Notes the feedback of a segment.
    pub(crate) fn on_header(&mut self, header: &Header) {
        if let Some(echo) = &mut self.feedback {
            echo.on_packet(header);
        }
    }

    /// Whether stamps are taken after the NIC's whole batch.
    pub(crate) fn stamps_acks(&self) -> bool {
        matches!(self.stamp, AckStamp::Ack | AckStamp::Ms)
    }

    /// The SYN-ACK that answers a SYN.
    pub(crate) fn answer(&self, syn: &Packet) -> Packet {
        Packet { route: self.route, kind: Kind::SynAck, at: 0, ..*syn }
    }

    /// The index of the route of its ACKs.
    pub(crate) fn route(&self) -> u32 {
        self.route
    }

    /// Segments received in order.
    pub(crate) fn in_order(&self) -> u64 {
        self.next
    }

    /// Segments received, window probes included.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Segments received with a CE mark.
    pub(crate) fn marked(&self) -> u64 {
        self.marked
    }

    /// When to call [`Receiver::on_timer`] (ns); `u64::MAX` for never.
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline
    }

    /// Prepares for `segment` and returns the ACK that is due before it, if any. With the DCTCP
    /// echo, a change of CE marks sends a delayed ACK at once, and the segment is acknowledged
    /// immediately (RFC 8257 3.2).
    pub(crate) fn before(&mut self, now: u64, segment: &Packet) -> Option<Packet> {
        if self.compression.compressed > 0 && self.displaces_block(segment.seq) {
            return Some(self.acknowledge(now));
        }
        if self.ecn != Ecn::Dctcp || segment.has(CE) == self.echo {
            return None;
        }
        let due = (self.unacknowledged > 0).then(|| self.acknowledge(now));
        self.echo = segment.has(CE);
        self.ack_now = true;
        due
    }

    /// Whether a segment out of order would displace a SACK block: it touches no recent block, so compressed
    /// ACKs had better be sent first (Linux).
    #[cold]
    fn displaces_block(&self, seq: u64) -> bool {
        if seq <= self.next || self.out_of_order.range_of(seq).is_some() {
            return false;
        }
        self.blocks.place(seq).unwrap_or(self.blocks.iter().count()) >= BLOCKS_EXPECTED
    }

    /// Takes a segment; returns the ACK to be sent immediately, if any.
    #[inline(always)]
    pub(crate) fn on_segment(&mut self, now: u64, segment: &Packet) -> Option<Packet> {
        if !self.paws.accepts(segment) {
            return Some(self.reject(now, segment));
        }
        self.last = (segment.sent, segment.flags & RETRANSMITTED);
        if now - self.last_arrival > self.idle_limit {
            self.quickack = self.quickack.max(self.most_quick);
        }
        self.last_arrival = now;
        self.received += 1;
        if segment.flags & (CE | CWR) != 0 {
            self.on_ecn(segment);
        }
        if segment.seq != self.next || segment.has(WINDOW_PROBE) || !self.out_of_order.is_empty() {
            return self.on_out_of_order(now, segment);
        }
        self.next += 1;
        self.unacknowledged += 1;
        let is_due = self.unacknowledged >= self.every && !self.waits_for_reader(now);
        if !is_due && self.quickack == 0 && !self.ack_now {
            self.delay_ack(now, now + self.timeout);
            return None;
        }
        self.quickack = self.quickack.saturating_sub(1);
        Some(self.acknowledge_at_once(now))
    }

    /// Lets an ACK wait until `due` (ns), or until the reader of a host wakes.
    #[inline(always)]
    fn delay_ack(&mut self, now: u64, due: u64) {
        self.deadline = self.deadline.min(due);
        if self.host_reader.is_some() {
            self.delay_ack_for_reader(now, due);
        }
    }

    #[inline(never)]
    fn delay_ack_for_reader(&mut self, now: u64, due: u64) {
        if let Some(reader) = &mut self.host_reader {
            reader.due = reader.due.min(due);
        }
        self.await_reader(now);
    }

    /// Sets the deadline to the next time at which the reader may cause an ACK, or at
    /// which one is due anyway.
    fn await_reader(&mut self, now: u64) {
        let Some(reader) = &self.host_reader else { return };
        let has_cause =
            self.unacknowledged >= self.every || reader.may_open(self.next, self.right_edge - self.next);
        self.deadline = if has_cause { reader.due.min(reader.wakes_after(now)) } else { reader.due };
    }

    /// Whether an ACK waits until the application of a host has read: because that is late, and the
    /// window would shrink.
    #[inline(always)]
    fn waits_for_reader(&mut self, now: u64) -> bool {
        self.host_reader.is_some() && self.would_shrink(now)
    }

    #[inline(never)]
    fn would_shrink(&mut self, now: u64) -> bool {
        let window = self.window_beside_unread(now);
        self.host_reader
            .as_ref()
            .is_some_and(|reader| reader.is_late(self.next) && window < reader.advertised)
    }

    /// The window that a host with a slow reader would offer now, segments.
    fn window_beside_unread(&mut self, now: u64) -> u64 {
        let (limit, more) = (self.buffer(), self.out_of_order.len());
        let Some(reader) = &mut self.host_reader else { return limit };
        reader.advance(now, self.next);
        if reader.is_low(self.next, more) {
            self.quickack = 0;
        }
        reader.window(self.next, more).min(limit)
    }

    /// Drops a segment that fails PAWS; returns the ACK that answers it.
    #[cold]
    fn reject(&mut self, now: u64, segment: &Packet) -> Packet {
        self.received += 1;
        let mut ack = self.acknowledge(now);
        if segment.seq < self.next {
            self.quickack = self.quickack.max(self.most_quick);
            ack.flags |= DUPLICATE;
        }
        ack
    }

    /// Handles a segment with CE or CWR.
    fn on_ecn(&mut self, segment: &Packet) {
        let marked = segment.has(CE);
        self.marked += u64::from(marked);
        if segment.has(CWR) {
            self.demand_cwr = false;
            self.ack_now = true;
        }
        if marked && !self.demand_cwr && self.ecn == Ecn::Classic {
            self.demand_cwr = true;
            self.quickack = self.quickack.max(self.most_quick.min(QUICKACKS_AFTER_MARK));
        }
        if self.ecn == Ecn::Classic {
            self.echo = self.demand_cwr;
        }
    }

    /// Takes a segment out of order, one that fills a hole, or a window probe; the ACK is immediate
    /// unless it is compressed.
    #[inline(never)]
    fn on_out_of_order(&mut self, now: u64, segment: &Packet) -> Option<Packet> {
        let (seq, before) = (segment.seq, self.next);
        let mut fresh = segment.has(WINDOW_PROBE);
        if seq < self.next {
            // A duplicate segment suggests that ACKs were lost.
            self.quickack = self.quickack.max(self.most_quick);
        } else if !segment.has(WINDOW_PROBE) {
            let range = self.out_of_order.insert(seq..seq + 1, |_| fresh = true);
            if range.start == self.next {
                self.next = range.end;
                self.out_of_order.remove_below(self.next);
            } else if fresh {
                self.blocks.add(seq);
            }
            self.blocks.forget_below(self.next);
        }
        let news = !fresh || self.next > before + 1 || self.out_of_order.is_empty();
        if !news && self.quickack == 0 && !self.ack_now && self.compression.delays(now, self.next) {
            self.deadline = self.compression.due + COMPRESSION_SLACK;
            self.delay_ack(now, self.deadline);
            return None;
        }
        self.quickack = self.quickack.saturating_sub(1);
        let mut ack = self.acknowledge(now);
        if !fresh {
            ack.flags |= DUPLICATE;
        }
        Some(ack)
    }

    /// A delayed ACK or a window update is due, or the reader of a host has woken; returns the
    /// ACK to be sent, if any.
    pub(crate) fn on_timer(&mut self, now: u64) -> Option<Packet> {
        if self.host_reader.is_some() && !self.acknowledges_after_reading(now) {
            self.await_reader(now);
            return None;
        }
        Some(self.acknowledge(now))
    }

    /// Whether a host sends an ACK when its reader has read (Linux's `tcp_cleanup_rbuf`): if one is due, two
    /// segments wait for it, or the window has at least doubled.
    fn acknowledges_after_reading(&mut self, now: u64) -> bool {
        let window = self.window_beside_unread(now);
        let offered = self.right_edge - self.next;
        let Some(reader) = &self.host_reader else { return false };
        let opens = window > 0 && window >= 2 * offered && reader.may_open(self.next, offered);
        now >= reader.due || self.unacknowledged >= self.every || opens
    }

    fn acknowledge(&mut self, now: u64) -> Packet {
        self.acknowledge_at_once(now)
    }

    #[inline(always)]
    fn acknowledge_at_once(&mut self, now: u64) -> Packet {
        self.unacknowledged = 0;
        self.paws.last_ack_sent = self.next;
        self.ack_now = false;
        self.compression.compressed = 0;
        self.deadline = u64::MAX;
        let right_edge = match self.reader {
            None if self.host_reader.is_some() => self.next + self.window_beside_unread(now),
            None => {
                let room = self.buffer();
                self.next + room - self.out_of_order.len().min(room)
            }
            Some(_) => self.advertised_edge(now),
        };
        self.right_edge = self.right_edge.max(right_edge);
        if self.host_reader.is_some() {
            self.note_advertised(now);
        }
        let echo = if self.echo { ECE } else { 0 };
        let mut ack = Packet {
            sent: self.last.0,
            seq: self.next,
            owner: self.owner,
            route: self.route,
            extra: (self.right_edge - self.next).min(u64::from(u32::MAX)) as u32,
            size: ACK_SIZE,
            kind: Kind::Ack,
            flags: echo | self.last.1,
            at: 0,
            joined: 0,
        };
        if self.stamp != AckStamp::None {
            ack.flags |= REPORT;
        }
        if self.feedback.is_some() {
            ack.flags |= REPORT;
            ack.size += HEADER_BYTES as u16;
        }
        if !self.out_of_order.is_empty() {
            ack.flags |= REPORT;
            let blocks = self.blocks.iter().take(SACK_BLOCKS).count().max(1);
            ack.size += FIRST_BLOCK + MORE_BLOCK * (blocks - 1) as u16;
        }
        ack
    }

    /// Notes the window of the ACK that a host with a slow reader sends now.
    #[inline(never)]
    fn note_advertised(&mut self, now: u64) {
        if let Some(reader) = &mut self.host_reader {
            (reader.advertised, reader.due) = (self.right_edge - self.next, u64::MAX);
        }
        self.await_reader(now);
    }

    /// The report of the ACK just returned at `now`, if that is flagged `REPORT`.
    pub(crate) fn report(&mut self, now: u64, ack: &Packet) -> Report {
        let mut report = Report { window: ack.extra, stamp: self.time_stamp(now), ..Report::default() };
        if let Some(echo) = &mut self.feedback
            && let Some(version) = echo.version()
        {
            let header = Header { reverse: echo.take(), ..Header::new(version, Format::Minimal) };
            report.header = Some(header);
        }
        // A DSACK takes the space of a block.
        let room = SACK_BLOCKS - usize::from(ack.has(DUPLICATE));
        for (block, (start, end)) in report.blocks.iter_mut().zip(self.blocks.iter().take(room)) {
            *block = ((start - self.next) as u32, (end - self.next) as u32);
        }
        report
    }

    /// The stamp of an ACK sent now; 0 for none.
    fn time_stamp(&self, now: u64) -> u32 {
        let at = match self.stamp {
            AckStamp::None => return 0,
            AckStamp::Driver => self.last_arrival,
            AckStamp::Ack | AckStamp::Ms => now,
        };
        ((at / self.stamp.unit().ns().unsigned_abs()) as u32).max(1)
    }

    /// The current size of the receive window, segments.
    fn buffer(&self) -> u64 {
        (self.window.initial + GROWTH * self.received).min(self.window.max)
    }

    /// The right edge of the window with a slow reader; schedules a window update if it is nearly closed.
    fn advertised_edge(&mut self, now: u64) -> u64 {
        let buffer = self.buffer();
        let Some(reader) = &mut self.reader else { return self.right_edge };
        reader.advance(now, self.next);
        let unread = self.next - reader.read;
        let room = buffer.saturating_sub(unread + self.out_of_order.len());
        // Avoids silly windows (RFC 1122 4.2.3.3).
        let worth = (buffer / 2).min(2);
        if room < worth {
            let needed =
                (self.next + self.out_of_order.len() + worth).saturating_sub(buffer).max(reader.read + 1);
            self.deadline = (reader.since + reader.time(needed - reader.base)).max(now + 1);
            return self.right_edge;
        }
        self.next + room
    }

    pub(crate) fn memory(&self) -> usize {
        size_of::<Receiver>() + self.out_of_order.memory()
    }
}

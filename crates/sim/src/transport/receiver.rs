//! The receiving end of a TCP flow: reassembly, acknowledgements, echo of marks, receive window.

use headway_core::Rate;

use super::blocks::Blocks;
use super::range_set::RangeSet;
use super::room::{GROWTH, Room};
use super::stamps::Stamps;
use crate::config::{Burst, Ecn, TcpConfig};
use crate::packet::{
    CE, CWR, DUPLICATE, ECE, Kind, Packet, REPORT, RETRANSMITTED, Report, SACK_BLOCKS, WINDOW_PROBE,
};

/// Bytes on the wire of an acknowledgement with timestamps and no SACK block: 20 + 32 of headers and 38 of Ethernet.
const ACK_SIZE: u16 = 90;
/// Bytes that the first SACK block adds, and each further one.
const FIRST_BLOCK: u16 = 12;
const MORE_BLOCK: u16 = 8;
/// Segments that are acknowledged at once when a flow begins, so that slow start is not held up (Linux's quick mode).
const QUICK: u32 = 16;
/// As many when nothing has come for longer than a retransmission timeout, because the sender's window is small then (Linux's
/// `tcp_event_data_recv`). Such a timeout allows for so much variation of the round-trip time at least, ns.
const LEAST_VARIATION: u64 = 200_000_000;
/// The same when a mark comes that the sender has not heard of yet: its window may be small from now on (Linux, without DCTCP).
const QUICK_AFTER_MARK: u32 = 2;
/// Segments out of order that are acknowledged at once after every advance (Linux's `TCP_FASTRETRANS_THRESH`).
const PROMPT: u32 = 3;
/// Blocks of a report that a sender can count on hearing of (Linux's `TCP_SACK_BLOCKS_EXPECTED`).
const BLOCKS_EXPECTED: usize = 2;
/// Most segments out of order whose acknowledgement waits for a common one (Linux's `tcp_comp_sack_nr`).
const MOST_COMPRESSED: u32 = 44;
/// That waits for so many parts of the round-trip time, at most so long, and up to so much longer for something else to happen, ns
/// (Linux: 5 %, `tcp_comp_sack_delay_ns`, `tcp_comp_sack_slack_ns`).
const COMPRESSION_SHARE: u64 = 20;
const LONGEST_COMPRESSION: u64 = 1_000_000;
const COMPRESSION_SLACK: u64 = 100_000;

/// The receiver of one flow.
#[derive(Debug)]
pub(crate) struct Receiver {
    /// The first segment that is missing.
    next: u64,
    /// Segments in order that no acknowledgement has covered yet.
    unacknowledged: u32,
    every: u32,
    quick: u32,
    /// When a held back acknowledgement is due (ns); `u64::MAX` when none is held back.
    deadline: u64,
    timeout: u64,
    owner: u32,
    route: u32,
    ecn: Ecn,
    echo: bool,
    /// Marks have come since the sender last said that it reduced.
    demanding: bool,
    /// The next segment in order is acknowledged at once.
    at_once: bool,
    /// How segments out of order share acknowledgements.
    compression: Compression,
    /// The largest sum of acknowledgement and window told so far.
    edge: u64,
    room: Room,
    early: RangeSet,
    blocks: Blocks,
    reader: Option<Reader>,
    /// Of the segment that came last: when it was sent, and whether it was a retransmission.
    last: (u64, u8),
    /// When it came (ns), and how long a silence ends delays of acknowledgements.
    came: u64,
    silence: u64,
    stamps: Stamps,
    received: u64,
    marked: u64,
}

/// Acknowledgements of segments out of order that wait for more of them, as Linux lets them.
#[derive(Debug, Default)]
struct Compression {
    /// How long one waits, ns; none waits when absent.
    wait: Option<u64>,
    /// The first missing segment at the last one, and how many were acknowledged at once since it changed.
    next: u64,
    prompt: u32,
    /// Segments that wait, and since when they may be acknowledged (ns).
    waiting: u32,
    due: u64,
}

impl Compression {
    /// `round_trip` is the time that an empty path takes (ns).
    fn new(round_trip: u64) -> Compression {
        let wait = (round_trip / COMPRESSION_SHARE).min(LONGEST_COMPRESSION);
        Compression { wait: (round_trip > 0).then_some(wait), ..Compression::default() }
    }

    /// Whether a segment out of order waits, while `next` is the first that is missing.
    fn holds(&mut self, now: u64, next: u64) -> bool {
        let Some(wait) = self.wait else { return false };
        if self.next != next {
            (self.next, self.prompt) = (next, 0);
        }
        if self.prompt < PROMPT {
            self.prompt += 1;
            return false;
        }
        if self.waiting == 0 {
            self.due = now + wait;
        }
        self.waiting += 1;
        self.waiting <= MOST_COMPRESSED && now < self.due
    }
}

/// An application that reads slowly.
#[derive(Clone, Debug)]
struct Reader {
    /// Payload bits per second.
    rate: u64,
    mss: u64,
    /// Segments read.
    read: u64,
    /// Since when it has had something to read (ns), and what it had read by then.
    since: u64,
    base: u64,
}

impl Reader {
    fn new(rate: Rate, mss: u32) -> Reader {
        Reader { rate: rate.bps().max(1), mss: mss.into(), read: 0, since: 0, base: 0 }
    }

    /// Time from `since` on that `segments` take.
    fn time(&self, segments: u64) -> u64 {
        (u128::from(segments * self.mss) * 8_000_000_000).div_ceil(u128::from(self.rate)) as u64
    }

    fn advance(&mut self, now: u64, available: u64) {
        let bits = u128::from(now - self.since) * u128::from(self.rate) / 1_000_000_000;
        let read = self.base + (bits / u128::from(self.mss * 8)) as u64;
        if read >= available {
            // It has to wait for data; time without any does not count.
            (self.read, self.base, self.since) = (available, available, now);
        } else {
            self.read = read;
        }
    }
}

impl Receiver {
    /// A receiver that has got nothing yet. A host knows the `round_trip` time of an empty path (ns) since its connection was opened.
    pub(crate) fn new(config: &TcpConfig, owner: u32, route: u32, round_trip: u64) -> Receiver {
        let round_trip = if config.burst == Burst::Host { round_trip } else { 0 };
        let room = Room::new(config);
        Receiver {
            next: 0,
            unacknowledged: 0,
            every: config.ack.every,
            quick: QUICK.max((room.growth / GROWTH) as u32),
            deadline: u64::MAX,
            timeout: config.ack.timeout.ns().unsigned_abs(),
            owner,
            route,
            ecn: config.ecn,
            echo: false,
            demanding: false,
            at_once: false,
            compression: Compression::new(round_trip),
            edge: room.first,
            room,
            early: RangeSet::default(),
            blocks: Blocks::default(),
            reader: config.read_rate.map(|rate| Reader::new(rate, config.mss)),
            last: (0, 0),
            stamps: Stamps::new(config.burst == Burst::Host),
            came: 0,
            silence: match config.burst {
                Burst::Host => round_trip + LEAST_VARIATION.max(2 * round_trip),
                Burst::Single => u64::MAX,
            },
            received: 0,
            marked: 0,
        }
    }

    /// The answer to the packet that asks for a connection.
    pub(crate) fn answer(&self, syn: &Packet) -> Packet {
        Packet { route: self.route, kind: Kind::SynAck, at: 0, ..*syn }
    }

    /// Segments that arrived in order.
    pub(crate) fn in_order(&self) -> u64 {
        self.next
    }

    /// Segments that arrived, window probes included.
    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// Segments that arrived marked.
    pub(crate) fn marked(&self) -> u64 {
        self.marked
    }

    /// When [`Receiver::on_timer`] wants to be called; `u64::MAX` for never.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline
    }

    /// With the DCTCP echo, a change of marks ends what an acknowledgement may cover (RFC 8257 3.2): gives the one that is due before
    /// `segment` counts, which is then acknowledged at once.
    #[inline]
    pub(crate) fn before(&mut self, now: u64, segment: &Packet) -> Option<Packet> {
        if self.compression.waiting > 0 && self.crowds(segment.seq) {
            return Some(self.acknowledge(now));
        }
        if self.ecn != Ecn::Dctcp || segment.has(CE) == self.echo {
            return None;
        }
        let due = (self.unacknowledged > 0).then(|| self.acknowledge(now));
        self.echo = segment.has(CE);
        self.at_once = true;
        due
    }

    /// Whether a segment out of order belongs to none of the ranges that changed last, so that what waits is better told before a
    /// block of its own pushes another out of the report (Linux).
    #[cold]
    fn crowds(&self, seq: u64) -> bool {
        if seq <= self.next || self.early.range_of(seq).is_some() {
            return false;
        }
        self.blocks.place(seq).unwrap_or(self.blocks.iter().count()) >= BLOCKS_EXPECTED
    }

    /// A segment arrived; gives the acknowledgement it causes at once, if any.
    #[inline(always)]
    pub(crate) fn on_segment(&mut self, now: u64, segment: &Packet) -> Option<Packet> {
        if !self.stamps.admit(segment) {
            return Some(self.refuse(now, segment));
        }
        self.last = (segment.sent, segment.flags & RETRANSMITTED);
        if now - self.came > self.silence {
            self.quick = self.quick.max(QUICK);
        }
        self.came = now;
        self.received += 1;
        if segment.flags & (CE | CWR) != 0 {
            self.on_signal(segment);
        }
        if segment.seq != self.next || segment.has(WINDOW_PROBE) || !self.early.is_empty() {
            return self.on_irregular(now, segment);
        }
        self.next += 1;
        self.unacknowledged += 1;
        if self.unacknowledged < self.every && self.quick == 0 && !self.at_once {
            self.deadline = self.deadline.min(now + self.timeout);
            return None;
        }
        self.quick = self.quick.saturating_sub(1);
        Some(self.acknowledge_at_once(now))
    }

    /// A segment is thrown away for its stamp; gives the acknowledgement that answers it.
    #[cold]
    fn refuse(&mut self, now: u64, segment: &Packet) -> Packet {
        let mut ack = self.acknowledge(now);
        if segment.seq < self.next {
            self.quick = self.quick.max(QUICK);
            ack.flags |= DUPLICATE;
        }
        ack
    }

    /// A segment that is marked, or that says that the sender has reduced its window.
    fn on_signal(&mut self, segment: &Packet) {
        let marked = segment.has(CE);
        self.marked += u64::from(marked);
        if segment.has(CWR) {
            self.demanding = false;
            self.at_once = true;
        }
        if marked && !self.demanding && self.ecn == Ecn::Classic {
            self.demanding = true;
            self.quick = self.quick.max(QUICK_AFTER_MARK);
        }
        if self.ecn == Ecn::Classic {
            self.echo = self.demanding;
        }
    }

    /// A segment out of order, one that fills a hole, or a window probe: acknowledged at once, unless many are out of order.
    #[inline(never)]
    fn on_irregular(&mut self, now: u64, segment: &Packet) -> Option<Packet> {
        let (seq, before) = (segment.seq, self.next);
        let mut fresh = segment.has(WINDOW_PROBE);
        if seq < self.next {
            // What has come twice shows that acknowledgements are missing.
            self.quick = self.quick.max(QUICK);
        } else if !segment.has(WINDOW_PROBE) {
            let range = self.early.insert(seq..seq + 1, |_| fresh = true);
            if range.start == self.next {
                self.next = range.end;
                self.early.remove_below(self.next);
            } else if fresh {
                self.blocks.add(seq);
            }
            self.blocks.forget_below(self.next);
        }
        let news = !fresh || self.next > before + 1 || self.early.is_empty();
        if !news && self.quick == 0 && !self.at_once && self.compression.holds(now, self.next) {
            self.deadline = self.compression.due + COMPRESSION_SLACK;
            return None;
        }
        self.quick = self.quick.saturating_sub(1);
        let mut ack = self.acknowledge(now);
        if !fresh {
            ack.flags |= DUPLICATE;
        }
        Some(ack)
    }

    /// The held back acknowledgement or the window update is due.
    pub(crate) fn on_timer(&mut self, now: u64) -> Packet {
        self.acknowledge(now)
    }

    fn acknowledge(&mut self, now: u64) -> Packet {
        self.acknowledge_at_once(now)
    }

    #[inline(always)]
    fn acknowledge_at_once(&mut self, now: u64) -> Packet {
        self.unacknowledged = 0;
        self.stamps.told = self.next;
        self.at_once = false;
        self.compression.waiting = 0;
        self.deadline = u64::MAX;
        let edge = match self.reader {
            None => {
                let room = self.room();
                self.next + room - self.early.len().min(room)
            }
            Some(_) => self.open(now),
        };
        self.edge = self.edge.max(edge);
        let echo = if self.echo { ECE } else { 0 };
        let mut ack = Packet {
            sent: self.last.0,
            seq: self.next,
            owner: self.owner,
            route: self.route,
            extra: (self.edge - self.next).min(u64::from(u32::MAX)) as u32,
            size: ACK_SIZE,
            kind: Kind::Ack,
            flags: echo | self.last.1,
            at: 0,
            joined: 0,
        };
        if !self.early.is_empty() {
            ack.flags |= REPORT;
            let blocks = self.blocks.iter().take(SACK_BLOCKS).count().max(1);
            ack.size += FIRST_BLOCK + MORE_BLOCK * (blocks - 1) as u16;
        }
        ack
    }

    /// What the acknowledgement just given reports, when it is flagged so.
    pub(crate) fn report(&self, ack: &Packet) -> Report {
        let mut report = Report { window: ack.extra, ..Report::default() };
        // The word of a segment that has come twice takes the room of a block.
        let room = SACK_BLOCKS - usize::from(ack.has(DUPLICATE));
        for (block, (start, end)) in report.blocks.iter_mut().zip(self.blocks.iter().take(room)) {
            *block = ((start - self.next) as u32, (end - self.next) as u32);
        }
        report
    }

    /// Segments that the buffer holds by now.
    #[inline]
    fn room(&self) -> u64 {
        (self.room.first + GROWTH * self.received).min(self.room.most)
    }

    /// The right edge of the window with a slow reader; when it is nearly shut, sets the time of an update.
    fn open(&mut self, now: u64) -> u64 {
        let buffer = self.room();
        let Some(reader) = &mut self.reader else { return self.edge };
        reader.advance(now, self.next);
        let unread = self.next - reader.read;
        let room = buffer.saturating_sub(unread + self.early.len());
        // Small windows are not told (RFC 1122 4.2.3.3).
        let worth = (buffer / 2).min(2);
        if room < worth {
            let target = (self.next + self.early.len() + worth).saturating_sub(buffer).max(reader.read + 1);
            self.deadline = (reader.since + reader.time(target - reader.base)).max(now + 1);
            return self.edge;
        }
        self.next + room
    }

    pub(crate) fn memory(&self) -> usize {
        size_of::<Receiver>() + self.early.memory()
    }
}

#[cfg(test)]
mod tests {
    use headway_core::control::Kind as Controller;

    use super::*;

    /// Which of these segments, told by their flags, are acknowledged at once; quick mode is over.
    fn acknowledged<const N: usize>(ecn: Ecn, flags: [u8; N]) -> [bool; N] {
        let config = TcpConfig { ecn, ..TcpConfig::new(Controller::Dctcp, Vec::new(), Vec::new()) };
        let mut receiver = Receiver::new(&config, 0, 0, 0);
        receiver.quick = 0;
        let mut seq = 0;
        flags.map(|flags| {
            let segment = Packet { seq, flags, kind: Kind::Segment, ..Packet::default() };
            seq += 1;
            receiver.before(0, &segment);
            receiver.on_segment(0, &segment).is_some()
        })
    }

    #[test]
    fn every_second_segment_is_acknowledged() {
        assert_eq!(acknowledged(Ecn::Off, [0; 4]), [false, true, false, true]);
    }

    #[test]
    fn a_change_of_marks_is_acknowledged_at_once() {
        let marks = acknowledged(Ecn::Dctcp, [0, CE, CE, CE, CE, 0]);
        assert_eq!(marks, [false, true, false, true, false, true]);
    }

    #[test]
    fn a_mark_that_is_news_begins_quick_mode_for_two() {
        assert_eq!(acknowledged(Ecn::Classic, [0, CE, CE, CE, CE]), [false, true, true, false, true]);
    }

    #[test]
    fn the_word_of_a_reduction_is_acknowledged_at_once() {
        assert_eq!(acknowledged(Ecn::Classic, [CWR, 0, 0, CWR]), [true, false, true, true]);
    }

    /// A receiver behind a path of 10 ms whose window has grown.
    fn grown() -> Receiver {
        let config = TcpConfig::new(Controller::Reno, Vec::new(), Vec::new());
        let mut receiver = Receiver::new(&config, 0, 0, 10_000_000);
        receiver.quick = 0;
        receiver
    }

    #[test]
    fn segments_out_of_order_share_acknowledgements_after_three() {
        let mut receiver = grown();
        let mut at = |now, seq| receiver.on_segment(now, &Packet { seq, ..Packet::default() }).is_some();
        let prompt: Vec<bool> = (1..6).map(|seq| at(0, seq)).collect();
        assert_eq!(prompt, [true, true, true, false, false]);
        // A twentieth of the round trip later, and then by the timer.
        assert!(!at(499_999, 6) && at(500_000, 7) && !at(600_000, 8));
        assert_eq!(receiver.deadline(), 600_000 + 500_000 + COMPRESSION_SLACK);
        // What fills the hole is news.
        assert!(receiver.on_segment(700_000, &Packet::default()).is_some_and(|ack| ack.seq == 9));
        assert_eq!(receiver.deadline(), u64::MAX);
    }

    #[test]
    fn every_segment_is_acknowledged_while_the_window_grows() {
        let config = TcpConfig::new(Controller::Reno, Vec::new(), Vec::new());
        let mut receiver = Receiver::new(&config, 0, 0, 10_000_000);
        let segments = config.receive_buffer.get() / u64::from(config.mss);
        let at_once = |seq| receiver.on_segment(0, &Packet { seq, ..Packet::default() }).is_some();
        let count = (0..segments).map(at_once).take_while(|at_once| *at_once).count() as u64;
        // It grows by a fifth.
        assert!(count.abs_diff(segments / 10) <= segments / 300, "{count} of {segments}");
    }

    #[test]
    fn late_first_copies_are_refused_after_a_retransmission() {
        let mut receiver = grown();
        let mut at = |seq, sent_ms: u64| {
            let segment = Packet { seq, sent: sent_ms * 1_000_000, ..Packet::default() };
            receiver.on_segment(60_000_000, &segment).map(|ack| (ack.seq, ack.has(DUPLICATE)))
        };
        // Segments 0 and 1 are in order, 3 comes early, and 1 once more.
        assert_eq!(
            [at(0, 1), at(1, 1), at(3, 2), at(1, 9)],
            [None, Some((2, false)), Some((2, false)), Some((2, true))]
        );
        // The third left earlier than the retransmission, by two ticks and by one.
        assert_eq!(at(2, 7), Some((2, false)));
        assert_eq!(at(2, 8), Some((4, false)));
    }

    #[test]
    fn after_a_silence_every_segment_is_acknowledged() {
        let mut receiver = grown();
        let mut at = |now, seq| receiver.on_segment(now, &Packet { seq, ..Packet::default() }).is_some();
        assert!(!at(0, 0) && at(1_000_000, 1) && !at(200_000_000, 2));
        // Longer than a round trip of 10 ms and 200 ms.
        assert!(at(410_000_001, 3) && at(410_000_001, 4));
    }

    #[test]
    fn a_window_grows_by_what_headers_take_less_than_was_thought() {
        let windows = |bytes| {
            let config = TcpConfig::new(Controller::Reno, Vec::new(), Vec::new());
            let config = TcpConfig { receive_buffer: headway_core::Bytes::new(bytes), ..config };
            let Room { first, most, .. } = Room::new(&config);
            (first, most)
        };
        // As Linux was seen to tell them: without a scale a window stays for less than a segment more.
        assert_eq!(windows(12_000), (8, 8));
        assert_eq!(windows(30_000), (20, 23));
        assert_eq!(windows(100_000), (69, 81));
    }

    /// A host's receiver on a path of 20 ms that has acknowledged these segments out of order, all but the first three in common.
    fn out_of_order<const N: usize>(segments: [u64; N]) -> Receiver {
        let config =
            TcpConfig { burst: Burst::Host, ..TcpConfig::new(Controller::Reno, Vec::new(), Vec::new()) };
        let mut receiver = Receiver::new(&config, 0, 0, 20_000_000);
        receiver.quick = 0;
        for seq in segments {
            let segment = Packet { seq, kind: Kind::Segment, ..Packet::default() };
            assert!(receiver.before(0, &segment).is_none());
            receiver.on_segment(0, &segment);
        }
        receiver
    }

    #[test]
    fn a_range_that_was_pushed_out_of_the_report_is_not_reported_again() {
        let mut receiver = out_of_order([2, 4, 6]);
        for seq in [8, 10, 3] {
            let segment = Packet { seq, kind: Kind::Segment, ..Packet::default() };
            receiver.before(0, &segment);
            receiver.on_segment(0, &segment);
        }
        let ack = receiver.on_timer(1_000_000);
        assert_eq!(receiver.report(&ack).blocks, [(3, 5), (10, 11), (8, 9)]);
    }

    #[test]
    fn what_waits_is_told_before_a_third_block_pushes_it_out() {
        let mut receiver = out_of_order([2, 3, 4, 5, 7]);
        let third = Packet { seq: 9, kind: Kind::Segment, ..Packet::default() };
        let ack = receiver.before(0, &third).expect("5 and 7 wait");
        assert_eq!(receiver.report(&ack).blocks, [(7, 8), (2, 6), (0, 0)]);
        assert!(receiver.on_segment(0, &third).is_none());
    }
}

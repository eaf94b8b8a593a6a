//! What an acknowledgement reports for the first time, and the round-trip times that follow from it.

use super::*;
use crate::transport::ticks::{TICK, tick};

/// Segments that an acknowledgement reports for the first time, as part of its number or as SACK blocks.
#[derive(Clone, Copy, Debug, Default)]
struct Fresh {
    /// How many there are.
    count: u64,
    /// Of those that have never been sent again, the first and the last.
    once: Option<(u64, u64)>,
    /// The last one that has been sent again.
    again: Option<u64>,
}

/// What an acknowledgement reports for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct News {
    /// Segments, in order or in SACK blocks.
    pub(super) delivered: u64,
    /// Those in SACK blocks.
    pub(super) sacked: u64,
    /// Round-trip time of the newest of them, ns.
    pub(super) rtt: Option<u64>,
    /// One of those that were sent before the present recovery began has never been sent again.
    pub(super) original: bool,
}

impl Fresh {
    fn add(&mut self, segment: u64, again: bool) {
        self.count += 1;
        if again {
            self.again = Some(segment);
        } else {
            self.once = Some((self.once.map_or(segment, |(first, _)| first), segment));
        }
    }
}

impl Sender {
    /// An acknowledgement of the next `acked` segments by a receiver that has got everything in order. Gives the round-trip time of the
    /// newest of them.
    #[inline]
    pub(super) fn take_in_order(&mut self, now: u64, ack: &Packet, acked: u64) -> Option<u64> {
        if acked == 0 {
            return None;
        }
        if let Some(rates) = &mut self.rates {
            rates.reported(acked - 1);
        }
        self.rack.advance(now, ack.sent, ack.seq);
        if ack.has(RETRANSMITTED) {
            return Some(self.measure_by_stamp(now, ack));
        }
        let newest = now - ack.sent;
        let oldest = self.departures.first().map_or(newest, |left| now - left);
        self.rtt.measured(oldest, newest, (ack.seq, self.next));
        Some(newest)
    }

    /// An acknowledgement while not everything is in order.
    #[cold]
    pub(super) fn take_report(&mut self, now: u64, ack: &Packet, report: Option<&Report>) -> News {
        self.scoreboard.caused_by(ack.sent, ack.has(RETRANSMITTED));
        let una = self.una;
        let rates = &mut self.rates;
        let mut note = |fresh: &mut Fresh, segment: u64, again| {
            fresh.add(segment, again);
            if let Some(rates) = rates {
                rates.reported(segment - una);
            }
        };
        let (mut below, mut above) = (Fresh::default(), Fresh::default());
        self.scoreboard.acknowledge(una, ack.seq, |segment, again| note(&mut below, segment, again));
        for (from, to) in report.into_iter().flat_map(Report::ascending) {
            let block = ack.seq + u64::from(from)..ack.seq + u64::from(to);
            self.scoreboard.sack(block, |segment, again| note(&mut above, segment, again));
        }
        for fresh in [&above, &below] {
            self.note_latest(now, ack, fresh);
        }
        let mut once = below.once.into_iter().chain(above.once);
        News {
            delivered: below.count + above.count,
            sacked: above.count,
            rtt: self.measure(now, ack, &below, &above),
            original: once.any(|(first, _)| first < self.high),
        }
    }

    /// Tells loss detection of the last segment reported. A first copy that comes after its retransmission has left tells nothing of what
    /// left before that.
    fn note_latest(&mut self, now: u64, ack: &Packet, fresh: &Fresh) {
        if let Some((_, last)) = fresh.once {
            self.rack.advance(now, self.departures.of(last).unwrap_or(ack.sent), last + 1);
        }
        if let Some(last) = fresh.again.filter(|_| ack.has(RETRANSMITTED)) {
            self.rack.advance(now, ack.sent, last + 1);
        }
    }

    /// Takes in round-trip times: those of segments that have not been sent again; nothing else when one of those acknowledged in order
    /// has been, unless it is the only hint (RFC 6298 3, RFC 7323 4).
    fn measure(&mut self, now: u64, ack: &Packet, below: &Fresh, above: &Fresh) -> Option<u64> {
        let in_order = below.once.filter(|_| below.again.is_none());
        let Some((first, _)) = in_order.or(above.once) else {
            return (ack.seq > self.una).then(|| self.measure_by_stamp(now, ack));
        };
        let (_, last) = above.once.or(in_order)?;
        let since = |segment| now - self.departures.of(segment).unwrap_or(ack.sent);
        let newest = if ack.has(RETRANSMITTED) { since(last) } else { now - ack.sent };
        let oldest = if first == last { newest } else { since(first) };
        self.rtt.measured(oldest, newest, (ack.seq, self.next));
        Some(newest)
    }

    /// Measures by the time stamp, which tells copies apart but counts in ticks.
    fn measure_by_stamp(&mut self, now: u64, ack: &Packet) -> u64 {
        let rtt = (tick(now) - tick(ack.sent)).max(1) * TICK;
        self.rtt.measured(rtt, rtt, (ack.seq, self.next));
        rtt
    }
}

//! What an acknowledgement reports for the first time, and the round-trip times that follow from it.

use super::*;
use crate::transport::ticks::{TICK, tick};

/// Segments that an acknowledgement reports for the first time, as part of its number or as SACK blocks.
#[derive(Clone, Copy, Debug, Default)]
struct NewlyAcked {
    /// How many there are.
    count: u64,
    /// Of those that have never been sent again, the first and the last.
    originals: Option<(u64, u64)>,
    /// The last one that has been sent again.
    retransmitted: Option<u64>,
}

/// What an acknowledgement reports for the first time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
    /// Segments, in order or in SACK blocks.
    pub(super) delivered: u64,
    /// Those in SACK blocks.
    pub(super) sacked: u64,
    /// Round-trip time of the newest of them, ns.
    pub(super) rtt: Option<u64>,
    /// One of those that were sent before the present recovery began has never been sent again.
    pub(super) original: bool,
}

impl NewlyAcked {
    fn add(&mut self, segment: u64, retransmitted: bool) {
        self.count += 1;
        if retransmitted {
            self.retransmitted = Some(segment);
        } else {
            self.originals = Some((self.originals.map_or(segment, |(first, _)| first), segment));
        }
    }
}

impl Sender {
    /// An acknowledgement of the next `acked` segments by a receiver that has got everything in order. Gives the round-trip time of the
    /// newest of them.
    #[inline]
    pub(super) fn process_in_order_ack(&mut self, now: u64, ack: &Packet, acked: u64) -> Option<u64> {
        if acked == 0 {
            return None;
        }
        if let Some(rates) = &mut self.rates {
            rates.on_delivered(acked - 1);
        }
        self.rack.advance(now, ack.sent, ack.seq);
        if ack.has(RETRANSMITTED) {
            return Some(self.measure_by_timestamp(now, ack));
        }
        let newest = now - ack.sent;
        let oldest = self.departures.first().map_or(newest, |left| now - left);
        self.rtt.measured(oldest, newest, (ack.seq, self.next));
        Some(newest)
    }

    /// An acknowledgement while not everything is in order.
    #[cold]
    pub(super) fn process_sack(&mut self, now: u64, ack: &Packet, report: Option<&Report>) -> Reported {
        self.scoreboard.note_trigger(ack.sent, ack.has(RETRANSMITTED));
        let una = self.una;
        let rates = &mut self.rates;
        let mut note = |fresh: &mut NewlyAcked, segment: u64, retransmitted| {
            fresh.add(segment, retransmitted);
            if let Some(rates) = rates {
                rates.on_delivered(segment - una);
            }
        };
        let (mut below, mut above) = (NewlyAcked::default(), NewlyAcked::default());
        self.scoreboard
            .acknowledge(una, ack.seq, |segment, retransmitted| note(&mut below, segment, retransmitted));
        for (from, to) in report.into_iter().flat_map(Report::ascending) {
            let block = ack.seq + u64::from(from)..ack.seq + u64::from(to);
            self.scoreboard.sack(block, |segment, retransmitted| note(&mut above, segment, retransmitted));
        }
        for fresh in [&above, &below] {
            self.advance_rack(now, ack, fresh);
        }
        let mut originals = below.originals.into_iter().chain(above.originals);
        Reported {
            delivered: below.count + above.count,
            sacked: above.count,
            rtt: self.measure(now, ack, &below, &above),
            original: originals.any(|(first, _)| first < self.high_seq),
        }
    }

    /// Tells loss detection of the last segment reported. A first copy that comes after its retransmission has left tells nothing of what
    /// left before that.
    fn advance_rack(&mut self, now: u64, ack: &Packet, fresh: &NewlyAcked) {
        if let Some((_, last)) = fresh.originals {
            self.rack.advance(now, self.departures.of(last).unwrap_or(ack.sent), last + 1);
        }
        if let Some(last) = fresh.retransmitted.filter(|_| ack.has(RETRANSMITTED)) {
            self.rack.advance(now, ack.sent, last + 1);
        }
    }

    /// Takes in round-trip times: those of segments that have not been sent again; nothing else when one of those acknowledged in order
    /// has been, unless it is the only hint (RFC 6298 3, RFC 7323 4).
    fn measure(&mut self, now: u64, ack: &Packet, below: &NewlyAcked, above: &NewlyAcked) -> Option<u64> {
        let in_order = below.originals.filter(|_| below.retransmitted.is_none());
        let Some((first, _)) = in_order.or(above.originals) else {
            return (ack.seq > self.una).then(|| self.measure_by_timestamp(now, ack));
        };
        let (_, last) = above.originals.or(in_order)?;
        let since = |segment| now - self.departures.of(segment).unwrap_or(ack.sent);
        let newest = if ack.has(RETRANSMITTED) { since(last) } else { now - ack.sent };
        let oldest = if first == last { newest } else { since(first) };
        self.rtt.measured(oldest, newest, (ack.seq, self.next));
        Some(newest)
    }

    /// Measures by the time stamp, which tells copies apart but counts in ticks.
    fn measure_by_timestamp(&mut self, now: u64, ack: &Packet) -> u64 {
        let rtt = (tick(now) - tick(ack.sent)).max(1) * TICK;
        self.rtt.measured(rtt, rtt, (ack.seq, self.next));
        rtt
    }
}

//! What an ACK newly delivers, and the RTT samples that follow from it.

use super::*;
use crate::transport::ticks::{TICK, tick};

/// Segments that an ACK newly acknowledges, either cumulatively or in SACK blocks.
#[derive(Clone, Copy, Debug, Default)]
struct NewlyAcked {
    /// Their number.
    count: u64,
    /// The first and the last of those that were never retransmitted.
    originals: Option<(u64, u64)>,
    /// The last of those that were retransmitted.
    retransmitted: Option<u64>,
}

/// What an ACK newly delivers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
    /// Segments, cumulatively acknowledged or SACKed.
    pub(super) delivered: u64,
    /// Segments SACKed.
    pub(super) sacked: u64,
    /// RTT of the newest of them, ns.
    pub(super) rtt: Option<u64>,
    /// The newest of them that was never retransmitted.
    pub(super) newest: Option<u64>,
    /// Whether it delivers an original sent before the current recovery began that was never retransmitted.
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
    /// Takes an ACK of the next `acked` segments by a receiver without holes. Returns the RTT
    /// of the newest of them.
    pub(super) fn process_in_order_ack(&mut self, now: u64, ack: &Packet, acked: u64) -> Option<u64> {
        if acked == 0 {
            return None;
        }
        if let Some(rates) = &mut self.rates {
            rates.on_delivered(acked - 1);
        }
        if ack.has(RETRANSMITTED) {
            self.rack.advance(now, ack.sent, ack.seq);
            return Some(self.measure_by_timestamp(now, ack));
        }
        Some(self.measure_in_order(now, ack))
    }

    /// Returns the RTT of the newest segment of an ACK by a receiver without holes. An
    /// original caused the ACK.
    #[inline(always)]
    pub(super) fn measure_in_order(&mut self, now: u64, ack: &Packet) -> u64 {
        self.rack.advance(now, ack.sent, ack.seq);
        let newest = now - ack.sent;
        let oldest = self.departures.first().map_or(newest, |left| now - left);
        self.rtt.measured(oldest, newest, (ack.seq, self.next));
        newest
    }

    /// Takes an ACK while segments are SACKed or lost.
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
        let newest = above.originals.or(below.originals).map(|(_, last)| last);
        let mut originals = below.originals.into_iter().chain(above.originals);
        Reported {
            delivered: below.count + above.count,
            sacked: above.count,
            rtt: self.measure(now, ack, &below, &above),
            newest,
            original: originals.any(|(first, _)| first < self.high_seq),
        }
    }

    /// Advances RACK to the last segment delivered. An original that arrives after its retransmission left
    /// says nothing about segments that left before that.
    fn advance_rack(&mut self, now: u64, ack: &Packet, fresh: &NewlyAcked) {
        if let Some((_, last)) = fresh.originals {
            self.rack.advance(now, self.departures.of(last).unwrap_or(ack.sent), last + 1);
        }
        if let Some(last) = fresh.retransmitted.filter(|_| ack.has(RETRANSMITTED)) {
            self.rack.advance(now, ack.sent, last + 1);
        }
    }

    /// Takes RTT samples of segments that were never retransmitted. If one of those cumulatively acknowledged
    /// was, the only sample is that of the timestamp, unless segments are SACKed (RFC 6298 3, RFC 7323 4).
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

    /// Measures the RTT by the timestamp, which identifies retransmissions but counts in ticks.
    fn measure_by_timestamp(&mut self, now: u64, ack: &Packet) -> u64 {
        let rtt = (tick(now) - tick(ack.sent)).max(1) * TICK;
        self.rtt.measured(rtt, rtt, (ack.seq, self.next));
        rtt
    }
}

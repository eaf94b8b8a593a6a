//! From payload to bytes on the wire, by the headers really seen (wan 2.8).

use super::segment::Segment;

/// Payload and headers of a full segment, until segments are seen: MTU 1500 and timestamps.
const USUAL: (f64, f64) = (1448.0, 52.0);
/// Weight of older segments when the sums are halved.
const WINDOW: f64 = 1_000_000.0;

/// The ratio of bytes on the wire to bytes of payload of one direction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wire {
    /// Bytes of the link layer per packet.
    framing: f64,
    /// The largest payload of a packet on the wire; `None` until a SYN of each end was seen.
    mss: Option<u32>,
    payload: f64,
    headers: f64,
    ratio: f64,
}

impl Wire {
    pub(super) fn new(framing: u64) -> Wire {
        let framing = framing as f64;
        let ratio = 1.0 + (USUAL.1 + framing) / USUAL.0;
        Wire { framing, mss: None, payload: 0.0, headers: 0.0, ratio }
    }

    /// An end announced the largest segment that it accepts; 12 bytes of each carry timestamps.
    pub(super) fn announce(&mut self, mss: u16) {
        let mss = u32::from(mss);
        self.mss = Some(self.mss.map_or(mss, |other| other.min(mss)));
    }

    /// Takes a segment with payload; returns the largest payload of a packet with its headers.
    pub(super) fn observe(&mut self, segment: &Segment) -> u32 {
        // Captured before segmentation, one packet stands for several, each with these headers.
        let most = self.full(segment.headers);
        let packets = f64::from(segment.payload.div_ceil(most.max(1)));
        self.payload += f64::from(segment.payload);
        self.headers += packets * (f64::from(segment.headers) + self.framing);
        if self.payload > WINDOW {
            self.payload /= 2.0;
            self.headers /= 2.0;
        }
        self.ratio = 1.0 + self.headers / self.payload;
        most
    }

    /// Returns the largest payload of a packet with these headers.
    pub(super) fn full(&self, headers: u32) -> u32 {
        // The announced size counts TCP's options, that is headers beyond 20 + 20 or 40 + 20 bytes.
        let options = headers.saturating_sub(if headers >= 60 + 12 { 60 } else { 40 });
        self.mss.map_or(1500_u32.saturating_sub(headers), |mss| mss.saturating_sub(options))
    }

    /// Returns the bytes on the wire of this many bytes of payload.
    pub(super) fn bytes(&self, payload: u32) -> f64 {
        f64::from(payload) * self.ratio
    }

    /// Returns the bytes on the wire of a full segment.
    pub(super) fn packet(&self) -> f64 {
        f64::from(self.full(USUAL.1 as u32)) * self.ratio
    }

    /// Returns the payload of a full segment.
    pub(super) fn mss(&self) -> u32 {
        self.full(USUAL.1 as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::tests::data;
    use super::*;

    #[test]
    fn headers_that_are_seen_count() {
        let mut wire = Wire::new(0);
        wire.observe(&Segment { headers: 40, ..data(0, 0, 1460) });
        assert!((wire.bytes(2920) - 3000.0).abs() < 1e-9);
        let mut wire = Wire::new(38);
        (0..100).for_each(|_| assert_eq!(wire.observe(&Segment { headers: 52, ..data(0, 0, 1448) }), 1448));
        assert!((wire.bytes(1448) - 1538.0).abs() < 1e-9);
    }

    #[test]
    fn packets_captured_before_segmentation_count_as_many() {
        let mut wire = Wire::new(38);
        wire.announce(1460);
        wire.announce(8960);
        wire.observe(&Segment { headers: 52, ..data(0, 0, 10 * 1448) });
        assert!((wire.bytes(1448) - 1538.0).abs() < 1e-9);
    }
}

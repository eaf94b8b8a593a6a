//! What ACKs say about a round trip, as controllers of Linux use it.

use super::Ack;

/// The segments that ACKs acknowledge cumulatively.
#[derive(Clone, Debug, Default)]
pub(super) struct Acknowledged {
    una: u64,
}

impl Acknowledged {
    /// The first segment not yet acknowledged.
    #[cfg(test)]
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Returns the number of segments by which an ACK advances.
    #[inline]
    pub(super) fn advance(&mut self, ack: &Ack) -> u32 {
        let segments = ack.una.saturating_sub(self.una);
        self.una = self.una.max(ack.una);
        u32::try_from(segments).unwrap_or(u32::MAX)
    }
}

//! Drop-tail: drops packets that do not fit.

use serde::{Deserialize, Serialize};

use super::limit::Limit;
use super::{Backlog, Discipline, Packet, Verdict};
use headway_units::{Bytes, Instant};

/// Limits of a drop-tail queue; without any, the queue is unlimited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DropTailConfig {
    /// Limit in wire bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Limit in packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
}

/// Accepts packets that fit.
#[derive(Clone, Debug)]
pub struct DropTail {
    limit: Limit,
}

impl DropTail {
    /// Creates a discipline with these limits.
    pub(crate) fn new(config: &DropTailConfig) -> DropTail {
        DropTail { limit: Limit::new(config.limit, config.packets) }
    }

    /// Returns the limit in wire bytes, if it is the only one.
    pub fn room(&self) -> Option<Bytes> {
        self.limit.in_bytes_only()
    }
}

impl Discipline for DropTail {
    fn on_arrival(&mut self, _now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict {
        if self.limit.admits(backlog, packet.size) { Verdict::Accept } else { Verdict::Drop }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::backlog;
    use super::*;

    #[test]
    fn a_packet_is_dropped_when_it_would_exceed_either_limit() {
        let size = Bytes::new(1500);
        let arrival = |config: &DropTailConfig, bytes| {
            DropTail::new(config).on_arrival(Instant::ZERO, &backlog(bytes), &Packet::new(size, true))
        };
        let bytes = DropTailConfig { limit: Some(Bytes::new(6000)), packets: None };
        assert_eq!(arrival(&bytes, 4500), Verdict::Accept);
        assert_eq!(arrival(&bytes, 4501), Verdict::Drop);
        let packets = DropTailConfig { limit: None, packets: Some(4) };
        assert_eq!(arrival(&packets, 4500), Verdict::Accept);
        assert_eq!(arrival(&packets, 6000), Verdict::Drop);
        assert_eq!(arrival(&DropTailConfig::default(), u64::MAX), Verdict::Accept);
    }
}

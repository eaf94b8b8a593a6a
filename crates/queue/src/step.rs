//! Step: marks all packets while the queue exceeds a threshold (ls-aimd 2.18, `RED step`; RFC 8257 5.1).

use serde::{Deserialize, Serialize};

use super::limit::Limit;
use super::{Backlog, Discipline, Level, Packet, Verdict};
use headway_units::{Bytes, Instant};

/// Parameters of a step marker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct StepConfig {
    /// Packets are marked while more than this is queued before them.
    pub threshold: Level,
    /// Limit in wire bytes; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Limit in packets; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
}

/// Marks by the instantaneous queue; packets that are not ECN-capable are dropped instead.
#[derive(Clone, Debug)]
pub struct Step {
    threshold: Level,
    limit: Limit,
}

impl Step {
    /// Creates a discipline with these parameters.
    pub(crate) fn new(config: &StepConfig) -> Step {
        Step { threshold: config.threshold, limit: Limit::new(config.limit, config.packets) }
    }
}

impl Discipline for Step {
    fn on_arrival(&mut self, _now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict {
        if !self.limit.admits(backlog, packet.size) {
            Verdict::Drop
        } else if self.threshold.is_exceeded(backlog) {
            Verdict::congested(packet.ect)
        } else {
            Verdict::Accept
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::backlog;
    use super::*;

    #[test]
    fn the_queue_before_the_packet_decides() {
        let limit = Some(Bytes::new(20_000));
        let mut step = Step::new(&StepConfig { threshold: Bytes::new(12_500).into(), limit, packets: None });
        let mut arrival =
            |bytes, ect| step.on_arrival(Instant::ZERO, &backlog(bytes), &Packet::new(Bytes::new(1500), ect));
        assert_eq!(arrival(0, true), Verdict::Accept);
        assert_eq!(arrival(12_500, true), Verdict::Accept);
        assert_eq!(arrival(12_501, true), Verdict::Mark);
        assert_eq!(arrival(12_501, false), Verdict::Drop);
        assert_eq!(arrival(18_500, true), Verdict::Mark);
        assert_eq!(arrival(18_501, true), Verdict::Drop);
    }

    #[test]
    fn a_threshold_in_packets_counts_packets() {
        let mut step = Step::new(&StepConfig { threshold: Level::Packets(65), limit: None, packets: None });
        let mut arrival = |packets| {
            let backlog = Backlog { packets, ..backlog(64) };
            step.on_arrival(Instant::ZERO, &backlog, &Packet::new(Bytes::new(64), true))
        };
        assert_eq!((arrival(65), arrival(66)), (Verdict::Accept, Verdict::Mark));
    }
}

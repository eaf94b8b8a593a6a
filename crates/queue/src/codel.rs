//! CoDel: drops from the head of the queue when the delay has been above the target for an
//! interval (RFC 8289).

use serde::{Deserialize, Serialize};

use super::limit::Limit;
use super::{Backlog, Discipline, Packet, Verdict};
use crate::{QueueSpecError, require};
use headway_units::{Bytes, Duration, Instant};

/// After this many intervals without a drop, the next dropping state starts afresh (RFC 8289 5.5).
const RESUME_INTERVALS: i64 = 16;

/// Parameters of CoDel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct CodelConfig {
    /// Acceptable queueing delay; default 5 ms (RFC 8289 4.4).
    pub target: Duration,
    /// How long the delay may stay above the target, a worst-case RTT; default 100 ms (RFC 8289 4.3).
    pub interval: Duration,
    /// Whether ECN-capable packets are marked instead of dropped; default yes.
    pub ecn: bool,
    /// Size of the largest packet on the wire; nothing is dropped while the queue holds no more than this;
    /// default 1538 B.
    pub packet: Bytes,
    /// Limit in wire bytes; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Bytes>,
    /// Limit in packets; unlimited when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<u32>,
}

impl Default for CodelConfig {
    /// Returns the parameters of RFC 8289 without a limit.
    fn default() -> CodelConfig {
        CodelConfig {
            target: Duration::from_ms(5),
            interval: Duration::from_ms(100),
            ecn: true,
            packet: Bytes::new(1538),
            limit: None,
            packets: None,
        }
    }
}

impl CodelConfig {
    /// Checks the parameters.
    pub(super) fn validate(&self) -> Result<(), QueueSpecError> {
        require(self.target > Duration::ZERO, "target", "must be above zero")?;
        require(self.interval > Duration::ZERO, "interval", "must be above zero")
    }
}

/// Judges packets by their sojourn time.
#[derive(Clone, Debug)]
pub struct Codel {
    limit: Limit,
    target: Duration,
    interval: Duration,
    ecn: bool,
    packet: Bytes,
    /// When the delay will have been above the target for a whole interval; absent while it is below.
    first_above_time: Option<Instant>,
    /// Whether packets are being dropped.
    dropping: bool,
    /// Time of the next drop, or the last planned one when not dropping.
    next: Instant,
    /// Drops in this dropping state.
    count: u32,
    /// The value of `count` at the start of this dropping state.
    first_count: u32,
}

impl Codel {
    /// Creates a discipline with these parameters.
    pub(crate) fn new(config: &CodelConfig) -> Codel {
        Codel {
            limit: Limit::new(config.limit, config.packets),
            target: config.target,
            interval: config.interval,
            ecn: config.ecn,
            packet: config.packet,
            first_above_time: None,
            dropping: false,
            next: Instant::ZERO,
            count: 0,
            first_count: 0,
        }
    }

    /// Returns whether the delay has been above the target for at least an interval (RFC 8289 5.4).
    fn waits_too_long(&mut self, now: Instant, waited: Duration, behind: Bytes) -> bool {
        if waited < self.target || behind <= self.packet {
            self.first_above_time = None;
            return false;
        }
        now >= *self.first_above_time.get_or_insert(now + self.interval)
    }

    /// Returns the time of the drop after one at `time`; the gap shrinks with the number of
    /// drops (RFC 8289 5.3).
    fn after(&self, time: Instant) -> Instant {
        time + Duration::from_ns((self.interval.ns() as f64 / f64::from(self.count).sqrt()) as i64)
    }

    /// Enters the dropping state; soon after the last one it resumes at the last drop rate (RFC 8289 5.5).
    fn enter_dropping(&mut self, now: Instant) {
        let drops = self.count - self.first_count;
        let recent = now - self.next < self.interval * RESUME_INTERVALS;
        self.count = if drops > 1 && recent { drops } else { 1 };
        self.first_count = self.count;
        self.dropping = true;
        self.next = self.after(now);
    }
}

impl Discipline for Codel {
    fn on_arrival(&mut self, _now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict {
        if self.limit.admits(backlog, packet.size) { Verdict::Accept } else { Verdict::Drop }
    }

    fn on_departure(
        &mut self,
        now: Instant,
        backlog: &Backlog,
        waited: Duration,
        packet: &mut Packet<'_>,
    ) -> Verdict {
        if !self.waits_too_long(now, waited, backlog.bytes) {
            self.dropping = false;
            return Verdict::Accept;
        }
        if !self.dropping {
            self.enter_dropping(now);
        } else if now >= self.next {
            self.count += 1;
            self.next = self.after(self.next);
        } else {
            return Verdict::Accept;
        }
        Verdict::congested(packet.ect && self.ecn)
    }

    fn judges_departures(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::backlog;
    use super::*;

    /// Returns the times in ms of drops among packets that leave every 100 us after waiting for `waited`.
    fn drops(codel: &mut Codel, from_ms: u64, to_ms: u64, waited: Duration) -> Vec<f64> {
        let times = (from_ms * 10..to_ms * 10).map(|tick| Instant::from_ns(tick * 100_000));
        let size = Bytes::new(1538);
        times
            .filter(|now| {
                codel.on_departure(*now, &backlog(60_000), waited, &mut Packet::new(size, false))
                    == Verdict::Drop
            })
            .map(|now| now.ns() as f64 / 1e6)
            .collect()
    }

    #[test]
    fn drops_follow_the_control_law() {
        let mut codel = Codel::new(&CodelConfig::default());
        let times = drops(&mut codel, 0, 2000, Duration::from_ms(6));
        assert_eq!(times[0], 100.0);
        let mut planned = times[0];
        for (index, time) in times.iter().enumerate().skip(1) {
            planned += 100.0 / (index as f64).sqrt();
            assert!((time - planned).abs() < 0.11, "drop {index} at {time} ms, planned {planned}");
        }
        assert!(times.len() > 80);
    }

    #[test]
    fn nothing_is_dropped_below_the_target_or_from_a_short_queue() {
        let mut codel = Codel::new(&CodelConfig::default());
        assert!(drops(&mut codel, 0, 2000, Duration::from_us(4_999)).is_empty());
        let waited = Duration::from_ms(20);
        for tick in 0..20_000 {
            let now = Instant::from_ns(2_000_000_000 + tick * 100_000);
            let verdict =
                codel.on_departure(now, &backlog(1538), waited, &mut Packet::new(Bytes::new(1538), false));
            assert_eq!(verdict, Verdict::Accept);
        }
    }

    #[test]
    fn a_new_episode_soon_after_goes_on_with_the_rate_of_the_last() {
        let mut codel = Codel::new(&CodelConfig::default());
        let waited = Duration::from_ms(6);
        let drops_before = drops(&mut codel, 0, 1000, waited).len() as u32;
        assert!(drops(&mut codel, 1000, 1001, Duration::ZERO).is_empty());
        let times = drops(&mut codel, 1001, 1200, waited);
        assert_eq!(times[0], 1101.0);
        let expected = 100.0 / f64::from(drops_before - 1).sqrt();
        assert!((times[1] - times[0] - expected).abs() < 0.11);
        assert!(drops(&mut codel, 1200, 4000, Duration::ZERO).is_empty());
        let times = drops(&mut codel, 4000, 4300, waited);
        assert_eq!(times[1] - times[0], 100.0);
    }

    #[test]
    fn ecn_capable_packets_are_marked() {
        let mut codel = Codel::new(&CodelConfig::default());
        let waited = Duration::from_ms(6);
        let size = Bytes::new(1538);
        codel.on_departure(Instant::ZERO, &backlog(60_000), waited, &mut Packet::new(size, true));
        let now = Instant::from_ns(100_000_000);
        assert_eq!(
            codel.on_departure(now, &backlog(60_000), waited, &mut Packet::new(size, true)),
            Verdict::Mark
        );
        assert_eq!(
            codel.on_departure(now, &backlog(60_000), waited, &mut Packet::new(size, true)),
            Verdict::Accept
        );
    }
}

//! What happens on the wire of a link that serves its queue packet by packet, apart from losses.

use headway_traffic::channel::{DelayTrace, EcnField, JitterDraws};
use headway_traffic::random::{self, Pcg64Mcg};
use headway_units::{Duration, Instant};
use rand::Rng as _;

use super::statistics::Totals;
use crate::config::LinkConfig;
use crate::packet::{CE, ECT, ECT1, Kind, LOST, Packet};

/// Delays packets by times that differ, and changes them.
#[derive(Debug)]
pub(super) struct Wire {
    jitter: JitterDraws,
    /// Propagation delay (ns), unless a trace has it.
    constant: u64,
    trace: Option<DelayTrace>,
    /// A packet is doubled or damaged when a random number is below these.
    duplicate: u64,
    corrupt: u64,
    ecn: EcnField,
    /// Decides both; apart from the generator of the link, so that neither changes which packets are lost.
    rng: Pcg64Mcg,
}

impl Wire {
    pub(super) fn new(config: &LinkConfig, seed: u64, id: u64) -> Wire {
        let threshold = |share: f64| (share * u64::MAX as f64) as u64;
        Wire {
            jitter: JitterDraws::new(config.jitter),
            constant: config.delay.ns().unsigned_abs(),
            trace: config.delay_trace.clone(),
            duplicate: threshold(config.duplicate),
            corrupt: threshold(config.corrupt),
            ecn: config.ecn,
            rng: random::generator(seed, "wire", id),
        }
    }

    /// Returns how long the packet that leaves the queue at `now` is on its way (ns); `rng`
    /// is that of the link.
    pub(super) fn delay(&mut self, now: u64, rng: &mut Pcg64Mcg) -> u64 {
        let jitter = self.jitter.draw(rng).ns().unsigned_abs();
        let steady = match &self.trace {
            None => self.constant,
            Some(trace) => trace.at(Instant::from_ns(now) - Instant::ZERO).ns().unsigned_abs(),
        };
        steady + jitter
    }

    /// Returns the delay at the start of the run, without jitter (ns).
    pub(super) fn first_delay(&self) -> u64 {
        self.trace.as_ref().map_or(self.constant, |trace| trace.at(Duration::ZERO).ns().unsigned_abs())
    }

    /// Changes a packet that is not lost; returns whether it arrives twice.
    pub(super) fn pass(&mut self, packet: &mut Packet, totals: &mut Totals) -> bool {
        if self.ecn == EcnField::Clear {
            packet.flags &= !(ECT | CE);
            if packet.kind == Kind::Segment {
                packet.flags &= !ECT1;
            }
        }
        if self.happens(self.corrupt) {
            totals.damaged += 1;
            match packet.kind {
                Kind::Datagram | Kind::Probe => packet.flags |= LOST,
                _ => packet.kind = Kind::Damaged,
            }
        }
        self.happens(self.duplicate) && !packet.has(LOST)
    }

    fn happens(&mut self, threshold: u64) -> bool {
        threshold > 0 && self.rng.next_u64() < threshold
    }
}

//! Queue disciplines, which decide the fate of packets that arrive at a queue or leave it; one file per
//! discipline. In [`explicit`] is the header that routers of explicit congestion control write.
//!
//! A discipline keeps state but does not hold packets, so one implementation can serve the simulator, the
//! emulator and tests. Nothing here reads a clock or draws random numbers of its own: both are arguments.
//!
//! To add a discipline, write its file and add it to [`QueueSpec`] and [`Queue`].

use std::borrow::Cow;

use headway_arithmetic::explicit::Law;
use serde::{Deserialize, Serialize};

use crate::explicit::{Header, Heard, Record, VERSION_RCP, VERSION_XCP};
use headway_units::{Bytes, Duration, Instant, Rate, RateSteps};

mod classes;
mod codel;
mod discipline;
mod drop_tail;
mod dual_pi2;
pub mod explicit;
mod explicit_router;
mod fq_codel;
mod level;
mod limit;
mod pi;
mod pie;
mod police;
mod published;
mod ramp;
mod red;
mod step;
mod token_bucket;
mod waiting;

pub use classes::{CLASSES, Classes, ClassesConfig};
pub use codel::{Codel, CodelConfig};
pub use discipline::{Backlog, Discipline, Label, Packet, Verdict};
pub use drop_tail::{DropTail, DropTailConfig};
pub use dual_pi2::{DualPi2, DualPi2Config};
pub use explicit_router::{Detector, Explicit, ExplicitConfig, QueueUnit};
pub use fq_codel::{FqCodel, FqCodelConfig};
pub use level::Level;
pub use pie::{Pie, PieConfig};
pub use published::{Published, PublishedPart};
pub use ramp::{Ramp, RampConfig};
pub use red::{ADAPTATION, Red, RedConfig};
pub use step::{Step, StepConfig};
pub use token_bucket::{Policer, Shaper, TokenBucket};

/// A discipline and its parameters, such as `{ kind = "step", threshold = "12.5 kB", limit = "5 MB" }`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum QueueSpec {
    /// Accepts what fits.
    DropTail(DropTailConfig),
    /// Marks above a threshold.
    Step(StepConfig),
    /// RED, by the average queue.
    Red(RedConfig),
    /// Marks with a probability that grows with the queue.
    Ramp(RampConfig),
    /// CoDel (RFC 8289).
    Codel(CodelConfig),
    /// PIE (RFC 8033).
    Pie(PieConfig),
    /// A router of XCP (xcp-rcp 2.6).
    Xcp(ExplicitConfig),
    /// XCP-b, which needs no capacity (xcp-rcp 2.8).
    XcpB(ExplicitConfig),
    /// XCP-b with a kappa that tunes itself (xcp-rcp 2.9).
    XcpKappa(ExplicitConfig),
    /// ErrorS: XCP less the error of its capacity (xcp-rcp 2.10).
    Errors(ExplicitConfig),
    /// WXCP, which goes by the idle time of an 802.11 channel (xcp-rcp 2.11).
    Wxcp(ExplicitConfig),
    /// A router of RCP (xcp-rcp 2.12).
    Rcp(ExplicitConfig),
    /// RCP without a capacity, with the feedback of XCP-b (xcp-rcp F56).
    RcpB(ExplicitConfig),
    /// RCP with the feedback of XCP-b whose kappa tunes itself (xcp-rcp F56).
    RcpKappa(ExplicitConfig),
    /// RCP with the feedback of ErrorS (xcp-rcp F56).
    RcpErrors(ExplicitConfig),
    /// A queue of its own for XCP, RCP and other packets, served in turn (xcp-rcp 2.14).
    Classes(ClassesConfig),
    /// DualPI2 (RFC 9332), which keeps ECT(1) and CE apart.
    #[serde(rename = "dualpi2")]
    DualPi2(DualPi2Config),
    /// FQ-CoDel (RFC 8290), which keeps flows apart.
    #[serde(alias = "fq_codel")]
    FqCodel(FqCodelConfig),
}

/// The error returned for unusable parameters of a discipline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` {reason}")]
pub struct QueueSpecError {
    /// The key with the invalid value.
    pub key: Cow<'static, str>,
    /// The requirement that the value violates.
    pub reason: &'static str,
}

/// Returns an error for `key` unless `holds`.
fn require(holds: bool, key: &'static str, reason: &'static str) -> Result<(), QueueSpecError> {
    if holds { Ok(()) } else { Err(QueueSpecError { key: key.into(), reason }) }
}

/// The pattern of all explicit routers.
macro_rules! any_explicit {
    ($config:pat) => {
        QueueSpec::Xcp($config)
            | QueueSpec::XcpB($config)
            | QueueSpec::XcpKappa($config)
            | QueueSpec::Errors($config)
            | QueueSpec::Wxcp($config)
            | QueueSpec::Rcp($config)
            | QueueSpec::RcpB($config)
            | QueueSpec::RcpKappa($config)
            | QueueSpec::RcpErrors($config)
    };
}

impl QueueSpec {
    /// Returns the law and the parameters of an explicit router; `None` for other disciplines.
    pub fn explicit(&self) -> Option<(Law, &ExplicitConfig)> {
        match self {
            QueueSpec::Xcp(config) => Some((Law::Xcp, config)),
            QueueSpec::XcpB(config) => Some((Law::Blind, config)),
            QueueSpec::XcpKappa(config) => Some((Law::Kappa, config)),
            QueueSpec::Errors(config) => Some((Law::Errors, config)),
            QueueSpec::Wxcp(config) => Some((Law::Wxcp, config)),
            QueueSpec::Rcp(config) => Some((Law::Rcp, config)),
            QueueSpec::RcpB(config) => Some((Law::RcpBlind, config)),
            QueueSpec::RcpKappa(config) => Some((Law::RcpKappa, config)),
            QueueSpec::RcpErrors(config) => Some((Law::RcpErrors, config)),
            _ => None,
        }
    }

    /// Whether it reads congestion headers.
    pub fn reads_headers(&self) -> bool {
        self.explicit().is_some() || matches!(self, QueueSpec::Classes(_))
    }

    /// Whether it needs the counters of an 802.11 MAC.
    pub fn needs_wifi(&self) -> bool {
        matches!(self, QueueSpec::Wxcp(_))
    }

    /// Whether packets wait in several queues.
    pub fn has_several_queues(&self) -> bool {
        matches!(self, QueueSpec::Classes(_)) || self.sorts_by_label()
    }

    /// Whether the [`Label`] of a packet says in which queue it waits.
    pub fn sorts_by_label(&self) -> bool {
        matches!(self, QueueSpec::DualPi2(_) | QueueSpec::FqCodel(_))
    }

    /// Whether it checks what flows say and send.
    pub fn polices(&self) -> bool {
        if let QueueSpec::Classes(classes) = self {
            return [&classes.xcp, &classes.rcp].into_iter().flatten().any(|router| router.polices());
        }
        self.explicit().is_some_and(|(_, router)| router.police.is_some())
    }

    /// Checks the parameters; [`QueueSpec::build`] expects them to be valid.
    pub fn validate(&self) -> Result<(), QueueSpecError> {
        let (limit, packets) = self.limits();
        require(limit != Some(Bytes::ZERO), "limit", "must be above zero")?;
        require(packets != Some(0), "packets", "must be above zero")?;
        match self {
            QueueSpec::DropTail(_) | QueueSpec::Step(_) => Ok(()),
            QueueSpec::Red(config) => config.validate(),
            QueueSpec::Ramp(config) => config.validate(),
            QueueSpec::Codel(config) => config.validate(),
            QueueSpec::Pie(config) => config.validate(),
            QueueSpec::Classes(config) => config.validate(),
            QueueSpec::DualPi2(config) => config.validate(),
            QueueSpec::FqCodel(config) => config.validate(),
            any_explicit!(_) => self.explicit().map_or(Ok(()), |(law, config)| config.validate(law)),
        }
    }

    /// Returns the limits in wire bytes and in packets, where specified.
    pub fn limits(&self) -> (Option<Bytes>, Option<u32>) {
        match self {
            QueueSpec::DropTail(config) => (config.limit, config.packets),
            QueueSpec::Step(config) => (config.limit, config.packets),
            QueueSpec::Red(config) => (config.limit, config.packets),
            QueueSpec::Ramp(config) => (config.limit, config.packets),
            QueueSpec::Codel(config) => (config.limit, config.packets),
            QueueSpec::Pie(config) => (config.limit, config.packets),
            QueueSpec::Classes(config) => (config.limit, config.packets),
            QueueSpec::DualPi2(config) => (config.limit, config.packets),
            QueueSpec::FqCodel(config) => (config.limit, config.packets),
            any_explicit!(config) => (config.limit, config.packets),
        }
    }

    /// Applies these limits unless the discipline specifies some itself.
    pub fn with_default_limits(mut self, limit: Option<Bytes>, packets: Option<u32>) -> QueueSpec {
        if self.limits() == (None, None) {
            let room = match &mut self {
                QueueSpec::DropTail(config) => (&mut config.limit, &mut config.packets),
                QueueSpec::Step(config) => (&mut config.limit, &mut config.packets),
                QueueSpec::Red(config) => (&mut config.limit, &mut config.packets),
                QueueSpec::Ramp(config) => (&mut config.limit, &mut config.packets),
                QueueSpec::Codel(config) => (&mut config.limit, &mut config.packets),
                QueueSpec::Pie(config) => (&mut config.limit, &mut config.packets),
                QueueSpec::Classes(config) => (&mut config.limit, &mut config.packets),
                QueueSpec::DualPi2(config) => (&mut config.limit, &mut config.packets),
                QueueSpec::FqCodel(config) => (&mut config.limit, &mut config.packets),
                any_explicit!(config) => (&mut config.limit, &mut config.packets),
            };
            (*room.0, *room.1) = (limit, packets);
        }
        self
    }

    /// Makes all times `factor` times as long, as in a slower network.
    ///
    /// # Errors
    /// The key that cannot be dilated: the control intervals of explicit routers do not follow one.
    pub fn dilate(&mut self, factor: u32) -> Result<(), &'static str> {
        let longer = |times: &mut [&mut Duration]| {
            times.iter_mut().for_each(|time| **time = **time * i64::from(factor));
        };
        match self {
            QueueSpec::Codel(codel) => longer(&mut [&mut codel.target, &mut codel.interval]),
            QueueSpec::Pie(pie) => longer(&mut [&mut pie.target, &mut pie.update, &mut pie.burst]),
            QueueSpec::DualPi2(dual) => {
                longer(&mut [&mut dual.target, &mut dual.update, &mut dual.ramp, &mut dual.range]);
                // Frequencies.
                dual.alpha /= f64::from(factor);
                dual.beta /= f64::from(factor);
            }
            QueueSpec::FqCodel(fq) => longer(&mut [&mut fq.target, &mut fq.interval]),
            QueueSpec::Red(red) => longer(&mut [&mut red.adaptation]),
            QueueSpec::DropTail(_) | QueueSpec::Step(_) | QueueSpec::Ramp(_) => {}
            QueueSpec::Classes(_) | any_explicit!(_) => return Err("queue.kind"),
        }
        Ok(())
    }

    /// Builds the discipline of a queue served at `rate`, or `None` if transmission takes no time; `seed`
    /// determines its random choices.
    pub fn build(&self, rate: Option<Rate>, seed: u64) -> Queue {
        self.build_at(Instant::ZERO, rate, seed)
    }

    /// As [`QueueSpec::build`], for a queue that begins at `start`.
    pub fn build_at(&self, start: Instant, rate: Option<Rate>, seed: u64) -> Queue {
        match self {
            QueueSpec::DropTail(config) => Queue::DropTail(DropTail::new(config)),
            QueueSpec::Step(config) => Queue::Step(Step::new(config)),
            QueueSpec::Red(config) => Queue::Red(Red::new(config, rate, seed)),
            QueueSpec::Ramp(config) => Queue::Ramp(Ramp::new(config, seed)),
            QueueSpec::Codel(config) => Queue::Codel(Codel::new(config)),
            QueueSpec::Pie(config) => Queue::Pie(Pie::new(config, seed)),
            QueueSpec::Classes(config) => Queue::Classes(Box::new(Classes::new(config, start, rate, seed))),
            QueueSpec::DualPi2(config) => Queue::DualPi2(Box::new(DualPi2::new(config))),
            QueueSpec::FqCodel(config) => Queue::FqCodel(Box::new(FqCodel::new(config, seed))),
            any_explicit!(config) => {
                let law = self.explicit().map_or(Law::Xcp, |(law, _)| law);
                Queue::Explicit(Box::new(Explicit::new(config, law, rate, seed, start)))
            }
        }
    }
}

/// A discipline of any kind, with static dispatch.
#[derive(Clone, Debug)]
pub enum Queue {
    /// Drops packets that do not fit.
    DropTail(DropTail),
    /// Marks above a threshold.
    Step(Step),
    /// Marks by the average queue.
    Red(Red),
    /// Marks by the instantaneous queue.
    Ramp(Ramp),
    /// Marks or drops packets that have waited too long.
    Codel(Codel),
    /// Marks or drops to maintain a target delay.
    Pie(Pie),
    /// Tells senders their rate.
    Explicit(Box<Explicit>),
    /// Keeps a queue for each class of packets.
    Classes(Box<Classes>),
    /// Keeps a queue with low latency beside a classic one.
    DualPi2(Box<DualPi2>),
    /// Keeps queues for many groups of flows.
    FqCodel(Box<FqCodel>),
}

/// Calls the same method on whichever discipline the queue has.
macro_rules! dispatch {
    ($queue:expr, $discipline:ident => $call:expr) => {
        match $queue {
            Queue::DropTail($discipline) => $call,
            Queue::Step($discipline) => $call,
            Queue::Red($discipline) => $call,
            Queue::Ramp($discipline) => $call,
            Queue::Codel($discipline) => $call,
            Queue::Pie($discipline) => $call,
            Queue::Explicit($discipline) => $call,
            Queue::Classes($discipline) => $call,
            Queue::DualPi2($discipline) => $call,
            Queue::FqCodel($discipline) => $call,
        }
    };
}

impl Queue {
    /// Makes the discipline the one of `spec` at `now`, on a link that now has `rate` and where `waiting`
    /// bytes of IP packets, and as many packets, wait for their departure to be judged.
    ///
    /// Only explicit routers keep their state, and only if the new discipline is one, too; among classes,
    /// each for itself. [`Classes`] that replace another discipline must hear of every packet that waits. The
    /// specification must be valid.
    pub fn adopt(
        &mut self,
        now: Instant,
        spec: &QueueSpec,
        rate: Option<Rate>,
        waiting: (u64, u32),
        seed: u64,
    ) {
        if let (Queue::Classes(classes), QueueSpec::Classes(config)) = (&mut *self, spec) {
            return classes.adopt(config, now, rate, seed);
        }
        match (&mut *self, spec.explicit()) {
            (Queue::Explicit(router), Some((law, config))) => router.adopt(config, law, rate, now),
            _ => {
                *self = match spec.build_at(now, rate, seed) {
                    Queue::Explicit(router) => {
                        Queue::Explicit(Box::new(router.with_waiting(waiting.0, waiting.1)))
                    }
                    other => other,
                }
            }
        }
    }

    /// Returns the number of queues in which packets wait.
    pub fn queues(&self) -> usize {
        match self {
            Queue::Classes(_) => CLASSES,
            Queue::DualPi2(_) => dual_pi2::QUEUES,
            Queue::FqCodel(fq) => fq.queues(),
            _ => 1,
        }
    }

    /// Whether the [`Label`] of a packet says in which queue it waits. [`Queue::sort`] must then come before
    /// its arrival and before its departure is judged.
    pub fn sorts_by_label(&self) -> bool {
        matches!(self, Queue::DualPi2(_) | Queue::FqCodel(_))
    }

    /// Returns the number of the queue in which the packet waits that is judged next.
    pub fn sort(&mut self, header: Option<&Header>, label: Label) -> usize {
        match self {
            Queue::Classes(classes) => classes.class(header),
            Queue::DualPi2(dual) => dual.label(label),
            Queue::FqCodel(fq) => fq.label(label),
            _ => 0,
        }
    }

    /// Returns the queue that sends next, where `first` returns the size of the first packet of a queue; the
    /// packet must then be judged. `None` if all are empty.
    pub fn next_queue(&mut self, first: impl Fn(usize) -> Option<Bytes>) -> Option<usize> {
        match self {
            Queue::Classes(classes) => classes.next_class(std::array::from_fn(first)),
            Queue::DualPi2(dual) => dual.next_queue(std::array::from_fn(first)),
            Queue::FqCodel(fq) => fq.next_queue(),
            _ => first(0).map(|_| 0),
        }
    }

    /// Takes over a packet that already waits, of `size` on the wire, after [`Queue::sort`]; only where
    /// there are several queues.
    pub fn take_over(&mut self, header: Option<&Header>, arrived: Instant, size: Bytes) {
        match self {
            Queue::Classes(classes) => classes.take_over(header, size),
            Queue::DualPi2(dual) => dual.take_over(arrived),
            Queue::FqCodel(fq) => fq.take_over(size),
            _ => {}
        }
    }

    /// Returns the versions of the congestion headers that the discipline serves; none if
    /// it reads no headers.
    pub fn versions(&self) -> &'static [u8] {
        match self {
            Queue::Explicit(router) if router.version() == VERSION_RCP => &[VERSION_RCP],
            Queue::Explicit(_) => &[VERSION_XCP],
            Queue::Classes(_) => &[VERSION_XCP, VERSION_RCP],
            _ => &[],
        }
    }

    /// Notes what an 802.11 MAC below the queue has counted until `now`; only WXCP asks for it.
    pub fn hear(&mut self, now: Instant, heard: &Heard) {
        if let Queue::Explicit(router) = self {
            router.hear(now, heard);
        }
    }

    /// Makes routers keep a record of every control interval from now on.
    pub fn keep_records(&mut self) {
        match self {
            Queue::Explicit(router) => router.keep_records(),
            Queue::Classes(classes) => classes.keep_records(),
            _ => {}
        }
    }

    /// Returns the records of the control intervals that ended since the last call; none
    /// of other disciplines.
    pub fn take_records(&mut self) -> Vec<Record> {
        match self {
            Queue::Explicit(router) => router.take_records(),
            Queue::Classes(classes) => classes.take_records(),
            _ => Vec::new(),
        }
    }

    /// Makes the discipline count on rates that change, instead of the constant one it was built with:
    /// the one at time zero.
    pub fn with_rates(self, rates: RateSteps) -> Queue {
        match self {
            Queue::Red(red) => Queue::Red(red.with_rates(rates)),
            // Explicit routers keep the capacity that they were built with; the others see the queue only in
            // bytes, packets and the waiting time of each packet.
            other => other,
        }
    }
}

impl Discipline for Queue {
    // A function of its own would cost every packet of a busy queue 1 % of all its instructions.
    #[inline(always)]
    fn on_arrival(&mut self, now: Instant, backlog: &Backlog, packet: &Packet<'_>) -> Verdict {
        dispatch!(self, discipline => discipline.on_arrival(now, backlog, packet))
    }

    fn on_departure(
        &mut self,
        now: Instant,
        backlog: &Backlog,
        waited: Duration,
        packet: &mut Packet<'_>,
    ) -> Verdict {
        dispatch!(self, discipline => discipline.on_departure(now, backlog, waited, packet))
    }

    fn judges_departures(&self) -> bool {
        dispatch!(self, discipline => discipline.judges_departures())
    }

    fn delays_departures(&self) -> bool {
        dispatch!(self, discipline => discipline.delays_departures())
    }
}

#[cfg(test)]
mod testing {
    use super::*;

    /// Returns a queue of `bytes` in packets of 1500 B, served at 200 Mb/s.
    pub(super) fn backlog(bytes: u64) -> Backlog {
        Backlog {
            bytes: Bytes::new(bytes),
            packets: u32::try_from(bytes / 1500).unwrap_or(u32::MAX - 1),
            idle: Duration::ZERO,
            delay: headway_units::Rate::from_bps(200_000_000).time_for(Bytes::new(bytes)),
        }
    }
}

#[cfg(test)]
mod tests;

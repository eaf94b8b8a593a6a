//! TCP Rapid: every packet is a probe, and the flow sends at the available bandwidth that it measures (rapid 2).
//!
//! The arithmetic is the C code of `headway_arithmetic::rapid`. This file schedules departures with it and tells it
//! which packet arrived when.

mod flight;
mod learned;
mod parameters;
#[cfg(test)]
mod tests;

use headway_arithmetic::rapid::{self, Stream};

use self::flight::{Flight, Sent};
use self::learned::Learned;
pub use self::parameters::RapidParameters;
use super::{Ack, Congestion, Controller, Departure, Metrics, Needs, RecoveryState, Start};
use headway_units::{Duration, Instant, Rate};

/// The line rate that is assumed where the host's is unknown: the testbed's (rapid 4.0).
const USUAL_LINE: Rate = Rate::from_bps(10_000_000_000);
/// The window in bandwidth-delay products of the host's line, so that it never limits (rapid 2.5).
const WINDOW_BDPS: f64 = 2.0;

/// The controller.
#[derive(Clone, Debug)]
pub struct Rapid {
    rapid: rapid::Rapid,
    /// Whether an RTT was known when `rapid` began.
    knows_rtt: bool,
    /// The p-stream that is being sent, if there is one.
    stream: Option<Stream>,
    /// The index in it of the next packet.
    index: u32,
    /// When the last scheduled packet was due; `None` before the first.
    last_due: Option<Instant>,
    /// When the next packet is due, once that is decided.
    due: Option<Instant>,
    /// Whether the next packet is the first after an idle time.
    after_idle: bool,
    flight: Flight,
    /// What estimates in place of BASS, if anything does.
    learned: Option<Box<Learned>>,
    /// Packets per nanosecond of RTT in the window.
    window_rate: f64,
    window: f64,
}

impl Rapid {
    /// A controller for a flow that is about to open.
    pub(crate) fn new(parameters: RapidParameters, start: &Start) -> Rapid {
        let line = start.line.unwrap_or(USUAL_LINE);
        let config = parameters.config(line, start.wire, start.stamp_unit);
        let rapid = rapid::Rapid::new(config, 0);
        let window = f64::from(2 * rapid.config().shape.len());
        Rapid {
            rapid,
            knows_rtt: false,
            stream: None,
            index: 0,
            last_due: None,
            due: None,
            after_idle: false,
            flight: Flight::new(parameters.bridges_holes(), start.stamp_unit),
            learned: start.model.clone().map(|model| Box::new(Learned::new(model, start.wire))),
            window_rate: WINDOW_BDPS * line.bps_f64() / (8e9 * f64::from(start.wire)),
            window,
        }
    }

    /// Begins anew with the RTT of the handshake, or with the first one that is measured.
    fn learn_rtt(&mut self, rtt: Duration) {
        if !self.knows_rtt {
            self.knows_rtt = true;
            let config = *self.rapid.config();
            self.rapid = rapid::Rapid::new(config, rtt.ns().unsigned_abs());
            (self.stream, self.due, self.last_due) = (None, None, None);
        }
    }

    /// Makes the window two bandwidth-delay products, and at least two p-streams.
    fn set_window(&mut self, rtt: Duration) {
        self.rapid.on_rtt(rtt.ns().unsigned_abs());
        let least = f64::from(2 * self.rapid.config().shape.len());
        self.window = (self.window_rate * rtt.ns() as f64).max(least);
    }

    /// Decides when the next packet is due (rapid 2.3). A p-stream gets its rate when its first packet is next.
    ///
    /// Late packets follow back to back until the schedule is caught up with, but a new p-stream is at most one of its
    /// length behind. What is left of a p-stream after an idle time is given up.
    fn decide(&mut self, now: Instant, idle: bool) -> Instant {
        let under_way = self.stream.as_ref().filter(|stream| self.index < stream.shape.len());
        if let Some((stream, last)) = under_way.zip(self.last_due) {
            let due = last + Duration::from_ns(stream.gap(self.index) as i64);
            if !idle || due >= now {
                return due;
            }
        }
        let stream = self.rapid.next_stream();
        let first = Duration::from_ns(stream.gap(0) as i64);
        let length: u64 = (0..stream.shape.len()).map(|index| stream.gap(index)).sum();
        (self.stream, self.index) = (Some(stream), 0);
        let Some(last) = self.last_due else { return now };
        let behind = if idle { first } else { Duration::from_ns(length as i64) };
        self.after_idle = idle && last + first < now;
        last.max(now - behind) + first
    }
}

impl Controller for Rapid {
    fn on_open(&mut self, _now: Instant, rtt: Duration) {
        self.learn_rtt(rtt);
        self.set_window(rtt);
    }

    fn on_ack(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            self.learn_rtt(rtt);
        }
        if let Some(rtt) = ack.smoothed {
            self.set_window(rtt);
        }
        if ack.state < RecoveryState::Reducing {
            self.rapid.on_recovered();
        }
        let Rapid { rapid, flight, learned, .. } = self;
        flight.on_ack(ack, &mut |packet| {
            match learned {
                Some(learned) => rapid.on_packet_with(packet, |gaps| learned.estimate(gaps)),
                None => rapid.on_packet(packet),
            };
        });
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        // If one acknowledgement ends an episode and begins another, both cut.
        self.rapid.on_recovered();
        self.rapid.on_loss();
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, _already_reduced: bool) {
        self.rapid.on_timeout();
    }

    fn on_undo(&mut self, _window: f64, _ssthresh: f64) {
        self.rapid.on_undo();
    }

    fn schedule(&mut self, now: Instant, idle: bool) -> Instant {
        if let Some(due) = self.due.filter(|due| !idle || *due >= now) {
            return due;
        }
        let due = self.decide(now, idle);
        self.due = Some(due);
        due
    }

    fn on_departure(&mut self, departure: &Departure) {
        if departure.retransmission {
            self.rapid.on_retransmission();
        }
        let Some((due, stream)) = self.due.take().zip(self.stream.as_ref()) else {
            // The tail loss probe and probes of a closed window are not scheduled.
            return self.flight.push(Sent::outside(departure), departure.at);
        };
        let after_idle = std::mem::take(&mut self.after_idle);
        self.flight.push(Sent::in_stream(departure, stream, self.index, after_idle), departure.at);
        self.last_due = Some(due);
        self.index += 1;
    }

    fn memory(&self) -> usize {
        self.flight.memory()
            + self.learned.as_ref().map_or(0, |learned| size_of::<Learned>() + learned.memory())
    }

    fn metrics(&self) -> Metrics {
        let pacing_rate = Some(Rate::from_bps(self.rapid.rate()));
        Metrics { pacing_rate, ..Metrics::new(self.window, f64::INFINITY) }
    }

    fn needs(&self) -> Needs {
        Needs { prr: false, departures: true, stamps: true, ..Needs::default() }
    }
}

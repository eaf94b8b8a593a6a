//! TCP Rapid: every packet is a probe, and the flow sends at the available bandwidth that
//! it measures (rapid 2).
//!
//! The arithmetic is the C code of `headway_arithmetic::rapid`. This file tells it what leaves, and what
//! every acknowledgement says.

mod learned;
mod parameters;
#[cfg(test)]
mod tests;

use headway_arithmetic::rapid::{self, Departures, Flight};

use self::learned::Learned;
pub use self::parameters::RapidParameters;
use super::{Ack, Congestion, Controller, Departure, Inside, Metrics, Needs, RecoveryState, Start};
use headway_units::{Duration, Instant, Rate};

/// The window in bandwidth-delay products of the host's line, so that it never limits (rapid 2.5).
const WINDOW_BDPS: f64 = 2.0;

/// The controller.
#[derive(Clone, Debug)]
pub struct Rapid {
    rapid: rapid::Rapid,
    /// Whether an RTT was known when `rapid` began.
    knows_rtt: bool,
    departures: Departures,
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
        let line = start.line.unwrap_or(RapidParameters::USUAL_LINE);
        let config = parameters.config(line, start.wire, start.stamp_unit);
        let rapid = rapid::Rapid::new(config, 0);
        let window = f64::from(2 * rapid.config().shape.len());
        let flight = Flight::new(parameters.bridges_holes(), rapid.config().unit);
        Rapid {
            rapid,
            knows_rtt: false,
            departures: Departures::default(),
            flight,
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
            self.departures = Departures::default();
        }
    }

    /// Makes the window two bandwidth-delay products, and at least two p-streams.
    fn set_window(&mut self, rtt: Duration) {
        self.rapid.on_rtt(rtt.ns().unsigned_abs());
        let least = f64::from(2 * self.rapid.config().shape.len());
        self.window = (self.window_rate * rtt.ns() as f64).max(least);
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
        let arrival = ack.arrival.map(|arrival| (arrival.segment as u32, arrival.stamp));
        self.flight.on_ack(&rapid::Ack { now: ack.now.ns(), una: ack.una as u32, arrival });
        while let Some(packet) = self.flight.take() {
            match &mut self.learned {
                Some(learned) => self.rapid.on_packet_with(&packet, |gaps| learned.estimate(gaps)),
                None => self.rapid.on_packet(&packet),
            };
        }
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
        Instant::from_ns(self.departures.due(&mut self.rapid, now.ns(), idle))
    }

    fn on_departure(&mut self, departure: &Departure) {
        if departure.retransmission {
            self.rapid.on_retransmission();
        }
        let Departure { at, segment, retransmission, full } = *departure;
        let sent = self.departures.take(segment as u32, retransmission, full);
        self.flight.push(&sent, at.ns());
    }

    fn memory(&self) -> usize {
        self.flight.memory()
            + self.learned.as_ref().map_or(0, |learned| size_of::<Learned>() + learned.memory())
    }

    fn metrics(&self) -> Metrics {
        let pacing_rate = Some(Rate::from_bps(self.rapid.rate()));
        Metrics { pacing_rate, ..Metrics::new(self.window, f64::INFINITY) }
    }

    fn inside(&self) -> Option<Inside> {
        let one_way = self.rapid.one_way().filter(|_| self.flight.has_stamps())?;
        Some(Inside { one_way: Some(Duration::from_ns(one_way)), ..Inside::default() })
    }

    fn needs(&self) -> Needs {
        Needs { prr: false, departures: true, stamps: true, ..Needs::default() }
    }
}

//! LS-AIMD: Reno and DCTCP below two segments per round trip (ls-aimd 2).

use std::fmt;
use std::str::FromStr;

use headway_arithmetic::{self as arithmetic, Algorithm, Config, Q9, SCALE_ONE, UNLIMITED};

use super::{
    Ack, Argument, Congestion, Controller, Delivery, Fractional, Inside, Metrics, Needs, Parameters,
    RecoveryState, Start,
};
use headway_units::{Duration, Instant};

/// Minimum window in bytes (ls-aimd 2.10).
const FLOOR: u32 = 2;
/// Largest stretch factor of a receiver (ls-aimd 2.20).
const MOST_DELTA: u32 = 16;

/// The parameters of LS-AIMD; text such as `c=1/128,delta=4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LsParameters {
    /// C = 2^-shift scales the increase, 0 to 16; `None` makes it follow the fraction of marks.
    pub shift: Option<u32>,
    /// Segments that the receiver may acknowledge at once, 1 to 16.
    pub delta: u32,
    /// Whether the increase is weighted by the window after the cut of the same ACK, not
    /// before (ls-aimd 2.8).
    pub after_cut: bool,
    /// Whether it grows by a segment per round trip in place of the logarithm: Reno or DCTCP with another
    /// floor only (ls-aimd 2.16).
    pub linear: bool,
}

impl Default for LsParameters {
    fn default() -> LsParameters {
        LsParameters { shift: None, delta: 2, after_cut: false, linear: false }
    }
}

impl LsParameters {
    /// C in units of 2^-16, zero for automatic.
    pub fn scale(&self) -> u32 {
        self.shift.map_or(0, |shift| SCALE_ONE >> shift)
    }
}

impl fmt::Display for LsParameters {
    /// Prints what differs from the default, so nothing for the default itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        match self.shift {
            None => {}
            Some(0) => parts.push("c=1".to_owned()),
            Some(shift) => parts.push(format!("c=1/{}", 1_u32 << shift)),
        }
        if self.delta != LsParameters::default().delta {
            parts.push(format!("delta={}", self.delta));
        }
        if self.after_cut {
            parts.push("after-cut".to_owned());
        }
        if self.linear {
            parts.push("linear".to_owned());
        }
        f.write_str(&parts.join(","))
    }
}

impl Parameters for LsParameters {
    const ARGUMENT: Argument = Argument::Optional("c=1/8,delta=2");

    fn by_default() -> Option<LsParameters> {
        Some(LsParameters::default())
    }
}

impl FromStr for LsParameters {
    type Err = ();

    fn from_str(text: &str) -> Result<LsParameters, ()> {
        let mut parameters = LsParameters::default();
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                Some(("c", "auto")) => parameters.shift = None,
                Some(("c", "1")) => parameters.shift = Some(0),
                Some(("c", value)) => {
                    let parts = value.strip_prefix("1/").and_then(|parts| parts.parse::<u32>().ok());
                    let parts =
                        parts.filter(|parts| parts.is_power_of_two() && *parts <= SCALE_ONE).ok_or(())?;
                    parameters.shift = Some(parts.trailing_zeros());
                }
                Some(("delta", value)) => {
                    let delta = value.parse().ok().filter(|delta| (1..=MOST_DELTA).contains(delta));
                    parameters.delta = delta.ok_or(())?;
                }
                None if part == "after-cut" => parameters.after_cut = true,
                None if part == "linear" => parameters.linear = true,
                _ => return Err(()),
            }
        }
        Ok(parameters)
    }
}

/// The controller; its arithmetic is the C code that the kernel runs too.
#[derive(Clone, Debug)]
pub struct LsAimd {
    ls: arithmetic::LsAimd,
    delta: u32,
    /// `una` and `next` of the last ACK.
    una: u32,
    next: u32,
}

impl LsAimd {
    /// A controller that halves at a mark or loss.
    pub(crate) fn reno(parameters: LsParameters, start: &Start) -> LsAimd {
        LsAimd::new(Algorithm::Reno, parameters, start)
    }

    /// A controller that reduces by half the fraction of marked segments.
    pub(crate) fn dctcp(parameters: LsParameters, start: &Start) -> LsAimd {
        LsAimd::new(Algorithm::Dctcp, parameters, start)
    }

    fn new(algorithm: Algorithm, parameters: LsParameters, start: &Start) -> LsAimd {
        let config = Config {
            algorithm,
            delta: parameters.delta,
            scale: parameters.scale(),
            floor: FLOOR,
            after_cut: parameters.after_cut.into(),
            linear: parameters.linear.into(),
            fixed_departures: 0,
        };
        let ls = arithmetic::LsAimd::new(config, start.window, start.mss, 0);
        LsAimd { ls, delta: parameters.delta, una: 0, next: 0 }
    }

    /// Bytes in Q9 as segments.
    fn segments(&self, bytes: u64) -> f64 {
        bytes as f64 / (f64::from(self.ls.mss()) * f64::from(1_u32 << Q9))
    }
}

impl Controller for LsAimd {
    fn on_ack(&mut self, ack: &Ack) {
        self.una = ack.una as u32;
        self.next = ack.next as u32;
    }

    /// Marks are answered per ACK in [`Controller::on_delivery`], with rounds finer than the transport's.
    fn on_congestion(&mut self, _now: Instant, in_flight: u32, cause: Congestion) {
        if cause == Congestion::Loss {
            self.ls.on_loss(in_flight, self.una, self.next);
        }
    }

    fn on_further_losses(&mut self, window: u32) {
        self.ls.on_loss(window, self.una, self.next);
    }

    /// The arithmetic knows by itself whether ssthresh has been reduced for this flight, as
    /// it does in a kernel.
    fn on_timeout(&mut self, _now: Instant, in_flight: u32, _reduced: bool) {
        // Segments sent since the last ACK count too.
        let next = self.next.max(self.una.saturating_add(in_flight));
        self.ls.on_timeout(self.una, next);
    }

    fn on_undo(&mut self, _window: f64, _ssthresh: f64) {
        self.ls.undo();
    }

    fn on_delivery(&mut self, ack: &Ack, _delivery: &Delivery) {
        self.ls.on_ack(&arithmetic::Ack {
            una: ack.una as u32,
            next: ack.next as u32,
            acked: ack.delivered,
            marked: ack.marked,
            in_flight: ack.in_flight.saturating_add(ack.delivered),
            cwnd_limited: ack.window_limited.into(),
            in_recovery: (ack.state == RecoveryState::Recovery).into(),
            rtt: ack.rtt.map_or(0, |rtt| rtt.ns().unsigned_abs()),
        });
    }

    fn flight_limit(&self) -> u32 {
        self.ls.cwnd()
    }

    fn gap(&self, _next: u64) -> Option<Duration> {
        self.ls.is_clocked().then(|| Duration::from_ns(self.ls.gap(self.ls.mss()) as i64))
    }

    fn metrics(&self) -> Metrics {
        let ssthresh = match self.ls.ssthresh() {
            UNLIMITED => f64::INFINITY,
            bytes => self.segments(bytes).max(f64::from(self.delta)),
        };
        Metrics::new(self.segments(self.ls.window()), ssthresh)
    }

    fn inside(&self) -> Option<Inside> {
        let bytes = |q9: u64| q9 as f64 / f64::from(1_u32 << Q9);
        let scale = f64::from(self.ls.scale()) / f64::from(SCALE_ONE);
        let ssthresh = self.ls.ssthresh();
        let fractional = Fractional {
            window: bytes(self.ls.window()),
            ssthresh: if ssthresh == UNLIMITED { f64::INFINITY } else { bytes(ssthresh) },
            add: bytes(self.ls.add().into()) * scale,
            pace_rtt: Duration::from_ns(self.ls.rtt() as i64),
        };
        Some(Inside { alpha: Some(self.ls.alpha()), fractional: Some(fractional), ..Inside::default() })
    }

    /// Windows are cut at once, and grow in marked rounds, too (ls-aimd 2.12). The arithmetic takes an ACK
    /// after the losses that it shows, and therefore with [`Controller::on_delivery`].
    fn needs(&self) -> Needs {
        Needs { prr: false, delivery_rate: true, ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{START, ack, delivery};
    use super::*;

    fn deliver(controller: &mut LsAimd, ack: &Ack) {
        controller.on_ack(ack);
        controller.on_delivery(ack, &delivery());
    }

    #[test]
    fn parameters_read_back_as_they_print() {
        for text in ["", "c=1", "c=1/128", "delta=4", "c=1/8,delta=1,after-cut", "c=1,linear"] {
            let parameters: LsParameters =
                if text.is_empty() { LsParameters::default() } else { text.parse().expect("valid") };
            assert_eq!(parameters.to_string(), text);
        }
        for text in ["", "c", "c=2", "c=1/3", "c=1/131072", "delta=0", "delta=17", "after-cut=1"] {
            assert_eq!(text.parse::<LsParameters>(), Err(()), "{text}");
        }
    }

    /// A window of half a segment sends one segment every two round trips, with up to two in flight.
    #[test]
    fn below_two_segments_a_gap_decides() {
        let parameters = LsParameters { shift: Some(7), ..LsParameters::default() };
        let mut controller = LsAimd::reno(parameters, &Start { window: 2, ..START });
        assert_eq!((controller.gap(0), controller.flight_limit()), (None, 2));
        let rtt = Duration::from_ms(1);
        for una in 1..=2 {
            deliver(&mut controller, &Ack { marked: 1, una, next: una, rtt: Some(rtt), ..ack(1) });
        }
        let window = controller.window();
        assert!((0.49..0.52).contains(&window), "{window}");
        let gap = controller.gap(0).expect("the clock is on");
        assert!((gap.ms() * window - 1.0).abs() < 1e-3, "{gap}");
        assert_eq!(controller.flight_limit(), 2);
    }
}

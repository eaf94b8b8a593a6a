//! Which controllers there are, by name.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{
    Ack, Algorithm, Bbr, Congestion, Controller, Cubic, Dctcp, Delivery, FixedRate, FixedWindow, LsAimd,
    LsParameters, Nice, Reno, Rfc3168, Sdc, Start, Subtcp,
};
use crate::units::{Duration, Instant, Rate};

/// A congestion controller by name; text such as `cubic`, `ls-dctcp:c=1/8`, `fixed-window:100` or
/// `fixed-rate:10 Mb/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Kind {
    /// [`Reno`].
    Reno,
    /// [`Cubic`].
    Cubic,
    /// [`Dctcp`].
    Dctcp,
    /// [`Bbr`].
    Bbr,
    /// [`LsAimd`] that halves.
    LsReno(LsParameters),
    /// [`LsAimd`] that reduces by half of the fraction of marks.
    LsDctcp(LsParameters),
    /// [`Rfc3168`].
    Rfc3168,
    /// [`Sdc`].
    Sdc,
    /// [`Subtcp`].
    Subtcp,
    /// [`Nice`].
    Nice,
    /// [`FixedWindow`].
    FixedWindow {
        /// The window, at least 1.
        segments: u32,
    },
    /// [`FixedRate`].
    FixedRate {
        /// The rate to pace at, counting wire bytes; above zero.
        rate: Rate,
    },
}

/// Why a text names no controller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not `reno`, `cubic`, `dctcp`, `bbr`, `ls-reno`, `ls-dctcp` (with `:c=1/8,delta=2`), `rfc3168`, `sdc`, `subtcp`, \
     `nice`, `fixed-window:SEGMENTS` or `fixed-rate:RATE`"
)]
pub struct ParseKindError(String);

impl Kind {
    /// The controller of a flow.
    pub fn build(&self, start: &Start) -> AnyController {
        let initial_window = start.window;
        match *self {
            Kind::Reno => AnyController::Reno(Reno::new(initial_window)),
            Kind::Cubic => AnyController::Cubic(Cubic::new(initial_window)),
            Kind::Dctcp => AnyController::Dctcp(Dctcp::new(initial_window)),
            Kind::Bbr => AnyController::Bbr(Box::new(Bbr::new(start))),
            Kind::LsReno(parameters) => {
                AnyController::LsAimd(Box::new(LsAimd::new(Algorithm::Reno, parameters, start)))
            }
            Kind::LsDctcp(parameters) => {
                AnyController::LsAimd(Box::new(LsAimd::new(Algorithm::Dctcp, parameters, start)))
            }
            Kind::Rfc3168 => AnyController::Rfc3168(Rfc3168::new(initial_window)),
            Kind::Sdc => AnyController::Sdc(Sdc::new(initial_window)),
            Kind::Subtcp => AnyController::Subtcp(Subtcp::new(initial_window)),
            Kind::Nice => AnyController::Nice(Box::new(Nice::new(initial_window))),
            Kind::FixedWindow { segments } => AnyController::FixedWindow(FixedWindow::new(segments)),
            Kind::FixedRate { rate } => AnyController::FixedRate(FixedRate::new(rate)),
        }
    }

    /// Whether Linux has this controller, by itself or with a module of ours; proposals to compare with are simulated only.
    pub fn is_on_linux(&self) -> bool {
        !matches!(self, Kind::Rfc3168 | Kind::Sdc | Kind::Subtcp | Kind::Nice)
    }
}

impl fmt::Display for Kind {
    /// The text that reads back as the same kind.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = |name: &str, parameters: &LsParameters| match parameters.to_string() {
            text if text.is_empty() => name.to_owned(),
            text => format!("{name}:{text}"),
        };
        match self {
            Kind::Reno => f.pad("reno"),
            Kind::Cubic => f.pad("cubic"),
            Kind::Dctcp => f.pad("dctcp"),
            Kind::Bbr => f.pad("bbr"),
            Kind::LsReno(parameters) => f.pad(&with("ls-reno", parameters)),
            Kind::LsDctcp(parameters) => f.pad(&with("ls-dctcp", parameters)),
            Kind::Rfc3168 => f.pad("rfc3168"),
            Kind::Sdc => f.pad("sdc"),
            Kind::Subtcp => f.pad("subtcp"),
            Kind::Nice => f.pad("nice"),
            Kind::FixedWindow { segments } => f.pad(&format!("fixed-window:{segments}")),
            // The shortest number that is exact, unlike the three digits that a rate prints as.
            Kind::FixedRate { rate } => f.pad(&format!("fixed-rate:{} Mb/s", rate.mbps())),
        }
    }
}

impl FromStr for Kind {
    type Err = ParseKindError;

    fn from_str(text: &str) -> Result<Kind, ParseKindError> {
        let (name, argument) = match text.split_once(':') {
            Some((name, argument)) => (name.trim(), Some(argument.trim())),
            None => (text.trim(), None),
        };
        let kind = match (name, argument) {
            ("reno", None) => Some(Kind::Reno),
            ("cubic", None) => Some(Kind::Cubic),
            ("dctcp", None) => Some(Kind::Dctcp),
            ("bbr", None) => Some(Kind::Bbr),
            ("rfc3168", None) => Some(Kind::Rfc3168),
            ("sdc", None) => Some(Kind::Sdc),
            ("subtcp", None) => Some(Kind::Subtcp),
            ("nice", None) => Some(Kind::Nice),
            ("ls-reno", None) => Some(Kind::LsReno(LsParameters::default())),
            ("ls-dctcp", None) => Some(Kind::LsDctcp(LsParameters::default())),
            ("ls-reno", Some(parameters)) => parameters.parse().ok().map(Kind::LsReno),
            ("ls-dctcp", Some(parameters)) => parameters.parse().ok().map(Kind::LsDctcp),
            ("fixed-window", Some(count)) => {
                count.parse().ok().filter(|count| *count > 0).map(|segments| Kind::FixedWindow { segments })
            }
            ("fixed-rate", Some(rate)) => {
                rate.parse().ok().filter(|rate| *rate > Rate::ZERO).map(|rate| Kind::FixedRate { rate })
            }
            _ => None,
        };
        kind.ok_or_else(|| ParseKindError(text.to_owned()))
    }
}

impl TryFrom<String> for Kind {
    type Error = ParseKindError;

    fn try_from(text: String) -> Result<Kind, ParseKindError> {
        text.parse()
    }
}

impl From<Kind> for String {
    fn from(kind: Kind) -> String {
        kind.to_string()
    }
}

/// A controller of any kind; calls are dispatched without a pointer.
#[derive(Clone, Debug)]
pub enum AnyController {
    /// RFC 5681.
    Reno(Reno),
    /// RFC 9438.
    Cubic(Cubic),
    /// RFC 8257.
    Dctcp(Dctcp),
    /// BBR, version 1; in a box, because its state is larger than that of all others together.
    Bbr(Box<Bbr>),
    /// LS-AIMD of either algorithm; in a box for the same reason.
    LsAimd(Box<LsAimd>),
    /// RFC 3168 at one segment.
    Rfc3168(Rfc3168),
    /// Sender delay control.
    Sdc(Sdc),
    /// SUBTCP.
    Subtcp(Subtcp),
    /// TCP Nice; in a box for the same reason.
    Nice(Box<Nice>),
    /// A constant window.
    FixedWindow(FixedWindow),
    /// A constant rate.
    FixedRate(FixedRate),
}

/// Calls the same method of whichever controller it is.
macro_rules! dispatch {
    ($any:expr, $controller:ident => $call:expr) => {
        match $any {
            AnyController::Reno($controller) => $call,
            AnyController::Cubic($controller) => $call,
            AnyController::Dctcp($controller) => $call,
            AnyController::Bbr($controller) => $call,
            AnyController::LsAimd($controller) => $call,
            AnyController::Rfc3168($controller) => $call,
            AnyController::Sdc($controller) => $call,
            AnyController::Subtcp($controller) => $call,
            AnyController::Nice($controller) => $call,
            AnyController::FixedWindow($controller) => $call,
            AnyController::FixedRate($controller) => $call,
        }
    };
}

impl AnyController {
    /// Tells the controller whether the transport spreads segments over the round trip; it assumes not.
    pub fn set_paced(&mut self, paced: bool) {
        if let AnyController::Cubic(cubic) = self {
            cubic.set_paced(paced);
        }
    }

    /// Makes DCTCP reduce by whole segments; it assumes not.
    pub fn set_whole(&mut self, whole: bool) {
        if let AnyController::Dctcp(dctcp) = self {
            dctcp.set_whole(whole);
        }
    }

    /// The gap of those controllers that may set one.
    #[inline(never)]
    fn set_gap(&self, next: u64) -> Option<Duration> {
        dispatch!(self, controller => controller.gap(next))
    }
}

impl Controller for AnyController {
    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        dispatch!(self, controller => controller.on_ack(ack));
    }

    #[inline]
    fn on_congestion(&mut self, now: Instant, in_flight: u32, cause: Congestion) {
        dispatch!(self, controller => controller.on_congestion(now, in_flight, cause));
    }

    #[inline]
    fn on_timeout(&mut self, now: Instant, in_flight: u32, reduced: bool) {
        dispatch!(self, controller => controller.on_timeout(now, in_flight, reduced));
    }

    fn on_undo(&mut self, window: f64, ssthresh: f64) {
        dispatch!(self, controller => controller.on_undo(window, ssthresh));
    }

    fn on_further_losses(&mut self, window: u32) {
        dispatch!(self, controller => controller.on_further_losses(window));
    }

    fn on_open(&mut self, now: Instant, rtt: Duration) {
        dispatch!(self, controller => controller.on_open(now, rtt));
    }

    #[inline]
    fn on_idle(&mut self, now: Instant, idle: Duration, timeout: Duration) {
        dispatch!(self, controller => controller.on_idle(now, idle, timeout));
    }

    fn on_delivery(&mut self, ack: &Ack, delivery: &Delivery) {
        dispatch!(self, controller => controller.on_delivery(ack, delivery));
    }

    fn on_resume(&mut self, now: Instant) {
        dispatch!(self, controller => controller.on_resume(now));
    }

    #[inline]
    fn owns_window(&self) -> bool {
        dispatch!(self, controller => controller.owns_window())
    }

    fn holds_back(&self) -> bool {
        dispatch!(self, controller => controller.holds_back())
    }

    fn least_burst(&self) -> Option<u32> {
        dispatch!(self, controller => controller.least_burst())
    }

    #[inline]
    fn window(&self) -> f64 {
        dispatch!(self, controller => controller.window())
    }

    #[inline]
    fn flight_limit(&self) -> u32 {
        dispatch!(self, controller => controller.flight_limit())
    }

    /// Asked for several times a segment, so those that set no gaps are told apart without a call.
    #[inline]
    fn gap(&self, next: u64) -> Option<Duration> {
        use AnyController::{Bbr, Cubic, Dctcp, FixedRate, FixedWindow, Reno};
        match self {
            Reno(_) | Cubic(_) | Dctcp(_) | Bbr(_) | FixedWindow(_) | FixedRate(_) => None,
            _ => self.set_gap(next),
        }
    }

    #[inline]
    fn ssthresh(&self) -> f64 {
        dispatch!(self, controller => controller.ssthresh())
    }

    #[inline]
    fn pacing_rate(&self) -> Option<Rate> {
        dispatch!(self, controller => controller.pacing_rate())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_back_as_it_prints() {
        let kinds = [
            Kind::Reno,
            Kind::Cubic,
            Kind::Dctcp,
            Kind::Bbr,
            Kind::Rfc3168,
            Kind::Sdc,
            Kind::Subtcp,
            Kind::Nice,
            Kind::LsReno(LsParameters::default()),
            Kind::LsDctcp(LsParameters { shift: Some(7), delta: 4, after_cut: true }),
            Kind::FixedWindow { segments: 100 },
            Kind::FixedRate { rate: Rate::from_bps(10_000_000) },
            Kind::FixedRate { rate: Rate::from_bps(12_345_678_901) },
            Kind::FixedRate { rate: Rate::from_bps(1) },
        ];
        for kind in kinds {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!("fixed-rate:10 Mb/s".parse(), Ok(kinds[11]));
        assert_eq!(kinds[11].to_string(), "fixed-rate:10 Mb/s");
    }

    #[test]
    fn unknown_names_and_missing_arguments_are_refused() {
        for text in [
            "",
            "vegas",
            "reno:1",
            "bbr:2",
            "ls-dctcp:c=3",
            "fixed-window",
            "fixed-window:0",
            "fixed-rate:10",
            "fixed-rate:0",
        ] {
            assert_eq!(text.parse::<Kind>(), Err(ParseKindError(text.to_owned())));
        }
    }

    #[test]
    fn fixed_kinds_ignore_everything() {
        let rate = Rate::from_bps(10_000_000);
        for (kind, pacing) in
            [(Kind::FixedWindow { segments: 7 }, None), (Kind::FixedRate { rate }, Some(rate))]
        {
            let mut controller = kind.build(&super::super::testing::START);
            let before = controller.window();
            controller.on_ack(&super::super::testing::ack(3));
            controller.on_congestion(Instant::ZERO, 7, Congestion::Loss);
            controller.on_timeout(Instant::ZERO, 7, false);
            assert_eq!(controller.window(), before);
            assert_eq!(controller.ssthresh(), before);
            assert_eq!(controller.pacing_rate(), pacing);
        }
    }
}

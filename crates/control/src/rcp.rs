//! RCP: routers say how fast to send (Dukkipati, Kobayashi, Zhang-Shen and McKeown, IWQoS
//! 2005; xcp-rcp 2.12).
//!
//! The window is rate x RTT, or packets are paced at the rate, which also works with less than one packet per
//! round trip. Losses do not change the rate.

use std::fmt;

use super::parts::{Parts, optional_parts};
use super::{Ack, Congestion, Controller, Metrics, Needs, Start};
use crate::claims::{Claims, Factor, read_factor, scale};
use headway_queue::explicit::{
    ANY_RATE, Format, Header, LARGEST_WINDOW, PACED_WINDOW, VERSION_RCP, Window, spacing_at_rate, throughput,
    to_header_time,
};
use headway_units::{Bytes, Duration, Instant, Rate};

/// The parameters of RCP; text such as `paced,demand=10 Mb/s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RcpParameters {
    /// Whether the sender paces its packets at the rate, within a window that rarely limits it.
    paced: bool,
    /// The rate that it asks for; any if absent.
    demand: Option<Rate>,
    /// What it takes of the rate that it is granted, in thousandths, if not just that.
    takes: Option<u32>,
    claims: Claims,
    /// Whether a timeout and losses leave a paced sender as it is, as published.
    published: bool,
}

impl RcpParameters {
    /// Returns the rate that the sender asks for; `None` for any.
    pub fn demand(&self) -> Option<Rate> {
        self.demand
    }

    /// Returns whether the sender paces its packets at the rate.
    pub fn is_paced(&self) -> bool {
        self.paced
    }

    /// Returns whether the sender says what is so, and takes what it is granted.
    pub fn is_honest(&self) -> bool {
        self.takes.is_none() && self.claims == Claims::default()
    }

    /// Returns whether the sender is the published one: at its last rate whatever is lost.
    pub fn is_published(&self) -> bool {
        self.published
    }
}

impl Parts for RcpParameters {
    const KEYS: &'static [(&'static str, &'static str)] = &[
        ("demand", "a rate of at least 8 b/s"),
        ("takes", "a factor from 0.001 to 1000"),
        ("says-rtt", "a factor from 0.001 to 1000"),
        ("says-x", "a factor from 0.001 to 1000"),
    ];

    fn set(&mut self, part: &str) -> Option<()> {
        match part {
            "paced" => self.paced = true,
            "published" => self.published = true,
            _ => return self.set_value(part),
        }
        Some(())
    }

    fn known() -> String {
        "`paced` and `published`, and `demand`, `takes`, `says-rtt` and `says-x` with a value".to_owned()
    }
}

impl RcpParameters {
    fn set_value(&mut self, part: &str) -> Option<()> {
        match part.split_once('=')? {
            ("demand", rate) => self.demand = Some(rate.parse().ok().filter(|rate: &Rate| rate.bps() >= 8)?),
            ("takes", factor) => self.takes = Some(read_factor(factor)?),
            _ => return self.claims.set(part),
        }
        Some(())
    }
}

optional_parts!(RcpParameters, "paced,demand=10 Mb/s");

impl fmt::Display for RcpParameters {
    /// Prints what differs from the default, so nothing for the default itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paced = self.paced.then(|| "paced".to_owned());
        let published = self.published.then(|| "published".to_owned());
        let demand = self.demand.map(|demand| format!("demand={} Mb/s", demand.mbps()));
        let takes = self.takes.map(|factor| format!("takes={}", Factor(factor)));
        let parts = [paced, published, demand, takes].into_iter().flatten().chain(self.claims.parts());
        f.write_str(&parts.collect::<Vec<String>>().join(","))
    }
}

/// A sender of RCP.
#[derive(Clone, Debug)]
pub struct Rcp {
    parameters: RcpParameters,
    /// Rate x RTT in bytes on the wire, as links count.
    window: Window,
    /// Bytes of a full segment on the wire.
    wire: Bytes,
    /// The latest rate in B/s; 0 before the first.
    rate: u32,
    /// Smoothed RTT; zero before the first ACK, so that the first segment says that it is unknown.
    srtt: Duration,
}

impl Rcp {
    /// Creates a sender with a window of one segment.
    pub(crate) fn new(parameters: RcpParameters, start: &Start) -> Rcp {
        let wire = Bytes::new(start.wire.into());
        Rcp { parameters, window: Window::new(wire, wire), wire, rate: 0, srtt: Duration::ZERO }
    }

    /// Whether departures are paced: once there is a rate.
    fn is_paced(&self) -> bool {
        self.parameters.paced && self.rate > 0 && self.rate < ANY_RATE
    }

    fn paced_rate(&self) -> Rate {
        Rate::from_bps(u64::from(self.rate) * 8)
    }
}

impl Controller for Rcp {
    fn on_ack(&mut self, ack: &Ack) {
        self.srtt = ack.smoothed.unwrap_or(self.srtt);
        let told = ack.feedback.filter(|feedback| feedback.version == VERSION_RCP && feedback.value > 0);
        if let Some(feedback) = told {
            self.rate = self.parameters.takes.map_or(feedback.value, |factor| scale(feedback.value, factor));
        }
        // The RTT may have changed.
        self.window.on_rate(self.rate, self.srtt);
    }

    /// The rate stays: it is whatever routers say.
    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {}

    /// The rate of a paced sender is out of date, and may send into a queue that loses all of it: one segment
    /// asks again, as the first one did.
    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, _already_reduced: bool) {
        if self.parameters.paced && !self.parameters.published {
            self.rate = 0;
            self.window.set(self.wire);
        }
    }

    fn gap(&self, _next: u64) -> Option<Duration> {
        self.is_paced().then(|| self.paced_rate().time_for(self.wire))
    }

    fn header(&mut self) -> Option<Header> {
        let mut header = Header::new(VERSION_RCP, Format::Standard);
        let asked = self.parameters.demand.map_or(u64::from(ANY_RATE), |rate| rate.bps() / 8);
        header.feedback = u32::try_from(asked).unwrap_or(ANY_RATE);
        if self.srtt > Duration::ZERO {
            let rate =
                if self.is_paced() { self.paced_rate() } else { throughput(self.window.bytes(), self.srtt) };
            header.rtt = to_header_time(self.srtt);
            header.x = to_header_time(spacing_at_rate(self.wire, rate));
            self.parameters.claims.apply(&mut header);
        }
        Some(header)
    }

    /// The threshold is the window itself: there is no slow start.
    fn metrics(&self) -> Metrics {
        let bytes = match (self.is_paced(), self.parameters.published) {
            (true, true) => LARGEST_WINDOW,
            (true, false) => Bytes::new(self.window.bytes().get() * PACED_WINDOW),
            (false, _) => self.window.bytes(),
        };
        let window = bytes.get() as f64 / self.wire.get() as f64;
        Metrics::new(window, window)
    }

    fn needs(&self) -> Needs {
        Needs { prr: false, header: true, ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{START, ack};
    use super::super::{Feedback, Kind};
    use super::*;

    fn rcp(text: &str) -> Rcp {
        Rcp::new(text.parse().unwrap_or_default(), &START)
    }

    fn told(rate: u32) -> Ack {
        let feedback = Some(Feedback { version: VERSION_RCP, value: rate });
        Ack { feedback, smoothed: Some(Duration::from_ms(100)), ..ack(1) }
    }

    #[test]
    fn the_first_segment_asks_for_any_rate_and_says_that_the_rtt_is_unknown() {
        let header = rcp("").header().unwrap();
        assert_eq!((header.rtt, header.x, header.rate(), header.version), (0, 0, ANY_RATE, VERSION_RCP));
        assert_eq!(rcp("demand=0.8 Mb/s").header().unwrap().rate(), 100_000);
    }

    #[test]
    fn the_window_is_the_rate_times_the_rtt_and_losses_leave_it() {
        let mut rcp = rcp("");
        rcp.on_ack(&told(153_800));
        assert!((rcp.window() - 10.0).abs() < 0.01, "{}", rcp.window());
        rcp.on_congestion(Instant::ZERO, 10, Congestion::Loss);
        rcp.on_timeout(Instant::ZERO, 10, false);
        assert!((rcp.window() - 10.0).abs() < 0.01);
        // Without feedback, or with none that a router has granted, the last rate holds.
        rcp.on_ack(&Ack { smoothed: Some(Duration::from_ms(50)), ..ack(1) });
        assert!((rcp.window() - 5.0).abs() < 0.01);
        rcp.on_ack(&told(0));
        assert!((rcp.window() - 10.0).abs() < 0.01);
        rcp.on_ack(&told(1));
        assert_eq!(rcp.window(), 1.0);
    }

    #[test]
    fn after_a_timeout_a_paced_sender_asks_for_the_rate_with_one_segment() {
        let mut rcp = rcp("paced");
        rcp.on_ack(&told(153_800));
        rcp.on_timeout(Instant::ZERO, 10, false);
        assert_eq!((rcp.window(), rcp.gap(0)), (1.0, None));
        rcp.on_ack(&Ack { smoothed: Some(Duration::from_ms(50)), ..ack(1) });
        assert_eq!(rcp.window(), 1.0);
        rcp.on_ack(&told(153_800));
        assert_eq!(rcp.gap(0), Some(Duration::from_ms(10)));
    }

    #[test]
    fn a_published_paced_sender_goes_on_at_its_rate_whatever_is_lost() {
        let mut rcp = rcp("paced,published");
        rcp.on_ack(&told(153_800));
        assert_eq!(rcp.window(), LARGEST_WINDOW.get() as f64 / f64::from(START.wire));
        rcp.on_timeout(Instant::ZERO, 10, false);
        assert_eq!(rcp.gap(0), Some(Duration::from_ms(10)));
    }

    #[test]
    fn a_paced_sender_spaces_packets_out_beyond_the_rtt() {
        let mut rcp = rcp("paced");
        assert_eq!((rcp.gap(0), rcp.flight_limit()), (None, 1));
        rcp.on_ack(&told(769));
        assert_eq!(rcp.gap(0), Some(Duration::from_ms(2_000)));
        assert_eq!(rcp.flight_limit(), 4, "no limit unless the RTT grows to 8 s");
        let x = f64::from(rcp.header().unwrap().x) / f64::from(1 << 28);
        assert!((x - 2.0).abs() < 1e-6, "{x}");
    }

    #[test]
    fn parameters_read_back_as_they_print() {
        for text in [
            "rcp",
            "rcp:paced",
            "rcp:demand=10 Mb/s",
            "rcp:paced,demand=2.5 Mb/s",
            "rcp:paced,published",
            "rcp:takes=1.5,says-rtt=0.1,says-x=10",
        ] {
            let kind: Kind = text.parse().expect(text);
            assert_eq!(kind.to_string(), text);
        }
        let error = "rcp:demand=1 b/s".parse::<Kind>().unwrap_err();
        assert!(error.to_string().ends_with("`demand` takes a rate of at least 8 b/s"), "{error}");
    }
}

//! XCP: routers say how much faster or slower to become (Katabi, Handley and Rohrs, SIGCOMM
//! 2002; xcp-rcp 2.1, 2.2).
//!
//! Every segment asks for its share of the change to the demanded rate; routers lower that, the receiver
//! returns the sum, and the window changes by feedback x RTT.

use std::fmt;

use super::parts::{Parts, optional_parts};
use super::reno::Reno;
use super::{Ack, Congestion, Controller, Metrics, Needs, Start};
use crate::claims::Claims;
use headway_queue::explicit::{
    Format, Header, Request, Share, VERSION_XCP, Window, share, spacing_at_rate, throughput, to_header_time,
};
use headway_units::{Bytes, Duration, Instant, Rate};

/// The rate that senders ask for unless told otherwise: routers decide.
const DEMAND: Rate = Rate::from_bps(100_000_000_000);

/// What a sender does when it loses segments (xcp-rcp 2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossPolicy {
    /// Halves its window, and goes on with the feedback.
    #[default]
    Xcp,
    /// Becomes Reno for good.
    Reno,
}

/// The parameters of XCP; text such as `demand=10 Mb/s,loss=reno`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XcpParameters {
    demand: Option<Rate>,
    loss: LossPolicy,
    /// Whether it takes notice of nothing that would make it slower: neither negative feedback nor losses.
    deaf: bool,
    claims: Claims,
    /// Whether it asks for more, and its window grows, also while its application limits it, as published.
    published: bool,
}

impl XcpParameters {
    /// Returns the rate that the sender asks for; `None` for any.
    pub fn demand(&self) -> Option<Rate> {
        self.demand
    }

    /// Returns whether the sender says what is so, and listens.
    pub fn is_honest(&self) -> bool {
        !self.deaf && self.claims == Claims::default()
    }

    /// Returns whether the sender is the published one, which takes no notice of an
    /// application that limits it.
    pub fn is_published(&self) -> bool {
        self.published
    }

    /// Returns whether the first loss makes the sender Reno for good.
    pub fn yields(&self) -> bool {
        self.loss == LossPolicy::Reno
    }
}

impl Parts for XcpParameters {
    const KEYS: &'static [(&'static str, &'static str)] = &[
        ("demand", "a rate above zero"),
        ("loss", "`xcp` or `reno`"),
        ("says-rtt", "a factor from 0.001 to 1000"),
        ("says-x", "a factor from 0.001 to 1000"),
    ];

    fn set(&mut self, part: &str) -> Option<()> {
        match part {
            "deaf" => self.deaf = true,
            "published" => self.published = true,
            _ => return self.set_value(part),
        }
        Some(())
    }

    fn known() -> String {
        "`demand`, `loss`, `says-rtt` and `says-x`, with a value, and `deaf` and `published`".to_owned()
    }
}

impl XcpParameters {
    fn set_value(&mut self, part: &str) -> Option<()> {
        match part.split_once('=')? {
            ("demand", rate) => {
                let rate = rate.parse().ok().filter(|rate| *rate > Rate::ZERO)?;
                self.demand = Some(rate).filter(|rate| *rate != DEMAND);
            }
            ("loss", "xcp") => self.loss = LossPolicy::Xcp,
            ("loss", "reno") => self.loss = LossPolicy::Reno,
            _ => return self.claims.set(part),
        }
        Some(())
    }
}

optional_parts!(XcpParameters, "demand=10 Mb/s,loss=reno");

impl fmt::Display for XcpParameters {
    /// Prints what differs from the default, so nothing for the default itself.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let demand = self.demand.map(|demand| format!("demand={} Mb/s", demand.mbps()));
        let loss = (self.loss == LossPolicy::Reno).then(|| "loss=reno".to_owned());
        let deaf = self.deaf.then(|| "deaf".to_owned());
        let published = self.published.then(|| "published".to_owned());
        let parts = [demand, loss, deaf, published].into_iter().flatten().chain(self.claims.parts());
        f.write_str(&parts.collect::<Vec<String>>().join(","))
    }
}

/// A sender of XCP.
#[derive(Clone, Debug)]
pub struct Xcp {
    parameters: XcpParameters,
    /// In bytes on the wire, as links count.
    window: Window,
    /// Bytes of a full segment on the wire.
    wire: Bytes,
    /// Smoothed RTT; zero before the first ACK, so that the first segment says that it is unknown.
    srtt: Duration,
    request: Request,
    /// Whether the window limits the sender. One that the application does not fill must not grow (RFC 7661),
    /// so nothing is asked for that others could have.
    fills_window: bool,
    /// What headers say until window or RTT change; `None` if they have.
    said: Option<Said>,
    /// Takes over at the first loss, with [`LossPolicy::Reno`].
    reno: Option<Reno>,
    start: Start,
}

/// What the headers of a sender say.
#[derive(Clone, Copy, Debug)]
struct Said {
    /// RTT and X as headers have them.
    rtt: u32,
    x: u32,
    share: Share,
}

impl Xcp {
    /// Creates a sender with a window of one segment.
    pub(crate) fn new(parameters: XcpParameters, start: &Start) -> Xcp {
        let wire = Bytes::new(start.wire.into());
        Xcp {
            parameters,
            window: Window::new(wire, wire),
            wire,
            srtt: Duration::ZERO,
            request: Request::default(),
            fills_window: true,
            said: None,
            reno: None,
            start: start.clone(),
        }
    }

    /// Segments in the window.
    fn segments(&self) -> f64 {
        self.window.with_fraction() as f64 / (self.wire.get() << headway_queue::explicit::WINDOW_BITS) as f64
    }

    /// Returns what headers say at the window and RTT of now.
    fn say(&self) -> Said {
        let bytes = Bytes::new((self.window() * self.wire.get() as f64) as u64);
        let rate = throughput(bytes, self.srtt);
        let demand = self.parameters.demand.unwrap_or(DEMAND);
        let desired = if self.fills_window { demand } else { rate.min(demand) };
        Said {
            rtt: to_header_time(self.srtt),
            x: to_header_time(spacing_at_rate(self.wire, rate)),
            share: share(rate, desired, self.srtt, self.wire),
        }
    }

    /// Becomes Reno with the window of now, if losses make it so; returns the controller that they concern.
    fn after_loss(&mut self) -> Option<&mut Reno> {
        if self.parameters.loss == LossPolicy::Reno && self.reno.is_none() {
            let window = (self.segments() as u32).max(1);
            self.reno = Some(Reno::new(&Start { window, ..self.start.clone() }));
        }
        self.reno.as_mut()
    }
}

impl Controller for Xcp {
    fn on_ack(&mut self, ack: &Ack) {
        self.said = None;
        self.srtt = ack.smoothed.unwrap_or(self.srtt);
        self.fills_window = ack.window_limited || self.parameters.published;
        if let Some(reno) = &mut self.reno {
            return reno.on_ack(ack);
        }
        let granted = ack.feedback.filter(|feedback| feedback.version == VERSION_XCP);
        if let Some(feedback) = granted {
            let change = feedback.value.cast_signed();
            let least = if self.parameters.deaf { 0 } else { i32::MIN };
            let most = if self.fills_window { i32::MAX } else { 0 };
            self.window.on_change(change.clamp(least, most), self.srtt);
        }
    }

    fn on_congestion(&mut self, now: Instant, in_flight: u32, cause: Congestion) {
        if self.parameters.deaf {
            return;
        }
        self.said = None;
        match self.after_loss() {
            Some(reno) => reno.on_congestion(now, in_flight, cause),
            None => self.window.set(Bytes::new(self.window.bytes().get() / 2)),
        }
    }

    fn on_timeout(&mut self, now: Instant, in_flight: u32, already_reduced: bool) {
        if self.parameters.deaf {
            return;
        }
        self.said = None;
        match self.after_loss() {
            Some(reno) => reno.on_timeout(now, in_flight, already_reduced),
            None => self.window.set(self.wire),
        }
    }

    fn header(&mut self) -> Option<Header> {
        let mut header = Header::new(VERSION_XCP, Format::Standard);
        if self.srtt > Duration::ZERO {
            let said = self.said.unwrap_or_else(|| self.say());
            self.said = Some(said);
            (header.rtt, header.x) = (said.rtt, said.x);
            header.feedback = self.request.next(said.share).cast_unsigned();
            self.parameters.claims.apply(&mut header);
        }
        Some(header)
    }

    /// The threshold is the window itself: there is no slow start, unless losses made it Reno.
    fn metrics(&self) -> Metrics {
        self.reno.as_ref().map_or_else(|| Metrics::new(self.segments(), self.segments()), Controller::metrics)
    }

    /// The window applies at once, because routers have taken it into account.
    fn needs(&self) -> Needs {
        Needs { prr: false, header: true, ..Needs::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{START, ack};
    use super::super::{Feedback, Kind};
    use super::*;

    const RTT: Duration = Duration::from_ms(100);

    fn xcp(text: &str) -> Xcp {
        Xcp::new(text.parse().unwrap_or_default(), &START)
    }

    fn grant(value: i32) -> Ack {
        let feedback = Some(Feedback { version: VERSION_XCP, value: value.cast_unsigned() });
        Ack { feedback, smoothed: Some(RTT), ..ack(1) }
    }

    #[test]
    fn the_first_segment_says_that_the_rtt_is_unknown_and_asks_for_nothing() {
        let header = xcp("").header().unwrap();
        assert_eq!((header.rtt, header.x, header.delta(), header.version), (0, 0, 0, VERSION_XCP));
    }

    #[test]
    fn feedback_moves_the_window_by_its_product_with_the_rtt_and_never_below_a_segment() {
        let mut xcp = xcp("");
        // 153 800 B/s more, for 100 ms: ten segments.
        xcp.on_ack(&grant(153_800));
        assert!((xcp.window() - 11.0).abs() < 1e-6, "{}", xcp.window());
        xcp.on_ack(&grant(-1_000_000));
        assert_eq!(xcp.window(), 1.0);
        // Less than a byte at a time adds up.
        (0..1538).for_each(|_| xcp.on_ack(&grant(5)));
        assert!((xcp.window() - 1.5).abs() < 0.001, "{}", xcp.window());
    }

    #[test]
    fn a_window_that_the_application_does_not_fill_neither_grows_nor_asks_for_more() {
        let mut xcp = xcp("demand=20 Mb/s");
        xcp.on_ack(&grant(153_800));
        assert!(xcp.header().unwrap().delta() > 0);
        xcp.on_ack(&Ack { window_limited: false, ..grant(153_800) });
        assert!((xcp.window() - 11.0).abs() < 1e-6, "{}", xcp.window());
        let before = xcp.request;
        (0..11).for_each(|_| assert!(xcp.header().unwrap().delta().abs() <= 1));
        // It still obeys, and asks again as soon as the window is full.
        xcp.request = before;
        xcp.on_ack(&Ack { window_limited: false, ..grant(-15_380) });
        assert!((xcp.window() - 10.0).abs() < 1e-6, "{}", xcp.window());
        xcp.on_ack(&grant(0));
        assert!(xcp.header().unwrap().delta() > 0);
    }

    #[test]
    fn a_published_sender_asks_for_more_although_its_application_does_not_use_it() {
        let mut xcp = xcp("demand=20 Mb/s,published");
        xcp.on_ack(&Ack { window_limited: false, ..grant(153_800) });
        assert!((xcp.window() - 11.0).abs() < 1e-6, "{}", xcp.window());
        xcp.on_ack(&Ack { window_limited: false, ..grant(0) });
        assert!(xcp.header().unwrap().delta() > 0);
    }

    #[test]
    fn segments_of_a_round_trip_ask_for_the_whole_change_together() {
        let mut xcp = xcp("demand=2 Mb/s");
        xcp.on_ack(&grant(153_800));
        let rate = 11.0 * 1538.0 / 0.1;
        let headers: Vec<Header> = (0..11).map(|_| xcp.header().unwrap()).collect();
        let asked: i64 = headers.iter().map(|header| i64::from(header.delta())).sum();
        assert!((asked as f64 / (250_000.0 - rate) - 1.0).abs() < 0.01, "{asked}");
        // X times throughput is the size of a packet.
        let x = f64::from(headers[0].x) / f64::from(1 << 28);
        assert!((x * rate / 1538.0 - 1.0).abs() < 0.01);
    }

    #[test]
    fn losses_halve_the_window_and_feedback_goes_on_unless_reno_takes_over() {
        let (mut keeps, mut yields) = (xcp(""), xcp("loss=reno"));
        for xcp in [&mut keeps, &mut yields] {
            xcp.on_ack(&grant(153_800));
            xcp.on_congestion(Instant::ZERO, 11, Congestion::Loss);
            assert!((xcp.window() - 5.5).abs() < 0.6, "{}", xcp.window());
        }
        keeps.on_ack(&grant(15_380));
        assert!((keeps.window() - 6.5).abs() < 1e-3);
        yields.on_ack(&grant(15_380));
        assert!(yields.window() < 5.6);
        keeps.on_timeout(Instant::ZERO, 6, false);
        assert_eq!(keeps.window(), 1.0);
    }

    #[test]
    fn a_sender_may_misstate_what_it_knows_and_not_listen() {
        let mut xcp = xcp("says-rtt=0.5,says-x=3,deaf");
        assert_eq!(xcp.header().unwrap().rtt, 0, "unknown");
        xcp.on_ack(&grant(153_800));
        xcp.on_ack(&grant(-153_800));
        xcp.on_congestion(Instant::ZERO, 11, Congestion::Loss);
        assert!((xcp.window() - 11.0).abs() < 1e-6, "{}", xcp.window());
        let seconds = |time: u32| f64::from(time) / f64::from(1 << 28);
        let header = xcp.header().unwrap();
        assert!((seconds(header.rtt) / 0.05 - 1.0).abs() < 1e-6);
        assert!((seconds(header.x) / (0.3 / 11.0) - 1.0).abs() < 1e-3);
    }

    #[test]
    fn parameters_read_back_as_they_print() {
        for text in [
            "xcp",
            "xcp:demand=10 Mb/s",
            "xcp:loss=reno",
            "xcp:demand=2.5 Mb/s,loss=reno",
            "xcp:deaf,says-rtt=0.1,says-x=10",
        ] {
            let kind: Kind = text.parse().expect(text);
            assert_eq!(kind.to_string(), text);
        }
        let error = "xcp:demand=0 b/s".parse::<Kind>().unwrap_err();
        assert!(error.to_string().ends_with("`demand` takes a rate above zero"), "{error}");
    }
}

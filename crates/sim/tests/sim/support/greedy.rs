//! An explicit controller that is not in the table.

use headway_control::{Ack, Congestion, Controller, Metrics, Needs, Start};
use headway_queue::explicit::{Format, Header, VERSION_XCP, spacing_at_rate, to_header_time};
use headway_units::{Bytes, Duration, Instant, Rate};

/// A sender of XCP as short as it can be: it asks for as much as the header can say, and takes
/// whatever is granted.
#[derive(Debug)]
pub(crate) struct Greedy {
    wire: Bytes,
    /// In bytes.
    window: f64,
    srtt: Duration,
}

impl Greedy {
    pub(crate) fn new(start: &Start) -> Greedy {
        let wire = Bytes::new(start.wire.into());
        Greedy { wire, window: wire.get() as f64, srtt: Duration::ZERO }
    }
}

impl Controller for Greedy {
    fn on_ack(&mut self, ack: &Ack) {
        self.srtt = ack.smoothed.unwrap_or(self.srtt);
        let granted = ack.feedback.map_or(0, |feedback| feedback.value.cast_signed());
        let change = f64::from(granted) * self.srtt.ns() as f64 / 1e9;
        self.window = (self.window + change).max(self.wire.get() as f64);
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {}

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, _already_reduced: bool) {}

    fn metrics(&self) -> Metrics {
        let window = self.window / self.wire.get() as f64;
        Metrics::new(window, window)
    }

    fn needs(&self) -> Needs {
        Needs { prr: false, header: true, ..Needs::default() }
    }

    fn header(&mut self) -> Option<Header> {
        let mut header = Header::new(VERSION_XCP, Format::Standard);
        if let Some(rate) = Rate::of(Bytes::new(self.window as u64), self.srtt) {
            header.rtt = to_header_time(self.srtt);
            header.x = to_header_time(spacing_at_rate(self.wire, rate));
            header.feedback = i32::MAX.cast_unsigned();
        }
        Some(header)
    }
}

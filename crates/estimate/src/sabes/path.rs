//! All observed transfers over one path.

use super::limit::Limit;
use super::meter::{Estimate, Known, Meter};
use super::sample::Step;
use super::settings::{Form, Settings, Side, Windows};
use super::window_counts::WindowCounts;
use headway_units::{Bytes, Duration, Instant, Rate};

/// An ACK of one transfer, as the other transfers over its path should know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// When it passed the tap.
    pub at: Instant,
    /// Bytes on the wire that it acknowledges.
    pub bytes: Bytes,
    /// When the last segment that it acknowledges passed the tap; `None` if that is not known, or another one was lost.
    pub sent: Option<Instant>,
    /// How long that segment waited in queues: its RTT beyond the smallest of its transfer.
    pub wait: Duration,
}

/// The available bandwidth of a path that several observed transfers share.
///
/// To one transfer the others are cross traffic. Taken together, they show what is left by traffic that is not
/// observed: while the queue of the tight link is never empty, the rate of all of them. A tap near the receivers gives no
/// estimates here, because it does not see when segments were sent.
#[derive(Clone, Debug)]
pub struct Path {
    meter: Meter,
    sliding: bool,
    sender: bool,
    /// The last ACK, and the bytes acknowledged since whose time is not known.
    last: Option<Instant>,
    pending: f64,
    rtt: Option<Duration>,
    capacity: Option<Rate>,
}

/// Wire bytes of a full packet, for the grouping of batches.
const PACKET: f64 = 1538.0;

impl Path {
    /// Returns a path of which nothing has been seen.
    pub fn new(settings: &Settings) -> Path {
        // The published rules know no path.
        let settings = Settings { form: Form::Guarded, ..*settings };
        Path {
            meter: Meter::new(&settings),
            sliding: settings.windows == Windows::Sliding,
            sender: settings.side == Side::Sender,
            last: None,
            pending: 0.0,
            rtt: None,
            capacity: None,
        }
    }

    /// Takes the latest ACK of one of the transfers, in the order in which ACKs pass the tap; returns an estimate if a
    /// window ended with it that gives one.
    pub fn observe(&mut self, passed: &Passed) -> Option<Estimate> {
        if !self.sender {
            return None;
        }
        let known = Known { rtt: self.rtt, capacity: self.capacity, limit: Limit::Unknown };
        let over = self.meter.is_over(passed.at);
        let over = over.and_then(|end| self.meter.tumble((end, passed.at), &known, PACKET, |_| {}));
        let bytes = passed.bytes.get() as f64;
        self.meter.acknowledged(bytes);
        // Segments behind a loss are acknowledged late; their bytes join the next sample.
        self.pending += bytes;
        let Some(sent) = passed.sent else { return over };
        let gap = self.last.replace(passed.at).map(|last| passed.at - last);
        let bytes = std::mem::take(&mut self.pending);
        let step = Step {
            at: passed.at,
            gap: gap.unwrap_or(Duration::ZERO),
            bytes,
            sent: Some(sent),
            wait: passed.wait,
        };
        if gap.is_none_or(|gap| gap < Duration::ZERO) {
            self.meter.restart(&step);
            return over;
        }
        let advanced = self.meter.step(step, PACKET, |_| {});
        if advanced && self.sliding { self.meter.slide(passed.at, &known) } else { over }
    }

    /// Tells what a transfer over the path knows: the largest capacity and the smallest RTT count.
    pub fn learn(&mut self, capacity: Option<Rate>, rtt: Option<Duration>) {
        self.capacity = self.capacity.max(capacity);
        self.rtt = self.rtt.into_iter().chain(rtt).min();
    }

    /// Returns the rate on the wire that was acknowledged in the last window; `None` before the end of the first.
    pub fn throughput(&self) -> Option<Rate> {
        self.meter.throughput()
    }

    /// Returns the share of the last window during which the queue of the tight link was never empty, 0 to 1; an estimate says
    /// what was left in that time only.
    pub fn busy(&self) -> f64 {
        self.meter.busy()
    }

    /// Returns how many windows gave an estimate, and why others did not.
    pub fn windows(&self) -> &WindowCounts {
        self.meter.counts()
    }

    /// Returns the bytes of memory in use.
    pub fn memory(&self) -> usize {
        size_of::<Path>() + self.meter.memory()
    }
}

//! All observed transfers over one path.

use super::capacity::{First, Search};
use super::limit::Limit;
use super::meter::{Estimate, Known, Meter};
use super::narrow::Capacity;
use super::sample::Step;
use super::settings::{Form, Settings, Windows};
use super::window_counts::WindowCounts;
use headway_units::{Bytes, Duration, Instant, Rate};

/// An ACK of one transfer, as the other transfers over its path should know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// When it passed the tap.
    pub at: Instant,
    /// Bytes on the wire that it acknowledges.
    pub bytes: Bytes,
    /// How long the last segment that it acknowledges waited in queues: its RTT beyond the smallest of its
    /// transfer; `None` if that is not known, or another one was lost.
    pub wait: Option<Duration>,
    /// Whether the path limits its transfer.
    pub presses: bool,
    /// Whether its gap is one of the path: nothing was lost, and packets are in order.
    pub counts: bool,
    /// Whether these are full segments only.
    pub is_full: bool,
}

/// The available bandwidth of a path that several observed transfers share.
///
/// To one transfer the others are cross traffic. Taken together, they show what is left by traffic that is
/// not observed: while the queue of the tight link is never empty, the rate of all of them. A tap that does
/// not see how long segments waited gives no estimates here.
#[derive(Clone, Debug)]
pub struct Path {
    meter: Meter,
    sliding: bool,
    /// The last ACK, and the bytes acknowledged since whose time is not known.
    last: Option<Instant>,
    pending: f64,
    rtt: Option<Duration>,
    search: Search,
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
            last: None,
            pending: 0.0,
            rtt: None,
            search: Search::new(&settings),
        }
    }

    /// Takes the latest ACK of one of the transfers, in the order in which ACKs pass the tap; returns an
    /// estimate if a window ended with it that gives one.
    pub fn observe(&mut self, passed: &Passed) -> Option<Estimate> {
        let known =
            Known { rtt: self.rtt, capacity: self.search.rate(), limit: Limit::Unknown, knows_waits: true };
        let over = self.meter.is_over(passed.at);
        let first = First {
            mss: 0,
            packet: PACKET,
            rtt: None,
            longest_gap: known.longest_gap(),
            knows_waits: known.knows_waits,
            has_been_full: true,
        };
        let over = over.and_then(|end| {
            self.meter.tumble((end, passed.at), &known, PACKET, |step| self.search.add(step, &first))
        });
        let bytes = passed.bytes.get() as f64;
        self.meter.acknowledged(bytes);
        // Segments behind a loss are acknowledged late; their bytes join the next sample.
        self.pending += bytes;
        let Some(wait) = passed.wait else { return over };
        let gap = self.last.replace(passed.at).map(|last| passed.at - last);
        let all = std::mem::take(&mut self.pending);
        let step = Step {
            at: passed.at,
            gap: gap.unwrap_or(Duration::ZERO),
            bytes: all,
            wait: Some(wait),
            presses: passed.presses,
            is_full: passed.is_full && all == bytes,
        };
        if gap.is_none_or(|gap| gap < Duration::ZERO) {
            self.meter.restart();
            self.search.restart();
            return over;
        }
        let advanced = self.meter.step(step, PACKET, |step| self.search.add(step, &first));
        if advanced && self.sliding { self.meter.slide(passed.at, &known) } else { over }
    }

    /// Returns the capacity of the narrow link that all transfers together show.
    pub fn narrow_link(&self) -> Option<Capacity> {
        self.search.found()
    }

    /// Tells what a transfer over the path knows: the latest capacity, until all together show it, and
    /// the smallest RTT count.
    pub fn learn(&mut self, capacity: Option<Rate>, rtt: Option<Duration>) {
        capacity.into_iter().for_each(|capacity| self.search.share(capacity));
        self.rtt = self.rtt.into_iter().chain(rtt).min();
    }

    /// Returns the rate on the wire that was acknowledged in the last window; `None` before
    /// the end of the first.
    pub fn throughput(&self) -> Option<Rate> {
        self.meter.throughput()
    }

    /// Returns the share of the last window during which the queue of the tight link was never empty, 0 to 1;
    /// an estimate says what was left in that time only.
    pub fn busy(&self) -> f64 {
        self.meter.busy()
    }

    /// Returns how many windows gave an estimate, and why others did not.
    pub fn windows(&self) -> &WindowCounts {
        self.meter.counts()
    }

    /// Returns the bytes of memory in use.
    pub fn memory(&self) -> usize {
        size_of::<Path>() + self.meter.memory() + self.search.memory()
    }
}

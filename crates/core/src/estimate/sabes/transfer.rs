//! One direction of a connection.

use super::segment::{Segment, Way};
use super::settings::{Settings, Windows};
use crate::units::{Bytes, Duration, Instant, Rate};

/// An estimate of the available bandwidth from one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The end of the window.
    pub at: Instant,
    /// The available bandwidth: the capacity of the tight link minus its cross traffic, without the transfers that are
    /// observed.
    pub rate: Rate,
    /// Lower end of the interval that holds the truth in at least 80 % of windows.
    pub low: Rate,
    /// Upper end of that interval.
    pub high: Rate,
    /// Number of samples used.
    pub samples: u32,
}

/// Why a window gave no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WindowRefusal {
    /// Fewer samples than needed remained.
    TooFewAcks,
    /// The sender had nothing to send, so gaps between ACKs say nothing about the path.
    ApplicationLimited,
    /// The receive window limited the sender.
    WindowLimited,
    /// The stamps of ACKs come in batches, and no complete batches remained.
    StampsCoalesced,
    /// The samples have too little spread: the transfer was not faster than what is available (Eq. 6.5).
    Narrow,
    /// Mean and median of the samples differ too much (Eq. 6.5).
    Skewed,
    /// The capacity is not known yet.
    NoCapacity,
}

impl WindowRefusal {
    /// All reasons.
    pub const ALL: [WindowRefusal; 7] = [
        WindowRefusal::TooFewAcks,
        WindowRefusal::ApplicationLimited,
        WindowRefusal::WindowLimited,
        WindowRefusal::StampsCoalesced,
        WindowRefusal::Narrow,
        WindowRefusal::Skewed,
        WindowRefusal::NoCapacity,
    ];

    /// Returns the reason as a name for results, such as `too-few-acks`.
    pub const fn name(self) -> &'static str {
        match self {
            WindowRefusal::TooFewAcks => "too-few-acks",
            WindowRefusal::ApplicationLimited => "application-limited",
            WindowRefusal::WindowLimited => "window-limited",
            WindowRefusal::StampsCoalesced => "stamps-coalesced",
            WindowRefusal::Narrow => "narrow",
            WindowRefusal::Skewed => "skewed",
            WindowRefusal::NoCapacity => "no-capacity",
        }
    }
}

/// How many windows gave an estimate, and why the others did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCounts {
    used: u64,
    refused: [u64; WindowRefusal::ALL.len()],
}

impl WindowCounts {
    /// Returns the number of windows that gave an estimate.
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// Returns the number of windows refused for this reason.
    pub const fn refused(&self, reason: WindowRefusal) -> u64 {
        self.refused[reason as usize]
    }

    /// Returns the number of all windows.
    pub fn total(&self) -> u64 {
        self.used + self.refused.iter().sum::<u64>()
    }

    fn count<T>(&mut self, result: Result<T, WindowRefusal>) -> Option<T> {
        match result {
            Ok(value) => {
                self.used += 1;
                Some(value)
            }
            Err(reason) => {
                self.refused[reason as usize] += 1;
                None
            }
        }
    }
}

/// What limits the rate of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// The sending application: it has less to send than the path and the receiver would take.
    Application,
    /// The receiver: its window is full.
    ReceiveWindow,
    /// The path, through the congestion window.
    Path,
    /// The trace does not tell.
    Unknown,
}

impl Limit {
    /// All limits.
    pub const ALL: [Limit; 4] = [Limit::Application, Limit::ReceiveWindow, Limit::Path, Limit::Unknown];

    /// Returns the limit as a name for results, such as `receive-window`.
    pub const fn name(self) -> &'static str {
        match self {
            Limit::Application => "application",
            Limit::ReceiveWindow => "receive-window",
            Limit::Path => "path",
            Limit::Unknown => "unknown",
        }
    }
}

/// The time for which each limit held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    time: [Duration; Limit::ALL.len()],
}

impl Limits {
    /// Returns the time for which `limit` held.
    pub const fn time(&self, limit: Limit) -> Duration {
        self.time[limit as usize]
    }

    /// Returns the share of time, 0 to 1, for which `limit` held; 0 before any time has passed.
    pub fn share(&self, limit: Limit) -> f64 {
        let total: Duration = self.time.iter().copied().sum();
        if total > Duration::ZERO { self.time(limit).secs_f64() / total.secs_f64() } else { 0.0 }
    }

    /// Returns the limit that held for the longest time; `Unknown` before any time has passed.
    pub fn main(&self) -> Limit {
        let longest =
            Limit::ALL.into_iter().max_by_key(|limit| (self.time(*limit), *limit == Limit::Unknown));
        longest.unwrap_or(Limit::Unknown)
    }
}

/// One direction of a connection, observed at a tap: data one way, ACKs the other.
///
/// Its memory is bounded by [`Settings::samples`] and grows only while a window holds more samples than any before.
#[derive(Clone, Debug)]
pub struct Transfer {
    settings: Settings,
    last: Option<(Instant, u32)>,
    round_trip: Option<Duration>,
    /// The last segment timed for an RTT: when it was sent, and the number that acknowledges it.
    timed: Option<(Instant, u32)>,
    capacity: Option<Rate>,
    begin: Option<Instant>,
    rates: Vec<f32>,
    acknowledged: u64,
    counts: WindowCounts,
    limits: Limits,
}

impl Transfer {
    /// Returns a transfer of which nothing has been seen.
    pub fn new(settings: &Settings) -> Transfer {
        Transfer {
            settings: *settings,
            last: None,
            round_trip: None,
            timed: None,
            capacity: None,
            begin: None,
            rates: Vec::new(),
            acknowledged: 0,
            counts: WindowCounts::default(),
            limits: Limits::default(),
        }
    }

    /// Takes the next segment that passes the tap; returns an estimate if a window ended with it that gives one.
    pub fn observe(&mut self, segment: &Segment) -> Option<Estimate> {
        match segment.way {
            Way::Data => {
                if segment.payload > 0 && self.timed.is_none() {
                    self.timed = Some((segment.at, segment.sequence.wrapping_add(segment.payload)));
                }
                None
            }
            Way::Acks => self.acknowledge(segment.at, segment.acknowledgement?),
        }
    }

    fn acknowledge(&mut self, at: Instant, number: u32) -> Option<Estimate> {
        if let Some((sent, end)) = self.timed
            && (number.wrapping_sub(end) as i32) >= 0
        {
            self.round_trip = Some(at - sent);
            self.timed = None;
        }
        let (before, last) = self.last.replace((at, number))?;
        let fresh = number.wrapping_sub(last);
        if fresh == 0 || fresh as i32 <= 0 {
            return None;
        }
        self.acknowledged += u64::from(fresh);
        let rate = Rate::of(Bytes::new(fresh.into()), at - before)?;
        if self.rates.len() < self.settings.samples {
            self.rates.push(rate.bps_f64() as f32);
        }
        self.capacity = self.capacity.max(Some(rate.min(self.settings.nic)));
        let period = match self.settings.windows {
            Windows::Sliding => self.round_trip?,
            Windows::Tumbling(period) => period,
        };
        if at - *self.begin.get_or_insert(at) < period {
            return None;
        }
        self.begin = Some(at);
        let result = self.evaluate(at);
        self.rates.clear();
        self.counts.count(result)
    }

    fn evaluate(&mut self, at: Instant) -> Result<Estimate, WindowRefusal> {
        if self.rates.len() < 4 {
            return Err(WindowRefusal::TooFewAcks);
        }
        self.rates.sort_unstable_by(f32::total_cmp);
        let n = self.rates.len();
        let mean = self.rates.iter().map(|rate| f64::from(*rate)).sum::<f64>() / n as f64;
        let quartile = |k: usize| Rate::from_bps_f64(self.rates[k * (n - 1) / 4].into());
        Ok(Estimate {
            at,
            rate: Rate::from_bps_f64(mean),
            low: quartile(1),
            high: quartile(3),
            samples: n as u32,
        })
    }

    /// Tells the capacity found by another transfer over the same path; the larger one counts.
    pub fn share_capacity(&mut self, capacity: Rate) {
        self.capacity = self.capacity.max(Some(capacity));
    }

    /// Returns the capacity of the narrow link; `None` until it is known.
    pub fn capacity(&self) -> Option<Rate> {
        self.capacity
    }

    /// Returns the smoothed RTT; `None` until it is known.
    pub fn rtt(&self) -> Option<Duration> {
        self.round_trip
    }

    /// Returns the payload acknowledged so far.
    pub fn acknowledged(&self) -> Bytes {
        Bytes::new(self.acknowledged)
    }

    /// Returns how many windows gave an estimate, and why others did not.
    pub fn windows(&self) -> &WindowCounts {
        &self.counts
    }

    /// Returns what limited the transfer, and for how long.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns the bytes of memory in use.
    pub fn memory(&self) -> usize {
        size_of::<Transfer>() + self.rates.capacity() * size_of::<f32>()
    }
}

//! LS-AIMD: the state of one connection and the events that change it.

/// The value of ssthresh before the first reduction.
pub const UNLIMITED: u64 = u64::MAX;
/// A scale C of 1.
pub const SCALE_ONE: u32 = 1 << 16;
/// Largest window, in bytes.
pub const LARGEST_WINDOW: u64 = 1 << 30;
/// Limit on the segments that one ACK is counted for below `delta` segments.
pub const MAX_STRETCH: u32 = 64;
/// The state keeps alpha multiplied by 2^4, on top of its 20 fraction bits.
const ALPHA_SHIFT: u32 = 4;
/// The same for the slower average of marks.
const MARKS_SHIFT: u32 = 9;

/// How a mark reduces the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Algorithm {
    /// By half.
    Reno = 0,
    /// By half of the fraction of segments that are marked.
    Dctcp = 1,
}

/// The configuration of LS-AIMD.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Config {
    /// How a mark reduces the window.
    pub algorithm: Algorithm,
    /// The most segments that the receiver acknowledges with one ACK, 1 to 16.
    pub delta: u32,
    /// Scale of the increase, C, in units of 2^-16; zero for automatic (ls-aimd 2.9).
    pub scale: u32,
    /// Minimum window in bytes, at least 1.
    pub floor: u32,
    /// Whether the increase is computed with the window after a cut made by the same ACK (ls-aimd 2.8).
    pub after_cut: u32,
    /// Whether the window grows by one segment per round trip in place of the logarithm.
    pub linear: u32,
    /// Whether the caller cannot move a departure once it is set. Marks then cut the window less below
    /// `delta` segments, but only with DCTCP and an automatic C.
    pub fixed_departures: u32,
}

impl Config {
    /// Returns the published configuration: C of 1, a stretch factor of 2, a floor of 2 bytes.
    pub const fn new(algorithm: Algorithm) -> Config {
        Config {
            algorithm,
            delta: 2,
            scale: SCALE_ONE,
            floor: 2,
            after_cut: 0,
            linear: 0,
            fixed_departures: 0,
        }
    }
}

/// The information carried by one ACK; sequence numbers wrap.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Ack {
    /// First unacknowledged sequence number (SND.UNA).
    pub una: u32,
    /// Next sequence number to be sent (SND.NXT).
    pub next: u32,
    /// Newly acknowledged whole segments.
    pub acked: u32,
    /// The marked ones among them.
    pub marked: u32,
    /// Segments in flight before this ACK.
    pub in_flight: u32,
    /// 1 if the window limits the connection, 0 if the application does.
    pub cwnd_limited: u32,
    /// 1 in fast recovery, when the window does not grow; 0 after a timeout.
    pub in_recovery: u32,
    /// RTT of the newest acknowledged segment, in ns; zero if there is no valid sample (ls-aimd 2.5).
    pub rtt: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct State {
    window: u64,
    ssthresh: u64,
    credit: u64,
    rtt: u64,
    prior_window: u64,
    prior_ssthresh: u64,
    mss: u32,
    add: u32,
    scale: u32,
    alpha: u32,
    marks: u32,
    total: u32,
    marked: u32,
    round_end: u32,
    cut: Cut,
    submss: u16,
}

/// `struct hw_cut`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, packed(2))]
struct Cut {
    end: u32,
    cause: u16,
}

unsafe extern "C" {
    safe fn ls_add(ssthresh: u64, exponent: u32) -> u32;
    safe fn ls_automatic_scale(algorithm: Algorithm, marks: u32, late_departures: i32) -> u32;
    safe fn ls_cwnd(ls: &State, config: &Config) -> u32;
    safe fn ls_gap(ls: &State, bytes: u32) -> u64;
    safe fn ls_init(ls: &mut State, config: &Config, window: u32, mss: u32, next: u32);
    safe fn ls_on_ack(ls: &mut State, config: &Config, ack: &Ack) -> i32;
    safe fn ls_on_loss(ls: &mut State, config: &Config, in_flight: u32, una: u32, next: u32) -> i32;
    safe fn ls_on_timeout(ls: &mut State, config: &Config, una: u32, next: u32) -> i32;
    safe fn ls_undo(ls: &mut State, config: &Config);
    safe fn ls_set_mss(ls: &mut State, config: &Config, mss: u32);
    /// Returns the exponent K0 for segments of `mss` bytes; K1 is one more (ls-aimd 2.6).
    #[link_name = "ls_growth_exponent"]
    pub safe fn growth_exponent(mss: u32) -> u32;
}

/// Returns the increase per round trip for an ssthresh of `ssthresh` bytes, with k0 = 2^`exponent`; both Q9
/// (ls-aimd 2.7).
pub fn add(ssthresh: u64, exponent: u32) -> u32 {
    ls_add(ssthresh.min(LARGEST_WINDOW << super::Q9), exponent)
}

/// Returns C in units of 2^-16 for an average share of marked segments with 20 fraction bits.
pub fn automatic_scale(algorithm: Algorithm, marks: u32, late_departures: bool) -> u32 {
    ls_automatic_scale(algorithm, marks, late_departures.into())
}

/// One connection.
#[derive(Clone, Debug)]
pub struct LsAimd {
    config: Config,
    state: State,
}

impl LsAimd {
    /// Creates a connection in slow start with `window` segments of `mss` bytes, 1 to 65535, and next
    /// sequence number `next`.
    pub fn new(config: Config, window: u32, mss: u32, next: u32) -> LsAimd {
        let mut state = State::default();
        ls_init(&mut state, &config, window, mss.clamp(1, 65_535), next);
        LsAimd { config, state }
    }

    /// Processes an ACK; returns whether it reduced the window.
    pub fn on_ack(&mut self, ack: &Ack) -> bool {
        ls_on_ack(&mut self.state, &self.config, ack) != 0
    }

    /// Starts a loss episode, where `una` is the first unacknowledged sequence number; returns whether it
    /// reduced the window.
    pub fn on_loss(&mut self, in_flight: u32, una: u32, next: u32) -> bool {
        ls_on_loss(&mut self.state, &self.config, in_flight, una, next) != 0
    }

    /// Handles a retransmission timeout; returns whether it reduced ssthresh, which stays if it was already
    /// reduced for the data in flight.
    pub fn on_timeout(&mut self, una: u32, next: u32) -> bool {
        ls_on_timeout(&mut self.state, &self.config, una, next) != 0
    }

    /// Undoes the last reduction, which was spurious.
    pub fn undo(&mut self) {
        ls_undo(&mut self.state, &self.config);
    }

    /// Sets the payload bytes of a full segment, 1 to 65535.
    pub fn set_mss(&mut self, mss: u32) {
        ls_set_mss(&mut self.state, &self.config, mss.clamp(1, 65_535));
    }

    /// Returns the most segments that may be in flight.
    pub fn cwnd(&self) -> u32 {
        ls_cwnd(&self.state, &self.config)
    }

    /// Returns whether the packet conservation clock times departures.
    pub fn is_clocked(&self) -> bool {
        self.state.submss != 0
    }

    /// Returns the time between departures of segments of `bytes` while the clock is on, in ns; zero before
    /// the first RTT sample.
    pub fn gap(&self, bytes: u32) -> u64 {
        ls_gap(&self.state, bytes)
    }

    /// Returns the window in bytes, Q9.
    pub fn window(&self) -> u64 {
        self.state.window
    }

    /// Returns ssthresh in bytes, Q9; [`UNLIMITED`] before the first reduction.
    pub fn ssthresh(&self) -> u64 {
        self.state.ssthresh
    }

    /// Returns the increase per round trip in bytes, Q9, before scaling by C.
    pub fn add(&self) -> u32 {
        self.state.add
    }

    /// Returns C in units of 2^-16.
    pub fn scale(&self) -> u32 {
        self.state.scale
    }

    /// Returns the estimated fraction of marked segments, 0 to 1.
    pub fn alpha(&self) -> f64 {
        f64::from(self.state.alpha) / f64::from(1_u32 << (super::FRACTION_BITS + ALPHA_SHIFT))
    }

    /// Returns the slower average of marks that an automatic C follows, 0 to 1.
    pub fn marks(&self) -> f64 {
        f64::from(self.state.marks) / f64::from(1_u32 << (super::FRACTION_BITS + MARKS_SHIFT))
    }

    /// Returns the smoothed RTT of the newest segments, in ns; zero before the first sample (`SRTT_pace`).
    pub fn rtt(&self) -> u64 {
        self.state.rtt
    }

    /// Returns the payload bytes of a full segment.
    pub fn mss(&self) -> u32 {
        self.state.mss
    }
}

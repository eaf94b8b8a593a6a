//! The configuration of a sender.

use super::Shape;
use crate::plain::bytes_of;

/// The published settings of the rate adapter (rapid 2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Preset {
    /// tau of 50 ms, kd of 1/4: few losses.
    Default = 0,
    /// tau of 10 ms, kd of 1/3.
    Aggressive = 1,
}

/// Run-time switches.
pub mod flags {
    /// No BASS, only the moving average.
    pub const WINDOW_ONLY: u32 = 1;
    /// Starts at 100 kb/s with whole p-streams, as published (rapid 2.14).
    pub const LITERAL_START: u32 = 2;
    /// The rate filter uses the time of all gamma p-streams, not of one (rapid 2.12).
    pub const TOTAL_LENGTH: u32 = 4;
    /// The rate does not fall when none of the gamma streams saw an excursion (rapid 2.12).
    pub const NO_CENSORED_FALL: u32 = 8;
    /// Losses cut the rate only if packets queued, and a standing queue is drained.
    pub const WATCH_QUEUE: u32 = 16;
    /// The rate becomes what a round of streams showed at once if that is much more.
    pub const REOPEN: u32 = 32;
    /// Spikes are looked for in what the path adds to the gaps.
    pub const RELATIVE: u32 = 64;
    /// The rate falls as slowly as it rises while no packets queue.
    pub const SLOW_FALL: u32 = 128;
    /// Starts at the line rate with whole p-streams.
    pub const LINE_START: u32 = 256;
}

/// The rise and the fall of a receive gap that make it a spike, in ns, up to 2^31.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Thresholds {
    /// A gap that exceeds the previous one by more than this starts an event.
    pub up: u32,
    /// An event is valid once a later gap falls below its largest gap by more than this.
    pub down: u32,
}

/// Settings of the search for excursions (rapid 2.11).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Excursion {
    /// The smallest excess that counts, in ns, up to 2^31.
    pub margin: u32,
    /// The same as a share of the send gap, in units of 2^-20, up to 2^20.
    pub relative: u32,
    /// Consecutive samples in an excursion, 1 to 192.
    pub min_length: u32,
}

/// The configuration of a sender; see [`Config::bounded`] for numbers out of range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// Line rate of the sender, in bit/s: 100 kb/s to [`MAX_RATE`](super::MAX_RATE). No estimate is above it.
    pub line: u64,
    /// Time constant of the increase, in ns: 1 to 2^35.
    pub tau: u64,
    /// The distance of the receiver's interrupts, in ns, up to 1 s; 0 for none.
    pub coalescing: u64,
    /// Bytes of a full packet on the wire, 64 to [`MAX_PACKET`](super::MAX_PACKET).
    pub packet: u32,
    /// The layout of p-streams after start-up.
    pub shape: Shape,
    /// Estimates per update of the rate, 1 to 64.
    pub gamma: u32,
    /// Share of the excess taken away by an update, in units of 2^-16, 1 to 2^16.
    pub kd: u32,
    /// Pass 1, against interrupt coalescing.
    pub coarse: Thresholds,
    /// Pass 2, against bursty cross traffic.
    pub medium: Thresholds,
    /// Passes 3 and later, against smoother cross traffic.
    pub fine: Thresholds,
    /// Window of the moving average, in gaps, 1 to 192.
    pub window: u32,
    /// The search for excursions.
    pub excursion: Excursion,
    /// Unit of stamps, in ns, 1 to 10^6.
    pub unit: u32,
    /// Switches; see [`flags`].
    pub flags: u32,
}

unsafe extern "C" {
    safe fn rapid_configure(preset: Preset, line: u64, packet: u32, narrow: u64) -> Config;
    safe fn rapid_config_bound(config: &mut Config);
}

impl Config {
    /// Returns the published configuration for a sender with a link of `line` bit/s and
    /// packets of `packet` bytes.
    ///
    /// Thresholds in time are scaled with the time of a packet at `narrow` bit/s, the rate of the narrow link
    /// (rapid 2.10).
    pub fn new(preset: Preset, line: u64, packet: u32, narrow: u64) -> Config {
        rapid_configure(preset, line, packet, narrow)
    }

    /// Returns the bytes of `struct rapid_config` on this machine.
    pub fn to_bytes(&self) -> Vec<u8> {
        // SAFETY: three numbers of 64 bits and 18 of 32 leave no gap.
        unsafe { bytes_of(self) }.to_vec()
    }

    /// Returns the configuration with every number moved into its range.
    pub fn bounded(mut self) -> Config {
        rapid_config_bound(&mut self);
        self
    }
}

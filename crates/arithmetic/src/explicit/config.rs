//! The laws of explicit routers and their parameters.

use std::fmt;

use crate::plain::bytes_of;

/// What computes the feedback or the rate of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Law {
    /// XCP, which knows the capacity (xcp-rcp 2.6).
    #[default]
    Xcp = 0,
    /// XCP-b: the change of the queue and a target in place of the capacity (xcp-rcp 2.8).
    Blind = 1,
    /// XCP-b whose target follows the deviation of the queue (xcp-rcp 2.9).
    Kappa = 2,
    /// ErrorS: XCP less the error of the capacity, which is integrated (xcp-rcp 2.10).
    Errors = 3,
    /// RCP, which knows the capacity (xcp-rcp 2.12).
    Rcp = 4,
    /// RCP with the feedback of [`Law::Blind`] (xcp-rcp F56).
    RcpBlind = 5,
    /// RCP with the feedback of [`Law::Kappa`] (xcp-rcp F56).
    RcpKappa = 6,
    /// RCP with the feedback of [`Law::Errors`] (xcp-rcp F56).
    RcpErrors = 7,
    /// WXCP: what an 802.11 MAC has counted in place of the capacity (xcp-rcp 2.11).
    Wxcp = 8,
}

impl Law {
    /// All laws.
    pub const ALL: [Law; 9] = [
        Law::Xcp,
        Law::Blind,
        Law::Kappa,
        Law::Errors,
        Law::Rcp,
        Law::RcpBlind,
        Law::RcpKappa,
        Law::RcpErrors,
        Law::Wxcp,
    ];

    /// Returns whether the law writes rates, so that its packets are those of RCP.
    pub const fn is_rate(self) -> bool {
        matches!(self, Law::Rcp | Law::RcpBlind | Law::RcpKappa | Law::RcpErrors)
    }

    /// Returns whether the law works only with a known capacity.
    pub const fn needs_capacity(self) -> bool {
        matches!(self, Law::Xcp | Law::Rcp)
    }

    /// Returns whether the target of the queue tunes itself.
    pub const fn tunes(self) -> bool {
        matches!(self, Law::Kappa | Law::Errors | Law::RcpKappa | Law::RcpErrors)
    }
}

/// When a self-tuning target takes the link for under-utilised (xcp-rcp 2.9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Detector {
    /// The queue is empty: D1.
    #[default]
    Empty = 0,
    /// It was empty for n intervals: D2.
    EmptyForN = 1,
    /// The average queue is below a share of the target: D3.
    LowAverage = 2,
}

/// Run-time switches.
pub mod flags {
    /// An interval grants no more than its feedback (xcp-rcp 2.7).
    pub const RESIDUES: u32 = 1;
    /// Targets count packets, and so do the queues that they are compared with (xcp-rcp 2.9).
    pub const PACKETS: u32 = 2;
    /// RCP raises beta while the number of flows grows faster than its limit (xcp-rcp 2.13).
    pub const RAISE_BETA: u32 = 4;
    /// RCP grants new flows the smallest rate while it does (xcp-rcp 2.13).
    pub const ADMISSION: u32 = 8;
    /// As published: ErrorS integrates the error also while senders do not use what it found (xcp-rcp 2.10).
    pub const PUBLISHED_INTEGRATOR: u32 = 16;
    /// As published: what found no room does not count as a change of the queue (xcp-rcp 2.8, 2.9).
    pub const PUBLISHED_DROPS: u32 = 32;
    /// As published: RCP may fall to its smallest rate (xcp-rcp 2.12).
    pub const PUBLISHED_FALL: u32 = 64;
    /// As published: RCP's intervals are those of windows also where flows have less than a packet
    /// per RTT (xcp-rcp 2.12).
    pub const PUBLISHED_INTERVALS: u32 = 128;
    /// As published: RCP begins with C also after a law of XCP (xcp-rcp 2.12).
    pub const PUBLISHED_START: u32 = 256;
    /// As specified: RCP without a capacity moves R once in d, takes y / R for the number of flows, and
    /// ignores the growth of d (xcp-rcp F56).
    pub const PUBLISHED_STEPS: u32 = 512;
}

/// The parameters of a queue; [`Config::check`] tells their ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// Believed capacity C in B/s, up to [`LARGEST`](super::LARGEST); 0 for unknown, except with XCP and RCP.
    pub capacity: u64,
    /// Rate of the interface in B/s: bounds R without a capacity, and the error that ErrorS finds.
    pub line: u64,
    /// Smallest R in B/s, far below C / N for N flows (xcp-rcp 2.12). An overload may take R there, and a
    /// sender that is paced then waits for size / rate_min.
    pub rate_min: u64,
    /// Target of the queue, kappa, or the smallest one where it tunes itself; in bytes, or packets with
    /// [`flags::PACKETS`].
    pub kappa: u64,
    /// Qmax, the same units; at least kappa where that tunes itself.
    pub queue_max: u64,
    /// RTT without queues in ns, d0 of surge measures: 1 us to 1 s (xcp-rcp 2.13).
    pub base_rtt: u64,
    /// RCP's tau in ns, 1 us to 1 s: T = min(tau, d); 0 for T = d (xcp-rcp 2.12).
    pub update_limit: u64,
    /// Shortest control interval in ns, 1 us to 1 s.
    pub interval_min: u64,
    /// The law.
    pub law: Law,
    /// Switches; see [`flags`].
    pub flags: u32,
    /// Gain of the spare capacity in units of 2^-16, 1 to 2^16, as all gains.
    pub alpha: u32,
    /// Gain of the queue.
    pub beta: u32,
    /// Share of the input that is shuffled, 0 to 2^16.
    pub gamma: u32,
    /// ErrorS's gain of the error, 0 to 2^16.
    pub psi: u32,
    /// XCP-b's gain of an empty queue, at most [`chi`]; 0 for that.
    pub chi: u32,
    /// Weight of the newest queue where the target tunes itself.
    pub rho: u32,
    /// Share of the target below which [`Detector::LowAverage`] sees too short a queue, 0 to 2^16.
    pub tau: u32,
    /// Empty intervals before a link counts as under-utilised, 0 to 64: tau of XCP-b is 0.75^n.
    pub n: u32,
    /// How under-utilisation is detected where the target tunes itself.
    pub detector: Detector,
    /// Bytes that the link adds to each packet, up to 65535; 0 if sizes include them.
    pub overhead: u32,
}

unsafe extern "C" {
    safe fn explicit_configure(law: Law, capacity: u64, line: u64) -> Config;
    safe fn explicit_check(config: &Config) -> u32;
    safe fn explicit_chi(alpha: u32, beta: u32) -> u32;
}

impl Config {
    /// Returns the published parameters of a law for a capacity and an interface in B/s;
    /// sizes include overhead.
    ///
    /// Targets of the queue are those for 1.5 Mb/s and an RTT of 100 ms: kappa is 6000 B, which is 32 % of
    /// the bandwidth-delay product there (xcp-rcp 1.7).
    pub fn new(law: Law, capacity: u64, line: u64) -> Config {
        explicit_configure(law, capacity, line)
    }

    /// Returns the bytes of `struct explicit_config` on this machine, for a kernel that reads them.
    pub fn to_bytes(&self) -> Vec<u8> {
        // SAFETY: eight numbers of 64 bits and twelve of 32 leave no gap.
        unsafe { bytes_of(self) }.to_vec()
    }

    /// Checks that every parameter is in its range.
    ///
    /// # Errors
    ///
    /// Returns the first that is not.
    pub fn check(&self) -> Result<(), Fault> {
        match explicit_check(self) {
            0 => Ok(()),
            number => Err(FAULTS.get(number as usize - 1).map_or(Fault::Law, |(fault, ..)| *fault)),
        }
    }
}

/// Returns the bound of chi, 1 / (5 - alpha - beta); gains and result in units of 2^-16 (xcp-rcp 2.8).
pub fn chi(alpha: u32, beta: u32) -> u32 {
    explicit_chi(alpha.min(super::ONE), beta.min(super::ONE))
}

/// A parameter out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Fault {
    /// There is no such law.
    Law = 1,
    /// An unknown switch, or surge measures without RCP.
    Flags,
    /// The capacity.
    Capacity,
    /// The rate of the interface.
    Line,
    /// The smallest rate.
    RateMin,
    /// The target of the queue.
    Kappa,
    /// The largest queue.
    QueueMax,
    /// The RTT without queues.
    BaseRtt,
    /// The limit of RCP's interval.
    UpdateLimit,
    /// The shortest control interval.
    IntervalMin,
    /// The gain of the spare capacity.
    Alpha,
    /// The gain of the queue.
    Beta,
    /// The share that is shuffled.
    Gamma,
    /// The gain of the error.
    Psi,
    /// The gain of an empty queue.
    Chi,
    /// The weight of the newest queue.
    Rho,
    /// The share of the target.
    Tau,
    /// The number of empty intervals.
    N,
    /// The detector.
    Detector,
    /// The overhead.
    Overhead,
}

/// Faults in the order of their numbers, with the names of the parameters and their ranges.
const FAULTS: [(Fault, &str, &str); 20] = [
    (Fault::Law, "law", "is unknown"),
    (Fault::Flags, "flags", "has an unknown switch, or surge measures without RCP"),
    (Fault::Capacity, "capacity", "must be 1 B/s to 2^40 B/s; only laws other than XCP and RCP take 0"),
    (Fault::Line, "line", "must be 1 B/s to 2^40 B/s"),
    (
        Fault::RateMin,
        "rate_min",
        "must be 1 B/s to the capacity, or to the rate of the interface without one",
    ),
    (Fault::Kappa, "kappa", "must be at most 2^40, and at most queue_max where it tunes itself"),
    (Fault::QueueMax, "queue_max", "must be 1 to 2^40"),
    (Fault::BaseRtt, "base_rtt", "must be 1 us to 1 s"),
    (Fault::UpdateLimit, "update_limit", "must be 0 or 1 us to 1 s"),
    (Fault::IntervalMin, "interval_min", "must be 1 us to 1 s"),
    (Fault::Alpha, "alpha", "must be above 0 and at most 1"),
    (Fault::Beta, "beta", "must be above 0 and at most 1, or 0.6 if it is raised in surges"),
    (Fault::Gamma, "gamma", "must be 0 to 1"),
    (Fault::Psi, "psi", "must be 0 to 1"),
    (Fault::Chi, "chi", "must be at most 1 / (5 - alpha - beta)"),
    (Fault::Rho, "rho", "must be above 0 and at most 1"),
    (Fault::Tau, "tau", "must be 0 to 1"),
    (Fault::N, "n", "must be 0 to 64"),
    (Fault::Detector, "detector", "is unknown"),
    (Fault::Overhead, "overhead", "must be 0 to 65535 B"),
];

impl Fault {
    /// Returns the name of the parameter, as in `struct explicit_config`.
    pub const fn key(self) -> &'static str {
        FAULTS[self as usize - 1].1
    }

    /// Returns the range of the parameter, as the end of a sentence.
    pub const fn range(self) -> &'static str {
        FAULTS[self as usize - 1].2
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.key(), self.range())
    }
}

impl std::error::Error for Fault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_fields_at_their_offsets() {
        let config = Config { overhead: 7, ..Config::new(Law::RcpKappa, 1 << 40, 3) };
        let bytes = config.to_bytes();
        let long = |at: usize| u64::from_ne_bytes(*bytes[at..].first_chunk().expect("eight bytes"));
        let short = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().expect("four bytes"));
        assert_eq!(long(std::mem::offset_of!(Config, capacity)), 1 << 40);
        assert_eq!(long(std::mem::offset_of!(Config, interval_min)), config.interval_min);
        assert_eq!(short(std::mem::offset_of!(Config, law)), Law::RcpKappa as u32);
        assert_eq!(short(std::mem::offset_of!(Config, detector)), Detector::LowAverage as u32);
        assert_eq!(short(std::mem::offset_of!(Config, overhead)), 7);
    }
}

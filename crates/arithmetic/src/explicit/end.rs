//! The ends of a connection: what a sender writes into the header, and what becomes of its window
//! (`c/explicit_end.h`).

unsafe extern "C" {
    safe fn explicit_share(rate: u64, desired: u64, srtt: u64, segment: u32) -> i64;
    safe fn explicit_request(request: &mut Request, part: i64) -> i64;
    safe fn explicit_window_set(window: &mut Window, bytes: u64);
    safe fn explicit_window_change(window: &mut Window, feedback: i64, srtt: u64) -> u32;
    safe fn explicit_window_rate(window: &mut Window, rate: u32, srtt: u64);
    safe fn explicit_window_restart(window: &mut Window, version: u32) -> u32;
    safe fn explicit_window_whole(window: &mut Window, version: u32, sent: u32) -> u64;
    safe fn explicit_pacing_rate(version: u32, told: u32, window: &Window, rtt: &Rtt) -> u64;
    safe fn explicit_rtt_sample(rtt: &mut Rtt, sample: u64);
    safe fn explicit_has_waited(gap: u64, sample: u64, least: u64) -> u32;
    /// Converts a time that is known, in ns, for the header: s with 28 fraction bits, at
    /// least 1 and at most 16 s.
    #[link_name = "explicit_header_time"]
    pub safe fn header_time(ns: u64) -> u32;
    /// Returns the throughput of a window of `bytes` per `srtt` in ns, which is not 0; in b/s, rounded down.
    #[link_name = "explicit_throughput"]
    pub safe fn throughput(bytes: u64, srtt: u64) -> u64;
    /// Returns the time between packets of `bytes` at `rate` in b/s, in ns; 0 at rate 0.
    #[link_name = "explicit_spacing"]
    pub safe fn spacing(bytes: u64, rate: u64) -> u64;
}

/// Fraction bits of a window in bytes (xcp-rcp 2.15).
pub const WINDOW_BITS: u32 = 8;
/// Window of a sender of RCP that its rate paces, as a multiple of rate x RTT. Without it a sender whose
/// packets are all lost would go on for good: each new one puts off the timer that would stop it.
pub const PACED_WINDOW: u64 = 4;
/// Largest window in bytes: the most that TCP can advertise (RFC 7323).
pub const LARGEST_WINDOW: u64 = 65_535 << 14;

/// The share of a packet in a change of throughput, in units smaller than B/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share(i64);

impl Share {
    /// Returns the share in the change from `rate` to `desired`, both in b/s, of which all segments of one
    /// `srtt` ask for the whole; `srtt` is in ns and above 0, `segment` in bytes.
    pub fn new(rate: u64, desired: u64, srtt: u64, segment: u32) -> Share {
        Share(explicit_share(rate, desired, srtt, segment))
    }
}

/// The change of throughput that a sender of XCP asks for, packet by packet (xcp-rcp 2.1): what rounding
/// takes from one is asked for with the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Request {
    remainder: i64,
}

impl Request {
    /// Returns what the next packet, whose share is `part`, asks for in B/s.
    pub fn next(&mut self, part: Share) -> i32 {
        explicit_request(self, part.0) as i32
    }
}

/// The window of a sender in bytes with a fraction: one segment at least, [`LARGEST_WINDOW`] at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Window {
    bytes: u64,
    rest: u64,
    segment: u64,
    carry: u64,
}

impl Window {
    /// Creates a window of `bytes`, with [`WINDOW_BITS`], for segments of `segment` bytes.
    pub fn new(bytes: u64, segment: u64) -> Window {
        let mut window = Window { bytes: 0, rest: 0, segment, carry: 0 };
        window.set(bytes);
        window
    }

    /// Sets the window in bytes, with [`WINDOW_BITS`], within its limits.
    pub fn set(&mut self, bytes: u64) {
        explicit_window_set(self, bytes);
    }

    /// Returns the window in bytes, with [`WINDOW_BITS`].
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Applies XCP's feedback in B/s: the window changes by feedback x `srtt`, in ns; it
    /// stays at 0 (xcp-rcp 2.2).
    pub fn on_change(&mut self, feedback: i32, srtt: u64) {
        explicit_window_change(self, feedback.into(), srtt);
    }

    /// Applies RCP's feedback in B/s: the window becomes rate x `srtt`, in ns. It stays if either is 0, and
    /// is as large as can be at [`ANY_RATE`](super::ANY_RATE) (xcp-rcp 2.12, 2.16).
    pub fn on_rate(&mut self, rate: u32, srtt: u64) {
        explicit_window_rate(self, rate, srtt);
    }

    /// Reduces the window after an idle period: to one segment with RCP, to ten at most with XCP.
    /// Returns whether it changed.
    pub fn restart(&mut self, version: u8) -> bool {
        explicit_window_restart(self, version.into()) != 0
    }

    /// Returns the window in whole segments, for the next ACK, of a sender that has sent `sent` segments.
    pub fn whole(&mut self, version: u8, sent: u32) -> u64 {
        explicit_window_whole(self, version.into(), sent)
    }

    /// Returns the pacing rate in b/s of a sender with whole segments, 0 while it is not known; `told`
    /// is RCP's rate in B/s.
    pub fn pacing_rate(&self, version: u8, told: u32, rtt: &Rtt) -> u64 {
        explicit_pacing_rate(version.into(), told, self, rtt)
    }
}

/// The RTT of a sender in ns: smoothed, and the latest sample; 0 before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Rtt {
    smoothed: u64,
    latest: u64,
}

impl Rtt {
    /// Smooths the RTT with a sample, which is not 0 (RFC 6298).
    pub fn sample(&mut self, ns: u64) {
        explicit_rtt_sample(self, ns);
    }

    /// Returns the smoothed RTT in ns.
    pub const fn smoothed(&self) -> u64 {
        self.smoothed
    }
}

/// Returns whether a segment that was acknowledged alone may have waited for another that its sender had not
/// sent yet: with `gap` between them, after an RTT of `sample` where `least` was the shortest, in ns.
pub fn has_waited(gap: u64, sample: u64, least: u64) -> bool {
    explicit_has_waited(gap, sample, least) != 0
}

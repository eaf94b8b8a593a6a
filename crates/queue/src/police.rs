//! Checks of senders by a router that tells them their rate: a table of fixed size that follows one flow in
//! each slot for a while.
//!
//! Two things can be checked without trust. In a control interval of length T, the times X that a flow says
//! lie between its packets sum to T, or it says that they are longer than they are. And it sends no faster
//! than it may: R with RCP, and with XCP what it sent when the check began plus what it was granted
//! since. An RTT cannot be checked in one direction.

use headway_arithmetic::explicit::{FRACTION_BITS, Record};

/// Control intervals for which a flow is followed, and again after each in which it did something wrong, if
/// others wait for its slot.
const INTERVALS: u64 = 16;
/// Intervals in which a former rate may still be in use: the RTT of a flow may be
/// some times the average.
const RECENT: usize = 4;
/// Excess over T and over the rate that bursts and changes of the window explain: a quarter.
const TOLERANCE: u64 = 4;
/// Share of what a flow may send and does not that lapses in an interval.
const LAPSE: i64 = 8;
/// Bytes that every flow may send at once: two full packets.
const BURST: u64 = 3_000;
/// The most RTT that counts for a burst, and a second, in header time.
const SECOND: u64 = 1 << 28;
const NS: u64 = 1_000_000_000;

/// A slot and the flow that it follows. Rates are in B/s.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    flow: Option<u32>,
    /// The interval in which it was taken, or in which its flow last did something wrong.
    since: u64,
    /// The interval that is counted, and what has arrived in it: bytes and the sum of X, in header time.
    interval: u64,
    bytes: u64,
    spacing: u64,
    /// What X is divided by in this interval: by how much it was too long in the last one, in parts
    /// of 2^16; zero is one.
    excess: u64,
    /// What the flow may send, once an interval was counted as a whole; with XCP.
    allowed: Option<i64>,
    /// What it was granted in this interval, and what was taken from it in this and in the last.
    granted: i64,
    taken: [i64; 2],
    /// Bytes that may be sent now, and when they were counted, in ns.
    tokens: u64,
    filled: u64,
}

/// The table.
#[derive(Clone, Debug)]
pub(super) struct Police {
    slots: Vec<Slot>,
    /// Number of the control interval, and the length of the last one in ns.
    interval: u64,
    length: u64,
    is_rate: bool,
    /// The latest rates of RCP, in B/s.
    rates: [u64; RECENT],
}

impl Police {
    /// Creates a table of this many slots, at least one.
    pub(super) fn new(slots: u32, is_rate: bool) -> Police {
        let slots = vec![Slot::default(); slots.max(1) as usize];
        Police { slots, interval: 1, length: 0, is_rate, rates: [u64::MAX >> 32; RECENT] }
    }

    /// Whether it is what [`Police::new`] creates for this many slots.
    pub(super) fn is_like(&self, slots: Option<u32>, is_rate: bool) -> bool {
        slots == u32::try_from(self.slots.len()).ok() && is_rate == self.is_rate
    }

    /// A control interval has ended.
    pub(super) fn end_interval(&mut self, record: &Record) {
        self.interval += 1;
        self.length = record.interval;
        self.rates[self.interval as usize % RECENT] = record.rate >> FRACTION_BITS;
    }

    /// Judges a packet of a flow that says this RTT and X; returns X as it counts, and whether
    /// the packet may pass.
    pub(super) fn on_arrival(
        &mut self,
        flow: u32,
        now: u64,
        bytes: u32,
        (rtt, x): (u32, u32),
    ) -> (u32, bool) {
        let (interval, length, is_rate) = (self.interval, self.length, self.is_rate);
        let recent = self.rates.into_iter().max().unwrap_or(0);
        let Some(slot) = self.slot(flow) else { return (x, true) };
        if slot.interval != interval {
            slot.roll(interval, length);
        }
        slot.bytes += u64::from(bytes);
        slot.spacing += u64::from(x);
        let counted = slot.count(x);
        let rate = if is_rate { Some(recent) } else { slot.allowed.map(i64::unsigned_abs) };
        let passes = rate.is_none_or(|rate| slot.admits(rate, now, bytes, rtt));
        if !passes {
            // What was dropped was not sent faster than allowed.
            slot.bytes -= u64::from(bytes);
            slot.since = interval;
        }
        (counted, passes)
    }

    /// A packet of a flow with this X leaves; returns X as it counts.
    pub(super) fn spacing(&mut self, flow: u32, x: u32) -> u32 {
        self.slot(flow).map_or(x, |slot| slot.count(x))
    }

    /// A packet of a flow left with this change of throughput.
    pub(super) fn on_grant(&mut self, flow: u32, change: i32) {
        if let Some(slot) = self.slot(flow) {
            let sum = if change > 0 { &mut slot.granted } else { &mut slot.taken[0] };
            *sum += i64::from(change);
        }
    }

    /// Returns the slot of a flow, which it takes if nothing else is followed there.
    fn slot(&mut self, flow: u32) -> Option<&mut Slot> {
        // Multiplicative hashing (Knuth 1973, 6.4).
        let hash = flow.wrapping_add(1).wrapping_mul(0x9e37_79b1);
        let index = (u64::from(hash) * self.slots.len() as u64) >> 32;
        let interval = self.interval;
        let slot = &mut self.slots[index as usize];
        if slot.flow != Some(flow) {
            if slot.flow.is_some() && interval < slot.since + INTERVALS {
                return None;
            }
            *slot = Slot { flow: Some(flow), since: interval, interval, ..Slot::default() };
        }
        Some(slot)
    }
}

impl Slot {
    /// Returns X as it counts.
    fn count(&self, x: u32) -> u32 {
        (u64::from(x) << 16).checked_div(self.excess).map_or(x, |counted| counted as u32)
    }

    /// Begins an interval after one of `length` ns, or after several, of which only the last is known.
    fn roll(&mut self, interval: u64, length: u64) {
        let follows = interval == self.interval + 1;
        // The interval in which the slot was taken has lost its beginning.
        let whole = follows && self.interval > self.since;
        let length_in_header = u128::from(length) * u128::from(SECOND) / u128::from(NS);
        let (length_in_header, spacing) = (length_in_header.max(1) as u64, self.spacing);
        self.excess = 0;
        if whole && spacing > length_in_header + length_in_header / TOLERANCE {
            self.excess = (spacing << 16) / length_in_header;
            self.since = interval - 1;
        }
        if follows && length > 0 {
            let sent = (u128::from(self.bytes) * u128::from(NS) / u128::from(length)) as i64;
            let lapsed = |allowed: i64| allowed - (allowed - sent).max(0) / LAPSE;
            // Decreases are due an RTT later than increases.
            let change = self.granted + self.taken[1];
            let seen = if whole { Some(sent) } else { None };
            self.allowed = self.allowed.map(lapsed).or(seen).map(|rate| (rate + change).max(0));
        } else {
            self.allowed = None;
        }
        (self.granted, self.taken) = (0, [0, self.taken[0]]);
        (self.interval, self.bytes, self.spacing) = (interval, 0, 0);
    }

    /// Whether a packet fits into what may be sent at `rate`, with bursts of two RTTs: windows
    /// that change leave so.
    fn admits(&mut self, rate: u64, now: u64, bytes: u32, rtt: u32) -> bool {
        let rate = u128::from(rate + rate / TOLERANCE);
        let depth = (2 * rate * u128::from(u64::from(rtt).min(SECOND)) / u128::from(SECOND)) as u64 + BURST;
        let earned = (rate * u128::from(now.saturating_sub(self.filled)) / u128::from(NS)) as u64;
        self.tokens = if self.filled == 0 { depth } else { self.tokens.saturating_add(earned).min(depth) };
        self.filled = now.max(1);
        let fits = self.tokens >= u64::from(bytes);
        if fits {
            self.tokens -= u64::from(bytes);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: u64 = 100_000_000;
    const RTT: u32 = (SECOND / 10) as u32;

    /// Lets a flow send `count` packets of 1000 B in an interval of 100 ms; returns how many
    /// pass, and the last X.
    fn interval(police: &mut Police, number: u64, count: u32, x: u32, change: i32) -> (u32, u32) {
        let (mut passed, mut counted) = (0, 0);
        for packet in 0..u64::from(count) {
            let now = TENTH * number + TENTH * packet / u64::from(count);
            let (x, passes) = police.on_arrival(7, now, 1_000, (RTT, x));
            counted = x;
            if passes {
                passed += 1;
                police.on_grant(7, change / count as i32);
            }
        }
        let record = Record { interval: TENTH, rate: 100_000 << FRACTION_BITS, ..Record::default() };
        police.end_interval(&record);
        (passed, counted)
    }

    #[test]
    fn times_between_packets_count_as_long_as_they_can_be() {
        for (factor, expected) in [(1, 1.0), (10, 0.1)] {
            let mut police = Police::new(1, false);
            let x = RTT / 10 * factor;
            let counted: Vec<u32> = (1..6).map(|number| interval(&mut police, number, 10, x, 0).1).collect();
            assert!((f64::from(counted[4]) / f64::from(x) / expected - 1.0).abs() < 0.01, "{counted:?}");
        }
    }

    #[test]
    fn a_flow_of_rcp_gets_little_more_than_its_rate() {
        let passed = |count| -> u32 {
            let mut police = Police::new(1, true);
            (1..60).map(|number| interval(&mut police, number, count, RTT / 10, 0).0).skip(40).sum()
        };
        assert_eq!(passed(10), 190, "10 packets of 1000 B in 100 ms are 100 kB/s");
        assert!((230..240).contains(&passed(30)), "{}", passed(30));
    }

    #[test]
    fn a_flow_of_xcp_sends_what_it_was_granted_and_no_more() {
        let passed = |count, change| -> u32 {
            let mut police = Police::new(1, false);
            (1..40).map(|number| interval(&mut police, number, count, RTT / 20, change).0).skip(30).sum()
        };
        assert_eq!(passed(20, 0), 180, "it stays where it is");
        // It does not become slower by 5 % of its rate in every interval, as routers demanded.
        assert!(passed(20, -10_000) < 60, "{}", passed(20, -10_000));
    }

    #[test]
    fn a_slot_follows_one_flow_after_the_other() {
        let mut police = Police::new(1, true);
        assert!(police.slot(1).is_some() && police.slot(2).is_none());
        for _ in 0..INTERVALS {
            police.end_interval(&Record { interval: TENTH, ..Record::default() });
        }
        assert!(police.slot(2).is_some() && police.slot(1).is_none());
    }
}

//! A queue with a clock, headers in SI units, and random numbers.

use headway_arithmetic::explicit::{
    Config, Event, ExplicitQueue, Format, Header, Law, ONE, Record, TIME_BITS, VERSION_RCP, VERSION_XCP,
    Verdict,
};

/// 1.5 Mb/s in B/s.
pub(crate) const CAPACITY: u64 = 187_500;
/// 100 Mb/s in B/s.
pub(crate) const LINE: u64 = 12_500_000;
pub(crate) const MOST: u32 = 0x7fff_ffff;

/// Returns a time for the header.
pub(crate) fn units(seconds: f64) -> u32 {
    (seconds * f64::from(1_u32 << TIME_BITS)).round() as u32
}

/// Returns a number with 16 fraction bits.
pub(crate) fn real(fixed: u64) -> f64 {
    fixed as f64 / f64::from(ONE)
}

/// The same for a signed one.
pub(crate) fn signed(fixed: i64) -> f64 {
    fixed as f64 / f64::from(ONE)
}

/// Returns a header of XCP that asks for `delta`, with RTT and X in s.
pub(crate) fn xcp(rtt: f64, x: f64, delta: u32) -> Header {
    let header = Header::new(VERSION_XCP, Format::Standard);
    Header { rtt: units(rtt), x: units(x), feedback: delta, ..header }
}

/// Returns a header of RCP that asks for any rate, with RTT and X in s.
pub(crate) fn rcp(rtt: f64, x: f64) -> Header {
    Header { version: VERSION_RCP, feedback: u32::MAX, ..xcp(rtt, x, 0) }
}

/// A queue whose backlog the test says.
pub(crate) struct Router {
    pub(crate) queue: ExplicitQueue,
    pub(crate) backlog: (u64, u32),
}

impl Router {
    pub(crate) fn new(config: &Config) -> Router {
        let queue = ExplicitQueue::new(config, 1_000_000_000, 0).expect("the parameters are in range");
        Router { queue, backlog: (0, 0) }
    }

    pub(crate) fn published(law: Law) -> Router {
        Router::new(&Config::new(law, CAPACITY, LINE))
    }

    /// Counts `count` packets of `bytes` with a header.
    pub(crate) fn arrive(&mut self, header: &Header, bytes: u32, count: u32) {
        for _ in 0..count {
            assert_eq!(self.queue.arrive(Some(header), bytes), Verdict::Accepted);
        }
    }

    /// Lets a packet of `bytes` leave; returns its feedback.
    pub(crate) fn depart(&mut self, mut header: Header, bytes: u32) -> u32 {
        self.queue.depart(Some(&mut header), bytes, self.backlog.0, self.backlog.1);
        header.feedback
    }

    /// Ends the control interval; returns its record.
    pub(crate) fn control(&mut self) -> Record {
        loop {
            let due = self.queue.due();
            if self.queue.run_timer(self.backlog.0, self.backlog.1, due) == Some(Event::Controlled) {
                return *self.queue.record();
            }
        }
    }

    /// Runs an interval with an RTT of 100 ms and a standing queue, so that the next one is as
    /// long and sees the queue.
    pub(crate) fn settle(&mut self, bytes: u64, packets: u32) {
        self.backlog = (bytes, packets);
        let version = if self.queue.config().law.is_rate() { VERSION_RCP } else { VERSION_XCP };
        for _ in 0..2 {
            self.queue.arrive(Some(&Header { version, ..xcp(0.1, 0.01, 0) }), 1);
            self.control();
        }
    }

    /// Ends an interval in which `bytes` arrived from four senders of RCP with an RTT of 100
    /// ms, or from one of XCP.
    pub(crate) fn interval(&mut self, bytes: u32) -> Record {
        let (header, flows) =
            if self.queue.config().law.is_rate() { (rcp(0.1, 0.1), 4) } else { (xcp(0.1, 0.01, 0), 1) };
        let packets = bytes.min(flows);
        for packet in 0..packets {
            self.arrive(&header, bytes / packets + u32::from(packet < bytes % packets), 1);
        }
        self.control()
    }
}

/// Random numbers (Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a number whose logarithm is uniform.
    pub(crate) fn logarithmic(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }
}

/// Asserts that two numbers differ by no more than a share of the second.
pub(crate) fn assert_close(found: f64, expected: f64, share: f64) {
    assert!((found - expected).abs() <= share * expected.abs() + 1e-4, "{found} is not {expected}");
}

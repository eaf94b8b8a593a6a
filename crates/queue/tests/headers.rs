//! Random and mutated congestion headers, through the codec and the laws of routers: nothing panics,
//! everything is counted, and what a router rejects leaves its sums alone.
//!
//! Ten million headers, or as many as `HEADWAY_CASES` says.

use std::collections::VecDeque;

use headway_arithmetic::explicit::{Config, Event, ExplicitQueue, Law, Verdict};
use headway_queue::explicit::{
    Format, HEADER_BYTES, Header, HeaderError, Record, VERSION_RCP, VERSION_XCP, decode, encode,
};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

const CASES: u64 = 10_000_000;
/// Values at which sums and products are largest or change their sign.
const EXTREMES: [u32; 7] = [0, 1, 1 << 28, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];
/// B/s: 10 Mb/s.
const CAPACITY: u64 = 1_250_000;

fn cases() -> u64 {
    std::env::var("HEADWAY_CASES").map_or(CASES, |text| text.parse().expect("a number of cases"))
}

/// Returns the bytes of a header: any, right ones with extreme values, or those with some
/// bytes changed or cut off.
fn bytes(random: &mut Pcg64Mcg) -> Vec<u8> {
    let kind = random.random_range(0..4);
    if kind == 0 {
        let any: [u8; 24] = random.random();
        return any[..random.random_range(0..=any.len())].to_vec();
    }
    let mut field = || match random.random_range(0..EXTREMES.len() * 2) {
        index if index < EXTREMES.len() => EXTREMES[index],
        _ => random.random::<u32>() >> random.random_range(0..32),
    };
    let fields: [u32; 4] = std::array::from_fn(|_| field());
    let [version, format] = [random.random::<bool>(), random.random_ratio(4, 5)];
    let header = Header {
        rtt: fields[0],
        x: fields[1],
        feedback: fields[2],
        reverse: fields[3],
        ..Header::new(
            if version { VERSION_XCP } else { VERSION_RCP },
            if format { Format::Standard } else { Format::Minimal },
        )
    };
    let mut bytes = encode(&header).to_vec();
    if kind == 1 {
        for _ in 0..random.random_range(1..4) {
            bytes[random.random_range(0..HEADER_BYTES)] ^= 1 << random.random_range(0..8);
        }
        if random.random_ratio(1, 8) {
            bytes.truncate(random.random_range(0..HEADER_BYTES));
        }
    }
    bytes
}

/// What became of the headers.
#[derive(Clone, Copy, Debug, Default)]
struct Fates {
    truncated: u64,
    length: u64,
    version: u64,
    format: u64,
    rejected: u64,
    accepted: u64,
}

/// A router, and one that sees rejected packets without their headers; both must stay alike.
struct Pair {
    routers: [ExplicitQueue; 2],
    waiting: VecDeque<(Header, u32)>,
    bytes: u64,
    now: u64,
    /// Packets and bytes that arrived in the control interval.
    arrived: (u64, u64),
}

impl Pair {
    fn new(law: Law) -> Pair {
        let config = Config::new(law, CAPACITY, CAPACITY);
        let router = ExplicitQueue::new(&config, 0, 1).expect("published parameters");
        Pair {
            routers: [router.clone(), router],
            waiting: VecDeque::new(),
            bytes: 0,
            now: 0,
            arrived: (0, 0),
        }
    }

    /// Runs all timers that fell due.
    fn advance(&mut self, time: u64) {
        self.now += time;
        let backlog = (self.bytes, self.waiting.len() as u32);
        for calls in 0.. {
            assert!(calls < 10_000, "timers come to an end");
            let events =
                self.routers.each_mut().map(|router| router.run_timer(backlog.0, backlog.1, self.now));
            assert_eq!(events[0], events[1]);
            match events[0] {
                None => return,
                Some(Event::Measured | Event::Continued) => {}
                Some(Event::Controlled) => self.compare(),
            }
        }
    }

    fn compare(&mut self) {
        let [record, other] = self.routers.each_ref().map(|router| *router.record());
        assert_eq!(Record { rejected: 0, ..record }, other);
        assert_eq!((record.input_packets, record.input_bytes), std::mem::take(&mut self.arrived));
    }

    fn arrive(&mut self, header: &Header, size: u32, fates: &mut Fates) {
        self.arrived = (self.arrived.0 + 1, self.arrived.1 + u64::from(size));
        let [router, other] = &mut self.routers;
        if router.arrive(Some(header), size) != Verdict::Accepted {
            fates.rejected += 1;
            assert_eq!(other.arrive(None, size), Verdict::Accepted);
            return;
        }
        fates.accepted += 1;
        assert_eq!(other.arrive(Some(header), size), Verdict::Accepted);
        self.waiting.push_back((*header, size));
        self.bytes += u64::from(size);
    }

    fn depart(&mut self) {
        let Some((before, size)) = self.waiting.pop_front() else { return };
        self.bytes -= u64::from(size);
        let backlog = (self.bytes, self.waiting.len() as u32);
        let after = self.routers.each_mut().map(|router| {
            let mut header = before;
            router.depart(Some(&mut header), size, backlog.0, backlog.1);
            header
        });
        assert_eq!(after[0], after[1]);
        let after = after[0];
        assert_eq!(Header { feedback: before.feedback, ..after }, before, "only feedback is rewritten");
        let minimal = before.format == Format::Minimal as u8;
        let right = match before.version {
            _ if minimal => after.feedback == before.feedback,
            VERSION_XCP if before.rtt == 0 => after.delta() == 0,
            VERSION_XCP => after.delta() <= before.delta(),
            _ => after.rate() <= before.rate(),
        };
        assert!(right, "{before:?} {after:?}");
    }
}

#[test]
fn any_header_is_counted_and_what_is_rejected_leaves_the_sums_alone() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut fates = Fates::default();
    let laws = Law::ALL;
    let each = cases().div_ceil(laws.len() as u64);
    for law in laws {
        let mut pair = Pair::new(law);
        for _ in 0..each {
            // Mostly as fast as the link, at times a silence of 100 s.
            let silence = random.random_ratio(1, 50_000);
            pair.advance(if silence { 100_000_000_000 } else { random.random_range(0..2_400_000) });
            match decode(&bytes(&mut random)) {
                Err(HeaderError::Truncated(_)) => fates.truncated += 1,
                Err(HeaderError::Length(_)) => fates.length += 1,
                Err(HeaderError::Version(_)) => fates.version += 1,
                Err(HeaderError::Format(_)) => fates.format += 1,
                Ok(header) => pair.arrive(&header, random.random_range(40..9_000), &mut fates),
            }
            if random.random_ratio(3, 5) {
                pair.depart();
            }
            if pair.waiting.len() > 100 {
                (0..50).for_each(|_| pair.depart());
            }
        }
        assert!(pair.routers[0].rejected() > 0 && pair.routers[1].rejected() == 0);
    }
    let Fates { truncated, length, version, format, rejected, accepted } = fates;
    assert_eq!(truncated + length + version + format + rejected + accepted, each * laws.len() as u64);
    let each_kind = [truncated, length, version, format, rejected, accepted];
    assert!(each_kind.into_iter().all(|count| count > cases() / 1_000), "{fates:?}");
}

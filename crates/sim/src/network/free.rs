//! What traffic that a middlebox does not hold leaves free on the path, and a limit that
//! follows it (wan 2.2, 2.10).

use headway_edge::Middlebox;
use headway_edge::evaluate::{Estimate, Quantity};
use headway_estimate::sabes::{Passed, Path, Settings, Windows};
use headway_units::{Bytes, Duration, Instant, Rate, Side};

use crate::packet::Packet;

/// Length of a window of ACKs, which says what was free; that of most studies.
const WINDOW: Duration = Duration::from_ms(200);
/// How much of the way to what a window says the limit goes, 0 to 1: 2 s for most of it, so that bursts
/// average out, and the queue has answered the last step before many more.
const STEP: f64 = 0.1;
/// The least limit as a part of the link's rate. Beside flows that take whatever is left, nothing
/// would remain otherwise.
const LEAST: f64 = 0.1;
/// After this many windows without ACKs, what was known is forgotten: 0.5 % of it is left.
const FORGOTTEN: i64 = 50;

/// Who says what is free.
const SOURCE: &str = "SABES";

/// What the connections towards one side of a middlebox may have together.
///
/// While the queue of the tight link is never empty, SABES sees what others leave. That the queue is empty in
/// the rest of a window says that more is free, but not how much: the whole link counts as free then. The
/// limit goes a step towards the mean of both. So it rises where no queue forms, without which SABES would
/// see nothing any more, and settles where a queue is there most of the time. With `free` of the rate `link`,
/// a step makes the standing queue longer by a tenth of `link / free - 1` RTTs at most, since windows and not
/// rates are limited, and then a whole window is busy and the limit falls.
#[derive(Debug)]
pub(super) struct Free {
    path: Path,
    /// The link's rate, and the limit, in bits per second of payload.
    link: f64,
    limit: f64,
    /// How many windows have been evaluated, and when the last one was.
    windows: u64,
    evaluated: Option<Instant>,
}

impl Free {
    /// Returns it for a link with this rate of payload, which is the limit until more is known.
    pub(super) fn new(link: Rate) -> Free {
        // What arrives faster than twice the link's rate was held up on its way.
        let nic = link.scale(2.0);
        let settings = Settings { nic, windows: Windows::Tumbling(WINDOW), ..Settings::default() };
        let link = link.bps_f64();
        Free { path: Path::new(&settings), link, limit: link, windows: 0, evaluated: None }
    }

    /// Takes an ACK that arrived at a middlebox from a side, and tells the middlebox the
    /// limit towards there.
    pub(super) fn set_available(&mut self, middlebox: &mut Middlebox, side: Side, passed: &Passed) {
        let Some(rate) = self.on_ack(passed) else { return };
        match middlebox.monitor() {
            Some(monitor) => {
                let source = SOURCE.into();
                let (quantity, at) = (Quantity::Available, passed.at);
                monitor.signals().put(Estimate { source, quantity, side, rate, low: rate, high: rate, at });
            }
            None => middlebox.allocator().set_available(side, rate),
        }
    }

    /// Takes an ACK; returns the limit if a window ended with it.
    fn on_ack(&mut self, passed: &Passed) -> Option<Rate> {
        let estimate = self.path.observe(passed);
        let windows = self.path.windows().total();
        if windows == self.windows {
            return None;
        }
        self.windows = windows;
        let (free, busy) =
            estimate.map_or((0.0, 0.0), |estimate| (estimate.rate.bps_f64(), self.path.busy()));
        self.step(busy * free + (1.0 - busy) * self.link);
        self.limit = self.limit.max(LEAST * self.link);
        self.grow_old(passed.at);
        Some(Rate::from_bps_f64(self.limit))
    }

    fn step(&mut self, free: f64) {
        self.limit = (self.limit + STEP * (free - self.limit)).min(self.link);
    }

    /// Lets the limit rise for the time without ACKs between the window and the ACK that ended it, of
    /// which nothing is known.
    fn grow_old(&mut self, now: Instant) {
        let since = self.evaluated.replace(now).map_or(WINDOW, |last| now - last);
        let missing = (since.ns() / WINDOW.ns() - 1).min(FORGOTTEN);
        (0..missing).for_each(|_| self.step(self.link));
    }

    pub(super) fn memory(&self) -> usize {
        self.path.memory()
    }
}

/// When the segments of a connection were sent, and how long they waited in queues, by the
/// timestamps that its ACKs echo.
///
/// It does not matter where the middlebox is, or what clock the sender has: only differences count.
#[derive(Clone, Debug, Default)]
pub(super) struct Waits {
    /// The cumulative acknowledgement, in segments, and whether it came again.
    acknowledged: u64,
    is_repeated: bool,
    /// Least times from a segment to its ACK at the middlebox, in ns: in the present period between two
    /// drains, in which queues of one's own are empty for a moment, and in the one before.
    least: [Option<u64>; 2],
    period: u32,
}

impl Waits {
    /// Takes an ACK in this period of RTTs; returns what it tells, if it acknowledges
    /// segments for the first time.
    pub(super) fn on_ack(&mut self, now: u64, ack: &Packet, mss: u32, period: u32) -> Option<Passed> {
        if ack.seq <= self.acknowledged {
            self.is_repeated |= ack.seq == self.acknowledged;
            return None;
        }
        let segments = ack.seq - std::mem::replace(&mut self.acknowledged, ack.seq);
        let wait = self.wait(now.saturating_sub(ack.sent), period);
        // Behind a hole, segments that had arrived before are acknowledged late.
        let is_in_order = !std::mem::take(&mut self.is_repeated);
        Some(Passed {
            at: Instant::from_ns(now),
            bytes: Bytes::new(segments * u64::from(mss)),
            wait: is_in_order.then(|| Duration::from_ns(i64::try_from(wait).unwrap_or(i64::MAX))),
            presses: true,
            counts: is_in_order,
            is_full: true,
        })
    }

    /// Returns by how much a time from a segment to its ACK is longer than the least, in ns.
    fn wait(&mut self, time: u64, period: u32) -> u64 {
        if std::mem::replace(&mut self.period, period) != period {
            self.least = [None, self.least[0]];
        }
        self.least[0] = Some(self.least[0].map_or(time, |least| least.min(time)));
        time - self.least.into_iter().flatten().min().unwrap_or(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the limit in Mb/s after this many seconds of ACKs of 40 Mb/s from `from` on; each segment
    /// has waited this long.
    fn follow(free: &mut Free, from: u64, seconds: u64, wait_us: i64) -> f64 {
        let wait = Duration::from_us(wait_us);
        for ack in 0..seconds * 2_500 {
            let at = Instant::from_ns(1_000_000_000 * (from + 1) + ack * 400_000);
            free.on_ack(&Passed {
                at,
                bytes: Bytes::new(2_000),
                wait: Some(wait),
                presses: true,
                counts: true,
                is_full: true,
            });
        }
        free.limit / 1e6
    }

    #[test]
    fn the_limit_falls_to_what_is_left_while_a_queue_stands_and_rises_without_one() {
        let mut free = Free::new(Rate::from_mbps(100.0));
        assert_eq!(follow(&mut free, 0, 10, 0), 100.0);
        let fallen = follow(&mut free, 10, 20, 5_000);
        assert!((fallen - 40.0).abs() < 1.0, "{fallen}");
        // A tenth of the way in each of ten windows.
        let risen = follow(&mut free, 30, 2, 0);
        assert!((risen - (100.0 - 60.0 * 0.9_f64.powi(10))).abs() < 4.0, "{risen}");
    }

    #[test]
    fn the_limit_rises_without_acks_and_never_vanishes() {
        let mut free = Free::new(Rate::from_mbps(100.0));
        follow(&mut free, 0, 20, 5_000);
        assert!(follow(&mut free, 120, 1, 0) > 99.0);
        let mut free = Free::new(Rate::from_mbps(1_000.0));
        assert_eq!(follow(&mut free, 0, 20, 5_000), 100.0);
    }

    #[test]
    fn waits_are_times_beyond_the_least_of_two_periods() {
        let mut waits = Waits::default();
        let mut ack = |seq, time: u64, period| {
            let packet = Packet { seq, sent: 1_000, ..Packet::default() };
            waits.on_ack(1_000 + time, &packet, 1_448, period)
        };
        let wait = |passed: Option<Passed>| passed.unwrap().wait.unwrap().ns();
        assert_eq!([wait(ack(1, 500, 0)), wait(ack(2, 400, 0)), wait(ack(4, 700, 0))], [0, 0, 300]);
        assert_eq!(ack(4, 700, 0), None);
        // The first that acknowledges more after a repeated one says nothing about time.
        let repaired = ack(9, 900, 1).unwrap();
        assert_eq!((repaired.wait, repaired.bytes), (None, Bytes::new(5 * 1_448)));
        assert_eq!([wait(ack(10, 900, 1)), wait(ack(11, 900, 2))], [500, 0]);
    }
}

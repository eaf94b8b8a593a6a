//! Gaps filled with PAUSE frames, which the first switch drops: bytes on the wire serve as
//! the clock (rapid 2.3).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use headway_units::{Bytes, Duration, Instant, Rate};

/// Size of the smallest PAUSE frame on the wire (rapid 2.3, MIN_PAUSE).
pub const MIN_PAUSE: Bytes = Bytes::new(88);

/// A frame that the scheduler hands to the NIC; frames are sent back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// A PAUSE frame, which the first switch drops.
    Pause(Bytes),
    /// A packet.
    Packet {
        /// Its flow.
        flow: u32,
        /// Its size on the wire.
        size: Bytes,
        /// When it starts on the wire.
        departure: Instant,
    },
}

#[derive(Clone, Copy, Debug)]
struct Scheduled {
    at: Instant,
    size: Bytes,
}

/// The scheduler of rapid 2.3 for any number of flows, in integers.
///
/// Its clock is the number of bytes emitted. It never follows the wall clock: if the wire runs dry, all later
/// packets are delayed by that time, and gaps are not compressed to catch up.
#[derive(Clone, Debug)]
pub struct ByteClock {
    line: Rate,
    /// Largest frame on the wire.
    largest: Bytes,
    /// Bytes emitted since the clock's origin: packets and PAUSE frames.
    emitted: u64,
    /// Total time for which the wire ran dry.
    dry: Duration,
    /// Scheduled packets of each flow, earliest first.
    flows: Vec<VecDeque<Scheduled>>,
    /// Due time of the first packet of each flow that has one, earliest first.
    due: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl ByteClock {
    /// Creates a clock at zero, for a line of positive rate and frames of up to `largest` bytes on the wire,
    /// which must be at least twice [`MIN_PAUSE`].
    pub fn new(line: Rate, largest: Bytes) -> ByteClock {
        let (flows, due) = (Vec::new(), BinaryHeap::new());
        ByteClock { line, largest, emitted: 0, dry: Duration::ZERO, flows, due }
    }

    /// Returns the time of this clock, by which packets are scheduled: when the next frame starts if the
    /// wire never runs dry.
    pub fn now(&self) -> Instant {
        // Rounded up, so that no packet starts before it is due.
        let ns = (u128::from(self.emitted) * 8_000_000_000).div_ceil(u128::from(self.line.bps()));
        Instant::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Schedules the next packet of a flow; times of one flow must not decrease.
    pub fn schedule(&mut self, flow: u32, at: Instant, size: Bytes) {
        if self.flows.len() <= flow as usize {
            self.flows.resize_with(flow as usize + 1, VecDeque::new);
        }
        let packets = &mut self.flows[flow as usize];
        if packets.is_empty() {
            self.due.push(Reverse((at, flow)));
        }
        packets.push_back(Scheduled { at, size });
    }

    /// Returns the next frame; `None` if nothing is scheduled, because PAUSE frames would then
    /// only use up the line.
    pub fn dequeue(&mut self) -> Option<Frame> {
        let Reverse((at, flow)) = *self.due.peek()?;
        let missing = self.bytes_until(at);
        if missing > 0 {
            let pause = pause(missing, self.largest.get());
            self.emitted += pause;
            return Some(Frame::Pause(Bytes::new(pause)));
        }
        self.due.pop();
        let packets = &mut self.flows[flow as usize];
        let Scheduled { size, .. } = packets.pop_front()?;
        if let Some(next) = packets.front() {
            self.due.push(Reverse((next.at, flow)));
        }
        let departure = self.now() + self.dry;
        self.emitted += size.get();
        Some(Frame::Packet { flow, size, departure })
    }

    /// Emits all but the last two of the full-size PAUSE frames before the next packet in one step.
    pub(crate) fn skip(&mut self) {
        if let Some(Reverse((at, _))) = self.due.peek() {
            let largest = self.largest.get();
            self.emitted += (self.bytes_until(*at) / largest).saturating_sub(2) * largest;
        }
    }

    /// Accounts for `time` during which the wire ran dry because no frame was taken: all later
    /// frames are delayed by it.
    pub fn slip(&mut self, time: Duration) {
        self.dry += time;
    }

    /// Returns the bytes to emit before a packet due at `at` may start, rounded up.
    fn bytes_until(&self, at: Instant) -> u64 {
        let bytes = (u128::from(at.ns()) * u128::from(self.line.bps())).div_ceil(8_000_000_000);
        u64::try_from(bytes).unwrap_or(u64::MAX).saturating_sub(self.emitted)
    }
}

/// Returns the size of the next PAUSE frame if `missing` bytes are to be filled.
///
/// Rapid 2.3 clamps to the smallest and the largest frame, which may leave a remainder below the smallest
/// frame. Here the remainder is at least a smallest frame, so every gap that can be filled exactly is.
fn pause(missing: u64, largest: u64) -> u64 {
    if missing > largest && missing < largest + MIN_PAUSE.get() {
        missing - MIN_PAUSE.get()
    } else {
        missing.clamp(MIN_PAUSE.get(), largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: Rate = Rate::from_bps(10_000_000_000);
    const PACKET: Bytes = Bytes::new(9038);

    /// Flow and departure in nanoseconds of every scheduled packet.
    fn packets(clock: &mut ByteClock) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| clock.dequeue())
            .filter_map(|frame| match frame {
                Frame::Pause(_) => None,
                Frame::Packet { flow, departure, .. } => Some((flow, departure.ns())),
            })
            .collect()
    }

    fn scheduled(times: &[u64]) -> ByteClock {
        let mut clock = ByteClock::new(LINE, PACKET);
        for at in times {
            clock.schedule(0, Instant::from_ns(*at), PACKET);
        }
        clock
    }

    #[test]
    fn frames_fill_the_time_between_packets() {
        // 20 us are 25000 bytes: a packet, and 15962 bytes of PAUSE frames.
        let mut clock = scheduled(&[0, 20_000]);
        let departure = Instant::from_ns(20_000);
        let frames: Vec<Frame> = std::iter::from_fn(|| clock.dequeue()).skip(1).collect();
        let pauses = [9038, 15_962 - 9038].map(|bytes| Frame::Pause(Bytes::new(bytes)));
        assert_eq!(frames[..2], pauses);
        assert_eq!(frames[2..], [Frame::Packet { flow: 0, size: PACKET, departure }]);
        // With 9038 to 9126 bytes missing, a full frame would leave too little for the second.
        assert_eq!(pause(9_100, 9_038), 9_012);
    }

    #[test]
    fn an_idle_scheduler_emits_nothing() {
        let mut clock = scheduled(&[0]);
        assert!(clock.dequeue().is_some());
        assert_eq!(clock.dequeue(), None);
        assert_eq!(clock.now(), Instant::from_ns(7_231));
    }

    #[test]
    fn gaps_overshoot_by_less_than_the_smallest_frame_and_errors_do_not_add_up() {
        // 20 bytes more than a packet cannot be filled exactly: 88 are sent instead, and the
        // packet is 54.4 ns late.
        let gap = 7_230 + 16;
        let times: Vec<u64> = (0..1_000).map(|k| k * gap).collect();
        for (departure, at) in packets(&mut scheduled(&times)).iter().zip(&times) {
            assert!(departure.1 >= *at && departure.1 - at < 71, "{departure:?} {at}");
        }
    }

    #[test]
    fn a_dry_wire_delays_what_follows_and_nothing_is_made_up_for() {
        let mut clock = scheduled(&[0, 20_000, 40_000, 60_000]);
        clock.dequeue();
        clock.slip(Duration::from_us(5));
        let departures: Vec<u64> = packets(&mut clock).into_iter().map(|(_, at)| at).collect();
        assert_eq!(departures, [25_000, 45_000, 65_000]);
    }

    #[test]
    fn packets_due_together_leave_back_to_back_in_order_of_flow() {
        let mut clock = ByteClock::new(LINE, PACKET);
        for flow in [2, 0, 1] {
            clock.schedule(flow, Instant::from_ns(50_000), PACKET);
        }
        assert_eq!(packets(&mut clock), [(0, 50_000), (1, 57_231), (2, 64_461)]);
    }

    proptest! {
        #[test]
        fn gaps_that_can_be_filled_are_exact(gaps in proptest::collection::vec(7_302u64..1_000_000, 1..100)) {
            let times: Vec<u64> = gaps.iter().scan(0, |at, gap| { *at += gap; Some(*at) }).collect();
            for (departure, at) in packets(&mut scheduled(&times)).iter().zip(&times) {
                // A byte takes 0.8 ns.
                prop_assert!(departure.1 >= *at && departure.1 - at <= 1);
            }
        }
    }

    #[test]
    fn skipping_a_long_pause_changes_no_departure() {
        let departures = |skip: bool| {
            let mut clock = ByteClock::new(LINE, PACKET);
            clock.schedule(0, Instant::from_ns(17), PACKET);
            clock.schedule(0, Instant::from_ns(3_000_000_011), PACKET);
            clock.schedule(0, Instant::from_ns(3_000_009_011), PACKET);
            let mut departures = Vec::new();
            loop {
                if skip {
                    clock.skip();
                }
                match clock.dequeue() {
                    Some(Frame::Packet { departure, .. }) => departures.push(departure),
                    Some(Frame::Pause(_)) => {}
                    None => return departures,
                }
            }
        };
        assert_eq!(departures(true), departures(false));
    }
}

//! The line between a node and the queue of its link. A veth hands over any number of frames at once; a line
//! takes the time of its bytes for each, and the switch at its end drops frames that are for itself.

use std::collections::VecDeque;

use headway_host::LineClock;
use headway_units::{Bytes, Instant, Rate};

/// EtherType of frames that are for the next station and never forwarded, such as PAUSE (802.3, annex 31A).
pub(crate) const MAC_CONTROL: [u8; 2] = [0x88, 0x08];

/// Frames on a line, or none of it.
#[derive(Debug)]
pub(crate) struct Line<F> {
    rate: Rate,
    clock: LineClock,
    /// When each frame that goes on is complete at the end of the line, in order.
    under_way: VecDeque<(Instant, F)>,
}

impl<F> Line<F> {
    /// Creates an idle line of positive rate.
    pub(crate) fn new(rate: Rate) -> Line<F> {
        Line { rate, clock: LineClock::new(rate), under_way: VecDeque::new() }
    }

    /// Sends a frame that was handed over at `at` and takes `size` on the wire; `None` is one
    /// that the switch drops.
    pub(crate) fn send(&mut self, at: Instant, size: Bytes, frame: Option<F>) {
        let arrives = self.clock.depart(at, size) + self.rate.time_for(size);
        self.under_way.extend(frame.map(|frame| (arrives, frame)));
    }

    /// Returns when the next frame arrives.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.under_way.front().map(|(at, _)| *at)
    }

    /// Returns the next frame that arrives by `now`, with its time.
    pub(crate) fn arrived(&mut self, now: Instant) -> Option<(Instant, F)> {
        self.under_way.pop_front_if(|(at, _)| *at <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_follow_one_another_and_dropped_ones_take_their_time() {
        let at = |us: u64| Instant::from_ns(us * 1000);
        // 100 bytes take 8 us.
        let mut line = Line::new(Rate::from_mbps(100.0));
        for frame in [Some('a'), None, Some('b')] {
            line.send(at(50), Bytes::new(100), frame);
        }
        line.send(at(200), Bytes::new(100), Some('c'));
        assert_eq!(line.next(), Some(at(58)));
        assert_eq!(line.arrived(at(57)), None);
        let all: Vec<_> = std::iter::from_fn(|| line.arrived(at(300))).collect();
        assert_eq!(all, [(at(58), 'a'), (at(74), 'b'), (at(208), 'c')]);
    }
}

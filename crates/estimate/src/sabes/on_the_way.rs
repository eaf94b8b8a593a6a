//! The ACKs between the tap and the sender.
//!
//! A tap that is not beside the sender sees an ACK before the sender does, and a segment after it was sent.
//! Relative to the segments that pass the tap, an ACK takes effect later by the time from the tap to the
//! sender and back. The handshake shows that time for empty queues. With time stamps (RFC 7323) the echo in a
//! segment names the ACK that the sender had taken when it sent the segment, whatever the queues did since.

use std::collections::VecDeque;

use super::flight::before;
use headway_units::{Duration, Instant};

/// Parts of the time to the sender and back: ACKs closer to each other than this count as one.
const PARTS: i64 = 256;
/// Most ACKs on the way; of more, the first ones arrive early.
const MOST: usize = 1_024;

/// An ACK, or several that passed the tap shortly after each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ack {
    /// When it passed the tap, and later when it takes effect.
    pub(super) at: Instant,
    pub(super) number: u32,
    /// The window field, not scaled.
    pub(super) window: u16,
    /// The value of its time stamp.
    stamp: Option<u32>,
}

/// The ACKs between the tap and the sender, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct OnTheWay {
    acks: VecDeque<Ack>,
    /// The shortest time from the tap to the sender and back; `None` while it is not known.
    time: Option<Duration>,
    /// The stamp of the last ACK that has arrived.
    arrived: Option<u32>,
    stamps: bool,
}

impl OnTheWay {
    /// Sets the time from the tap to the sender and back, as the handshake shows it.
    pub(super) fn set_time(&mut self, time: Option<Duration>) {
        self.time = time;
    }

    /// Returns the shortest time from the tap to the sender and back.
    pub(super) fn time(&self) -> Option<Duration> {
        self.time
    }

    /// Whether the sender's segments tell which ACKs it had taken.
    pub(super) fn has_stamps(&self) -> bool {
        self.stamps
    }

    /// An ACK passes the tap.
    pub(super) fn push(&mut self, at: Instant, number: u32, window: u16, stamp: Option<u32>) {
        let ack = Ack { at, number, window, stamp };
        let close = self.time.map_or(Duration::ZERO, |time| time / PARTS);
        match self.acks.back_mut() {
            Some(last) if at - last.at < close && last.stamp == stamp => {
                *last = Ack { at: last.at, ..ack };
            }
            _ => {
                if self.acks.len() >= MOST {
                    self.acks.pop_front();
                }
                self.acks.push_back(ack);
            }
        }
    }

    /// Returns the next ACK that the sender had taken when it sent the segment that passes the tap at
    /// `at` with this echo.
    pub(super) fn next(&mut self, at: Instant, echo: Option<u32>) -> Option<Ack> {
        let ack = *self.acks.front()?;
        let due = self.time.map(|time| ack.at + time);
        let in_time = due.is_some_and(|due| due <= at);
        let has_arrived = match (echo, ack.stamp) {
            (Some(echo), Some(stamp)) if stamp == echo && self.arrived != Some(stamp) => {
                // At least the first ACK with this stamp has arrived.
                self.stamps = true;
                let time = at - ack.at;
                if time > Duration::ZERO {
                    self.time = Some(self.time.map_or(time, |least| least.min(time)));
                }
                true
            }
            (Some(echo), Some(stamp)) if stamp == echo => in_time,
            (Some(echo), Some(stamp)) => before(stamp, echo),
            _ => in_time,
        };
        has_arrived.then(|| {
            self.arrived = ack.stamp.or(self.arrived);
            self.acks.pop_front();
            Ack { at: due.map_or(at, |due| due.min(at)), ..ack }
        })
    }

    pub(super) fn memory(&self) -> usize {
        self.acks.capacity() * size_of::<Ack>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    /// Returns the numbers of the ACKs that have arrived.
    fn arrived(acks: &mut OnTheWay, at: u64, echo: Option<u32>) -> Vec<(u32, Instant)> {
        std::iter::from_fn(|| acks.next(ms(at), echo)).map(|ack| (ack.number, ack.at)).collect()
    }

    #[test]
    fn without_stamps_an_ack_takes_effect_after_the_time_to_the_sender_and_back() {
        let mut acks = OnTheWay::default();
        acks.set_time(Some(Duration::from_ms(20)));
        (0..4).for_each(|k| acks.push(ms(k * 5), k as u32, 9, None));
        assert_eq!(arrived(&mut acks, 26, None), [(0, ms(20)), (1, ms(25))]);
        assert_eq!(arrived(&mut acks, 26, None), []);
        assert!(!acks.has_stamps());
    }

    #[test]
    fn the_echo_tells_what_the_sender_knew_whatever_the_queues_did() {
        let mut acks = OnTheWay::default();
        (0..4).for_each(|k| acks.push(ms(k * 5), k as u32, 9, Some(100 + k as u32)));
        // In a queue the segment waited for 30 ms.
        assert_eq!(arrived(&mut acks, 50, Some(101)), [(0, ms(50)), (1, ms(50))]);
        assert_eq!(acks.time(), Some(Duration::from_ms(45)));
        assert_eq!(arrived(&mut acks, 51, Some(101)), []);
        assert_eq!(arrived(&mut acks, 61, Some(103)).len(), 2);
    }

    #[test]
    fn memory_is_bounded() {
        let mut acks = OnTheWay::default();
        acks.set_time(Some(Duration::from_ms(100)));
        (0..100_000).for_each(|k| acks.push(Instant::from_ns(k * 1_000), k as u32, 9, None));
        assert!(acks.acks.len() <= 300, "{}", acks.acks.len());
        acks.set_time(None);
        (0..100_000).for_each(|k| acks.push(Instant::from_ns(k * 1_000), k as u32, 9, None));
        assert!(acks.acks.len() <= MOST);
    }
}

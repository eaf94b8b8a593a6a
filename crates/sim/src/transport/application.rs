//! The application of a sender: how much it has written, and when it writes.

use crate::config::{Burst, TcpConfig};
use crate::transport::sender::SEGMENT_OVERHEAD;
use crate::transport::ticks::TICK;

/// The application that writes the data of one flow. Counts are in segments.
#[derive(Clone, Debug)]
pub(crate) struct Application {
    /// When it starts and stops (ns).
    start: u64,
    stop: u64,
    /// One past the last segment of the flow; `u64::MAX` if it has no end.
    end: u64,
    /// Wire bytes of the last segment.
    last_size: u16,
    /// Payload rate in bit/s, and payload bits per segment; without a rate everything is available at once.
    rate: Option<u64>,
    segment_bits: u64,
    /// How often an application with a rate writes what is due (ns): once a tick on a host, else by segments.
    period: u64,
    /// Where it pauses, if it does.
    chunks: Option<Box<Chunks>>,
}

/// The part of the data that an application which pauses may write.
#[derive(Clone, Debug)]
struct Chunks {
    /// Segments of a chunk, and the pause behind it (ns).
    segments: u64,
    pause: u64,
    /// One past the last segment of the chunk, and when it is written (ns).
    end: u64,
    begin: u64,
}

impl Chunks {
    /// One past the last segment that may be written by `now`.
    fn limit(&self, now: u64) -> u64 {
        if now < self.begin { self.end - self.segments } else { self.end }
    }
}

impl Application {
    pub(crate) fn new(config: &TcpConfig) -> Application {
        let mss = u64::from(config.mss);
        let size = config.size.map(|size| size.get().max(1));
        let rest = size.map_or(mss, |size| (size - 1) % mss + 1);
        Application {
            start: config.start.ns(),
            stop: config.stop.map_or(u64::MAX, |stop| stop.ns()),
            end: size.map_or(u64::MAX, |size| size.div_ceil(mss)),
            last_size: (rest as u32 + SEGMENT_OVERHEAD + config.header_bytes()) as u16,
            rate: config.application_rate.map(|rate| rate.bps().max(1)),
            segment_bits: mss * 8,
            period: if config.burst == Burst::Host { TICK } else { 1 },
            chunks: config.chunks.map(|(size, pause)| {
                let segments = size.get().div_ceil(mss).max(1);
                Box::new(Chunks { segments, pause: pause.ns().unsigned_abs(), end: segments, begin: 0 })
            }),
        }
    }

    /// When it starts (ns).
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The number of the last segment.
    pub(crate) fn last(&self) -> u64 {
        self.end - 1
    }

    pub(crate) fn last_size(&self) -> u16 {
        self.last_size
    }

    /// One past the last segment written by `now`, of which `sent` have been sent.
    pub(crate) fn written(&self, now: u64, sent: u64) -> u64 {
        if now < self.start {
            return 0;
        }
        let most = self.chunks.as_ref().map_or(self.end, |chunks| self.end.min(chunks.limit(now)));
        match self.rate {
            Some(rate) => {
                let time = now.min(self.stop).saturating_sub(self.start) / self.period * self.period;
                let bits = u128::from(time) * u128::from(rate) / 1_000_000_000;
                ((bits / u128::from(self.segment_bits)) as u64).min(self.end)
            }
            None if now >= self.stop => sent.min(most),
            // One segment ahead of the sender at most, so that the sender notices the stop.
            None if self.stop < u64::MAX => (sent + 1).min(most),
            None => most,
        }
    }

    /// When it writes segment `sent` (ns); `u64::MAX` for never.
    pub(crate) fn next_write(&self, now: u64, sent: u64) -> u64 {
        if sent >= self.end {
            return u64::MAX;
        }
        if now < self.start {
            return self.start;
        }
        if let Some(chunks) = self.chunks.as_ref().filter(|chunks| now < chunks.begin) {
            return if chunks.begin < self.stop { chunks.begin } else { u64::MAX };
        }
        let Some(rate) = self.rate else { return u64::MAX };
        let bits = u128::from(sent + 1) * u128::from(self.segment_bits);
        let time = (bits * 1_000_000_000).div_ceil(u128::from(rate)) as u64;
        let at = self.start + time.next_multiple_of(self.period);
        if at > self.stop { u64::MAX } else { at.max(now + 1) }
    }

    /// All segments up to `una` have been acknowledged, and no other was sent: a pause begins
    /// at the end of a chunk.
    pub(crate) fn acknowledged(&mut self, now: u64, una: u64) {
        if let Some(chunks) = self.chunks.as_mut().filter(|chunks| una >= chunks.end) {
            (chunks.end, chunks.begin) = (chunks.end + chunks.segments, now + chunks.pause);
        }
    }

    /// Whether it writes no more.
    pub(crate) fn has_stopped(&self, now: u64) -> bool {
        now >= self.stop
    }

    /// Whether the whole flow has been acknowledged.
    pub(crate) fn is_finished(&self, una: u64) -> bool {
        una >= self.end
    }
}

#[cfg(test)]
mod tests {
    use headway_control::Kind;
    use headway_units::Rate;

    use super::*;

    #[test]
    fn an_application_with_a_rate_writes_once_a_millisecond_on_a_host() {
        // 1.5 segments per millisecond.
        let rate = Some(Rate::from_bps(1448 * 8 * 1500));
        let of = |burst| {
            let config = TcpConfig::new(Kind::Reno, Vec::new(), Vec::new());
            Application::new(&TcpConfig { application_rate: rate, burst, ..config })
        };
        let at = |application: &Application, us: u64| application.written(us * 1000, 0);
        let host = of(Burst::Host);
        assert_eq!([999, 1000, 1999, 2000, 3999, 4000].map(|us| at(&host, us)), [0, 1, 1, 3, 4, 6]);
        assert_eq!(
            [0, 1, 2, 3].map(|sent| host.next_write(0, sent)),
            [1_000_000, 2_000_000, 2_000_000, 3_000_000]
        );
        // A textbook's application writes each segment when it is due.
        let textbook = of(Burst::Single);
        assert_eq!([666, 667, 1334].map(|us| at(&textbook, us)), [0, 1, 2]);
    }
}

//! The limits a server imposes on its clients.

use crate::pacing::SPIN_BELOW;
use crate::protocol::{MAX_STREAM_PACKETS, PacketSize, RefusedBy};
use headway_units::{Bytes, Duration, Rate};
use std::time::Duration as Span;

/// The limits of a server; the defaults suit one that faces the Internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrent sessions of clients that have proved token and address. Each costs a thread and, during a
    /// stream, up to 10 MB of socket buffers.
    pub sessions: usize,
    /// Concurrent sessions from one network, that is an IPv4 /24 or IPv6 /48 prefix.
    pub sessions_per_network: usize,
    /// Concurrent connections in total that have not proved token and address. When they are all in use, a
    /// new one displaces the oldest of the network that has the most.
    pub handshakes: usize,
    /// Concurrent connections from one network that have not proved token and address.
    pub handshakes_per_network: usize,
    /// Highest rate of a reverse stream, averaged over its duration and counted in wire bytes.
    pub reverse_rate: Rate,
    /// Wire bytes that one session may use in both directions together.
    pub session_bytes: Bytes,
    /// Maximum duration of a session.
    pub session_time: Span,
    /// Idle timeout of a session.
    pub idle: Span,
    /// Time limit for a handshake, from the first byte to its end.
    pub handshake: Span,
    /// Maximum number of packets in a stream, at most [`MAX_STREAM_PACKETS`].
    pub stream_packets: u32,
    /// Maximum duration of a stream.
    pub stream_time: Span,
    /// Control messages per second; the server reads more slowly from a client that sends more.
    pub messages_per_second: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sessions: 32,
            sessions_per_network: 4,
            handshakes: 64,
            handshakes_per_network: 8,
            reverse_rate: Rate::from_bps(10_000_000_000),
            // A measurement takes some ten megabytes; with this a session can measure all day.
            session_bytes: Bytes::new(100_000_000_000),
            session_time: Span::from_secs(24 * 3600),
            idle: Span::from_secs(120),
            // Five round trips of 0.6 s, and some processing time.
            handshake: Span::from_secs(5),
            stream_packets: MAX_STREAM_PACKETS,
            stream_time: Span::from_secs(30),
            messages_per_second: 1000,
        }
    }
}

/// Bytes that a reverse stream may send beyond its duration times the rate limit, so that short bursts can
/// probe capacities above the limit. A pause afterwards brings the average back to the limit.
const BURST: Bytes = Bytes::new(64 * 1024);

/// ... but never more than the rate limit allows in this time, so that the pause is never longer than this.
const BURST_TIME: Duration = Duration::from_ms(1000);

/// Returns the bytes that a reverse stream may send beyond its duration times the rate
/// limit, at most [`BURST`].
fn burst(limits: &Limits) -> u64 {
    BURST.get().min(limits.reverse_rate.bytes_in(BURST_TIME).get())
}

/// The properties of a requested stream that limits apply to.
pub(crate) struct Request<'a> {
    pub size: PacketSize,
    pub gaps: &'a [Duration],
    pub reverse: bool,
}

impl Request<'_> {
    pub(crate) fn packets(&self) -> u64 {
        self.gaps.len() as u64 + 1
    }

    pub(crate) fn bytes(&self) -> Bytes {
        self.size.wire() * self.packets()
    }

    pub(crate) fn duration(&self) -> Duration {
        self.gaps.iter().copied().sum()
    }

    /// Returns the CPU time it takes to send the stream, which depends on its shortest gap.
    pub(crate) fn work(&self) -> Work {
        let gap = self.gaps.iter().copied().min().unwrap_or_default();
        let share = if gap < DENSE {
            WHOLE_PROCESSOR
        } else {
            (i64::from(WHOLE_PROCESSOR) * SPIN_BELOW.ns() / gap.ns()).max(1) as u32
        };
        let time = self.duration().max(SEND * self.gaps.len() as i64);
        let time = time.scale(f64::from(share) / f64::from(WHOLE_PROCESSOR)) + PREPARE;
        Work { share, time: time.to_std() }
    }
}

/// CPU usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    /// Share of a processor in thousandths, see [`WHOLE_PROCESSOR`].
    pub share: u32,
    /// CPU time.
    pub time: Span,
}

/// The share that occupies a processor completely.
pub(crate) const WHOLE_PROCESSOR: u32 = 1000;

/// A stream with a gap shorter than this occupies a whole processor, because pacing spins before each packet.
const DENSE: Duration = Duration::from_us(400);

/// Time to send one packet, rounded up.
const SEND: Duration = Duration::from_us(5);

/// Time to prepare a stream and to read its timestamps.
const PREPARE: Duration = Duration::from_ms(1);

/// Maximum CPU time of one stream, during which others wait. Most streams of all methods stay below it: they
/// have at most 320 gaps of 400 us (`prc-mt`), and streams with wider gaps do not occupy a whole processor.
const MAX_WORK: Span = Span::from_millis(150);

/// A reverse stream of this duration never exceeds that. Measurements in that direction are limited to it
/// (`Measurement::brief`), because the trains that look for a policer would take longer.
pub const LONGEST_REVERSE_STREAM: Duration = Duration::from_ms(145);

/// The part of its limits that a session has used.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    bytes: u64,
}

impl Usage {
    /// Accepts a stream and charges its bytes to the session, or returns the limit that it exceeds.
    pub(crate) fn admit(&mut self, limits: &Limits, request: &Request<'_>) -> Result<(), RefusedBy> {
        if request.gaps.is_empty() || request.packets() > u64::from(limits.stream_packets) {
            return Err(RefusedBy::StreamPackets);
        }
        let duration = request.duration();
        if duration.to_std() > limits.stream_time || request.reverse && request.work().time > MAX_WORK {
            return Err(RefusedBy::StreamTime);
        }
        let allowed = limits.reverse_rate.bytes_in(duration).get().saturating_add(burst(limits));
        if request.reverse && request.bytes().get() > allowed {
            return Err(RefusedBy::Rate);
        }
        self.charge(limits, request.bytes())
    }

    /// Charges bytes to the session, unless that would exceed its limit.
    pub(crate) fn charge(&mut self, limits: &Limits, bytes: Bytes) -> Result<(), RefusedBy> {
        let used = self.bytes.saturating_add(bytes.get());
        if used > limits.session_bytes.get() {
            return Err(RefusedBy::SessionBytes);
        }
        self.bytes = used;
        Ok(())
    }
}

/// Returns the pause after sending `bytes` within `took` that keeps the average at the rate limit.
pub(crate) fn rate_pause(limits: &Limits, bytes: Bytes, took: Duration) -> Span {
    (limits.reverse_rate.time_for(bytes) - took).to_std()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size() -> PacketSize {
        PacketSize::from_ip(1500).unwrap()
    }

    #[test]
    fn each_limit_refuses_by_its_name() {
        let limits = Limits {
            stream_packets: 100,
            stream_time: Span::from_secs(1),
            reverse_rate: Rate::from_mbps(100.0),
            session_bytes: Bytes::new(200_000),
            ..Limits::default()
        };
        let ask = |usage: &mut Usage, count: usize, gap: Duration, reverse: bool| {
            usage.admit(&limits, &Request { size: size(), gaps: &vec![gap; count], reverse })
        };
        let fresh = Usage::default;
        let us = Duration::from_us;
        assert_eq!(ask(&mut fresh(), 0, us(100), false), Err(RefusedBy::StreamPackets));
        assert_eq!(ask(&mut fresh(), 100, us(100), false), Err(RefusedBy::StreamPackets));
        assert_eq!(ask(&mut fresh(), 99, us(20_000), false), Err(RefusedBy::StreamTime));
        assert_eq!(ask(&mut fresh(), 99, us(12), true), Err(RefusedBy::Rate));
        assert_eq!(ask(&mut fresh(), 99, us(12), false), Ok(()));
        assert_eq!(ask(&mut fresh(), 99, us(124), true), Ok(()));
        assert_eq!(ask(&mut fresh(), 20, us(0), true), Ok(()), "a short burst");
        let mut used = fresh();
        assert_eq!(ask(&mut used, 99, us(124), true), Ok(()));
        assert_eq!(ask(&mut used, 99, us(124), true), Err(RefusedBy::SessionBytes));
    }

    #[test]
    fn streams_cost_what_their_shortest_gap_makes_pacing_spin() {
        let work = |gaps: &[Duration]| Request { size: size(), gaps, reverse: true }.work();
        let (us, ms) = (Duration::from_us, Duration::from_ms);
        assert_eq!(work(&[us(190); 1000]), Work { share: 1000, time: Span::from_millis(191) });
        assert_eq!(work(&[us(0); 1000]), Work { share: 1000, time: Span::from_millis(6) });
        assert_eq!(work(&[ms(2); 100]), Work { share: 100, time: Span::from_millis(21) });
        assert_eq!(work(&[ms(30_000)]), Work { share: 1, time: Span::from_millis(31) });
        assert_eq!(work(&[ms(100), us(10)]).share, 1000, "the shortest gap counts");
        let limits = Limits::default();
        let ask = |gaps: &[Duration], reverse| {
            Usage::default().admit(&limits, &Request { size: size(), gaps, reverse })
        };
        assert_eq!(ask(&[us(190); 780], true), Ok(()));
        assert_eq!(ask(&[us(190); 790], true), Err(RefusedBy::StreamTime));
        assert_eq!(ask(&[us(190); 790], false), Ok(()), "receiving costs little");
        assert_eq!(ask(&[ms(29_000), us(10)], true), Err(RefusedBy::StreamTime));
    }

    #[test]
    fn bursts_are_paid_back() {
        let limits = Limits { reverse_rate: Rate::from_mbps(123.04), ..Limits::default() };
        // 10 packets of 1538 bytes take 1 ms at 123.04 Mb/s.
        let bytes = size().wire() * 10;
        assert_eq!(rate_pause(&limits, bytes, Duration::ZERO), Span::from_millis(1));
        assert_eq!(rate_pause(&limits, bytes, Duration::from_ms(9)), Span::ZERO);
    }

    #[test]
    fn bursts_shrink_with_the_rate_so_that_paying_back_stays_short() {
        for bps in [0, 1, 8_000, 524_288, 10_000_000_000] {
            let limits = Limits { reverse_rate: Rate::from_bps(bps), ..Limits::default() };
            let burst = burst(&limits);
            assert!(burst <= BURST.get() && burst <= bps / 8, "{burst} bytes at {bps} b/s");
            if burst > 0 {
                assert!(rate_pause(&limits, Bytes::new(burst), Duration::ZERO) <= Span::from_secs(1));
            }
        }
    }

    #[test]
    fn charges_and_streams_share_the_bytes_of_a_session() {
        let limits = Limits { session_bytes: Bytes::new(4000), ..Limits::default() };
        let mut usage = Usage::default();
        assert_eq!(usage.charge(&limits, Bytes::new(3000)), Ok(()));
        let request = Request { size: size(), gaps: &[Duration::ZERO], reverse: false };
        assert_eq!(usage.admit(&limits, &request), Err(RefusedBy::SessionBytes));
        assert_eq!(usage.charge(&limits, Bytes::new(1001)), Err(RefusedBy::SessionBytes));
        assert_eq!(usage.charge(&limits, Bytes::new(u64::MAX)), Err(RefusedBy::SessionBytes));
        assert_eq!(usage.charge(&limits, Bytes::new(1000)), Ok(()));
    }
}

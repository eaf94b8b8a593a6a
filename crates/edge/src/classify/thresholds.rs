//! Where the rules draw their lines.

use headway_units::config_error::check;
use headway_units::{Bytes, ConfigError, Duration, Rate};
use serde::{Deserialize, Serialize};

/// Fewest packets that say something: a variation of ten gaps is known to about a quarter. Range 5 to 100.
const LEAST_PACKETS: u64 = 10;
/// Shortest time that says something: ten slots. Range 500 ms to 10 s.
const LEAST_TIME: Duration = Duration::from_ms(1_000);
/// Largest mean size of packets that carry no file: speech has 60 to 300 bytes, and a file fills its packets.
/// Range 200 to 1000 B.
const SMALL_PACKET: Bytes = Bytes::new(500);
/// Largest variation of equal gaps: a call with a gap of 20 ms and a jitter of 10 ms has 0.5, random gaps
/// have 1. Range 0.2 to 0.8.
const EQUAL_GAPS: f64 = 0.5;
/// Smallest mean gap of calls, whose packets have 10 to 60 ms of speech. A link sets smaller
/// ones. Range 1 to 10 ms.
const LEAST_GAP: Duration = Duration::from_ms(5);
/// Largest variation of the bytes in slots of a steady rate: three frames of video whose sizes vary by half
/// have 0.29. Range 0.1 to 0.5.
const STEADY: f64 = 0.35;
/// Smallest part of slots with packets where a flow sends all the time. Range 0.8 to 1.
const BUSY: f64 = 0.9;
/// Fastest flow that is taken for live video if its limit is unknown: full HD has 4 to 8
/// Mb/s. Range 1 to 50 Mb/s.
const CBR_RATE: Rate = Rate::from_bps(10_000_000);
/// Fewest small packets a second by which a receiver acknowledges a transfer that is no TCP: QUIC
/// does at least every 25 ms (RFC 9000 13.2.1 and 18.2), while feedback of video comes every 50 to
/// 250 ms. Range 25 to 38.
const LEAST_ACKS: f64 = 30.0;
/// Largest mean size of these: an ACK of QUIC over IPv6 has some 95 B, speech mostly 100 to 300. Range 80 to
/// 120 B.
const LARGEST_ACK: Bytes = Bytes::new(100);
/// Largest variation of sizes where a file fills all packets: a frame of video ends with a part of one, which
/// at 20 packets a frame varies them by 0.13. Range 0.05 to 0.12.
const FULL: f64 = 0.1;
/// Largest amount that somebody waits for: most parts of pages are below a tenth of it, and at 50 Mb/s it
/// takes 160 ms. Range 200 kB to 10 MB.
const LARGEST_ANSWER: Bytes = Bytes::new(1_000_000);
/// Longest time that somebody waits for an answer. Range 2 to 30 s.
const LONGEST_ANSWER: Duration = Duration::from_ms(5_000);
/// Fastest flow of small packets that a person or a game drives. Range 100 kb/s to 5 Mb/s.
const SMALL_RATE: Rate = Rate::from_bps(1_000_000);

/// Where the rules of [`classify`](super::classify()) draw their lines. The specification
/// gives none (wan 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Thresholds {
    /// Fewest packets that are judged.
    pub least_packets: u64,
    /// Shortest time that is judged.
    pub least_time: Duration,
    /// Largest mean size of small packets.
    pub small_packet: Bytes,
    /// Largest variation of gaps that are equal.
    pub equal_gaps: f64,
    /// Smallest mean gap that a sender sets.
    pub least_gap: Duration,
    /// Largest variation of the bytes in slots of a steady rate.
    pub steady: f64,
    /// Smallest part of slots with packets of a flow that sends all the time.
    pub busy: f64,
    /// Fastest steady flow that is no bulk if its limit is unknown.
    pub cbr_rate: Rate,
    /// Fewest small packets a second that are ACKs of a file.
    pub least_acks: f64,
    /// Their largest mean size.
    pub largest_ack: Bytes,
    /// Largest variation of sizes of packets that a file fills.
    pub full: f64,
    /// Largest burst that is an answer.
    pub largest_answer: Bytes,
    /// Longest time without a pause that is an answer.
    pub longest_answer: Duration,
    /// Fastest flow of small packets that is interactive.
    pub small_rate: Rate,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            least_packets: LEAST_PACKETS,
            least_time: LEAST_TIME,
            small_packet: SMALL_PACKET,
            equal_gaps: EQUAL_GAPS,
            least_gap: LEAST_GAP,
            steady: STEADY,
            busy: BUSY,
            cbr_rate: CBR_RATE,
            least_acks: LEAST_ACKS,
            largest_ack: LARGEST_ACK,
            full: FULL,
            largest_answer: LARGEST_ANSWER,
            longest_answer: LONGEST_ANSWER,
            small_rate: SMALL_RATE,
        }
    }
}

impl Thresholds {
    /// Checks what the types do not say.
    ///
    /// # Errors
    /// Names the key that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        check("least-packets", self.least_packets >= 2, "must be 2 at least")?;
        for (key, time) in [
            ("least-time", self.least_time),
            ("least-gap", self.least_gap),
            ("longest-answer", self.longest_answer),
        ] {
            check(key, time > Duration::ZERO, "must be above 0")?;
        }
        for (key, part) in [("equal-gaps", self.equal_gaps), ("steady", self.steady), ("busy", self.busy)] {
            check(key, part > 0.0 && part <= 1.0, "must be above 0 and at most 1")?;
        }
        for (key, number) in [("least-acks", self.least_acks), ("full", self.full)] {
            check(key, number >= 0.0, "must be 0 or above")?;
        }
        Ok(())
    }
}

//! What the packets of a flow look like.

use headway_units::{Bytes, Duration, Rate};
use serde::{Serialize, Serializer};

/// What limits the rate of a flow, as far as its monitor knows.
///
/// Passive estimates tell it of TCP; a crate below them cannot name their type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum LimitedBy {
    /// The sender has less to send than the path would take.
    Application,
    /// The window of the receiver is full.
    ReceiveWindow,
    /// The path, through the congestion window.
    Path,
    /// Nobody knows: all flows that are not TCP.
    #[default]
    Unknown,
}

impl LimitedBy {
    /// Returns its name in results, such as `receive-window`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// What the packets with data of a flow looked like, in the direction in which it has most (wan 2.20).
///
/// In JSON, names end in their unit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Features {
    /// Time from the first packet until now.
    #[serde(rename = "duration_ns", serialize_with = "ns")]
    pub duration: Duration,
    /// How many there were.
    pub packets: u64,
    /// Mean rate over that time.
    #[serde(rename = "rate_bps", serialize_with = "bps")]
    pub rate: Rate,
    /// Mean time between packets, pauses left out.
    #[serde(rename = "mean_gap_ns", serialize_with = "ns")]
    pub mean_gap: Duration,
    /// Standard deviation of those times in parts of their mean; 0 for equal gaps, 1 for random ones.
    pub gap_variation: f64,
    /// Mean size.
    #[serde(rename = "mean_size_bytes", serialize_with = "bytes")]
    pub mean_size: Bytes,
    /// Standard deviation of sizes in parts of their mean.
    pub size_variation: f64,
    /// Part of the slots that have a packet, 0 to 1.
    pub busy: f64,
    /// Burstiness: standard deviation of the bytes in a slot in parts of their mean; 0 for a constant rate.
    pub slot_variation: f64,
    /// Pauses, that which lasts included.
    pub pauses: u64,
    /// Mean bytes between two pauses.
    #[serde(rename = "burst_bytes", serialize_with = "bytes")]
    pub burst: Bytes,
    /// What limits its rate.
    pub limited_by: LimitedBy,
    /// Packets that the other end sent in a second, of TCP those with data; 0 where they are not known.
    pub answers_per_second: f64,
    /// Their mean size.
    #[serde(rename = "answer_bytes", serialize_with = "bytes")]
    pub answer: Bytes,
}

impl Features {
    /// Returns these with what the packets of the other end looked like.
    #[must_use]
    pub fn with_answers(self, other: &Features) -> Features {
        let seconds = other.duration.secs_f64().max(f64::MIN_POSITIVE);
        Features { answers_per_second: other.packets as f64 / seconds, answer: other.mean_size, ..self }
    }
}

fn ns<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i64(time.ns())
}

fn bps<S: Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(rate.bps())
}

fn bytes<S: Serializer>(bytes: &Bytes, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(bytes.get())
}

//! What `headway measure --json` prints.

use std::collections::BTreeMap;

pub use headway_units::Direction;
use serde::{Deserialize, Serialize};

/// Returns the direction of the probes in words, as seen from the host that runs `headway measure`.
pub fn direction_words(direction: Direction) -> &'static str {
    match direction {
        Direction::Forward => "from here to the server",
        Direction::Reverse => "from the server to here",
    }
}

/// The answer, with units in the keys. Rates count all bytes on the wire.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct MeasureLine {
    /// Always `measurement`; for errors it is `error`.
    pub r#type: String,
    /// The host that was measured, as given on the command line.
    pub host: String,
    /// Which way the probes went.
    pub direction: Direction,
    /// Name of the method.
    pub method: String,
    /// Name of the trained model, with the method `learned`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When the measurement started, nanoseconds since 1970.
    pub started_unix_ns: u64,
    /// The same as text, because many readers of JSON keep only 53 bits of a number.
    pub started_rfc3339: String,
    /// When it ended.
    pub finished_unix_ns: u64,
    /// See `started_rfc3339`.
    pub finished_rfc3339: String,
    /// Time in between.
    pub duration_ms: f64,
    /// When the first of the streams that `available_bps` rests on was sent: it is about the time from then
    /// to `finished_unix_ns`. Absent where there were none, as for "at least".
    pub sampled_unix_ns: Option<u64>,
    /// Time between the starts of two measurements of a series, which may be longer than requested; absent
    /// for a single measurement, and zero for measurements back to back.
    pub interval_ms: Option<f64>,
    /// The available bandwidth; absent without an answer.
    pub available_bps: Option<u64>,
    /// Lower end of the 90 % interval.
    pub available_low_bps: Option<u64>,
    /// Absent if more bandwidth is available than the sender can probe.
    pub available_high_bps: Option<u64>,
    /// Whether the available bandwidth changed during the measurement, if the method can tell;
    /// `available_bps` is then the average.
    #[serde(default)]
    pub changed: bool,
    /// The available bandwidth at first and in the end; absent if it did not change.
    pub before_bps: Option<u64>,
    /// See `before_bps`.
    pub after_bps: Option<u64>,
    /// The longest time in which nothing arrived; absent if the path did not stall. `available_bps`
    /// is then the average.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest_stall_us: Option<f64>,
    /// The share of the time in which the path stalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stalled_share: Option<f64>,
    /// The available bandwidth between stalls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_stalls_bps: Option<u64>,
    /// Capacity of the narrow link; absent if it is not known.
    pub capacity_bps: Option<u64>,
    /// The kind of path; absent if the method does not determine it.
    pub path_kind: Option<String>,
    /// Wire bytes that a shaper lets pass before it enforces its sustained rate; absent if
    /// no shaper was found.
    pub bucket_bytes: Option<u64>,
    /// Highest average rate of a stream.
    pub highest_rate_bps: u64,
    /// Size of a probe packet on the wire.
    pub packet_wire_bytes: u64,
    /// Streams that the answer rests on.
    pub streams_used: u32,
    /// Streams that could not be used, by reason.
    pub streams_refused: BTreeMap<String, u32>,
    /// Bytes of all probes on the wire.
    pub probe_bytes: u64,
    /// Bytes of the control connection.
    pub control_bytes: u64,
    /// Probe packets.
    pub packets_sent: u64,
    /// Probe packets that did not arrive.
    pub packets_lost: u64,
    /// Queueing delay that the median stream added.
    pub added_delay_median_us: f64,
    /// The most that a stream added.
    pub added_delay_max_us: f64,
    /// An estimate, in full-size packets; absent if the rate of the cross traffic is not known.
    pub others_lost: Option<f64>,
    /// RTT without queueing.
    pub rtt_us: f64,
    /// Source of the receive times, such as the kernel.
    pub receive_stamps: String,
    /// Source of the send times.
    pub transmit_stamps: String,
    /// Whether a signal ended the measurement, so that the result is partial.
    pub interrupted: bool,
    /// The reason why there is no answer.
    pub error: Option<String>,
}

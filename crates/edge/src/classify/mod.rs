//! What a flow is for, by how its packets come (wan F68).
//!
//! A [`Meter`] sees the packets of a flow and tells [`Features`], as does a [`Window`] by what a program of
//! the kernel has summed up; [`classify`] judges them by rules that a person can read, with [`Thresholds`].
//! It does not look at addresses, ports or payload, so encrypted flows are judged as others are.

mod features;
mod meter;
mod thresholds;
mod window;

use std::fmt;

use serde::Serialize;

pub use features::{Features, LimitedBy};
pub use meter::{Meter, PAUSE, SLOT};
pub use thresholds::Thresholds;
pub use window::{TURN, Window};

/// What a flow is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, strum::Display, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Behaviour {
    /// It moves much data and takes what it gets.
    Bulk,
    /// Somebody waits for each of its answers.
    Interactive,
    /// A call or live video, which sends at a rate of its own.
    Cbr,
    /// Its packets do not tell, or too few were seen.
    Unknown,
}

impl Behaviour {
    /// All of them.
    pub const ALL: [Behaviour; 4] =
        [Behaviour::Bulk, Behaviour::Interactive, Behaviour::Cbr, Behaviour::Unknown];

    /// Whether delay hurts it, and a limit would not help others much.
    pub const fn is_latency_sensitive(self) -> bool {
        matches!(self, Behaviour::Interactive | Behaviour::Cbr)
    }

    /// Returns its name in results, such as `bulk`.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The rule by which a flow was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// Too few packets or too short a time.
    TooLittle,
    /// Packets at equal gaps that are small or few, also in bursts between silences.
    EqualGaps,
    /// About as many bytes in every slot, at a rate that nothing in the network sets.
    SteadyRate,
    /// Bursts that are larger than what a person waits for.
    LargeBursts,
    /// Large packets for longer than a person waits, without a pause.
    NoPause,
    /// Bursts of the size of an answer, with pauses between them.
    AnswersAndPauses,
    /// Few and small packets at changing gaps.
    SmallPackets,
    /// No rule applies.
    NoRule,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::TooLittle => "too little of it was seen",
            Rule::EqualGaps => "its packets are small or few, and come at equal gaps",
            Rule::SteadyRate => "its rate is steady, and nothing in the network sets it",
            Rule::LargeBursts => "it sends more at a time than somebody waits for",
            Rule::NoPause => "it sends large packets without a pause",
            Rule::AnswersAndPauses => "it sends small amounts with pauses between them",
            Rule::SmallPackets => "its packets are few and small, and come at changing gaps",
            Rule::NoRule => "no rule applies to it",
        })
    }
}

/// Returns what a flow is for, and by which rule: the first one that applies.
pub fn classify(features: &Features, thresholds: &Thresholds) -> (Behaviour, Rule) {
    let limits = thresholds;
    let is_held = matches!(features.limited_by, LimitedBy::Path | LimitedBy::ReceiveWindow);
    let is_small = features.mean_size <= limits.small_packet;
    let lasts = features.duration >= limits.longest_answer;
    let is_much = features.burst >= limits.largest_answer;
    if is_held && is_much {
        return (Behaviour::Bulk, Rule::LargeBursts);
    }
    if features.duration < limits.least_time || features.packets < limits.least_packets {
        // Few packets in a long time say enough.
        let is_idle = lasts && features.pauses > 0;
        return if is_idle {
            (Behaviour::Interactive, Rule::AnswersAndPauses)
        } else {
            (Behaviour::Unknown, Rule::TooLittle)
        };
    }
    // A slow stream of large packets has slots without any.
    let is_slow = !is_held && features.rate <= limits.small_rate;
    match features.pauses {
        _ if (is_small || is_slow) && has_equal_gaps(features, limits) => (Behaviour::Cbr, Rule::EqualGaps),
        _ if !is_held && has_steady_rate(features, limits) => (Behaviour::Cbr, Rule::SteadyRate),
        _ if is_much => (Behaviour::Bulk, Rule::LargeBursts),
        0 if !is_small && lasts => (Behaviour::Bulk, Rule::NoPause),
        1.. => (Behaviour::Interactive, Rule::AnswersAndPauses),
        0 if is_small && features.rate <= limits.small_rate => (Behaviour::Interactive, Rule::SmallPackets),
        0 => (Behaviour::Unknown, Rule::NoRule),
    }
}

/// Whether the sender spaces packets, also within bursts. A link spaces them, too, but more closely.
fn has_equal_gaps(features: &Features, limits: &Thresholds) -> bool {
    features.gap_variation <= limits.equal_gaps && features.mean_gap >= limits.least_gap
}

/// Largest variation of the gaps of packets that a link spaces, not a camera: frames of n packets have the
/// root of n - 1. Range 0.7 to 1.
const FRAMES: f64 = 0.9;

/// Whether packets are filled by a file, and their receiver acknowledges them, as QUIC's does.
fn is_acknowledged(features: &Features, limits: &Thresholds) -> bool {
    features.limited_by == LimitedBy::Unknown
        && features.size_variation <= limits.full
        && features.gap_variation <= FRAMES
        && features.answers_per_second >= limits.least_acks
        && features.answer <= limits.largest_ack
}

/// Whether as much is sent all the time. A link has a fast flow do so, too, if its limit is unknown, and any
/// that is acknowledged.
fn has_steady_rate(features: &Features, limits: &Thresholds) -> bool {
    let is_own = features.limited_by == LimitedBy::Application
        || features.rate <= limits.cbr_rate && !is_acknowledged(features, limits);
    is_own && features.busy >= limits.busy && features.slot_variation <= limits.steady
}

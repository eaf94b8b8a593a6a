//! What a user says about a choice.

use std::str::FromStr;

use headway_units::{Bytes, Duration};
use serde::{Deserialize, Serialize};

/// By what a path is chosen.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::Display, strum::IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// By the time that transfers take: from what is free, the round-trip time, and losses.
    #[default]
    TransferTime,
    /// By what is free.
    Available,
    /// By what is free, among paths whose round-trip time is no longer than the floor.
    AvailableWithLatencyFloor,
    /// By the round-trip time.
    Latency,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Strategy; 4] =
        [Strategy::TransferTime, Strategy::Available, Strategy::AvailableWithLatencyFloor, Strategy::Latency];

    /// Returns the name in files and on command lines.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The error of a text that names no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not `transfer-time`, `available`, `available-with-latency-floor` or `latency`")]
pub struct UnknownStrategy(String);

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Strategy, UnknownStrategy> {
        let found = Strategy::ALL.into_iter().find(|one| one.name().eq_ignore_ascii_case(text.trim()));
        found.ok_or_else(|| UnknownStrategy(text.to_owned()))
    }
}

/// How to choose, and what that may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// By what.
    pub strategy: Strategy,
    /// The longest round-trip time of a path, for the strategy that has such a floor.
    pub latency_floor: Duration,
    /// The size of the transfers that matter, for the strategy that compares their times; none if it is to be
    /// learned from own traffic.
    pub transfer: Option<Bytes>,
    /// A path replaces another if it is better by more than this share. Range 0 to 1.
    pub tolerance: f64,
    /// Time between looks: a decision takes no longer once something is known. More than 0.
    pub interval: Duration,
    /// The most that is sent over a path within any hour, on the wire.
    pub max_bytes_per_hour: Bytes,
    /// The most that is sent over a path within any 30 days, on the wire.
    pub max_bytes_per_month: Option<Bytes>,
    /// Size of the largest packet on the wire.
    pub packet: Bytes,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            strategy: Strategy::TransferTime,
            transfer: None,
            latency_floor: Duration::from_ms(200),
            tolerance: 0.1,
            interval: Duration::from_ms(10_000),
            max_bytes_per_hour: Bytes::new(20_000_000),
            max_bytes_per_month: None,
            packet: Bytes::new(1_538),
        }
    }
}

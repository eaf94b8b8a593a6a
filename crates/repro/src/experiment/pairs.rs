//! Packet pairs and trains over chains of links (wan 4.7).

use serde::Deserialize;

use super::amount::Count;

/// Packet sizes of the cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// All of 1500 bytes.
    Fixed,
    /// Uniform between 40 and 1500 bytes.
    Random,
}

impl Sizes {
    /// Returns the name in tables and keys.
    pub const fn name(self) -> &'static str {
        match self {
            Sizes::Fixed => "fixed",
            Sizes::Random => "random",
        }
    }
}

fn never() -> Vec<u32> {
    vec![0]
}

/// Parameters of [`Study::Capacities`](super::Study::Capacities).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Capacities {
    /// Capacities of the links in Mb/s.
    pub links: Vec<u64>,
    /// Kinds of cross traffic.
    pub sizes: Vec<Sizes>,
    /// Loads of every link in per cent.
    pub loads: Vec<u32>,
    /// Numbers of pairs.
    pub pairs: Vec<usize>,
    /// Shares of time in which no link has cross traffic, in per cent; at the start of every 200 ms.
    #[serde(default = "never")]
    pub silent: Vec<u32>,
    /// Runs with different seeds.
    pub runs: Count,
}

/// Parameters of [`Study::PairDelays`](super::Study::PairDelays).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairDelays {
    /// Capacities of the links in Mb/s.
    pub links: Vec<u64>,
    /// Load of every link in per cent.
    pub load: u32,
    /// Number of pairs.
    pub pairs: Count,
}

/// Parameters of [`Study::NarrowLinks`](super::Study::NarrowLinks).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NarrowLinks {
    /// Capacities of the links in Mb/s; the first link with the smallest is the narrow one.
    pub paths: Vec<Vec<u64>>,
    /// Rules by which a step is recognised: `step`, `ratio` or `deviation`.
    pub rules: Vec<StepRule>,
    /// Kinds of cross traffic.
    pub sizes: Vec<Sizes>,
    /// Loads of every link in per cent.
    pub loads: Vec<u32>,
    /// Searches per path.
    pub runs: Count,
}

/// Rules of [`headway_estimate::hire::Rule`] with the published threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepRule {
    /// In comparison with the two previous groups.
    Step,
    /// In comparison with the mean of all previous groups; at most the published number of trains.
    Ratio,
    /// By the growth of the standard deviation in Mb/s, as printed.
    Deviation,
}

impl StepRule {
    /// Returns the name in tables and keys.
    pub const fn name(self) -> &'static str {
        match self {
            StepRule::Step => "step",
            StepRule::Ratio => "ratio",
            StepRule::Deviation => "deviation",
        }
    }
}

/// Parameters of [`Study::Prefixes`](super::Study::Prefixes).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefixes {
    /// Capacities of the links in Mb/s.
    pub links: Vec<u64>,
    /// Kinds of cross traffic.
    pub sizes: Vec<Sizes>,
    /// Load of every link in per cent.
    pub load: u32,
    /// Numbers of links that hidden packets cross.
    pub prefixes: Vec<u32>,
    /// Hidden packets per train.
    pub hidden: u32,
    /// Trains per prefix.
    pub trains: usize,
    /// Runs with different seeds.
    pub runs: Count,
}

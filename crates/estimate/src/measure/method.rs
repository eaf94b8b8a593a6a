//! The methods that a measurement can use.

use std::fmt;
use std::str::FromStr;

use crate::{MultiRate, SingleRate};
use headway_units::{Bytes, Rate};

/// An estimator together with the streams it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Growth of one-way delay with a Bayesian estimate over single-rate streams: the most accurate for its bytes, and
    /// the default.
    #[default]
    Response,
    /// Multi-rate streams, each of which yields an estimate that the next streams follow.
    MultiRate(MultiRate),
    /// Single-rate streams: a binary search judges whether the rate of each is above the available bandwidth.
    SingleRate(SingleRate),
}

/// All methods with a one-line description, the default first.
const METHODS: [(Method, &str); 15] = [
    (Method::Response, "growth of one-way delay, Bayesian estimate over streams (default)"),
    (Method::MultiRate(MultiRate::Bass), "p-streams, multi-pass BASS, excursion search"),
    (Method::MultiRate(MultiRate::Excursion), "p-streams, excursion search on raw gaps"),
    (Method::MultiRate(MultiRate::PathChirp), "chirps, excursions of queueing delay"),
    (
        Method::MultiRate(MultiRate::ReflectedChirp),
        "chirps densest around the estimate, excursions, smoothed as in ASSOLO",
    ),
    (Method::MultiRate(MultiRate::PrcMtDp1), "p-streams, PRC-MT per rate: last rate before the first above"),
    (Method::MultiRate(MultiRate::PrcMtDp2), "p-streams, PRC-MT per rate: last rate judged not above"),
    (Method::SingleRate(SingleRate::Pathload), "binary search, PCT and PDT trend tests of Pathload"),
    (Method::SingleRate(SingleRate::ImrAvg), "binary search, trend tests on averaged delays"),
    (Method::SingleRate(SingleRate::ImrWavelet), "binary search, trend tests on wavelet-denoised delays"),
    (Method::SingleRate(SingleRate::BassImrAvg), "BASS before imr-avg"),
    (Method::SingleRate(SingleRate::BassImrWavelet), "BASS before imr-wavelet"),
    (Method::SingleRate(SingleRate::PrcMt), "binary search, receive rate against send rate"),
    (Method::SingleRate(SingleRate::BassPrcMt), "BASS before prc-mt"),
    (Method::MultiRate(MultiRate::Null), "returns the send rate; a baseline for the others"),
];

/// Capacity up to which a method keeps to [`SMALL_BUDGET`].
const SLOW: Rate = Rate::from_bps(200_000_000);
/// Packets that the default method may send on slow paths: 2 MB at 1538 B.
const SMALL_BUDGET: u64 = 1_280;
/// Packets that the default method may send on fast paths: 6 MB at 1538 B.
///
/// There, streams of the same number of packets are shorter, and each sees less of the cross traffic.
const LARGE_BUDGET: u64 = 3_900;
/// Factor by which this budget grows for the other methods, which need more streams for an answer.
const SEARCH_FACTOR: u64 = 4;

impl Method {
    /// Yields all methods in the order of their help text, the default first.
    pub fn all() -> impl Iterator<Item = Method> {
        METHODS.iter().map(|(method, _)| *method)
    }

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Method::Response => "response",
            Method::MultiRate(method) => method.name(),
            Method::SingleRate(method) => method.name(),
        }
    }

    /// Returns a one-line description of the method.
    pub fn summary(self) -> &'static str {
        METHODS.iter().find(|(method, _)| *method == self).map_or("", |(_, summary)| summary)
    }

    /// Returns the default budget of the method for a path whose capacity may be known.
    pub(super) fn budget(self, packet: Bytes, capacity: Option<Rate>) -> Bytes {
        let packets =
            if capacity.is_none_or(|capacity| capacity <= SLOW) { SMALL_BUDGET } else { LARGE_BUDGET };
        match self {
            Method::Response => packet * packets,
            _ => packet * (packets * SEARCH_FACTOR),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The error returned for an unknown method name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no method `{name}`; {}", advice(name))]
pub struct UnknownMethod {
    name: String,
}

/// Offers the most similar name, or all of them.
fn advice(name: &str) -> String {
    match headway_units::nearest(name, Method::all().map(Method::name)) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("methods are {}", Method::all().map(Method::name).collect::<Vec<_>>().join(", ")),
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Method, UnknownMethod> {
        let found = Method::all().find(|method| method.name().eq_ignore_ascii_case(name.trim()));
        found.ok_or_else(|| UnknownMethod { name: name.to_owned() })
    }
}

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
    /// Yields all methods in the order of their help text: the default first, the baseline last.
    pub fn all() -> impl Iterator<Item = Method> {
        let estimators = MultiRate::ALL.into_iter().filter(|method| *method != MultiRate::Null);
        let searches = SingleRate::ALL.into_iter().map(Method::SingleRate);
        let methods = estimators.map(Method::MultiRate).chain(searches);
        [Method::Response].into_iter().chain(methods).chain([Method::MultiRate(MultiRate::Null)])
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
    pub const fn summary(self) -> &'static str {
        match self {
            Method::Response => "growth of one-way delay, Bayesian estimate over streams (default)",
            Method::MultiRate(method) => method.summary(),
            Method::SingleRate(method) => method.summary(),
        }
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

//! The methods that a measurement can use.

use std::fmt;
use std::str::FromStr;

use crate::{MultiRate, SingleRate};
use headway_learned::{Model, Task};
use headway_units::{Bytes, Rate};

/// An estimator together with the streams it needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Growth of one-way delay with a Bayesian estimate over single-rate streams: the most accurate for its
    /// bytes, and the default.
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
    /// The learned method; the model says whether it is one of streams of several rates
    /// ([`Method::of_model`]).
    pub const LEARNED: Method = Method::MultiRate(MultiRate::Learned);

    /// Returns the method of a model; `None` if the model reads no streams.
    pub fn of_model(model: &Model) -> Option<Method> {
        match model.task() {
            Task::MultiRate => Some(Method::LEARNED),
            Task::SingleRate => Some(Method::SingleRate(SingleRate::Learned)),
            Task::SabesNn | Task::SabesKde => None,
        }
    }

    /// Yields all methods that have a name, in the order of their help text.
    pub fn named() -> impl Iterator<Item = Method> {
        Method::all().chain([Method::LEARNED])
    }

    /// Yields all methods that need no model in the order of their help text: the default
    /// first, the baseline last.
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
    match headway_units::nearest(name, Method::named().map(Method::name)) {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => format!("methods are {}", Method::named().map(Method::name).collect::<Vec<_>>().join(", ")),
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;

    fn from_str(name: &str) -> Result<Method, UnknownMethod> {
        let found = Method::named().find(|method| method.name().eq_ignore_ascii_case(name.trim()));
        found.ok_or_else(|| UnknownMethod { name: name.to_owned() })
    }
}

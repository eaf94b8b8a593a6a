//! Checks of groups whose flows come and go.

use headway_traffic::{ArrivalSpec, MIN_THINK, SizeDistribution};
use headway_units::config_error::check;
use headway_units::{Bytes, ConfigError, Duration};

use crate::check_traffic::MAX_RATE;
use crate::model::FlowSpec;

/// Most flows of one group in a run; more would take hours.
const MAX_ARRIVALS: f64 = 1e9;

/// Most sessions of a group: as many flows as a simulated network can hold.
const MAX_SESSIONS: u64 = 1 << 22;

/// Checks the arrivals of the group in `table`, in a run of this duration.
pub(crate) fn check_arrivals(
    table: &str,
    flow: &FlowSpec,
    arrivals: &ArrivalSpec,
    duration: Duration,
) -> Result<(), ConfigError> {
    let in_flow = |key: &str, right: bool, rule: &str| check(&format!("{table}.{key}"), right, rule);
    in_flow("count", flow.count == 1, "cannot be combined with `arrivals`, which have `flows`")?;
    in_flow("stagger", flow.stagger == Duration::ZERO, "cannot be combined with `arrivals`")?;
    in_flow("application-rate", flow.application_rate.is_none(), "cannot be combined with `arrivals`")?;
    in_flow("read-rate", flow.read_rate.is_none(), "cannot be combined with `arrivals`")?;
    let twice = flow.size.is_some() && arrivals.size_distribution.is_some();
    in_flow("size", !twice, "is also given as a `size-distribution`: give one of them")?;
    let check = |key: &str, right: bool, rule: &str| check(&format!("{table}.arrivals{key}"), right, rule);
    let given = [
        arrivals.kind.is_some(),
        arrivals.rate.is_some(),
        arrivals.per_second.is_some(),
        arrivals.times.is_some(),
        arrivals.sessions.is_some(),
    ];
    let one = given.into_iter().filter(|given| *given).count() == 1;
    check("", one, "needs one of `kind`, `rate`, `per-second`, `times` and `sessions`")?;
    let sessions = arrivals.sessions.is_none_or(|sessions| (1..=MAX_SESSIONS).contains(&sessions));
    check(".sessions", sessions, "must be 1 to 4194304")?;
    let together = arrivals.sessions.is_some() == arrivals.think.is_some();
    check(".think", together, "belongs to `sessions`, which need it: the mean time between two flows")?;
    let long = arrivals.think.is_none_or(|think| think >= MIN_THINK);
    check(".think", long, "must be at least 1 ms")?;
    if let Err((key, rule)) = arrivals.crowd() {
        return check(&format!(".{key}"), false, &rule);
    }
    let sizes = flow.arrival_sizes();
    let known = sizes.is_some() || !arrivals.needs_size();
    check("", known, "needs a `size-distribution`, or the group a `size`")?;
    check("", sizes.is_none_or(|sizes| sizes.mean() > Bytes::ZERO), "needs sizes of more than 0")?;
    let right = sizes.is_none_or(|sizes| match sizes {
        SizeDistribution::Lognormal { spread, .. } => (0.0..=10.0).contains(&spread),
        SizeDistribution::Pareto { shape, .. } => shape > 1.0 && shape <= 100.0,
        SizeDistribution::Fixed { .. } | SizeDistribution::Exponential { .. } => true,
    });
    let rule = "needs a `spread` of 0 to 10, or a `shape` of more than 1 and at most 100";
    check(".size-distribution", right, rule)?;
    check(".flows", arrivals.flows != Some(0), "must be at least 1")?;
    check(
        ".rate",
        arrivals.rate.is_none_or(|rate| rate.bps() > 0 && rate <= MAX_RATE),
        "must be more than 0",
    )?;
    let intensity = sizes.and_then(|sizes| arrivals.intensity(sizes));
    check(".per-second", intensity.is_none_or(|rate| rate > 0.0), "must be more than 0")?;
    let most = arrivals.sessions.zip(arrivals.think).map(|(count, think)| count as f64 / think.secs_f64());
    // Lists and crowds have a number and no rate.
    let expected = intensity.or(most).unwrap_or(f64::INFINITY) * duration.secs_f64();
    let expected = expected.min(arrivals.count() as f64);
    let stays = sizes.is_none() && arrivals.count() > MAX_SESSIONS;
    check(".flows", !stays, "must be at most 4194304 if they have no size, as they stay")?;
    check("", expected <= MAX_ARRIVALS, "would be more than 1000000000 flows")?;
    let ascending = arrivals.times.as_ref().is_none_or(|times| times.is_sorted());
    check(".times", ascending, "must be in ascending order")
}

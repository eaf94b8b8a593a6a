//! Checks the sources of cross traffic.

use headway_core::mistake::check;
use headway_core::{Bytes, Duration, Mistake};

use crate::spec::{Cross, MAX_RATE, MIN_RATE, Model, RATE_RULE};

/// Smallest packet of mixed sizes, in bytes: TCP's ACK without options, and the smallest of the thesis.
const LEAST_SIZE: u64 = 40;
/// Largest share of a period that may be silent.
const MOST_SILENT: f64 = 0.99;

/// Checks the values of sources; errors name them `cross[0]` and so on.
pub(crate) fn check_cross(sources: &[Cross]) -> Result<(), Mistake> {
    for (index, cross) in sources.iter().enumerate() {
        let check = |key: &str, right: bool, rule: &str| check(&format!("cross[{index}].{key}"), right, rule);
        check("rate", MIN_RATE <= cross.rate && cross.rate <= MAX_RATE, RATE_RULE)?;
        check("size", (46..=9000).contains(&cross.size.get()), "must lie between 46 and 9000 bytes")?;
        check(
            "batch",
            cross.batch.is_none() || cross.model == Model::Bursty,
            "belongs to the model `bursty`",
        )?;
        let batch = cross.batch_mean();
        check("batch", (1.0..=10_000.0).contains(&batch), "must lie between 1 and 10000 packets")?;
        check_pareto(cross, check)?;
        check("stop", cross.stop.is_none_or(|stop| stop > cross.start), "must be later than `start`")?;
    }
    Ok(())
}

/// Checks the keys of the Pareto model by `check`, which takes key, whether it is right, and the rule.
fn check_pareto(
    cross: &Cross,
    check: impl Fn(&str, bool, &str) -> Result<(), Mistake>,
) -> Result<(), Mistake> {
    let given = [
        ("least-size", cross.least_size.is_some()),
        ("sources", cross.sources.is_some()),
        ("shape", cross.shape.is_some()),
        ("silence", cross.silence.is_some()),
        ("period", cross.period.is_some()),
    ];
    for (key, given) in given {
        check(key, !given || cross.model == Model::Pareto, "belongs to the model `pareto`")?;
    }
    let least = cross.least_size.unwrap_or(cross.size);
    let sized = Bytes::new(LEAST_SIZE) <= least && least <= cross.size;
    check("least-size", sized, "must lie between 40 bytes and `size`")?;
    let sources = cross.sources.is_none_or(|sources| (1..=1_000).contains(&sources));
    check("sources", sources, "must lie between 1 and 1000")?;
    // The nearer to 1, the longer a source may be silent before the mean rate shows.
    let shape = cross.shape.is_none_or(|shape| shape > 1.0 && shape <= 10.0);
    check("shape", shape, "must be more than 1 and at most 10")?;
    let silence = cross.silence.unwrap_or_default();
    check("silence", silence >= Duration::ZERO, "must not be negative")?;
    let together = silence == Duration::ZERO || cross.period.is_some();
    check("period", together, "must be given with `silence`")?;
    // A silent share close to 1 would raise the rate beyond all bounds in the rest.
    let short = silence <= cross.period.unwrap_or_default().scale(MOST_SILENT);
    check("silence", short, "must be at most 99 % of `period`")
}

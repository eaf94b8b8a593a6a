//! Search for one number in an interval.

/// Halvings of an interval: 1e-18 of it remains.
const HALVINGS: u32 = 60;
/// Steps of a search for a maximum; each keeps two thirds of the interval, so that 1e-17 of it remains.
const THIRDS: u32 = 96;

/// Returns where `holds`, true at `low` and false at `high`, changes; `low` may be the greater of the two.
pub(super) fn last_that_holds(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        *(if holds(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

/// Returns where `value` is greatest between `low` and `high`, if it has one maximum there.
pub(super) fn greatest(mut low: f64, mut high: f64, value: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..THIRDS {
        let third = (high - low) / 3.0;
        let (left, right) = (low + third, high - third);
        if value(left) < value(right) { low = left } else { high = right }
    }
    0.5 * (low + high)
}

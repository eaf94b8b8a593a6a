//! Goals for a method over all paths, with its results.

use serde::Serialize;

use super::scored::Scored;
use super::tally::Tally;

/// Share of answers whose 90 % interval contains the truth: range over all paths, and minimum in any class.
const COVERED: (f64, f64) = (0.85, 0.95);
const COVERED_IN_CLASS: f64 = 0.75;
/// Error of answers with a narrow interval: median and 95th percentile.
const ERROR: (f64, f64) = (0.05, 0.20);
const REFUSED: f64 = 0.10;
/// Cross-traffic packets lost per measurement, on paths whose buffers hold at least `BUFFER` packets.
const LOST: f64 = 0.1;
const BUFFER: u64 = 20;
/// Extra waiting time of cross-traffic packets, median and 95th percentile, ms.
const WAITED: (f64, f64) = (5.0, 20.0);

/// One goal.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Goal {
    pub(super) goal: String,
    pub(super) reached: bool,
    pub(super) found: String,
}

fn goal(goal: impl Into<String>, reached: bool, found: impl Into<String>) -> Goal {
    Goal { goal: goal.into(), reached, found: found.into() }
}

/// Returns the goals that apply to these answers.
pub(super) fn goals(classes: &[Tally], all: &Tally, scored: &[Scored]) -> Vec<Goal> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let mut goals = Vec::new();
    if let Some(covered) = all.coverage() {
        let reached = (COVERED.0..=COVERED.1).contains(&covered);
        goals.push(goal(
            "the 90 % interval contains the truth in 85 to 95 % of all answers",
            reached,
            percent(covered),
        ));
    }
    let worst = classes.iter().filter_map(|class| Some((class.coverage()?, &class.class)));
    if let Some((covered, name)) = worst.min_by(|one, other| one.0.total_cmp(&other.0)) {
        let found = format!("{} in the worst class, {name}", percent(covered));
        goals.push(goal("and in at least 75 % in every class", covered >= COVERED_IN_CLASS, found));
    }
    if let Some((median, p95)) = all.narrow_error_median.zip(all.narrow_error_p95) {
        let found = format!("{} and {} of {} answers", percent(median), percent(p95), all.narrow);
        let reached = median <= ERROR.0 && p95 <= ERROR.1;
        goals.push(goal(
            "with intervals narrower than 15 % to either side, the median error is at most 5 %, the 95th percentile 20 %",
            reached,
            found,
        ));
    }
    goals.push(goal(
        "at most 10 % of the measurements have no answer",
        all.refused() <= REFUSED,
        percent(all.refused()),
    ));
    let roomy: Vec<&Scored> = scored.iter().filter(|one| one.least_buffer_packets >= BUFFER).collect();
    let lost = Tally::new("buffers of 20 packets and more", &roomy).others_lost;
    goals.push(goal(
        "at most 1 cross-traffic packet is lost in 10 measurements where buffers have room for 20 packets",
        lost <= LOST,
        format!("{:.1}", lost * 10.0),
    ));
    if let Some((median, p95)) = all.waited_median_ms.zip(all.waited_p95_ms) {
        goals.push(goal(
            "cross-traffic packets wait at most 5 ms longer in the median, and 20 ms in 95 % of the measurements",
            median <= WAITED.0 && p95 <= WAITED.1,
            format!("{median:.1} and {p95:.1} ms"),
        ));
    }
    goals
}

//! What the errors of gaps mean: for Rapid, and beside what the features F10 to F12 of TCP Rapid demand.

use super::{CellRuns, Load, Mechanism};
use crate::accuracy::cells::reached;

/// A standard deviation up to this share of the gap is good enough for Rapid: its four rates are 15 % apart,
/// and a smoothing of 16 gaps leaves a quarter of the error (0.1 to 0.5 is sensible).
const GOOD: f64 = 0.25;

/// What is demanded of the median mean and standard deviation of a row with one flow, in microseconds.
struct Demand {
    mechanisms: [Mechanism; 2],
    text: &'static str,
    /// The only load at which it is demanded.
    load: Option<Load>,
    is_met: fn(f64, f64) -> bool,
}

/// A busy machine is what the thesis calls load.
const DEMANDS: [Demand; 4] = [
    Demand {
        mechanisms: [Mechanism::Spin, Mechanism::ModelSpin],
        text: "mean within (-2 us, 0) (rapid F10)",
        load: None,
        is_met: |mean, _| -2.0 < mean && mean < 0.0,
    },
    Demand {
        mechanisms: [Mechanism::Timer, Mechanism::ModelTimer],
        text: "|mean| below 1 us (rapid F11)",
        load: None,
        is_met: |mean, _| mean.abs() < 1.0,
    },
    Demand {
        mechanisms: [Mechanism::Timer, Mechanism::Timer],
        text: "std above 10 us under load (rapid F11)",
        load: Some(Load::Busy),
        is_met: |_, deviation| deviation > 10.0,
    },
    Demand {
        mechanisms: [Mechanism::Pause, Mechanism::ModelPause],
        text: "|mean| below 0.4 us and std below 0.5 us (rapid F12)",
        load: None,
        is_met: |mean, deviation| mean.abs() < 0.4 && deviation < 0.5,
    },
];

/// Returns all sentences below the table.
pub(super) fn sentences(cells: &[CellRuns]) -> Vec<String> {
    let valid: Vec<&CellRuns> =
        cells.iter().filter(|cell| cell.flows == 1 && !cell.runs.is_empty()).collect();
    let good = Mechanism::ALL.into_iter().filter_map(|mechanism| highest_good(mechanism, &valid));
    let demands = DEMANDS.iter().flat_map(|demand| demand.judge(&valid));
    let failed = cells.iter().filter_map(|cell| Some((cell.mechanism.name(), cell.failures.first()?)));
    let failed = failed.map(|(name, reason)| format!("{name}: {reason}"));
    good.chain(demands).chain(failed).collect()
}

/// Says up to which rate the gaps of one flow on a quiet machine are good enough for Rapid.
fn highest_good(mechanism: Mechanism, cells: &[&CellRuns]) -> Option<String> {
    let mut own: Vec<&&CellRuns> =
        cells.iter().filter(|cell| cell.mechanism == mechanism && cell.load == Load::Quiet).collect();
    own.sort_by(|one, other| one.rate_mbps.total_cmp(&other.rate_mbps));
    let name = mechanism.name();
    let lowest = own.first()?;
    Some(match own.iter().take_while(|cell| cell.share() <= GOOD).last() {
        Some(cell) => format!("{name}: std within a quarter of the gap up to {} Mb/s", cell.rate_mbps),
        None => {
            format!("{name}: std above a quarter of the gap at {} Mb/s already", lowest.rate_mbps)
        }
    })
}

impl Demand {
    fn judge(&self, cells: &[&CellRuns]) -> Vec<String> {
        let [real, model] = self.mechanisms;
        let mechanisms = if real == model { vec![real] } else { vec![real, model] };
        let judge = |mechanism: Mechanism| {
            let own = cells.iter().filter(|cell| cell.mechanism == mechanism);
            let own = own.filter(|cell| self.load.is_none_or(|load| load == cell.load));
            let met = |cell: &&&CellRuns| {
                (self.is_met)(
                    cell.median_of(|run| run.errors.mean_us),
                    cell.median_of(|run| run.errors.deviation_us),
                )
            };
            let (all, met) = (own.clone().count(), own.filter(met).count());
            let text = format!("{}: {}: {}", reached(met == all), mechanism.name(), self.text);
            (all > 0).then(|| format!("{text} in {met} of {all} rows with one flow"))
        };
        mechanisms.into_iter().filter_map(judge).collect()
    }
}

#[cfg(test)]
mod tests {
    use headway_units::Rate;

    use super::super::errors::Errors;
    use super::super::{Plan, Run};
    use super::*;

    fn cell(mechanism: Mechanism, mbps: f64, mean_us: f64, deviation_us: f64) -> CellRuns {
        let (rate, line) = (Rate::from_mbps(mbps), Rate::from_mbps(1000.0));
        let plan = Plan { mechanism, rate, flows: 1, load: Load::Quiet, line };
        let errors = Errors { gaps: 1, mean_us, deviation_us, p1_us: 0.0, p99_us: 0.0 };
        let run = Run { errors, rate_mbps: mbps, cpu_percent: None };
        CellRuns { runs: vec![run], ..CellRuns::new(&plan) }
    }

    #[test]
    fn the_highest_good_rate_is_below_the_first_bad_one() {
        // Gaps of 615, 123 and 62 us.
        let timer = |mbps, deviation| cell(Mechanism::Timer, mbps, 0.5, deviation);
        let cells = [timer(200.0, 1.0), timer(20.0, 30.0), timer(100.0, 40.0)];
        let sentences = sentences(&cells);
        assert_eq!(sentences[0], "timer: std within a quarter of the gap up to 20 Mb/s");
        assert!(sentences[1].starts_with("reached: timer: |mean| below 1 us (rapid F11) in 3 of 3 rows"));
        assert_eq!(sentences.len(), 2);
    }

    #[test]
    fn every_row_has_to_meet_a_demand() {
        let cells = [cell(Mechanism::Pause, 20.0, 0.1, 0.4), cell(Mechanism::Pause, 50.0, 0.1, 0.6)];
        let sentences = sentences(&cells);
        assert!(sentences[1].starts_with("NOT reached: pause") && sentences[1].contains("1 of 2"));
    }
}

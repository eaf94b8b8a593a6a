//! The bands within which worlds must agree, and the count of cells that do.

use headway_scenario::{Scenario, World};
use serde::Serialize;

use super::metrics::{
    COMPLETION, FAIRNESS, GOODPUT, MEAN_DELAY, Metric, RETRANSMITTED, SLOWEST_SHARE, TIMEOUTS, median,
};

/// A group of cells judged by the same bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Group {
    /// One flow with a controller that responds to losses or marks.
    OneFlow,
    /// Several flows with any controllers.
    SeveralFlows,
    /// BBR, which depends on single samples, so that two runs diverge early.
    Bbr,
    /// Any flows, compared with a run in real time.
    RealTime,
    /// A cell of the wide matrix.
    Wide,
}

impl Group {
    pub(super) const ALL: [Group; 5] =
        [Group::OneFlow, Group::SeveralFlows, Group::Bbr, Group::RealTime, Group::Wide];

    /// Returns the groups of a scenario; none for controllers without bands.
    pub(super) fn of(scenario: &Scenario, real_time: bool) -> Vec<Group> {
        if real_time {
            return vec![Group::RealTime];
        }
        let all = |names: &[&str]| {
            scenario.flow.iter().all(|flow| names.contains(&flow.controller.to_string().as_str()))
        };
        let mut groups = Vec::new();
        if scenario.flow_count() == 1 && all(&["reno", "cubic", "dctcp"]) {
            groups.push(Group::OneFlow);
        }
        if scenario.flow_count() > 1 && all(&["reno", "cubic", "dctcp", "bbr"]) {
            groups.push(Group::SeveralFlows);
        }
        if scenario.flow_count() > 0 && all(&["bbr"]) {
            groups.push(Group::Bbr);
        }
        groups
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Group::OneFlow => "one flow of reno, cubic or dctcp",
            Group::SeveralFlows => "several flows",
            Group::Bbr => "bbr",
            Group::RealTime => "beside real time",
            Group::Wide => "the wide matrix",
        }
    }

    /// Returns the fraction of the group's cells that should be within their bands.
    pub(super) fn goal(self) -> f64 {
        if self == Group::Wide { 0.95 } else { 0.9 }
    }

    pub(super) fn bands(self) -> impl Iterator<Item = &'static Band> {
        BANDS.iter().filter(move |band| band.group == self)
    }
}

/// The tolerance of a metric against the reference: relative or absolute, whichever is wider.
#[derive(Debug)]
pub(super) struct Band {
    pub(super) group: Group,
    pub(super) metric: &'static str,
    pub(super) relative: f64,
    /// In the unit of the metric.
    pub(super) absolute: f64,
    /// Description of the band in reports.
    pub(super) description: &'static str,
}

const fn band(
    group: Group,
    metric: &'static str,
    relative: f64,
    absolute: f64,
    description: &'static str,
) -> Band {
    Band { group, metric, relative, absolute, description }
}

const BANDS: [Band; 13] = [
    band(Group::OneFlow, GOODPUT, 0.03, 0.0, "goodput within 3 %"),
    band(Group::OneFlow, MEAN_DELAY, 0.10, 50e3, "mean queueing delay within 10 % or 50 us"),
    // A relative difference of a few losses means nothing.
    band(Group::OneFlow, RETRANSMITTED, 0.25, 5.0, "retransmitted packets within 25 % or 5 packets"),
    band(Group::SeveralFlows, FAIRNESS, 0.0, 0.05, "Jain's index within 0.05"),
    band(Group::Bbr, GOODPUT, 0.10, 0.0, "goodput within 10 %"),
    band(Group::RealTime, GOODPUT, 0.05, 0.0, "goodput within 5 %"),
    band(Group::RealTime, MEAN_DELAY, 0.15, 0.0, "mean queueing delay within 15 %"),
    band(Group::Wide, GOODPUT, 0.05, 0.0, "goodput within 5 %"),
    band(Group::Wide, MEAN_DELAY, 0.15, 300e3, "mean queueing delay within 15 % or 0.3 ms"),
    band(Group::Wide, RETRANSMITTED, 0.30, 10.0, "retransmitted packets within 30 % or 10 packets"),
    band(Group::Wide, TIMEOUTS, 0.0, 3.0, "timeouts within 3"),
    band(
        Group::Wide,
        SLOWEST_SHARE,
        0.10,
        0.10,
        "slowest flow within 10 % of its goodput or of an equal share",
    ),
    // Five ticks of the kernel timer.
    band(Group::Wide, COMPLETION, 0.10, 5e6, "median completion within 10 % or 5 ms"),
];

impl Band {
    /// Whether two values are close enough.
    pub(super) fn holds(&self, value: f64, reference: f64) -> bool {
        let apart = (value - reference).abs();
        apart <= self.absolute || apart <= self.relative * reference.abs()
    }
}

/// The result of one band in one cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) group: Group,
    pub(super) metric: &'static str,
    pub(super) within: bool,
}

/// The verdict on one world against the reference.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub(super) world: String,
    pub(super) checks: Vec<Check>,
}

/// Judges all worlds but the reference by the bands of `group`, or else by those of the groups that
/// `scenario` belongs to.
pub(super) fn judge(
    scenario: &Scenario,
    group: Option<Group>,
    worlds: &[World],
    reference: usize,
    metrics: &[Metric],
) -> Vec<Verdict> {
    let others = worlds.iter().enumerate().filter(|(index, _)| *index != reference);
    let verdict = |(index, world): (usize, &World)| {
        let real_time = [*world, worlds[reference]].contains(&World::Lab);
        let groups = group.map_or_else(|| Group::of(scenario, real_time), |group| vec![group]);
        let bands = groups.into_iter().flat_map(Group::bands);
        let check = |band: &Band| {
            let metric = metrics.iter().find(|metric| metric.name == band.metric)?;
            let (value, reference) = (metric.values[index], metric.values[reference]);
            // A metric that neither world has, such as completion times of unlimited flows,
            // is not a difference.
            value.or(reference)?;
            let within = value.zip(reference).is_some_and(|(value, reference)| band.holds(value, reference));
            Some(Check { group: band.group, metric: band.metric, within })
        };
        Verdict { world: world.to_string(), checks: bands.filter_map(check).collect() }
    };
    others.map(verdict).collect()
}

/// Whether the even runs of the reference are within the bands of `group` around the odd ones. This shows
/// how much chance, and small changes of start times and RTTs, affect a single world. `None` with fewer than
/// two runs in each half.
pub(super) fn is_self_consistent(group: Group, reference: usize, metrics: &[Metric]) -> Option<bool> {
    let halves = |metric: &Metric| -> Option<[Option<f64>; 2]> {
        let runs = metric.runs.get(reference).filter(|runs| runs.len() >= 4)?;
        let half = |first: usize| median(&runs.iter().copied().skip(first).step_by(2).collect::<Vec<_>>());
        Some([half(0), half(1)])
    };
    let holds = |band: &Band| -> Option<bool> {
        let [even, odd] = halves(metrics.iter().find(|metric| metric.name == band.metric)?)?;
        even.or(odd)?;
        Some(even.zip(odd).is_some_and(|(even, odd)| band.holds(even, odd)))
    };
    group.bands().filter_map(holds).reduce(|all, holds| all && holds)
}

impl Verdict {
    /// Whether all bands hold; `None` without bands.
    pub(super) fn within(&self) -> Option<bool> {
        (!self.checks.is_empty()).then(|| self.checks.iter().all(|check| check.within))
    }

    /// Returns the metrics outside their bands.
    pub(super) fn outside(&self) -> Vec<&'static str> {
        self.checks.iter().filter(|check| !check.within).map(|check| check.metric).collect()
    }
}

/// The number of cells of a group within their bands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Tally {
    pub(super) world: String,
    pub(super) group: Group,
    pub(super) cells: usize,
    /// Cells within all bands of the group.
    pub(super) within: usize,
    /// Whether enough cells are within their bands.
    pub(super) reached: bool,
    pub(super) bands: Vec<BandTally>,
    /// Cells in which the even and the odd runs of the reference agree within the bands; `None`
    /// without several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reference_beside_itself: Option<usize>,
}

impl Tally {
    /// Whether enough cells are within their bands.
    pub fn reached(&self) -> bool {
        self.reached
    }
}

/// The number of cells of a group within one band.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct BandTally {
    #[serde(rename = "band")]
    pub(super) description: &'static str,
    pub(super) within: usize,
}

/// Counts the cells of `world` by group. Each comes with a flag that it was undisturbed; a disturbed cell is
/// outside all bands.
pub(super) fn tally(world: &str, cells: &[(&Verdict, bool)]) -> Vec<Tally> {
    let group = |group: Group| {
        let mine: Vec<(Vec<&Check>, bool)> = cells
            .iter()
            .map(|(verdict, valid)| {
                (verdict.checks.iter().filter(|check| check.group == group).collect(), *valid)
            })
            .filter(|(checks, _): &(Vec<&Check>, bool)| !checks.is_empty())
            .collect();
        let count = |holds: &dyn Fn(&[&Check]) -> bool| {
            mine.iter().filter(|(checks, valid)| *valid && holds(checks)).count()
        };
        let within = count(&|checks| checks.iter().all(|check| check.within));
        let band = |band: &Band| BandTally {
            description: band.description,
            within: count(&|checks| checks.iter().all(|check| check.metric != band.metric || check.within)),
        };
        (!mine.is_empty()).then(|| Tally {
            world: world.to_owned(),
            group,
            cells: mine.len(),
            within,
            reached: within as f64 >= group.goal() * mine.len() as f64,
            bands: group.bands().map(band).collect(),
            reference_beside_itself: None,
        })
    };
    Group::ALL.into_iter().filter_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::metrics::Unit;

    fn band(group: Group, metric: &str) -> &'static Band {
        group.bands().find(|band| band.metric == metric).unwrap_or_else(|| panic!("{group:?} {metric}"))
    }

    #[test]
    fn bands_are_relative_or_absolute() {
        let goodput = band(Group::OneFlow, GOODPUT);
        assert!(goodput.holds(97.0, 100.0) && goodput.holds(103.0, 100.0));
        assert!(!goodput.holds(96.9, 100.0) && !goodput.holds(1.0, 0.0));
        let delay = band(Group::OneFlow, MEAN_DELAY);
        assert!(delay.holds(149_000.0, 100_000.0), "50 us");
        assert!(delay.holds(10_900_000.0, 10_000_000.0) && !delay.holds(11_100_000.0, 10_000_000.0));
        let resent = band(Group::OneFlow, RETRANSMITTED);
        assert!(resent.holds(5.0, 0.0) && !resent.holds(6.0, 0.0));
        assert!(resent.holds(125.0, 100.0) && !resent.holds(74.0, 100.0));
        let fairness = band(Group::SeveralFlows, FAIRNESS);
        assert!(fairness.holds(0.951, 1.0) && !fairness.holds(0.94, 1.0));
        assert!(band(Group::Bbr, GOODPUT).holds(91.0, 100.0));
        assert!(band(Group::RealTime, MEAN_DELAY).holds(114.0, 100.0));
    }

    fn verdict(group: Group, within: [bool; 3]) -> Verdict {
        let checks = group.bands().zip(within);
        let check = |(band, within): (&Band, bool)| Check { group, metric: band.metric, within };
        Verdict { world: "sim".to_owned(), checks: checks.map(check).collect() }
    }

    #[test]
    fn nine_of_ten_cells_of_each_group_are_enough() {
        let good = verdict(Group::OneFlow, [true; 3]);
        let bad = verdict(Group::OneFlow, [true, false, true]);
        let fair = verdict(Group::SeveralFlows, [true; 3]);
        let mut cells = vec![(&good, true); 9];
        cells.extend([(&bad, true), (&fair, true)]);
        let tallies = tally("sim", &cells);
        assert_eq!(tallies.iter().map(|one| (one.cells, one.within)).collect::<Vec<_>>(), [(10, 9), (1, 1)]);
        assert!(tallies.iter().all(|one| one.reached));
        assert_eq!(tallies[0].bands.iter().map(|band| band.within).collect::<Vec<_>>(), [10, 9, 10]);
        // A disturbed cell counts as outside.
        cells[0].1 = false;
        let tallies = tally("sim", &cells);
        assert_eq!((tallies[0].within, tallies[0].reached), (8, false));
        assert!(tally("sim", &[]).is_empty());
    }

    #[test]
    fn a_world_is_set_beside_itself_by_every_other_run() {
        let metric = |runs: [f64; 4]| {
            let runs = vec![runs.map(Some).to_vec()];
            vec![Metric::new(TIMEOUTS, Unit::Count, runs, 0)]
        };
        let agrees = |runs| is_self_consistent(Group::Wide, 0, &metric(runs));
        assert_eq!([agrees([5.0, 7.0, 5.0, 8.0]), agrees([5.0, 9.0, 5.0, 9.0])], [Some(true), Some(false)]);
        assert_eq!(is_self_consistent(Group::OneFlow, 0, &metric([1.0; 4])), None);
    }

    #[test]
    fn a_verdict_names_what_is_outside() {
        let bad = verdict(Group::OneFlow, [true, false, false]);
        assert_eq!(bad.outside(), [MEAN_DELAY, RETRANSMITTED]);
        assert_eq!(bad.within(), Some(false));
        assert_eq!(Verdict { world: "sim".to_owned(), checks: Vec::new() }.within(), None);
    }
}

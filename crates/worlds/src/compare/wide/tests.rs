use std::collections::HashSet;
use std::path::Path;

use headway_scenario::Scenario;

use super::*;

fn scenarios(cell: &Cell) -> Vec<Scenario> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/compare.toml");
    let load =
        |changes: Vec<Change>| Scenario::load(&path, &changes).unwrap_or_else(|e| panic!("{cell}: {e}"));
    cell.each_run().into_iter().map(load).collect()
}

#[test]
fn every_cell_of_any_seed_is_a_scenario_that_the_kernel_can_run() {
    for seed in 0..20 {
        let cells = cells(seed, false, &[]).unwrap();
        assert_eq!(cells.len(), 80);
        for cell in &cells {
            for scenario in scenarios(cell) {
                let options = headway_uml::network::RunOptions::default();
                let plan = headway_uml::network::plan(&scenario, 1, Path::new(""), &options);
                plan.unwrap_or_else(|e| panic!("{cell}: {e}"));
            }
        }
    }
}

#[test]
fn a_seed_gives_the_same_networks_again_and_another_one_others() {
    let names = |seed| cells(seed, false, &[]).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(3), names(3));
    let (one, other) = (names(3), names(4));
    assert!(one.iter().all(|name| !other.contains(name)));
}

#[test]
fn ranges_are_covered_from_end_to_end() {
    for seed in 0..50 {
        let mut values: Vec<f64> =
            (0..CELLS).map(|place| Draw::new(seed, 0, place, CELLS).log_uniform(1.0, 1e5)).collect();
        values.sort_by(f64::total_cmp);
        for (part, value) in values.iter().enumerate() {
            let decade = 10f64.powi(part as i32);
            assert!((decade * 0.99..=decade * 10.0).contains(value), "{values:?}");
        }
    }
}

#[test]
fn the_quick_cells_are_one_of_each_class_and_of_all_controllers() {
    let quick = cells(SEED, true, &[]).unwrap();
    let distinct = |place: usize| quick.iter().map(|cell| &cell.labels[place]).collect::<HashSet<_>>().len();
    assert_eq!((quick.len(), distinct(1), distinct(0)), (CLASSES.len(), CLASSES.len(), 5));
    let all: Vec<String> = cells(SEED, false, &[]).unwrap().iter().map(ToString::to_string).collect();
    assert!(quick.iter().all(|cell| all.contains(&cell.to_string())));
}

#[test]
fn a_cell_with_several_flows_is_run_with_several_staggers() {
    let cells = cells(SEED, false, &[]).unwrap();
    let cell = cells.iter().find(|cell| cell.labels[1] == "four flows").unwrap();
    let runs = scenarios(cell);
    let staggers: HashSet<i64> = runs.iter().map(|one| one.flow[0].stagger.ns()).collect();
    assert!(staggers.len() >= 3 && staggers.len() == runs.len());
}

#[test]
fn a_cell_is_at_most_a_few_seconds_of_work_of_a_real_stack() {
    for cell in cells(SEED, false, &[]).unwrap() {
        let packets = |scenario: &Scenario| -> f64 {
            let bits = |rate: headway_units::Rate| rate.bps_f64() * scenario.duration.secs_f64();
            scenario.link.iter().filter_map(|link| link.rate).map(bits).sum::<f64>() / (1538.0 * 8.0)
        };
        let all: f64 = scenarios(&cell).iter().map(packets).sum();
        assert!(all < 9e6, "{cell}: {all} packets");
    }
}

//! Tests of comparisons, with made-up results.

use std::path::{Path, PathBuf};
use std::time::Duration as Span;

use headway_record::{LinkResult, Results, Series, Summary, Total};

use super::*;
use verdict::Group;

/// Returns a run with this goodput in Mb/s and mean queueing delay in milliseconds.
fn outcome(goodput: u64, delay: u64) -> Outcome {
    let total = Total {
        flows: 4,
        goodput_bps: goodput * 1_000_000,
        fairness: 1.0,
        retransmitted: 10,
        timeouts: Some(0),
        ..Total::default()
    };
    let link = |name: &str, used: f64| LinkResult {
        link: name.to_owned(),
        utilisation: Some(used),
        delay_mean_ns: delay * 1_000_000,
        arrived: 1_000,
        marked: 20,
        ..LinkResult::default()
    };
    let summary = Summary {
        scenario: "made-up".to_owned(),
        world: String::new(),
        seed: 1,
        partial: false,
        valid: true,
        warmup_ns: 1_000_000_000,
        measured_ns: 9_000_000_000,
        total,
        groups: Vec::new(),
        links: vec![link("server->client", 0.02), link("client->server", 0.98)],
        traffic: Vec::new(),
        measurements: Vec::new(),
        middleboxes: Vec::new(),
        decisions: Vec::new(),
        selections: Vec::new(),
        programs: Vec::new(),
    };
    let results = Results {
        summary,
        flows: Vec::new(),
        series: Series::default(),
        streams: Vec::new(),
        delays: Vec::new(),
        completion_times: Vec::new(),
        control: Vec::new(),
    };
    Outcome { results, events: 1_000, wall: Span::from_millis(delay), invalid_reason: None, files: None }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/compare.toml")
}

fn scenario(changes: &[&str]) -> Scenario {
    let changes: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
    Scenario::load(&file(), &changes).unwrap()
}

#[test]
fn the_most_real_world_is_the_reference_wherever_it_stands() {
    let (one, two, lab) = (outcome(90, 11), outcome(99, 10), outcome(100, 10));
    let compare = |worlds: &[World], runs: &[Outcome]| {
        let runs: Vec<Vec<&Outcome>> = runs.iter().map(|run| vec![run]).collect();
        Comparison::new(&Subject::new(&scenario(&[]), &[]), worlds, &runs).unwrap()
    };
    let three = compare(&[World::Sim, World::Lab, World::Sim], &[one, lab, two]);
    assert_eq!(three.reference, 1);
    assert_eq!(three.link, "client->server");
    let goodput = three.metric(metrics::GOODPUT).unwrap();
    assert_eq!([0, 1, 2].map(|world| goodput.difference_text(world)), ["-10.0 %", "", "-1.0 %"]);
    assert_eq!(
        three.verdicts.iter().map(|verdict| verdict.within()).collect::<Vec<_>>(),
        [Some(false), Some(true)]
    );
    assert_eq!((three.within, three.valid), (Some(false), true));
    let text = |comparison: &Comparison| {
        format!(
            "{:?}{:?}{:?}",
            rows::metric_columns(comparison),
            rows::metric_rows(comparison),
            rows::remarks(comparison)
        )
    };
    let words_of_three = text(&three);
    for words in ["sim against lab", "2.00 %", "sim is outside its band of goodput.", "sim is within"] {
        assert!(words_of_three.contains(words), "{words} is not in\n{words_of_three}");
    }
    let two = compare(&[World::Sim, World::Sim], &[outcome(50, 5), outcome(100, 10)]);
    assert_eq!(two.reference, 1);
    assert!(text(&two).contains("sim is 2.00 times as fast as sim"));
}

#[test]
fn groups_follow_from_controllers_and_flows() {
    let groups = |changes: &[&str], real_time| Group::of(&scenario(changes), real_time);
    assert_eq!(groups(&[], false), [Group::OneFlow]);
    assert_eq!(groups(&["flow.0.count=4"], false), [Group::SeveralFlows]);
    assert_eq!(groups(&["flow.0.count=4"], true), [Group::RealTime]);
    assert!(groups(&["flow.0.controller=fixed-window:10"], false).is_empty());
}

/// Returns `count` cells, each with the first world one percent further off than in the cell before.
fn some_cells(count: u64) -> Vec<Comparison> {
    let cells = cell::only(matrix::cells(false, &[]).unwrap(), "reno").unwrap();
    let compare = |(off, cell): (u64, &Cell)| {
        let scenario = Scenario::load(&file(), &cell.changes).unwrap();
        let runs = [outcome(100 + off, 10), outcome(100, 10)];
        let runs: Vec<Vec<&Outcome>> = runs.iter().map(|run| vec![run]).collect();
        Comparison::new(&Subject::of(cell, &scenario), &[World::Sim, World::Sim], &runs).unwrap()
    };
    (0..count).zip(&cells).map(compare).collect()
}

#[test]
fn a_matrix_counts_its_groups() {
    let done = some_cells(10);
    let tallies = tallies(&done);
    // Every other cell has a single flow; these are 0, 2, 4, 6 and 8 percent off.
    let counted: Vec<_> = tallies.iter().map(|one| (one.group, one.cells, one.within)).collect();
    assert_eq!(counted, [(Group::OneFlow, 5, 2), (Group::SeveralFlows, 5, 5)]);
    let text = format!("{:?}{}", rows::cell_rows(&done), rows::verdict(&tallies));
    for words in ["outside: goodput", "one flow of reno, cubic or dctcp (2 of 5)"] {
        assert!(text.contains(words), "{words} is not in\n{text}");
    }
    let value = matrix_value(&done, &tallies, true).unwrap();
    let last = value.as_array().unwrap().last().unwrap();
    assert_eq!((&last["type"], &last["reached"]), (&json!("verdict"), &json!(false)));
    assert_eq!((&last["groups"][0]["group"], &last["groups"][0]["within"]), (&json!("one-flow"), &json!(2)));
    assert_eq!(value[0]["type"], "comparison");
    assert_eq!(value[0]["cell"], json!(["reno", "100 Mb/s", "1 ms", "0.25 BDP", "1 flow"]));
    let page = page::matrix(&done, &tallies, 12).unwrap();
    assert!(page.contains("<svg") && page.contains("Interrupted: 10 of 12 cells."));
}

#[test]
fn cells_outside_their_bands_miss_the_goal() {
    let reached = |count: u64| tallies(&some_cells(count)).iter().all(Tally::reached);
    assert!(!reached(10));
    assert!(reached(2));
}

#[test]
fn a_cancelled_run_is_no_comparison() {
    let options = Options::default();
    let in_world = |world| {
        if world == World::Sim {
            options.cancellation.cancel();
        }
        Ok(Some(outcome(100, 10)))
    };
    assert!(all_worlds(&[World::Sim, World::Lab], in_world, &options).unwrap().is_none());
    let other = Options::default();
    let runs = all_worlds(&[World::Lab, World::Lab], in_world, &other).unwrap();
    assert_eq!(runs.map(|runs| runs.len()), Some(2));
}

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

use std::path::Path;

use clap::Parser;
use headway_scenario::Scenario;
use headway_sim::Built;
use tempfile::TempDir;

use super::class::CLASSES;
use super::tally::tallies;
use super::*;

#[derive(Parser)]
struct Alone {
    #[command(flatten)]
    args: SimulatedArgs,
}

fn args(words: &[&str]) -> SimulatedArgs {
    let all = [&["simulated"], words].concat();
    Alone::try_parse_from(all).unwrap_or_else(|error| panic!("{error}")).args
}

fn scored(words: &[&str]) -> Vec<Scored> {
    let args = args(words);
    let subjects = subject::subjects(&args).unwrap();
    score(&args, &subjects, &Cancellation::default()).unwrap()
}

fn text(scored: &[Scored]) -> String {
    serde_json::to_string(scored).unwrap()
}

/// Classes whose paths carry millions of packets per second, too many for a quick test.
const FAST: [&str; 3] = ["10g-coalescing", "fast-jumbo", "fast-1500"];

#[test]
fn every_path_of_any_seed_is_a_scenario() {
    for seed in 0..5 {
        let (seed, paths) = (seed.to_string(), "9");
        let subjects = subject::subjects(&args(&["--seed", &seed, "--paths-per-class", paths]));
        let subjects = subjects.unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
        assert_eq!(subjects.len(), CLASSES.len() * 9);
        for subject in subjects {
            Built::new(&subject.scenario, 1, Bytes::new(8 << 30)).unwrap_or_else(|error| {
                panic!("seed {seed}, {}: {error}", subject.scenario.name);
            });
        }
    }
}

#[test]
fn a_seed_gives_the_same_paths_again_and_another_one_others() {
    let texts = |seed: &str| {
        let folder = TempDir::new().unwrap();
        let options = args(&["--seed", seed, "--paths-per-class", "2"]);
        assert_eq!(subject::write(&options, folder.path()).unwrap(), CLASSES.len() * 2);
        let mut texts: Vec<String> = std::fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap())
            .collect();
        texts.sort();
        texts
    };
    let [one, again, other] = ["3", "3", "4"].map(texts);
    assert_eq!(one, again);
    assert!(one.iter().all(|text| !other.contains(text)));
}

#[test]
fn every_class_is_measured_and_the_report_adds_up() {
    let quick: Vec<&str> =
        CLASSES.iter().map(|class| class.name).filter(|name| !FAST.contains(name)).collect();
    let names = quick.join(",");
    let scored = scored(&["--classes", &names, "--paths-per-class", "2", "--answers", "1", "--seed", "11"]);
    assert_eq!(scored.len(), quick.len() * 2);
    for one in &scored {
        let result = &one.result;
        let name = &one.path;
        let (free, narrow) = (result.free_bps.unwrap(), result.narrow_bps.unwrap());
        assert!(free <= narrow && free <= result.free_without_tcp_bps.unwrap(), "{name}: {result:?}");
        assert!(result.tight_link.as_ref().is_some_and(|link| link.starts_with('n')), "{name}: {result:?}");
        assert!(result.failure.is_some() != result.available_bps.is_some(), "{name}: {result:?}");
        assert!(result.end_ns > result.begin_ns && result.bytes > 0, "{name}: {result:?}");
        assert!(result.added_delay_ns <= result.added_delay_max_ns, "{name}: {result:?}");
    }
    let (classes, all) = tallies(&scored);
    assert_eq!(classes.iter().map(|class| class.class.as_str()).collect::<Vec<_>>(), quick);
    let sum = |count: fn(&tally::Tally) -> usize| classes.iter().map(count).sum::<usize>();
    assert_eq!(all.measurements, scored.len());
    assert_eq!(sum(|class| class.measurements), all.measurements);
    assert_eq!((sum(|class| class.answers), sum(|class| class.covered)), (all.answers, all.covered));
    assert_eq!(all.answers + all.refusals.values().sum::<usize>(), all.measurements);
    assert!(all.covered <= all.answers && all.narrow <= all.answers - all.at_least);
}

#[test]
fn neither_jobs_nor_a_detour_through_files_change_an_answer() {
    let drawn = ["--classes", "jitter,token-bucket", "--paths-per-class", "2", "--answers", "2"];
    let one = scored(&[&drawn[..], &["--jobs", "1"]].concat());
    let four = scored(&[&drawn[..], &["--jobs", "4"]].concat());
    assert_eq!(one.len(), 8);
    assert!(text(&one) == text(&four), "{one:#?}\nis not\n{four:#?}");
    let folder = TempDir::new().unwrap();
    subject::write(&args(&drawn), folder.path()).unwrap();
    let written = scored(&["--paths", folder.path().to_str().unwrap(), "--answers", "2"]);
    assert!(text(&one) == text(&written), "{one:#?}\nis not\n{written:#?}");
}

#[test]
fn a_file_of_ones_own_is_a_class_of_its_own() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/measure-10g.toml");
    let subjects = subject::subjects(&args(&["--paths", file.to_str().unwrap()])).unwrap();
    assert_eq!(subjects[0].class, "measure-10g");
    assert_eq!(subjects[0].repeated().measure[0].every, Scenario::load(&file, &[]).unwrap().measure[0].every);
    let none = args(&["--paths", file.with_file_name("trace.toml").to_str().unwrap()]);
    let error = subject::subjects(&none).unwrap_err().to_string();
    assert!(error.ends_with("has 0 [[measure]] instead of one"), "{error}");
}

#[test]
fn an_unknown_class_is_answered_with_all_there_are() {
    let unknown = Alone::try_parse_from(["simulated", "--classes", "poisson,wireless"]);
    let error = unknown.map(|_| ()).unwrap_err().to_string();
    assert!(CLASSES.iter().all(|class| error.contains(class.name)), "{error}");
}

use std::path::PathBuf;

use super::*;

fn selection<'a>(
    file: &'a Path,
    controllers: &'a [String],
    flows: &'a [usize],
    set: &'a [Change],
) -> Selection<'a> {
    Selection { file, set, dilation: 1, world: World::Sim, controllers, flows, repeat: 2 }
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name)
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn error(controllers: &[&str], flows: &[usize]) -> String {
    let (file, controllers) = (file("rate-steps.toml"), names(controllers));
    selection(&file, &controllers, flows, &[]).candidates().unwrap_err().chain()
}

#[test]
fn a_selection_that_makes_no_sense_is_refused() {
    assert_eq!(error(&["cubic"], &[]), "--controllers needs two to 8 names, such as `cubic,bbr`");
    assert_eq!(error(&["cubic", "cubic"], &[]), "--controllers: `cubic` is named twice");
    assert_eq!(error(&["cubic", "reno"], &[2]), "--flow: the scenario has 2 [[flow]], counted from 0");
    assert!(error(&["cubic", "cdg"], &[]).starts_with("--controllers: `cdg` is not"));
}

#[test]
fn the_controllers_go_to_the_chosen_flows() {
    let (file, controllers) = (file("rate-steps.toml"), names(&["dctcp", "reno"]));
    let with = |flows: &[usize]| {
        let candidates = selection(&file, &controllers, flows, &[]).candidates().unwrap();
        let of = |one: &Candidate| {
            one.scenario.flow.iter().map(|flow| flow.controller.to_string()).collect::<Vec<_>>().join(" ")
        };
        candidates.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(with(&[]), ["dctcp dctcp", "reno reno"]);
    assert_eq!(with(&[1]), ["cubic dctcp", "cubic reno"]);
}

#[test]
fn metrics_are_medians_over_seeds_of_the_chosen_flows() {
    let set: Vec<Change> = [
        "duration=3 s",
        "warmup=1 s",
        "link.1.rates=[[\"0 s\", \"20 Mb/s\"], [\"2 s\", \"10 Mb/s\"]]",
        "link.1.buffer=60 kB",
    ]
    .iter()
    .map(|text| text.parse().unwrap())
    .collect();
    let (file, controllers) = (file("rate-steps.toml"), names(&["reno", "cubic"]));
    let run = |flows: &[usize], jobs| {
        let selection = selection(&file, &controllers, flows, &set);
        let options = Options { jobs, ..Options::default() };
        selection.run(&selection.candidates().unwrap(), &options).unwrap().unwrap()
    };
    let all = run(&[], 1);
    let value = serde_json::to_value(&all).unwrap();
    assert_eq!(value, serde_json::to_value(run(&[], 2)).unwrap(), "jobs do not matter");
    assert_eq!((value["link"].as_str(), value["seeds"].as_array().unwrap().len()), (Some("left->right"), 2));
    let goodput =
        |value: &serde_json::Value| value["controllers"][0]["metrics"][0]["median"].as_f64().unwrap();
    // 15 Mb/s on average, of which 94 % is payload.
    assert!((10e6..14.2e6).contains(&goodput(&value)), "{value}");
    let one = serde_json::to_value(run(&[0], 1)).unwrap();
    assert!(goodput(&one) < goodput(&value));
    assert_eq!((all.columns().len(), all.rows().len()), (7, 6));
    assert_eq!(all.rows()[1][0], "- lowest");
    let report = page::report(&all).unwrap();
    for words in
        ["TCP at left", "queueing delay, ms", "drops, packets/s", "capacity", "Medians over seeds 1 to 2"]
    {
        assert!(report.contains(words), "{words}");
    }
    assert!(page::picture(&run(&[1], 1)).unwrap().contains("Goodput of flow[1]"));
}

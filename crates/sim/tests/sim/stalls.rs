//! Measurements of paths that deliver nothing for moments, or delay packets at random.

use std::path::Path;

use headway_record::MeasureResult;
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::Bytes;

/// Measures a link of 100 Mb/s beside 40 Mb/s every 5 s, six times, by `method`; `key` is
/// one more of the link.
fn measured(key: &str, method: &str) -> Vec<MeasureResult> {
    over(100.0, 40.0, key, method, 1)
}

fn over(mbps: f64, load: f64, key: &str, method: &str, seed: u32) -> Vec<MeasureResult> {
    let text = format!(
        "seed = {seed}\nduration = \"30 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"{mbps} Mb/s\"\ndelay = \"20 ms\"\n{key}\n\
         [[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"poisson\"\nrate = \"{load} Mb/s\"\n\
         [[measure]]\nfrom = \"a\"\nto = \"b\"\n{method}\nstart = \"1 s\"\nevery = \"5 s\"\n"
    );
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/one.toml");
    let scenario = Scenario::parse(&text, &folder, &[]).unwrap();
    let mut run = Run::new(&scenario, u64::from(seed), Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.measurements()
}

/// Returns whether the answer holds the truth; `None` without one.
fn holds(result: &MeasureResult) -> Option<bool> {
    let (low, free) = (result.low_bps?, result.free_bps?);
    Some(low <= free && result.high_bps.is_none_or(|high| free <= high))
}

#[test]
fn an_answer_about_a_path_that_stalls_is_the_mean_over_its_time() {
    for result in measured("outages = { every = \"700 ms\", length = \"120 ms\" }", "method = \"response\"") {
        assert_eq!(result.path_kind.as_deref(), Some("stalls"), "{result:?}");
        assert_eq!(holds(&result), Some(true), "{result:?}");
    }
}

#[test]
fn stalls_of_other_lengths_and_links_of_other_rates_are_no_different() {
    let (mut held, mut all) = (0, 0);
    for (seed, (mbps, share, every, length)) in (1..).zip([
        (10.0, 0.3, 900, 150),
        (25.0, 0.6, 2_000, 400),
        (60.0, 0.1, 500, 50),
        (200.0, 0.5, 1_300, 250),
        (450.0, 0.7, 800, 80),
    ]) {
        let key = format!("outages = {{ every = \"{every} ms\", length = \"{length} ms\" }}");
        let results = over(mbps, mbps * share, &key, "method = \"response\"", seed);
        held += results.iter().filter(|result| holds(result) == Some(true)).count();
        all += results.iter().filter(|result| holds(result).is_some()).count();
    }
    // Nine of ten are meant to.
    assert!(all >= 25 && held * 100 >= all * 80, "{held} of {all}");
}

#[test]
fn jitter_that_no_stream_outlasts_is_the_reason_for_no_answer_and_other_jitter_is_within_the_interval() {
    for jitter in [5, 20, 40] {
        for result in measured(&format!("jitter = \"{jitter} ms\""), "method = \"response\"") {
            match &result.failure {
                Some(failure) => assert!(failure.contains(" where nothing queues"), "{jitter} ms: {failure}"),
                None => assert_eq!(holds(&result), Some(true), "{jitter} ms: {result:?}"),
            }
        }
    }
}

#[test]
fn a_trained_model_refuses_jitter_and_stalls_in_words() {
    let learned = "method = \"learned\"\nmodel = \"../models/p-streams.json\"";
    for (key, said) in [
        ("jitter = \"10 ms\"", "delays vary by "),
        ("outages = { every = \"700 ms\", length = \"120 ms\" }", "the path stalls: nothing arrives for "),
    ] {
        for result in measured(key, learned) {
            let failure = result.failure.clone().unwrap_or_else(|| panic!("{key}: {result:?}"));
            assert!(failure.contains(said), "{key}: {failure}");
        }
    }
}

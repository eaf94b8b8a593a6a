//! What a middlebox would do with flows.

use std::path::Path;

use headway_record::{DecisionResult, Results};
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::Bytes;

/// Two downloads, pages in one connection, and a stream, over an access link of 50 Mb/s.
fn run(keys: &str) -> Results {
    let flow = |name: &str, keys: &str| {
        format!("[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\ncontroller = \"cubic\"\n{keys}\n")
    };
    let text = format!(
        "duration = \"20 s\"\n\
         [[link]]\nfrom = \"a\"\nto = \"r\"\nrate = \"50 Mb/s\"\ndelay = \"20 ms\"\nbuffer = \"600 ms\"\n\
         [[link]]\nfrom = \"r\"\nto = \"b\"\n\
         [[middlebox]]\nat = \"r\"\nkind = \"receive-window\"\nwan = \"a\"\nrate = \"47 Mb/s\"\n{keys}\n\
         {}{}{}",
        flow("download", "count = 2\nstagger = \"10 s\""),
        flow("pages", "chunk = \"100 kB\"\npause = \"3 s\"\nstart = \"2 s\""),
        flow("stream", "application-rate = \"4 Mb/s\"\nstart = \"4 s\""),
    );
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap();
    let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

fn of<'a>(results: &'a Results, group: &str, connection: u64) -> Vec<&'a DecisionResult> {
    let all = results.summary.decisions.iter();
    all.filter(|decision| decision.group == group && decision.connection == connection).collect()
}

#[test]
fn flows_are_told_apart_and_judged_again_when_others_come() {
    let results = run("decide = true");
    for (group, connection, behaviour, strategy) in [
        ("download", 1, "bulk", "receive-window"),
        ("pages", 2, "interactive", "priority"),
        ("stream", 3, "cbr", "priority"),
        ("download", 4, "bulk", "receive-window"),
    ] {
        let last = of(&results, group, connection).pop().unwrap();
        assert_eq!(
            (&*last.behaviour, &last.strategies[..]),
            (behaviour, &[strategy.to_owned()][..]),
            "{last:?}"
        );
    }
    // Before the second download begins and after it: the share is halved, in the same instant.
    let first = of(&results, "download", 1);
    let at = of(&results, "download", 4)[0].at_ns;
    let after = first.iter().position(|decision| decision.at_ns == at).unwrap();
    let [before, after] = [after - 1, after].map(|place| first[place].limit_bytes.unwrap() as f64);
    assert!((after / before - 0.5).abs() < 0.02, "{before} {after}");
}

#[test]
fn decisions_change_nothing_and_are_the_same_again() {
    let [with, again, without] = ["decide = true", "decide = true", ""].map(run);
    assert_eq!(with.summary, again.summary);
    assert!(without.summary.decisions.is_empty());
    assert_eq!(with.flows, without.flows);
}

//! What a middlebox does with flows.

use std::path::Path;

use headway_record::{DecisionResult, Results};
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::Bytes;

/// Two downloads, pages in one connection, and a stream, over an access link of 50 Mb/s.
fn run() -> Results {
    let flow = |name: &str, keys: &str| {
        format!("[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\ncontroller = \"cubic\"\n{keys}\n")
    };
    let text = format!(
        "duration = \"20 s\"\n\
         [[link]]\nfrom = \"a\"\nto = \"r\"\nrate = \"50 Mb/s\"\ndelay = \"20 ms\"\nbuffer = \"600 ms\"\n\
         [[link]]\nfrom = \"r\"\nto = \"b\"\n\
         [[middlebox]]\nat = \"r\"\nkind = \"receive-window\"\nwan = \"a\"\nrate = \"50 Mb/s\"\n\
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
fn flows_are_told_apart() {
    let results = run();
    for (group, connection, behaviour, strategy) in [
        ("download", 1, "bulk", "receive-window"),
        ("pages", 2, "interactive", "spared"),
        ("stream", 3, "cbr", "spared"),
        ("download", 4, "bulk", "receive-window"),
    ] {
        let last = of(&results, group, connection).pop().unwrap();
        assert_eq!(
            (&*last.behaviour, &last.strategies[..]),
            (behaviour, &[strategy.to_owned()][..]),
            "{last:?}"
        );
    }
}

#[test]
fn decisions_are_the_same_again() {
    let [one, again] = [run(), run()];
    assert_eq!((one.summary, one.flows), (again.summary, again.flows));
}

//! Groups of a scenario whose flows come and go.

use std::path::Path;

use headway_record::Results;
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::Bytes;

fn run(text: &str) -> Results {
    let scenario = Scenario::parse(text, Path::new("x.toml"), &[]).unwrap();
    let mut run = Run::new(&scenario, scenario.seed, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

/// One link, with this `[[flow]]`.
fn link(rate: &str, flow: &str) -> String {
    format!(
        "duration = \"10 s\"\nwarmup = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"{rate}\"\ndelay = \"5 ms\"\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n{flow}"
    )
}

#[test]
fn flows_far_apart_complete_in_the_time_of_an_empty_path() {
    // Ten segments fit into the initial window: the handshake is over, and one round trip with the time of
    // ten packets passes between the first byte and the last acknowledgement.
    let results =
        run(&link("100 Mb/s", "size = \"14480 B\"\narrivals = { times = [\"2 s\", \"3 s\", \"4 s\"] }\n"));
    let group = &results.summary.groups[0];
    assert_eq!((group.total.flows, group.total.finished), (3, 3));
    let completions = group.completions.as_ref().unwrap();
    let packets = 10.0 * 1538.0 * 8.0 / 100e6;
    let ack = 90.0 * 8.0 / 100e6;
    let expected = 10e-3 + packets + ack;
    assert!((completions.max_ns as f64 / 1e9 - expected).abs() < 2e-4, "{completions:?} {expected}");
    assert_eq!(completions.most_alive, 1);
}

#[test]
fn goodput_is_the_offered_load_while_that_fits() {
    let text = link(
        "100 Mb/s",
        "arrivals = { rate = \"40 Mb/s\", size-distribution = { kind = \"exponential\", mean = \"20 kB\" } }\n",
    );
    let results = run(&text);
    let total = &results.summary.total;
    // About 2250 flows whose sizes vary by as much as their mean: 1 / sqrt(1125) is one standard deviation.
    assert!((total.goodput_bps as f64 / 40e6 - 1.0).abs() < 0.12, "{total:?}");
    assert!(total.flows.abs_diff(total.finished) < 30, "{total:?}");
    assert_eq!(results, run(&text));
}

#[test]
fn groups_keep_the_order_of_the_file() {
    let text = link("10 Mb/s", "name = \"long\"\n[[flow]]\nname = \"short\"\nfrom = \"a\"\nto = \"b\"\n")
        + "controller = \"cubic\"\nsize = \"5 kB\"\narrivals = { per-second = 10.0, flows = 20 }\n\
           [[flow]]\nname = \"last\"\nfrom = \"a\"\nto = \"b\"\ncontroller = \"cubic\"\n";
    let results = run(&text);
    let names: Vec<&str> = results.summary.groups.iter().map(|group| group.name.as_str()).collect();
    assert_eq!(names, ["long", "short", "last"]);
    assert_eq!(results.flows.len(), 2);
    let sum: u64 = results.summary.groups.iter().map(|group| group.total.goodput_bps).sum();
    assert_eq!(results.summary.total.goodput_bps, sum);
}

#[test]
fn mistakes_in_arrivals_are_named() {
    let cases = [
        ("arrivals = { per-second = 10.0 }\n", "needs a `size-distribution`"),
        (
            "size = \"1 kB\"\narrivals = { }\n",
            "needs one of `kind`, `rate`, `per-second`, `times` and `sessions`",
        ),
        ("size = \"1 kB\"\narrivals = { sessions = 5 }\n", "belongs to `sessions`, which need it"),
        (
            "size = \"1 kB\"\narrivals = { per-second = 5.0, think = \"1 s\" }\n",
            "belongs to `sessions`, which need it",
        ),
        ("size = \"1 kB\"\narrivals = { sessions = 5, think = \"1 us\" }\n", "must be at least 1 ms"),
        ("size = \"1 kB\"\narrivals = { per-second = 1.0, rate = \"1 Mb/s\" }\n", "needs one of"),
        (
            "size = \"1 kB\"\ncount = 2\narrivals = { per-second = 1.0 }\n",
            "cannot be combined with `arrivals`",
        ),
        ("size = \"1 kB\"\narrivals = { per-second = -1.0 }\n", "must be more than 0"),
        ("size = \"1 kB\"\narrivals = { times = [\"2 s\", \"1 s\"] }\n", "must be in ascending order"),
        ("arrivals = { kind = \"laplace\", peak = \"2 s\" }\n", "flow[0].arrivals.b`: must be given"),
        ("mtu = 100\n", "must lie between 576 bytes"),
        (
            "arrivals = { per-second = 1.0, size-distribution = { kind = \"pareto\", mean = \"1 kB\", shape = 1.0 } }\n",
            "needs a `spread`",
        ),
    ];
    for (flow, expected) in cases {
        let text = link("1 Mb/s", flow);
        let error = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap_err().to_string();
        assert!(error.contains(expected), "{flow}: {error}");
    }
}

#[test]
fn the_flows_of_a_crowd_without_a_size_stay() {
    let text = link(
        "10 Mb/s",
        "mtu = 100\narrivals = { kind = \"normal\", peak = \"4 s\", sigma = \"1 s\", flows = 60 }\n",
    )
    .replace("reno", "rcp:paced")
    .replace("delay = \"5 ms\"", "delay = \"5 ms\"\nqueue = { kind = \"rcp\" }");
    let results = run(&text);
    let total = &results.summary.total;
    assert_eq!((total.flows, total.finished), (60, 0));
    // Segments of 28 B in packets of 138 B on the wire, which fill the link once flows have arrived.
    let goodput = total.goodput_bps as f64 / (10e6 * 28.0 / 138.0);
    assert!((0.85..1.0).contains(&goodput), "{goodput}");
    assert_eq!(results, run(&text));
}

const SESSIONS: &str = "arrivals = { sessions = 40, think = \"190 ms\", size-distribution = { kind = \"fixed\", \
                        size = \"14480 B\" } }\n";

#[test]
fn sessions_fetch_less_from_a_slow_network() {
    // On an idle path a flow takes 10 ms, so each of 40 sessions fetches five flows per second.
    let fast = run(&link("1 Gb/s", SESSIONS));
    let flows = fast.summary.total.finished as f64 / 9.0;
    assert!((flows / 200.0 - 1.0).abs() < 0.1, "{flows}");
    // 2 Mb/s carry 15.7 flows of ten full packets per second, with nearly all sessions waiting.
    let slow = run(&link("2 Mb/s", SESSIONS));
    let group = &slow.summary.groups[0];
    let flows = group.total.finished as f64 / 9.0;
    assert!((12.0..16.3).contains(&flows), "{flows}");
    assert!(group.completions.as_ref().unwrap().most_alive > 25, "{group:?}");
}

#[test]
fn the_distribution_of_completion_times_is_complete_and_does_not_depend_on_sampling() {
    let results = run(&link("20 Mb/s", SESSIONS));
    let csv = results.completions_csv();
    let last = csv.lines().last().unwrap();
    let finished = results.summary.total.finished;
    assert!(last.ends_with(&format!(",{finished},1.000000")), "{last}");
    let sampled = run(&link("20 Mb/s", SESSIONS).replace("warmup", "interval = \"3 ms\"\nwarmup"));
    assert_eq!(sampled.completions_csv(), csv);
}

//! An edge that finds the rate of access links that are not wires.

use std::path::Path;

use headway_record::Results;
use headway_scenario::Scenario;
use headway_sim::Run;
use headway_units::Bytes;

/// Links from a server to a home, which `down` and `up` describe, and to a laptop behind its router.
fn run(times: &str, [down, up]: [&str; 2], flows: &str, middlebox: bool) -> Results {
    let link = |from: &str, to: &str, keys: &str| {
        format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\nduplex = false\n{keys}\n")
    };
    let mut text = format!("{times}\n{}{}", link("server", "home", down), link("home", "server", up));
    text += "[[link]]\nfrom = \"home\"\nto = \"laptop\"\n";
    text += flows;
    if middlebox {
        text += "[[middlebox]]\nat = \"home\"\nkind = \"receive-window\"\nwan = \"server\"\n";
    }
    let scenario = Scenario::parse(&text, Path::new("access.toml"), &[]).unwrap();
    let mut run = Run::new(&scenario, 1, Bytes::new(1 << 30)).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

fn flow(name: &str, keys: &str) -> String {
    format!(
        "[[flow]]\nname = \"{name}\"\nfrom = \"server\"\nto = \"laptop\"\ncontroller = \"cubic\"\n{keys}\n"
    )
}

/// Goodput of flows with a name, in Mb/s.
fn goodput(results: &Results, name: &str) -> f64 {
    let flows = results.flows.iter().filter(|flow| flow.group == name);
    flows.map(|flow| flow.goodput_bps as f64 / 1e6).sum()
}

#[test]
fn acks_that_wait_in_order_are_no_queue() {
    let down = "rate = \"50 Mb/s\"\ndelay = \"25 ms\"\nbuffer = \"300 ms\"";
    let up = |jitter: &str| format!("rate = \"50 Mb/s\"\ndelay = \"25 ms\"\n{jitter}");
    let times = "duration = \"60 s\"\nwarmup = \"10 s\"";
    let download = flow("download", "");
    let [jitter, none] = ["jitter = \"30 ms\"", ""]
        .map(|jitter| goodput(&run(times, [down, &up(jitter)], &download, true), "download"));
    assert!(jitter > 42.0 && none > 45.0, "{jitter} {none}");
}

#[test]
fn what_a_small_flow_has_is_not_what_the_link_has() {
    let way = "rate = \"25 Mb/s\"\ndelay = \"15 ms\"\nbuffer = \"300 ms\"\noutages = [[\"60 s\", \"1 s\"]]";
    let flows = flow("first", "stop = \"30 s\"")
        + &flow("small", "application-rate = \"20 kb/s\"")
        + &flow("second", "start = \"100 s\"");
    let times = "duration = \"110 s\"\nwarmup = \"102 s\"";
    let second = goodput(&run(times, [way, way], &flows, true), "second");
    assert!(second > 20.0, "{second}");
}

#[test]
fn silences_cost_what_they_last() {
    let keys = |rate: &str, begin: f64| {
        let silent =
            [0.0, 30.0, 60.0].map(|later| format!("[\"{:.1} s\", \"1 s\"]", begin + later)).join(", ");
        format!("rate = \"{rate}\"\ndelay = \"25 ms\"\nbuffer = \"400 ms\"\noutages = [{silent}]")
    };
    let download = flow("download", "count = 2");
    for begin in [29.5, 30.0, 31.5, 32.5] {
        let ways = [keys("30 Mb/s", begin), keys("10 Mb/s", begin)];
        let [with, without] = [true, false].map(|middlebox| {
            let times = "duration = \"120 s\"\nwarmup = \"15 s\"";
            goodput(&run(times, ways.each_ref().map(|way| way.as_str()), &download, middlebox), "download")
        });
        assert!(with > 0.93 * without, "{begin}: {with} {without}");
    }
}

#[test]
fn a_radio_has_a_constant_rate_all_the_time() {
    let way = "rate = \"400 kb/s\"\ndelay = \"30 ms\"\nbuffer = \"500 ms\"";
    for rate in ["64 kb/s", "128 kb/s"] {
        let radio = flow("radio", &format!("application-rate = \"{rate}\""));
        let results = run("duration = \"180 s\"", [way, way], &radio, true);
        let judged: Vec<&str> =
            results.summary.decisions.iter().map(|decision| decision.behaviour.as_str()).collect();
        // Too little is known at first.
        assert!(judged.iter().all(|behaviour| ["unknown", "cbr"].contains(behaviour)), "{rate}: {judged:?}");
        assert!(judged.ends_with(&["cbr"]), "{rate}: {judged:?}");
    }
}

#[test]
fn a_path_that_becomes_longer_keeps_its_rate() {
    let up = "rate = \"30 Mb/s\"\ndelay = \"1 ms\"";
    for delay in ["23 ms", "51 ms"] {
        let down = format!(
            "rate = \"145 Mb/s\"\nbuffer = \"200 ms\"\ndelay-trace = [[\"0 s\", \"21 ms\"], [\"20 s\", \"{delay}\"]]"
        );
        let times = "duration = \"40 s\"\nwarmup = \"24 s\"";
        let results = run(times, [&down, up], &flow("download", "count = 2"), true);
        let goodput = goodput(&results, "download");
        assert!(goodput > 0.8 * 136.0, "{delay}: {goodput}");
    }
}

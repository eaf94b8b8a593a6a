//! Whole scenarios: the same seed gives the same results, and the records are consistent with each other.

use std::path::{Path, PathBuf};

use headway_record::{Interval, Results};
use headway_scenario::{Change, Scenario};
use headway_sim::{Built, Run};
use headway_units::Bytes;

const LIMIT: Bytes = Bytes::new(1_000_000_000);

fn scenario(name: &str, changes: &[&str]) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    let changes: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
    Scenario::load(&path, &changes).unwrap()
}

fn run(scenario: &Scenario, seed: u64) -> Results {
    let mut run = Run::new(scenario, seed, LIMIT).unwrap();
    while run.step().unwrap() {}
    run.finish()
}

fn text(results: &Results) -> String {
    [results.flows_csv(), results.links_csv()].join("\n")
}

#[test]
fn all_scenarios_of_the_repository_can_be_built() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    let mut count = 0;
    for file in files.iter().filter(|file| file.extension().is_some_and(|kind| kind == "toml")) {
        // Paths for measurements use the lab's own format.
        let text = std::fs::read_to_string(file).unwrap();
        if text.contains("[forward]") || text.contains("forward = {") {
            continue;
        }
        let scenario = Scenario::load(file, &[]).unwrap();
        // Host programs run only on the stack of Linux.
        if scenario.program.is_empty() {
            Built::new(&scenario, 1, LIMIT).unwrap();
            count += 1;
        }
    }
    assert!(count >= 6, "{count}");
}

#[test]
fn a_short_dumbbell() {
    let scenario = scenario("dumbbell-cubic.toml", &["duration=3 s", "warmup=1 s", "flow.0.count=2"]);
    insta::assert_snapshot!(text(&run(&scenario, 1)));
}

#[test]
fn a_short_parking_lot() {
    let scenario = scenario("parking-lot.toml", &["duration=2 s", "warmup=500 ms", "traffic.2.start=1 s"]);
    insta::assert_snapshot!(text(&run(&scenario, 1)));
}

#[test]
fn the_seed_decides_everything() {
    let scenario = scenario("parking-lot.toml", &["duration=2 s", "warmup=500 ms"]);
    let [one, again, other] = [1, 1, 2].map(|seed| run(&scenario, seed));
    assert_eq!(one, again);
    let truth = |results: &Results| results.series.truth_csv();
    for csv in [truth, Results::goodput_csv, Results::tcp_csv] {
        assert_eq!(csv(&one), csv(&again));
        assert_ne!(csv(&one), csv(&other));
    }
}

#[test]
fn series_and_summary_agree() {
    let scenario = scenario("parking-lot.toml", &["duration=2 s", "warmup=0", "interval=30 ms"]);
    let results = run(&scenario, 1);
    assert_eq!(results.series.ends.len(), 67);
    for (flow, series) in results.flows.iter().zip(&results.series.goodput) {
        assert_eq!(flow.goodput_bytes, series.iter().copied().sum::<Bytes>().get());
    }
    for (link, series) in results.summary.links.iter().zip(&results.series.links) {
        let cross: u64 = series.iter().map(|interval| interval.cross.get()).sum();
        assert_eq!(link.cross_bps, cross * 8 / 2, "{}", link.link);
        // A packet is counted where its transmission ends.
        for interval in series {
            let carried = interval.measured + interval.cross;
            assert!(
                interval.capacity.is_none_or(|most| carried <= most + Bytes::new(1538 * 2)),
                "{interval:?}"
            );
        }
    }
}

#[test]
fn the_state_of_tcp_agrees_with_the_flows() {
    let changes = ["duration=2 s", "warmup=500 ms", "flow.0.count=2", "flow.0.stagger=150 ms"];
    let results = run(&scenario("dumbbell-cubic.toml", &changes), 1);
    let text = results.tcp_csv();
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "end_ns,flow,cwnd_segments,ssthresh_segments,srtt_ns,pacing_bps,sent,retransmitted,timeouts,marks"
    );
    let lines: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 20 * 2);
    // The second flow has sent its SYN and has no measurements yet; the first one has not lost anything yet.
    assert_eq!(lines[1], ["100000000", "1", "10", "", "", "", "0", "0", "0", "0"]);
    assert_eq!((lines[0][3], lines[0][9]), ("", "0"));
    for (flow, end) in results.flows.iter().zip(&lines[38..]) {
        let number = |text: &str| text.parse::<u64>().unwrap();
        let counted = |column: usize| -> u64 {
            let mine = lines.iter().filter(|line| number(line[1]) == flow.flow);
            mine.filter(|line| number(line[0]) > 500_000_000).map(|line| number(line[column])).sum()
        };
        assert_eq!((number(end[0]), number(end[2])), (2_000_000_000, flow.cwnd.into()));
        assert_eq!(Some(number(end[4])), flow.srtt_ns);
        assert!(number(end[3]) <= flow.cwnd.into(), "{end:?}");
        assert_eq!((counted(6), counted(7)), (flow.sent, flow.retransmitted));
        assert_eq!((Some(counted(8)), Some(counted(9))), (flow.timeouts, flow.marks));
    }
}

/// Increase, threshold and window of the trace belong together (ls-aimd 2.6), and its queue
/// is that of the truth.
#[test]
fn a_trace_has_what_figures_of_ls_aimd_show() {
    let changes = ["duration=300 ms", "warmup=0", "interval=1 ms", "flow.0.count=4", "flow.0.stagger=1 ms"];
    let of = |controller: &str| {
        let controller = format!("flow.0.controller={controller}");
        run(&scenario("ls-dctcp.toml", &[&changes[..], &[&controller]].concat()), 1)
    };
    let results = of("ls-dctcp:c=1/8");
    let text = results.trace_csv().unwrap();
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 300 * 4);
    let number = |row: &[&str], column: usize| row[column].parse::<f64>().ok();
    let mut below = 0;
    for (index, row) in rows.iter().enumerate() {
        let truth = &results.series.links[2][index / 4];
        assert_eq!((row[13], row[14]), ("switch->receiver", &*truth.queue.get().to_string()));
        let (window, alpha) = (number(row, 2).unwrap(), number(row, 6).unwrap());
        assert!((2.0..1e6).contains(&window) && (0.0..=1.0).contains(&alpha), "{row:?}");
        let Some(ssthresh) = number(row, 3) else { continue };
        let increase = 1024.0 * (ssthresh / 2048.0).ln_1p() / 2f64.ln() / 8.0;
        assert!((number(row, 5).unwrap() - increase).abs() < 0.01, "{row:?} has not {increase}");
        below += u32::from(window < 2.0 * 8948.0 && row[4] == "2" && number(row, 11).is_some());
    }
    assert!(below > 500, "windows are below two segments in {below} rows");
    assert!(rows.iter().any(|row| number(row, 9).is_some_and(|share| share > 0.0 && share < 1.0)));
    let dctcp = of("dctcp").trace_csv().unwrap();
    let last: Vec<&str> = dctcp.lines().last().unwrap().split(',').collect();
    assert!(last[2].is_empty() && last[6].parse::<f64>().is_ok(), "DCTCP has an alpha only: {last:?}");
    assert_eq!(of("cubic").trace_csv(), None);
}

#[test]
fn controllers_that_pace_tell_their_rate_and_a_run_without_flows_has_no_state() {
    let short = ["duration=500 ms", "warmup=0", "flow.0.controller=fixed-rate:20 Mb/s"];
    let paced = run(&scenario("compare.toml", &short), 1);
    assert!(paced.tcp_csv().lines().skip(1).all(|line| line.split(',').nth(5) == Some("20000000")));
    let text = "duration = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mb/s\"\n\
                [[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"cbr\"\nrate = \"100 kb/s\"\nsize = \"500 B\"\n";
    let quiet = run(&Scenario::parse(text, Path::new("x.toml"), &[]).unwrap(), 1);
    assert!(quiet.series.tcp.is_empty() && quiet.tcp_csv().lines().count() == 1);
}

#[test]
fn the_warm_up_is_not_counted() {
    let all = run(&scenario("dumbbell-cubic.toml", &["duration=3 s", "warmup=0"]), 1);
    let part = run(&scenario("dumbbell-cubic.toml", &["duration=3 s", "warmup=1050 ms"]), 1);
    assert_eq!(all.series, part.series);
    assert_eq!(part.summary.measured_ns, 1_950_000_000);
    assert!(part.summary.total.sent < all.summary.total.sent);
    let bottleneck = &part.summary.links[2];
    assert_eq!(bottleneck.link, "left->right");
    assert!(bottleneck.utilisation.is_some_and(|used| 0.95 < used && used <= 1.001), "{bottleneck:?}");
}

#[test]
fn a_run_that_is_ended_early_is_partial_and_usable() {
    let scenario = scenario("dumbbell-cubic.toml", &["warmup=200 ms"]);
    let mut run = Run::new(&scenario, 1, LIMIT).unwrap();
    for _ in 0..15 {
        assert!(run.step().unwrap());
    }
    let now = run.now();
    let results = run.finish();
    assert!(results.summary.partial);
    assert_eq!(results.series.ends.last(), Some(&now));
    assert_eq!(results.summary.measured_ns, now.ns() - 200_000_000);
    assert!(results.summary.total.goodput_bps > 50_000_000);
}

#[test]
fn what_a_policer_leaves_free_is_the_same_in_every_file() {
    let text = "duration = \"3 s\"\nwarmup = \"1 s\"\ninterval = \"100 ms\"\n\
                [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"100 Mb/s\"\n\
                police = { rate = \"40 Mb/s\", burst = \"30 kB\" }\n\
                [[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"cbr\"\nrate = \"10 Mb/s\"\n\
                [[measure]]\nfrom = \"a\"\nto = \"b\"\n";
    let results = run(&Scenario::parse(text, Path::new("x.toml"), &[]).unwrap(), 1);
    let near = |what: &str, mut values: Vec<u64>| {
        values.sort_unstable();
        let median = values[values.len() / 2];
        assert!(median.abs_diff(30_000_000) < 3_000_000, "{what}: {median} instead of 30 Mb/s");
    };
    let link = &results.summary.links[0];
    assert_eq!(link.capacity_bps, Some(40_000_000));
    near("links", vec![link.free_bps.unwrap()]);
    let free = |interval: &Interval| interval.free().unwrap().get() * 8 * 10;
    near("series", results.series.links[0].iter().map(free).collect());
    near("streams", results.streams.iter().map(|(_, stream)| stream.free.unwrap().bps()).collect());
    near("measurement", vec![results.summary.measurements[0].free_bps.unwrap()]);
}

//! From scenario files to networks: what is built, what the simulator lacks, and what would
//! not fit into memory.

use std::path::Path;

use headway_scenario::{Change, Scenario};
use headway_sim::{Built, Run};
use headway_units::{Bytes, Duration, Instant};

const LIMIT: Bytes = Bytes::new(1 << 30);

const GOOD: &str = r#"duration = "10 s"
nodes = ["a", "left", "right", "b"]
link = [
    { from = "a", to = "left" },
    { from = "left", to = "right", rate = "100 Mb/s", delay = "10 ms", buffer = "100 packets" },
    { from = "right", to = "b" },
]

[[flow]]
from = "a"
to = "b"
count = 4
controller = "reno"
start = "1 s"
stagger = "100 ms"

[[traffic]]
from = "left"
to = "right"
model = "cbr"
rate = "10 Mb/s"
"#;

fn read(text: &str, changes: &[&str]) -> Scenario {
    let changes: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
    Scenario::parse(text, Path::new("x.toml"), &changes).unwrap()
}

/// Why the scenario with `from` replaced by `to` cannot be built.
fn error(from: &str, to: &str) -> String {
    let text = GOOD.replacen(from, to, 1);
    assert_ne!(text, GOOD, "{from}");
    Built::new(&read(&text, &[]), 1, LIMIT).unwrap_err().to_string()
}

#[test]
fn a_network_has_the_links_and_flows_of_its_file() {
    let built = Built::new(&read(GOOD, &[]), 1, LIMIT).unwrap();
    let names: Vec<&str> = built.links.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["a->left", "left->a", "left->right", "right->left", "right->b", "b->right"]);
    let starts: Vec<u64> = built.flows.iter().map(|flow| flow.start.ns() / 1_000_000).collect();
    assert_eq!(starts, [1000, 1100, 1200, 1300]);
    assert_eq!(built.sources.len(), 1);
}

#[test]
fn a_flow_takes_a_model_of_its_streams_only() {
    let with = |controller: &str, model: &str| {
        let model = format!("{}/../../models/{model}.json", env!("CARGO_MANIFEST_DIR"));
        error("controller = \"reno\"", &format!("controller = \"{controller}\"\nmodel = \"{model}\""))
    };
    assert!(with("reno", "rapid").ends_with("`flow[0].model`: is for the controller `rapid`"));
    let wrong = with("rapid", "p-streams");
    assert!(wrong.ends_with("`flow[0].model`: the stream has 64 gaps, and the model is for 48"), "{wrong}");
    assert!(with("rapid", "sabes-kde").contains("`flow[0].model`: the model is for another task"));
}

#[test]
fn the_nic_of_a_sender_holds_its_acks_and_nothing_else() {
    let after = |host: &str, key: &str| {
        let text = format!("{GOOD}[host.{host}]\n{key} = {{ kind = \"fixed\", interval = \"20 ms\" }}\n");
        let mut built = Built::new(&read(&text, &[]), 1, LIMIT).unwrap();
        built.network.run_until(Instant::from_ns(3_000_000_000));
        built.network.flow(built.flows[0].id)
    };
    let bare = after("left", "coalescing");
    assert_eq!((after("b", "ack-coalescing"), after("a", "coalescing")), (bare, bare));
    let [held, usual] = [after("a", "ack-coalescing"), bare].map(|flow| flow.srtt.unwrap());
    assert!(held > usual + Duration::from_ms(5), "{held} {usual}");
}

#[test]
fn what_only_a_kernel_has_is_refused() {
    assert_eq!(
        error("\"reno\"", "\"kernel:vegas\""),
        "`flow[0].controller`: the simulator has no `kernel:vegas`; `--on uml` has"
    );
    assert_eq!(
        error("buffer = \"100 packets\"", "kernel-queue = \"fq_codel limit 1000 target 5.5ms\""),
        "`link[1].kernel-queue`: is not in the simulator; `--on uml` has it"
    );
    assert_eq!(
        error("[[flow]]", "[[program]]\nat = \"a\"\ncommand = \"true\"\n[[flow]]"),
        "`program[0]`: is not in the simulator; `--on uml` and `--on lab` have it"
    );
}

#[test]
fn an_unknown_method_is_named_with_its_place_and_the_nearest_one() {
    let text = format!("{GOOD}[[measure]]\nfrom = \"a\"\nto = \"b\"\nmethod = \"bas\"\n");
    let error = Built::new(&read(&text, &[]), 1, LIMIT).err().unwrap().to_string();
    let line = text.lines().count();
    let expected =
        format!("x.toml, line {line}: `measure[0].method`: there is no method `bas`; did you mean `bass`?");
    assert_eq!(error, expected);
}

#[test]
fn a_trace_that_is_not_there_is_named() {
    let text = GOOD.replacen("rate = \"100 Mb/s\"", "trace = \"no.trace\"", 1);
    let found = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap_err().to_string();
    assert!(found.contains("`link[1].trace`: no.trace: No such file"), "{found}");
}

#[test]
fn what_does_not_fit_into_memory_is_refused_before_the_run() {
    let scenario = read(GOOD, &["flow.0.count=900000", "flow.0.stagger=0"]);
    let found = Built::new(&scenario, 1, Bytes::new(1_000_000_000)).unwrap_err().to_string();
    assert!(found.starts_with("this scenario needs about"), "{found}");
}

#[test]
fn many_flows_over_many_links_have_room_for_their_routes() {
    let links: String = (0..7)
        .map(|hop| {
            format!(
                "[[link]]\nfrom = \"n{hop}\"\nto = \"n{}\"\nrate = \"1 Gb/s\"\ndelay = \"1 ms\"\n",
                hop + 1
            )
        })
        .collect();
    let flows = "[[flow]]\nfrom = \"n0\"\nto = \"n7\"\ncontroller = \"reno\"\ncount = 300000\n";
    let scenario = read(&format!("duration = \"1 s\"\n{links}{flows}"), &[]);
    assert_eq!(Built::new(&scenario, 1, Bytes::new(1 << 40)).unwrap().flows.len(), 300_000);
}

const FLOWS: &str = r#"
duration = "7 s"
warmup = "1 s"
[[link]]
from = "a"
to = "b"
rate = "100 Mb/s"
delay = "500 us"
buffer = "500 kB"
queue = { kind = "red", min = "15 kB", max = "45 kB", adaptive = true }
[[flow]]
from = "a"
to = "b"
count = 4
stagger = "10 ms"
controller = "reno"
ecn = "classic"
ack-every = 1
offload = false
[[traffic]]
from = "a"
to = "b"
model = "poisson"
rate = "10 Mb/s"
"#;

#[test]
fn a_dilated_run_is_the_same_run_slower() {
    let plain = read(FLOWS, &[]);
    let summary = |scenario: &Scenario| {
        let mut run = Run::new(scenario, 1, LIMIT).unwrap();
        while run.step().unwrap() {}
        run.finish().summary
    };
    let (quick, slow) = (summary(&plain), summary(&plain.dilated(10).unwrap()));
    let (quick, slow) = (&quick.links[0], &slow.links[0]);
    let used = [quick, slow].map(|link| link.utilisation.unwrap());
    assert!((used[0] - used[1]).abs() < 0.005, "{used:?}");
    let ratio = slow.delay_mean_ns as f64 / quick.delay_mean_ns as f64;
    assert!((9.7..10.3).contains(&ratio), "{ratio}");
    let marked = slow.marked as f64 / quick.marked as f64;
    assert!((0.9..1.1).contains(&marked), "{marked}");
}

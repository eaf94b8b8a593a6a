use std::path::Path;

use headway_core::queue::{Level, QueueSpec};
use headway_core::{Bytes, Duration, Instant, Rate};

use super::*;

const GOOD: &str = r#"duration = "10 s"
warmup = "2 s"
nodes = ["a", "left", "right", "b"]

[[link]]
from = "a"
to = "left"

[[link]]
from = "left"
to = "right"
rate = "100 Mb/s"
delay = "10 ms"
buffer = "100 packets"
police = { rate = "90 Mb/s", burst = "15 kB" }

[[link]]
from = "right"
to = "b"

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

fn read(text: &str, changes: &[&str]) -> Result<Scenario, Error> {
    let changes: Vec<Change> = changes.iter().map(|text| text.parse().unwrap()).collect();
    Scenario::parse(text, Path::new("x.toml"), &changes)
}

/// Returns the error of the scenario with `from` replaced by `to`.
fn error(from: &str, to: &str) -> String {
    let text = GOOD.replacen(from, to, 1);
    assert_ne!(text, GOOD, "{from}");
    read(&text, &[]).unwrap_err().to_string()
}

#[test]
fn a_scenario_reads_with_its_defaults() {
    let scenario = read(GOOD, &[]).unwrap();
    assert_eq!((scenario.name.as_str(), scenario.seed, scenario.mtu, scenario.mss()), ("x", 1, 1500, 1448));
    assert_eq!(scenario.interval, Duration::from_ms(100));
    assert_eq!(scenario.link[1].buffer, Some(BufferSize::Limit(Buffer::Packets(100))));
    assert!(scenario.link[1].duplex);
}

#[test]
fn mistakes_name_file_line_and_key() {
    let cases = [
        ("100 Mb/s", "0", "x.toml, line 12: `link[1].rate`: must be more than 0"),
        ("100 Mb/s", "100", "x.toml, line 12: `link[1].rate`: `100` is not a rate"),
        ("\"10 ms\"", "\"-10 ms\"", "x.toml, line 13: `link[1].delay`: `-10 ms` is not a time"),
        ("100 packets", "0 packets", "x.toml, line 14: `link[1].buffer`: must hold one packet"),
        (
            "100 packets",
            "1 packet of beer",
            "x.toml, line 14: `link[1].buffer`: `1 packet of beer` is not a buffer",
        ),
        ("100 packets", "1 kB", "x.toml, line 14: `link[1].buffer`: must hold one packet"),
        ("90 Mb/s", "0", "x.toml, line 15: `link[1].police.rate`: must be more than 0"),
        ("to = \"left\"", "to = \"up\"", "x.toml, line 7: `link[0].to`: `up` is not one of the nodes"),
        ("to = \"left\"", "to = \"a\"", "x.toml, line 7: `link[0].to`: must be another node"),
        (
            "to = \"b\"\ncount",
            "to = \"c\"\ncount",
            "x.toml, line 23: `flow[0].to`: `c` is not one of the nodes",
        ),
        ("count = 4", "via = [\"nowhere\"]", "x.toml, line 24: `flow[0].via`: `nowhere` is not"),
        (
            "count = 4",
            "via = [\"right\", \"left\"]",
            "x.toml, line 24: `flow[0].via`: the path visits `left` twice",
        ),
        ("count = 4", "count = 0", "x.toml, line 24: `flow[0].count`: must be at least 1"),
        (
            "count = 4",
            "count = 1000000000",
            "x.toml, line 24: `flow[0].count`: there must be at most 1000000 flows",
        ),
        (
            "\"reno\"",
            "\"renault\"",
            "x.toml, line 25: `flow[0].controller`: there is no controller `renault`",
        ),
        (
            "\"reno\"",
            "\"kernel:a name that is long\"",
            "x.toml, line 25: `flow[0].controller`: `kernel:a name that is long` is not `kernel:NAME` with",
        ),
        ("\"1 s\"", "\"11 s\"", "x.toml, line 26: `flow[0].start`: must be earlier than the end"),
        ("stagger", "stager", "x.toml, line 27: `flow[0].stager`: unknown field `stager`"),
        (
            "warmup = \"2 s\"",
            "warmup = \"10 s\"",
            "x.toml, line 2: `warmup`: must be shorter than `duration`",
        ),
        ("warmup = \"2 s\"", "warmup = \"-2 s\"", "x.toml, line 2: `warmup`: `-2 s` is not a time"),
        ("duration = \"10 s\"", "duration = \"0 s\"", "x.toml, line 1: `duration`: must be more than 0"),
        ("warmup", "interval = \"1 us\"\nwarmup", "x.toml, line 2: `interval`: must not divide"),
        (
            "warmup",
            "name = \"a\\u001b[2J\"\nwarmup",
            "x.toml, line 2: `name`: must not contain control characters",
        ),
        ("\"right\", \"b\"", "\"right\", \"b\\n\"", "x.toml, line 3: `nodes`: must not contain control"),
        ("warmup", "mtu = 100\nwarmup", "x.toml, line 2: `mtu`: must lie between"),
        ("\"right\", \"b\"", "\"b\", \"b\", \"right\"", "x.toml, line 3: `nodes`: names a node twice"),
        (
            "police",
            "trace = \"no.trace\" #",
            "x.toml, line 15: `link[1].trace`: cannot be combined with `rate`",
        ),
        ("police", "reordering = true #", "x.toml, line 15: `link[1].reordering`: needs `jitter`"),
        ("police", "loss = 1.0 #", "x.toml, line 15: `link[1].loss`: must be at least 0"),
        (
            "police",
            "queue = { kind = \"best\" } #",
            "x.toml, line 15: `link[1].queue`: unknown variant `best`",
        ),
        (
            "police",
            "queue = { kind = \"red\", min = \"2 kB\", max = \"1 kB\" } #",
            "x.toml, line 15: `link[1].queue.max`: must be above `min`",
        ),
        (
            "\"cbr\"",
            "\"cbr\"\nsize = \"10 B\"",
            "x.toml, line 33: `traffic[0].size`: must lie between 64 bytes",
        ),
        ("\"cbr\"", "\"batches\"\nbatch = 0.5", "x.toml, line 33: `traffic[0].batch`: must lie between 1"),
        (
            "\"cbr\"\nrate",
            "\"unc1\"\nscale = 0.0 #",
            "x.toml, line 33: `traffic[0].scale`: must be more than 0",
        ),
        ("model = \"cbr\"", "model = \"cbs\"", "x.toml, line 29: `traffic[0]`: unknown variant `cbs`"),
        (
            "model = \"cbr\"",
            "model = \"cbr\"\nspeed = 1",
            "x.toml, line 29: `traffic[0]`: unknown field `speed`",
        ),
        ("[[traffic]]", "[host.z]\n[[traffic]]", "x.toml, line 29: `host.z`: is not one of the nodes"),
    ];
    for (from, to, expected) in cases {
        let found = error(from, to);
        assert!(found.starts_with(expected), "found    {found}\nexpected {expected}");
    }
}

#[test]
fn a_kernels_controller_reads_back() {
    let scenario = read(GOOD, &["flow.0.controller=kernel:my_module-2"]).unwrap();
    let controller = &scenario.flow[0].controller;
    assert_eq!((controller.to_string().as_str(), controller.known()), ("kernel:my_module-2", None));
    assert_eq!(controller.to_string().parse(), Ok(controller.clone()));
    assert_eq!(scenario.flow[0].group_name(), "kernel:my_module-2");
}

#[test]
fn names_of_kernels_controllers_are_checked() {
    let read = |text: &str| text.parse::<FlowController>();
    assert_eq!(read("kernel:dctcp").unwrap().linux_kind(), read("dctcp").unwrap().known());
    assert_eq!(read("kernel:cdg").unwrap().linux_kind(), None);
    for text in
        ["kernel:", "kernel:a.b", "kernel:Vegas", "kernel: vegas", "kernel:0123456789abcdef", "kernel"]
    {
        assert!(read(text).is_err(), "{text}");
    }
    let found = read("cdg").unwrap_err();
    assert!(found.starts_with("`cdg` is not `reno`,") && found.contains("`kernel:NAME`"), "{found}");
}

#[test]
fn a_kernels_queue_is_one_line_and_stands_alone() {
    let queue = "x.toml, line 15: `link[1].kernel-queue`: ";
    let cases = [
        ("police", "kernel-queue = \"fq\" #", "cannot be combined with `queue` or `buffer`"),
        (
            "buffer = \"100 packets\"\npolice",
            "queue = { kind = \"codel\" }\nkernel-queue = \"fq\" #",
            "cannot be combined with `queue` or `buffer`",
        ),
        ("police", "kernel-queue = \"fq  limit 1\" #", "`fq  limit 1` is not a discipline such as"),
        ("police", "kernel-queue = \"fq\\nqdisc del\" #", "`fq\nqdisc del` is not a discipline"),
        ("police", "kernel-queue = \"\" #", "`` is not a discipline"),
        ("police", "kernel-queue = \"fq; x\" #", "`fq; x` is not a discipline"),
    ];
    for (from, to, expected) in cases {
        let found = error(from, to);
        assert!(found.starts_with(&format!("{queue}{expected}")), "found    {found}\nexpected {expected}");
    }
    let found =
        error("rate = \"100 Mb/s\"\ndelay = \"10 ms\"\nbuffer = \"100 packets\"", "kernel-queue = \"fq\"");
    assert_eq!(found, "x.toml, line 12: `link[1].kernel-queue`: needs a `rate`");
}

#[test]
fn programs_run_at_nodes_that_can_be_hosts() {
    let program = "[[program]]\nat = \"a\"\ncommand = \"true\"\n";
    let cases = [
        ("at = \"a\"", "at = \"c\"", "x.toml, line 36: `program[0].at`: `c` is not one of the nodes"),
        ("\"true\"", "\" \"", "x.toml, line 37: `program[0].command`: must not be empty"),
        (
            "\"true\"",
            "\"true\"\nstart = \"10 s\"",
            "x.toml, line 38: `program[0].start`: must be earlier than",
        ),
        ("\"true\"", "\"true\"\nstop = \"0 s\"", "x.toml, line 38: `program[0].stop`: must be later than"),
        (
            "\"true\"",
            "\"true\"\ncontroller = \"fixed-window:10\"",
            "x.toml, line 38: `program[0].controller`: must not be a fixed window or rate",
        ),
        (
            "\"true\"",
            "\"true\"\ncontroller = \"xcp\"",
            "x.toml, line 38: `program[0].controller`: must not be `xcp` or `rcp`",
        ),
        (
            "[\"a\", \"left\"",
            "[\"0\", \"a\", \"left\"",
            "x.toml, line 3: `nodes`: `0` cannot be the name of a host",
        ),
        (
            "[\"a\", \"left\"",
            "[\"A\", \"a\", \"left\"",
            "x.toml, line 3: `nodes`: `a` differs from another node only in case",
        ),
    ];
    let text = format!("{GOOD}\n{program}");
    for (from, to, expected) in cases {
        let found = read(&text.replacen(from, to, 1), &[]).unwrap_err().to_string();
        assert!(found.starts_with(expected), "found    {found}\nexpected {expected}");
    }
    let other = "controller = \"dctcp\"\n";
    let two = format!("{text}{other}{program}controller = \"kernel:vegas\"\n");
    let found = read(&two, &[]).unwrap_err().to_string();
    assert!(found.contains("`program[1].controller`: differs from that of `program[0]`"), "{found}");
}

#[test]
fn flows_need_a_way_there_and_back() {
    let text = GOOD.replacen("to = \"b\"\n", "to = \"b\"\nduplex = false\n", 1);
    let found = read(&text, &[]).unwrap_err().to_string();
    assert_eq!(found, "x.toml, line 23: `flow[0].from`: no way back: no links lead from `b` to `a`");
    let text = text.replacen("from = \"right\"\nto = \"b\"", "from = \"b\"\nto = \"right\"", 1);
    let found = read(&text, &[]).unwrap_err().to_string();
    assert_eq!(found, "x.toml, line 24: `flow[0].to`: no links lead from `a` to `b`");
}

#[test]
fn changes_set_values_by_path() {
    let changes = [
        "link.1.rate=50 Mb/s",
        "flow.0.controller=dctcp",
        "seed=7",
        "name=7",
        "link.1.police.burst=\"30 kB\"",
        "host.b={}",
    ];
    let scenario = read(GOOD, &changes).unwrap();
    assert_eq!(scenario.link[1].rate, Some(Rate::from_mbps(50.0)));
    assert_eq!(scenario.flow[0].controller.to_string(), "dctcp");
    assert_eq!((scenario.seed, scenario.name.as_str()), (7, "7"));
    assert_eq!(scenario.link[1].police.unwrap().burst, Bytes::new(30_000));
    assert!(scenario.host.contains_key("b"));
}

#[test]
fn changes_that_cannot_be_are_refused() {
    let cases = [
        ("link.9.rate=1 Mb/s", "`link.9.rate=1 Mb/s`: `link` has 3 elements, counted from 0"),
        ("link.rate=1 Mb/s", "`link.rate=1 Mb/s`: `link` has 3 elements"),
        ("duration.x=1", "`duration.x=1`: `duration` is a single value and has no keys"),
        ("link.0.speed=1", "`link.0.speed=1`: unknown field `speed`"),
        ("sed=1", "`sed=1`: unknown field `sed`"),
        ("link.0.rate=fast", "`link.0.rate=fast`: `fast` is not a rate"),
        ("link.0.rate=0", "`link.0.rate=0`: must be more than 0"),
        ("flow.0.count=1000000000", "`flow.0.count=1000000000`: there must be at most 1000000 flows"),
    ];
    for (change, expected) in cases {
        let found = read(GOOD, &[change]).unwrap_err().to_string();
        assert!(found.starts_with(expected), "found    {found}\nexpected {expected}");
    }
    assert!("link".parse::<Change>().is_err());
    assert!("link..rate=1".parse::<Change>().is_err());
}

#[test]
fn paths_are_short_and_ties_go_to_the_first_in_the_file() {
    let link = |from, to| format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\ndelay = \"1 ms\"\n");
    let links = [("a", "x"), ("a", "y"), ("x", "b"), ("y", "b"), ("a", "x")]
        .map(|(from, to)| link(from, to))
        .concat();
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\nsize = \"1 MB\"\n";
    let scenario = read(&format!("duration = \"1 s\"\n{links}{flow}"), &[]).unwrap();
    let topology = Topology::new(&scenario);
    let names = |via: &[&str]| -> Vec<String> {
        let via: Vec<String> = via.iter().map(|node| (*node).to_owned()).collect();
        let route = topology.route("a", "b", &via).unwrap();
        route.into_iter().map(|index| topology.directions()[index].name.clone()).collect()
    };
    assert_eq!(names(&[]), ["a->x", "x->b"]);
    assert_eq!(names(&["y"]), ["a->y", "y->b"]);
    assert_eq!(topology.directions()[8].name, "a->x (2)");
}

#[test]
fn rates_that_change_replace_everything_else_that_limits_a_link() {
    let cases = [
        ("rates = []", "needs at least one time with a rate"),
        ("rates = [[\"1 s\", \"1 Gb/s\"]]", "begins at 1.00 s, but the rate from 0 s on must be known"),
        (
            "rates = [\n[\"0 s\", \"1 Gb/s\"],\n[\"5 s\", \"2 Gb/s\"],\n[\"4 s\", \"1 Gb/s\"]\n]",
            "has 4.00 s after 5.00 s: times must ascend",
        ),
        ("rates = [[\"0 s\", \"1 Gb/s\"], [\"1 s\", \"0\"]]", "has a rate of 0 from 1.00 s on"),
        ("rates = [[\"0 s\", \"11 Tb/s\"]]", "must have rates of at most 10 Tb/s"),
        ("rates = [[\"0 s\", \"1 Gb/s\"]]\nrate = \"1 Gb/s\"", "cannot be combined with `rate`"),
        ("rates = [[\"0 s\", \"1 Gb/s\"]]\ntrace = \"x\"", "cannot be combined with `trace`"),
        ("rates = [[\"0 s\", \"1 Gb/s\"]]\nburst = \"9 kB\"", "cannot be combined with `burst`"),
        ("rates = [[\"0 s\", \"1 Gb/s\"]]\nkernel-queue = \"fq\"", "cannot be combined with `kernel-queue`"),
    ];
    for (link, reason) in cases {
        let found = read(&one_link(link, FLOW), &[]).unwrap_err().to_string();
        let expected = format!("x.toml, line 5: `link[0].rates`: {reason}");
        assert!(found.starts_with(&expected), "found    {found}\nexpected {expected}");
    }
}

#[test]
fn a_buffer_may_be_a_time_at_the_rate() {
    let scenario = |link: &str| read(&one_link(link, FLOW), &[]).map_err(|error| error.to_string());
    let rate = mbps(80.0);
    let link = &scenario("rate = \"80 Mb/s\"\nbuffer = \"20 ms\"").unwrap().link[0];
    assert_eq!(link.buffer_at(rate), Buffer::Bytes(Bytes::new(200_000)));
    // As `tbf` does, the bucket comes on top.
    let link = &scenario("rate = \"80 Mb/s\"\nburst = \"30 kB\"\nbuffer = \"20 ms\"").unwrap().link[0];
    assert_eq!(link.buffer_at(rate), Buffer::Bytes(Bytes::new(230_000)));
    let wrong = [
        ("buffer = \"20 ms\"", "line 5: `link[0].buffer`: as a time needs a `rate`"),
        ("buffer = \"fast\"", "line 5: `link[0].buffer`: `fast` is not a buffer such as `250 kB`"),
        ("rate = \"1 Mb/s\"\nbuffer = \"1 ms\"", "line 6: `link[0].buffer`: must hold one packet"),
        ("rate = \"1 Mb/s\"\nbuffer = \"1000 s\"", "line 6: `link[0].buffer`: must be at most 100 s"),
        ("rate = \"1 Mb/s\"\npeak-rate = \"2 Mb/s\"", "line 6: `link[0].peak-rate`: needs a `burst`"),
        (
            "rate = \"1 Mb/s\"\nburst = \"9 kB\"\npeak-rate = \"1 Mb/s\"",
            "line 7: `link[0].peak-rate`: must be above `rate`",
        ),
    ];
    for (link, reason) in wrong {
        let found = scenario(link).unwrap_err();
        assert!(found.starts_with(&format!("x.toml, {reason}")), "{found}");
    }
}

#[test]
fn rates_that_change_can_be_set_and_dilated() {
    let good = one_link("rates = [[\"0 s\", \"100 Mb/s\"]]", FLOW);
    let change = "link.0.rates=[[\"0 s\", \"40 Mb/s\"], [\"300 ms\", \"80 Mb/s\"]]";
    let scenario = read(&good, &[change]).unwrap();
    let link = &scenario.link[0];
    assert_eq!((link.lowest_rate(), link.highest_rate()), (Some(mbps(40.0)), Some(mbps(80.0))));
    // 100 ms at the highest rate.
    assert_eq!(link.buffer_at(mbps(80.0)), Buffer::Bytes(Bytes::new(1_000_000)));
    let slower = &scenario.dilated(10).unwrap().link[0];
    let list: Vec<_> = slower.rates.as_ref().unwrap().list().collect();
    assert_eq!(list, [(Duration::ZERO, mbps(4.0)), (Duration::from_ms(3_000), mbps(8.0))]);
    assert_eq!(slower.buffer, Some(BufferSize::Limit(Buffer::Bytes(Bytes::new(1_000_000)))));
    let found = read(&good, &["link.0.rates=[[\"1 s\", \"1 Mb/s\"]]"]).unwrap_err().to_string();
    assert!(found.contains("`: begins at 1.00 s"), "{found}");
}

fn mbps(mbps: f64) -> Rate {
    Rate::from_mbps(mbps)
}

/// Builds a scenario of two nodes and one link with the given keys, followed by the rest of the file.
fn one_link(link: &str, rest: &str) -> String {
    format!("duration = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\n{link}\n{rest}")
}

const FLOW: &str = "[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n";

#[test]
fn flows_over_a_path_without_time_are_refused() {
    let found = read(&one_link("", FLOW), &[]).unwrap_err().to_string();
    assert!(found.starts_with("x.toml, line 8: `flow[0].to`: the path takes no time"), "{found}");
    for link in ["rate = \"1 Mb/s\"", "trace = \"x.trace\""] {
        assert!(read(&one_link(link, FLOW), &[]).is_ok(), "{link}");
    }
    assert!(read(&one_link("", &format!("{FLOW}application-rate = \"1 Mb/s\"\n")), &[]).is_ok());
}

#[test]
fn flows_that_nothing_limits_are_refused() {
    let delay = "delay = \"1 ms\"";
    let found = read(&one_link(delay, FLOW), &[]).unwrap_err().to_string();
    assert!(found.starts_with("x.toml, line 8: `flow[0].to`: nothing limits the flow"), "{found}");
    assert!(found.contains("set `rate` on a link of its path"), "{found}");
    let police = format!("{delay}\npolice = {{ rate = \"1 Mb/s\", burst = \"30 kB\" }}");
    assert!(read(&one_link(&police, FLOW), &[]).is_ok());
    for key in [
        "size = \"1 MB\"",
        "application-rate = \"1 Mb/s\"",
        "read-rate = \"1 Mb/s\"",
        "receive-buffer = \"100 kB\"",
    ] {
        assert!(read(&one_link(delay, &format!("{FLOW}{key}\n")), &[]).is_ok(), "{key}");
    }
    for (controller, fits) in [("fixed-window:9", true), ("fixed-rate:1 Mb/s", true), ("bbr", false)] {
        let flow = FLOW.replace("reno", controller);
        assert_eq!(read(&one_link(delay, &flow), &[]).is_ok(), fits, "{controller}");
    }
}

#[test]
fn shares_and_thresholds_are_read_as_people_write_them() {
    let queue = "queue = { kind = \"step\", threshold = \"65 packets\" }";
    let link = format!("rate = \"1 Mb/s\"\nloss = \"1 %\"\n{queue}");
    let scenario = read(&one_link(&link, &FLOW.replace("reno", "Reno")), &["link.0.delay=1 msec"]).unwrap();
    assert_eq!((scenario.link[0].loss, scenario.link[0].delay), (0.01, Duration::from_ms(1)));
    let Some(QueueSpec::Step(step)) = &scenario.link[0].queue else { panic!("a step") };
    assert_eq!(step.threshold, Level::Packets(65));
    for (change, hint) in [
        ("flow.0.controller=bbr2", "did you mean `bbr`?"),
        ("link.0.rat=5 Mb/s", "did you mean `rate`?"),
        ("flow.0.ecn=clasic", "did you mean `classic`?"),
        ("link.0.loss=1 permille", "is not a share such as 0.01 or `1 %`"),
        ("link.0.delay=5", "the unit is missing; units are ns, us"),
        ("link.0.rate=100 MB/s", "units are b/s, kb/s, Mb/s"),
        ("link.0.queue.threshold=65 packages", "or packets, as in `65 packets`"),
    ] {
        let found = read(&one_link(&link, FLOW), &[change]).unwrap_err().to_string();
        assert!(found.contains(hint), "{change}: {found}");
    }
}

#[test]
fn flows_may_have_smaller_packets_than_others() {
    let rest = format!("{FLOW}{FLOW}mtu = 1500\n");
    let scenario = read(&one_link("rate = \"1 Gb/s\"", &rest), &["mtu=9000"]).unwrap();
    let sizes = [0, 1].map(|index| scenario.mss_of(&scenario.flow[index]));
    assert_eq!(sizes, [8948, 1448]);
    let found = read(&one_link("rate = \"1 Gb/s\"", &rest), &["flow.1.mtu=1501"]).unwrap_err().to_string();
    assert!(found.contains("must lie between 576 bytes and the `mtu` of the scenario"), "{found}");
}

#[test]
fn values_that_no_run_would_survive_are_refused() {
    let host = "[host.b]\ncoalescing = { kind = \"fixed\", interval = \"120 us\", jitter = 3.0 }\n";
    let on_off = "[[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"pareto-on-off\"\nsources = 1\npeak = \"1 b/s\"\n\
                  on = \"1 ns\"\noff = \"1 ns\"\nshape = 1.5\n";
    let pareto = |key: &str| {
        format!("[[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"pareto\"\nrate = \"1 b/s\"\n{key}\n")
    };
    let rate = "rate = \"1 b/s\"\n";
    let cases = [
        (
            format!("{rate}buffer = \"20 GB\""),
            FLOW.to_owned(),
            "line 6: `link[0].buffer`: would take more than",
        ),
        (
            format!("{rate}buffer = \"9 kB\"\nqueue = {{ kind = \"drop-tail\", limit = \"9 kB\" }}"),
            FLOW.to_owned(),
            "line 6: `link[0].buffer`: is also given as a limit",
        ),
        (
            format!("{rate}queue = {{ kind = \"drop-tail\", limit = \"9 B\" }}"),
            FLOW.to_owned(),
            "line 6: `link[0].queue.limit`: must hold one packet",
        ),
        (format!("{rate}burst = \"3 GB\""), FLOW.to_owned(), "line 6: `link[0].burst`: must hold one packet"),
        (rate.to_owned(), format!("{FLOW}{host}"), "line 12: `host.b.coalescing`: must have a `jitter`"),
        (
            rate.to_owned(),
            format!("{FLOW}{}", host.replace("coalescing", "ack-coalescing")),
            "line 12: `host.b.ack-coalescing`: must have a `jitter`",
        ),
        (rate.to_owned(), on_off.to_owned(), "line 13: `traffic[0].on`: must be at least a millionth"),
        (rate.to_owned(), pareto("shape = 1"), "line 12: `traffic[0].shape`: must be more than 1"),
        (
            rate.to_owned(),
            pareto("least-size = \"2 kB\""),
            "line 12: `traffic[0].least-size`: must lie between",
        ),
        (rate.to_owned(), pareto("silence = \"1 s\""), "line 7: `traffic[0].period`: must be longer"),
        (
            rate.to_owned(),
            pareto("silence = \"999 ms\"\nperiod = \"1 s\""),
            "line 12: `traffic[0].silence`: must be at most 99 %",
        ),
        (
            rate.to_owned(),
            format!(
                "{FLOW}size = \"1 kB\"\narrivals = {{ kind = \"laplace\", peak = \"20 s\", b = \"1 s\", flows = 2000000000 }}"
            ),
            "line 12: `flow[0].arrivals`: would be more than 1000000000 flows",
        ),
    ];
    for (link, rest, expected) in cases {
        let found = read(&one_link(&link, &rest), &[]).unwrap_err().to_string();
        assert!(found.starts_with(&format!("x.toml, {expected}")), "found    {found}\nexpected {expected}");
    }
    let found = read(&one_link(rate, FLOW), &["name=../x"]).unwrap_err().to_string();
    assert!(found.starts_with("`name=../x`: must not contain `/`"), "{found}");
}

#[test]
fn links_that_vary_are_checked_key_by_key() {
    let cases = [
        ("redrawn = { least = 0.7, every = \"2 s\" }", "redrawn`: needs a `rate`"),
        (
            "rate = \"1 Mb/s\"\nredrawn = { least = 0.0, every = \"2 s\" }",
            "redrawn.least`: must be more than 0",
        ),
        (
            "rate = \"1 Mb/s\"\nredrawn = { least = 0.7, every = \"0 s\" }",
            "redrawn.every`: must be more than 0",
        ),
        (
            "rate = \"1 Mb/s\"\nburst = \"9 kB\"\nredrawn = { least = 0.7, every = \"2 s\" }",
            "redrawn`: cannot be combined with `burst`",
        ),
        ("trace = \"x\"\noutages = [[\"1 s\", \"1 s\"]]", "outages`: cannot be combined with `trace`"),
        ("delay = \"1 ms\"\noutages = [[\"1 s\", \"1 s\"]]", "outages`: needs a `rate` or `rates`"),
        ("rate = \"1 Mb/s\"\noutages = [[\"0 s\", \"1 s\"]]", "outages`: must begin after 0 s"),
        (
            "rate = \"1 Mb/s\"\noutages = { every = \"1 s\", length = \"2 s\" }",
            "outages.every`: must be longer than `length`",
        ),
        ("rate = \"1 Mb/s\"\noutages = 3", "outages`: needs starts and lengths such as"),
        (
            "rate = \"1 Mb/s\"\nloss-bursts = { good = \"1 s\", bad = \"0 s\" }",
            "loss-bursts.bad`: must lie between",
        ),
        (
            "rate = \"1 Mb/s\"\nloss-bursts = { good = \"1 s\", bad = \"1 s\", loss = 2.0 }",
            "loss-bursts.loss`: must be more than 0",
        ),
    ];
    for (link, reason) in cases {
        let found = read(&one_link(link, FLOW), &[]).unwrap_err().to_string();
        assert!(found.contains(&format!("`link[0].{reason}")), "found    {found}\nexpected {reason}");
    }
}

#[test]
fn a_capacity_is_redrawn_by_the_seed_of_the_run() {
    let link =
        "rate = \"10 Mb/s\"\nredrawn = { least = 0.7, every = \"20 ms\" }\noutages = [[\"30 ms\", \"5 ms\"]]";
    let scenario = read(&one_link(link, FLOW), &[]).unwrap();
    let drawn = |seed| scenario.drawn(seed).link[0].clone();
    assert_eq!(drawn(1).rates, drawn(1).rates);
    assert_ne!(drawn(1).rates, drawn(2).rates);
    // Buffers and routers go by the full rate.
    assert_eq!((drawn(1).rate, drawn(1).highest_rate()), (Some(mbps(10.0)), Some(mbps(10.0))));
    let steps = drawn(1).steps(scenario.duration).unwrap();
    assert_eq!(steps.list().count(), 51 + 2);
    assert_eq!(steps.at(Instant::from_ns(32_000_000)), Rate::ZERO);
    assert!(steps.lowest() >= mbps(7.0));
    let slower = &scenario.dilated(10).unwrap().link[0];
    assert_eq!(slower.redrawn.map(|redrawn| redrawn.every), Some(Duration::from_ms(200)));
    // Both times of outages are ten times as long, too.
    let steps = slower.steps(Duration::from_ms(10_000)).unwrap();
    assert_eq!(steps.at(Instant::from_ns(349_000_000)), Rate::ZERO);
    assert_eq!(steps.at(Instant::from_ns(350_000_000)), mbps(1.0));
}

#[test]
fn changes_during_the_run_are_checked_key_by_key() {
    let with = |change: &str| {
        let flows = format!("{FLOW}[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"xcp\"\n");
        read(&one_link("rate = \"8 Mb/s\"\nbuffer = \"9 kB\"", &format!("{flows}[[change]]\n{change}")), &[])
    };
    let right = [
        "at = \"0 s\"\nlink = \"a->b\"\nqueue = { kind = \"xcp\" }",
        "at = \"1 ms\"\nlink = \"b->a\"\nqueue = { kind = \"codel\", limit = \"20 kB\" }",
        "at = \"1 ms\"\nflow = \"xcp\"\ncontroller = \"rcp:paced\"",
    ];
    for change in right {
        assert!(with(change).is_ok(), "{change}: {:?}", with(change).err());
    }
    let wrong = [
        ("at = \"1 s\"\nlink = \"a->b\"\nqueue = { kind = \"xcp\" }", "at`: must be earlier than the end"),
        ("at = \"0 s\"\nlink = \"a->b\"", "at`: needs `link` and `queue`, or `flow` and `controller`"),
        (
            "at = \"0 s\"\nlink = \"a->b\"\nqueue = { kind = \"xcp\" }\nflow = \"xcp\"",
            "at`: needs `link` and `queue`, or",
        ),
        ("at = \"0 s\"\nlink = \"a->c\"\nqueue = { kind = \"xcp\" }", "link`: `a->c` is not one direction"),
        (
            "at = \"0 s\"\nlink = \"a->b\"\nqueue = { kind = \"xcp\", capacity = \"0 b/s\" }",
            "queue.capacity`: must",
        ),
        (
            "at = \"0 s\"\nlink = \"a->b\"\nqueue = { kind = \"xcp\", limit = \"9 B\" }",
            "queue.limit`: must hold one packet",
        ),
        ("at = \"0 s\"\nflow = \"nobody\"\ncontroller = \"rcp\"", "flow`: `nobody` is not the name"),
        ("at = \"0 s\"\nflow = \"reno\"\ncontroller = \"rcp\"", "flow`: must have the controller `xcp`"),
        ("at = \"0 s\"\nflow = \"xcp\"\ncontroller = \"cubic\"", "controller`: must be `xcp` or `rcp`"),
        ("at = \"0 s\"\nflow = \"xcp\"\nwindow = 3", ": unknown field `window`"),
    ];
    for (change, reason) in wrong {
        let found = with(change).unwrap_err().to_string();
        assert!(found.contains(reason), "found    {found}\nexpected {reason}");
    }
}

/// Reads one link of 10 Mb/s with these keys, and a flow with these.
fn with_keys(link: &str, flow: &str) -> Result<Scenario, String> {
    let text = format!(
        "duration = \"5 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\n{link}\n\
         [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n{flow}\n"
    );
    Scenario::parse(&text, Path::new("x.toml"), &[]).map_err(|error| error.to_string())
}

#[test]
fn the_way_back_has_what_reverse_says_and_else_what_the_way_there_has() {
    let link = |keys: &str| with_keys(keys, "").unwrap().link.remove(0);
    let both = link("loss = 0.1\nduplicate = 0.2\njitter = \"1 ms\"");
    assert_eq!(both.wire(true), both.wire(false));
    assert_eq!((both.wire(true).loss, both.wire(true).duplicate), (0.1, 0.2));
    let clean = link("loss = 0.1\necn = \"clear\"\nreverse = {}");
    assert_eq!(clean.wire(true), Wire::default());
    assert_eq!(clean.wire(false).loss, 0.1);
    let traced =
        link("delay-trace = [[\"0 s\", \"3 ms\"], [\"1 s\", \"7 ms\"]]\nreverse = { corrupt = 0.3 }");
    assert_eq!(traced.wire(true).delay_trace, traced.wire(false).delay_trace);
    assert_eq!(
        (traced.wire(true).corrupt, traced.first_delay().ms(), traced.longest_delay().ms()),
        (0.3, 3.0, 7.0)
    );
    let dilated =
        with_keys("delay-trace = [[\"1 s\", \"3 ms\"]]\njitter = \"1 ms\"", "").unwrap().dilated(10).unwrap();
    assert_eq!(dilated.link[0].longest_delay().ms(), 40.0);
}

#[test]
fn what_a_wire_cannot_do_is_refused_by_its_key() {
    for (link, flow, expected) in [
        ("duplicate = 1.0", "", "`link[0].duplicate`: must be at least 0 and less than 1"),
        ("corrupt = -0.1", "", "`link[0].corrupt`: must be at least 0"),
        ("ecn = \"bleach\"", "", "unknown variant `bleach`"),
        ("reverse = { loss = 1.5 }", "", "`link[0].reverse.loss`: must be at least 0"),
        ("reverse = { delay = \"1 ms\" }", "", "unknown field `delay`"),
        ("duplex = false\nreverse = {}", "", "`link[0].reverse`: needs a `duplex` link"),
        (
            "delay = \"1 ms\"\ndelay-trace = [[\"0 s\", \"1 ms\"]]",
            "",
            "`link[0].delay-trace`: cannot be combined",
        ),
        ("delay-trace = []", "", "`link[0].delay-trace`: has no points"),
        ("delay-trace = \"missing\"", "", "`link[0].delay-trace`: missing:"),
        (
            "jitter = { kind = \"pareto\", mean = \"1 ms\", shape = 1.0 }",
            "",
            "`link[0].jitter.shape`: must be above 1",
        ),
        ("jitter = { kind = \"lognormal\" }", "", "needs a time such as"),
        ("", "chunk = \"1 MB\"", "`flow[0].chunk`: needs a `pause`"),
        ("", "pause = \"1 s\"", "`flow[0].pause`: needs a `chunk`"),
        (
            "",
            "pause = \"1 s\"\nchunk = \"1 MB\"\napplication-rate = \"1 Mb/s\"",
            "`flow[0].chunk`: cannot be combined",
        ),
        ("", "pause = \"0 s\"\nchunk = \"1 MB\"", "`flow[0].pause`: must be more than 0"),
    ] {
        let found = with_keys(link, flow).unwrap_err();
        assert!(found.contains(expected), "found    {found}\nexpected {expected}");
    }
}

use std::path::Path;

use headway_traffic::Traffic;
use headway_units::Bytes;

use super::*;

fn warnings(text: &str) -> Vec<String> {
    check_network(&Scenario::parse_network(text, Path::new("x.toml")).unwrap()).unwrap()
}

const GOOD: &str = r#"
name = "access"
seed = 7
[forward]                # client -> server
rate = "100 Mb/s"
delay = "10 ms"
buffer = "250 kB"
loss = 0.01
coalesce = "120 us"
[[cross]]
direction = "forward"
model = "poisson"
rate = "40 Mb/s"
stop = "30 s"
[[cross]]
direction = "reverse"
model = "bursty"
rate = "10 Mb/s"
batch = 20.0
"#;

fn error(text: &str) -> String {
    Spec::parse(text).unwrap_err().to_string()
}

#[test]
fn a_scenario_reads_with_its_defaults() {
    let spec = Spec::parse(GOOD).unwrap();
    assert_eq!((spec.seed, spec.mtu, spec.interval), (7, 1500, Duration::from_ms(10)));
    let [Edge { path: PathSpec { forward, reverse }, .. }] = &spec.links[..] else { panic!("{spec:?}") };
    assert_eq!(forward.buffer_size(), Bytes::new(250_000));
    assert_eq!((reverse.rate, reverse.delay), (forward.rate, forward.delay));
    assert_eq!((reverse.loss, reverse.coalesce), (0.0, None));
    assert_eq!(reverse.buffer_size(), Bytes::new(1_250_000));
    assert!(matches!(spec.cross[1].traffic, Traffic::Batches { batch: 20.0, .. }));
    assert!(warnings(GOOD).is_empty());
    let again: Spec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
    assert_eq!(again, spec);
}

#[test]
fn mistakes_name_file_line_and_key() {
    let cases = [
        ("access", "a\\u001b[2J", "x.toml, line 2: `name`: must not contain control characters"),
        ("40 Mb/s", "40", "x.toml, line 13: `cross[0].rate`: `40` is not a rate"),
        ("\"40 Mb/s", "\"0 Mb/s", "x.toml, line 13: `cross[0].rate`: must lie between"),
        ("0.01", "1.0", "x.toml, line 8: `forward.loss`: must be at least 0"),
        ("120 us", "20 s", "x.toml, line 9: `forward.coalesce`: must have an `interval` of at most 1 s"),
        ("coalesce", "coalesse", "x.toml, line 9: `forward.coalesse`: unknown field"),
        ("\"poisson\"", "\"web\"", "x.toml, line 13: `cross[0].rate`: unknown field `rate`"),
        ("stop = \"30 s\"", "shape = 1.9", "x.toml, line 14: `cross[0].shape`: unknown field `shape`"),
        ("seed = 7", "mtu = 100", "x.toml, line 3: `mtu`: must lie between"),
        ("stop = \"30 s\"", "batch = 3.0", "x.toml, line 14: `cross[0].batch`: unknown field"),
        ("250 kB", "1 kB", "x.toml, line 7: `forward.buffer`: must hold"),
        ("rate = \"100 Mb/s\"\n", "", "x.toml, line 9: `cross[0]"),
        (
            "rate = \"100 Mb/s\"\n",
            "rates = [[\"0 s\", \"1 b/s\"]]\n",
            "x.toml, line 5: `forward.rates`: must have rates between 1 kb/s and 10 Gb/s",
        ),
        (
            "delay",
            "rates = [[\"0 s\", \"1 Mb/s\"]]\ndelay",
            "x.toml, line 6: `forward.rates`: cannot be combined with `rate`",
        ),
        (
            "rate = \"100 Mb/s\"\n",
            "rates = [[\"2 s\", \"1 Mb/s\"]]\n",
            "x.toml, line 5: `forward.rates`: begins at 2.00 s",
        ),
        (
            "delay",
            "outages = { every = \"1 s\", length = \"2 s\" }\ndelay",
            "x.toml, line 6, column 13: `forward.outages.every`: must be longer than `length`",
        ),
        (
            "delay",
            "loss-bursts = { good = \"0 s\", bad = \"2 s\" }\ndelay",
            "x.toml, line 6, column 17: `forward.loss-bursts.good`: must lie between 10 us and 1000 s",
        ),
        (
            "delay",
            "queue = { kind = \"classes\", rcp = { kind = \"rcp\", police = 0 } }\ndelay",
            "x.toml, line 6, column 51: `forward.queue.rcp.police`: must be from 1 to 65536",
        ),
        (
            "delay",
            "queue = { kind = \"xcp\", police = 65537 }\ndelay",
            "x.toml, line 6, column 25: `forward.queue.police`: must be from 1 to 65536",
        ),
        (
            "delay",
            "police = { rate = \"5 Mb/s\", burst = \"1 kB\" }\ndelay",
            "x.toml, line 6, column 29: `forward.police.burst`: must hold one packet of the MTU",
        ),
        (
            "delay",
            "police = { rate = \"0 Mb/s\", burst = \"10 kB\" }\ndelay",
            "x.toml, line 6, column 12: `forward.police.rate`: must be more than 0",
        ),
    ];
    for (from, to, expected) in cases {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let found = error(&text);
        assert!(found.starts_with(expected), "found {found}\nexpected {expected}");
    }
    assert!(error("seed = 1").contains("a network needs at least one [[link]]"));
}

#[test]
fn a_crowded_link_is_warned_about() {
    let warnings = warnings(&GOOD.replace("40 Mb/s", "100 Mb/s"));
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].starts_with("forward: cross traffic of"));
}

#[test]
fn acks_that_the_nic_holds_up_otherwise_than_other_packets_are_refused() {
    let spec = |acks: &str| {
        let text = format!(
            "[forward]\nrate = \"10 Mb/s\"\n[host.server]\ncoalescing = {{ kind = \"fixed\", interval = \"1 ms\" }}\n\
             ack-coalescing = {{ kind = \"fixed\", interval = \"{acks}\" }}\n"
        );
        Spec::parse(&text)
    };
    assert!(spec("1 ms").is_ok());
    let error = spec("2 ms").unwrap_err().to_string();
    assert!(error.contains("`host.server.ack-coalescing`: needs the same `coalescing` in a lab"), "{error}");
}

const CHAIN: &str = r#"
[[link]]
from = "h1"
to = "r1"
forward = { rate = "50 Mb/s", delay = "2 ms" }
[[link]]
from = "r1"
to = "h2"
[link.forward]
rate = "30 Mb/s"
[link.reverse]
rate = "10 Mb/s"
[[cross]]
link = "r1-h2"
direction = "forward"
model = "poisson"
rate = "6 Mb/s"
"#;

fn parse(text: &str) -> Result<Spec, String> {
    Spec::parse(text).map_err(|error| error.to_string())
}

#[test]
fn a_list_of_links_reads_with_its_defaults() {
    let spec = parse(CHAIN).unwrap();
    let names: Vec<&str> = spec.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["h1-r1", "r1-h2"]);
    assert_eq!(spec.links[0].path.reverse.rate, spec.links[0].path.forward.rate);
    assert_eq!(spec.links[0].path.reverse.delay, Duration::from_ms(2));
    assert_eq!(spec.links[1].path.reverse.rate.mbps(), 10.0);
    assert_eq!((spec.cross_on(0).len(), spec.cross_on(1).len()), (0, 1));
    let again: Spec = serde_json::from_str(&serde_json::to_string(&spec).unwrap()).unwrap();
    assert_eq!(again, spec);
}

#[test]
fn mistakes_name_the_link_and_its_key() {
    let cases = [
        ("30 Mb/s", "0 Mb/s", "x.toml, line 10: `link[1].forward.rate`: must be more than 0"),
        (
            "\"50 Mb/s\"",
            "\"0 Mb/s\"",
            "x.toml, line 5, column 13: `link[0].forward.rate`: must be more than 0",
        ),
        ("\"r1-h2\"", "\"r1-h3\"", "x.toml, line 14: `cross[0].link`: `r1-h3` is not a link"),
        ("link = \"r1-h2\"", "", "x.toml, line 13: `cross[0].link`: the lab has several links"),
        (
            "from = \"r1\"
to = \"h2\"",
            "from = \"h1\"
to = \"r1\"
name = \"h1-r1\"",
            "x.toml, line 15: `cross[0].link`: `r1-h2` is not a link",
        ),
        (
            "[[link]]",
            "[forward]\nrate = \"1 Mb/s\"\n[[link]]",
            "x.toml, line 4: `link[0]`: cannot be combined",
        ),
    ];
    for (from, to, expected) in cases {
        let text = CHAIN.replacen(from, to, 1);
        assert_ne!(text, CHAIN, "{from}");
        let found = parse(&text).unwrap_err();
        assert!(found.starts_with(expected), "found {found}\nexpected {expected}");
    }
}

fn load(name: &str) -> Spec {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    Spec::of(&Scenario::load_network(&file).unwrap()).unwrap()
}

#[test]
fn the_network_of_a_scenario_for_runs_becomes_a_lab() {
    let spec = load("dsl.toml");
    let [link] = &spec.links[..] else { panic!("one link: {:?}", spec.links) };
    assert_eq!((&*link.name, &*link.from, &*link.to), ("client-server", "client", "server"));
    let sides = [&link.path.forward, &link.path.reverse];
    assert_eq!(sides.map(|side| side.rate), [Rate::from_mbps(2.0), Rate::from_mbps(20.0)]);
    // 300 ms at 2 and at 20 Mb/s.
    assert_eq!(sides.map(|side| side.buffer), [75_000, 750_000].map(|bytes| Some(Bytes::new(bytes))));
    assert_eq!((spec.name.as_deref(), spec.cross.len()), (Some("dsl"), 0));
    // Nodes and links with names of their own, and traffic on one of them.
    let spec = load("parking-lot.toml");
    let named = spec.links.iter().all(|link| link.name == format!("{}-{}", link.from, link.to));
    assert!(named, "{:?}", spec.links);
}

#[test]
fn links_with_token_buckets_lines_nics_and_traces_become_a_lab() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.trace"), "1\n2\n4\n").unwrap();
    let forward = |keys: &str| {
        let text = format!("[[link]]\nfrom = \"a\"\nto = \"b\"\n{keys}\n");
        let scenario = Scenario::parse_network(&text, &folder.path().join("x.toml")).unwrap();
        Spec::of(&scenario).unwrap().links.remove(0).path.forward
    };
    let bucket = forward("rate = \"10 Mb/s\"\nburst = \"30 kB\"\npeak-rate = \"50 Mb/s\"");
    assert_eq!((bucket.burst, bucket.peak_rate), (Some(Bytes::new(30_000)), Some(Rate::from_mbps(50.0))));
    assert_eq!(forward("rate = \"10 Mb/s\"\nline = \"1 Gb/s\"").line, Some(Rate::from_mbps(1000.0)));
    let traced = forward("trace = \"x.trace\"\nbuffer = \"150 kB\"");
    // Three packets of 1538 bytes in 4 ms.
    assert_eq!((traced.rate, traced.highest_rate()), (Rate::ZERO, Rate::from_bps(9_228_000)));
    assert_eq!(traced.buffer, Some(Bytes::new(150_000)));
    let nic = forward("rate = \"1 Mb/s\"\n[host.b]\ncoalescing = \"120 us\"").coalesce;
    assert_eq!(nic, Some(Duration::from_us(120).into()));
}

#[test]
fn links_with_the_same_ends_are_numbered() {
    let link = "[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"1 Mb/s\"\n";
    let names =
        |text: &str| parse(text).map(|spec| spec.links.into_iter().map(|link| link.name).collect::<Vec<_>>());
    assert_eq!(names(&link.repeat(3)).unwrap(), ["a-b", "a-b-2", "a-b-3"]);
    let named = format!("{link}name = \"x\"\n");
    assert!(names(&named.repeat(2)).unwrap_err().contains("another link is called `x`"));
}

#[test]
fn a_changed_path_is_checked_as_a_file_is() {
    let path = Spec::parse(GOOD).unwrap().links.remove(0).path;
    path.check(1500).unwrap();
    let wrong = |change: &dyn Fn(&mut LinkSpec)| {
        let mut path = path.clone();
        change(&mut path.reverse);
        path.check(1500).unwrap_err().to_string()
    };
    let none = wrong(&|side| side.rate = Rate::ZERO);
    assert_eq!(none, "`reverse.rate`: must be more than 0 and at most 10 Tb/s");
    let slow = wrong(&|side| side.rate = Rate::from_bps(999));
    assert_eq!(slow, "`reverse.rate`: must lie between 1 kb/s and 10 Gb/s in a lab");
    let small = wrong(&|side| side.buffer = Some(Bytes::new(1_000)));
    assert_eq!(small, "`reverse.buffer`: must hold one packet of the MTU (plus 38 bytes)");
    let nic = wrong(&|side| side.coalesce = Some(Duration::from_ms(20_000).into()));
    assert!(nic.starts_with("`reverse.coalesce`: must have an `interval`"), "{nic}");
}

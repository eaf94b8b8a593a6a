use std::path::Path;

use super::*;

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
    Spec::parse(text, Path::new("x.toml")).unwrap_err().to_string()
}

#[test]
fn a_scenario_reads_with_its_defaults() {
    let spec = Spec::parse(GOOD, Path::new("x.toml")).unwrap();
    assert_eq!((spec.seed, spec.mtu, spec.interval), (7, 1500, Duration::from_ms(10)));
    let [Edge { path: PathSpec { forward, reverse }, .. }] = &spec.links[..] else { panic!("{spec:?}") };
    assert_eq!(forward.buffer_size(), Bytes::new(250_000));
    assert_eq!((reverse.rate, reverse.delay), (forward.rate, forward.delay));
    assert_eq!((reverse.loss, reverse.coalesce), (0.0, None));
    assert_eq!(reverse.buffer_size(), Bytes::new(1_250_000));
    assert!(matches!(spec.cross[1].traffic, Traffic::Batches { batch: 20.0, .. }));
    assert!(spec.warnings().is_empty());
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
    let spec = Spec::parse(&GOOD.replace("40 Mb/s", "100 Mb/s"), Path::new("x.toml")).unwrap();
    assert_eq!(spec.warnings().len(), 1);
    assert!(spec.warnings()[0].starts_with("forward: cross traffic of"));
}

#[test]
fn acks_that_the_nic_holds_up_otherwise_than_other_packets_are_refused() {
    let spec = |acks: &str| {
        let text = format!(
            "[forward]\nrate = \"10 Mb/s\"\n[host.server]\ncoalescing = {{ kind = \"fixed\", interval = \"1 ms\" }}\n\
             ack-coalescing = {{ kind = \"fixed\", interval = \"{acks}\" }}\n"
        );
        Spec::parse(&text, Path::new("x.toml"))
    };
    assert!(spec("1 ms").is_ok());
    let error = spec("2 ms").unwrap_err().to_string();
    assert!(error.contains("`host.server.ack-coalescing`: must be like `coalescing` in a lab"), "{error}");
}

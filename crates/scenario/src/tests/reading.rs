//! What a file may say, and how mistakes are named.

use super::*;

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
    let cases = rows(
        r#"
        100 Mb/s          | 0                                                      | x.toml, line 12: `link[1].rate`: must be more than 0
        100 Mb/s          | 100                                                    | x.toml, line 12: `link[1].rate`: `100` is not a rate
        "10 ms"           | "-10 ms"                                               | x.toml, line 13: `link[1].delay`: `-10 ms` is not a time
        100 packets       | 0 packets                                              | x.toml, line 14: `link[1].buffer`: must hold one packet
        100 packets       | 1 packet of beer                                       | x.toml, line 14: `link[1].buffer`: `1 packet of beer` is not a buffer
        100 packets       | 1 kB                                                   | x.toml, line 14: `link[1].buffer`: must hold one packet
        90 Mb/s           | 0                                                      | x.toml, line 15: `link[1].police.rate`: must be more than 0
        to = "left"       | to = "up"                                              | x.toml, line 7: `link[0].to`: `up` is not one of the nodes
        to = "left"       | to = "a"                                               | x.toml, line 7: `link[0].to`: must be another node
        to = "b" // count | to = "c" // count                                      | x.toml, line 23: `flow[0].to`: `c` is not one of the nodes
        count = 4         | via = ["nowhere"]                                      | x.toml, line 24: `flow[0].via`: `nowhere` is not
        count = 4         | via = ["right", "left"]                                | x.toml, line 24: `flow[0].via`: the path visits `left` twice
        count = 4         | count = 0                                              | x.toml, line 24: `flow[0].count`: must be at least 1
        count = 4         | count = 1000000000                                     | x.toml, line 24: `flow[0].count`: there must be at most 1000000 flows
        "reno"            | "renault"                                              | x.toml, line 25: `flow[0].controller`: there is no controller `renault`
        "reno"            | "kernel:a name that is long"                           | x.toml, line 25: `flow[0].controller`: `kernel:a name that is long` is not `kernel:NAME` with
        "1 s"             | "11 s"                                                 | x.toml, line 26: `flow[0].start`: must be earlier than the end
        stagger           | stager                                                 | x.toml, line 27: `flow[0].stager`: unknown field `stager`
        warmup = "2 s"    | warmup = "10 s"                                        | x.toml, line 2: `warmup`: must be shorter than `duration`
        warmup = "2 s"    | warmup = "-2 s"                                        | x.toml, line 2: `warmup`: `-2 s` is not a time
        duration = "10 s" | duration = "0 s"                                       | x.toml, line 1: `duration`: must be more than 0
        warmup            | interval = "1 us" // warmup                            | x.toml, line 2: `interval`: must not divide
        warmup            | name = "a\u001b[2J" // warmup                          | x.toml, line 2: `name`: must not contain control characters
        "right", "b"      | "right", "b\n"                                         | x.toml, line 3: `nodes`: must not contain control
        warmup            | mtu = 100 // warmup                                    | x.toml, line 2: `mtu`: must lie between
        "right", "b"      | "b", "b", "right"                                      | x.toml, line 3: `nodes`: names a node twice
        police            | trace = "no.trace" #                                   | x.toml, line 15: `link[1].trace`: cannot be combined with `rate`
        police            | reordering = true #                                    | x.toml, line 15: `link[1].reordering`: needs `jitter`
        police            | loss = 1.0 #                                           | x.toml, line 15: `link[1].loss`: must be at least 0
        police            | queue = { kind = "best" } #                            | x.toml, line 15: `link[1].queue.kind`: unknown variant `best`
        police            | queue = { kind = "red", min = "2 kB", max = "1 kB" } # | x.toml, line 15: `link[1].queue.max`: must be above `min`
        "cbr"             | "cbr" // size = "10 B"                                 | x.toml, line 33: `traffic[0].size`: must lie between 64 bytes
        "cbr"             | "batches" // batch = 0.5                               | x.toml, line 33: `traffic[0].batch`: must lie between 1
        "cbr" // rate     | "unc1" // scale = 0.0 #                                | x.toml, line 33: `traffic[0].scale`: must be more than 0
        model = "cbr"     | model = "cbs"                                          | x.toml, line 32: `traffic[0].model`: unknown variant `cbs`
        model = "cbr"     | model = "cbr" // speed = 1                             | x.toml, line 33: `traffic[0].speed`: unknown field `speed`
        [[traffic]]       | [host.z] // [[traffic]]                                | x.toml, line 29: `host.z`: is not one of the nodes
        "#,
    );
    for [from, to, expected] in cases {
        let found = without_column(&error(&from, &to));
        assert!(found.starts_with(&expected), "found    {found}\nexpected {expected}");
    }
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
    let cases = rows(
        r#"
        link.9.rate=1 Mb/s      | `link.9.rate=1 Mb/s`: `link` has 3 elements, counted from 0
        link.rate=1 Mb/s        | `link.rate=1 Mb/s`: `link` has 3 elements
        duration.x=1            | `duration.x=1`: `duration` is a single value and has no keys
        link.0.speed=1          | `link.0.speed=1`: unknown field `speed`
        sed=1                   | `sed=1`: unknown field `sed`
        link.0.rate=fast        | `link.0.rate=fast`: `fast` is not a rate
        link.0.rate=0           | `link.0.rate=0`: must be more than 0
        flow.0.count=1000000000 | `flow.0.count=1000000000`: there must be at most 1000000 flows
        "#,
    );
    for [change, expected] in cases {
        let found = read(GOOD, &[&change]).unwrap_err().to_string();
        assert!(found.starts_with(&expected), "found    {found}\nexpected {expected}");
    }
    assert!("link".parse::<Change>().is_err());
    assert!("link..rate=1".parse::<Change>().is_err());
}

#[test]
fn shares_and_thresholds_are_read_as_people_write_them() {
    let queue = "queue = { kind = \"step\", threshold = \"65 packets\" }";
    let link = format!("rate = \"1 Mb/s\"\nloss = \"1 %\"\n{queue}");
    let scenario = read(&one_link(&link, &FLOW.replace("reno", "Reno")), &["link.0.delay=1 msec"]).unwrap();
    assert_eq!((scenario.link[0].loss, scenario.link[0].delay), (0.01, Duration::from_ms(1)));
    let Some(QueueSpec::Step(step)) = &scenario.link[0].queue else { panic!("a step") };
    assert_eq!(step.threshold, Level::Packets(65));
    for [change, hint] in rows(
        r#"
        flow.0.controller=bbr2             | did you mean `bbr`?
        link.0.rat=5 Mb/s                  | did you mean `rate`?
        flow.0.ecn=clasic                  | did you mean `classic`?
        link.0.loss=1 permille             | is not a share such as 0.01 or `1 %`
        link.0.delay=5                     | the unit is missing; units are ns, us
        link.0.rate=100 MB/s               | units are b/s, kb/s, Mb/s
        link.0.queue.threshold=65 packages | or packets, as in `65 packets`
        "#,
    ) {
        let found = read(&one_link(&link, FLOW), &[&change]).unwrap_err().to_string();
        assert!(found.contains(&hint), "{change}: {found}");
    }
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
        let found = without_column(&read(&one_link(&link, &rest), &[]).unwrap_err().to_string());
        assert!(found.starts_with(&format!("x.toml, {expected}")), "found    {found}\nexpected {expected}");
    }
    let found = read(&one_link(rate, FLOW), &["name=../x"]).unwrap_err().to_string();
    assert!(found.starts_with("`name=../x`: must not contain `/`"), "{found}");
}

/// Returns a message without the column of its key.
fn without_column(found: &str) -> String {
    let (before, after) = found.split_once(", column ").unwrap_or((found, ":"));
    let after = after.trim_start_matches(|digit: char| digit.is_ascii_digit());
    if after == ":" { before.to_owned() } else { format!("{before}{after}") }
}

#[test]
fn a_mistake_in_an_inline_table_has_a_column() {
    let text = one_link("rate = \"1 Mb/s\"\nqueue = { kind = \"codel\", target = \"x\" }", FLOW);
    let found = read(&text, &[]).unwrap_err().to_string();
    assert!(
        found.starts_with("x.toml, line 6, column 27: `link[0].queue.target`: `x` is not a time"),
        "{found}"
    );
}

#[test]
fn short_forms_of_links_and_traffic_mean_the_same_as_long_ones() {
    let short = "[forward]\nrate = \"10 Mb/s\"\ndelay = \"2 ms\"\nloss = 0.1\ncoalesce = \"120 us\"\n\
                 [[cross]]\ndirection = \"reverse\"\nmodel = \"bursty\"\nrate = \"1 Mb/s\"\nsize = \"1000 B\"\n";
    let long = "[[link]]\nfrom = \"client\"\nto = \"server\"\nduplex = false\nrate = \"10 Mb/s\"\ndelay = \"2 ms\"\nloss = 0.1\n\
                [[link]]\nfrom = \"server\"\nto = \"client\"\nduplex = false\nrate = \"10 Mb/s\"\ndelay = \"2 ms\"\n\
                [[traffic]]\nfrom = \"server\"\nto = \"client\"\nmodel = \"batches\"\nrate = \"1 Mb/s\"\nsize = \"1038 B\"\n\
                [host.server]\ncoalescing = \"120 us\"\nack-coalescing = \"120 us\"\n";
    let network = |text: &str| Scenario::parse_network(text, Path::new("x.toml")).unwrap();
    let shown =
        |scenario: &Scenario| format!("{:?} {:?} {:?}", scenario.link, scenario.traffic, scenario.host);
    assert_eq!(shown(&network(short)), shown(&network(long)));
    // What an older file has, and what to write instead.
    let warnings = network(short).warnings;
    assert!(
        warnings[0].starts_with("x.toml, line 5: `forward.coalesce` is an older form; write `[host.server]`")
    );
    assert!(
        warnings[1].starts_with("x.toml, line 6: `cross[0]` is an older form; write `[[traffic]]`"),
        "{warnings:?}"
    );
    assert!(network(long).warnings.is_empty());
    // The same files run, with a duration.
    assert!(read(&format!("duration = \"1 s\"\n{short}"), &[]).is_ok());
    let found = read(short, &[]).unwrap_err().to_string();
    assert!(found.starts_with("x.toml: `duration`: must be more than 0"), "{found}");
}

#[test]
fn mistakes_in_short_forms_name_the_key_of_the_file() {
    let text = "[forward]\nrate = \"10 Mb/s\"\nqueue = { kind = \"red\", min = \"2 kB\", max = \"1 kB\" }\n\
                [[cross]]\ndirection = \"forward\"\nmodel = \"cbr\"\nrate = \"1 Mb/s\"\n";
    for [from, to, expected] in rows(
        r#"
                         |                         | x.toml, line 3, column 39: `forward.queue.max`: must be above `min`
        red              | codel                   | x.toml, line 3, column 41: `forward.queue.max`: unknown field `max`
        rate = "10 Mb/s" | rate = 10               | x.toml, line 2: `forward.rate`: invalid type: integer `10`
        "forward"        | "back"                  | x.toml, line 5: `cross[0].direction`: must be `forward` or `reverse`
        "cbr"            | "cbs"                   | x.toml, line 6: `cross[0].model`: unknown variant `cbs`
        rate = "1 Mb/s"  | rate = "1"              | x.toml, line 7: `cross[0].rate`: `1` is not a rate
        [[cross]]        | [[cross]] // link = "x" | x.toml, line 5: `cross[0].link`: `x` is not a link
        "#,
    ) {
        let text = text
            .replacen(&from, &to, 1)
            .replace("max = \"1 kB\"", if from.is_empty() { "max = \"1 kB\"" } else { "max = \"3 kB\"" });
        let found = Scenario::parse_network(&text, Path::new("x.toml")).unwrap_err().to_string();
        assert!(found.starts_with(&expected), "found    {found}\nexpected {expected}");
    }
}

//! Rates, queues and wires of links.

use super::*;

#[test]
fn rates_that_change_replace_everything_else_that_limits_a_link() {
    let cases = rows(
        r#"
        rates = []                                                       | needs at least one time with a rate
        rates = [["1 s", "1 Gb/s"]]                                      | begins at 1.00 s, but the rate from 0 s on must be known
        rates = [ // ["0 s", "1 Gb/s"], // ["5 s", "2 Gb/s"], // ["4 s", "1 Gb/s"] // ] | has 4.00 s after 5.00 s: times must ascend
        rates = [["0 s", "1 Gb/s"], ["1 s", "0"]]                        | has a rate of 0 from 1.00 s on
        rates = [["0 s", "11 Tb/s"]]                                     | must have rates of at most 10 Tb/s
        rates = [["0 s", "1 Gb/s"]] // rate = "1 Gb/s"                   | cannot be combined with `rate`
        rates = [["0 s", "1 Gb/s"]] // trace = "x"                       | cannot be combined with `trace`
        rates = [["0 s", "1 Gb/s"]] // burst = "9 kB"                    | cannot be combined with `burst`
        rates = [["0 s", "1 Gb/s"]] // kernel-queue = "fq"               | cannot be combined with `kernel-queue`
        "#,
    );
    for [link, reason] in cases {
        let found = read(&one_link(&link, FLOW), &[]).unwrap_err().to_string();
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
    let wrong = rows(
        r#"
        buffer = "20 ms"                                          | line 5: `link[0].buffer`: as a time needs a `rate`
        buffer = "fast"                                           | line 5: `link[0].buffer`: `fast` is not a buffer such as `250 kB`
        rate = "1 Mb/s" // buffer = "1 ms"                        | line 6: `link[0].buffer`: must hold one packet
        rate = "1 Mb/s" // buffer = "1000 s"                      | line 6: `link[0].buffer`: must be at most 100 s
        rate = "1 Mb/s" // peak-rate = "2 Mb/s"                   | line 6: `link[0].peak-rate`: needs a `burst`
        rate = "1 Mb/s" // burst = "9 kB" // peak-rate = "1 Mb/s" | line 7: `link[0].peak-rate`: must be above `rate`
        "#,
    );
    for [link, reason] in wrong {
        let found = scenario(&link).unwrap_err();
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

#[test]
fn links_that_vary_are_checked_key_by_key() {
    let cases = rows(
        r#"
        redrawn = { least = 0.7, every = "2 s" }                         | redrawn`: needs a `rate`
        rate = "1 Mb/s" // redrawn = { least = 0.0, every = "2 s" }      | redrawn.least`: must be more than 0
        rate = "1 Mb/s" // redrawn = { least = 0.7, every = "0 s" }      | redrawn.every`: must be more than 0
        rate = "1 Mb/s" // burst = "9 kB" // redrawn = { least = 0.7, every = "2 s" } | redrawn`: cannot be combined with `burst`
        trace = []                                                       | trace`: must have a time after 0 ms
        trace = [0]                                                      | trace`: must have a time after 0 ms
        trace = [2, 1]                                                   | trace`: must have ascending times
        trace = "x" // outages = [["1 s", "1 s"]]                        | outages`: cannot be combined with `trace`
        delay = "1 ms" // outages = [["1 s", "1 s"]]                     | outages`: needs a `rate` or `rates`
        rate = "1 Mb/s" // outages = [["0 s", "1 s"]]                    | outages`: must begin after 0 s
        rate = "1 Mb/s" // outages = { every = "1 s", length = "2 s" }   | outages.every`: must be longer than `length`
        rate = "1 Mb/s" // outages = 3                                   | outages`: needs starts and lengths such as
        rate = "1 Mb/s" // loss-bursts = { good = "1 s", bad = "0 s" }   | loss-bursts.bad`: must lie between
        rate = "1 Mb/s" // loss-bursts = { good = "1 s", bad = "1 s", loss = 2.0 } | loss-bursts.loss`: must be more than 0
        "#,
    );
    for [link, reason] in cases {
        let found = read(&one_link(&link, FLOW), &[]).unwrap_err().to_string();
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
    for [link, flow, expected] in rows(
        r#"
        duplicate = 1.0                                          |  | `link[0].duplicate`: must be at least 0 and less than 1
        corrupt = -0.1                                           |  | `link[0].corrupt`: must be at least 0
        ecn = "bleach"                                           |  | unknown variant `bleach`
        reverse = { loss = 1.5 }                                 |  | `link[0].reverse.loss`: must be at least 0
        reverse = { delay = "1 ms" }                             |  | unknown field `delay`
        duplex = false // reverse = {}                           |  | `link[0].reverse`: needs a `duplex` link
        delay = "1 ms" // delay-trace = [["0 s", "1 ms"]]        |  | `link[0].delay-trace`: cannot be combined
        delay-trace = []                                         |  | `link[0].delay-trace`: has no points
        delay-trace = "missing"                                  |  | `link[0].delay-trace`: missing:
        jitter = { kind = "pareto", mean = "1 ms", shape = 1.0 } |  | `link[0].jitter.shape`: must be above 1
        jitter = { kind = "lognormal" }                          |  | needs a time such as
                                                                 | chunk = "1 MB" | `flow[0].chunk`: needs a `pause`
                                                                 | pause = "1 s" | `flow[0].pause`: needs a `chunk`
                                                                 | pause = "1 s" // chunk = "1 MB" // application-rate = "1 Mb/s" | `flow[0].chunk`: cannot be combined
                                                                 | pause = "0 s" // chunk = "1 MB" | `flow[0].pause`: must be more than 0
        "#,
    ) {
        let found = with_keys(&link, &flow).unwrap_err();
        assert!(found.contains(&expected), "found    {found}\nexpected {expected}");
    }
}

#[test]
fn a_kernels_queue_is_one_line_and_stands_alone() {
    let queue = "x.toml, line 15: `link[1].kernel-queue`: ";
    let cases = rows(
        r#"
        police                           | kernel-queue = "fq" #                               | cannot be combined with `queue` or `buffer`
        buffer = "100 packets" // police | queue = { kind = "codel" } // kernel-queue = "fq" # | cannot be combined with `queue` or `buffer`
        police                           | kernel-queue = "fq  limit 1" #                      | `fq  limit 1` is not a discipline such as
        police                           | kernel-queue = "fq\nqdisc del" #                    | `fq // qdisc del` is not a discipline
        police                           | kernel-queue = "" #                                 | `` is not a discipline
        police                           | kernel-queue = "fq; x" #                            | `fq; x` is not a discipline
        "#,
    );
    for [from, to, expected] in cases {
        let found = error(&from, &to);
        assert!(found.starts_with(&format!("{queue}{expected}")), "found    {found}\nexpected {expected}");
    }
    let found =
        error("rate = \"100 Mb/s\"\ndelay = \"10 ms\"\nbuffer = \"100 packets\"", "kernel-queue = \"fq\"");
    assert_eq!(found, "x.toml, line 12: `link[1].kernel-queue`: needs a `rate`");
}

#[test]
fn acks_are_filtered_in_queues_that_can_lose_what_waits() {
    for queue in ["", "queue = { kind = \"codel\" }", "queue = { kind = \"fq-codel\" }"] {
        assert!(with_keys(&format!("ack-filter = true\n{queue}"), "").unwrap().link[0].ack_filter);
    }
    for queue in ["pie", "dualpi2", "xcp", "rcp", "classes"] {
        let found =
            with_keys(&format!("ack-filter = true\nqueue = {{ kind = \"{queue}\" }}"), "").unwrap_err();
        assert!(found.contains("`link[0].ack-filter`: works in queues of kind `drop-tail`"), "{found}");
    }
    let change = "[[change]]\nat = \"1 s\"\nlink = \"a->b\"\nqueue = { kind = \"pie\" }";
    assert!(with_keys("ack-filter = true", change).unwrap_err().contains("ack-filter"));
    let measure = "[[measure]]\nfrom = \"a\"\nto = \"b\"";
    let found = with_keys("ack-filter = true", measure).unwrap_err();
    assert!(found.contains("`measure[0].to`: the path has a link with an `ack-filter`"), "{found}");
}

#[test]
fn a_radio_channel_needs_the_rate_of_its_frames_and_is_in_the_simulator_only() {
    let wrong = rows(
        r#"
        wifi = { channel = "a" }                                         | link[0].wifi`: needs a `rate`, that of the frames
        rate = "6 Mb/s" // wifi = {}                                     | missing field `channel`
        rate = "6 Mb/s" // burst = "9 kB" // wifi = { channel = "a" }    | link[0].wifi`: cannot be combined with `burst`
        rate = "6 Mb/s" // wifi = { channel = "a", retries = 256 }       | link[0].wifi.retries`: must be at most 255
        rate = "6 Mb/s" // wifi = { channel = "a", damage = 1.0 }        | link[0].wifi.damage`: must be less than 1
        rate = "6 Mb/s" // queue = { kind = "wxcp" }                     | link[0].queue.kind`: needs a link with `wifi`
        rate = "6 Mb/s" // queue = { kind = "classes", xcp = { kind = "wxcp" } } | must be `xcp`, `xcp-b`
        "#,
    );
    for [link, reason] in wrong {
        let found = read(&one_link(&link, FLOW), &[]).unwrap_err().to_string();
        assert!(found.contains(&reason), "{found}");
    }
    let good = "rate = \"6 Mb/s\"\nwifi = { channel = \"a\" }\nqueue = { kind = \"wxcp\" }";
    let scenario = read(&one_link(good, FLOW), &[]).unwrap();
    scenario.check_world(World::Sim).unwrap();
    for (world, place) in [(World::Lab, "the lab"), (World::Uml, "`--on uml`")] {
        let found = scenario.check_world(world).unwrap_err().to_string();
        assert!(found.ends_with(&format!("`link[0].wifi`: is not in {place}; `--on sim` has it")), "{found}");
    }
    let measure = "[[measure]]\nfrom = \"a\"\nto = \"b\"\n";
    let found = read(&one_link(good, measure), &[]).unwrap_err().to_string();
    assert!(found.contains("the path has a link with `wifi`"), "{found}");
    assert!(scenario.dilated(2).unwrap_err().to_string().contains("`link[0].wifi` cannot be dilated"));
}

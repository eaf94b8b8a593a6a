use std::path::Path;

use headway_lab::Coalescing;
use headway_traffic::channel::EcnField;
use headway_units::{Bytes, Instant, Rate};

use super::*;

fn load(name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    Scenario::load(&file, &[]).unwrap()
}

fn links(translated: &Translated) -> Vec<String> {
    let links = translated.spec.links.iter();
    links.map(|link| format!("{} {}-{} {}", link.name, link.from, link.to, link.path.forward.rate)).collect()
}

#[test]
fn rates_that_change_go_to_the_lab_with_their_times() {
    let scenario = load("rate-steps.toml");
    let translated = Translated::new(&scenario).unwrap();
    let [(name, path)] = &translated.changing_links()[..] else { panic!("one link") };
    assert_eq!((*name, &path.forward.rates), ("client-server", &scenario.link[1].rates));
    assert_eq!((path.forward.rate, path.forward.buffer), (Rate::ZERO, Some(Bytes::new(250_000))));
    assert!(Translated::new(&load("dumbbell-cubic.toml")).unwrap().changing_links().is_empty());
}

#[test]
fn flows_of_rapid_to_one_host_have_the_same_stamps() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"rapid\"\n";
    let link = "[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\nbuffer = \"90 kB\"\n";
    let translate = |stamp: &str| {
        let text = format!("duration = \"5 s\"\n{link}{flow}{flow}stamp = \"{stamp}\"\n");
        Translated::new(&Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap()).map(drop)
    };
    assert!(translate("driver").is_ok());
    let refused = translate("none").unwrap_err().to_string();
    assert!(refused.contains("`flow[1].stamp`"), "{refused}");
}

#[test]
fn links_that_vary_go_to_the_lab_with_what_the_seed_draws() {
    let link = "[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\nbuffer = \"90 kB\"\n\
                redrawn = { least = 0.7, every = \"100 ms\" }\noutages = { every = \"1 s\", length = \"10 ms\" }\n\
                loss-bursts = { good = \"1 s\", bad = \"20 ms\" }\n";
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n";
    let text = format!("duration = \"5 s\"\n{link}{flow}");
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap();
    let drawn = scenario.drawn(7);
    let translated = Translated::new(&drawn).unwrap();
    let [(_, path)] = &translated.changing_links()[..] else { panic!("one link") };
    let there = &path.forward;
    assert_eq!((&there.rates, &there.outages), (&drawn.link[0].rates, &scenario.link[0].outages));
    assert_eq!((there.loss_bursts, there.rate), (scenario.link[0].loss_bursts, Rate::ZERO));
    let steps = there.rate_steps();
    assert_eq!(steps.at(Instant::from_ns(1_005_000_000)), Rate::ZERO);
    assert!(steps.lowest() >= Rate::from_mbps(7.0));
}

/// A link from `a` to `b`, one without a rate from `b` to `c`, flows of XCP, and changes.
fn changing(changes: &str) -> Result<Translated, String> {
    let text = format!(
        "duration = \"5 s\"\n\
         [[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\nbuffer = \"90 kB\"\nqueue = {{ kind = \"xcp\" }}\n\
         [[link]]\nfrom = \"b\"\nto = \"c\"\ndelay = \"1 ms\"\n\
         [[flow]]\nname = \"one\"\nfrom = \"a\"\nto = \"c\"\ncontroller = \"xcp\"\n\
         [[flow]]\nname = \"two\"\nfrom = \"a\"\nto = \"c\"\ncontroller = \"xcp\"\n{changes}"
    );
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).map_err(|error| error.to_string())?;
    Translated::new(&scenario).map_err(|error| error.to_string())
}

fn queue(at: &str, link: &str, queue: &str) -> String {
    format!("[[change]]\nat = \"{at}\"\nlink = \"{link}\"\nqueue = {queue}\n")
}

fn controller(at: &str, flow: &str, controller: &str) -> String {
    format!("[[change]]\nat = \"{at}\"\nflow = \"{flow}\"\ncontroller = \"{controller}\"\n")
}

#[test]
fn changes_become_steps_in_order_of_time() {
    let changes = [
        queue("3 s", "a->b", "{ kind = \"xcp\" }"),
        queue("2 s", "a->b", "{ kind = \"rcp\", limit = \"50 kB\" }"),
        queue("2 s", "b->a", "{ kind = \"codel\" }"),
        controller("2 s", "one", "rcp"),
        controller("2 s", "two", "rcp:paced"),
        queue("1 s", "a->b", "{ kind = \"xcp\" }"),
    ];
    let steps = changing(&changes.concat().replace("limit = \"50 kB\"", "kappa = \"3 kB\"")).unwrap().steps;
    let times: Vec<Duration> = steps.iter().map(|step| step.at).collect();
    assert_eq!(times, [1, 2, 3].map(|s| Duration::from_ms(1_000 * s)));
    // The first one sets the queue that the link has.
    let links: Vec<usize> = steps.iter().map(|step| step.links.len()).collect();
    assert_eq!(links, [0, 1, 1]);
    assert_eq!(steps[1].controllers, [(3, vec![0]), (4, vec![1])]);
    let kinds = |step: &changes::Step| {
        let path = &step.links[0].1;
        [&path.forward, &path.reverse].map(|side| {
            let spec = side.queue.clone().unwrap();
            (spec.explicit().map(|(law, _)| law.is_rate()), side.buffer)
        })
    };
    let buffer = Some(Bytes::new(90_000));
    // Both directions have changed since, and only one of them back.
    assert_eq!(kinds(&steps[1]), [(Some(true), buffer), (None, buffer)]);
    assert_eq!(kinds(&steps[2]), [(Some(false), buffer), (None, buffer)]);
}

#[test]
fn changes_that_the_lab_cannot_make_are_refused_with_their_key() {
    let rcp = controller("2 s", "one", "rcp");
    for (changes, key) in [
        (queue("1 s", "b->c", "{ kind = \"codel\" }"), "`change[0].link`: `b->c` has no queue there"),
        // While one of the two flows speaks another version, the interfaces would have to serve both.
        (rcp.clone(), "`change[0].controller`: all flows of XCP and RCP"),
        (rcp.clone() + &controller("3 s", "two", "rcp"), "`change[0].controller`: all flows of XCP and RCP"),
    ] {
        let error = changing(&changes).map(|translated| translated.steps).unwrap_err();
        assert!(error.contains(key), "{error}");
    }
    assert!(changing(&(rcp + &controller("2 s", "two", "rcp"))).is_ok());
    assert!(changing(&queue("1 s", "a->b", "{ kind = \"classes\" }")).is_ok());
}

#[test]
fn one_bottleneck_becomes_one_link_and_several_become_all() {
    let dumbbell = Translated::new(&load("dumbbell-cubic.toml")).unwrap();
    assert_eq!(dumbbell.spec.links.len(), 1);
    assert!(dumbbell.routes(0).is_none());
    let lot = Translated::new(&load("parking-lot.toml")).unwrap();
    assert_eq!(
        links(&lot),
        [
            "l0 n0-n1 10.0 Gb/s",
            "l1 n1-n2 100 Mb/s",
            "l2 n2-n3 80.0 Mb/s",
            "l3 n3-n4 100 Mb/s",
            "l4 n4-n5 10.0 Gb/s"
        ]
    );
    let cross: Vec<&str> = lot.cross.iter().filter_map(|cross| cross.link.as_deref()).collect();
    assert_eq!(cross, ["l1", "l2", "l3"]);
    let limited: Vec<&str> =
        lot.lanes.iter().filter(|lane| lane.limited).map(|lane| lane.name.as_str()).collect();
    assert_eq!(limited, ["r1->r2", "r2->r1", "r2->r3", "r3->r2", "r3->r4", "r4->r3"]);
    assert_eq!((lot.node("a"), lot.node("b")), ("n0", "n5"));
    assert_ne!(lot.routes(0).unwrap().source, lot.routes(1).unwrap().source);
}

/// Two flows through a link that leads one way, and back by another, with more keys for them.
fn one_way(back: &str, more: &str) -> Result<Translated, String> {
    let link = |from: &str, to: &str, rate| {
        format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"{rate} Mb/s\"\nduplex = false\n")
    };
    let flow =
        |from: &str, to: &str| format!("[[flow]]\nfrom = \"{from}\"\nto = \"{to}\"\ncontroller = \"reno\"\n");
    let text = format!(
        "duration = \"2 s\"\n{}{}{back}{}{}{more}",
        link("a", "b", 10),
        link("b", "a", 20),
        flow("a", "b"),
        flow("b", "a")
    );
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).map_err(|error| error.to_string())?;
    Translated::new(&scenario).map_err(|error| error.to_string())
}

#[test]
fn links_that_lead_one_way_are_paired() {
    let translated = one_way("", "").unwrap();
    let [link] = &translated.spec.links[..] else { panic!("one link") };
    assert_eq!(
        (link.path.forward.rate, link.path.reverse.rate),
        (Rate::from_mbps(10.0), Rate::from_mbps(20.0))
    );
    let alone = "[[link]]\nfrom = \"b\"\nto = \"c\"\nduplex = false\n";
    assert!(
        one_way(alone, "").unwrap_err().contains("`link[2].duplex`: the lab needs a link that leads back")
    );
}

#[test]
fn what_happens_on_the_wire_goes_to_the_lab_in_each_direction() {
    let text = |first: &str, second: &str| {
        format!(
            "duration = \"2 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\n{first}\n\
             [[link]]\nfrom = \"b\"\nto = \"c\"\ndelay = \"5 ms\"\n{second}\n\
             [[flow]]\nfrom = \"a\"\nto = \"c\"\ncontroller = \"reno\"\n"
        )
    };
    let translated = |first, second| {
        let scenario = Scenario::parse(&text(first, second), Path::new("x.toml"), &[]).unwrap();
        Translated::new(&scenario).unwrap().spec
    };
    let wire = "duplicate = 0.01\ncorrupt = 0.02\necn = \"clear\"\nloss = 0.1";
    let both = format!("{wire}\nreverse = {{ loss = 0.2 }}");
    let spec = translated(&both, "loss = 0.5");
    let [link] = &spec.links[..] else { panic!("one link") };
    let (there, back) = (&link.path.forward, &link.path.reverse);
    assert_eq!((there.duplicate, there.corrupt, there.ecn), (0.01, 0.02, EcnField::Clear));
    assert_eq!((back.duplicate, back.corrupt, back.ecn), (0.0, 0.0, EcnField::Keep));
    assert!((there.loss - 0.55).abs() < 1e-9 && (back.loss - 0.6).abs() < 1e-9);
    // The delays of all links add up.
    let spec = translated("delay-trace = [[\"0 s\", \"10 ms\"], [\"1 s\", \"20 ms\"]]", "");
    let trace = spec.links[0].path.reverse.delay_trace.clone().unwrap();
    assert_eq!([0, 1_000].map(|ms| trace.at(Duration::from_ms(ms)).ms()), [15.0, 25.0]);
    // Behind or before another queue it is not the same, so the lab has both links.
    assert_eq!(translated("", wire).links.len(), 2);
    assert_eq!(translated("", wire).links[1].path.forward.duplicate, 0.01);
}

#[test]
fn every_model_of_traffic_goes_to_the_lab_with_its_keys() {
    for keys in [
        "model = \"pareto\"\nrate = \"1 Mb/s\"\nsources = 4\nleast-size = \"78 B\"\nsilence = \"20 ms\"\nperiod = \"1 s\"",
        "model = \"web\"\nbrowsers = 3\nthink = \"1 s\"\naccess = \"2 Mb/s\"",
        "model = \"bct\"\nscale = 0.001",
        "model = \"bursty\"\nrate = \"1 Mb/s\"",
    ] {
        let traffic = format!("[[traffic]]\nfrom = \"a\"\nto = \"b\"\nstart = \"1 s\"\n{keys}\n");
        let cross = one_way("", &traffic).unwrap().cross.remove(0);
        assert_eq!((cross.direction, cross.start), (Direction::Forward, Duration::from_ms(1_000)));
        assert_eq!(cross.traffic, toml::from_str(keys).unwrap());
    }
}

#[test]
fn the_nic_of_a_host_is_at_the_end_of_its_link() {
    let nic = "{ kind = \"adaptive\", interval = \"50 us\", frames = 8 }";
    let both = format!("[host.b]\ncoalescing = {nic}\nack-coalescing = {nic}\n");
    let path = one_way("", &both).unwrap().spec.links.remove(0).path;
    assert_eq!(
        path.forward.coalesce,
        Some(Coalescing::Adaptive { interval: Duration::from_us(50), frames: 8 })
    );
    assert_eq!(path.reverse.coalesce, None);
    // Both nodes send and receive, and a real NIC holds up whatever arrives.
    let error = one_way("", &format!("[host.a]\nack-coalescing = {nic}\n")).unwrap_err();
    assert!(
        error.starts_with("the lab does not support `host.a.ack-coalescing` without the same"),
        "{error}"
    );
}

#[test]
fn links_with_token_buckets_lines_and_traces_go_to_the_lab() {
    let text = |keys: &str| {
        format!(
            "duration = \"2 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\n{keys}\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.trace"), "1\n2\n4\n").unwrap();
    let forward = |keys: &str| {
        let scenario = Scenario::parse(&text(keys), &folder.path().join("x.toml"), &[]).unwrap();
        Translated::new(&scenario).unwrap().spec.links.remove(0).path.forward
    };
    let bucket = forward("rate = \"10 Mb/s\"\nburst = \"30 kB\"\npeak-rate = \"50 Mb/s\"");
    assert_eq!((bucket.burst, bucket.peak_rate), (Some(Bytes::new(30_000)), Some(Rate::from_mbps(50.0))));
    assert_eq!(forward("rate = \"10 Mb/s\"\nline = \"1 Gb/s\"").line, Some(Rate::from_mbps(1000.0)));
    let traced = forward("trace = \"x.trace\"\nbuffer = \"150 kB\"");
    // Three packets of 1538 bytes in 4 ms.
    assert_eq!((traced.rate, traced.highest_rate()), (Rate::ZERO, Rate::from_bps(9_228_000)));
    assert_eq!(traced.buffer, Some(Bytes::new(150_000)));
}

#[test]
fn traffic_through_several_queues_is_refused() {
    let further = "[[link]]\nfrom = \"b\"\nto = \"c\"\nrate = \"5 Mb/s\"\n";
    let traffic = "[[traffic]]\nfrom = \"a\"\nto = \"c\"\nmodel = \"cbr\"\nrate = \"1 Mb/s\"\n";
    let error = one_way(further, traffic).unwrap_err();
    assert!(error.starts_with("`traffic[0].to`: traffic of a lab occupies the queue"), "{error}");
    assert!(one_way(further, &traffic.replace("\"c\"", "\"b\"")).is_ok());
}

#[test]
fn routers_that_tell_senders_their_rate_go_to_the_lab() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/explicit.toml");
    let changes: Vec<_> =
        (0..4).map(|flow| format!("flow.{flow}.controller=reno").parse().unwrap()).collect();
    let scenario = Scenario::load(&file, &changes).unwrap();
    let translated = Translated::new(&scenario).unwrap();
    let queue = translated.spec.links[1].path.forward.queue.clone().unwrap();
    assert_eq!(queue.explicit(), scenario.link[1].queue.as_ref().unwrap().explicit());
    let lane = translated.lanes.iter().find(|lane| lane.name == "router->sink").unwrap();
    let names: Vec<String> = translated.spec.links.iter().map(|link| link.name.clone()).collect();
    assert!(translated.is_lane(lane, &format!("{}:forward", names[1])), "{names:?}");
    assert!(!translated.is_lane(lane, &format!("{}:reverse", names[1])));
}

#[test]
fn the_network_of_a_scenario_becomes_a_lab_of_its_own() {
    let spec = Spec::from_scenario(&load("dsl.toml")).unwrap();
    let [link] = &spec.links[..] else { panic!("one link: {:?}", spec.links) };
    assert_eq!((&*link.name, &*link.from, &*link.to), ("client-server", "client", "server"));
    let sides = [&link.path.forward, &link.path.reverse];
    assert_eq!(sides.map(|side| side.rate), [Rate::from_mbps(2.0), Rate::from_mbps(20.0)]);
    // 300 ms at 2 and at 20 Mb/s.
    assert_eq!(sides.map(|side| side.buffer), [75_000, 750_000].map(|bytes| Some(Bytes::new(bytes))));
    assert_eq!((spec.name.as_deref(), spec.cross.len()), (Some("dsl"), 0));
    // Nodes and links with names of their own, and traffic on one of them.
    let spec = Spec::from_scenario(&load("parking-lot.toml")).unwrap();
    assert!(
        spec.links.iter().all(|link| link.name == format!("{}-{}", link.from, link.to)),
        "{:?}",
        spec.links
    );
}

#[test]
fn thinned_acks_and_sprayed_packets_are_refused_by_their_key() {
    let second = "[[link]]\nfrom = \"a\"\nto = \"b\"\nspray = true";
    for (keys, key) in [("ack-filter = true", "ack-filter"), (&format!("spray = true\n{second}"), "spray")] {
        let text = format!(
            "duration = \"5 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\n{keys}\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n"
        );
        let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap();
        let found = Translated::new(&scenario).unwrap_err().to_string();
        assert_eq!(found, format!("`link[0].{key}`: is not in the lab; `--on sim` has it"));
    }
}

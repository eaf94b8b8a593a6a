use std::path::Path;

use headway_scenario::World;
use headway_traffic::channel::EcnField;
use headway_units::Rate;

use super::*;

fn load(name: &str) -> Scenario {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
    Scenario::load(&file, &[]).unwrap()
}

/// Does what a run does first.
fn translate(scenario: &Scenario) -> Result<Translated, String> {
    scenario.check_world(World::Lab).map_err(|mistake| scenario.locate(mistake).to_string())?;
    Translated::new(scenario).map_err(|error| error.to_string())
}

fn links(translated: &Translated) -> Vec<String> {
    let rate = |link: &LinkSpec| link.rate.map_or("unlimited".to_owned(), |rate| rate.to_string());
    let name = |link: &LinkSpec| link.name.clone().unwrap_or_default();
    let links = translated.network.link.iter().step_by(2);
    links.map(|link| format!("{} {}-{} {}", name(link), link.from, link.to, rate(link))).collect()
}

#[test]
fn rates_that_change_go_to_the_lab_with_their_times() {
    let scenario = load("rate-steps.toml");
    let translated = Translated::new(&scenario).unwrap();
    let [there, _] = &translated.network.link[..] else { panic!("one link") };
    assert_eq!((&there.rates, there.buffer), (&scenario.link[1].rates, scenario.link[1].buffer));
}

#[test]
fn flows_of_rapid_to_one_host_have_the_same_stamps() {
    let flow = "[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"rapid\"\n";
    let link = "[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\nbuffer = \"90 kB\"\n";
    let translate = |stamp: &str| {
        let text = format!("duration = \"5 s\"\n{link}{flow}{flow}stamp = \"{stamp}\"\n");
        translate(&Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap()).map(drop)
    };
    assert!(translate("driver").is_ok());
    let refused = translate("none").unwrap_err();
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
    let [there, _] = &translated.network.link[..] else { panic!("one link") };
    assert_eq!((&there.rates, &there.outages), (&drawn.link[0].rates, &scenario.link[0].outages));
    assert_eq!(there.loss_bursts, scenario.link[0].loss_bursts);
    assert!(there.lowest_rate() >= Some(Rate::from_mbps(7.0)));
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
    translate(&scenario)
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
    let translated = changing(&changes.concat().replace("limit = \"50 kB\"", "kappa = \"3 kB\"")).unwrap();
    let steps = &translated.steps;
    let times: Vec<Duration> = steps.iter().map(|step| step.at).collect();
    assert_eq!(times, [1, 2, 3].map(|s| Duration::from_ms(1_000 * s)));
    // The first one sets the queue that the link has.
    let changes: Vec<bool> = steps.iter().map(|step| step.network.is_some()).collect();
    assert_eq!(changes, [false, true, true]);
    assert_eq!(steps[1].controllers, [(3, vec![0]), (4, vec![1])]);
    let kinds = |step: &changes::Step| -> Vec<_> {
        let links = &step.network.as_ref().unwrap().link;
        let kind = |link: &LinkSpec| link.queue.as_ref().unwrap().explicit().map(|(law, _)| law.is_rate());
        links.iter().map(|link| (kind(link), link.buffer)).collect()
    };
    let buffer = translated.network.link[0].buffer;
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
    assert_eq!(dumbbell.network.link.len(), 2);
    assert!(dumbbell.routes(0).is_none());
    let lot = Translated::new(&load("parking-lot.toml")).unwrap();
    assert_eq!(
        links(&lot),
        [
            "l0 n0-n1 unlimited",
            "l1 n1-n2 100 Mb/s",
            "l2 n2-n3 80.0 Mb/s",
            "l3 n3-n4 100 Mb/s",
            "l4 n4-n5 unlimited"
        ]
    );
    let traffic = lot.network.traffic.iter().map(|spec| format!("{}-{}", spec.from, spec.to));
    assert_eq!(traffic.collect::<Vec<_>>(), ["n1-n2", "n2-n3", "n3-n4"]);
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
    translate(&scenario)
}

#[test]
fn links_that_lead_one_way_are_paired() {
    let translated = one_way("", "").unwrap();
    let rates: Vec<_> = translated.network.link.iter().filter_map(|link| link.rate).collect();
    assert_eq!(rates, [10.0, 20.0].map(Rate::from_mbps));
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
        Translated::new(&scenario).unwrap().network.link
    };
    let wire = "duplicate = 0.01\ncorrupt = 0.02\necn = \"clear\"\nloss = 0.1";
    let both = format!("{wire}\nreverse = {{ loss = 0.2 }}");
    let links = translated(&both, "loss = 0.5");
    let [there, back] = &links[..] else { panic!("one link") };
    assert_eq!((there.duplicate, there.corrupt, there.ecn), (0.01, 0.02, EcnField::Clear));
    assert_eq!((back.duplicate, back.corrupt, back.ecn), (0.0, 0.0, EcnField::Keep));
    assert!((there.loss - 0.55).abs() < 1e-9 && (back.loss - 0.6).abs() < 1e-9);
    // The delays of all links add up.
    let links = translated("delay-trace = [[\"0 s\", \"10 ms\"], [\"1 s\", \"20 ms\"]]", "");
    let trace = links[1].delay_trace.clone().unwrap();
    assert_eq!([0, 1_000].map(|ms| trace.at(Duration::from_ms(ms)).ms()), [15.0, 25.0]);
    // Behind or before another queue it is not the same, so the lab has both links.
    let links = translated("", wire);
    assert_eq!((links.len(), links[2].duplicate), (4, 0.01));
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
        let spec = one_way("", &traffic).unwrap().network.traffic.remove(0);
        assert_eq!((&*spec.from, &*spec.to, spec.start), ("n0", "n1", Duration::from_ms(1_000)));
        assert_eq!(spec.traffic, toml::from_str(keys).unwrap());
    }
}

#[test]
fn the_nic_of_a_host_goes_to_the_lab() {
    let nic = "{ kind = \"adaptive\", interval = \"50 us\", frames = 8 }";
    let both = format!("[host.b]\ncoalescing = {nic}\nack-coalescing = {nic}\n");
    let network = one_way("", &both).unwrap().network;
    assert!(network.lab_nic("n1").is_some() && network.lab_nic("n0").is_none());
    // Both nodes send and receive, and a real NIC holds up whatever arrives.
    let error = one_way("", &format!("[host.a]\nack-coalescing = {nic}\n")).unwrap_err();
    assert!(error.contains("`host.a.ack-coalescing`: needs the same `coalescing` in a lab"), "{error}");
}

#[test]
fn traffic_through_several_queues_is_refused() {
    let further = "[[link]]\nfrom = \"b\"\nto = \"c\"\nrate = \"5 Mb/s\"\n";
    let traffic = "[[traffic]]\nfrom = \"a\"\nto = \"c\"\nmodel = \"cbr\"\nrate = \"1 Mb/s\"\n";
    let error = one_way(further, traffic).unwrap_err();
    assert!(error.contains("`traffic[0].to`: traffic of a lab occupies the queue"), "{error}");
    assert!(one_way(further, &traffic.replace("\"c\"", "\"b\"")).is_ok());
}

#[test]
fn routers_that_tell_senders_their_rate_go_to_the_lab() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/explicit.toml");
    let changes: Vec<_> =
        (0..4).map(|flow| format!("flow.{flow}.controller=reno").parse().unwrap()).collect();
    let scenario = Scenario::load(&file, &changes).unwrap();
    let translated = Translated::new(&scenario).unwrap();
    let number = translated.lanes.iter().position(|lane| lane.name == "router->sink").unwrap();
    let link = &translated.network.link[number];
    assert_eq!(link.queue, scenario.link[1].queue);
    let (lane, name) = (&translated.lanes[number], link.name.clone().unwrap());
    assert!(translated.is_lane(lane, &format!("{name}:forward")), "{name}");
    assert!(!translated.is_lane(lane, &format!("{name}:reverse")));
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
        let found = translate(&scenario).unwrap_err();
        let refusal = format!("`link[0].{key}`: is not in the lab; `--on sim` has it");
        assert!(found.starts_with("x.toml, line ") && found.ends_with(&refusal), "{found}");
    }
}

#[test]
fn a_mistake_has_the_same_message_whether_a_lab_runs_the_scenario_or_only_its_network() {
    const TEXT: &str = "duration = \"5 s\"\nTOP\n[[link]]\nfrom = \"a\"\nto = \"b\"\nLINK\n[[link]]\nfrom = \"b\"\n\
                        to = \"c\"\ndelay = \"1 ms\"\n[[flow]]\nfrom = \"a\"\nto = \"c\"\ncontroller = \"reno\"\nEND\n";
    let rate = "rate = \"10 Mb/s\"";
    let traffic = |to: &str, rate: &str| {
        format!("[[traffic]]\nfrom = \"a\"\nto = \"{to}\"\nmodel = \"cbr\"\nrate = \"{rate}\"")
    };
    let with = |key: &str| format!("{rate}\n{key}");
    let nic = |host: &str, key: &str| format!("[host.{host}]\n{key} = \"120 us\"");
    let back = "[[link]]\nfrom = \"b\"\nto = \"d\"\nrate = \"5 Mb/s\"";
    let cases: Vec<(&str, String, String)> = vec![
        ("mtu = 1000", rate.into(), String::new()),
        ("interval = \"100 us\"", rate.into(), String::new()),
        ("header-protocol = 6", rate.into(), String::new()),
        ("header-option = 3", rate.into(), String::new()),
        ("", "rate = \"100 b/s\"".into(), String::new()),
        ("", "rate = \"40 Gb/s\"".into(), String::new()),
        ("", "rates = [[\"0 s\", \"1 Mb/s\"], [\"1 s\", \"40 Gb/s\"]]".into(), String::new()),
        ("", with("burst = \"30 kB\"\npeak-rate = \"40 Gb/s\""), String::new()),
        ("", with("police = { rate = \"40 Gb/s\", burst = \"30 kB\" }"), String::new()),
        ("", with("line = \"40 Gb/s\""), String::new()),
        ("", with("delay = \"20 s\""), String::new()),
        ("", with("jitter = \"2 s\""), String::new()),
        ("", with("reverse = { jitter = \"2 s\" }"), String::new()),
        ("", with("buffer = \"2 GB\""), String::new()),
        ("", with("buffer = \"1 kB\""), String::new()),
        ("", with("name = \"a b\""), String::new()),
        ("", with("ack-filter = true"), String::new()),
        ("", with("kernel-queue = \"fq\""), String::new()),
        ("", with("loss = 1.0"), String::new()),
        ("", with("queue = { kind = \"step\", threshold = \"3 kB\", limit = \"1 kB\" }"), String::new()),
        ("", rate.into(), traffic("c", "20 Gb/s")),
        ("", rate.into(), format!("{}\n{back}", traffic("d", "1 Mb/s"))),
        ("", rate.into(), "[[link]]\nfrom = \"c\"\nto = \"d\"\nduplex = false\n[[flow]]\nfrom = \"c\"\nto = \"a\"\ncontroller = \"reno\"".into()),
        ("", rate.into(), nic("a", "coalescing")),
        ("", rate.into(), nic("c", "ack-coalescing")),
        ("", rate.into(), format!("{}\nack-coalescing = \"90 us\"", nic("b", "coalescing"))),
    ];
    for (top, link, end) in &cases {
        let text = TEXT.replace("TOP", top).replace("LINK", link).replace("END", end);
        let file = Path::new("x.toml");
        let run = Scenario::parse(&text, file, &[]).map_err(|error| error.to_string());
        let run = run.and_then(|scenario| translate(&scenario).map(drop));
        let up = Scenario::parse_network(&text, file).map_err(|error| error.to_string());
        let up = up.and_then(|network| match headway_lab::check_network(&network) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        });
        assert!(run.is_err() && run == up, "{top} {link} {end}: {run:?} {up:?}");
    }
    // What a lab has is right in both; NICs that hold up all that arrives are.
    let right =
        [nic("a", "ack-coalescing"), nic("c", "coalescing"), nic("b", "coalescing"), traffic("b", "1 Mb/s")];
    let keys = [
        "burst = \"30 kB\"\npeak-rate = \"20 Mb/s\"",
        "redrawn = { least = 0.5, every = \"100 ms\" }",
        "outages = [[\"1 s\", \"100 ms\"]]",
        "delay-trace = [[\"0 s\", \"1 ms\"], [\"1 s\", \"2 ms\"]]",
        "jitter = \"1 ms\"\nreordering = true",
        "loss-bursts = { good = \"1 s\", bad = \"20 ms\" }",
        "duplicate = 0.1\ncorrupt = 0.1\necn = \"clear\"",
        "reverse = { loss = 0.1 }",
        "police = { rate = \"5 Mb/s\", burst = \"30 kB\" }",
        "line = \"1 Gb/s\"",
        "queue = { kind = \"codel\" }",
        "buffer = \"50 ms\"",
        "name = \"narrow\"",
    ];
    let right = right.map(|end| (rate.to_owned(), end)).into_iter();
    for (link, end) in right.chain(keys.map(|key| (with(key), String::new()))) {
        let text = TEXT.replace("TOP", "").replace("LINK", &link).replace("END", &end);
        let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap();
        assert_eq!(translate(&scenario).map(drop), Ok(()), "{link} {end}");
        let network = Scenario::parse_network(&text, Path::new("x.toml")).unwrap();
        assert!(headway_lab::check_network(&network).is_ok(), "{link} {end}");
    }
}

//! Plans of small scenarios.

use super::*;

/// Plans a path over one router; `link` and `flow` are keys of its second link and of its flow.
fn planned(link: &str, flow: &str) -> Result<Plan, ConfigError> {
    let text = format!(
        "duration = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"r\"\n[[link]]\nfrom = \"r\"\nto = \"b\"\n\
         rate = \"8 Mb/s\"\n{link}\n[[flow]]\nfrom = \"a\"\nto = \"b\"\n{flow}\n"
    );
    let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap();
    plan(&scenario, 1, Path::new(""), &RunOptions::default())
}

#[test]
fn a_kernels_queue_stands_below_the_bucket() {
    let plan = planned("kernel-queue = \"fq_codel limit 1000 target 5ms\"", "controller = \"reno\"").unwrap();
    let lines: Vec<&str> = plan.nodes.iter().flat_map(|node| &node.tc).map(String::as_str).collect();
    let device = &plan.directions[2].device;
    let of_device = |line: &&&str| line.contains(&format!(" dev {device} "));
    let found: Vec<_> = lines.iter().filter(of_device).collect();
    let bucket = format!(
        "qdisc add dev {device} parent 1:1 handle 10: tbf rate 8000000bit burst 1538 limit {}",
        u32::MAX
    );
    assert_eq!(*found[1], bucket);
    assert_eq!(
        *found[2],
        format!("qdisc add dev {device} parent 10:1 handle 20: fq_codel limit 1000 target 5ms")
    );
    assert_eq!(found.len(), 3);
}

#[test]
fn fq_codel_stands_below_the_bucket_with_its_parameters() {
    let queue = "buffer = \"100 packets\"\nqueue = { kind = \"fq-codel\", flows = 64, target = \"2 ms\", ecn = false }";
    let plan = planned(queue, "controller = \"reno\"").unwrap();
    let device = &plan.directions[2].device;
    let expected = format!(
        "qdisc add dev {device} parent 10:1 handle 20: \
         fq_codel limit 99 flows 64 quantum 1538 target 2000us interval 100000us noecn"
    );
    assert!(plan.nodes.iter().flat_map(|node| &node.tc).any(|line| *line == expected), "{expected}");
}

#[test]
fn acks_take_the_time_of_their_own_bytes_where_they_cannot_queue() {
    let of = |link: &str, direction: usize| {
        let plan = planned(link, "controller = \"reno\"").unwrap();
        let PlannedDirection { node, device, .. } = &plan.directions[direction];
        let of_device = |line: &&String| line.contains(&format!(" dev {device} "));
        plan.nodes[*node].tc.iter().filter(of_device).cloned().collect::<Vec<_>>()
    };
    // 8 Mb/s back beside 8 Mb/s there: ACKs fill at most 118 of 1538 bytes, so `netem` alone transmits them.
    let back = of("delay = \"5 ms\"", 3);
    assert_eq!(back.len(), 1, "{back:?}");
    assert!(back[0].ends_with("netem limit 100000000 delay 5000.0004us rate 8000000bit"), "{back:?}");
    // Data needs its queue, and so do ACKs on a way back that is more than 13 times slower.
    assert!(of("delay = \"5 ms\"", 2)[1].contains("tbf rate 8000000bit"));
    let slow = "duplex = false\n[[link]]\nfrom = \"b\"\nto = \"r\"\nrate = \"600 kb/s\"";
    assert!(of(slow, 3)[1].contains("tbf rate 600000bit"));
    let fast = "duplex = false\n[[link]]\nfrom = \"b\"\nto = \"r\"\nrate = \"620 kb/s\"";
    assert_eq!(of(fast, 3).len(), 1);
}

#[test]
fn connections_are_open_when_a_queue_begins_to_drop_what_it_cannot_mark() {
    let opened = |ecn: &str, controller: &str| {
        let keys = format!("start = \"500 ms\"\necn = \"{ecn}\"\ncontroller = \"{controller}\"");
        let plan = planned("", &keys).unwrap();
        (plan.flows[0].start, plan.flows[0].open)
    };
    let start = Duration::from_ms(500);
    assert_eq!(opened("classic", "reno"), (start, Duration::ZERO));
    assert_eq!(opened("dctcp", "dctcp"), (start, start));
}

#[test]
fn a_kernels_controller_keeps_its_name() {
    let plan = planned("", "controller = \"kernel:my_module\"").unwrap();
    assert_eq!((plan.flows[0].controller.as_str(), plan.flows[0].parameters.len()), ("my_module", 0));
}

#[test]
fn the_echo_of_dctcp_belongs_to_a_kernels_dctcp_too() {
    let ecn = "ecn = \"dctcp\"\ncontroller = ";
    for controller in ["\"dctcp\"", "\"kernel:dctcp\""] {
        assert_eq!(planned("", &format!("{ecn}{controller}")).unwrap().flows[0].controller, "dctcp");
        let mistake = planned("", &format!("controller = {controller}")).unwrap_err();
        assert_eq!(mistake.key(), Some("flow[0].ecn"));
    }
    assert_eq!(planned("", &format!("{ecn}\"kernel:vegas\"")).unwrap_err().key(), Some("flow[0].ecn"));
}

#[test]
fn controllers_that_are_simulated_only_are_refused() {
    let mistake = planned("", "controller = \"subtcp\"").unwrap_err();
    assert_eq!(mistake.key(), Some("flow[0].controller"));
    assert!(mistake.to_string().contains("the kernel has no `subtcp`"), "{mistake}");
    // A user's module may have the name.
    assert_eq!(planned("", "controller = \"kernel:nice\"").unwrap().flows[0].controller, "nice");
}

#[test]
fn a_router_that_tells_senders_their_rate_is_the_link_and_both_ends_insert_headers() {
    let plan = planned("queue = { kind = \"xcp\", limit = \"75 kB\" }", "controller = \"xcp:demand=2 Mb/s\"")
        .unwrap();
    let routers: Vec<_> = plan.nodes.iter().flat_map(|node| &node.routers).collect();
    assert_eq!(routers.iter().map(|router| router.direction).collect::<Vec<_>>(), [2, 3]);
    let router = routers[0];
    assert_eq!((router.device.as_str(), router.rate.bps()), (plan.directions[2].device.as_str(), 8_000_000));
    assert_eq!((router.limit.map(Bytes::get), router.packets), (Some(75_000), None));
    let node = &plan.nodes[plan.directions[2].node];
    assert!(node.tc.iter().any(|line| line.contains("root handle 1:") && line.contains("netem")));
    assert!(!node.tc.iter().any(|line| line.contains("tbf")));
    // Sender and receiver insert headers where nothing queues.
    for (node, device) in [(0, "l0-0a"), (2, "l1-1b")] {
        let tc = &plan.nodes[node].tc;
        assert_eq!(*tc, [format!("qdisc add dev {device} root handle 1: headway_end")], "{node}");
    }
    assert!(
        plan.nodes[0]
            .ip
            .iter()
            .any(|line| line.starts_with("route add 172.17.") && line.ends_with(" mtu 1480"))
    );
    let flow = &plan.flows[0];
    assert_eq!((flow.controller.as_str(), flow.opening.as_str()), ("headway_xcp", "headway_end"));
    assert_eq!(flow.parameters[0].1, "2000000");
}

#[test]
fn what_routers_and_senders_of_the_kernel_cannot_do_is_refused_by_its_key() {
    let router = "queue = { kind = \"xcp\"";
    let cases = [
        (format!("{router}, police = 4 }}"), "xcp", "link[1].queue.police"),
        (format!("{router} }}\nburst = \"20 kB\""), "xcp", "link[1].burst"),
        ("queue = { kind = \"classes\" }".to_owned(), "xcp", "link[1].queue.kind"),
        (format!("{router} }}"), "xcp:deaf", "flow[0].controller"),
        (format!("{router} }}"), "xcp:says-rtt=0.1", "flow[0].controller"),
        (format!("{router} }}"), "xcp:loss=reno", "flow[0].controller"),
        (format!("{router} }}"), "rcp:takes=3", "flow[0].controller"),
        (String::new(), "dctcp\"\necn = \"ect1", "flow[0].ecn"),
        (String::new(), "reno\"\nchunk = \"1 MB\"\npause = \"1 s", "flow[0].chunk"),
        (format!("{router} }}"), "xcp:published", "flow[0].controller"),
        (format!("{router} }}"), "rcp:paced,published", "flow[0].controller"),
        (format!("{router} }}"), "ls-reno:linear", "flow[0].controller"),
    ];
    for (link, controller, key) in cases {
        let mistake = planned(&link, &format!("controller = \"{controller}\"")).unwrap_err();
        assert_eq!(mistake.key(), Some(key), "{mistake}");
        assert!(mistake.to_string().contains("--on sim"), "{mistake}");
    }
}

#[test]
fn rates_that_change_are_refused() {
    let text = "duration = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrates = [[\"0 s\", \"8 Mb/s\"]]\n\
                [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n";
    let scenario = Scenario::parse(text, Path::new("x.toml"), &[]).unwrap();
    let mistake = plan(&scenario, 1, Path::new(""), &RunOptions::default()).unwrap_err();
    assert_eq!(mistake.key(), Some("link[0].rates"));
    assert!(
        mistake.to_string().contains("is not in `--on uml`; `--on sim` and `--on lab` have it"),
        "{mistake}"
    );
}

#[test]
fn links_that_vary_and_changes_are_refused_by_their_key() {
    let cases = [
        ("redrawn = { least = 0.5, every = \"1 s\" }", "link[0].redrawn"),
        ("outages = [[\"1 s\", \"1 s\"]]", "link[0].outages"),
        ("loss-bursts = { good = \"1 s\", bad = \"1 s\" }", "link[0].loss-bursts"),
        ("delay-trace = [[\"0 s\", \"1 ms\"]]", "link[0].delay-trace"),
        ("jitter = { kind = \"normal\", mean = \"1 ms\", deviation = \"1 ms\" }", "link[0].jitter"),
        ("duplicate = 0.1", "link[0].duplicate"),
        ("corrupt = 0.1", "link[0].corrupt"),
        ("ecn = \"clear\"", "link[0].ecn"),
        ("reverse = { loss = 0.1 }", "link[0].reverse"),
        ("ack-filter = true", "link[0].ack-filter"),
        ("spray = true\n[[link]]\nfrom = \"a\"\nto = \"b\"\nspray = true", "link[0].spray"),
        ("queue = { kind = \"classes\" }", "link[0].queue.kind"),
        ("queue = { kind = \"dualpi2\" }", "link[0].queue.kind"),
        ("[[change]]\nat = \"1 s\"\nlink = \"a->b\"\nqueue = { kind = \"codel\" }", "change[0]"),
    ];
    for (keys, key) in cases {
        let text = format!(
            "duration = \"2 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"8 Mb/s\"\n{keys}\n\
             [[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n"
        );
        let scenario = Scenario::parse(&text, Path::new("x.toml"), &[]).unwrap();
        let mistake = plan(&scenario, 1, Path::new(""), &RunOptions::default()).unwrap_err();
        assert_eq!(mistake.key(), Some(key), "{mistake}");
    }
}

#[test]
fn nodes_with_programs_reach_each_other_and_have_their_controller() {
    let programs = "[[program]]\nat = \"b\"\ncommand = \"true\"\nstop = \"2 s\"\ncontroller = \"dctcp\"\n\
                    [[program]]\nat = \"a\"\ncommand = \"true\"";
    let plan = planned("", &format!("controller = \"reno\"\n{programs}")).unwrap();
    let hosts: Vec<String> = plan.hosts.iter().map(|(at, name)| format!("{name} {at}")).collect();
    assert_eq!(hosts, ["a 172.20.0.1", "r 172.20.0.2", "b 172.20.0.3"]);
    let has = |node: usize, begin: &str| plan.nodes[node].ip.iter().any(|line| line.starts_with(begin));
    assert!(has(0, "route add 172.20.0.3/32 via 10.0.0.2 dev l0-0a src 172.20.0.1"));
    assert!(has(1, "route add 172.20.0.3/32 via ") && has(2, "route add 172.20.0.1/32 via "));
    assert_eq!(plan.nodes[2].controller.as_deref(), Some("dctcp"));
    assert_eq!(plan.nodes[0].controller, None);
    assert_eq!(plan.programs[0].stop, Duration::from_ms(1_000), "the run ends before");
}

#[test]
fn a_flow_of_rapid_has_microseconds_both_ways_and_a_receiver_that_compresses_no_acks() {
    let plan = planned("", "controller = \"rapid:tau=10ms\"").unwrap();
    let routes: Vec<_> = plan.nodes.iter().flat_map(|node| &node.routes).collect();
    assert_eq!(routes.len(), 2, "{routes:?}");
    assert!(routes.iter().all(|route| route.metrics.microseconds));
    let receiver = &plan.nodes[plan.flows[0].to];
    assert!(receiver.settings.iter().any(|(key, value)| key.ends_with("tcp_comp_sack_nr") && value == "0"));
    let parameters = &plan.flows[0].parameters;
    let value =
        |name: &str| parameters.iter().find(|(file, _)| file.ends_with(name)).map(|(_, value)| &**value);
    assert_eq!(
        (value("tau"), value("line"), value("unit")),
        (Some("10000000"), Some("8000000"), Some("1000"))
    );
    // Without stamps in microseconds, the routes are ordinary ones.
    let plan = planned("", "controller = \"rapid\"\nstamp = \"ms\"").unwrap();
    assert!(plan.nodes.iter().all(|node| node.routes.is_empty()));
}

#[test]
fn what_a_flow_does_without_is_off_in_the_kernel() {
    let plan = planned("", "controller = \"cubic\"\nsack = false\nrack = false\nhystart = false").unwrap();
    let flow = &plan.flows[0];
    let off = |name: &str| (format!("net/ipv4/tcp_{name}"), "0".to_owned());
    assert_eq!(plan.nodes[flow.from].settings, [off("sack"), off("recovery")]);
    let [(file, value)] = &flow.parameters[..] else { panic!("{:?}", flow.parameters) };
    assert!(file.ends_with("tcp_cubic/parameters/hystart") && value == "0");
}

#[test]
fn a_card_stands_at_the_last_device_before_its_host() {
    for link in ["", "delay = \"5 ms\"", "delay = \"5 ms\"\nloss = 0.1"] {
        let plan = planned(link, "controller = \"reno\"\n[host.b]\ncoalescing = \"120 us\"").unwrap();
        let cards: Vec<_> =
            plan.nodes.iter().flat_map(|node| node.cards.iter().map(move |card| (node, card))).collect();
        let [(node, card)] = cards[..] else { panic!("{cards:?}") };
        // Neither the queue nor the random losses are there.
        assert!(
            !node.tc.iter().any(|line| line.contains(&format!("dev {} root", card.device))),
            "{:?}",
            node.tc
        );
        assert_eq!((card.jitter, card.frames, card.acks), (13_107, None, false));
    }
}

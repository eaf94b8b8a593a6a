//! Flows, their paths, programs, and changes of both during a run.

use super::*;

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
fn programs_run_at_nodes_that_can_be_hosts() {
    let program = "[[program]]\nat = \"a\"\ncommand = \"true\"\n";
    let cases = rows(
        r#"
        at = "a"     | at = "c"                                 | x.toml, line 36: `program[0].at`: `c` is not one of the nodes
        "true"       | " "                                      | x.toml, line 37: `program[0].command`: must not be empty
        "true"       | "true" // start = "10 s"                 | x.toml, line 38: `program[0].start`: must be earlier than
        "true"       | "true" // stop = "0 s"                   | x.toml, line 38: `program[0].stop`: must be later than
        "true"       | "true" // controller = "fixed-window:10" | x.toml, line 38: `program[0].controller`: must not be a fixed window or rate
        "true"       | "true" // controller = "xcp"             | x.toml, line 38: `program[0].controller`: must not be `xcp` or `rcp`
        ["a", "left" | ["0", "a", "left"                        | x.toml, line 3: `nodes`: `0` cannot be the name of a host
        ["a", "left" | ["A", "a", "left"                        | x.toml, line 3: `nodes`: `a` differs from another node only in case
        "#,
    );
    let text = format!("{GOOD}\n{program}");
    for [from, to, expected] in cases {
        let found = read(&text.replacen(&from, &to, 1), &[]).unwrap_err().to_string();
        assert!(found.starts_with(&expected), "found    {found}\nexpected {expected}");
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
fn flows_over_a_path_without_time_are_refused() {
    let found = read(&one_link("", FLOW), &[]).unwrap_err().to_string();
    assert!(found.starts_with("x.toml, line 8: `flow[0].to`: the path takes no time"), "{found}");
    for link in ["rate = \"1 Mb/s\"", "trace = [1]"] {
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
fn flows_may_have_smaller_packets_than_others() {
    let rest = format!("{FLOW}{FLOW}mtu = 1500\n");
    let scenario = read(&one_link("rate = \"1 Gb/s\"", &rest), &["mtu=9000"]).unwrap();
    let sizes = [0, 1].map(|index| scenario.mss_of(&scenario.flow[index]));
    assert_eq!(sizes, [8948, 1448]);
    let found = read(&one_link("rate = \"1 Gb/s\"", &rest), &["flow.1.mtu=1501"]).unwrap_err().to_string();
    assert!(found.contains("must lie between 576 bytes and the `mtu` of the scenario"), "{found}");
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
    let wrong = rows(
        r#"
        at = "1 s" // link = "a->b" // queue = { kind = "xcp" }          | at`: must be earlier than the end
        at = "0 s" // link = "a->b"                                      | at`: needs `link` and `queue`, or `flow` and `controller`
        at = "0 s" // link = "a->b" // queue = { kind = "xcp" } // flow = "xcp" | at`: needs `link` and `queue`, or
        at = "0 s" // link = "a->c" // queue = { kind = "xcp" }          | link`: `a->c` is not one direction
        at = "0 s" // link = "a->b" // queue = { kind = "xcp", capacity = "0 b/s" } | queue.capacity`: must
        at = "0 s" // link = "a->b" // queue = { kind = "xcp", limit = "9 B" } | queue.limit`: must hold one packet
        at = "0 s" // flow = "nobody" // controller = "rcp"              | flow`: `nobody` is not the name
        at = "0 s" // flow = "reno" // controller = "rcp"                | flow`: must have the controller `xcp`
        at = "0 s" // flow = "xcp" // controller = "cubic"               | controller`: must be `xcp` or `rcp`
        at = "0 s" // flow = "xcp" // window = 3                         | : unknown field `window`
        "#,
    );
    for [change, reason] in wrong {
        let found = with(&change).unwrap_err().to_string();
        assert!(found.contains(&reason), "found    {found}\nexpected {reason}");
    }
}

#[test]
fn all_links_between_two_nodes_take_turns_or_none() {
    let link = |from: &str, to: &str, keys: &str| {
        format!("[[link]]\nfrom = \"{from}\"\nto = \"{to}\"\nrate = \"1 Mb/s\"\n{keys}\n")
    };
    let with = |links: &[String]| read(&format!("duration = \"1 s\"\n{}{FLOW}", links.concat()), &[]);
    let spray = "spray = true";
    // The second is the other way round, but is duplex, too.
    let both = with(&[link("a", "b", spray), link("b", "a", spray)]).unwrap();
    let topology = Topology::new(&both);
    let route = topology.route("a", "b", &[]).unwrap();
    let names = |index: usize| -> Vec<&str> {
        topology.parallel(index).iter().map(|member| topology.directions()[*member].name.as_str()).collect()
    };
    assert_eq!((names(route[0]), names(1)), (vec!["a->b", "a->b (2)"], vec!["b->a", "b->a (2)"]));
    let plain = with(&[link("a", "b", ""), link("a", "b", "")]).unwrap();
    assert_eq!(Topology::new(&plain).parallel(0), [0]);
    let one_way = "spray = true\nduplex = false";
    for links in [
        vec![link("a", "b", spray)],
        vec![link("a", "b", spray), link("a", "b", "")],
        vec![link("a", "b", spray), link("a", "c", spray)],
        vec![link("a", "b", spray), link("a", "b", one_way)],
    ] {
        let found = with(&links).unwrap_err().to_string();
        assert!(found.contains("`link[0].spray`: needs another link between the same nodes"), "{found}");
    }
}

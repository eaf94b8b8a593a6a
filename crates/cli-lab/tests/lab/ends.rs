//! Flows of XCP, RCP and TCP Rapid in the lab, where the kernel's TCP is at the ends, beside the simulator.
//!
//! Where the machine does not allow namespaces or controllers, each test says so and passes.

use serde_json::Value;

/// Two flows of a controller at a router of this kind.
fn scenario(kind: &str, controller: &str) -> String {
    format!(
        "duration = \"3 s\"\nwarmup = \"1500 ms\"\n[[link]]\nfrom = \"client\"\nto = \"sink\"\nrate = \"3 Mb/s\"\n\
         delay = \"10 ms\"\nqueue = {{ kind = \"{kind}\", limit = \"75 kB\" }}\n\
         [[flow]]\nfrom = \"client\"\nto = \"sink\"\ncontroller = \"{controller}\"\ncount = 2\n"
    )
}

/// Runs a scenario and returns its summary; `None` if this machine cannot.
fn summary(file: &str, folder: &std::path::Path, world: &str) -> Option<Value> {
    let out = folder.join(world);
    let args = ["run", "--on", world, "--output", out.to_str().unwrap(), file];
    let ran = crate::support::output(&mut crate::support::headway(&args));
    let errors = crate::support::text(&ran.stderr);
    let reasons = ["this host allows neither", "install the package", "needs root", "this kernel"];
    if reasons.iter().any(|reason| errors.contains(reason)) {
        println!("SKIPPED: {errors}");
        return None;
    }
    assert!(ran.status.success(), "{errors}");
    Some(serde_json::from_str(&std::fs::read_to_string(out.join("summary.json")).unwrap()).unwrap())
}

/// Runs two flows in the lab and in the simulator.
fn runs_as_in_the_simulator(kind: &str, controller: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = crate::support::write(folder.path(), "ends.toml", &scenario(kind, controller));
    let Some(lab) = summary(&file, folder.path(), "lab") else { return };
    let Some(sim) = summary(&file, folder.path(), "sim") else { return };
    let control = std::fs::read_to_string(folder.path().join("lab/control.jsonl")).unwrap();
    let first: Value = serde_json::from_str(control.lines().next().unwrap()).unwrap();
    assert_eq!((&first["link"], &first["law"]), (&"client->sink".into(), &kind.into()));
    let [lab_group, sim_group] = [&lab, &sim].map(|summary| &summary["groups"][0]);
    assert_eq!(lab_group["flows"], sim_group["flows"]);
    // A machine that is too busy says so, and its numbers are not checked.
    if lab["valid"] != true {
        println!("INVALID: {lab}");
        return;
    }
    assert_eq!(lab_group["retransmitted"], 0);
    let utilisation = |summary: &Value| summary["links"][0]["utilisation"].as_f64().unwrap();
    assert!((utilisation(&lab) - utilisation(&sim)).abs() < 0.05, "{lab} beside {sim}");
    // Without a router's word Reno would fill the buffer: 200 ms.
    assert!(lab["links"][0]["delay_mean_ns"].as_u64().unwrap() < 40_000_000, "{lab}");
    assert!(lab_group["fairness"].as_f64().unwrap() > 0.95, "{lab}");
}

#[test]
fn flows_of_xcp_run_in_the_lab_as_in_the_simulator() {
    runs_as_in_the_simulator("xcp", "xcp");
}

#[test]
fn flows_of_rcp_run_in_the_lab_as_in_the_simulator() {
    // The kernel paces RCP in any case.
    runs_as_in_the_simulator("rcp", "rcp:paced");
}

#[test]
fn a_flow_of_rapid_fills_a_path_of_the_lab_and_no_buffer() {
    let text = "duration = \"5 s\"\nwarmup = \"2 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"20 Mb/s\"\n\
                delay = \"10 ms\"\nbuffer = \"250 kB\"\n[[flow]]\nfrom = \"a\"\nto = \"b\"\ncontroller = \"rapid\"\n";
    let folder = tempfile::tempdir().unwrap();
    let slow = format!("{text}line = \"5 Mb/s\"\n").replace("\"5 s\"", "\"3 s\"");
    let slow = crate::support::write(folder.path(), "slow.toml", &slow);
    let Some(lab) = summary(&slow, folder.path(), "lab") else { return };
    assert!(lab["links"][0]["utilisation"].as_f64().unwrap() < 0.3, "the line is not known: {lab}");
    let file = crate::support::write(folder.path(), "rapid.toml", text);
    let Some(lab) = summary(&file, folder.path(), "lab") else { return };
    assert_eq!(lab["groups"][0]["flows"], 1);
    if lab["valid"] != true {
        println!("INVALID: {lab}");
        return;
    }
    assert_eq!(lab["groups"][0]["timeouts"], 0);
    // Other senders would have a queue of 100 ms.
    let [utilisation, delay] =
        ["utilisation", "delay_mean_ns"].map(|key| lab["links"][0][key].as_f64().unwrap());
    assert!(utilisation > 0.6 && delay < 30e6, "{lab}");
}

/// Two flows and their routers change from XCP to RCP and back, and the last router its kappa and n.
fn flip() -> String {
    let mut text = scenario("xcp", "xcp").replace("\"3 s\"", "\"6 s\"").replace("\"1500 ms\"", "\"500 ms\"");
    let mut change = |at: &str, what: &str| text += &format!("[[change]]\nat = \"{at}\"\n{what}\n");
    for (at, there, back, controller) in [
        ("2 s", "kind = \"rcp\"", "rcp", "rcp:paced"),
        ("4 s", "kind = \"xcp-b\", kappa = \"6 kB\"", "xcp", "xcp"),
    ] {
        change(at, &format!("link = \"client->sink\"\nqueue = {{ {there}, limit = \"75 kB\" }}"));
        change(at, &format!("link = \"sink->client\"\nqueue = {{ kind = \"{back}\", limit = \"75 kB\" }}"));
        change(at, &format!("flow = \"xcp\"\ncontroller = \"{controller}\""));
    }
    let queue = "kind = \"xcp-b\", kappa = \"9 kB\", n = 3, limit = \"75 kB\"";
    change("5 s", &format!("link = \"client->sink\"\nqueue = {{ {queue} }}"));
    text
}

#[test]
fn senders_and_routers_change_their_protocol_while_data_flows() {
    let folder = tempfile::tempdir().unwrap();
    let file = crate::support::write(folder.path(), "flip.toml", &flip());
    let Some(lab) = summary(&file, folder.path(), "lab") else { return };
    if lab["valid"] != true {
        println!("INVALID: {lab}");
        return;
    }
    let control = std::fs::read_to_string(folder.path().join("lab/control.jsonl")).unwrap();
    let intervals: Vec<Value> = control.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let there = || intervals.iter().filter(|interval| interval["link"] == "client->sink");
    for (law, from, to) in [("xcp", 0, 2), ("rcp", 2, 4), ("xcp-b", 4, 6)] {
        // Records are kept once an interval ends, and commands take a moment.
        let inside = |interval: &&Value| {
            let end = interval["end_ns"].as_i64().unwrap();
            (from * 1_000_000_000 + 300_000_000..to * 1_000_000_000).contains(&end)
        };
        assert!(there().filter(inside).all(|interval| interval["law"] == law), "{law}");
    }
    let last = there().next_back().unwrap();
    assert_eq!((&last["kappa"], &last["n"]), (&9_000.0.into(), &3.into()));
    // Every flow goes on under every law.
    let goodput = std::fs::read_to_string(folder.path().join("lab/goodput.csv")).unwrap();
    for flow in [0, 1] {
        for second in [1, 3, 5] {
            let bits: u64 = goodput
                .lines()
                .skip(1)
                .map(|line| line.split(',').map(|value| value.parse().unwrap()).collect::<Vec<u64>>())
                .filter(|row| row[0] / 1_000_000_000 == second && row[2] == flow)
                .map(|row| row[3] * (row[1] - row[0]) / 1_000_000_000)
                .sum();
            assert!(bits > 1_000_000, "flow {flow} had {bits} bits in second {second}: {goodput}");
        }
    }
}

#[test]
fn plain_tcp_leaves_its_part_to_a_class_with_headers() {
    let folder = tempfile::tempdir().unwrap();
    let plain = "[[flow]]\nfrom = \"client\"\nto = \"sink\"\ncontroller = \"reno\"\n";
    let text = scenario("classes", "xcp").replace("count = 2\n", plain);
    let text = text.replace("\"3 s\"", "\"6 s\"").replace("\"1500 ms\"", "\"2 s\"");
    let file = crate::support::write(folder.path(), "classes.toml", &text);
    let Some(lab) = summary(&file, folder.path(), "lab") else { return };
    if lab["valid"] != true {
        println!("INVALID: {lab}");
        return;
    }
    let [explicit, plain] = [0, 1].map(|group| lab["groups"][group]["goodput_bps"].as_f64().unwrap());
    assert!((explicit / (explicit + plain) - 0.5).abs() < 0.05, "{explicit} and {plain} b/s");
    assert!(lab["links"][0]["utilisation"].as_f64().unwrap() > 0.98, "{lab}");
}

//! Flows of XCP and RCP in the lab, where the kernel's TCP is at the ends, beside the simulator.
//!
//! Where the machine does not allow namespaces or controllers, each test says so and passes.
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod support;

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
    let ran = support::output(&mut support::headway(&args));
    let errors = support::text(&ran.stderr);
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
    let file = support::write(folder.path(), "ends.toml", &scenario(kind, controller));
    let Some(lab) = summary(&file, folder.path(), "lab") else { return };
    let Some(sim) = summary(&file, folder.path(), "sim") else { return };
    let control = std::fs::read_to_string(folder.path().join("lab/control.jsonl")).unwrap();
    let first: Value = serde_json::from_str(control.lines().next().unwrap()).unwrap();
    assert_eq!((&first["link"], &first["law"]), (&"client->sink".into(), &kind.into()));
    let [lab_group, sim_group] = [&lab, &sim].map(|summary| &summary["groups"][0]);
    assert_eq!((&lab_group["flows"], &lab_group["retransmitted"]), (&sim_group["flows"], &Value::from(0)));
    // A machine that is too busy says so, and its numbers are not checked.
    if lab["valid"] != true {
        println!("INVALID: {lab}");
        return;
    }
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

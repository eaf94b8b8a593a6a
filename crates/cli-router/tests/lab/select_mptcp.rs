//! `headway select` as the path manager of Multipath TCP, on parallel emulated links.
//!
//! Where the machine allows no namespaces, or its kernel has no Multipath TCP, the test says so and passes.
//! What connections gain is for `bench/multipath.py`, in real time.

use headway_telemetry::mptcp::PathManager;

use crate::select_single::{LINKS, ip, until};
use crate::support::labs::{On, bring_up_text, name};
use crate::support::write;

#[test]
fn paths_are_endpoints_one_that_is_down_is_a_backup_and_none_is_left() {
    if let Err(reason) = PathManager::open() {
        return println!("SKIPPED: this kernel has no Multipath TCP: {reason}");
    }
    let Some(lab) = bring_up_text(LINKS, &name("mptcp")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |number: usize, link: &str| {
        let interface = &lab.interface("here", link).unwrap().name;
        format!("[[path]]\nname = \"{link}\"\nhosts = [\"10.77.{number}.2\"]\ninterface = {interface:?}\n")
    };
    let text = format!("interval = \"2 s\"\nmptcp = true\n{}{}", path(0, "one"), path(1, "two"));
    let file = write(folder.path(), "paths.toml", &text);
    let socket = folder.path().join("socket").to_str().unwrap().to_owned();
    let start = || On::new(&lab, "here", &["select", &file, "--socket", &socket]).unwrap();
    let endpoints = || ip(&lab, "mptcp endpoint show");
    let both = || {
        let found = endpoints();
        found.contains("10.77.0.1 id") && found.contains("10.77.1.1 id") && !found.contains("backup")
    };
    let on = start();
    until("both are used", both);
    let two = &lab.interface("here", "two").unwrap().name;
    ip(&lab, &format!("link set {two} down"));
    let is_backup = || endpoints().lines().any(|line| line.contains("10.77.1.1") && line.contains("backup"));
    until("one is a backup", is_backup);
    ip(&lab, &format!("link set {two} up"));
    until("it is used again", || !is_backup());
    on.end();
    assert_eq!(endpoints(), "");
    let mut on = start();
    until("both are used", both);
    on.child.kill().unwrap();
    on.child.wait().unwrap();
    until("none is left", || endpoints().is_empty());
    lab.down().unwrap();
}

//! One `headway select` sets routes and rules of a network namespace, whatever else is started there.
//!
//! Where the machine allows no namespaces, each test says so and passes.

use std::path::Path;
use std::process::Output;
use std::time::{Duration as Time, Instant as Clock};

use headway_lab::Lab;

use crate::support::labs::{On, bring_up_text, line, name};
use crate::support::{PROGRAM, TIMEOUT, output, text, write};

/// Two links between the same hosts. Nobody serves at the far end: what is set does not depend on that.
pub(crate) const LINKS: &str = r#"
[[link]]
name = "one"
from = "here"
to = "there"
forward = { rate = "10 Mb/s", delay = "1 ms" }
[[link]]
name = "two"
from = "here"
to = "there"
forward = { rate = "10 Mb/s", delay = "1 ms" }
"#;

/// A file with two paths that only their next hop tells apart, after these lines.
fn hops(folder: &Path, name: &str, head: &str) -> String {
    let path = |number: usize| {
        format!(
            "[[path]]\nname = \"p{number}\"\nhosts = [\"198.51.100.7\"]\nnext-hop = \"10.77.{number}.2\"\n"
        )
    };
    write(folder, name, &format!("interval = \"2 s\"\n{head}\n{}{}", path(0), path(1)))
}

pub(crate) fn ip(lab: &Lab, arguments: &str) -> String {
    let output = lab.command("here", "ip", arguments.split(' ')).unwrap().output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// All routes and rules.
pub(crate) fn routing(lab: &Lab) -> [String; 2] {
    ["-4 rule", "-4 route show table all"].map(|what| ip(lab, what))
}

/// The same, whichever of the two is chosen: where nobody answers, that may change.
fn shape(lab: &Lab) -> [String; 2] {
    routing(lab).map(|all| all.replace("10.77.1.2 dev eth1 proto 126", "10.77.0.2 dev eth0 proto 126"))
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Clock::now();
    while !holds() {
        assert!(begun.elapsed() < TIMEOUT, "{what}");
        std::thread::sleep(Time::from_millis(5));
    }
}

fn select(lab: &Lab, arguments: &[&str]) -> Output {
    output(&mut lab.command("here", PROGRAM, [&["select"], arguments].concat()).unwrap())
}

#[test]
fn another_start_is_refused_and_changes_nothing_and_what_only_asks_uses_what_is_set() {
    let Some(lab) = bring_up_text(LINKS, &name("single")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let socket = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let before = routing(&lab);
    let head = format!("route = true\nstate-file = {state:?}");
    let files = ["a.toml", "b.toml"].map(|name| hops(folder.path(), name, &head));
    let on = On::new(&lab, "here", &["select", &files[0], "--socket", &socket("first")]).unwrap();
    until("routes are set", || ip(&lab, "-4 route").contains("proto 126 metric 7"));
    let set = shape(&lab);
    assert_ne!(set, before);
    for file in &files {
        let refused = select(&lab, &[file, "--socket", &socket("second")]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{said}");
        let holder = format!("process {} (", on.child.id());
        assert!(said.contains(&holder) && said.contains("a.toml") && said.contains("end it"), "{said}");
    }
    // It has nobody to ask, but gets as far as that.
    let once = select(&lab, &[&files[1], "--once"]);
    assert!(text(&once.stderr).contains("no path gave an answer"), "{}", text(&once.stderr));
    let mut dry = On::new(&lab, "here", &["select", &files[1], "--dry-run"]).unwrap();
    assert!(line(&mut dry.lines).contains("\"decision\""));
    dry.end();
    let other = hops(folder.path(), "c.toml", "");
    let swapped = std::fs::read_to_string(&other).unwrap().replace("10.77.0.2", "10.77.1.2");
    let refused = select(&lab, &[&write(folder.path(), "c.toml", &swapped), "--once"]);
    assert!(
        text(&refused.stderr).contains("they lead elsewhere for the path p0"),
        "{}",
        text(&refused.stderr)
    );
    assert_eq!(shape(&lab), set);
    // The kernel forgets who was killed, and what that had set is removed before another begins.
    let mut on = on;
    on.child.kill().unwrap();
    on.child.wait().unwrap();
    let again = On::new(&lab, "here", &["select", &files[1], "--socket", &socket("first")]).unwrap();
    until("routes are set again", || shape(&lab) == set);
    again.end();
    assert_eq!(routing(&lab), before);
    lab.down().unwrap();
}

/// Nothing else happens within an hour.
#[test]
fn routes_are_back_when_their_interface_is() {
    let Some(lab) = bring_up_text(LINKS, &name("back")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let interface = lab.interface("here", "one").unwrap().name.clone();
    let path = format!(
        "[[path]]\nname = \"one\"\nhosts = [\"10.77.0.2\"]\ninterface = {interface:?}\nnext-hop = \"10.77.0.2\"\n"
    );
    let file = write(folder.path(), "one.toml", &format!("interval = \"1 h\"\nroute = true\n{path}"));
    let socket = folder.path().join("socket");
    let on = On::new(&lab, "here", &["select", &file, "--socket", socket.to_str().unwrap()]).unwrap();
    let are_set = || ip(&lab, "-4 route").matches("proto 126 metric 7").count() == 2;
    until("routes are set", are_set);
    for _ in 0..3 {
        ip(&lab, &format!("link set {interface} down"));
        assert!(!are_set());
        ip(&lab, &format!("link set {interface} up"));
        until("routes are back", are_set);
    }
    on.end();
    assert!(!ip(&lab, "-4 route").contains("proto 126"));
    lab.down().unwrap();
}

//! Two `headway edge` at both ends of a link, which share it by one allotment.

use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;

use headway_lab::Lab;
use serde_json::Value;

use crate::edge::{next_if, play, stop};
use crate::support::labs::{On, bring_up_text, name};
use crate::support::write;

/// Two sites with an edge each, and a second network behind each end of the link that its edge does not see.
const LINKS: &str = r#"
[[link]]
from = "r1"
to = "e1"
forward = { rate = "200 Mb/s" }
[[link]]
from = "r2"
to = "e2"
forward = { rate = "200 Mb/s" }
[[link]]
name = "shared"
from = "r1"
to = "r2"
forward = { rate = "20 Mb/s", delay = "15 ms", buffer = "300 ms" }
[[link]]
from = "e1"
to = "h1"
forward = { rate = "200 Mb/s" }
[[link]]
from = "e2"
to = "h2"
forward = { rate = "200 Mb/s" }
[[link]]
from = "r1"
to = "h3"
forward = { rate = "200 Mb/s" }
[[link]]
from = "r2"
to = "h4"
forward = { rate = "200 Mb/s" }
"#;
/// Longer than the test.
const SECONDS: &str = "60";

fn start(lab: &Lab, [at, wan, lan]: [&str; 3], peer: &str, key: &str) -> Option<On> {
    let [wan, lan] = [format!("{wan}-{at}"), format!("{at}-{lan}")]
        .map(|link| lab.interface(at, &link).unwrap().name.clone());
    let peer = lab.v4(peer).unwrap().to_string();
    let link = ["edge", "--lan", &lan, "--wan", &wan, "--rate", "20Mb/s", "--flows"];
    let arguments = [&link[..], &["--peer", &peer, "--peer-key-file", key]].concat();
    match On::new(lab, at, &arguments) {
        Ok(on) => Some(on),
        Err(reason) => {
            assert!(reason.contains("needs root") || reason.contains("no programs"), "{reason}");
            println!("SKIPPED: {reason}");
            None
        }
    }
}

/// Starts a transfer of which an end is at each of two nodes.
fn transfer(lab: &Lab, from: &str, to: &str, port: u16) -> [Child; 2] {
    let address = SocketAddr::new(lab.v4(from).unwrap().into(), port);
    let (source, _) = play(lab, from, &format!("source cubic {address} {SECONDS}"));
    let (sink, _) = play(lab, to, &format!("sink {address}"));
    [source, sink]
}

/// Returns what each of so many flows of an edge may have, in Mb/s, if that is the same.
fn share(state: &Value, count: usize) -> Option<f64> {
    let share = |flow: &Value| {
        let (_, said) = flow["decision"].as_str()?.split_once("its share is ")?;
        said.split_once(" Mb/s")?.0.parse::<f64>().ok()
    };
    let shares: Vec<f64> = state["flows"].as_array()?.iter().filter_map(share).collect();
    println!("{shares:?}");
    let is_same = shares.len() == count && shares.iter().all(|share| *share == shares[0]);
    is_same.then(|| shares[0])
}

#[test]
fn flows_share_the_link_with_those_of_the_other_edge_until_it_is_gone() {
    let Some(lab) = bring_up_text(LINKS, &name("edge-peer")) else { return };
    let folder = tempfile::tempdir().unwrap();
    let secret = |name: &str, text: &str| {
        let path = write(folder.path(), name, text);
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        path
    };
    let key = secret("key", "only the two of us know this\n");
    let Some(mut one) = start(&lab, ["e1", "r1", "h1"], "e2", &key) else { return };
    let mut other = start(&lab, ["e2", "r2", "h2"], "e1", &key).unwrap();
    // Two flows of an edge have a half each, and beside one of the other edge a third.
    let transfers = [("h1", "h2", 5000), ("h1", "h4", 5001), ("h3", "h2", 5002)];
    let transfers = transfers.map(|(from, to, port)| transfer(&lab, from, to, port));
    for edge in [&mut one, &mut other] {
        let is_third = |state: &Value| share(state, 2).is_some_and(|share| (6.2..7.0).contains(&share));
        assert!(next_if(edge, "state", is_third).is_some(), "no third of the link");
    }
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    // A half, or more where the flow that nothing holds any more leaves less than that to one of them.
    let is_half = |state: &Value| share(state, 2).is_some_and(|share| share >= 8.4);
    assert!(next_if(&mut one, "state", is_half).is_some(), "no half of the link");
    // One with another key is a stranger.
    let wrong = secret("wrong", "this is what a stranger says\n");
    let mut other = start(&lab, ["e2", "r2", "h2"], "e1", &wrong).unwrap();
    for _ in 0..3 {
        let state = next_if(&mut one, "state", |_| true).unwrap();
        assert!(share(&state, 2).is_none_or(|share| share > 8.0), "{state}");
    }
    other.child.kill().unwrap();
    other.child.wait().unwrap();
    transfers.into_iter().for_each(stop);
    one.end();
    lab.down().unwrap();
}

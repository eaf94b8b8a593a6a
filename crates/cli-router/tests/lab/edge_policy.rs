//! Policies and decisions of `headway edge`, and where it shows them.

use std::net::SocketAddr;
use std::os::unix::net::UnixDatagram;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::edge::{POLICY, flow_of, interfaces, next, play, stop, up};
use crate::support::labs::{line, now, was_late};
use crate::support::{PROGRAM, text, write};

#[test]
fn a_changed_policy_holds_at_once_and_a_broken_one_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // The edge is `nobody` when it reads it again.
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    // Without the pauses in which windows are lowered, which change limits, too.
    let steady = format!("follow-rtt = false\n{POLICY}");
    let policy = write(folder.path(), "policy.toml", &steady);
    let Some((lab, mut edge)) = up("edge-policy", &["--policy", &policy, "--flows"]) else { return };
    let address = SocketAddr::new(lab.v4("server").unwrap().into(), 5000);
    let (source, _said) = play(&lab, "server", &format!("source cubic {address} 600"));
    let (sink, _lines) = play(&lab, "home", &format!("sink {address}"));
    let before = flow_of(&mut edge, 5000, |flow| flow["class"] == "backup");
    let limit = |flow: &Value| flow["client_window_let_through_bytes"].as_f64().unwrap();
    // Another share, and then another class.
    write(folder.path(), "policy.toml", &steady.replace("0.2", "0.1"));
    let said = next(&mut edge, "policy");
    assert_eq!(said["shares"]["backup"], 0.1, "{said}");
    let after = flow_of(&mut edge, 5000, |_| true);
    let ratio = limit(&after) / limit(&before);
    assert!((0.4..0.6).contains(&ratio), "{before}, {after}");
    write(folder.path(), "policy.toml", &steady.replace("5000-5002", "6000"));
    next(&mut edge, "policy");
    let rest = flow_of(&mut edge, 5000, |_| true);
    assert!(rest["class"] == "rest" && limit(&rest) > 3.0 * limit(&before), "{rest}");
    write(folder.path(), "policy.toml", &steady.replace("0.8", "0.9"));
    let said = next(&mut edge, "policy");
    let mistake = said["mistake"].as_str().unwrap();
    assert!(mistake.contains("line 8") && mistake.contains("class[1].share"), "{mistake}");
    // The window that the host tells itself may be smaller at first.
    let still = flow_of(&mut edge, 5000, |_| true);
    assert!(still["class"] == "rest" && limit(&still) > 3.0 * limit(&before), "{still}");
    // SIGHUP has it read again, and does not end it.
    write(folder.path(), "policy.toml", &steady);
    kill(Pid::from_raw(edge.child.id() as i32), Signal::SIGHUP).unwrap();
    assert_eq!(next(&mut edge, "policy")["shares"]["backup"], 0.2);
    stop([source, sink]);
    edge.end();
    lab.down().unwrap();
}

#[test]
fn the_limit_of_a_flow_is_the_one_of_its_decision() {
    let folder = tempfile::tempdir().unwrap();
    let signals = folder.path().join("signals");
    let arguments = ["--flows", "--signals", signals.to_str().unwrap()];
    let Some((lab, mut edge)) = up("edge-decide", &arguments) else { return };
    let address = SocketAddr::new(lab.v4("server").unwrap().into(), 5000);
    let from = now();
    let (source, _said) = play(&lab, "server", &format!("source cubic {address} 600"));
    let (sink, _lines) = play(&lab, "home", &format!("sink {address}"));
    let decided = next(&mut edge, "decision");
    assert_eq!(decided["strategies"], serde_json::json!(["receive-window"]), "{decided}");
    assert!(decided["sentence"].as_str().unwrap().starts_with("has a window of "), "{decided}");
    // The window that the host tells grows beyond the limit first.
    let is_held = |flow: &Value| {
        let limit = flow["strategies"]["chain"][0]["limit_bytes"].as_u64();
        let has_room = flow["client_window_bytes"].as_u64() >= limit;
        // A sender that waits for the processor is not limited by its window all the time.
        flow["behaviour"] == "bulk" && has_room && flow["limited_by"] == "receive-window"
    };
    let bulk = flow_of(&mut edge, 5000, is_held);
    assert_eq!((&bulk["limited_by"], &bulk["protocol"]), (&"receive-window".into(), &"tcp".into()), "{bulk}");
    let limit = |flow: &Value| {
        let limit = flow["strategies"]["chain"][0]["limit_bytes"].as_f64().unwrap();
        let passes = flow["window_let_through_bytes"].as_f64().unwrap();
        // A window is in units of its scale.
        assert!(passes <= limit && passes > 0.97 * limit, "{flow}");
        // The sentence says by how much it is wider or narrower than the share needs.
        let said = flow["decision"].as_str().unwrap();
        let percent =
            |change: &str| said.split_once(change)?.0.rsplit("windows are ").next()?.parse::<f64>().ok();
        limit / (1.0 + (percent(" % wider").unwrap_or(0.0) - percent(" % narrower").unwrap_or(0.0)) / 100.0)
    };
    let whole = limit(&bulk);
    assert!(bulk["features"]["packets"].as_u64().unwrap() > 100, "{bulk}");
    // Somebody says that the link has less now.
    let line = r#"{"path": "down", "available_bps": 20000000, "source": "modem"}"#;
    UnixDatagram::unbound().unwrap().send_to(line.as_bytes(), &signals).unwrap();
    let told = |flow: &Value| flow.to_string().contains("available are 20.0 Mb/s");
    let lower = flow_of(&mut edge, 5000, told);
    // It is a product with the RTT, which was longer at first where the emulator was late.
    assert!((0.38..0.42).contains(&(limit(&lower) / whole)) || was_late(&lab, from), "{lower}");
    stop([source, sink]);
    edge.end();
    lab.down().unwrap();
}

#[test]
fn the_page_has_what_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("history");
    let options = ["--dry-run", "--page", "127.0.0.1:8080", "--history", history.to_str().unwrap()];
    let Some((lab, mut edge)) = up("edge-page", &options) else { return };
    let state = next(&mut edge, "state");
    assert!(state.get("flows").is_none() && state["links"][0]["capacity_bps"] == 50_000_000, "{state}");
    let (mut reader, mut said) = play(&lab, "router", "get 127.0.0.1:8080 /v1/state");
    let shown: Value = serde_json::from_str(&line(&mut said)).unwrap();
    assert!(shown.to_string().contains("\"dry_run\":true"), "{shown}");
    reader.wait().unwrap();
    // The file is one of root, and the edge is nobody now.
    let (mut reader, mut said) = play(&lab, "router", "get 127.0.0.1:8080 /v1/history?span=day");
    let past: Value = serde_json::from_str(&line(&mut said)).unwrap();
    assert!(past.to_string().contains("\"step_ms\":60000"), "{past}");
    reader.wait().unwrap();
    let [lan, wan] = interfaces(&lab);
    edge.end();
    let open = ["edge", "--lan", &lan, "--wan", &wan, "--rate", "5Mb/s", "--page", "0.0.0.0:8080"];
    // The token of measurements is none of the page.
    let mut command = lab.command("router", PROGRAM, open).unwrap();
    let output = command.env("HEADWAY_TOKEN", "a token of measurements").output().unwrap();
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.contains("needs a token") && said.contains("--page-token-file"),
        "{said}"
    );
    lab.down().unwrap();
}

//! sing-box itself behind the hook of `headway select` that is documented for it.
//!
//! Without sing-box, which `HEADWAY_SING_BOX` or `PATH` names, the test says so and passes. It needs the
//! build tag `with_clash_api`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::select::{Stage, next};
use crate::support::labs::{ROLE, line, play};
use crate::support::{TIMEOUT, text, write};

/// A host behind the far ends of both paths.
const SERVER: &str = "198.51.100.7";
const PROXY: &str = "http://127.0.0.1:1080";
const API: &str = "127.0.0.1:9090";

#[test]
fn a_role() {
    if std::env::var(ROLE).as_deref() == Ok("tell") {
        tell();
    }
}

/// A server that answers every request with the address that it came from, and says so of those
/// that it keeps waiting.
fn tell() {
    let listener = TcpListener::bind((SERVER, 80)).unwrap();
    let mut waiting = Vec::new();
    println!("ready");
    for stream in listener.incoming() {
        let mut reader = BufReader::new(stream.unwrap());
        let from = reader.get_ref().peer_addr().unwrap().ip().to_string();
        let lines = (&mut reader).lines().map_while(Result::ok).take_while(|line| !line.is_empty());
        let head: Vec<String> = lines.collect();
        if head[0].contains("/wait") {
            println!("{from} waits");
            waiting.push(reader);
            continue;
        }
        let length = from.len();
        let answer =
            format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{from}");
        // Whoever has asked may have gone.
        let _ = reader.get_mut().write_all(answer.as_bytes());
    }
}

/// Returns the program, if it is there.
fn sing_box() -> Option<String> {
    let program = std::env::var("HEADWAY_SING_BOX").unwrap_or_else(|_| "sing-box".to_owned());
    let version = Command::new(&program).arg("version").output().ok()?;
    text(&version.stdout).contains("with_clash_api").then_some(program)
}

/// Starts sing-box with an outbound for each path and a selector of them.
fn start(stage: &Stage, program: &str) -> Child {
    let outbound = |link: &str| {
        let interface = stage.lab.interface("here", link).unwrap();
        let address = interface.v4.to_string();
        json!({ "type": "direct", "tag": link, "bind_interface": interface.name, "inet4_bind_address": address })
    };
    let config = json!({
        "log": { "level": "error" },
        "inbounds": [{ "type": "mixed", "listen": "127.0.0.1", "listen_port": 1080 }],
        "outbounds": [
            { "type": "selector", "tag": "select", "outbounds": ["slow", "fast"], "interrupt_exist_connections": true },
            outbound("slow"),
            outbound("fast"),
        ],
        "route": { "final": "select" },
        "experimental": { "clash_api": { "external_controller": API } },
    });
    let folder = stage.folder.path();
    let file = write(folder, "sing-box.json", &config.to_string());
    let arguments = ["run", "--config", &file, "--directory", folder.to_str().unwrap()];
    let mut child =
        stage.lab.command("here", program, arguments).unwrap().stdout(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while curl(stage, &["--noproxy", "*", &format!("http://{API}/version")]).is_none() {
        assert!(child.try_wait().unwrap().is_none() && begun.elapsed() < TIMEOUT, "sing-box does not run");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

/// Returns what a request from `here` gets, if that comes soon.
fn curl(stage: &Stage, arguments: &[&str]) -> Option<String> {
    let usual = ["--fail", "--silent", "--max-time", "2"];
    let output =
        stage.lab.command("here", "curl", [&usual[..], arguments].concat()).unwrap().output().unwrap();
    output.status.success().then(|| text(&output.stdout))
}

/// Waits until connections through sing-box come from the address of a link.
fn wait_for(stage: &Stage, link: &str) {
    let wanted = stage.lab.interface("here", link).unwrap().v4.to_string();
    let (begun, url) = (Instant::now(), format!("http://{SERVER}/"));
    loop {
        let from = curl(stage, &["--proxy", PROXY, &url]);
        if from.as_ref() == Some(&wanted) {
            return println!("new connections come from {wanted} after {:?}", begun.elapsed());
        }
        assert!(begun.elapsed() < TIMEOUT, "connections come from {from:?} instead of {wanted}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn connections_through_sing_box_take_the_better_path_and_leave_one_that_dies() {
    let Some(program) = sing_box() else {
        return println!("SKIPPED: there is no sing-box with `with_clash_api`; HEADWAY_SING_BOX names one");
    };
    if Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
        return println!("SKIPPED: there is no curl");
    }
    let Some(stage) = Stage::up("select-sing-box") else { return };
    let add = ["addr", "add", &format!("{SERVER}/32"), "dev", "lo"];
    assert!(stage.lab.command("there", "ip", add).unwrap().status().unwrap().success());
    // Whoever is bound to an interface needs a route there.
    stage.ip(&format!("route add {SERVER} via 10.77.0.2 metric 1"));
    stage.ip(&format!("route add {SERVER} via 10.77.1.2 metric 2"));
    let (mut server, mut lines) = play(&stage.lab, "there", "tell");
    let mut proxy = start(&stage, &program);
    wait_for(&stage, "slow");
    let wait = ["--silent", "--max-time", "60", "--proxy", PROXY, &format!("http://{SERVER}/wait")];
    let mut waiting = stage.lab.command("here", "curl", wait).unwrap().spawn().unwrap();
    assert_eq!(line(&mut lines), "10.77.0.1 waits");
    let hook = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/sing-box.sh");
    let mut on =
        stage.start(&stage.file(&format!("interval = \"2 s\"\nhook = [{hook:?}, \"select\", \"{API}\"]\n")));
    next(&mut on, "decision", "fast", Some("better"));
    wait_for(&stage, "fast");
    // What was open before the change is closed, long before it would be given up.
    let begun = Instant::now();
    while waiting.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < TIMEOUT, "a connection is open over the path before");
        std::thread::sleep(Duration::from_millis(20));
    }
    stage.ip(&format!("link set {} down", stage.interface("fast")));
    next(&mut on, "decision", "slow", Some("left"));
    wait_for(&stage, "slow");
    on.end();
    for child in [&mut proxy, &mut server] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    stage.down();
}

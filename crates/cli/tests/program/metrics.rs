//! `--metrics` of commands that go on.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use crate::support::PROGRAM;
use crate::support::running::Running;

fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

fn metrics(port: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    text
}

fn value(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).parse().unwrap()
}

#[test]
fn a_server_and_a_series_of_measurements_tell_what_they_print() {
    let [of_server, of_series] = [free_port(), free_port()];
    let mut server =
        Running::start(&["serve", "--bind", "127.0.0.1", "--port", "0", "--json", "--metrics", &of_server]);
    let port = server.line()["port"].to_string();
    assert_eq!(value(&metrics(&of_server), "headway_serve_sessions_total"), 0.0);
    let series = ["--json", "--duration", "500ms", "--interval", "1min", "--metrics", &of_series];
    let mut measure = Running::start(&[&["measure", "127.0.0.1", "--port", &port], &series[..]].concat());
    let line = measure.line();
    if line["available_bps"].is_null() {
        return println!("INVALID: the machine is too busy for an answer: {line}");
    }
    let text = metrics(&of_series);
    let available = line["available_bps"].as_f64().unwrap();
    assert_eq!(
        value(&text, "headway_measure_available_bytes_per_second{direction=\"forward\"}"),
        available / 8.0
    );
    assert_eq!(value(&text, "headway_measure_measurements_total{direction=\"forward\"}"), 1.0);
    let sent = line["packets_sent"].as_f64().unwrap();
    assert_eq!(value(&text, "headway_measure_packets_sent_total{direction=\"forward\"}"), sent);
    let text = metrics(&of_server);
    assert_eq!(value(&text, "headway_serve_sessions_total"), 1.0);
    assert!(value(&text, "headway_serve_packets_received_total") >= sent);
}

#[test]
fn metrics_for_others_need_a_token_and_a_single_measurement_has_none() {
    for (arguments, reason) in [
        (&["serve", "--bind", "127.0.0.1", "--port", "0", "--metrics", "0.0.0.0:0"][..], "needs a token"),
        (&["measure", "127.0.0.1", "--metrics", "0"], "add --watch or --interval"),
    ] {
        let output = Command::new(PROGRAM).args(arguments).env_remove("HEADWAY_TOKEN").output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains(reason), "{errors}");
    }
}

#[test]
fn the_token_of_measurements_is_not_sent_in_plain_text() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "sixteen bytes of a token\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = file.to_str().unwrap();
    let serve =
        ["serve", "--bind", "127.0.0.1", "--port", "0", "--metrics", "0", "--metrics-token-file", file];
    let measure = ["measure", "127.0.0.1", "--watch", "--metrics", "0", "--metrics-token-file", file];
    let of_file = [&serve[..], &["--token-file", file]].concat();
    for (arguments, token) in [
        (&of_file[..], None),
        (&serve[..], Some("sixteen bytes of a token")),
        (&measure[..], Some("sixteen bytes of a token ")),
    ] {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env_remove("HEADWAY_TOKEN");
        let output = command.envs(token.map(|token| ("HEADWAY_TOKEN", token))).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && errors.contains("put another token there"), "{errors}");
    }
}

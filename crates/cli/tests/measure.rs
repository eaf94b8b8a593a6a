//! `headway measure` and `headway serve` as users run them: real processes, on loopback
//! and in real namespaces.
//!
//! Where the machine allows no namespaces, the tests that need them say so and pass.
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant as Clock;

use headway_lab::{Direction, Interval, Lab, Life};
use headway_net::protocol::{Preamble, VERSION};
use headway_scenario::{LinkSpec, Scenario};
use headway_units::{Duration, Instant, Rate};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use support::{PROGRAM, TIMEOUT, headway, headway_lab, output, text, was_busy};

/// A `headway serve` that ends with the test.
struct Serve {
    child: Child,
    port: String,
}

impl Serve {
    fn start(mut command: Command, token: Option<&str>) -> Serve {
        command.env_remove("HEADWAY_TOKEN");
        command.envs(token.map(|token| ("HEADWAY_TOKEN", token)));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let listening: Value = serde_json::from_str(&line).unwrap();
        let port = listening["port"].to_string();
        Serve { child, port }
    }

    fn on_loopback(token: Option<&str>) -> Serve {
        Serve::at_port("0", token)
    }

    fn at_port(port: &str, token: Option<&str>) -> Serve {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--json", "--port", port, "--bind", "127.0.0.1"]);
        Serve::start(command, token)
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(args: &[&str]) -> Output {
    Command::new(PROGRAM).arg("measure").args(args).env_remove("HEADWAY_TOKEN").output().unwrap()
}

/// Asserts that a run failed with `code`, one sentence on standard error, and a JSON
/// object on standard output.
fn fails(output: &Output, code: i32, name: &str, words: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(code), "{stderr}{stdout}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(words), "{stderr}");
    let object: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!(object["type"], "error");
    assert_eq!(object["code"], name);
    assert_eq!(object["exit_code"], code);
    assert!(object["error"].as_str().unwrap().contains(words), "{object}");
}

#[test]
fn an_unknown_host_is_named() {
    let output = measure(&["no-such-host.invalid", "--json"]);
    fails(&output, 3, "unreachable", "no-such-host.invalid");
}

#[test]
fn a_closed_port_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let output = measure(&["127.0.0.1", "--port", &port, "--json"]);
    fails(&output, 3, "unreachable", &format!("127.0.0.1:{port}"));
}

#[test]
fn another_version_is_refused_and_both_are_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&Preamble { version: VERSION + 1, tls: 0 }.to_bytes()).unwrap();
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let output = measure(&["127.0.0.1", "--port", &port, "--json"]);
    fails(&output, 4, "refused", &format!("version {}", VERSION + 1));
    server.join().unwrap();
}

#[test]
fn a_missing_or_wrong_token_is_refused() {
    let serve = Serve::on_loopback(Some("the right token of all"));
    let output = measure(&["127.0.0.1", "--port", &serve.port, "--json"]);
    fails(&output, 4, "refused", "token");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, "not the right token at all\n").unwrap();
    let path = file.path().to_str().unwrap();
    let output = measure(&["127.0.0.1", "--port", &serve.port, "--json", "--token-file", path]);
    fails(&output, 4, "refused", "token is wrong");
}

#[test]
fn limits_too_small_for_any_answer_are_refused_before_anything_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    for command in ["measure", "path"] {
        for (limit, value) in [("--budget", "1B"), ("--budget", "30 kB"), ("--duration", "1 us")] {
            let output = output(&mut headway(&[command, &host, "--json", limit, value]));
            fails(&output, 2, "arguments", "for any answer; give at least");
        }
    }
    listener.set_nonblocking(true).unwrap();
    assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "nobody connected");
}

#[test]
fn too_small_a_budget_is_an_error_that_says_so() {
    let serve = Serve::on_loopback(None);
    let output = measure(&["127.0.0.1", "--port", &serve.port, "--json", "--budget", "80 kB"]);
    if was_busy(&output) {
        return;
    }
    fails(&output, 6, "untrustworthy", "--budget");
}

/// Returns a port at which nobody listens.
fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// Asserts that a time is there as a number and as text with all of its digits; JSON readers may
/// lose some of the number.
fn has_time(line: &Value, what: &str) {
    let ns = line[format!("{what}_unix_ns")].as_u64().unwrap();
    assert!(ns > 1 << 53, "{line}");
    let text = line[format!("{what}_rfc3339")].as_str().unwrap();
    assert!(text.ends_with(&format!(".{:09}Z", ns % 1_000_000_000)), "{line}");
    assert_eq!(text.len(), "2026-11-25T21:35:23.123456789Z".len(), "{line}");
}

#[test]
fn hosts_may_have_their_port_and_brackets() {
    let port = free_port();
    for (host, address) in [("127.0.0.1", "127.0.0.1"), ("[::1]", "::1"), ("localhost", "localhost")] {
        let output = measure(&[&format!("{host}:{port}"), "--json"]);
        fails(&output, 3, "unreachable", &format!(":{port}"));
        let line: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(line["host"], address);
        has_time(&line, "at");
    }
    let bare = measure(&["[::1]", "--port", &port, "--json"]);
    fails(&bare, 3, "unreachable", &format!("[::1]:{port}"));
    let twice = measure(&[&format!("127.0.0.1:{port}"), "--port", "1", "--json"]);
    fails(&twice, 2, "arguments", "give it once");
}

#[test]
fn a_series_goes_on_until_the_server_is_there() {
    let port = free_port();
    let host = format!("127.0.0.1:{port}");
    let mut command = headway(&["measure", &host, "--interval", "300 ms", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    for _ in 0..2 {
        let line = lines.next().unwrap();
        assert_eq!((&line["type"], &line["host"]), (&"error".into(), &"127.0.0.1".into()));
        has_time(&line, "at");
    }
    let _serve = Serve::at_port(&port, None);
    let line = lines.find(|line| line["type"] == "measurement").unwrap();
    has_time(&line, "started");
    has_time(&line, "finished");
    assert!(line["build"].as_str().unwrap().starts_with(env!("CARGO_PKG_VERSION")), "{line}");
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn a_series_without_any_answer_ends_with_the_last_error() {
    let host = format!("127.0.0.1:{}", free_port());
    let output = measure(&[&host, "--interval", "1 ms", "--count", "3", "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3, "{lines:?}");
    lines.iter().for_each(|line| has_time(line, "at"));
    // A file that cannot be read does not become readable by waiting.
    let output = measure(&[&host, "--interval", "1 ms", "--json", "--token-file", "/nothing/here"]);
    fails(&output, 1, "other", "/nothing/here");
}

#[test]
fn wrong_arguments_end_with_code_2() {
    let output = measure(&["127.0.0.1", "--budget", "a lot"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("`a lot` is not a size such as `250 kB`"));
    assert_eq!(measure(&["127.0.0.1", "--method", "magic"]).status.code(), Some(2));
    for (wrong, hint) in [
        (["--interval", "5"], "the unit is missing; units are ns, us, ms, s, min, h and days"),
        (["--interval", "5 M"], "units are ns, us, ms, s, min, h and days"),
        (["--budget", "1 packet"], "units are B, kB, KiB, MB, MiB, GB, GiB and TB"),
        (["--method", "pathlaod"], "did you mean `pathload`?"),
        (["--port", "http"], "invalid digit"),
    ] {
        let output = measure(&["127.0.0.1", wrong[0], wrong[1]]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(hint), "{said}");
    }
}

#[test]
fn help_lists_every_method_and_every_exit_code() {
    let help = String::from_utf8(measure(&["--help"]).stdout).unwrap();
    for method in headway_estimate::measure::Method::all() {
        assert!(help.contains(method.name()), "{method}");
    }
    for code in ["  0 ", "  2 ", "  3 ", "  4 ", "  5 ", "  6 ", "  130 "] {
        assert!(help.lines().any(|line| line.starts_with(code)), "{code}");
    }
}

/// Held during a measurement: senders and emulators of several tests would disturb each other.
static ALONE: Mutex<()> = Mutex::new(());

/// A lab with a server in it.
struct Stage {
    // Dropped in this order: the server must end before the lab that it runs in.
    _serve: Serve,
    lab: Lab,
    _alone: MutexGuard<'static, ()>,
}

/// A path of this rate with an RTT of 20 ms.
fn link(mbps: f64) -> LinkSpec {
    LinkSpec::at("client", "server", Rate::from_mbps(mbps), Duration::from_ms(10))
}

impl Stage {
    fn up(what: &str, mbps: f64) -> Option<Stage> {
        Stage::of(what, link(mbps))
    }

    fn of(what: &str, link: LinkSpec) -> Option<Stage> {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("t{}-{what}", std::process::id());
        let network = Scenario::of(link.and_back().into());
        let lab = match Lab::up_with(&headway_lab(), &network, &name, Life::Owned) {
            Ok(lab) => lab,
            Err(error) => {
                let sentence = error.to_string();
                let reasons = ["this host allows neither", "install the package"];
                assert!(reasons.iter().any(|reason| sentence.contains(reason)), "{sentence}");
                println!("SKIPPED: {sentence}");
                return None;
            }
        };
        let serve = lab.command("server", PROGRAM, ["serve", "--json"]).unwrap();
        Some(Stage { _serve: Serve::start(serve, None), lab, _alone: alone })
    }

    fn command(&self, args: &[&str]) -> Command {
        let all = ["measure"].iter().chain(args);
        let mut command = self.lab.command("client", PROGRAM, all).unwrap();
        command.env_remove("HEADWAY_TOKEN");
        command
    }

    fn v4(&self) -> String {
        self.lab.v4("server").unwrap().to_string()
    }
}

/// Whether the emulator was too late, so that the numbers are not valid.
fn disturbed(lab: &Lab, direction: Direction, line: &Value) -> bool {
    let at = |key: &str| Instant::from_ns(line[key].as_u64().unwrap());
    let (from, to) = (at("started_unix_ns"), at("finished_unix_ns"));
    lab.truth_between(from, to).unwrap().lateness_between(direction, from, to).very_late_share > 0.01
}

#[test]
fn an_idle_path_is_measured_in_both_directions_over_ipv4_and_ipv6() {
    let Some(stage) = Stage::up("both", 20.0) else { return };
    let v6 = stage.lab.v6("server").unwrap().to_string();
    for host in [stage.v4(), v6] {
        let output = stage.command(&[&host, "--both", "--json"]).output().unwrap();
        if was_busy(&output) {
            continue;
        }
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let directions = [("forward", Direction::Forward), ("reverse", Direction::Reverse)];
        assert_eq!(lines.len(), directions.len());
        for (line, (name, direction)) in lines.iter().zip(directions) {
            assert_eq!(line["type"], "measurement");
            assert_eq!(line["direction"], name);
            assert_eq!(line["receive_stamps"], "kernel");
            assert!(line["probe_bytes"].as_u64().unwrap() < 2_100_000, "{line}");
            if disturbed(&stage.lab, direction, line) {
                println!("INVALID: the machine disturbed the emulator; the numbers are not judged");
                continue;
            }
            let rate = line["available_bps"].as_f64().unwrap();
            assert!((rate - 20e6).abs() < 2e6, "{line}");
        }
    }
}

#[test]
fn pause_frames_fill_gaps_on_a_line_and_end_there() {
    let link = LinkSpec { line: Some(Rate::from_mbps(100.0)), ..link(20.0) };
    let Some(stage) = Stage::of("pause", link) else { return };
    let from = now();
    let output = stage.command(&[&stage.v4(), "--gaps", "pause", "--json"]).output().unwrap();
    if was_busy(&output) {
        return;
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    let truth = stage.lab.truth_between(from, now()).unwrap();
    let sum = |direction, count: fn(&Interval) -> u64| -> u64 {
        truth.intervals(direction).iter().map(count).sum()
    };
    assert!(sum(Direction::Forward, |interval| interval.control_frames) > 100);
    assert_eq!(sum(Direction::Reverse, |interval| interval.control_frames), 0);
    // What the link carries is probes and the connection for control: PAUSE frames end before it.
    let carried = sum(Direction::Forward, |interval| interval.host_bits) / 8;
    assert!(carried < line["probe_bytes"].as_u64().unwrap() + 100_000, "{line}");
    if disturbed(&stage.lab, Direction::Forward, &line) {
        println!("INVALID: the machine disturbed the emulator; the numbers are not judged");
        return;
    }
    let rate = line["available_bps"].as_f64().unwrap();
    assert!((rate - 20e6).abs() < 2e6, "{line}");
}

#[test]
fn pause_frames_are_refused_where_there_is_no_line() {
    let serve = Serve::on_loopback(None);
    let output = measure(&["127.0.0.1", "--port", &serve.port, "--gaps", "pause", "--json"]);
    fails(&output, 1, "other", "it is not Ethernet");
    let output = measure(&["127.0.0.1", "--reverse", "--gaps", "pause"]);
    assert_eq!(output.status.code(), Some(2));
    let Some(stage) = Stage::up("no-line", 20.0) else { return };
    let output = stage.command(&[&stage.v4(), "--gaps", "pause", "--json"]).output().unwrap();
    fails(
        &output,
        1,
        "other",
        "it is a veth, which has no line of its own; in a lab, give the first link `line",
    );
}

fn now() -> Instant {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Instant::from_ns(since.as_nanos() as u64)
}

/// A model that takes 60 % of the capacity to be free, within a tenth of that.
const SIXTY_PERCENT: &str = r#"{"format": "headway-model", "version": 1, "name": "sixty", "task": "multi-rate",
"input": {"kind": "raw", "gaps": 4, "unit": "packet-times"},
"shape": {"rates": 2, "packets-per-rate": 2, "range": 0.5, "packet-wire-bytes": 1538}, "scaler": null, "domain": null,
"model": {"type": "linear", "coefficients": [0, 0, 0, 0, 0, 0, 0, 0], "intercept": 0.6},
"interval": {"kind": "residual", "level": 0.9, "low": -0.1, "high": 0.1},
"training": {"data-sha256": "", "rows": 0, "runs": 0, "seed": 0, "versions": {}, "text": "", "score": null}}"#;

#[test]
fn a_trained_model_answers_with_its_interval() {
    let Some(stage) = Stage::up("model", 20.0) else { return };
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.json");
    std::fs::write(&model, SIXTY_PERCENT).unwrap();
    let args = [&*stage.v4(), "--json", "--method", "learned", "--model", model.to_str().unwrap()];
    let output = stage.command(&args).output().unwrap();
    if was_busy(&output) {
        return;
    }
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&line["method"], &line["model"]), (&Value::from("learned"), &Value::from("sixty")), "{line}");
    let bps = |key: &str| line[key].as_f64().unwrap();
    assert!((bps("available_bps") / bps("capacity_bps") - 0.6).abs() < 1e-6, "{line}");
    assert!((bps("available_low_bps") / bps("available_bps") - 0.9).abs() < 1e-6, "{line}");
}

#[test]
fn csv_has_a_header_and_as_many_fields_in_every_row() {
    let Some(stage) = Stage::up("csv", 50.0) else { return };
    let args = [&*stage.v4(), "--csv", "--count", "2", "--interval", "1 ms", "--budget", "600 kB"];
    let output = stage.command(&args).output().unwrap();
    if was_busy(&output) {
        return;
    }
    let text = String::from_utf8(output.stdout).unwrap();
    let fields: Vec<usize> = text.lines().map(|line| line.split(',').count()).collect();
    assert_eq!(fields.len(), 3, "{text}");
    assert!(fields.iter().all(|count| *count == fields[0]), "{text}");
}

#[test]
fn a_path_below_1_mbps_is_refused_with_a_sentence() {
    let Some(stage) = Stage::up("slow", 0.4) else { return };
    let output = stage.command(&[&stage.v4(), "--json"]).output().unwrap();
    if was_busy(&output) {
        return;
    }
    fails(&output, 6, "untrustworthy", "slower than 1 Mb/s");
}

#[test]
fn an_interrupted_measurement_prints_what_it_knows() {
    let Some(stage) = Stage::up("interrupt", 2.0) else { return };
    let folder = tempfile::tempdir().unwrap();
    let streams = folder.path().join("streams.csv");
    let args = [&*stage.v4(), "--json", "--streams", streams.to_str().unwrap(), "--duration", "60 s"];
    let child = stage.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Streams are written as they end; at 2 Mb/s many more follow.
    let deadline = Clock::now() + TIMEOUT;
    while std::fs::read_to_string(&streams).map_or(0, |text| text.lines().count()) < 30 {
        assert!(Clock::now() < deadline, "no stream was sent");
        std::thread::yield_now();
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let text = String::from_utf8(output.stdout).unwrap();
    let line: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(line["interrupted"], true, "{line}");
    assert!(line["packets_sent"].as_u64().unwrap() > 0, "{line}");
}

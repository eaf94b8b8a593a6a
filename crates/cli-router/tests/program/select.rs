//! What programs see of `headway select`, on loopback.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::FromRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::support::running::Running;
use crate::support::{PROGRAM, TIMEOUT, text, write};

/// Two paths on loopback, to far ends of their own.
fn file(folder: &Path, ports: [&str; 2]) -> String {
    let path = |name: &str, port: &str| {
        format!("[[path]]\nname = \"{name}\"\nhosts = [\"127.0.0.1:{port}\"]\nsource = \"127.0.0.1\"\n")
    };
    // None is twice as good as the other.
    let state = folder.join("spent");
    let head = format!("interval = \"2 s\"\ntolerance = 1.0\nstate-file = {state:?}\n");
    write(folder, "paths.toml", &format!("{head}{}{}", path("one", ports[0]), path("two", ports[1])))
}

/// Sends a request, and returns all that comes until the end.
fn exchange(mut stream: TcpStream, request: &[u8]) -> Vec<u8> {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let _ = stream.write_all(request);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    all
}

fn get(address: &str, path: &str, host: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
    text(&exchange(TcpStream::connect(address).unwrap(), request.as_bytes()))
}

/// Returns the lines of an event stream. Places of streams are free a moment after their viewers have gone.
fn events(address: &str) -> impl Iterator<Item = String> {
    loop {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
        if lines.next().unwrap().starts_with("HTTP/1.1 200") {
            return lines;
        }
    }
}

/// Returns the body of an answer.
fn body(answer: &str) -> Value {
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// Requests of which a few bytes are others.
fn mutated() -> impl Iterator<Item = Vec<u8>> {
    let mut state: u64 = 7;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    (0..1_000).map(move |_| {
        let path = ["/v1/paths", "/v1/events", "/"][random(3)];
        let mut bytes =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 1-1\r\n\r\n").into_bytes();
        for _ in 0..=random(4) {
            let at = random(bytes.len());
            match random(3) {
                0 => bytes[at] = random(256) as u8,
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, b" \r\n:/%?\0"[random(8)]),
            }
        }
        bytes
    })
}

#[test]
fn programs_see_paths_and_each_decision_whatever_others_send_or_do_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let [(mut one, port), (_other, other)] = [Running::serve(), Running::serve()];
    let file = file(folder.path(), [&port, &other]);
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [socket, http] = [at("state"), at("http")];
    let mut select = Running::start(&[
        "select",
        &file,
        "--json",
        "--socket",
        &socket,
        "--listen",
        "0",
        "--http-socket",
        &http,
    ]);
    let on = select.line();
    let address = on["listen"].as_str().unwrap();
    let state = body(&get(address, "/v1/paths", "localhost"));
    let name = |path: usize| state["paths"][path]["name"].as_str();
    assert_eq!((name(0), name(1)), (Some("one"), Some("two")), "{state}");
    assert!(state["paths"][0]["weight"].is_number() && state["decisions"].is_array(), "{state}");
    assert!(get(address, "/v1/paths", "evil.example").starts_with("HTTP/1.1 403"));
    // The same at a socket that is for this user only; the one who asks there for events never reads them.
    assert_eq!(std::fs::metadata(&http).unwrap().permissions().mode() & 0o777, 0o600);
    let mut deaf = UnixStream::connect(&http).unwrap();
    deaf.write_all(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    for request in mutated() {
        let stream = TcpStream::connect(address).unwrap();
        // Not waited for: some of them are event streams.
        let _ = (&stream).write_all(&request);
    }
    let status = ["select", "status", "--json", "--socket", &socket];
    let output = Command::new(PROGRAM).args(status).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let keys = |state: &Value| state.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys(&told), keys(&state));
    let lines = events(address);
    let spent = |address: &str| {
        let state = body(&get(address, "/v1/paths", "localhost"));
        [0, 1].map(|path| state["paths"][path]["spent_bytes"].as_u64().unwrap())
    };
    let begun = Instant::now();
    while spent(address)[1] == 0 && begun.elapsed() < TIMEOUT {}
    one.end();
    let data =
        lines.filter_map(|line| line.strip_prefix("data: ").and_then(|data| serde_json::from_str(data).ok()));
    let left = data.into_iter().find(|data: &Value| data["why"] == "left").unwrap();
    assert_eq!((&left["before"], &left["path"]), (&"one".into(), &"two".into()), "{left}");
    assert_eq!(body(&get(address, "/v1/paths", "localhost"))["chosen"], "two");
    drop(deaf);
    // What was sent counts after a restart, too.
    let before = spent(address);
    kill(Pid::from_raw(select.child.id() as i32), Signal::SIGINT).unwrap();
    assert!(select.child.wait().unwrap().success());
    let mut again = Running::start(&["select", &file, "--json", "--socket", &socket, "--listen", "0"]);
    let after = spent(again.line()["listen"].as_str().unwrap());
    assert!(before[1] > 0 && (0..2).all(|path| after[path] >= before[path]), "{before:?}, {after:?}");
}

/// A terminal: the end that shows, and the end of a program.
fn terminal() -> (File, File) {
    let (mut shows, mut of_program) = (-1, -1);
    let none = std::ptr::null_mut();
    // SAFETY: both numbers are written, and nothing else is pointed to.
    let made = unsafe { libc::openpty(&raw mut shows, &raw mut of_program, none, none.cast(), none.cast()) };
    assert_eq!(made, 0);
    // SAFETY: both are open, and nobody else has them.
    unsafe { (File::from_raw_fd(shows), File::from_raw_fd(of_program)) }
}

#[test]
fn the_status_on_a_terminal_is_drawn_again_until_a_signal_and_once_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for (count, viewer) in listener.incoming().enumerate() {
            let decision = format!(r#"{{"age_ms":1500,"sentence":"b replaces a, look {count}"}}"#);
            let paths = r#"[{"name":"b","is_chosen":true}]"#;
            let state = format!(r#"{{"decision":{decision},"decisions":[{decision}],"paths":{paths}}}"#);
            viewer.unwrap().write_all(state.as_bytes()).unwrap();
        }
    });
    let status = ["select", "status", "--socket", path.to_str().unwrap()];
    let output = Command::new(PROGRAM).args(status).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success() && said.starts_with("b replaces a, look 0\n"), "{said}");
    let (shows, of_program) = terminal();
    let mut command = Command::new(PROGRAM);
    command.args(status).env("TERM", "xterm").stdin(Stdio::null()).stdout(of_program);
    let mut child = command.spawn().unwrap();
    // With it goes its copy of the terminal's end.
    drop(command);
    let mut seen = String::new();
    let mut lines = BufReader::new(shows);
    while !seen.contains("1 s ago: b replaces a, look 3") {
        assert!(lines.read_line(&mut seen).unwrap() > 0 && seen.len() < 10_000, "{seen}");
    }
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    // The end of a terminal whose program is gone is an error.
    while lines.read_line(&mut seen).is_ok_and(|bytes| bytes > 0) {}
    assert!(child.wait().unwrap().success());
    assert!(seen.contains("look 1") && seen.contains("look 2") && seen.contains("\u{1b}["), "{seen:?}");
}

#[test]
fn an_address_for_others_needs_a_token_and_only_the_right_one_opens() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(folder.path(), ["9", "9"]);
    let refused = ["select", &file, "--listen", "0.0.0.0:0"];
    let output = Command::new(PROGRAM).args(refused).output().unwrap();
    assert!(!output.status.success() && text(&output.stderr).contains("needs a token"), "{output:?}");
    let token = write(folder.path(), "token", "sixteen bytes of a token\n");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
    let mut select =
        Running::start(&["select", &file, "--json", "--listen", "0.0.0.0:0", "--listen-token-file", &token]);
    let on = select.line();
    let address = on["listen"].as_str().unwrap().replace("0.0.0.0", "127.0.0.1");
    for (header, status) in [
        ("Host: localhost", "401"),
        ("Authorization: Bearer sixteen bytes of another", "401"),
        ("Authorization: Bearer sixteen bytes of a token", "200"),
    ] {
        let request = format!("GET /v1/paths HTTP/1.1\r\n{header}\r\n\r\n");
        let answer = text(&exchange(TcpStream::connect(&address).unwrap(), request.as_bytes()));
        assert_eq!(&answer[9..12], status, "{header}");
    }
}

//! What processes that were started as root may still do while they read strangers'
//! packets, as the kernel says.
//!
//! Without root each test says so and passes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::labs::{bring_up_text, name};
use crate::support::{PROGRAM, TIMEOUT, headway, write};
use headway_net::{ConnectOptions, Session};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};

const NET_BIND_SERVICE: u64 = 1 << 10;
const NET_ADMIN: u64 = 1 << 12;
const NET_RAW: u64 = 1 << 13;
/// `CAP_SETUID`, so that a process that still has it could become root again.
const STRONG: u64 = 1 << 7;

fn is_root() -> bool {
    if !geteuid().is_root() {
        println!("SKIPPED: only root has privileges to give up");
    }
    geteuid().is_root()
}

/// Returns a line of `/proc/PID/status`; `None` once the process has ended.
fn status(pid: u32, key: &str) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with(&format!("{key}:")))?;
    Some(line[key.len() + 1..].split_whitespace().collect::<Vec<_>>().join(" "))
}

fn capabilities(pid: u32, key: &str) -> u64 {
    status(pid, key).map_or(0, |text| u64::from_str_radix(&text, 16).unwrap())
}

/// Waits until a process has given up its privileges.
fn wait_given_up(pid: u32) {
    let deadline = Instant::now() + TIMEOUT;
    while status(pid, "Seccomp").as_deref() != Some("2") {
        assert!(Instant::now() < deadline, "{:?}", std::fs::read_to_string(format!("/proc/{pid}/status")));
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a process has given up its privileges, and checks that it has these
/// capabilities and no others.
fn check(pid: u32, left: u64) {
    wait_given_up(pid);
    let nobody = User::from_name("nobody").unwrap().unwrap();
    let ids = |id: u32| Some(format!("{id} {id} {id} {id}"));
    assert_eq!(status(pid, "Uid"), ids(nobody.uid.as_raw()));
    assert_eq!(status(pid, "Gid"), ids(nobody.gid.as_raw()));
    assert_eq!(status(pid, "Groups").as_deref(), Some(""));
    assert_eq!(status(pid, "NoNewPrivs").as_deref(), Some("1"));
    for key in ["CapEff", "CapPrm"] {
        assert_eq!(capabilities(pid, key), left, "{key}");
    }
    for key in ["CapInh", "CapAmb"] {
        assert_eq!(capabilities(pid, key), 0, "{key}");
    }
    assert_eq!(left & STRONG, 0);
}

fn end(mut child: Child) {
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    child.wait().unwrap();
}

/// Starts a server and waits until it listens.
fn serve(port: u16) -> (Child, u16) {
    listening(&mut headway(&["serve", "--bind", "127.0.0.1", "--port", &port.to_string(), "--json"]))
}

fn listening(command: &mut Command) -> (Child, u16) {
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let event: serde_json::Value = serde_json::from_str(&line).unwrap();
    let port = event["port"].as_u64().unwrap() as u16;
    (server, port)
}

#[test]
fn a_server_keeps_raw_sockets_and_its_port() {
    if !is_root() {
        return;
    }
    let (server, _) = serve(0);
    check(server.id(), NET_RAW);
    end(server);
    // Sockets of sessions have the port of the server.
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let port = (700..1024).find(is_free).unwrap();
    let (server, _) = serve(port);
    check(server.id(), NET_RAW | NET_BIND_SERVICE);
    let session = Session::connect(&ConnectOptions { port, ..ConnectOptions::new("127.0.0.1") }).unwrap();
    drop(session);
    end(server);
}

/// As in a container, which has only the capabilities that it was given.
#[test]
fn root_that_cannot_become_another_user_gives_up_its_capabilities() {
    if !is_root() {
        return;
    }
    let mut command = Command::new("setpriv");
    command.args([
        "--bounding-set",
        "-all,+net_raw,+sys_chroot",
        "--",
        PROGRAM,
        "serve",
        "--port",
        "0",
        "--json",
    ]);
    let (server, _) = listening(&mut command);
    wait_given_up(server.id());
    assert_eq!(status(server.id(), "Uid").as_deref(), Some("0 0 0 0"));
    assert_eq!(capabilities(server.id(), "CapPrm"), NET_RAW);
    end(server);
}

#[test]
fn a_client_that_looks_for_the_narrow_link_keeps_nothing() {
    if !is_root() {
        return;
    }
    let (server, port) = serve(0);
    for carrier in ["udp", "icmp"] {
        let folder = tempfile::tempdir().unwrap();
        let report = folder.path().join("path.svg");
        let mut client = headway(&["path", "127.0.0.1", "--port", &port.to_string(), "--carrier", carrier]);
        client.args(["--report", report.to_str().unwrap()]).env("SUDO_UID", "4321").env("SUDO_GID", "4322");
        let mut client = client.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        check(client.id(), 0);
        client.wait().unwrap();
        let made = report.metadata().unwrap();
        assert_eq!((made.uid(), made.gid()), (4321, 4322));
        assert!(made.len() > 0);
    }
    end(server);
}

#[test]
fn a_capture_keeps_nothing_but_its_files() {
    if !is_root() {
        return;
    }
    // Nobody else may enter the folder.
    let folder = tempfile::tempdir().unwrap();
    let [csv, report] = ["rows.csv", "report.html"].map(|name| folder.path().join(name));
    std::fs::write(&csv, "what was there").unwrap();
    let mut capture = headway(&["passive", "--interface", "lo", "--json"]);
    capture.args([
        "--csv",
        csv.to_str().unwrap(),
        "--report",
        report.to_str().unwrap(),
        "--interval",
        "50 ms",
    ]);
    let capture = capture.env("SUDO_UID", "4321").env("SUDO_GID", "4322");
    let mut capture = capture.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    check(capture.id(), 0);
    // A connection to see.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut lines = BufReader::new(capture.stdout.take().unwrap()).lines();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    sender.write_all(&[7; 20_000]).unwrap();
    listener.accept().unwrap().0.read_exact(&mut [0; 20_000]).unwrap();
    assert!(lines.next().unwrap().is_ok());
    kill(Pid::from_raw(capture.id() as i32), Signal::SIGINT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let ended = capture.wait().unwrap();
    assert!(ended.success(), "{ended} {rest:?}");
    let [rows, page] = [&csv, &report].map(|path| std::fs::read_to_string(path).unwrap());
    assert!(rows.lines().count() >= 2 && !rows.contains("what was there"), "{rows}");
    assert!(page.contains("</html>"), "{page}");
    // A file that was there keeps its owner.
    assert_eq!([&csv, &report].map(|path| path.metadata().unwrap().uid()), [0, 4321]);
}

#[test]
fn what_watches_or_splits_connections_keeps_nothing_but_the_choice_of_a_controller() {
    if !is_root() {
        return;
    }
    for (arguments, left) in [
        (&["flows"][..], 0),
        (&["proxy", "127.0.0.1:0", "127.0.0.1:9"], 0),
        (&["proxy", "127.0.0.1:0", "127.0.0.1:9", "--client-controller", "reno"], 0),
        (&["proxy", "127.0.0.1:0", "127.0.0.1:9", "--target-controller", "reno"], NET_ADMIN),
    ] {
        let child = headway(arguments).stdout(Stdio::null()).spawn().unwrap();
        check(child.id(), left);
        end(child);
    }
}

#[test]
fn a_router_keeps_nothing_and_the_process_that_restores_settings_little() {
    if !is_root() {
        return;
    }
    let pair = "[[link]]\nfrom = \"h1\"\nto = \"box\"\nforward = { rate = \"1 Gb/s\" }\n";
    let Some(lab) = bring_up_text(pair, &name("rights")) else { return };
    lab.configure(
        "box",
        "link add a0 type veth peer name a1\nlink add b0 type veth peer name b1\n\
         link set a0 up\nlink set a1 up\nlink set b0 up\nlink set b1 up\n",
    )
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "rcp.toml", "[forward]\nrate = \"8 Mb/s\"\nqueue = { kind = \"rcp\" }\n");
    let records = folder.path().join("records.jsonl");
    let command = ["router", "a1", "b1", &file, "--records", records.to_str().unwrap()];
    let mut router = lab.command("box", PROGRAM, command).unwrap();
    let mut router = router.env("SUDO_UID", "4321").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(router.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("forwarding"), "{line}");
    check(router.id(), 0);
    let pid = router.id();
    let children = children(pid);
    assert_eq!(children.len(), 1);
    check(children[0], NET_ADMIN);
    assert_eq!(records.metadata().unwrap().uid(), 4321);
    end(router);
    lab.down().unwrap();
}

/// Returns the children of a process.
fn children(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
    children.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
}

#[test]
fn a_choice_asks_without_rights_and_its_children_keep_what_each_needs() {
    if !is_root() {
        return;
    }
    let (server, port) = serve(0);
    let folder = tempfile::tempdir().unwrap();
    // Of no use to nobody.
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [socket, state, told] = ["socket", "state", "told"].map(at);
    let hook = format!("[\"/bin/sh\", \"-c\", \"id -u > {told}.new; mv {told}.new {told}; sleep 600\"]");
    let path = |name: &str| {
        format!("[[path]]\nname = \"{name}\"\nhosts = [\"127.0.0.1:{port}\"]\nmark = 7\ninterface = \"lo\"\n")
    };
    let head = format!(
        "hook = {hook}\nhook-timeout = \"300 s\"\nstate-file = {state:?}\nmax-bytes-per-hour = \"1 GB\"\n"
    );
    let file = write(folder.path(), "paths.toml", &format!("{head}{}{}", path("one"), path("two")));
    let mut choice = headway(&["select", &file, "--json", "--socket", &socket]);
    let mut choice = choice.stdout(Stdio::null()).spawn().unwrap();
    check(choice.id(), 0);
    let until = |what: &str, holds: &dyn Fn() -> bool| {
        let deadline = Instant::now() + TIMEOUT;
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    until("the hook runs", &|| std::fs::exists(&told).unwrap());
    assert_eq!(std::fs::read_to_string(&told).unwrap(), "0\n");
    let deputies = children(choice.id());
    let opener: Vec<u32> =
        deputies.iter().copied().filter(|pid| status(*pid, "Seccomp").as_deref() == Some("2")).collect();
    assert_eq!((deputies.len(), opener.len()), (3, 1), "one for files, one for sockets, one for hooks");
    check(opener[0], NET_ADMIN | NET_RAW);
    let ask = || {
        let asked = ["select", "status", "--json", "--socket", &socket];
        let output = headway(&asked).output().unwrap();
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap_or_default()
    };
    until("a far end answers", &|| {
        ask()["paths"].as_array().is_some_and(|paths| paths.iter().any(|path| path["rtt_ns"].is_number()))
    });
    kill(Pid::from_raw(choice.id() as i32), Signal::SIGINT).unwrap();
    assert!(choice.wait().unwrap().success());
    assert!(!std::fs::exists(&socket).unwrap(), "it is removed");
    assert_eq!(std::fs::metadata(&state).unwrap().uid(), 0);
    let kept: serde_json::Value = serde_json::from_slice(&std::fs::read(&state).unwrap()).unwrap();
    assert!(kept["paths"]["one"].is_object(), "{kept}");
    end(server);
}

//! `headway cc` in use: on, off, killed, twice, without privileges.
//!
//! Every test runs in its own network namespace. Where the machine does not allow namespaces or controllers,
//! it says so and passes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use crate::controllers::enter_network;
use crate::support::{PROGRAM, TIMEOUT};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The user `nobody`.
const UNPRIVILEGED: u32 = 65_534;

/// Enters a new network namespace and returns a unique name; `None` if no controller can be loaded here.
fn start(what: &str) -> Option<String> {
    enter_network().then(|| format!("t{}_{what}", std::process::id()))
}

fn headway(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).arg("cc").args(arguments).output().unwrap()
}

/// Runs `headway cc`, which must succeed, and returns its output.
fn printed(arguments: &[&str]) -> String {
    let output = headway(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

/// A program that has a controller on.
struct On {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl On {
    fn new(name: &str, arguments: &[&str]) -> On {
        let mut command = Command::new(PROGRAM);
        command.arg("cc").args(arguments).args(["--json", "--name", name]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut on = On { child, lines };
        let event = on.event();
        assert_eq!((&event["event"], &event["instance"]["name"]), (&"on".into(), &name.into()));
        on
    }

    fn event(&mut self) -> Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a signal and waits for the program to end.
    fn end(&mut self, signal: Signal) -> ExitStatus {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
        self.child.wait().unwrap()
    }
}

fn available() -> Vec<String> {
    headway_kernel::available().unwrap()
}

fn default() -> String {
    headway_kernel::current_default().unwrap()
}

/// Returns what the kernel gives a new connection of this network namespace.
fn controller_of_a_new_connection() -> String {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let name = socket.tcp_congestion().unwrap();
    String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
}

/// Waits until the kernel has unregistered the controller of a killed process.
fn wait_gone(name: &str) {
    let deadline = Instant::now() + TIMEOUT;
    while available().iter().any(|available| available == name) {
        assert!(Instant::now() < deadline, "{name} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_controller_is_on_until_a_signal() {
    let Some(name) = start("signal") else { return };
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let mut on = On::new(&name, &["ls-dctcp", "--scale", "auto", "--delta", "3", "--floor", "10"]);
        assert!(available().contains(&name));
        let status = json(&["status", "--json"]);
        let me = status["on"].as_array().unwrap().iter().find(|note| note["name"] == name.as_str()).unwrap();
        assert_eq!(me["options"], serde_json::json!({ "delta": 3, "scale": 0, "floor": 10 }));
        assert!(on.end(signal).success());
        let off = on.event();
        assert_eq!((&off["event"], &off["counters"]["connections"]), (&"off".into(), &0.into()));
        assert!(!available().contains(&name));
    }
}

#[test]
fn the_log_has_every_acknowledgement() {
    let Some(name) = start("log") else { return };
    for arguments in ["link set lo up", "addr add 10.79.0.1/32 dev lo"] {
        assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success());
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    let mut on = On::new(&name, &["ls-reno", "--default", "--log", file.path().to_str().unwrap()]);
    let listener = TcpListener::bind("10.79.0.1:0").unwrap();
    let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut receiver, _) = listener.accept().unwrap();
    for _ in 0..100 {
        sender.write_all(&[0; 10_000]).unwrap();
        receiver.read_exact(&mut [0; 10_000]).unwrap();
    }
    assert!(on.end(Signal::SIGINT).success());
    assert_eq!(on.event()["counters"]["connections"], 2);
    let text = std::fs::read_to_string(file.path()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("time_ns,local_port,") && lines.len() > 20, "{} lines", lines.len());
    let fields = lines[0].split(',').count();
    assert!(lines.iter().all(|line| line.split(',').count() == fields));
}

#[test]
fn the_default_is_changed_and_restored() {
    let Some(name) = start("default") else { return };
    let former = default();
    let mut on = On::new(&name, &["ls-reno", "--default"]);
    assert_eq!(default(), name);
    let second = headway(&["hw-reno", "--default", "--name", &format!("{name}2")]);
    assert!(!second.status.success());
    assert!(String::from_utf8_lossy(&second.stderr).contains("is the default of this network namespace"));
    assert!(on.end(Signal::SIGINT).success());
    assert_eq!(default(), former);
}

#[test]
fn a_default_that_somebody_changed_since_is_left_alone() {
    let Some(name) = start("changed") else { return };
    let mut on = On::new(&name, &["hw-reno", "--default"]);
    std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno").unwrap();
    assert!(on.end(Signal::SIGINT).success());
    assert_eq!(default(), "reno");
}

#[test]
fn nothing_is_left_of_a_killed_program() {
    let Some(name) = start("killed") else { return };
    let mut on = On::new(&name, &["hw-dctcp"]);
    on.end(Signal::SIGKILL);
    wait_gone(&name);
    // The next program reports and removes its file.
    On::new(&name, &["hw-dctcp"]).end(Signal::SIGINT);
    assert!(!available().contains(&name));
    assert!(!std::path::Path::new("/run/headway/cc").join(format!("{name}.json")).exists());
}

#[test]
fn the_default_of_a_killed_program_is_reported_and_restored() {
    let Some(name) = start("left") else { return };
    let former = default();
    On::new(&name, &["ls-dctcp", "--default"]).end(Signal::SIGKILL);
    wait_gone(&name);
    assert_eq!(default(), name, "the kernel keeps what is a default");
    let status = printed(&["status"]);
    assert!(status.contains(&format!("`headway cc stop {name}` restores {former}")), "{status}");
    // What it says is what a new connection gets.
    let state = || {
        let status = json(&["status", "--json"]);
        let left =
            status["left_behind"].as_array().unwrap().iter().find(|note| note["name"] == name.as_str());
        left.map(|note| note["kernel"].clone())
    };
    assert_eq!(controller_of_a_new_connection(), name);
    let killed = status.lines().find(|line| line.contains(&format!("was killed while {name} was on")));
    let killed = killed.unwrap_or_else(|| panic!("{status}"));
    assert!(killed.contains("new connections here still get it") && !killed.contains("unloaded"), "{status}");
    let kept = serde_json::json!({ "default_here": true, "available": false, "loaded": true });
    assert_eq!(state(), Some(kept));
    printed(&["stop", &name]);
    assert_eq!(default(), former);
    assert_eq!((controller_of_a_new_connection(), state()), (former.clone(), None));

    On::new(&name, &["ls-dctcp", "--default"]).end(Signal::SIGKILL);
    wait_gone(&name);
    On::new(&name, &["ls-dctcp", "--default"]).end(Signal::SIGTERM);
    assert_eq!(default(), former, "a new one restores first");
}

#[test]
fn what_killed_programs_left_is_forgotten_with_their_network_namespace() {
    let Some(name) = start("gone") else { return };
    On::new(&name, &["ls-dctcp", "--default"]).end(Signal::SIGKILL);
    let other = format!("{name}_too");
    On::new(&other, &["hw-reno"]).end(Signal::SIGKILL);
    wait_gone(&other);
    let status = printed(&["status"]);
    for name in [&name, &other] {
        assert!(status.contains(&format!("was killed while {name} was on")), "{status}");
    }
    // Nothing else is in the namespace that this thread leaves; the kernel unloads its default
    // when it has cleaned up.
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let deadline = Instant::now() + TIMEOUT;
    while printed(&["status"]).contains(&name) {
        assert!(Instant::now() < deadline, "{}", printed(&["status"]));
    }
    for file in [format!("{name}.json"), format!("{other}.json")] {
        assert!(!std::path::Path::new("/run/headway/cc").join(&file).exists(), "{file}");
    }
}

#[test]
fn the_first_default_survives_whatever_is_started_and_killed() {
    let Some(name) = start("first") else { return };
    let former = default();
    let other = format!("t{}_after", std::process::id());
    On::new(&name, &["hw-reno", "--default"]).end(Signal::SIGKILL);
    wait_gone(&name);
    // It has the same name but does not change the default.
    On::new(&name, &["hw-reno"]).end(Signal::SIGKILL);
    wait_gone(&name);
    On::new(&other, &["hw-reno", "--default"]).end(Signal::SIGKILL);
    wait_gone(&other);
    printed(&["stop", &other, &name]);
    assert_eq!(default(), former);
}

#[test]
fn a_default_that_cannot_be_restored_is_not_forgotten() {
    let Some(name) = start("failed") else { return };
    let gone = format!("t{}_gone", std::process::id());
    // The former default is a controller that is unloaded in between.
    let mut first = On::new(&gone, &["hw-reno", "--unrestricted"]);
    std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", &gone).unwrap_or_default();
    if default() != gone {
        first.end(Signal::SIGINT);
        println!("SKIPPED: only controllers for everybody can be a default here");
        return;
    }
    let mut second = On::new(&name, &["hw-reno", "--default"]);
    first.end(Signal::SIGINT);
    wait_gone(&gone);
    assert!(!second.end(Signal::SIGINT).success());
    let status = printed(&["status"]);
    assert!(status.contains(&format!("restores {gone}")), "{status}");
    // The note stays until the default can be restored, or somebody changes it.
    assert!(!headway(&["stop", &name]).status.success());
    assert!(printed(&["status"]).contains(&format!("restores {gone}")));
    std::fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno").unwrap();
    assert!(!printed(&["status"]).contains(&gone));
    // Nothing needs to be done, but `stop` tidies up.
    headway(&["stop", &name]);
    let notes = std::fs::read_dir("/run/headway/cc").unwrap().flatten();
    let texts = notes.map(|note| std::fs::read_to_string(note.path()).unwrap_or_default());
    assert!(texts.into_iter().all(|text| !text.contains(&name)));
}

#[test]
fn the_default_of_another_namespace_is_forgotten_only_with_that() {
    let Some(name) = start("else") else { return };
    On::new(&name, &["hw-reno", "--default"]).end(Signal::SIGKILL);
    let home = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let mut inside = Command::new("sleep");
    let enter = move || Ok(nix::sched::setns(&home, CloneFlags::CLONE_NEWNET)?);
    // SAFETY: one system call between fork and exec.
    let mut inside = unsafe { inside.arg("1000").pre_exec(enter) }.spawn().unwrap();
    assert!(printed(&["stop", &name]).contains("run there restores"));
    assert!(printed(&["status"]).contains(&name), "it was forgotten, although it can still be restored");
    inside.kill().unwrap();
    inside.wait().unwrap();
    // `inside` was the last process there; the kernel removes a namespace a little later.
    let deadline = Instant::now() + TIMEOUT;
    while printed(&["status"]).contains(&name) {
        assert!(Instant::now() < deadline, "it is not forgotten");
        printed(&["stop", &name]);
    }
}

#[test]
fn two_programs_see_each_other() {
    let Some(name) = start("two") else { return };
    let other = format!("t{}_other", std::process::id());
    let mut first = On::new(&name, &["ls-dctcp"]);
    let mut second = On::new(&other, &["ls-dctcp"]);
    let status = printed(&["status"]);
    assert!(
        status.contains(&format!("{name} is on")) && status.contains(&format!("{other} is on")),
        "{status}"
    );
    let third = headway(&["hw-reno", "--name", &name]);
    let sentence = format!("{name} is on already (process {})", first.child.id());
    assert!(String::from_utf8_lossy(&third.stderr).contains(&sentence), "{third:?}");
    assert!(first.end(Signal::SIGINT).success());
    assert!(available().contains(&other));
    let stats = json(&["stats", "--json"]);
    assert!(stats.as_array().unwrap().iter().any(|entry| entry["name"] == other.as_str()), "{stats}");
    assert!(second.end(Signal::SIGINT).success());
}

#[test]
fn in_the_background_until_stopped() {
    let Some(name) = start("back") else { return };
    let said = printed(&["hw-reno", "--background", "--name", &name]);
    assert!(said.starts_with(&format!("{name} is on")), "{said}");
    assert!(available().contains(&name));
    let again = headway(&["hw-reno", "--background", "--name", &name]);
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("is on already"));
    assert_eq!(printed(&["stop", &name]), format!("{name} is off\n"));
    assert!(!available().contains(&name));
    assert!(!headway(&["stop", &name]).status.success());
}

#[test]
fn without_privileges_it_says_what_it_needs() {
    let Some(name) = start("nobody") else { return };
    // A copy where `nobody` can run it: the build folder may be closed to other users. Another process
    // writes it, as a child of a test beside this one would keep a file of ours open for writing, and
    // nobody could run that.
    let copy = tempfile::Builder::new().prefix("headway").tempdir_in("/tmp").unwrap();
    let program = copy.path().join("headway");
    assert!(Command::new("cp").args([PROGRAM.as_ref(), program.as_path()]).status().unwrap().success());
    std::fs::set_permissions(copy.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.args(["cc", "ls-dctcp", "--json", "--name", &name]).uid(UNPRIVILEGED).gid(UNPRIVILEGED);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let sentence = "loading programs into the kernel needs root (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN on the host); run it with \
                    sudo, in a container with a seccomp filter that allows bpf";
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("headway: {sentence}\n"));
    let error: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&error["type"], &error["error"]), (&"error".into(), &sentence.into()));
    assert!(
        Command::new(&program).args(["cc", "status"]).uid(UNPRIVILEGED).output().unwrap().status.success()
    );
}

/// Makes a pair of interfaces in this network namespace and returns the segments that the kernel
/// hands to one at once.
fn interfaces() -> u32 {
    for arguments in ["link add eth0 type veth peer name eth1", "link set eth0 up", "link set eth1 up"] {
        assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success());
    }
    segments()
}

fn segments() -> u32 {
    headway_kernel::Interface::here("eth0").unwrap().segments
}

#[test]
fn an_interface_carries_the_header_until_a_signal_and_a_killed_program_is_cleaned_up_after() {
    let Some(name) = start("ends") else { return };
    let before = interfaces();
    let former = default();
    let mut on = On::new(&name, &["xcp", "--interface", "eth0", "--default", "--demand", "10 Mb/s"]);
    assert_eq!((segments(), default()), (1, name.clone()));
    let status = printed(&["status"]);
    assert!(
        status.contains(&format!("{name} is on")) && status.contains("header in packets of eth0"),
        "{status}"
    );
    let second = headway(&["rcp", "--interface", "eth0", "--name", &format!("{name}2")]);
    assert!(String::from_utf8_lossy(&second.stderr).contains(&format!("{name} (process")), "{second:?}");
    let stats = json(&["stats", "--json"]);
    let me = stats.as_array().unwrap().iter().find(|entry| entry["name"] == name.as_str()).unwrap();
    assert_eq!(me["counters"]["without_peer"], 0);
    assert!(on.end(Signal::SIGINT).success());
    assert_eq!(on.event()["counters"]["connections"], 0);
    assert_eq!((segments(), default()), (before, former.clone()));

    On::new(&name, &["rcp", "--interface", "eth0", "--default"]).end(Signal::SIGKILL);
    wait_gone(&name);
    let status = printed(&["status"]);
    assert!(status.contains(&format!("`headway cc stop {name}` restores {before} at once")), "{status}");
    printed(&["stop", &name]);
    assert_eq!((segments(), default()), (before, former));
    assert!(!printed(&["status"]).contains(&name));

    // The next program restores, too, and then does as it would otherwise.
    On::new(&name, &["rcp", "--receive"]).end(Signal::SIGKILL);
    On::new(&name, &["rcp", "--receive"]).end(Signal::SIGTERM);
    assert_eq!(segments(), before);
}

#[test]
fn interfaces_that_cannot_carry_the_header_are_refused() {
    let Some(name) = start("refused") else { return };
    let mistakes = [
        (vec!["--interface", "lo"], "cannot use the interface lo: it is not Ethernet"),
        (vec!["--interface", "eth7"], "cannot use the interface eth7"),
        (vec![], "no Ethernet interface of this network namespace is up"),
        (vec!["--receive", "--default"], "leave one of them out"),
    ];
    for (arguments, sentence) in mistakes {
        let output = headway(&[&["xcp", "--name", &name], &arguments[..]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(sentence), "{said}");
    }
    assert!(!available().contains(&name));
}

#[test]
fn wrong_options_are_mistakes() {
    for arguments in
        [["--scale", "2"], ["--delta", "0"], ["--floor", "0"], ["--name", "much-too-long-a-name"]]
    {
        let output = Command::new(PROGRAM).args(["cc", "ls-dctcp"]).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        assert!(!output.stderr.is_empty());
    }
}

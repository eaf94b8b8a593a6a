//! Kills every command at random moments: the next one ends and removes what is left.
//!
//! `HEADWAY_KILLS=40 cargo test -p headway-cli-lab --test kills -- --test-threads
//! 1` kills each of them forty times, which takes some minutes. The default is twice. The moments come from
//! fixed seeds, but what a command is doing at them varies.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

#[path = "../../cli/tests/support/controllers.rs"]
mod controllers;
#[path = "../../cli/tests/support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use controllers::enter_network;
use headway_lab::Process;
use headway_telemetry::route::Route;
use serde_json::Value;
use support::{PROGRAM, TIMEOUT};
use tempfile::TempDir;

const MARK: &str = "HEADWAY_TEST_MARK";

/// Returns how often each command is killed.
fn kills() -> u64 {
    std::env::var("HEADWAY_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(2)
}

/// The test of a command: its folder, and the mark of its processes.
struct Trial {
    name: String,
    folder: TempDir,
    state: u64,
}

impl Trial {
    fn new(what: &str) -> Trial {
        let state = what.bytes().fold(1, |state: u64, byte| state.wrapping_mul(257) + u64::from(byte));
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("cache")).unwrap();
        fs::create_dir_all(folder.path().join("tmp")).unwrap();
        Trial { name: format!("k{}_{what}", std::process::id()), folder, state }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        command
            .env(MARK, &self.name)
            .env("TMPDIR", self.path("tmp"))
            .env("HEADWAY_CACHE", self.path("cache"));
        command
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Returns a random moment within `within` milliseconds (splitmix64).
    fn moment(&mut self, within: u64) -> Duration {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Duration::from_micros((mixed ^ (mixed >> 31)) % (within * 1000))
    }

    /// Starts a command and kills it at a random moment within `within` milliseconds.
    fn killed(&mut self, arguments: &[&str], within: u64) {
        let mut child = self.quiet(arguments);
        std::thread::sleep(self.moment(within));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    fn quiet(&self, arguments: &[&str]) -> Child {
        self.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn output(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command, which must succeed, and returns its output.
    fn printed(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Checks that none of its processes lives and that nothing is left in its temporary folder, its cache or
    /// among the labs.
    fn check_gone(&self, round: u64) {
        let mark = format!("{MARK}={}", self.name);
        for process in processes() {
            let environment = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
            let place = fs::read_link(format!("/proc/{}/cwd", process.pid)).unwrap_or_default();
            let ours = environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
                || place.starts_with(self.folder.path());
            assert!(!ours || process.wait_gone(TIMEOUT), "round {round}: {process:?} lives, in {place:?}");
        }
        assert_eq!(entries(&self.path("tmp")), [] as [String; 0], "round {round}");
        let cached = entries(&self.path("cache"));
        let stays = |name: &String| name == "kernel" || name == "running.lock";
        assert!(cached.iter().all(stays), "round {round}: {cached:?}");
        let labs: Value = serde_json::from_str(&self.printed(&["lab", "status", "--json"])).unwrap();
        assert!(
            labs.as_array().unwrap().iter().all(|lab| lab["name"] != self.name.as_str()),
            "round {round}"
        );
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

fn processes() -> Vec<Process> {
    entries(Path::new("/proc")).iter().filter_map(|name| Process::of(name.parse().ok()?)).collect()
}

/// A path of two links, that is three nodes.
const LAB: &str = "[[link]]\nfrom = \"client\"\nto = \"router\"\nforward = { rate = \"10 Mb/s\" }\n\
                   [[link]]\nfrom = \"router\"\nto = \"server\"\nforward = { rate = \"10 Mb/s\" }\n";

/// Creates a trial with a scenario for labs; `None` if this machine cannot run labs.
fn with_lab(what: &str) -> Option<Trial> {
    let trial = Trial::new(what);
    trial.write("path.toml", LAB);
    let up = trial.output(&["lab", "up", "path.toml", "--name", &trial.name]);
    let said = String::from_utf8_lossy(&up.stderr);
    if said.contains("this host allows neither") || said.contains("install the package") {
        println!("SKIPPED: {said}");
        return None;
    }
    assert!(up.status.success(), "{said}");
    trial.printed(&["lab", "down", &trial.name]);
    Some(trial)
}

#[test]
fn lab_up() {
    let Some(mut trial) = with_lab("up") else { return };
    let name = trial.name.clone();
    let up = ["lab", "up", "path.toml", "--name", &name];
    for round in 0..kills() {
        trial.killed(&up, 120);
        // The lab may have been up already.
        let again = trial.output(&up);
        let said = String::from_utf8_lossy(&again.stderr);
        assert!(again.status.success() || said.contains("is up already"), "round {round}: {said}");
        trial.printed(&["lab", "down", &name]);
        trial.check_gone(round);
    }
}

#[test]
fn lab_up_in_the_foreground() {
    let Some(mut trial) = with_lab("foreground") else { return };
    let name = trial.name.clone();
    for round in 0..kills() {
        trial.killed(&["lab", "up", "path.toml", "--name", &name, "--foreground"], 200);
        trial.printed(&["lab", "up", "path.toml", "--name", &name]);
        trial.printed(&["lab", "down", &name]);
        trial.check_gone(round);
    }
}

#[test]
fn lab_down() {
    let Some(mut trial) = with_lab("down") else { return };
    let name = trial.name.clone();
    for round in 0..kills() {
        trial.printed(&["lab", "up", "path.toml", "--name", &name]);
        // It ignores SIGTERM.
        let mut inside = trial.quiet(&[
            "lab",
            "exec",
            "--name",
            &name,
            "client",
            "--",
            "sh",
            "-c",
            "trap '' TERM; sleep 99",
        ]);
        trial.killed(&["lab", "down", &name], 1200);
        // There may be nothing left.
        trial.output(&["lab", "down", &name]);
        inside.wait().unwrap();
        trial.check_gone(round);
    }
}

#[test]
fn lab_exec() {
    let Some(mut trial) = with_lab("exec") else { return };
    let name = trial.name.clone();
    for round in 0..kills() {
        trial.printed(&["lab", "up", "path.toml", "--name", &name]);
        trial
            .killed(&["lab", "exec", "--name", &name, "client", "--", "sh", "-c", "sleep 99 & sleep 99"], 40);
        trial.printed(&["lab", "down", &name]);
        trial.check_gone(round);
    }
}

#[test]
fn lab_daemons_beside_exec() {
    let Some(mut trial) = with_lab("daemon") else { return };
    let name = trial.name.clone();
    for round in 0..kills() {
        trial.printed(&["lab", "up", "path.toml", "--name", &name]);
        let labs: Value = serde_json::from_str(&trial.printed(&["lab", "status", "--json"])).unwrap();
        let lab = labs.as_array().unwrap().iter().find(|lab| lab["name"] == name.as_str()).unwrap();
        let mut all: Vec<Process> = serde_json::from_value(lab["holders"].clone()).unwrap();
        // Alternately kills only the daemon, and also all processes that could clean up after it.
        if round % 2 == 0 {
            all.clear();
        }
        all.push(serde_json::from_value(lab["daemon"].clone()).unwrap());
        let mut inside =
            trial.quiet(&["lab", "exec", "--name", &name, "client", "--", "sh", "-c", "sleep 99 & sleep 99"]);
        std::thread::sleep(trial.moment(40));
        for process in all {
            process.open().unwrap().signal(libc::SIGKILL).unwrap();
            assert!(process.wait_gone(TIMEOUT));
        }
        trial.printed(&["lab", "up", "path.toml", "--name", &name]);
        inside.wait().unwrap();
        trial.printed(&["lab", "down", &name]);
        trial.check_gone(round);
    }
}

/// Creates a trial in a new network namespace; `None` if no controller can be loaded here.
fn with_controller(what: &str) -> Option<Trial> {
    enter_network().then(|| Trial::new(what))
}

/// Checks that no controller and no note of this name is left and that the former default is restored.
fn check_controller(trial: &Trial, former: &str, round: u64) {
    let deadline = std::time::Instant::now() + TIMEOUT;
    while headway_kernel::available().unwrap().contains(&trial.name) {
        assert!(std::time::Instant::now() < deadline, "round {round}: {} is still there", trial.name);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(headway_kernel::current_default().unwrap(), former, "round {round}");
    let status: Value = serde_json::from_str(&trial.printed(&["cc", "status", "--json"])).unwrap();
    let text = status.to_string();
    assert!(!text.contains(&trial.name), "round {round}: {text}");
    trial.check_gone(round);
}

#[test]
fn cc_with_default() {
    let Some(mut trial) = with_controller("cc") else { return };
    let name = trial.name.clone();
    let former = headway_kernel::current_default().unwrap();
    for round in 0..kills() {
        let on = ["cc", "ls-dctcp", "--name", &name, "--default"];
        // Killed three times, with and without the default, each at another moment.
        trial.killed(&on, 150);
        trial.killed(&on[..4], 150);
        trial.killed(&on, 150);
        // There may be nothing left.
        trial.output(&["cc", "stop", &name]);
        check_controller(&trial, &former, round);
    }
}

#[test]
fn cc_with_interface() {
    let Some(mut trial) = with_controller("ends") else { return };
    let name = trial.name.clone();
    let former = headway_kernel::current_default().unwrap();
    let pair = ["link", "add", "eth0", "type", "veth", "peer", "name", "eth1"];
    assert!(Command::new("ip").args(pair).status().unwrap().success());
    let settings = || {
        let interface = headway_kernel::Interface::here("eth0").unwrap();
        (interface.segments, interface.merging().unwrap())
    };
    let before = settings();
    for round in 0..kills() {
        for controller in [&["xcp"][..], &["rapid", "--line", "100 Mb/s", "--offloads-off"]] {
            let on = [&["cc"], controller, &["--name", &name, "--interface", "eth0"]].concat();
            trial.killed(&[&on[..], &["--default"]].concat(), 300);
            trial.killed(&on, 300);
            // There may be nothing left.
            trial.output(&["cc", "stop", &name]);
            check_controller(&trial, &former, round);
            assert_eq!(settings(), before, "round {round}");
        }
    }
}

#[test]
fn cc_rapid_receiver() {
    let Some(mut trial) = with_controller("stamps") else { return };
    let name = trial.name.clone();
    let former = headway_kernel::current_default().unwrap();
    for arguments in
        ["link add eth0 type veth peer name eth1", "link set eth0 up", "addr add 10.9.8.1/24 dev eth0"]
    {
        assert!(Command::new("ip").args(arguments.split(' ')).status().unwrap().success());
    }
    assert!(!Route::all().unwrap().is_empty());
    for round in 0..kills() {
        let on = ["cc", "rapid-receiver", "--name", &name];
        trial.killed(&on, 150);
        trial.killed(&on, 150);
        // A namespace has one receiver at a time: a killed one is none.
        trial.printed(&[&on[..], &["--port", "5201", "--to", "192.0.2.0/24", "--background"]].concat());
        let other = trial.output(&["cc", "rapid-receiver", "--name", "another"]);
        let said = String::from_utf8(other.stderr).unwrap();
        assert!(said.contains("is the receiver of this network namespace"), "round {round}: {said}");
        trial.printed(&["cc", "stop", &name]);
        check_controller(&trial, &former, round);
        trial.killed(&["cc", "rapid-receiver", "--name", &name, "--timestamps"], 150);
        trial.output(&["cc", "stop", &name]);
        check_controller(&trial, &former, round);
        let changed = Route::all().unwrap().iter().filter(|route| route.has_microseconds()).count();
        assert_eq!(changed, 0, "round {round}");
    }
}

#[test]
fn cc_stop() {
    let Some(mut trial) = with_controller("stop") else { return };
    let name = trial.name.clone();
    let former = headway_kernel::current_default().unwrap();
    for round in 0..kills() {
        trial.printed(&["cc", "hw-reno", "--name", &name, "--default", "--background"]);
        trial.killed(&["cc", "stop", &name], 40);
        trial.output(&["cc", "stop", &name]);
        check_controller(&trial, &former, round);
    }
}

const RUN: &str = r#"
duration = "800 ms"
warmup = "100 ms"
[[link]]
from = "a"
to = "b"
rate = "10 Mb/s"
delay = "1 ms"
[[flow]]
from = "a"
to = "b"
controller = "reno"
[[program]]
at = "a"
command = "sleep 100 & sleep 100"
stop = "500 ms"
"#;

#[test]
fn run_on_lab() {
    let Some(mut trial) = with_lab("run") else { return };
    trial.write("run.toml", RUN);
    for round in 0..kills() {
        trial.killed(&["run", "run.toml", "--on", "lab", "--force"], 1500);
        trial.printed(&["run", "run.toml", "--on", "lab", "--force"]);
        trial.check_gone(round);
        let labs = trial.printed(&["lab", "status", "--json"]);
        // Others may run something at the same time: the name has the number of the process.
        for name in labs.split("\"run-").skip(1) {
            let process = name.split('-').next().unwrap_or_default();
            assert!(Path::new("/proc").join(process).exists(), "round {round}: {labs}");
        }
    }
}

#[test]
fn run_on_uml() {
    let path = Command::new(PROGRAM).args(["uml", "path"]).output().unwrap();
    if !path.status.success() {
        println!("SKIPPED: {}", String::from_utf8_lossy(&path.stderr));
        return;
    }
    let kernel = PathBuf::from(String::from_utf8(path.stdout).unwrap().trim());
    let mut trial = Trial::new("uml");
    symlink(kernel.parent().unwrap().parent().unwrap(), trial.path("cache/kernel")).unwrap();
    trial.write("run.toml", RUN);
    for round in 0..kills() {
        trial.killed(&["run", "run.toml", "--on", "uml", "--force"], 1000);
        trial.printed(&["run", "run.toml", "--on", "uml", "--force"]);
        trial.check_gone(round);
    }
}

/// Starts a server and returns its port.
fn server(trial: &Trial, port: &str) -> (Child, String) {
    let mut command = trial.command(&["serve", "--bind", "127.0.0.1", "--port", port, "--json"]);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = serde_json::from_str::<Value>(&line).unwrap()["port"].to_string();
    (server, port)
}

#[test]
fn measure() {
    let mut trial = Trial::new("measure");
    let (mut server, port) = server(&trial, "0");
    for _ in 0..kills() {
        trial.killed(&["measure", "127.0.0.1", "--port", &port, "--streams", "streams.csv"], 600);
    }
    // The server keeps running. Whether this machine paces well enough for an answer does not matter.
    let next = trial.output(&["measure", "127.0.0.1", "--port", &port, "--duration", "300ms"]);
    assert!(matches!(next.status.code(), Some(0 | 6)), "{next:?}");
    server.kill().unwrap();
    server.wait().unwrap();
    trial.check_gone(0);
}

#[test]
fn serve() {
    let mut trial = Trial::new("serve");
    let (mut first, port) = server(&trial, "0");
    first.kill().unwrap();
    first.wait().unwrap();
    for round in 0..kills() {
        let mut client = trial.quiet(&["measure", "127.0.0.1", "--port", &port]);
        trial.killed(&["serve", "--bind", "127.0.0.1", "--port", &port], 400);
        client.wait().unwrap();
        // The port is free again.
        let (mut next, again) = server(&trial, &port);
        assert_eq!(again, port, "round {round}");
        next.kill().unwrap();
        next.wait().unwrap();
        trial.check_gone(round);
    }
}

/// Returns the files of a folder, and of those in it, with what is in them.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for name in entries(folder) {
        let path = folder.join(&name);
        if path.is_dir() {
            all.extend(contents(&path).into_iter().map(|(inner, text)| (Path::new(&name).join(inner), text)));
        } else {
            all.insert(PathBuf::from(name), fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn sweep() {
    let mut trial = Trial::new("sweep");
    let (scenario, _) = RUN.split_once("[[program]]").unwrap();
    trial.write("run.toml", &scenario.replace("800 ms", "150 ms"));
    trial.write(
        "sweep.toml",
        "scenario = \"run.toml\"\non = \"sim\"\nseeds = \"1-25\"\n[set]\nlink.0.loss = [0.01, 0.05]\n\
         link.0.rate = [\"1 Mb/s\", \"2 Mb/s\", \"4 Mb/s\", \"8 Mb/s\"]\n",
    );
    trial.printed(&["sweep", "sweep.toml", "--jobs", "1", "--output", "whole"]);
    let whole = contents(&trial.path("whole"));
    assert_eq!(String::from_utf8_lossy(&whole[Path::new("cells.csv")]).lines().count(), 201);
    for round in 0..kills() {
        let output = format!("killed-{round}");
        let again = ["sweep", "sweep.toml", "--jobs", "2", "--output", &output];
        for _ in 0..3 {
            trial.killed(&again, 400);
        }
        trial.printed(&again);
        let left = contents(&trial.path(&output));
        assert_eq!(left.keys().collect::<Vec<_>>(), whole.keys().collect::<Vec<_>>(), "round {round}");
        assert!(left == whole, "round {round}: the same files, but not the same bytes");
        trial.check_gone(round);
    }
}

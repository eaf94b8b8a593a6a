//! The traces that programs leave when they are killed, raced, interrupted or given something other than files.
//!
//! Where the machine allows no namespaces, the tests that need them say so and pass.
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use headway_lab::Process;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_headway");
const PATIENCE: Duration = Duration::from_secs(20);
const PATH: &str = "[forward]\nrate = \"10 Mb/s\"\n";

fn headway(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must end soon, and returns its output.
fn output(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = Process::of(child.id() as i32);
    let watch = std::thread::spawn(move || {
        if process.is_some_and(|process| !process.wait_gone(PATIENCE)) {
            process.and_then(|process| process.open()).map(|handle| handle.signal(libc::SIGKILL));
        }
    });
    let output = child.wait_with_output().unwrap();
    watch.join().unwrap();
    assert_ne!(output.status.signal(), Some(libc::SIGKILL), "{command:?} does not end");
    output
}

fn name(what: &str) -> String {
    format!("c{}-{what}", std::process::id())
}

fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// A lab as shown by `headway lab status`.
struct Lab {
    daemon: Process,
    holders: Vec<Process>,
    folder: PathBuf,
}

/// Returns the lab of this name if it is up.
fn find(name: &str) -> Option<Lab> {
    let shown = output(&mut headway(&["lab", "status", "--json"]));
    let labs: Value = serde_json::from_slice(&shown.stdout).unwrap();
    let lab = labs.as_array().unwrap().iter().find(|lab| lab["name"] == name)?;
    let process = |value: &Value| serde_json::from_value::<Process>(value.clone()).unwrap();
    let truth = Path::new(lab["truth"].as_str().unwrap());
    Some(Lab {
        daemon: process(&lab["daemon"]),
        holders: lab["holders"].as_array().unwrap().iter().map(process).collect(),
        folder: truth.parent().unwrap().to_owned(),
    })
}

/// Brings up a detached lab with its scenario in `folder`; `None` if this machine cannot run labs.
fn up(folder: &Path, name: &str) -> Option<Lab> {
    let file = write(folder, "path.toml", PATH);
    let made = output(&mut headway(&["lab", "up", &file, "--name", name]));
    let said = text(&made.stderr);
    if said.contains("this host lets you make neither") || said.contains("install the package") {
        println!("SKIPPED: {said}");
        return None;
    }
    assert!(made.status.success(), "{said}");
    find(name)
}

/// Starts a program in the node `server`; also returns the process that it has started itself.
fn program(name: &str) -> (Child, Process) {
    let script = ["lab", "exec", "--name", name, "server", "--", "sh", "-c", "sleep 1000 & echo $!; wait"];
    let mut child = headway(&script).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let inner = Process::of(line.trim().parse().unwrap()).unwrap();
    (child, inner)
}

fn kill_now(process: Process) {
    kill(Pid::from_raw(process.pid), Signal::SIGKILL).unwrap();
    assert!(process.wait_gone(PATIENCE));
}

fn down(name: &str) -> Output {
    output(&mut headway(&["lab", "down", name]))
}

#[test]
fn programs_in_a_lab_end_with_a_killed_daemon() {
    let folder = tempfile::tempdir().unwrap();
    let name = name("orphan");
    let Some(lab) = up(folder.path(), &name) else { return };
    let (mut outer, inner) = program(&name);
    kill_now(lab.daemon);
    assert!(down(&name).status.success());
    assert!(!inner.alive(), "the lab is said to be down");
    outer.wait().unwrap();
    assert!(lab.holders.iter().all(|holder| !holder.alive()));
}

#[test]
fn what_killed_holders_leave_is_ended_by_whoever_comes_next() {
    let folder = tempfile::tempdir().unwrap();
    let name = name("heirs");
    let Some(lab) = up(folder.path(), &name) else { return };
    let (mut outer, inner) = program(&name);
    lab.holders.into_iter().for_each(kill_now);
    kill_now(lab.daemon);
    assert!(inner.alive());
    assert!(down(&name).status.success());
    assert!(!inner.alive(), "the lab is said to be down");
    outer.wait().unwrap();
    assert!(!down(&name).status.success(), "nothing is left");
}

/// Returns the processes that have `mark` in their environment.
fn marked(mark: &str) -> Vec<Process> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let with_mark = entries.filter(|entry| {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    });
    with_mark.filter_map(|entry| Process::of(entry.file_name().to_str()?.parse().ok()?)).collect()
}

#[test]
fn down_racing_up_leaves_no_process_unseen() {
    let folder = tempfile::tempdir().unwrap();
    let name = name("race");
    if up(folder.path(), &name).is_none() {
        return;
    }
    let file = folder.path().join("path.toml");
    let mark = format!("HEADWAY_TEST_MARK={name}");
    for round in 0..12 {
        down(&name);
        let run = |arguments: &[&str]| {
            let mut command = headway(arguments);
            command.env("HEADWAY_TEST_MARK", &name).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        };
        let mut up = run(&["lab", "up", file.to_str().unwrap(), "--name", &name]);
        // Not a synchronisation: a different moment in every round.
        std::thread::sleep(Duration::from_millis(10 * round));
        run(&["lab", "down", &name]).wait().unwrap();
        up.wait().unwrap();
        down(&name);
        let left = marked(&mark);
        let left: Vec<_> =
            left.into_iter().filter(|process| !process.wait_gone(Duration::from_secs(3))).collect();
        assert!(left.is_empty(), "round {round}: {left:?}");
    }
}

/// Runs `start` with an inherited locked file; returns whether the lock is released once `start` has ended.
fn is_released(folder: &Path, start: &mut Command) -> bool {
    let path = folder.join("lock");
    let lock = File::create(&path).unwrap();
    lock.lock().unwrap();
    let number = lock.as_raw_fd();
    let inherit = move || {
        // SAFETY: the descriptor is open as long as the caller holds it.
        let lock = unsafe { std::os::fd::BorrowedFd::borrow_raw(number) };
        fcntl(lock, FcntlArg::F_SETFD(FdFlag::empty()))?;
        Ok(())
    };
    // SAFETY: one system call between fork and exec.
    unsafe { start.pre_exec(inherit) };
    assert!(output(start).status.success());
    drop(lock);
    // Children that other tests are starting have inherited it, too, until they exec.
    let file = File::open(&path).unwrap();
    let begin = Instant::now();
    while file.try_lock().is_err() {
        if begin.elapsed() > Duration::from_secs(5) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

#[test]
fn a_lab_does_not_keep_what_its_starter_had_open() {
    let folder = tempfile::tempdir().unwrap();
    let name = name("lock");
    if up(folder.path(), &name).is_none() {
        return;
    }
    down(&name);
    let file = folder.path().join("path.toml");
    let released =
        is_released(folder.path(), &mut headway(&["lab", "up", file.to_str().unwrap(), "--name", &name]));
    down(&name);
    assert!(released);
}

#[test]
fn a_controller_in_the_background_does_not_keep_what_its_starter_had_open() {
    if let Err(error) = headway_kernel::check() {
        println!("SKIPPED: {error}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let name = format!("c{}_lock", std::process::id());
    let released =
        is_released(folder.path(), &mut headway(&["cc", "hw-reno", "--background", "--name", &name]));
    output(&mut headway(&["cc", "stop", &name]));
    assert!(released);
}

#[test]
fn a_folder_that_another_user_has_made_is_not_used() {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: only root can be two users");
        return;
    }
    let folder = tempfile::Builder::new().prefix("headway").tempdir_in("/tmp").unwrap();
    let name = name("planted");
    let Some(lab) = up(folder.path(), &name) else { return };
    let state = fs::read(lab.folder.join("state.json")).unwrap();
    down(&name);
    // A user ID that nobody else has, and a program of that user.
    let user = 2_000_000 + std::process::id();
    let mut victim = Command::new("sleep").arg("1000").uid(user).spawn().unwrap();
    // A lab as somebody else could have forged it: with that program as its daemon.
    let base = PathBuf::from(format!("/tmp/headway-{user}"));
    let planted = base.join("lab/planted");
    fs::create_dir_all(&planted).unwrap();
    let mut state: Value = serde_json::from_slice(&state).unwrap();
    state["daemon"] = serde_json::to_value(Process::of(victim.id() as i32)).unwrap();
    fs::write(planted.join("state.json"), state.to_string()).unwrap();
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let file = write(folder.path(), "path.toml", PATH);
    let program = folder.path().join("headway");
    // Copied by another process: a child of a concurrent test could inherit our file open for writing, and
    // then nobody could execute it.
    assert!(Command::new("cp").arg(PROGRAM).arg(&program).status().unwrap().success());
    let as_user = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).uid(user).gid(user).env_remove("XDG_RUNTIME_DIR").current_dir("/");
        output(&mut command)
    };
    let said = [&["lab", "down", "--all"][..], &["lab", "up", &file], &["lab", "status"]].map(as_user);
    let is_left = planted.join("state.json").exists();
    fs::remove_dir_all(&base).unwrap();
    let lives = victim.try_wait().unwrap().is_none();
    // It may have ended.
    let _ = victim.kill();
    victim.wait().unwrap();
    assert!(lives && is_left, "what somebody else has written was believed");
    for said in said {
        let sentence = text(&said.stderr);
        assert_eq!(said.status.code(), Some(1));
        assert!(
            sentence.contains("belongs to another user") && sentence.contains("XDG_RUNTIME_DIR"),
            "{sentence}"
        );
    }
}

#[test]
fn a_lab_that_is_interrupted_while_it_comes_up_is_down() {
    let folder = tempfile::tempdir().unwrap();
    let name = name("int");
    if up(folder.path(), &name).is_none() {
        return;
    }
    down(&name);
    let file = folder.path().join("path.toml");
    let mark = format!("HEADWAY_TEST_MARK={name}");
    // The daemon may be ready before we can stop it; then the lab is up in spite of the signal.
    let status = (0..20).map(|_| interrupt_start(&file, &name, &mark)).find(|status| {
        if status.success() {
            down(&name);
        }
        !status.success()
    });
    assert!(status.is_some(), "the lab was up before the signal each time");
    for process in marked(&mark) {
        assert!(process.wait_gone(PATIENCE), "{process:?}");
    }
    assert!(find(&name).is_none());
}

/// Brings a lab up and interrupts that while its daemon, identified by `mark`, is stopped; returns the exit status.
fn interrupt_start(file: &Path, name: &str, mark: &str) -> std::process::ExitStatus {
    let mut command = headway(&["lab", "up", file.to_str().unwrap(), "--name", name]);
    let mut child = command.env("HEADWAY_TEST_MARK", name).stdout(Stdio::null()).spawn().unwrap();
    let own = child.id() as i32;
    let deadline = Instant::now() + PATIENCE;
    // A stopped daemon stands for an arbitrarily slow one.
    let daemon = loop {
        // Only once it runs its own program: until then the process that starts it is blocked.
        let is_daemon = |pid: i32| {
            fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.ends_with(b"daemon\0"))
        };
        if let Some(daemon) = marked(mark).into_iter().find(|process| is_daemon(process.pid)) {
            break daemon.open().unwrap();
        }
        assert!(Instant::now() < deadline, "it does not begin");
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
    };
    daemon.signal(libc::SIGSTOP).unwrap();
    kill(Pid::from_raw(own), Signal::SIGINT).unwrap();
    let ended = Process::of(own).is_none_or(|process| process.wait_gone(PATIENCE));
    daemon.signal(libc::SIGCONT).unwrap();
    assert!(ended, "a signal was swallowed");
    child.wait().unwrap()
}

const SIMULATED: &str = "duration = \"2 s\"\nwarmup = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\n\
                         delay = \"1 ms\"\n[[flow]]\nname = \"=1+1\"\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n";

/// Returns a pipe whose reader is closed.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

/// Runs a command with outputs that cannot be written; returns the exit code and its standard error.
fn status_of(arguments: &[&str], out: Stdio, errors: Stdio, folder: &Path) -> (Option<i32>, String) {
    let mut command = headway(arguments);
    let mut child = command.current_dir(folder).stdout(out).stderr(errors).spawn().unwrap();
    let mut said = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut said).unwrap();
    }
    (child.wait().unwrap().code(), said)
}

#[test]
fn a_closed_output_is_no_failure_and_a_full_one_is_said() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "sim.toml", SIMULATED);
    let mut commands = vec![
        vec!["run", "sim.toml", "--on", "sim", "--force"],
        vec!["run", "sim.toml", "--on", "sim", "--json", "--force"],
        vec!["lab", "status", "--json"],
        vec!["lab", "status"],
        vec!["repro", "--list"],
        vec!["repro", "--list", "--json"],
        vec!["calc", "tables"],
        vec!["cc", "list"],
        vec!["cc", "status", "--json"],
        vec!["--help"],
        vec!["measure", "--help"],
        vec!["--version"],
    ];
    if headway(&["uml", "path"]).output().unwrap().status.success() {
        commands.push(vec!["uml", "path"]);
    }
    for arguments in commands {
        let (code, said) = status_of(&arguments, closed(), Stdio::piped(), folder.path());
        assert_eq!(code, Some(0), "{arguments:?} closed: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        let (code, said) = status_of(&arguments, full(), Stdio::piped(), folder.path());
        assert_eq!(code, Some(1), "{arguments:?} full: {said}");
        assert!(said.contains("cannot write to standard output: No space left on device"), "{said}");
        let (code, _) = status_of(&arguments, full(), full(), folder.path());
        assert_eq!(code, Some(1), "{arguments:?} with nowhere to say so");
    }
    for errors in [closed(), full()] {
        let (code, _) = status_of(&["run", "none.toml", "--on", "sim"], closed(), errors, folder.path());
        assert_eq!(code, Some(1));
    }
}

#[test]
fn a_measurement_with_a_closed_or_full_output_ends_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = headway(&["serve", "--bind", "127.0.0.1", "--port", "0", "--json"]);
    let mut server = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = serde_json::from_str::<Value>(&line).unwrap()["port"].to_string();
    let measure = ["measure", "127.0.0.1", "--port", &port, "--json", "--duration", "500ms"];
    let closed = status_of(&measure, closed(), Stdio::piped(), folder.path());
    let full = status_of(&measure, full(), Stdio::piped(), folder.path());
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(closed.0, Some(0), "{}", closed.1);
    assert!(!closed.1.contains("panicked") && !full.1.contains("panicked"));
    assert_eq!(full.0, Some(1));
    assert!(full.1.contains("cannot write to standard output"), "{}", full.1);
}

#[test]
fn results_stay_in_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (results, secret) = (folder.path().join("results"), folder.path().join("secret"));
    let file = write(folder.path(), "sim.toml", SIMULATED);
    let run = || output(&mut headway(&["run", &file, "--on", "sim", "--output", results.to_str().unwrap()]));
    assert!(run().status.success());
    fs::write(&secret, "before").unwrap();
    fs::remove_file(results.join("flows.csv")).unwrap();
    symlink(&secret, results.join("flows.csv")).unwrap();
    fs::remove_file(results.join("report.html")).unwrap();
    symlink(folder.path().join("made"), results.join("report.html")).unwrap();
    let manifest = results.join("manifest.json");
    // What an attacker with write access could plant: a link among the files to be replaced.
    symlink(folder.path(), results.join("seed-1")).unwrap();
    let listed =
        fs::read_to_string(&manifest).unwrap().replace("\"links.csv\"", "\"links.csv\", \"seed-1/secret\"");
    fs::remove_file(&manifest).unwrap();
    fs::write(&manifest, listed).unwrap();
    let again = run();
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(fs::read_to_string(&secret).unwrap(), "before");
    assert!(!folder.path().join("made").exists());
    // A name that a spreadsheet would interpret as a formula.
    assert!(fs::read_to_string(results.join("flows.csv")).unwrap().contains("0,'=1+1,"));
}

#[test]
fn files_without_an_end_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.toml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let pipe = pipe.to_str().unwrap();
    let link = SIMULATED.replace("rate = \"10 Mb/s\"", "trace = \"/dev/zero\"");
    let link = write(folder.path(), "link.toml", &link);
    let capture = "[[traffic]]\nfrom = \"a\"\nto = \"b\"\nmodel = \"pcap\"\nfile = \"/dev/zero\"\n";
    let capture = write(folder.path(), "pcap.toml", &format!("{SIMULATED}{capture}"));
    let delays = write(folder.path(), "delay.toml", &format!("{PATH}delay-trace = \"/dev/zero\"\n"));
    for (arguments, kind) in [
        (&["run", pipe, "--on", "sim"][..], "pipe"),
        (&["lab", "up", pipe], "pipe"),
        (&["compare", pipe, "--on", "sim,lab"], "pipe"),
        (&["run", "/dev/zero", "--on", "sim"], "device"),
        (&["run", &link, "--on", "sim"], "device"),
        (&["run", &capture, "--on", "sim"], "device"),
        (&["lab", "up", &delays, "--name", "never"], "device"),
    ] {
        let refused = output(headway(arguments).current_dir(folder.path()));
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.contains(&format!("it is a {kind}, not a regular file")), "{arguments:?}: {said}");
    }
}

#[test]
fn names_that_move_the_cursor_are_refused_or_shown_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "sim.toml", &format!("name = \"a\\u001b[2J\"\n{SIMULATED}"));
    let refused = output(&mut headway(&["run", &file, "--on", "sim"]));
    assert!(text(&refused.stderr).contains("sim.toml, line 1: `name`: must not contain control characters"));
    let lined = write(folder.path(), "two\nlines.toml", SIMULATED);
    let refused = output(headway(&["run", &lined, "--on", "sim"]).current_dir(folder.path()));
    assert!(text(&refused.stderr).contains("`name`: must not contain control characters"));
    let shown = output(&mut headway(&["lab", "down", "\u{1b}[31mred"]));
    assert!(text(&shown.stderr).contains("\\u{1b}[31mred"), "{:?}", text(&shown.stderr));
}

const WITH_PROGRAM: &str = "duration = \"30 s\"\nwarmup = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\n\
                            delay = \"1 ms\"\nduplex = true\n[[program]]\nat = \"a\"\ncommand = \"sleep 100\"\n\
                            [[program]]\nat = \"b\"\ncommand = \"sleep 100\"\n";

#[test]
fn a_killed_run_in_the_lab_leaves_nothing_that_the_next_does_not_remove() {
    let folder = tempfile::tempdir().unwrap();
    if up(folder.path(), &name("probe")).is_none() {
        return;
    }
    down(&name("probe"));
    let [cache, temporary] = ["cache", "tmp"].map(|part| folder.path().join(part));
    fs::create_dir(&temporary).unwrap();
    let file = write(folder.path(), "program.toml", WITH_PROGRAM);
    let mark = format!("HEADWAY_TEST_MARK={}", name("run"));
    let run = |more: &[&str]| {
        let mut command = headway(&["run", &file, "--on", "lab", "--force"]);
        command.args(more).current_dir(folder.path()).env("TMPDIR", &temporary).env("HEADWAY_CACHE", &cache);
        command.env("HEADWAY_TEST_MARK", name("run")).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut killed = run(&[]).spawn().unwrap();
    let deadline = Instant::now() + PATIENCE;
    let is_there =
        || fs::read_dir(&cache).into_iter().flatten().chain(fs::read_dir(&temporary).unwrap()).count() > 0;
    while !is_there() {
        assert!(Instant::now() < deadline && killed.try_wait().unwrap().is_none(), "it does not begin");
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    for process in marked(&mark) {
        assert!(process.wait_gone(PATIENCE), "{process:?}");
    }
    assert!(
        run(&["--set", "duration=2 s", "--set", "program.0.stop=1 s", "--set", "program.1.stop=1 s"])
            .status()
            .unwrap()
            .code()
            .is_some()
    );
    assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0);
    let left = fs::read_dir(&cache).unwrap().flatten();
    let left: Vec<_> =
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with("running-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_file_that_a_lab_reads_is_never_one_behind_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let name = name("link");
    let Some(lab) = up(folder.path(), &name) else { return };
    let state = lab.folder.join("state.json");
    let elsewhere = folder.path().join("state.json");
    fs::rename(&state, &elsewhere).unwrap();
    symlink(&elsewhere, &state).unwrap();
    let refused = output(&mut headway(&["lab", "exec", "--name", &name, "client", "--", "true"]));
    fs::remove_file(&state).unwrap();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&state).unwrap();
    file.write_all(&fs::read(&elsewhere).unwrap()).unwrap();
    assert!(down(&name).status.success());
    assert!(!refused.status.success());
}

//! The processes, labs and locks that programs leave when they are killed, raced or interrupted.
//!
//! Where the machine allows no namespaces, the tests that need them say so and pass. They are a program of
//! their own, because one of them stops a process in the moment between its beginning and its work, which
//! takes an idle processor.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

#[path = "../../cli/tests/support/controllers.rs"]
mod controllers;
#[path = "../../cli/tests/support/mod.rs"]
mod support;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use controllers::can_load_controllers;
use headway_lab::Process;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::labs::{down, find, marked, marked_if, name, up};
use support::{TIMEOUT, headway, output, write};

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
    assert!(process.wait_gone(TIMEOUT));
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
        let left: Vec<_> = left.into_iter().filter(|process| !process.wait_gone(TIMEOUT)).collect();
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
        if begin.elapsed() > TIMEOUT {
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
    if !can_load_controllers() {
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
    let status = (0..10).map(|_| interrupt_start(&file, &name, &mark)).find(|status| {
        if status.success() {
            down(&name);
        }
        !status.success()
    });
    if status.is_none() {
        println!("SKIPPED: the lab was up before the signal each time");
    }
    for process in marked(&mark) {
        assert!(process.wait_gone(TIMEOUT), "{process:?}");
    }
    assert!(find(&name).is_none());
}

/// How long a signal may take before a stopped daemon goes on.
const A_WHILE: Duration = Duration::from_secs(2);

/// Brings a lab up and interrupts that while its daemon, identified by `mark`, is stopped;
/// returns the exit status.
fn interrupt_start(file: &Path, name: &str, mark: &str) -> std::process::ExitStatus {
    let mut command = headway(&["lab", "up", file.to_str().unwrap(), "--name", name]);
    let mut child = command.env("HEADWAY_TEST_MARK", name).stdout(Stdio::null()).spawn().unwrap();
    let own = child.id() as i32;
    let deadline = Instant::now() + TIMEOUT;
    // A stopped daemon stands for an arbitrarily slow one.
    let daemon = loop {
        // Only once it runs its own program: until then the process that starts it is blocked.
        // It is soon ready. A process that it was begun by is older, and so need not be looked at.
        let is_daemon = |pid: i32| {
            pid > own
                && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|words| words.ends_with(b"daemon\0"))
        };
        if let Some(daemon) = marked_if(mark, is_daemon).into_iter().next() {
            break daemon.open().unwrap();
        }
        assert!(Instant::now() < deadline, "it does not begin");
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
    };
    daemon.signal(libc::SIGSTOP).unwrap();
    kill(Pid::from_raw(own), Signal::SIGINT).unwrap();
    let ends = |time| Process::of(own).is_none_or(|process| process.wait_gone(time));
    // If the daemon was about to take over, the signal counts once it has.
    ends(A_WHILE);
    daemon.signal(libc::SIGCONT).unwrap();
    assert!(ends(TIMEOUT), "a signal was swallowed");
    child.wait().unwrap()
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
    let mark = format!("HEADWAY_TEST_MARK={}", name("program"));
    let run = |more: &[&str]| {
        let mut command = headway(&["run", &file, "--on", "lab", "--force"]);
        command.args(more).current_dir(folder.path()).env("TMPDIR", &temporary).env("HEADWAY_CACHE", &cache);
        command.env("HEADWAY_TEST_MARK", name("program")).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut killed = run(&[]).spawn().unwrap();
    let deadline = Instant::now() + TIMEOUT;
    let is_there =
        || fs::read_dir(&cache).into_iter().flatten().chain(fs::read_dir(&temporary).unwrap()).count() > 0;
    while !is_there() {
        assert!(Instant::now() < deadline && killed.try_wait().unwrap().is_none(), "it does not begin");
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    for process in marked(&mark) {
        assert!(process.wait_gone(TIMEOUT), "{process:?}");
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

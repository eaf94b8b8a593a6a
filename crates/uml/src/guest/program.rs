//! A program of the host at a node: started, ended, and asked how it ended.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use headway_core::Duration;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, sethostname};

use super::events::{Actor, Events};
use super::{Failure, system};
use crate::plan::PlannedProgram;
use crate::report::ProgramEnd;

/// From the request to end to the end by force.
const GRACE: Duration = Duration::from_ms(1_000);
/// How often a program that was asked to end is looked at.
const PERIOD: Duration = Duration::from_ms(10);
/// The most bytes of a file that a program may write: one that never stops printing must not fill the host's disk.
const MOST_OUTPUT: u64 = 1 << 30;
/// Where programs are looked for; the host's own list would make results depend on who runs them.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Names of hosts, as the C library reads them.
const HOSTS: &str = "/etc/hosts";
/// What shells expect below `/dev`.
const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Makes nodes known by their names, and what programs expect of a machine.
pub(super) fn prepare(hosts: &[(Ipv4Addr, String)]) -> Result<(), Failure> {
    if hosts.is_empty() {
        return Ok(());
    }
    let lines: String = hosts.iter().map(|(address, name)| format!("{address} {name}\n")).collect();
    let file = "/run/hosts";
    system::write(Path::new(file), &format!("127.0.0.1 localhost\n{lines}"))?;
    mount(Some(file), HOSTS, None::<&str>, MsFlags::MS_BIND, None::<&str>).map_err(|error| {
        Failure::of(
            format!("cannot tell programs the names of nodes in {HOSTS}, which must be a file"),
            error,
        )
    })?;
    for (target, link) in LINKS {
        std::os::unix::fs::symlink(target, link)
            .map_err(|error| Failure::of(format!("cannot make {link}"), error))?;
    }
    fs::create_dir_all("/dev/shm").map_err(|error| Failure::of("cannot make /dev/shm".to_owned(), error))
}

/// A program, before, while and after it runs.
pub(super) struct Program {
    plan: PlannedProgram,
    number: usize,
    /// The host's files that receive what it prints, and its errors.
    outputs: [File; 2],
    /// While it runs: the process, and what tells when that has ended.
    running: Option<(Child, OwnedFd)>,
    /// The process group of all that it has started.
    group: Option<Pid>,
    /// Whether it was asked to end.
    halted: bool,
    /// Whether nothing of it is left, or ever will be.
    over: bool,
}

impl Program {
    /// A program that has not started.
    pub(super) fn new(number: usize, plan: &PlannedProgram, place: &Path) -> Result<Program, Failure> {
        let open = |name: &String| {
            File::create(place.join(name)).map_err(|error| Failure::of(format!("cannot write {name}"), error))
        };
        let [out, err] = PlannedProgram::outputs(number);
        let outputs = [open(&out)?, open(&err)?];
        let plan = plan.clone();
        Ok(Program { plan, number, outputs, running: None, group: None, halted: false, over: false })
    }

    /// Whether nothing of it is left, or ever will be.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Starts it in the network of its node.
    pub(super) fn start(&mut self, nodes: &[File], events: &mut Events) -> Result<(), Failure> {
        let child = self.spawn(&nodes[self.plan.node]).map_err(|error| self.failed("start", error))?;
        let process = Pid::from_raw(child.id() as i32);
        let end = descriptor(process).map_err(|error| self.failed("be watched", error))?;
        events.watch(end.as_fd(), Actor::Exit(self.number), false)?;
        self.group = Some(process);
        self.running = Some((child, end));
        Ok(())
    }

    fn spawn(&self, namespace: &File) -> io::Result<Child> {
        let directory = &self.plan.directory;
        if !directory.is_dir() {
            let reason = format!("the guest does not see the scenario's folder {}", directory.display());
            return Err(io::Error::new(io::ErrorKind::NotFound, reason));
        }
        let home = format!("/run/program-{}", self.number);
        fs::create_dir_all(&home)?;
        let [out, err] = &self.outputs;
        let namespace = namespace.try_clone()?;
        let host = self.plan.host.clone();
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(&self.plan.command).current_dir(directory).process_group(0);
        command.env_clear().env("PATH", PATH).env("LANG", "C.UTF-8").env("HOME", &home).env("TMPDIR", &home);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(err.try_clone()?);
        // SAFETY: between fork and exec only system calls are made, which touch no memory of others.
        unsafe {
            command.pre_exec(move || {
                setns(&namespace, CloneFlags::CLONE_NEWNET)?;
                unshare(CloneFlags::CLONE_NEWUTS)?;
                sethostname(&host)?;
                limit_files()
            });
        }
        command.spawn()
    }

    /// Asks it to end, and later makes it; comes again until nothing of it is left.
    pub(super) fn halt(&mut self, now: Duration, events: &mut Events) {
        if !self.halted {
            self.halted = true;
            self.signal(Signal::SIGTERM);
        } else if now >= self.plan.stop + GRACE {
            self.signal(Signal::SIGKILL);
        }
        self.over = !self.is_left();
        if !self.over {
            events.at(now + PERIOD, Actor::Halt(self.number));
        }
    }

    /// Signals all that it has started and that is in its group.
    fn signal(&self, signal: Signal) {
        // Fails when nothing is left, which is what the signal is for.
        let _ = self.group.map(|group| killpg(group, signal));
    }

    /// Whether it runs, or something that it has started.
    fn is_left(&self) -> bool {
        let Some(group) = self.group else { return false };
        if self.running.is_some() {
            return true;
        }
        // Orphans are children of this program, which is the first.
        let orphans = Pid::from_raw(-group.as_raw());
        while waitpid(orphans, Some(WaitPidFlag::WNOHANG)).is_ok_and(|state| state != WaitStatus::StillAlive)
        {
        }
        killpg(group, None).is_ok()
    }

    /// How it ended, if it has.
    pub(super) fn collect(
        &mut self,
        now: Duration,
        events: &mut Events,
    ) -> Result<Option<ProgramEnd>, Failure> {
        let Some((child, _)) = &mut self.running else { return Ok(None) };
        let status = child.try_wait().map_err(|error| self.failed("be watched", error))?;
        let Some(status) = status else { return Ok(None) };
        if let Some((_, end)) = self.running.take() {
            events.forget(end.as_fd())?;
        }
        Ok(Some(ProgramEnd {
            program: self.number,
            at: now,
            status: status.code(),
            signal: status.signal(),
            stopped: self.halted,
        }))
    }

    fn failed(&self, verb: &str, error: io::Error) -> Failure {
        Failure::of(format!("program {} cannot {verb}", self.number), error)
    }
}

/// A descriptor that is readable once a process has ended.
fn descriptor(process: Pid) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_open, process.as_raw(), 0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor has just been opened, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(number as i32) })
}

/// Lets this process write no file beyond [`MOST_OUTPUT`].
fn limit_files() -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: MOST_OUTPUT, rlim_max: MOST_OUTPUT };
    // SAFETY: the limit outlives the call, which only reads it.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

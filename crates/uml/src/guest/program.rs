//! A host program that runs at a node: starting it, stopping it, and collecting its exit status.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use headway_units::Duration;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, sethostname};

use super::events::{Event, Events};
use super::{Failure, system};
use crate::plan::PlannedProgram;
use crate::report::ProgramEnd;

/// Time from SIGTERM to SIGKILL.
const GRACE: Duration = Duration::from_ms(1_000);
/// How often to check whether a stopped program has exited.
const PERIOD: Duration = Duration::from_ms(10);
/// Size limit of files that a program writes: one that never stops printing must not fill the host's disk.
const MAX_OUTPUT: u64 = 1 << 30;
/// Search path of programs; the host's own would make results depend on who runs them.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// The host names file of the C library.
const HOSTS: &str = "/etc/hosts";
/// Links that shells expect in `/dev`.
const LINKS: [(&str, &str); 4] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
];

/// Publishes the names of nodes and creates the files that programs expect of a machine.
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

/// A program before, during and after its run.
pub(super) struct Program {
    plan: PlannedProgram,
    number: usize,
    /// The host's files for its standard output and standard error.
    outputs: [File; 2],
    /// While it runs: the process and its pidfd.
    running: Option<(Child, OwnedFd)>,
    /// The process group of everything that it started.
    group: Option<Pid>,
    /// Whether it was asked to exit.
    halted: bool,
    /// Whether none of its processes is left, nor ever will be.
    over: bool,
}

impl Program {
    /// Creates a program that has not started.
    pub(super) fn new(number: usize, plan: &PlannedProgram, place: &Path) -> Result<Program, Failure> {
        let open = |name: &String| {
            File::create(place.join(name)).map_err(|error| Failure::of(format!("cannot write {name}"), error))
        };
        let [out, err] = PlannedProgram::outputs(number);
        let outputs = [open(&out)?, open(&err)?];
        let plan = plan.clone();
        Ok(Program { plan, number, outputs, running: None, group: None, halted: false, over: false })
    }

    /// Whether none of its processes is left, nor ever will be.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Starts it in the namespace of its node.
    pub(super) fn start(&mut self, nodes: &[File], events: &mut Events) -> Result<(), Failure> {
        let child = self.spawn(&nodes[self.plan.node]).map_err(|error| self.failed("start", error))?;
        let process = Pid::from_raw(child.id() as i32);
        let end = descriptor(process).map_err(|error| self.failed("be monitored", error))?;
        events.watch(end.as_fd(), Event::Exit(self.number), false)?;
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
        // SAFETY: only system calls are made between fork and exec; they touch no memory of others.
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

    /// Asks it to exit and later kills it; reschedules itself until none of its processes is left.
    pub(super) fn halt(&mut self, now: Duration, events: &mut Events) {
        if !self.halted {
            self.halted = true;
            self.signal(Signal::SIGTERM);
        } else if now >= self.plan.stop + GRACE {
            self.signal(Signal::SIGKILL);
        }
        self.over = !self.is_left();
        if !self.over {
            events.at(now + PERIOD, Event::Halt(self.number));
        }
    }

    /// Signals its process group.
    fn signal(&self, signal: Signal) {
        // Fails if no process is left, which is the goal.
        let _ = self.group.map(|group| killpg(group, signal));
    }

    /// Whether it, or a process that it started, still runs.
    fn is_left(&self) -> bool {
        let Some(group) = self.group else { return false };
        if self.running.is_some() {
            return true;
        }
        // Orphaned processes become children of this program, the init process.
        let orphans = Pid::from_raw(-group.as_raw());
        while waitpid(orphans, Some(WaitPidFlag::WNOHANG)).is_ok_and(|state| state != WaitStatus::StillAlive)
        {
        }
        killpg(group, None).is_ok()
    }

    /// Returns its exit status if it has exited.
    pub(super) fn collect(
        &mut self,
        now: Duration,
        events: &mut Events,
    ) -> Result<Option<ProgramEnd>, Failure> {
        let Some((child, _)) = &mut self.running else { return Ok(None) };
        let status = child.try_wait().map_err(|error| self.failed("be monitored", error))?;
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

/// Returns a descriptor that becomes readable when a process exits.
fn descriptor(process: Pid) -> io::Result<OwnedFd> {
    // SAFETY: takes no pointers.
    let number = unsafe { libc::syscall(libc::SYS_pidfd_open, process.as_raw(), 0) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor has just been opened, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(number as i32) })
}

/// Limits the size of files that this process writes to [`MAX_OUTPUT`].
fn limit_files() -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: MAX_OUTPUT, rlim_max: MAX_OUTPUT };
    // SAFETY: the limit outlives the call, which only reads it.
    let result = unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

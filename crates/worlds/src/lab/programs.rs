//! The programs of a scenario in the nodes of a lab: starts and stops them, and collects their exit status.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration as Span, Instant as Clock};

use crate::error::{Error, bail};
use anyhow::Context as _;
use headway_lab::Lab;
use headway_record::ProgramResult;
use headway_scenario::{ProgramSpec, Scenario};
use headway_uml::run_dir::{self, RunDir};
use headway_units::Duration;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::controllers::Controllers;
use super::translate::Translated;
use crate::outcome::RunFiles;
use crate::{process, uml};

/// Time from SIGTERM to SIGKILL.
const TERMINATION_TIMEOUT: Span = Span::from_secs(1);
/// Poll interval for a program that was asked to stop.
const POLL_INTERVAL: Span = Span::from_millis(10);
/// Largest file that a program may write: one that prints forever must not fill the disk.
const MAX_OUTPUT: u64 = 1 << 30;

/// The programs of a run.
pub(super) struct Programs<'a> {
    scenario: &'a Scenario,
    /// Holds the files that programs write and a hosts file with the node names; `None` without programs.
    folder: Option<RunDir>,
    programs: Vec<Program>,
}

/// A program before, during and after its run.
struct Program {
    command: Command,
    running: Option<Child>,
    ended: Option<(Duration, ExitStatus)>,
    stopped: bool,
}

impl<'a> Programs<'a> {
    /// Prepares all programs without starting any.
    pub(super) fn new(
        scenario: &'a Scenario,
        translated: &Translated,
        controllers: &Controllers,
        lab: &Lab,
    ) -> Result<Programs<'a>, Error> {
        if scenario.program.is_empty() {
            return Ok(Programs { scenario, folder: None, programs: Vec::new() });
        }
        let folder = run_dir::folder(&uml::cache()?).context("cannot write into the cache")?;
        let hosts = folder.path().join("hosts");
        let mut lines = "127.0.0.1 localhost\n".to_owned();
        for (name, node) in translated.hosts() {
            lines += &line(lab.v4(node)?, name);
        }
        std::fs::write(&hosts, lines).context("cannot write the names of nodes")?;
        let mut programs = Vec::new();
        for (number, spec) in scenario.program.iter().enumerate() {
            let node = translated.node(&spec.at);
            if let Some(controller) = controllers.of_program(number) {
                set_controller(lab, node, controller)?;
            }
            let command = command(scenario, spec, lab, node, &hosts, &output_names(number), folder.path())?;
            programs.push(Program { command, running: None, ended: None, stopped: false });
        }
        Ok(Programs { scenario, folder: Some(folder), programs })
    }

    /// Starts and stops the programs due at time `at` of the scenario, and returns the time of the next such
    /// event.
    pub(super) fn run_due(&mut self, at: Duration) -> Result<Option<Duration>, Error> {
        let mut next: Option<Duration> = None;
        for (program, spec) in self.programs.iter_mut().zip(&self.scenario.program) {
            program.poll(at)?;
            if !program.has_begun() && spec.start <= at {
                program.start(spec)?;
            } else if spec.stop.is_some_and(|stop| stop <= at) {
                program.end(at)?;
            }
            let start = (!program.has_begun()).then_some(spec.start);
            let stop = spec.stop.filter(|stop| program.running.is_some() && *stop > at);
            next = next.into_iter().chain(start).chain(stop).min();
        }
        Ok(next)
    }

    /// Stops all running programs at the same time.
    pub(super) fn end(&mut self, at: Duration) -> Result<(), Error> {
        for program in &mut self.programs {
            program.poll(at)?;
            program.terminate();
        }
        for program in &mut self.programs {
            program.end(at)?;
        }
        Ok(())
    }

    /// Returns the results of all programs, and their files.
    pub(super) fn finish(self) -> (Vec<ProgramResult>, Option<RunFiles>) {
        let ns = |time: Duration| time.ns().unsigned_abs();
        let results = self.programs.iter().zip(&self.scenario.program).enumerate();
        let results = results.map(|(number, (program, spec))| ProgramResult {
            program: number as u64,
            at: spec.at.clone(),
            command: spec.command.clone(),
            started_ns: ns(spec.start),
            ended_ns: program.ended.map(|(at, _)| ns(at)),
            exit_status: program.ended.and_then(|(_, status)| status.code()),
            signal: program.ended.and_then(|(_, status)| status.signal()),
            stopped: program.stopped,
        });
        let results = results.collect();
        let names: Vec<String> = (0..self.programs.len()).flat_map(output_names).collect();
        let files = self.folder.map(|folder| RunFiles { folder, names });
        (results, files)
    }
}

impl Program {
    fn has_begun(&self) -> bool {
        self.running.is_some() || self.ended.is_some()
    }

    fn start(&mut self, spec: &ProgramSpec) -> Result<(), Error> {
        let child = self.command.spawn().with_context(|| format!("cannot start `{}`", spec.command))?;
        self.running = Some(child);
        Ok(())
    }

    /// Reaps the program if it has exited.
    fn poll(&mut self, at: Duration) -> io::Result<()> {
        if let Some(child) = &mut self.running
            && let Some(status) = child.try_wait()?
        {
            self.ended = Some((at, status));
            self.running = None;
        }
        Ok(())
    }

    /// Sends SIGTERM to the program and everything it started.
    fn terminate(&mut self) {
        if let Some(child) = &self.running {
            self.stopped = true;
            // It may exit at this very moment.
            let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
        }
    }

    /// Stops the program, by force if it does not stop when asked.
    fn end(&mut self, at: Duration) -> io::Result<()> {
        if !self.stopped {
            self.terminate();
        }
        let deadline = Clock::now() + TERMINATION_TIMEOUT;
        while self.running.is_some() && Clock::now() < deadline {
            self.poll(at)?;
            std::thread::sleep(POLL_INTERVAL);
        }
        if let Some(mut child) = self.running.take() {
            let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            self.ended = Some((at, child.wait()?));
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // After an error the program may still run.
        if let Some(mut child) = self.running.take() {
            let _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
            let _ = child.wait();
        }
    }
}

/// Returns the names of the files for a program's standard output and standard error.
fn output_names(number: usize) -> [String; 2] {
    [format!("program-{number}.out"), format!("program-{number}.err")]
}

fn line(address: Ipv4Addr, name: &str) -> String {
    format!("{address} {name}\n")
}

/// Sets the default congestion controller of a node.
fn set_controller(lab: &Lab, node: &str, controller: &str) -> Result<(), Error> {
    let script = format!("echo {controller} > /proc/sys/net/ipv4/tcp_congestion_control");
    let status = lab.command(node, "/bin/sh", ["-c", &script])?.stderr(Stdio::null()).status()?;
    if !status.success() {
        bail!(
            "this kernel does not have the congestion controller `{controller}`, or restricts it to privileged processes"
        );
    }
    Ok(())
}

fn command(
    scenario: &Scenario,
    spec: &ProgramSpec,
    lab: &Lab,
    node: &str,
    hosts: &Path,
    outputs: &[String; 2],
    folder: &Path,
) -> Result<Command, Error> {
    let mut command = lab.command(node, "/bin/sh", ["-c", &spec.command])?;
    let place =
        if scenario.folder.as_os_str().is_empty() { PathBuf::from(".") } else { scenario.folder.clone() };
    let [out, err] = outputs;
    let file =
        |name: &String| File::create(folder.join(name)).with_context(|| format!("cannot write {name}"));
    command.current_dir(place).stdin(Stdio::null()).stdout(file(out)?).stderr(file(err)?);
    process::die_with_parent(&mut command);
    let hosts = CString::new(hosts.as_os_str().as_bytes())?;
    let prepare = move || {
        let limit = libc::rlimit { rlim_cur: MAX_OUTPUT, rlim_max: MAX_OUTPUT };
        // SAFETY: the structure is valid. The program can run without the limit if it is refused.
        unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) };
        // A private mount namespace, so that only this program sees the hosts file of the nodes.
        unshare(CloneFlags::CLONE_NEWNS)?;
        let none = None::<&str>;
        mount(none, c"/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)?;
        mount(Some(hosts.as_c_str()), c"/etc/hosts", none, MsFlags::MS_BIND, none)?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure only makes plain system calls with prepared arguments.
    unsafe { command.pre_exec(prepare) };
    Ok(command)
}

//! A guest from the host's side: starts it, watches it, and ends it in every case.

mod console;

pub use console::ConsoleTail;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration as Span, Instant as Clock};

use headway_scenario::MiddleboxEnd;
use headway_units::{Bytes, Duration};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::core::{self, Core};
use crate::guest::{FOLDER, PLAN, PROGRAM, REPORT, SIGN};
use crate::plan::Plan;
use crate::report::{Control, End, Line, ProgramEnd, Snapshot};
use console::Console;

/// The start of every run on the guest's clock: 2026-01-01 00:00 UTC, in ns.
const DATE: &str = "1767225600000000000";
/// How often to check on the guest.
const TICK: Span = Span::from_millis(20);
/// How long a kernel may go on after its checks have found something, to finish the report.
const SETTLE: Span = Span::from_millis(200);
/// Memory for the kernel's checks: double that of a guest without checks, plus this.
const CHECK_MEMORY: Bytes = Bytes::new(256 << 20);

/// Why a guest produced no results.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The kernel's file cannot be run, or files for the guest cannot be written.
    #[error("cannot start the kernel: {0}")]
    Start(#[from] std::io::Error),
    /// The program in the guest reported an error.
    #[error("the run in the kernel failed: {0}")]
    Failed(String),
    /// Virtual time stood still for too long.
    #[error("the kernel hung: virtual time stood at {at} for {waited:?}{tail}")]
    Hung {
        /// The virtual time at which it stopped.
        at: Duration,
        /// How long it stood still, in real time.
        waited: Span,
        /// The last console output.
        tail: ConsoleTail,
    },
    /// The guest exited before the end of the run.
    #[error("the kernel ended at {at} of virtual time ({status}){tail}")]
    Died {
        /// The virtual time at which it exited.
        at: Duration,
        /// Its exit status.
        status: String,
        /// The last console output.
        tail: ConsoleTail,
    },
    /// The kernel's checks found a bug after which the kernel would have gone on.
    #[error("the kernel's checks reported a bug at {at} of virtual time{tail}")]
    CheckFailed {
        /// The virtual time.
        at: Duration,
        /// The kernel's report.
        tail: ConsoleTail,
    },
    /// The report cannot be parsed.
    #[error("line {line} of the report is damaged ({reason}){tail}")]
    BadReport {
        /// The line, from 1.
        line: usize,
        /// The parse error.
        reason: String,
        /// The last console output.
        tail: ConsoleTail,
    },
}

/// How to run a guest.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel.
    pub kernel: PathBuf,
    /// The program that calls [`crate::guest::main`].
    pub program: PathBuf,
    /// Arguments of `program`, passed on the kernel's command line.
    pub arguments: Vec<String>,
    /// Memory of the guest; the host allocates only what the guest uses.
    pub memory: Bytes,
    /// Seed of the kernel's random numbers.
    pub seed: u64,
    /// How long virtual time may stand still before the guest counts as hung, in real time.
    pub stall_timeout: Span,
    /// Whether the kernel checks itself; a finding then ends the run.
    pub checks: bool,
}

/// The report of a guest.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// All snapshots, ascending in time.
    pub snapshots: Vec<Snapshot>,
    /// Exits of programs, in order.
    pub programs: Vec<ProgramEnd>,
    /// Control intervals of routers, in order for each direction; none if the run was interrupted.
    pub control: Vec<Control>,
    /// What has passed middleboxes; none if the run was interrupted.
    pub middleboxes: Vec<MiddleboxEnd>,
    /// The last line; `None` if the run was interrupted.
    pub end: Option<End>,
}

impl Machine {
    /// Runs a plan in a guest; calls `progress` with the virtual time as it advances.
    ///
    /// Output files of the plan are then in its folder. No process is left behind, whatever happens.
    ///
    /// # Errors
    /// If the guest fails, hangs, exits early, or writes a report that cannot be parsed.
    pub fn run(
        &self,
        plan: &Plan,
        interrupted: &AtomicBool,
        mut progress: impl FnMut(Duration),
    ) -> Result<Report, GuestError> {
        std::fs::write(plan.folder.join(PLAN), serde_json::to_vec(plan).map_err(std::io::Error::from)?)?;
        std::os::unix::fs::symlink(&self.program, plan.folder.join(PROGRAM))?;
        let mut guest = Guest::start(self, &plan.folder)?;
        let mut last = (None, Clock::now());
        let status = loop {
            let at = guest.console.at();
            if at > last.0 {
                last = (at, Clock::now());
                at.into_iter().for_each(&mut progress);
            }
            if let Some(status) = guest.child.try_wait()? {
                break Some(status);
            }
            let found = self.checks && guest.console.found().is_some_and(|since| since.elapsed() > SETTLE);
            if found || interrupted.load(Ordering::Relaxed) {
                break None;
            }
            if last.1.elapsed() > self.stall_timeout {
                let tail = guest.end();
                return Err(GuestError::Hung {
                    at: last.0.unwrap_or_default(),
                    waited: self.stall_timeout,
                    tail,
                });
            }
            thread::sleep(TICK);
        };
        let tail = guest.end();
        let report = read(&plan.folder.join(REPORT), &tail)?;
        let at = guest.console.at().unwrap_or_default();
        match status {
            Some(status) if report.end.is_none() => {
                Err(GuestError::Died { at, status: status.to_string(), tail })
            }
            _ if self.checks && guest.console.found().is_some() => Err(GuestError::CheckFailed { at, tail }),
            _ => Ok(report),
        }
    }

    fn command(&self, folder: &Path, core: Option<usize>) -> Command {
        let mut command = Command::new(&self.kernel);
        // Findings that are only warnings end the run like errors, and both are printed.
        let (memory, checks) = match self.checks {
            true => (self.memory * 2 + CHECK_MEMORY, ["loglevel=5", "panic_on_warn=1"].as_slice()),
            false => (self.memory, ["quiet"].as_slice()),
        };
        command
            .arg(format!("mem={}M", memory.get() >> 20))
            .args(["rootfstype=hostfs", "rootflags=/", "ro"])
            .arg(format!("init={FOLDER}/{PROGRAM}"))
            .args(["con=null", "con0=fd:0,fd:1"])
            .args(checks)
            .args(["panic=-1", "oops=panic"])
            .args(["time-travel=inf-cpu", &format!("time-travel-start={DATE}")])
            .arg(format!("uml_dir={FOLDER}/"))
            .args(&self.arguments)
            .arg(format!("{SIGN}=1"));
        command.env_clear().env("UML_SEED", self.seed.to_string()).current_dir(folder).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let parent = Pid::this();
        // SAFETY: only system calls are made between fork and exec; they touch no memory of others.
        unsafe {
            command.pre_exec(move || {
                nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
                // The parent may have died before the prctl took effect.
                if nix::unistd::getppid() != parent {
                    return Err(std::io::ErrorKind::Interrupted.into());
                }
                fix_addresses();
                core.map_or(Ok(()), core::pin)
            });
        }
        command
    }
}

/// Switches off address randomization for the program that this process executes next.
///
/// The guest's kernel keeps page descriptors for the gap between its program and its heap, which would
/// otherwise be random, up to 1 GB. A container may refuse the call; the guest then only starts more slowly.
fn fix_addresses() {
    /// Asks for the current persona without changing it.
    const QUERY: libc::c_ulong = 0xffff_ffff;
    // SAFETY: both calls only read or write flags of this process.
    unsafe {
        let persona = libc::personality(QUERY);
        if persona >= 0 {
            libc::personality((persona | libc::ADDR_NO_RANDOMIZE) as libc::c_ulong);
        }
    }
}

/// A running guest.
struct Guest {
    /// The CPU reserved for it while it runs.
    _core: Option<Core>,
    child: Child,
    console: Arc<Console>,
    readers: Vec<thread::JoinHandle<()>>,
}

impl Guest {
    fn start(machine: &Machine, folder: &Path) -> std::io::Result<Guest> {
        let core = Core::free();
        let mut child = machine.command(folder, core.as_ref().map(|core| core.number)).spawn()?;
        let console = Arc::new(Console::default());
        let outputs: [Option<Box<dyn Read + Send>>; 2] = [
            child.stdout.take().map(|output| Box::new(output) as _),
            child.stderr.take().map(|output| Box::new(output) as _),
        ];
        let listen = |output: Box<dyn Read + Send>| {
            let console = Arc::clone(&console);
            thread::spawn(move || console.listen(BufReader::new(output)))
        };
        let readers = outputs.into_iter().flatten().map(listen).collect();
        Ok(Guest { _core: core, child, console, readers })
    }

    /// Kills the guest if it is still running, and returns its last console output.
    fn end(&mut self) -> ConsoleTail {
        self.kill();
        for reader in self.readers.drain(..) {
            // Readers do not panic; if one did, fewer lines would be known.
            let _ = reader.join();
        }
        self.console.tail()
    }

    /// Kills the kernel and the processes in which it runs programs; they are one process group.
    fn kill(&mut self) {
        // Both fail only if no process is left.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads a report and ignores a last line cut off by an interruption.
fn read(path: &Path, tail: &ConsoleTail) -> Result<Report, GuestError> {
    let mut report = Report::default();
    let Ok(file) = File::open(path) else { return Ok(report) };
    let lines = BufReader::new(file).split(b'\n');
    for (index, bytes) in lines.enumerate() {
        let bytes = bytes?;
        match serde_json::from_slice(&bytes) {
            Ok(Line::Snapshot(snapshot)) => report.snapshots.push(snapshot),
            Ok(Line::Program(end)) => report.programs.push(end),
            Ok(Line::Control(control)) => report.control.push(control),
            Ok(Line::Middlebox(end)) => report.middleboxes.push(end),
            Ok(Line::End(end)) => report.end = Some(end),
            Ok(Line::Failed(sentence)) => return Err(GuestError::Failed(sentence)),
            Err(error) if error.is_eof() => break,
            Err(error) => {
                let reason = error.to_string();
                return Err(GuestError::BadReport { line: index + 1, reason, tail: tail.clone() });
            }
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs this shell script as the kernel, in the folder of the report.
    fn run(script: &str) -> Result<Report, GuestError> {
        run_with(script, false)
    }

    /// As [`run`], for a kernel that may have checks.
    fn run_with(script: &str, checks: bool) -> Result<Report, GuestError> {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("kernel");
        let text = folder.path().join("text");
        std::fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
        // Another process writes what is run: a child of a test beside this one would keep a file of ours
        // open for writing, and nobody could run that.
        let installed = Command::new("install").args(["-m", "755"]).args([&text, &kernel]).status().unwrap();
        assert!(installed.success());
        let machine = Machine {
            kernel,
            program: "/bin/true".into(),
            arguments: Vec::new(),
            memory: Bytes::new(1 << 28),
            seed: 1,
            stall_timeout: Span::from_secs(2),
            checks,
        };
        let plan = Plan { folder: folder.path().to_owned(), ..Plan::default() };
        machine.run(&plan, &AtomicBool::new(false), |_| ())
    }

    fn complaint(script: &str) -> String {
        run(script).unwrap_err().to_string()
    }

    #[test]
    fn a_report_with_an_end_is_a_result() {
        let report = run(r#"echo '{"end":{"waits":[[[3,1]]]}}' > report.jsonl"#).unwrap();
        assert_eq!(report.end, Some(End { waits: vec![vec![(3, 1)]] }));
    }

    #[test]
    fn a_kernel_that_dies_is_quoted_without_its_noise() {
        let words = "Using a channel type which is configured out\\nKernel panic - not syncing: test\\n [<6051680d>] ? panic+0x143";
        let complaint = complaint(&format!("echo 'headway: at 1500000000'; printf '{words}\\n' >&2; exit 3"));
        assert!(complaint.contains("ended at 1.50 s of virtual time (exit status: 3)"), "{complaint}");
        assert!(
            complaint.ends_with("last console output:\n  Kernel panic - not syncing: test"),
            "{complaint}"
        );
    }

    #[test]
    fn a_guest_starts_without_address_randomization_where_that_is_allowed() {
        // A word before the number, because the console drops lines of numbers.
        let show = "echo persona $(cat /proc/self/personality)";
        let allowed = Command::new("setarch").args(["-R", "sh", "-c", show]).output();
        let Some(fixed) = allowed.ok().filter(|output| output.status.success()) else { return };
        let fixed = String::from_utf8(fixed.stdout).unwrap();
        let complaint = complaint(&format!("{show} >&2; exit 1"));
        assert!(complaint.ends_with(fixed.trim_end()), "{complaint} instead of {fixed}");
    }

    #[test]
    fn a_kernel_that_hangs_is_ended() {
        let begin = Clock::now();
        let complaint = complaint("echo 'headway: at 5'; sleep 600 & echo $! > pid; sleep 600");
        assert!(complaint.contains("virtual time stood at 5 ns"), "{complaint}");
        assert!(begin.elapsed() < Span::from_secs(60));
    }

    #[test]
    fn what_checks_find_ends_a_run_and_is_told_with_its_trace() {
        let end = r#"echo '{"end":{"waits":[]}}' > report.jsonl"#;
        let lines = "[ 0.1] WARNING: possible recursive locking detected\\n[ 0.1] Stack:\\n\
                     [ 0.1]  00000001 6cd175d0\\n[ 0.1]  [<6051680d>] ? begin+0x14";
        let script = format!("echo 'headway: at 7'; printf 'before\\n{lines}\\n'; {end}");
        assert!(run_with(&script, false).is_ok());
        for script in [script.clone(), format!("{script}; sleep 600")] {
            let complaint = run_with(&script, true).unwrap_err().to_string();
            let expected = "the kernel's checks reported a bug at 7 ns of virtual time; last console output:\n  \
                            [ 0.1] WARNING: possible recursive locking detected\n  \
                            [ 0.1]  [<6051680d>] ? begin+0x14";
            assert_eq!(complaint, expected);
        }
        assert!(run_with(end, true).is_ok());
    }

    #[test]
    fn a_guest_says_itself_what_was_wrong() {
        let complaint = complaint(r#"echo '{"failed":"`tc` is missing"}' > report.jsonl"#);
        assert_eq!(complaint, "the run in the kernel failed: `tc` is missing");
    }

    #[test]
    fn garbage_is_called_garbage() {
        let complaint = complaint("printf '{\"look\": 17}\\n' > report.jsonl");
        assert!(complaint.starts_with("line 1 of the report is damaged"), "{complaint}");
        let endless = self::complaint("head -c 3000000 /dev/zero | tr '\\0' 'x'; exit 1");
        assert!(endless.len() < 5000, "{}", endless.len());
    }

    #[test]
    fn an_end_without_a_report_is_no_result() {
        assert!(matches!(run("exit 0"), Err(GuestError::Died { .. })));
    }
}

//! A guest from the host's side: started, watched, and ended whatever happens.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration as Span, Instant as Clock};

use headway_core::{Bytes, Duration};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::core::{self, Core};
use crate::guest::{FOLDER, PLAN, PROGRAM, PROGRESS, REPORT, SIGN};
use crate::plan::Plan;
use crate::report::{End, Line, Look, ProgramEnd};

/// Date of every run on the guest's clock, 2026-01-01 00:00 UTC, ns.
const DATE: &str = "1767225600000000000";
/// How often the guest is looked at.
const TICK: Span = Span::from_millis(20);
/// Lines of the console that are kept, and bytes of each.
const LAST_WORDS: usize = 12;
/// See [`LAST_WORDS`].
const LINE: usize = 300;
/// How a kernel with checks begins to tell what it found, and lines that are kept from there on.
const FINDINGS: [&str; 3] = ["BUG: ", "WARNING: ", "UBSAN: "];
/// See [`FINDINGS`].
const FINDING_LINES: usize = 40;
/// How long a kernel that has found something may go on, so that all of it is told.
const SETTLE: Span = Span::from_millis(200);
/// What checks need beside the memory of a guest without: as much again, and this.
const CHECK_MEMORY: Bytes = Bytes::new(256 << 20);
/// Parts of lines that every start prints, and of a trace, which pushes the sentence before it away.
const NOISE: [&str; 6] = [
    "Failed to initialize ubd device",
    "a channel type",
    "channel pair",
    "Core dump limits",
    "[<",
    "Call Trace:",
];

/// Why a guest gave no results.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The kernel's file cannot be run, or files for the guest cannot be written.
    #[error("cannot start the kernel: {0}")]
    Start(#[from] std::io::Error),
    /// The program in the guest says what was wrong.
    #[error("the run in the kernel failed: {0}")]
    Failed(String),
    /// Virtual time stood still for too long.
    #[error("the kernel hung: virtual time stood at {at} for {waited:?}{words}")]
    Hung {
        /// Where virtual time stood.
        at: Duration,
        /// How long that was waited for, in real time.
        waited: Span,
        /// What the console said last.
        words: Words,
    },
    /// The guest ended before its time.
    #[error("the kernel ended at {at} of virtual time ({status}){words}")]
    Died {
        /// When.
        at: Duration,
        /// How it ended.
        status: String,
        /// What the console said last.
        words: Words,
    },
    /// The kernel's checks found a mistake, and the kernel would have gone on.
    #[error("the kernel found a mistake at {at} of virtual time{words}")]
    Found {
        /// When.
        at: Duration,
        /// What it found.
        words: Words,
    },
    /// The report cannot be understood.
    #[error("line {line} of the report is damaged ({reason}){words}")]
    Garbage {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
        /// What the console said last.
        words: Words,
    },
}

/// The last lines of a console.
#[derive(Clone, Debug, Default)]
pub struct Words(VecDeque<String>);

impl std::fmt::Display for Words {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, "; its last words:")?;
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

/// How to run a guest.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The kernel.
    pub kernel: PathBuf,
    /// The program that calls [`crate::guest::main`], and its arguments before the folder.
    pub program: PathBuf,
    /// See `program`.
    pub arguments: Vec<String>,
    /// Memory of the guest; only what is used is taken.
    pub memory: Bytes,
    /// Seed of the kernel's random numbers.
    pub seed: u64,
    /// How long virtual time may stand still, in real time.
    pub patience: Span,
    /// Whether the kernel checks itself; what it finds then ends the run.
    pub checks: bool,
}

/// What a guest reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// All looks, ascending.
    pub looks: Vec<Look>,
    /// Programs that have ended, in that order.
    pub programs: Vec<ProgramEnd>,
    /// The end; `None` when the run was interrupted.
    pub end: Option<End>,
}

impl Machine {
    /// Lets a guest do a plan; `progress` hears of virtual time.
    ///
    /// Files that the plan wants lie in its folder afterwards. No process is left, whatever happens.
    ///
    /// # Errors
    /// When the guest fails, hangs, dies or writes what cannot be understood.
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
            if last.1.elapsed() > self.patience {
                let words = guest.end();
                return Err(GuestError::Hung {
                    at: last.0.unwrap_or_default(),
                    waited: self.patience,
                    words,
                });
            }
            thread::sleep(TICK);
        };
        let words = guest.end();
        let report = read(&plan.folder.join(REPORT), &words)?;
        let at = guest.console.at().unwrap_or_default();
        match status {
            Some(status) if report.end.is_none() => {
                Err(GuestError::Died { at, status: status.to_string(), words })
            }
            _ if self.checks && guest.console.found().is_some() => Err(GuestError::Found { at, words }),
            _ => Ok(report),
        }
    }

    fn command(&self, folder: &Path, core: Option<usize>) -> Command {
        let mut command = Command::new(&self.kernel);
        // Findings that are warnings are as deadly as those that are errors, and both are shown.
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
        // SAFETY: between fork and exec only system calls are made, which touch no memory of others.
        unsafe {
            command.pre_exec(move || {
                nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
                // The parent may have died before the line above.
                if nix::unistd::getppid() != parent {
                    return Err(std::io::ErrorKind::Interrupted.into());
                }
                core.map_or(Ok(()), core::pin)
            });
        }
        command
    }
}

/// A guest that runs.
struct Guest {
    /// The core that is its own as long as it runs.
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

    /// Ends the guest if it has not ended, and returns what it said last.
    fn end(&mut self) -> Words {
        self.kill();
        for reader in self.readers.drain(..) {
            // A reader has nothing to panic about; if it did, fewer words are known.
            let _ = reader.join();
        }
        self.console.words()
    }

    /// The kernel and the processes by which it runs programs are a group of their own.
    fn kill(&mut self) {
        // Both fail only when nothing is left.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

/// What a guest says.
#[derive(Debug, Default)]
struct Console {
    heard: Mutex<Heard>,
}

/// See [`Console`].
#[derive(Debug, Default)]
struct Heard {
    /// Virtual time.
    at: Option<Duration>,
    /// The last lines; after a finding, those that are not in it.
    last: VecDeque<String>,
    /// When the first finding began, in real time, and its first lines, with the trace.
    found: Option<(Clock, VecDeque<String>)>,
}

impl Console {
    fn listen(&self, mut output: impl BufRead) {
        let mut line = Vec::new();
        // A line without an end must not fill the memory.
        while let Ok(length) = (&mut output).take(LINE as u64 * 8).read_until(b'\n', &mut line)
            && length > 0
        {
            let text = String::from_utf8_lossy(&line).trim_end().chars().take(LINE).collect::<String>();
            line.clear();
            self.hear(text);
        }
    }

    fn hear(&self, text: String) {
        let Ok(mut heard) = self.heard.lock() else { return };
        let at = text.strip_prefix(PROGRESS).and_then(|ns| ns.parse().ok());
        if let Some(ns) = at {
            heard.at = Some(Duration::from_ns(ns));
            return;
        }
        if heard.found.is_none() && FINDINGS.iter().any(|begin| text.contains(begin)) {
            heard.found = Some((Clock::now(), VecDeque::new()));
            heard.last.clear();
        }
        if let Some((_, lines)) = &mut heard.found
            && lines.len() < FINDING_LINES
        {
            lines.extend((!is_dump(&text)).then_some(text));
        } else if !text.is_empty() && !is_noise(&text) {
            heard.last.push_back(text);
            if heard.last.len() > LAST_WORDS {
                heard.last.pop_front();
            }
        }
    }

    fn at(&self) -> Option<Duration> {
        self.heard.lock().ok()?.at
    }

    /// When the kernel began to tell of a finding.
    fn found(&self) -> Option<Clock> {
        self.heard.lock().ok()?.found.as_ref().map(|(since, _)| *since)
    }

    fn words(&self) -> Words {
        let Ok(heard) = self.heard.lock() else { return Words::default() };
        let found = heard.found.iter().flat_map(|(_, lines)| lines);
        Words(found.chain(&heard.last).cloned().collect())
    }
}

fn is_noise(text: &str) -> bool {
    NOISE.iter().any(|noise| text.contains(noise)) || is_dump(text)
}

/// Whether a line, after the time that some kernels put before it, is a part of the stack as numbers, or nothing.
fn is_dump(text: &str) -> bool {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let stamped = text.trim_start_matches(|c: char| "<>".contains(c) || c.is_ascii_digit());
    let text = stamped.strip_prefix('[').and_then(|rest| rest.split_once(']')).map_or(text, |(_, rest)| rest);
    text.trim() == "Stack:" || text.split(' ').all(is_number)
}

/// Reads a report; what an interruption cut off is left out.
fn read(path: &Path, words: &Words) -> Result<Report, GuestError> {
    let mut report = Report::default();
    let Ok(file) = File::open(path) else { return Ok(report) };
    let lines = BufReader::new(file).split(b'\n');
    for (index, bytes) in lines.enumerate() {
        let bytes = bytes?;
        match serde_json::from_slice(&bytes) {
            Ok(Line::Look(look)) => report.looks.push(look),
            Ok(Line::Program(end)) => report.programs.push(end),
            Ok(Line::End(end)) => report.end = Some(end),
            Ok(Line::Failed(sentence)) => return Err(GuestError::Failed(sentence)),
            Err(error) if error.is_eof() => break,
            Err(error) => {
                let reason = error.to_string();
                return Err(GuestError::Garbage { line: index + 1, reason, words: words.clone() });
            }
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// What comes of a kernel that is this shell script, run in the folder of the report.
    fn run(script: &str) -> Result<Report, GuestError> {
        run_with(script, false)
    }

    /// The same for a kernel that may have checks.
    fn run_with(script: &str, checks: bool) -> Result<Report, GuestError> {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("kernel");
        std::fs::write(&kernel, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&kernel, std::fs::Permissions::from_mode(0o755)).unwrap();
        let machine = Machine {
            kernel,
            program: "/bin/true".into(),
            arguments: Vec::new(),
            memory: Bytes::new(1 << 28),
            seed: 1,
            patience: Span::from_millis(300),
            checks,
        };
        let plan = Plan {
            folder: folder.path().to_owned(),
            modules: Vec::new(),
            nodes: Vec::new(),
            wires: Vec::new(),
            directions: Vec::new(),
            flows: Vec::new(),
            sources: Vec::new(),
            programs: Vec::new(),
            hosts: Vec::new(),
            send_buffer: 0,
            lead: Duration::ZERO,
            warmup: Duration::ZERO,
            looks: Vec::new(),
            offloads: false,
        };
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
        assert!(complaint.ends_with("last words:\n  Kernel panic - not syncing: test"), "{complaint}");
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
            let expected = "the kernel found a mistake at 7 ns of virtual time; its last words:\n  \
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

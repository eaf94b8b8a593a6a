//! Runs child processes: reads their output line by line, and ends them with this process or on interruption.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::BuildError;

/// How often to check for interruption while a child prints nothing.
const TICK: Duration = Duration::from_millis(100);
/// How long children may take to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// Most lines of a failed program that an error shows.
const SHOWN: usize = 5;

/// Runs programs one after the other, logs their output, and ends them on interruption.
pub(super) struct Runner<'a> {
    log: Option<File>,
    interrupted: &'a AtomicBool,
}

/// The result of a program that has exited.
pub(super) struct Ended {
    pub(super) success: bool,
    lines: Vec<String>,
}

impl<'a> Runner<'a> {
    /// Creates a runner that writes all output to `log`.
    pub(super) fn new(log: &Path, interrupted: &'a AtomicBool) -> Result<Runner<'a>, BuildError> {
        let file = File::create(log).map_err(BuildError::file("write", log))?;
        Ok(Runner { log: Some(file), interrupted })
    }

    /// Creates a runner that keeps output in memory only.
    pub(super) fn without_log(interrupted: &'a AtomicBool) -> Runner<'a> {
        Runner { log: None, interrupted }
    }

    /// Runs `command` to its end. Calls `heard` with every line, and with `None` every 100 ms without output.
    pub(super) fn run(
        &mut self,
        mut command: Command,
        heard: &mut dyn FnMut(Option<&str>),
    ) -> Result<Ended, BuildError> {
        self.stop_if_interrupted()?;
        let program = command.get_program().to_string_lossy().into_owned();
        let starting = |reason| BuildError::Start { program: program.clone(), reason };
        let (output, into) = std::io::pipe().map_err(&starting)?;
        let errors = into.try_clone().map_err(&starting)?;
        command.stdin(Stdio::null()).stdout(into).stderr(errors).process_group(0);
        let mut child = die_with_us(&mut command).spawn().map_err(&starting)?;
        // The command holds the write end of the pipe, which must be closed when the child exits.
        drop(command);
        let (tell, lines_of) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                if tell.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    break;
                }
            }
        });
        let mut lines = Vec::new();
        loop {
            if self.stop_if_interrupted().is_err() {
                end(&mut child);
                return Err(BuildError::Interrupted);
            }
            match lines_of.recv_timeout(TICK) {
                Ok(line) => {
                    if let Some(log) = &mut self.log {
                        // A log that cannot be written is no reason to stop.
                        let _ = writeln!(log, "{line}");
                    }
                    heard(Some(&line));
                    lines.push(line);
                }
                Err(RecvTimeoutError::Timeout) => heard(None),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = child.wait().map_err(starting)?;
        Ok(Ended { success: status.success(), lines })
    }

    pub(super) fn stop_if_interrupted(&self) -> Result<(), BuildError> {
        if self.interrupted.load(Ordering::Relaxed) { Err(BuildError::Interrupted) } else { Ok(()) }
    }
}

impl Ended {
    /// All lines of output.
    pub(super) fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Returns the last non-empty line, for an error message.
    pub(super) fn last(&self) -> String {
        let spoken = self.lines.iter().rev().map(|line| line.trim()).find(|line| !line.is_empty());
        spoken.unwrap_or("no output").trim_end_matches('.').to_owned()
    }

    /// Returns the first compiler errors, else the first errors of `make`, else the last lines.
    pub(super) fn errors(&self) -> String {
        let with = |signs: &[&str]| -> Vec<_> {
            let lines = self.lines.iter().filter(|line| signs.iter().any(|sign| line.contains(sign)));
            lines.take(SHOWN).collect()
        };
        let mut shown = with(&["error:", "ERROR:", "undefined reference", "No space left"]);
        if shown.is_empty() {
            shown = with(&["***"]);
        }
        if shown.is_empty() {
            shown = self.lines.iter().skip(self.lines.len().saturating_sub(SHOWN)).collect();
        }
        shown.into_iter().map(|line| format!("  {}", line.trim_end())).collect::<Vec<_>>().join("\n")
    }
}

/// Returns a command in `folder` that does not depend on the locale or on an outer `make`.
pub(super) fn program(name: impl AsRef<OsStr>, folder: &Path) -> Command {
    let mut command = Command::new(name);
    command.current_dir(folder).env("LC_ALL", "C");
    for (key, _) in std::env::vars_os() {
        let text = key.to_string_lossy();
        let steers_kernel = ["KBUILD_", "KCONFIG_", "MAKE"].iter().any(|prefix| text.starts_with(prefix));
        let others = [
            "MFLAGS",
            "GNUMAKEFLAGS",
            "KCFLAGS",
            "KCPPFLAGS",
            "KAFLAGS",
            "LOCALVERSION",
            "ARCH",
            "SUBARCH",
            "LLVM",
        ];
        if steers_kernel
            || others.contains(&&*text)
            || ["CROSS_COMPILE", "V", "O", "M", "C", "W"].contains(&&*text)
        {
            command.env_remove(&key);
        }
    }
    command
}

/// Makes the kernel send SIGTERM to the child when this process dies.
fn die_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: only one system call is made between fork and exec, and it allocates nothing.
    unsafe { command.pre_exec(|| Ok(nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?)) }
}

/// Ends the child and everything it started: SIGTERM first, so that it can remove half-written
/// files, then SIGKILL.
fn end(child: &mut Child) {
    let group = Pid::from_raw(child.id().cast_signed());
    let deadline = Instant::now() + GRACE;
    let _ = killpg(group, Signal::SIGTERM);
    while Instant::now() < deadline && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = program("sh", Path::new("/"));
        command.args(["-c", script]);
        command
    }

    #[test]
    fn a_child_is_heard_line_by_line_and_its_end_told() {
        let calm = AtomicBool::new(false);
        let mut heard = Vec::new();
        let script = "echo one; echo 'x.c:1: error: two' >&2; exit 3";
        let ended = Runner::without_log(&calm)
            .run(shell(script), &mut |line| heard.extend(line.map(str::to_owned)))
            .expect("sh runs");
        assert!(!ended.success);
        assert_eq!(heard, ["one", "x.c:1: error: two"]);
        assert_eq!(ended.errors(), "  x.c:1: error: two");
    }

    #[test]
    fn interruption_ends_the_child_and_what_it_started() {
        let interrupted = AtomicBool::new(false);
        let mut inner = None;
        let began = Instant::now();
        let result = Runner::without_log(&interrupted).run(shell("sleep 60 & echo $!; wait"), &mut |line| {
            if let Some(line) = line {
                inner = line.parse::<i32>().ok();
                interrupted.store(true, Ordering::Relaxed);
            }
        });
        assert!(matches!(result, Err(BuildError::Interrupted)));
        assert!(began.elapsed() < Duration::from_secs(30));
        let inner = inner.expect("the shell told its child");
        let has_ended = || {
            let state = std::fs::read_to_string(format!("/proc/{inner}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        // It was killed, but a busy machine may not have reaped it yet.
        while !has_ended() {
            assert!(began.elapsed() < Duration::from_secs(60), "it goes on");
            std::thread::yield_now();
        }
    }
}

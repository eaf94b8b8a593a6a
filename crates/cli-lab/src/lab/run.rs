//! `headway lab run`: a lab for as long as a program runs.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, ExitCode, ExitStatus};

use anyhow::{Context as _, Result, bail};
use headway_lab::{Lab, Life};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, alarm};
use signal_hook::consts::{SIGALRM, SIGCHLD, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::load;

/// Arguments of `headway lab run`.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Scenario file, as for `headway lab up`.
    file: PathBuf,
    /// The node in which the program runs [default: `client`, or the first node of the file].
    #[arg(long)]
    node: Option<String>,
    /// Name of the lab [default: `run-` and the number of this process].
    #[arg(long)]
    name: Option<String>,
    /// Save the truth file here.
    #[arg(long, value_name = "FILE")]
    truth: Option<PathBuf>,
    /// Program and arguments, after `--`.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Seconds that a program has to end after a signal before the lab ends it.
const GRACE: u32 = 5;

pub(super) fn run(args: &RunArgs) -> Result<ExitCode> {
    let network = load(&args.file)?;
    let name = args.name.clone().unwrap_or_else(|| format!("run-{}", std::process::id()));
    // Up to this point a signal terminates this process and, with it, the lab.
    let lab = Lab::up(&network, &name, Life::Owned)?;
    let ended = run_in(&lab, args);
    if let (Some(file), Ok(_)) = (&args.truth, &ended) {
        std::fs::copy(lab.truth_path(), file)
            .with_context(|| format!("cannot copy the truth to {}", file.display()))?;
    }
    // Also ends what the program left running.
    lab.down()?;
    ended
}

/// Runs the program to its end, or until signals ask for the end.
fn run_in(lab: &Lab, args: &RunArgs) -> Result<ExitCode> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGALRM])?;
    let Some((program, rest)) = args.command.split_first() else { bail!("no program given") };
    let first = lab.nodes().find(|node| node.name == "client").or_else(|| lab.nodes().next());
    let node = args.node.as_deref().or(first.map(|node| &*node.name)).context("the lab has no nodes")?;
    let failed = || format!("cannot run `{}` in the {node}", program.to_string_lossy());
    let mut child = lab.command(node, program, rest)?.spawn().with_context(failed)?;
    let mut asked = None;
    for signal in signals.forever() {
        if let Some(status) = child.try_wait().with_context(failed)? {
            return Ok(exit_code(status));
        }
        match (signal, asked) {
            (SIGCHLD, _) => {}
            (_, Some(first)) => return Ok(killed_by(first)),
            (signal, None) => {
                asked = Some(signal);
                ask(&child, signal);
                alarm::set(GRACE);
            }
        }
    }
    bail!("signals can no longer be received")
}

/// Passes a signal on. Ctrl-C on a terminal has reached the program already.
fn ask(child: &Child, signal: i32) {
    if let (Ok(signal), true) = (Signal::try_from(signal), signal != SIGINT) {
        // It has not been waited for, so the number is still its own. If it is about to end,
        // there is nothing to do.
        let _ = kill(Pid::from_raw(child.id() as i32), signal);
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(1).into(),
        (None, signal) => killed_by(signal.unwrap_or(SIGTERM)),
    }
}

/// Returns the exit code that shells give to a program that a signal ended.
fn killed_by(signal: i32) -> ExitCode {
    u8::try_from(128 + signal).unwrap_or(1).into()
}

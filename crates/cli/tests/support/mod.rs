//! What test files of the three programs share: the program, and how it is run.

// Each test file uses a different part of this module.
#![allow(dead_code, unreachable_pub)]
#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

pub mod kernels;
pub mod labs;
pub mod running;

use std::fs::File;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use headway_lab::Process;

/// The program of the crate under test. For a command of another one it starts that, from the same folder.
pub const PROGRAM: &str = match (
    option_env!("CARGO_BIN_EXE_headway"),
    option_env!("CARGO_BIN_EXE_headway-router"),
    option_env!("CARGO_BIN_EXE_headway-lab"),
) {
    (Some(program), ..) | (_, Some(program), _) | (.., Some(program)) => program,
    _ => panic!("tests of no program"),
};
/// How long anything may take that must end soon.
pub const TIMEOUT: Duration = Duration::from_secs(20);

/// A network that is simulated in no time.
pub const SIMULATED: &str = "duration = \"2 s\"\nwarmup = \"1 s\"\n[[link]]\nfrom = \"a\"\nto = \"b\"\nrate = \"10 Mb/s\"\n\
                         delay = \"1 ms\"\n[[flow]]\nname = \"=1+1\"\nfrom = \"a\"\nto = \"b\"\ncontroller = \"reno\"\n";

/// Whether a measurement gave no answer, or only a lower bound, because the machine is busy; says so.
pub fn was_busy(output: &Output) -> bool {
    let reasons = ["could not pace packets", "ran out before an estimate"];
    let (said, printed) = (text(&output.stderr), text(&output.stdout));
    let is_bound =
        printed.contains("\"available_high_bps\":null") && printed.contains("sender could not keep its gaps");
    let was = is_bound || reasons.iter().any(|reason| said.contains(reason));
    if was {
        println!("INVALID: the machine is too busy to send evenly");
    }
    was
}

/// Checks that the programs that tests start besides their own are there, because Cargo does not build
/// them with these tests.
pub fn check_built(others: &[(&str, &str)]) {
    for (name, package) in others {
        let program = Path::new(PROGRAM).with_file_name(name);
        assert!(
            program.is_file(),
            "there is no {}: build it with `cargo build -p {package}`",
            program.display()
        );
    }
}

/// The program that runs labs.
pub fn headway_lab() -> PathBuf {
    check_built(&[("headway-lab", "headway-cli-lab")]);
    Path::new(PROGRAM).with_file_name("headway-lab")
}

/// The program with these arguments and no input.
pub fn headway(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).stdin(Stdio::null());
    command
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command that must end soon, and returns its output.
pub fn output(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = Process::of(child.id() as i32);
    let watch = std::thread::spawn(move || {
        if process.is_some_and(|process| !process.wait_gone(TIMEOUT)) {
            process.and_then(|process| process.open()).map(|handle| handle.signal(libc::SIGKILL));
        }
    });
    let output = child.wait_with_output().unwrap();
    watch.join().unwrap();
    assert_ne!(output.status.signal(), Some(libc::SIGKILL), "{command:?} does not end");
    output
}

/// Writes a file and returns its path.
pub fn write(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
    path.to_str().unwrap().to_owned()
}

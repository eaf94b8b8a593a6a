//! `headway-bench` as users run it: real processes, and nothing in real time is judged.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

mod calc;
mod compare;
mod gaps;
mod json;
mod repro;

use std::process::{Command, Output};

/// The program with these arguments.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headway-bench"));
    command.args(args);
    command
}

/// Runs a subcommand.
fn run(subcommand: &str, args: &[&str]) -> Output {
    command(&[&[subcommand], args].concat()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

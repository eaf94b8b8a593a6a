//! Soak tests of the controllers, for as long as you like. They exit with 1 if anything is wrong.
//!
//! `soak LS-CONTROLLER FLOWS SECONDS GAP-MS [lossy]` runs many flows of single segments (`flows.rs`);
//! `soak ends LAW CARRIER CYCLES KILLS` starts, ends and kills the ends of XCP or RCP while data flows, and
//! `soak ends rapid CYCLES KILLS` TCP Rapid (`ends.rs`). Both need root.
#![allow(clippy::unwrap_used, reason = "what cannot be done ends the program, with the reason")]

mod ends;
#[path = "../../tests/flood/mod.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod flood;
mod flows;
mod left;
#[path = "../../tests/path/mod.rs"]
#[allow(dead_code, reason = "tests use all of it")]
mod path;
mod transfer;

use std::process::ExitCode;

use ends::Ends;

const USAGE: &str = "usage: soak LS-CONTROLLER FLOWS SECONDS GAP-MS [lossy]
       soak ends xcp|rcp protocol|option CYCLES KILLS
       soak ends rapid CYCLES KILLS";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let fine = match words[..] {
        ["ends", law @ ("xcp" | "rcp"), carrier @ ("protocol" | "option"), cycles, kills] => {
            ends::run(Ends::Explicit { law, carrier }, cycles.parse().unwrap(), kills.parse().unwrap())
        }
        ["ends", "rapid", cycles, kills] => {
            ends::run(Ends::Rapid, cycles.parse().unwrap(), kills.parse().unwrap())
        }
        [controller, flows, seconds, gap] => flows::run(controller, flows, seconds, gap, false),
        [controller, flows, seconds, gap, "lossy"] => flows::run(controller, flows, seconds, gap, true),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

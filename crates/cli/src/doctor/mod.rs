//! `headway doctor`: what this host can do, and what follows for each command.

mod fact;
mod kernel;
mod network;
mod programs;
mod report;
mod trial;

use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use headway_program::exit::{Code, Failed};
use headway_program::family::ALL;

use fact::{Fact, Grade};

/// Says what this host can do, and which commands work here.
///
/// Everything is tried by doing it, where that changes nothing: sockets are opened, a program that does
/// nothing is loaded into the kernel, queues are made in a network namespace of its own, and packets are paced
/// over the loopback interface. What needs a privilege that is missing is not tried, and the report says so.
/// Nothing is sent to the network. Takes less than a second.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes:
  0    all commands that were asked about work, maybe with limits or as far as could be tried
  1    one of them does not work, or the report could not be printed
  2    invalid arguments

Examples:
  headway doctor                              # all commands
  sudo headway doctor edge --interface eth0   # one of them, as root
  headway doctor measure serve --json")]
pub(crate) struct DoctorArgs {
    /// Commands to ask about; all by default.
    #[arg(value_name = "COMMAND", value_parser = commands())]
    commands: Vec<String>,
    /// The interface to look at; by default that of the default route.
    #[arg(long, short, value_name = "NAME")]
    interface: Option<String>,
}

fn commands() -> PossibleValuesParser {
    PossibleValuesParser::new(names().filter(|name| *name != "doctor"))
}

/// Returns the commands of all programs.
fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().flat_map(|program| program.commands).map(|(name, _)| *name)
}

/// Looks, and prints what was found; the exit code says whether all commands work.
pub(crate) fn run(args: &DoctorArgs, json: bool) -> Result<ExitCode, Failed> {
    // First, while this process has one thread.
    let trial = trial::run();
    let asked = |name: &str| args.commands.is_empty() || args.commands.iter().any(|asked| asked == name);
    let facts = [programs::facts(), kernel::facts(), network::facts(args.interface.as_deref())?, trial];
    let facts: Vec<Fact> = facts.into_iter().flatten().map(|fact| fact.about(asked)).collect();
    let rows = report::rows(&facts, names().filter(|name| *name != "doctor" && asked(name)));
    if json {
        report::json(&facts, &rows)
    } else {
        report::text(&facts, &rows)
    }
    let fails = rows.iter().any(|row| row.grade == Some(Grade::Fails));
    Ok(if fails { Code::Other.into() } else { ExitCode::SUCCESS })
}

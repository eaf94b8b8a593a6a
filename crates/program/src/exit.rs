//! How a program ends: exit codes, common to all subcommands and listed in their help, and errors.

use std::fmt;
use std::process::ExitCode;

use clap::Parser;

use crate::command_line::{CommandLine, Commands};
use crate::{out, print_error, print_line, time};

/// The reason why the program ended, as its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Code {
    /// Any error that the other codes do not cover.
    Other = 1,
    /// Arguments that cannot be right, found after parsing.
    Arguments = 2,
    /// The server cannot be reached or the connection to it was lost.
    Unreachable = 3,
    /// The server refused: version, token, certificate or limits.
    Refused = 4,
    /// Probes do not arrive: all lost, one direction blocked, or MTU too small.
    Blocked = 5,
    /// Probes arrived but give no trustworthy answer.
    Untrustworthy = 6,
    /// Ended by SIGINT or SIGTERM, after printing partial results.
    Interrupted = 130,
}

/// Exit codes as listed by `--help`.
pub const HELP: &str = "\
Exit codes:
  0    a result was printed
  1    another error, for example a file that cannot be written
  2    invalid arguments
  3    the server cannot be reached: unknown host, closed port, connection lost
  4    the server refused: other version, wrong or missing token, certificate, limits
  5    probes do not arrive: all lost, one direction blocked, MTU too small
  6    probes arrived but give no trustworthy answer: sender could not keep its
       gaps, clock stepped, path slower than 1 Mb/s, budget or time too small
  130  interrupted; the partial result was printed";

impl Code {
    /// Returns the number.
    pub(crate) fn number(self) -> u8 {
        self as u8
    }

    /// Returns the name used in error objects of `--json`.
    pub(crate) fn name(self) -> &'static str {
        self.into()
    }
}

impl From<Code> for ExitCode {
    fn from(code: Code) -> ExitCode {
        ExitCode::from(code.number())
    }
}

/// An error, and the exit code of the program.
#[derive(Debug)]
pub struct Failed {
    /// The exit code.
    pub code: Code,
    /// The reason.
    pub error: anyhow::Error,
    /// The host that was to be measured, if any.
    pub host: Option<String>,
}

impl Failed {
    /// An error with its exit code, which has to do with no host.
    pub fn new(code: Code, error: impl Into<anyhow::Error>) -> Failed {
        Failed { code, error: error.into(), host: None }
    }

    /// The error of a command that has no JSON form, and was asked for one.
    pub fn no_json() -> Failed {
        Failed::new(Code::Arguments, anyhow::anyhow!("this command has no JSON form; leave out `--json`"))
    }

    /// Names the host that was to be measured.
    pub fn at_host(self, host: &str) -> Failed {
        Failed { host: Some(host.to_owned()), ..self }
    }

    /// Returns the object that `--json` prints instead of a result, with the time at which it is made.
    pub fn to_json(&self) -> String {
        let now = time::now();
        let mut object = serde_json::json!({
            "type": "error",
            "at_unix_ns": now.ns(),
            "at_rfc3339": time::rfc3339(now),
            "code": self.code.name(),
            "exit_code": self.code.number(),
            "error": self.to_string(),
        });
        if let Some(host) = &self.host {
            object["host"] = host.as_str().into();
        }
        object.to_string()
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failed {
    fn from(error: E) -> Failed {
        Failed::new(Code::Other, error)
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.error)
    }
}

/// Runs the program of these commands, and returns its exit code: starts the other one that has the command,
/// or parses the command line and does the work.
pub fn run<C: Commands>() -> ExitCode {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    crate::names::keep_to_own_sources();
    let name = C::PROGRAM.called();
    if let Some(other) = C::PROGRAM.other() {
        return end(name, std::env::args_os().any(|word| word == "--json"), Err(other.start()));
    }
    match parse::<CommandLine<C>>(name) {
        Ok(CommandLine { command, json: true }) if !command.has_json() => {
            end(name, true, Err(Failed::no_json()))
        }
        Ok(CommandLine { command, json }) => end(name, json, command.run(json)),
        Err(code) => code,
    }
}

/// Parses the command line; if there is nothing to run, prints the requested help, or the error in the
/// arguments, and returns the exit code.
///
/// # Errors
/// The exit code, of success too.
pub fn parse<P: Parser>(name: &str) -> Result<P, ExitCode> {
    P::try_parse().map_err(|asked| {
        let code = u8::try_from(asked.exit_code()).unwrap_or(1);
        match asked.print() {
            Err(reason) if !asked.use_stderr() && !out::is_broken_pipe(&reason) => {
                print_error!("{name}: cannot write to standard output: {reason}");
                Code::Other.into()
            }
            _ => code.into(),
        }
    })
}

/// Ends the program of this name: prints why it failed, with `json` as an object too unless the command has
/// printed its document, and returns the exit code.
pub fn end(name: &str, json: bool, result: Result<ExitCode, Failed>) -> ExitCode {
    // A command is not successful if its result could not be printed.
    let result = result.and_then(|code| Ok(out::check().map(|()| code)?));
    result.unwrap_or_else(|failed| {
        if json && !out::has_document() {
            print_line!("{}", failed.to_json());
        }
        print_error!("{name}: {failed}");
        failed.code.into()
    })
}

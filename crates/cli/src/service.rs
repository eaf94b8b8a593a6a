//! Functions shared by long-running commands.

use std::fmt::Display;
use std::io::IsTerminal;

use anyhow::Result;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use headway_program::print_line;

/// Logs to standard error at `level`, which the variable RUST_LOG overrides.
pub(crate) fn start_log(level: &str) -> Result<()> {
    start_log_to(std::io::stderr, level)
}

/// Logs to a writer that leads to standard error.
pub(crate) fn start_log_to<W>(writer: W, level: &str) -> Result<()>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(std::io::stderr().is_terminal())
        // Otherwise it would try to report write errors of standard error on standard error, and panic.
        .log_internal_errors(false)
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))
}

/// Prints one line and flushes it; a closed standard output is not an error.
pub(crate) fn print_line(line: impl Display) {
    print_line!("{line}");
}

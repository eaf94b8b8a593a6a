//! What programs that run until they are told to end have in common.

use std::fmt::Display;
use std::io::IsTerminal;

use anyhow::Result;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::out::say;

/// Logs to standard error; the variable RUST_LOG chooses how much, and `level` when it is not set.
pub(crate) fn start_log(level: &str) -> Result<()> {
    start_log_to(std::io::stderr, level)
}

/// Logs to something that ends up at standard error.
pub(crate) fn start_log_to<W>(writer: W, level: &str) -> Result<()>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer)
        .with_ansi(std::io::stderr().is_terminal())
        // It would report that standard error cannot be written to standard error, and panic.
        .log_internal_errors(false)
        .try_init()
        .map_err(|error| anyhow::anyhow!("cannot start the log: {error}"))
}

/// Prints one line at once; a closed standard output is not worth stopping for.
pub(crate) fn print_line(line: impl Display) {
    say!("{line}");
}

//! What commands that go on share: their log, and signals that end them.

use std::fmt::Display;
use std::io::IsTerminal;
use std::os::unix::net::UnixStream;

use anyhow::Result;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::print_line;

/// Logs to standard error at `level`, which the variable RUST_LOG overrides.
///
/// # Errors
/// If there is a log already.
pub fn start_log(level: &str) -> Result<()> {
    start_log_to(std::io::stderr, level)
}

/// Logs to a writer that leads to standard error.
///
/// # Errors
/// If there is a log already.
pub fn start_log_to<W>(writer: W, level: &str) -> Result<()>
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
pub fn print_line(line: impl Display) {
    print_line!("{line}");
}

/// Returns a stream that becomes readable on SIGINT, SIGTERM or SIGHUP.
///
/// # Errors
/// If no handler can be installed.
pub fn signals() -> Result<UnixStream> {
    signals_but(None)
}

/// Does the same without one of these signals.
///
/// # Errors
/// If no handler can be installed.
pub fn signals_but(other: Option<i32>) -> Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| Some(*signal) != other) {
        signal_hook::low_level::pipe::register(signal, write.try_clone()?)?;
    }
    Ok(read)
}

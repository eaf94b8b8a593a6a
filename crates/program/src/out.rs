//! Standard output and standard error, which may be closed or full at any time.
//!
//! A closed reader, as after `| head`, neither stops the command nor counts as an error. A full disk does not
//! stop the command either, but is reported at the end, with an error exit code. Errors on standard error
//! itself cannot be reported.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufWriter, ErrorKind, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;

/// The first error on standard output; nothing is printed after it.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Whether a whole document was printed.
static DOCUMENT: AtomicBool = AtomicBool::new(false);

/// Prints a line on standard output and flushes it.
#[macro_export]
macro_rules! print_line {
    () => { $crate::out::line(format_args!("")) };
    ($($text:tt)*) => { $crate::out::line(format_args!($($text)*)) };
}

/// Prints a line on standard error.
#[macro_export]
macro_rules! print_error {
    ($($text:tt)*) => { $crate::out::error_line(format_args!($($text)*)) };
}

/// Prints a line; see [`print_line`].
pub fn line(text: fmt::Arguments<'_>) {
    let Ok(mut failed) = FAILED.lock() else { return };
    if failed.is_some() {
        return;
    }
    let mut out = io::stdout().lock();
    *failed = writeln!(out, "{}", escape_controls(&text.to_string())).and_then(|()| out.flush()).err();
}

/// Prints a long text on standard output in parts, so that it is not in memory as a whole, and flushes it.
pub fn parts(parts: impl IntoIterator<Item = String>) {
    let Ok(mut failed) = FAILED.lock() else { return };
    if failed.is_some() {
        return;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let written = parts.into_iter().try_for_each(|part| out.write_all(escape_controls(&part).as_bytes()));
    *failed = written.and_then(|()| out.flush()).err();
}

/// Prints a line; see [`print_error`].
pub fn error_line(text: fmt::Arguments<'_>) {
    // A single write keeps lines of several processes apart. A failure cannot be reported.
    let _ = io::stderr().write_all(format!("{}\n", escape_controls(&text.to_string())).as_bytes());
}

/// Prints the JSON document that is all of a command's result; an error after it goes to
/// standard error only.
pub fn document(text: &str) {
    DOCUMENT.store(true, Ordering::Relaxed);
    line(format_args!("{text}"));
}

/// Whether a command has printed its document.
pub(crate) fn has_document() -> bool {
    DOCUMENT.load(Ordering::Relaxed)
}

/// Escapes control characters: names from files, command lines and other hosts may contain terminal escape
/// sequences.
pub fn escape_controls(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::new();
    for c in text.chars() {
        if acts(c) { escaped.extend(c.escape_default()) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// Whether the reader of standard output has closed it.
pub fn is_closed() -> bool {
    FAILED.lock().is_ok_and(|failed| failed.as_ref().is_some_and(is_broken_pipe))
}

/// Checks that everything was printed, at least as long as there was a reader.
///
/// # Errors
/// For example, when the disk is full.
pub fn check() -> anyhow::Result<()> {
    let Ok(failed) = FAILED.lock() else { return Ok(()) };
    match &*failed {
        Some(reason) if !is_broken_pipe(reason) => Err(anyhow!("cannot write to standard output: {reason}")),
        _ => Ok(()),
    }
}

/// Whether the error is a closed reader.
pub fn is_broken_pipe(reason: &io::Error) -> bool {
    reason.kind() == ErrorKind::BrokenPipe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_does_nothing_to_a_terminal() {
        assert_eq!(escape_controls("café\tat\n10 Mb/s"), "café\tat\n10 Mb/s");
        assert_eq!(escape_controls("\u{1b}]0;title\u{7}\r\u{9b}2J"), "\\u{1b}]0;title\\u{7}\\r\\u{9b}2J");
    }
}

//! Standard output and standard error, which may be closed or full at any moment.
//!
//! A reader that has gone, as after `| head`, does not stop what a command does, and is no error. A disk that is full does not stop
//! it either, but is said at the end, with the exit code of an error. On standard error nothing can be said about itself.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::sync::Mutex;

use anyhow::anyhow;

/// Why nothing can be printed any more.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a line on standard output, at once.
macro_rules! say {
    () => { $crate::out::line(format_args!("")) };
    ($($text:tt)*) => { $crate::out::line(format_args!($($text)*)) };
}

/// Prints a line on standard error, at once.
macro_rules! tell {
    ($($text:tt)*) => { $crate::out::error_line(format_args!($($text)*)) };
}

pub(crate) use {say, tell};

/// See [`say`].
pub(crate) fn line(text: fmt::Arguments<'_>) {
    let Ok(mut failed) = FAILED.lock() else { return };
    if failed.is_some() {
        return;
    }
    let mut out = io::stdout().lock();
    *failed = writeln!(out, "{}", plain(&text.to_string())).and_then(|()| out.flush()).err();
}

/// See [`tell`].
pub(crate) fn error_line(text: fmt::Arguments<'_>) {
    // In one piece, so that lines of several processes do not mix; there is nobody to be told of a failure.
    let _ = io::stderr().write_all(format!("{}\n", plain(&text.to_string())).as_bytes());
}

/// Text that does nothing to a terminal: names from files, command lines and other hosts may hold what moves its cursor.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    let acts = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::new();
    for c in text.chars() {
        if acts(c) { plain.extend(c.escape_default()) } else { plain.push(c) }
    }
    Cow::Owned(plain)
}

/// Whether the reader of standard output has gone.
pub(crate) fn is_closed() -> bool {
    FAILED.lock().is_ok_and(|failed| failed.as_ref().is_some_and(is_gone))
}

/// Whether all that was to be printed was, as long as there was a reader.
///
/// # Errors
/// When the disk is full, for instance.
pub(crate) fn check() -> anyhow::Result<()> {
    let Ok(failed) = FAILED.lock() else { return Ok(()) };
    match &*failed {
        Some(reason) if !is_gone(reason) => Err(anyhow!("cannot write to standard output: {reason}")),
        _ => Ok(()),
    }
}

/// Whether the reason is that a reader has gone.
pub(crate) fn is_gone(reason: &io::Error) -> bool {
    reason.kind() == ErrorKind::BrokenPipe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_does_nothing_to_a_terminal() {
        assert_eq!(plain("café\tat\n10 Mb/s"), "café\tat\n10 Mb/s");
        assert_eq!(plain("\u{1b}]0;title\u{7}\r\u{9b}2J"), "\\u{1b}]0;title\\u{7}\\r\\u{9b}2J");
    }
}

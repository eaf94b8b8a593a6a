//! Files that people name, read whole: only what has an end, and only so much.
//!
//! A pipe may never get a writer, a device such as `/dev/zero` never ends, and a file may be larger than the memory.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The most bytes of a scenario, which people write.
pub const SCENARIO: u64 = 16 << 20;
/// The most bytes of a trace, which programs write as text.
pub const TRACE: u64 = 1 << 30;
/// The most bytes of a capture.
pub const CAPTURE: u64 = 4 << 30;

/// Text of at most so many bytes.
///
/// # Errors
/// When the file cannot be read, is not a regular one, is larger or is no text.
pub fn text(path: &Path, limit: u64) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is no text (UTF-8)");
    String::from_utf8(bytes(path, limit)?).map_err(not_text)
}

/// At most so many bytes.
///
/// # Errors
/// When the file cannot be read, is not a regular one or is larger.
pub fn bytes(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    // Without waiting for the other end of a pipe.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check(&file)?;
    let mut bytes = Vec::new();
    // Files of the kernel do not say how large they are.
    if file.take(limit + 1).read_to_end(&mut bytes)? as u64 > limit {
        return Err(wrong(&format!("it has more than {} MB", limit / 1_000_000)));
    }
    Ok(bytes)
}

fn check(file: &File) -> io::Result<()> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let what = if kind.is_fifo() || kind.is_socket() { "pipe" } else { "device" };
    Err(wrong(&format!("it is a {what}, not a regular file")))
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let reason = |path: &Path| bytes(path, TRACE).unwrap_err().to_string();
        assert_eq!(reason(&pipe), "it is a pipe, not a regular file");
        assert_eq!(reason(Path::new("/dev/zero")), "it is a device, not a regular file");
        assert_eq!(reason(folder.path()), "is a directory");
    }

    #[test]
    fn files_are_read_up_to_their_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "abcd").unwrap();
        assert_eq!(text(&path, 4).unwrap(), "abcd");
        File::create(&path).unwrap().set_len(SCENARIO + 1).unwrap();
        assert_eq!(text(&path, SCENARIO).unwrap_err().to_string(), "it has more than 16 MB");
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(text(&path, 4).unwrap_err().to_string(), "it is no text (UTF-8)");
        assert!(!text(Path::new("/proc/self/stat"), SCENARIO).unwrap().is_empty());
    }
}

//! Reads files that users name, up to a size limit and only regular ones, and says where the keys
//! of those in TOML are.
//!
//! A pipe may never get a writer, a device such as `/dev/zero` never ends, and a file may
//! be larger than memory.

pub mod toml_keys;

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Size limit of a scenario, which people write, in bytes.
pub const SCENARIO: u64 = 16 << 20;
/// Size limit of a trace, text written by programs, in bytes.
pub const TRACE: u64 = 1 << 30;
/// Size limit of a packet capture, in bytes.
pub const CAPTURE: u64 = 4 << 30;

/// Reads a text file of at most `limit` bytes.
///
/// # Errors
/// When the file cannot be read, is not a regular file, exceeds the limit or is not UTF-8.
pub fn text(path: &Path, limit: u64) -> io::Result<String> {
    let not_text = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
    String::from_utf8(bytes(path, limit)?).map_err(not_text)
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// When the file cannot be read, is not a regular file or exceeds the limit.
pub(crate) fn bytes(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = open(path, limit)?;
    let mut bytes = Vec::new();
    // The metadata of files in /proc and /sys does not give their length.
    if file.take(limit + 1).read_to_end(&mut bytes)? as u64 > limit {
        return Err(too_large(limit));
    }
    Ok(bytes)
}

/// Opens a file that is read as a stream; one that grows while it is read may exceed the limit.
///
/// # Errors
/// When the file cannot be opened, is not a regular file or exceeds the limit.
pub fn open(path: &Path, limit: u64) -> io::Result<File> {
    // Non-blocking: opening a pipe must not wait for a writer.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    check(&file)?;
    if file.metadata()?.len() > limit { Err(too_large(limit)) } else { Ok(file) }
}

/// Reads a secret of at most `limit` bytes from a file that others cannot read, or from a pipe.
///
/// # Errors
/// When it cannot be read or exceeds the limit, or others can read the file: its mode must be 0600 or less,
/// or 0640 if it belongs to root and this process is not root's, as systemd passes credentials.
pub fn secret(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = File::open(path)?;
    check_secret(path, &file.metadata()?)?;
    let mut bytes = Vec::new();
    if file.take(limit + 1).read_to_end(&mut bytes)? as u64 > limit {
        return Err(wrong(&format!("it is larger than {limit} bytes")));
    }
    Ok(bytes)
}

fn check_secret(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let is_handed_over = metadata.uid() == 0 && !nix::unistd::geteuid().is_root();
    let forbidden = if is_handed_over { 0o037 } else { 0o077 };
    if !metadata.is_file() || metadata.mode() & forbidden == 0 {
        return Ok(());
    }
    let (mode, path) = (metadata.mode() & 0o777, path.display());
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "other users can read it (mode {mode:03o}); run `chmod 600 {path}`, and replace the secret if they may have"
        ),
    ))
}

fn too_large(limit: u64) -> io::Error {
    wrong(&format!("it is larger than {} MB", limit / 1_000_000))
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
        assert_eq!(text(&path, SCENARIO).unwrap_err().to_string(), "it is larger than 16 MB");
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(text(&path, 4).unwrap_err().to_string(), "it is not UTF-8 text");
        assert!(!text(Path::new("/proc/self/stat"), SCENARIO).unwrap().is_empty());
    }

    #[test]
    fn secrets_that_others_can_read_are_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "secret").unwrap();
        let with = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            secret(&path, 100)
        };
        for mode in [0o600, 0o400, 0o700] {
            assert_eq!(with(mode).unwrap(), b"secret", "{mode:o}");
        }
        for mode in [0o644, 0o604, 0o640, 0o602, 0o660, 0o777] {
            let refused = with(mode).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "{mode:o}");
            let command = format!("run `chmod 600 {}`", path.display());
            assert!(refused.to_string().contains(&command), "{refused}");
        }
        assert!(
            secret(Path::new("/dev/zero"), 100).unwrap_err().to_string().contains("larger than 100 bytes")
        );
    }
}

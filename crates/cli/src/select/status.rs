//! A Unix socket that tells the state of a choice to whoever connects, and the command that asks it.

use std::fs::DirBuilder;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use headway_program::print_line;
use nix::sys::stat::{Mode, umask};
use serde_json::Value;

use super::StatusArgs;
use super::show::table;

/// Where root's is, unless another place is named.
pub(super) const SOCKET: &str = "/run/headway/select.sock";
/// Most viewers that are answered at a time, ten times a second.
const MOST: usize = 16;
/// Most bytes of a state: 64 paths have some 30 kB.
const LARGEST: u64 = 1 << 20;
/// How long the answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket; only the user of this process may connect.
#[derive(Debug)]
pub(super) struct Status {
    listener: UnixListener,
    path: PathBuf,
}

impl Status {
    /// Makes the socket, in place of one that a process has left which is gone.
    ///
    /// # Errors
    /// When there is another process at it, or it cannot be made.
    pub(super) fn open(path: &Path) -> Result<Status> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
            made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        remove_left(path)?;
        let others = umask(Mode::S_IRWXG | Mode::S_IRWXO);
        let listener = UnixListener::bind(path);
        umask(others);
        let listener = listener.with_context(|| format!("cannot make the socket {}", path.display()))?;
        listener.set_nonblocking(true)?;
        Ok(Status { listener, path: path.to_owned() })
    }

    /// Tells the state to all who have connected since; one who does not read gets what has room.
    pub(super) fn answer(&self, mut state: impl FnMut() -> Value) {
        for _ in 0..MOST {
            let Ok((mut viewer, _)) = self.listener.accept() else { return };
            if viewer.set_nonblocking(true).is_ok() {
                let _ = viewer.write_all(format!("{}\n", state()).as_bytes());
            }
        }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes a socket at which nobody listens; anything else stays.
fn remove_left(path: &Path) -> Result<()> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if !found.file_type().is_socket() {
        bail!("{} is there and no socket; name another path with --socket", path.display());
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))
        }
        _ => {
            bail!("another process listens at {}; end it, or name another path with --socket", path.display())
        }
    }
}

/// Asks a process for its state, and prints it.
///
/// # Errors
/// When none answers.
pub(super) fn run(args: &StatusArgs, json: bool) -> Result<()> {
    let path = args.socket.as_deref().unwrap_or(Path::new(SOCKET));
    let none =
        || format!("no `headway select` answers at {}; start it, or name its --socket", path.display());
    let stream = UnixStream::connect(path).with_context(none)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    stream.take(LARGEST).read_to_string(&mut text).with_context(none)?;
    let state: Value = serde_json::from_str(&text).with_context(none)?;
    if json {
        print_line!("{state}");
    } else {
        let sentence = state["decision"]["sentence"].as_str().unwrap_or_default();
        print_line!("{}", headway_program::out::escape_controls(sentence));
        let paths = state["paths"].as_array().map(Vec::as_slice).unwrap_or_default();
        print_line!("{}", table(paths).trim_end());
    }
    headway_program::out::check()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_connects_gets_a_line_and_a_socket_that_was_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/select.sock");
        let status = Status::open(&path).unwrap();
        assert!(Status::open(&path).unwrap_err().to_string().contains("another process listens"));
        let mut viewer = UnixStream::connect(&path).unwrap();
        status.answer(|| serde_json::json!({ "chosen": "a" }));
        let mut said = String::new();
        viewer.read_to_string(&mut said).unwrap();
        assert_eq!(said, "{\"chosen\":\"a\"}\n");
        drop(status);
        assert!(!path.exists());
        drop(UnixListener::bind(&path).unwrap());
        Status::open(&path).unwrap();
    }
}

//! Unix sockets at which only the user of this process may connect.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use nix::sys::stat::{Mode, umask};

/// A socket, which is removed with this.
#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Makes the socket that an option names, with its folder, in place of one that a process has left which is gone.
    ///
    /// # Errors
    /// When there is another process at it, or it cannot be made.
    pub(super) fn open(path: &Path, option: &str) -> Result<Socket> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
            made.with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        remove_left(path, option)?;
        let others = umask(Mode::S_IXUSR | Mode::S_IRWXG | Mode::S_IRWXO);
        let listener = UnixListener::bind(path);
        umask(others);
        let listener = listener.with_context(|| format!("cannot make the socket {}", path.display()))?;
        listener.set_nonblocking(true)?;
        Ok(Socket { listener, path: path.to_owned() })
    }

    /// Returns what accepts connections, without waiting for them.
    pub(super) const fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes a socket at which nobody listens; anything else stays.
fn remove_left(path: &Path, option: &str) -> Result<()> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if !found.file_type().is_socket() {
        bail!("{} is there and no socket; name another path with {option}", path.display());
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))
        }
        _ => {
            bail!("another process listens at {}; end it, or name another path with {option}", path.display())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_socket_is_for_its_user_and_one_that_was_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("made/select.sock");
        let socket = Socket::open(&path, "--socket").unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(Socket::open(&path, "--socket").unwrap_err().to_string().contains("another process listens"));
        drop(socket);
        assert!(!path.exists());
        drop(UnixListener::bind(&path).unwrap());
        drop(Socket::open(&path, "--socket").unwrap());
        std::fs::write(&path, "a file").unwrap();
        assert!(Socket::open(&path, "--socket").unwrap_err().to_string().contains("no socket"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a file");
    }
}

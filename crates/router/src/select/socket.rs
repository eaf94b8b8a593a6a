//! Unix sockets at which only the user of this process may connect.

use std::fs::DirBuilder;
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileTypeExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration as Span, Instant as Clock};

use anyhow::{Context as _, Result, bail};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::stat::{Mode, umask};

use super::state::State;

/// How long the processes of one that was killed may take to end what it had started, and the time between
/// two looks meanwhile.
pub(super) const PATIENCE: Span = Span::from_secs(5);
pub(super) const PAUSE: Span = Span::from_millis(5);

/// Where the state of a choice of root is served, unless another place is named.
pub const SOCKET: &str = "/run/headway/select.sock";
/// Most viewers that are answered at a time, ten times a second.
const MOST: usize = 16;
/// Most bytes of a state: 64 paths have some 30 kB.
const LARGEST: u64 = 1 << 20;
/// How long the answer may take.
const ANSWER: Span = Span::from_secs(5);

/// A socket, which is removed with this.
#[derive(Debug)]
pub(super) struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Makes the socket that an option names, with its folder, in place of one that a process
    /// has left which is gone.
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

    /// Returns where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what accepts connections, without waiting for them.
    pub(super) const fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Tells the state to all who have connected since; one who does not read gets what has room.
    pub(super) fn answer(&self, mut state: impl FnMut() -> State) {
        for _ in 0..MOST {
            let Ok((mut viewer, _)) = self.listener().accept() else { return };
            if viewer.set_nonblocking(true).is_ok() {
                let _ = viewer.write_all(
                    format!("{}\n", serde_json::to_string(&state()).unwrap_or_default()).as_bytes(),
                );
            }
        }
    }
}

/// Asks a choice that tells its state at a socket for it.
///
/// # Errors
/// When none answers.
pub fn ask(path: &Path) -> Result<State> {
    let none =
        || format!("no `headway select` answers at {}; start it, or name its --socket", path.display());
    let stream = UnixStream::connect(path).with_context(none)?;
    stream.set_read_timeout(Some(ANSWER))?;
    let mut text = String::new();
    stream.take(LARGEST).read_to_string(&mut text).with_context(none)?;
    serde_json::from_str(&text).with_context(none)
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Removes a socket at which nobody listens, once what a process has left that was killed has ended;
/// anything else stays.
fn remove_left(path: &Path, option: &str) -> Result<()> {
    let begun = Clock::now();
    loop {
        let Ok(found) = path.symlink_metadata() else { return Ok(()) };
        if !found.file_type().is_socket() {
            bail!("{} is there and no socket; name another path with {option}", path.display());
        }
        let listener = match UnixStream::connect(path) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                return std::fs::remove_file(path)
                    .with_context(|| format!("cannot replace {}", path.display()));
            }
            Ok(stream) => getsockopt(&stream, PeerCredentials).map_or(0, |peer| peer.pid()),
            Err(_) => 0,
        };
        let is_gone = listener > 0 && !Path::new("/proc").join(listener.to_string()).exists();
        if !is_gone || begun.elapsed() >= PATIENCE {
            bail!(
                "another process listens at {}; end it, or name another path with {option}",
                path.display()
            );
        }
        std::thread::sleep(PAUSE);
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

    #[test]
    fn whoever_connects_gets_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("select.sock");
        let socket = Socket::open(&path, "--socket").unwrap();
        let mut viewer = UnixStream::connect(&path).unwrap();
        let mut state = State::default();
        state.what.snapshot.chosen = "a".to_owned();
        socket.answer(|| state.clone());
        let mut said = String::new();
        viewer.read_to_string(&mut said).unwrap();
        assert_eq!(serde_json::from_str::<State>(&said).unwrap(), state);
    }
}

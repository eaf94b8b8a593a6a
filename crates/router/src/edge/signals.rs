//! A Unix socket at which others say what the access link has left.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use headway_edge::Signals;
use headway_units::{Duration, Instant};
use nix::sys::stat::{Mode, umask};

/// Largest datagram, in bytes: a line has some 150.
const LARGEST: usize = 4_096;
/// Most datagrams that are read at a time, ten times a second: a program that floods the
/// socket takes no more time.
const MOST: usize = 64;
/// Time between two warnings of lines that are wrong, of which a program may send thousands.
const PATIENCE: Duration = Duration::from_ms(60_000);

/// The socket, at which only root may say something.
pub(super) struct SignalSocket {
    socket: UnixDatagram,
    /// When a mistake was last reported.
    told: Option<Instant>,
}

impl SignalSocket {
    /// Makes the socket, in place of one that a process has left which is gone.
    pub(super) fn open(path: &Path) -> Result<SignalSocket> {
        remove_left(path)?;
        let others = umask(Mode::S_IRWXG | Mode::S_IRWXO);
        let socket = UnixDatagram::bind(path);
        umask(others);
        let socket = socket.with_context(|| format!("cannot make the socket {}", path.display()))?;
        socket.set_nonblocking(true)?;
        Ok(SignalSocket { socket, told: None })
    }

    /// Takes what has come since.
    pub(super) fn read(&mut self, now: Instant, signals: &mut Signals) {
        // One byte more, so that a longer one shows.
        let mut datagram = [0; LARGEST + 1];
        for _ in 0..MOST {
            let length = match self.socket.recv(&mut datagram) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            if let Err(mistake) = take(&datagram[..length], now, signals)
                && self.told.is_none_or(|told| now - told >= PATIENCE)
            {
                tracing::warn!("a signal was not understood: {mistake}");
                self.told = Some(now);
            }
        }
    }
}

/// Takes the lines of a datagram, up to the first wrong one.
fn take(datagram: &[u8], now: Instant, signals: &mut Signals) -> Result<(), String> {
    if datagram.len() > LARGEST {
        return Err(format!("a datagram has more than {LARGEST} bytes"));
    }
    let text = std::str::from_utf8(datagram).map_err(|_| "it is not UTF-8".to_owned())?;
    text.lines().filter(|line| !line.trim().is_empty()).try_for_each(|line| signals.take(now, line))
}

/// Removes a socket at which nobody listens; anything else stays.
fn remove_left(path: &Path) -> Result<()> {
    let Ok(found) = path.symlink_metadata() else { return Ok(()) };
    if !found.file_type().is_socket() {
        bail!("{} is there and no socket; name another path for signals", path.display());
    }
    match UnixDatagram::unbound()?.connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))
        }
        _ => bail!("another process listens at {}; end it, or name another path for signals", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use headway_units::Side;

    use super::*;

    #[test]
    fn a_socket_that_was_left_is_replaced_and_one_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("signals");
        let mut first = SignalSocket::open(&path).unwrap();
        let error = SignalSocket::open(&path).err().unwrap().to_string();
        assert!(error.starts_with("another process listens at"), "{error}");
        let teller = UnixDatagram::unbound().unwrap();
        let lines =
            "{\"path\":\"down\",\"available_bps\":5}\n\n{\"path\":\"up\",\"available_bps\":6}\nnonsense\n";
        teller.send_to(lines.as_bytes(), &path).unwrap();
        teller.send_to(&[b' '; LARGEST + 1], &path).unwrap();
        let mut signals = Signals::default();
        first.read(Instant::from_ns(9), &mut signals);
        let rate = |side| signals.states(Instant::from_ns(9), side).next().map(|state| state.rate_bps);
        assert_eq!([rate(Side::Lan), rate(Side::Wan)], [Some(5), Some(6)]);
        assert_eq!(first.told, Some(Instant::from_ns(9)));
        drop(first);
        SignalSocket::open(&path).unwrap();
        let file = folder.path().join("notes");
        std::fs::write(&file, "notes").unwrap();
        assert!(SignalSocket::open(&file).is_err() && file.exists());
    }
}

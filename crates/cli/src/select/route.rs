//! Has packets without a more specific route take the chosen path, by a child process that keeps the right to change routes.
//!
//! The default route that is there stays, below two routes that the child sets and removes when this process ends, also by `kill -9`.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use headway_privileges::{Capability, Deputy};
use headway_telemetry::preferred::Preferred;

use super::file::PathEntry;

/// By which routes are known as ours; `ip route` shows `proto 126 metric 7`. Nothing in `/etc/iproute2/rt_protos` has the number, and
/// routes that people or VPNs make have another metric.
const ROUTES: Preferred = Preferred { protocol: 126, metric: 7 };
/// The child process answers within microseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// The process that changes routes.
#[derive(Debug)]
pub(super) struct Router(Deputy);

impl Router {
    /// Starts it, after removing what an earlier one has left that was killed. This process must have one thread.
    ///
    /// # Errors
    /// When routes cannot be changed, or the system makes no process.
    pub(super) fn start(paths: &[PathEntry]) -> Result<Router> {
        if ROUTES.remove().context("cannot change routes; run it as root, or leave out `route = true`")? {
            tracing::warn!("there were routes of a process that was killed; they are removed");
        }
        let deputy = Deputy::start(&[Capability::CAP_NET_ADMIN], |socket| work(socket, paths))?;
        deputy.socket().map(|socket| socket.set_read_timeout(Some(PATIENCE))).transpose()?;
        Ok(Router(deputy))
    }

    /// Has packets take a path from now on.
    ///
    /// # Errors
    /// When the kernel refuses, or the process has ended.
    pub(super) fn take(&self, path: usize) -> Result<()> {
        let ended = "the process that changes routes has ended; start it again";
        let mut socket = self.0.socket().context(ended)?;
        let mut length = [0; 2];
        socket.write_all(&[u8::try_from(path)?]).context(ended)?;
        socket.read_exact(&mut length).context(ended)?;
        let mut answer = vec![0; u16::from_ne_bytes(length).into()];
        socket.read_exact(&mut answer).context(ended)?;
        match answer.is_empty() {
            true => Ok(()),
            false => bail!("{}", String::from_utf8_lossy(&answer)),
        }
    }
}

/// Sets routes until the other end of the socket is closed, and removes them then.
fn work(mut socket: UnixStream, paths: &[PathEntry]) {
    let mut request = [0; 1];
    while socket.read_exact(&mut request).is_ok() {
        let path = paths.get(usize::from(request[0]));
        let done = path.map_or(Ok(()), |path| path.hop().and_then(|hop| ROUTES.set(&hop)));
        let answer = done.err().map_or_else(String::new, |error| error.to_string());
        let length = (answer.len() as u16).to_ne_bytes();
        if socket.write_all(&[&length[..], answer.as_bytes()].concat()).is_err() {
            break;
        }
    }
    // What is left is told when it is started again.
    let _ = ROUTES.remove();
}

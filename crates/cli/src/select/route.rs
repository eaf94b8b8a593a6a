//! Has packets without a more specific route take the chosen path, by a child process that keeps the right to change routes.
//!
//! The default route that is there stays, below two routes that the child sets and removes when this process ends, also by `kill -9`.

use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use headway_privileges::{Capability, Deputy, serve};
use headway_telemetry::preferred::Preferred;

use super::file::PathEntry;

/// By which routes are known as ours; `ip route` shows `proto 126 metric 7`. Nothing in `/etc/iproute2/rt_protos` has the number, and
/// routes that people or VPNs make have another metric.
const ROUTES: Preferred = Preferred { protocol: 126, metric: 7 };

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
        Ok(Router(Deputy::start(&[Capability::CAP_NET_ADMIN], |socket| work(socket, paths))?))
    }

    /// Has packets take a path from now on.
    ///
    /// # Errors
    /// When the kernel refuses, or the process has ended.
    pub(super) fn take(&self, path: usize) -> Result<()> {
        let done = self.0.ask(&[u8::try_from(path)?]);
        let done = done.context("the process that changes routes has ended; start it again")?;
        done.map_err(anyhow::Error::msg)
    }
}

/// Sets routes until the other end of the socket is closed, and removes them then.
fn work(socket: UnixStream, paths: &[PathEntry]) {
    serve(socket, |[path]: [u8; 1]| {
        let path = paths.get(usize::from(path));
        path.map_or(Ok(()), |path| path.hop().and_then(|hop| ROUTES.set(&hop)))
    });
    // What is left is told when it is started again.
    let _ = ROUTES.remove();
}

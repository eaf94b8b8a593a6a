//! Has packets without a more specific route take the chosen path, or be spread over several, by a child process that keeps the right to
//! change routes.
//!
//! The default route that is there stays, below two routes that the child sets and removes when this process ends, also by `kill -9`.

use std::io;
use std::num::NonZeroU8;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use headway_privileges::{Capability, Deputy, serve};
use headway_telemetry::preferred::Preferred;

use super::file::{MOST_PATHS, PathEntry};

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
        if ROUTES
            .remove()
            .context("cannot change routes; run it as root, or leave out `route` and `balance`")?
        {
            tracing::warn!("there were routes of a process that was killed; they are removed");
        }
        Ok(Router(Deputy::start(&[Capability::CAP_NET_ADMIN], |socket| work(socket, paths))?))
    }

    /// Has connections take paths from now on, as many as these parts of all say; paths with 0 get none.
    ///
    /// # Errors
    /// When the kernel refuses, or the process has ended.
    pub(super) fn take(&self, parts: &[u8]) -> Result<()> {
        let mut request = [0; MOST_PATHS];
        request.iter_mut().zip(parts).for_each(|(place, part)| *place = *part);
        let done = self.0.ask(&request);
        let done = done.context("the process that changes routes has ended; start it again")?;
        done.map_err(anyhow::Error::msg)
    }
}

/// Sets routes until the other end of the socket is closed, and removes them then.
fn work(socket: UnixStream, paths: &[PathEntry]) {
    serve(socket, |parts: [u8; MOST_PATHS]| {
        let parts = paths.iter().zip(parts);
        let hops = parts.filter_map(|(path, part)| Some((path, NonZeroU8::new(part)?)));
        let hops = hops.map(|(path, part)| Ok((path.hop()?, part))).collect::<io::Result<Vec<_>>>()?;
        ROUTES.spread(&hops)
    });
    // What is left is told when it is started again.
    let _ = ROUTES.remove();
}

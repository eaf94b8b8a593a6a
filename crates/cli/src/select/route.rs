//! Has packets without a more specific route take the chosen path, or be spread over several, by a child process that keeps the right to
//! change routes.
//!
//! The default route that is there stays, below two routes that the child sets and removes when this process ends, also by `kill -9`.

use std::io;
use std::num::NonZeroU8;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use headway_privileges::{Capability, Deputy, serve};
use headway_telemetry::marked::MarkedRoute;
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

/// The process that keeps the rules of paths which only their next hop tells apart.
#[derive(Debug)]
pub(super) struct Rules(Deputy);

impl Rules {
    /// Sets them, if any path needs one, after removing what an earlier process has left. This process must have one thread.
    ///
    /// # Errors
    /// When rules and routes cannot be changed, or the system makes no process.
    pub(super) fn start(paths: &[PathEntry]) -> Result<Option<Rules>> {
        let marks = paths.iter().enumerate().filter_map(|(number, path)| path.next_hop_mark(number));
        let rules: Vec<MarkedRoute> =
            marks.map(|mark| MarkedRoute { mark, protocol: ROUTES.protocol }).collect();
        if rules.is_empty() {
            return Ok(None);
        }
        let cannot = "cannot set the rules by which packets take a `next-hop`; run it as root, or name the `interface` too";
        rules.iter().try_for_each(|rule| rule.remove().map(drop)).context(cannot)?;
        let deputy = Deputy::start(&[Capability::CAP_NET_ADMIN], |socket| {
            serve(socket, |_: [u8; 1]| set_rules(paths));
            // What is left is removed when it is started again.
            let _ = rules.iter().try_for_each(|rule| rule.remove().map(drop));
        })?;
        let rules = Rules(deputy);
        rules.keep().context(cannot)?;
        Ok(Some(rules))
    }

    /// Sets them again: the kernel removes routes with their interface.
    ///
    /// # Errors
    /// When the kernel refuses, or the process has ended.
    pub(super) fn keep(&self) -> Result<()> {
        let done = self.0.ask(&[0]).context("the process that keeps rules has ended; start it again")?;
        done.map_err(anyhow::Error::msg)
    }
}

fn set_rules(paths: &[PathEntry]) -> io::Result<()> {
    for (number, path) in paths.iter().enumerate() {
        if let Some(mark) = path.next_hop_mark(number) {
            MarkedRoute { mark, protocol: ROUTES.protocol }.set(&path.hop()?)?;
        }
    }
    Ok(())
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

//! Has packets without a more specific route take the chosen path, or be spread over several, by a child
//! process that keeps the right to change routes.
//!
//! The default route that is there stays, below two routes that the child sets and removes when this process
//! ends, also by `kill -9`.

use std::io;
use std::num::NonZeroU8;
use std::os::unix::net::UnixStream;

use anyhow::{Context as _, Result};
use headway_privileges::{Capability, Deputy, serve};
use headway_telemetry::kept::Kept;
use headway_telemetry::marked::MarkedRoute;
use headway_telemetry::preferred::Preferred;

use super::file::{MOST_PATHS, PathEntry};
use super::lock::Holder;

/// By which routes are known as ours; `ip route` shows `proto 126 metric 7`. Nothing in
/// `/etc/iproute2/rt_protos` has the number, and routes that people or VPNs make have another metric.
pub(super) const ROUTES: Preferred = Preferred { protocol: 126, metric: 7 };

/// By which connections that pass this host are spread, with next hops of the numbers that follow.
const KEPT: Kept = Kept { number: 0x4877_0100, protocol: ROUTES.protocol };

/// The process that changes routes.
#[derive(Debug)]
pub(super) struct Router(Deputy);

impl Router {
    /// Starts it, after removing what an earlier one has left that was killed. This process must have one
    /// thread, and the lock of those that set routes.
    ///
    /// # Errors
    /// When routes cannot be changed, or the system makes no process.
    pub(super) fn start(paths: &[PathEntry], balance: bool) -> Result<Router> {
        let cannot = "cannot change routes; run it as root, or leave out `route` and `balance`";
        if remove().context(cannot)? {
            tracing::warn!("there were routes of a process that was killed; they are removed");
        }
        let kept = balance.then(|| KEPT.check());
        if let Some(Err(reason)) = &kept {
            tracing::warn!(
                "this kernel has no resilient next hops as Linux 5.13 does ({reason}), so connections that pass this host may change \
                 their path with the shares"
            );
        }
        let keeps = matches!(kept, Some(Ok(())));
        Ok(Router(Deputy::start(&[Capability::CAP_NET_ADMIN], |socket| work(socket, paths, keeps))?))
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

/// The rules of paths which only their next hop tells apart.
#[derive(Debug)]
pub(super) enum Rules<'a> {
    /// A process keeps them.
    Kept(Deputy),
    /// Another `headway select` has set the same for these paths.
    Borrowed(&'a [PathEntry]),
}

impl<'a> Rules<'a> {
    /// Sets them, after removing what an earlier process has left. This process must have one thread, and the
    /// lock of those that set rules.
    ///
    /// # Errors
    /// When rules and routes cannot be changed, or the system makes no process.
    pub(super) fn start(paths: &[PathEntry]) -> Result<Rules<'a>> {
        let rules: Vec<MarkedRoute> = marked(paths).map(|(rule, _)| rule).collect();
        let cannot = "cannot set the rules by which packets take a `next-hop`; run it as root, or name the `interface` too";
        rules.iter().try_for_each(|rule| rule.remove().map(drop)).context(cannot)?;
        let deputy = Deputy::start(&[Capability::CAP_NET_ADMIN], |socket| {
            serve(socket, |_: [u8; 1]| set_rules(paths));
            // What is left is removed when it is started again.
            let _ = rules.iter().try_for_each(|rule| rule.remove().map(drop));
        })?;
        let rules = Rules::Kept(deputy);
        rules.keep().context(cannot)?;
        Ok(rules)
    }

    /// Uses those of another process, which must be the same.
    ///
    /// # Errors
    /// When they are others.
    pub(super) fn borrow(paths: &'a [PathEntry], holder: &Holder) -> Result<Rules<'a>> {
        let rules = Rules::Borrowed(paths);
        rules.keep().with_context(|| {
            format!("{holder} has the rules by which packets take a `next-hop`; end it, or name the `interface` too")
        })?;
        Ok(rules)
    }

    /// Sets them again: the kernel removes routes with their interface. Those of another
    /// process are only looked at.
    ///
    /// # Errors
    /// When the kernel refuses, the process has ended, or those of another are not there.
    pub(super) fn keep(&self) -> Result<()> {
        match self {
            Rules::Kept(deputy) => {
                let done =
                    deputy.ask(&[0]).context("the process that keeps rules has ended; start it again")?;
                done.map_err(anyhow::Error::msg)
            }
            Rules::Borrowed(paths) => {
                for (rule, path) in marked(paths) {
                    anyhow::ensure!(
                        !rule.leads_elsewhere(&path.hop()?)?,
                        "they lead elsewhere for the path {}",
                        path.name
                    );
                }
                Ok(())
            }
        }
    }
}

/// Returns the paths that need a rule, with it.
fn marked(paths: &[PathEntry]) -> impl Iterator<Item = (MarkedRoute, &PathEntry)> {
    paths.iter().enumerate().filter_map(|(number, path)| {
        let rule = MarkedRoute { mark: path.next_hop_mark(number)?, protocol: ROUTES.protocol };
        Some((rule, path))
    })
}

fn set_rules(paths: &[PathEntry]) -> io::Result<()> {
    // All that can be: one whose interface is gone keeps no other from being back.
    let done: Vec<io::Result<()>> = marked(paths).map(|(rule, path)| rule.set(&path.hop()?)).collect();
    // A path whose router cannot be reached is down, and says so; its packets go nowhere.
    let is_down = |error: &io::Error| {
        matches!(error.raw_os_error(), Some(libc::ENETUNREACH | libc::ENETDOWN | libc::EHOSTUNREACH))
    };
    done.into_iter().filter(|done| !done.as_ref().is_err_and(is_down)).collect()
}

/// Removes all that leads to paths; returns whether anything was there.
fn remove() -> io::Result<bool> {
    let (routes, kept) = (ROUTES.remove(), KEPT.remove(MOST_PATHS as u32));
    Ok(routes? | kept?)
}

/// Sets routes until the other end of the socket is closed, and removes them then. If it `keeps` connections
/// that pass this host on their paths, those have a route of their own.
fn work(socket: UnixStream, paths: &[PathEntry], keeps: bool) {
    serve(socket, |parts: [u8; MOST_PATHS]| {
        let parts = paths.iter().zip(parts).enumerate();
        let hops = parts.filter_map(|(number, (path, part))| Some((number, path, NonZeroU8::new(part)?)));
        let hops = hops.map(|(number, path, part)| Ok((number as u32, path.hop()?, part)));
        let hops = hops.collect::<io::Result<Vec<_>>>()?;
        let spread: Vec<_> = hops.iter().map(|(_, hop, part)| (*hop, *part)).collect();
        ROUTES.spread(&spread)?;
        if keeps { KEPT.spread(&hops) } else { Ok(()) }
    });
    // What is left is reported when it is started again.
    let _ = remove();
}

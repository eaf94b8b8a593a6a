//! Opens sockets whose packets take a path, by a child process that keeps the rights for that.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use headway_net::Sockets;
use headway_privileges::{Capability, Deputy, drop_all_but, drop_all_but_namespaces, serve_files};
use headway_telemetry::netlink::{Netlink, SockProtocol};
use nix::sched::{CloneFlags, setns};

use super::file::PathEntry;

/// What it takes to mark packets and to have large buffers.
const RIGHTS: [Capability; 2] = [Capability::CAP_NET_RAW, Capability::CAP_NET_ADMIN];
/// What it takes to enter a network namespace, too.
const RIGHTS_THERE: [Capability; 3] =
    [Capability::CAP_NET_RAW, Capability::CAP_NET_ADMIN, Capability::CAP_SYS_ADMIN];
/// Kinds of sockets: bits for IPv6 and for TCP, and one for routing.
const V6: u8 = 1;
const TCP: u8 = 2;
const NETLINK: u8 = 4;

/// The process that opens sockets.
#[derive(Debug)]
pub(super) struct Opener(Mutex<Deputy>);

impl Opener {
    /// Starts it. This process must have one thread.
    ///
    /// # Errors
    /// When the system makes no process.
    pub(super) fn start(paths: &[PathEntry]) -> Result<Arc<Opener>> {
        let deputy = Deputy::start_whole(|socket| work(socket, paths));
        Ok(Arc::new(Opener(Mutex::new(deputy.context("cannot start the process that opens sockets")?))))
    }

    fn ask(&self, path: u8, kind: u8) -> io::Result<OwnedFd> {
        let deputy = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        deputy.ask_for_file(&[path, kind]).map_err(|error| match error.raw_os_error() {
            Some(code) if code != libc::EPIPE => error,
            _ => io::Error::other("the process that opens sockets has ended; start `headway select` again"),
        })
    }
}

/// Opens sockets of one path.
#[derive(Clone, Debug)]
pub(super) struct PathSockets {
    opener: Arc<Opener>,
    path: u8,
}

impl PathSockets {
    /// Of the path of this number.
    pub(super) fn new(opener: &Arc<Opener>, path: usize) -> PathSockets {
        PathSockets { opener: Arc::clone(opener), path: path as u8 }
    }

    /// Opens one that lists interfaces in the network namespace of the path.
    ///
    /// # Errors
    /// When there is no such namespace, or this process may not enter it.
    pub(super) fn netlink(&self) -> io::Result<Netlink> {
        Ok(self.opener.ask(self.path, NETLINK)?.into())
    }
}

impl Sockets for PathSockets {
    fn open(&self, is_v6: bool, is_tcp: bool) -> io::Result<OwnedFd> {
        self.opener.ask(self.path, if is_v6 { V6 } else { 0 } | if is_tcp { TCP } else { 0 })
    }
}

/// Opens what it is asked for until the other end of the socket is closed.
fn work(socket: UnixStream, paths: &[PathEntry]) {
    let Ok(here) = File::open("/proc/thread-self/ns/net") else { return };
    let enters = paths.iter().any(|path| path.namespace.is_some());
    let dropped = if enters { drop_all_but_namespaces(&RIGHTS_THERE) } else { drop_all_but(&RIGHTS) };
    if dropped.is_err() {
        return;
    }
    serve_files(socket, |[number, kind]: [u8; 2]| {
        let path = paths.get(usize::from(number)).ok_or(io::ErrorKind::InvalidInput)?;
        let Some(namespace) = &path.namespace else { return open(path, number, kind) };
        namespace.enter()?;
        let opened = open(path, number, kind);
        // Whoever asks next must not get a socket of another place.
        if setns(&here, CloneFlags::CLONE_NEWNET).is_err() {
            std::process::abort();
        }
        opened
    });
}

fn open(path: &PathEntry, number: u8, kind: u8) -> io::Result<OwnedFd> {
    if kind == NETLINK {
        return Ok(Netlink::open(SockProtocol::NetlinkRoute)?.into());
    }
    path.via(number.into()).open(kind & V6 != 0, kind & TCP != 0)
}

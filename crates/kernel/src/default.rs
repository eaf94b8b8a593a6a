//! Which controller connections of a network namespace get that ask for none.

use std::fs;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};

use crate::error::Error;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// Of the thread, as threads of one process may be in different namespaces.
const NAMESPACE: &str = "/proc/thread-self/ns/net";
/// Where `ip netns` keeps namespaces that no process is in.
const NAMED: &str = "/run/netns";

/// A network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its number, as in `/proc/PID/ns/net`; the kernel gives it to another one later.
    pub number: u64,
    /// Its cookie (`SO_NETNS_COOKIE`), which no other one gets before the host restarts.
    pub cookie: u64,
}

impl Namespace {
    /// The one this thread is in.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn here() -> Result<Namespace, Error> {
        let metadata = fs::metadata(NAMESPACE).map_err(Error::file("look at", NAMESPACE))?;
        Ok(Namespace { number: metadata.ino(), cookie: cookie().map_err(Error::file("look at", NAMESPACE))? })
    }

    /// Whether something on this host may still keep it: a process, or a name that `ip netns` gave it.
    pub fn may_be_kept(&self) -> bool {
        let entries = |folder: &str| fs::read_dir(folder).into_iter().flatten().flatten();
        let is_it = |path: &Path| match fs::metadata(path) {
            // The number may be that of another one by now.
            Ok(metadata) if metadata.ino() == self.number => {
                cookie_of(path).is_none_or(|cookie| cookie == self.cookie)
            }
            Ok(_) => false,
            // What we must not look at may be it.
            Err(reason) => reason.kind() == std::io::ErrorKind::PermissionDenied,
        };
        // The first process may be closed even to root; it is not alone where it is.
        let others = entries("/proc").filter(|process| process.file_name() != "1");
        others.into_iter().any(|process| is_it(&process.path().join("ns/net")))
            || entries(NAMED).any(|name| is_it(&name.path()))
    }
}

/// The cookie of the namespace that a file names; `None` when we may not enter it.
fn cookie_of(path: &Path) -> Option<u64> {
    let file = fs::File::open(path).ok()?;
    // Only the thread that looks is somewhere else.
    let look = move || {
        setns(&file, CloneFlags::CLONE_NEWNET).ok()?;
        cookie().ok()
    };
    std::thread::spawn(look).join().ok()?
}

/// The cookie of this thread's network namespace.
fn cookie() -> std::io::Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut cookie = 0u64;
    let mut size = size_of::<u64>() as libc::socklen_t;
    // SAFETY: the option is a number of 64 bits, for which there is room.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut size,
        )
    };
    if result == 0 { Ok(cookie) } else { Err(std::io::Error::last_os_error()) }
}

/// What the default of a network namespace was before it was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerDefault {
    /// The controller that was the default before Headway changed it for the first time.
    pub former: String,
    /// Where.
    pub namespace: Namespace,
    /// Our names, one of which is the default now; when none is, somebody else has decided since.
    pub names: Vec<String>,
}

/// Makes `name` the default of this network namespace.
pub(crate) fn set_default(name: &str) -> Result<(), Error> {
    fs::write(DEFAULT, name).map_err(Error::file("write to", DEFAULT))
}

/// The default of this network namespace.
///
/// # Errors
/// When the kernel does not tell.
pub fn current_default() -> Result<String, Error> {
    let text = fs::read_to_string(DEFAULT).map_err(Error::file("read", DEFAULT))?;
    Ok(text.trim().to_owned())
}

/// The names of all registered controllers.
///
/// # Errors
/// When the kernel does not tell.
pub fn available() -> Result<Vec<String>, Error> {
    let text = fs::read_to_string(AVAILABLE).map_err(Error::file("read", AVAILABLE))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

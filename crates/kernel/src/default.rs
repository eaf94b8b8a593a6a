//! The default controller of a network namespace, used by connections that choose none.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use headway_telemetry::namespace_cookie;
use nix::sched::{CloneFlags, setns};
use serde::{Deserialize, Serialize};

use crate::error::Error;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// The longest list of controllers that Linux writes (`TCP_CA_BUF_MAX`: 128 names of 16 bytes).
const AVAILABLE_BYTES: usize = 128 * 16;
/// Of the thread: threads of one process may be in different namespaces.
pub(crate) const NAMESPACE: &str = "/proc/thread-self/ns/net";
/// The folder where `ip netns` keeps named namespaces, which live without any process.
const NAMED: &str = "/run/netns";

/// A network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Its inode number, as in `/proc/PID/ns/net`; the kernel may reuse it after the namespace is gone.
    pub number: u64,
    /// Its cookie (`SO_NETNS_COOKIE`), which is not reused until the host restarts.
    pub cookie: u64,
}

impl Namespace {
    /// Returns the namespace of this thread.
    ///
    /// # Errors
    /// When the kernel does not report it.
    pub fn here() -> Result<Namespace, Error> {
        let metadata = fs::metadata(NAMESPACE).map_err(Error::file("inspect", NAMESPACE))?;
        Ok(Namespace {
            number: metadata.ino(),
            cookie: namespace_cookie().map_err(Error::file("inspect", NAMESPACE))?,
        })
    }

    /// Returns whether something on this host may keep it alive: a thread, a name given by
    /// `ip netns`, or another mount.
    pub fn may_be_kept(&self) -> bool {
        let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let is_it = |path: &Path| match fs::metadata(path) {
            // The number may have been reused for another namespace.
            Ok(metadata) if metadata.ino() == self.number => {
                cookie_of(path).is_none_or(|cookie| cookie == self.cookie)
            }
            Ok(_) => false,
            // It may be one that we have no permission to inspect.
            Err(reason) => reason.kind() == std::io::ErrorKind::PermissionDenied,
        };
        // PID 1 may be inaccessible even to root; other processes share its namespace.
        let others = entries(Path::new("/proc")).filter(|process| process.file_name() != "1");
        // Threads of one process may be in different namespaces.
        let mut threads = others.flat_map(|process| entries(&process.path().join("task")));
        threads.any(|thread| is_it(&thread.path().join("ns/net")))
            || entries(Path::new(NAMED)).any(|name| is_it(&name.path()))
            || mounted().iter().any(|path| is_it(path))
    }
}

/// Returns where network namespaces are mounted, which keeps them without any process.
fn mounted() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/thread-self/mountinfo").unwrap_or_default();
    let path = |line: &str| {
        let mut fields = line.split(' ').skip(3);
        fields.next()?.starts_with("net:[").then(|| fields.next()).flatten().map(PathBuf::from)
    };
    mounts.lines().filter_map(path).collect()
}

/// Returns the cookie of the namespace behind a file; `None` if we may not enter it.
fn cookie_of(path: &Path) -> Option<u64> {
    let file = fs::File::open(path).ok()?;
    // A separate thread enters it, so that this one stays in its own namespace.
    let look = move || {
        setns(&file, CloneFlags::CLONE_NEWNET).ok()?;
        namespace_cookie().ok()
    };
    std::thread::spawn(look).join().ok()?
}

/// The default controller of a network namespace before Headway changed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerDefault {
    /// The controller that was the default before Headway changed it for the first time.
    pub former: String,
    /// The namespace.
    pub namespace: Namespace,
    /// Headway's names, one of which is the default now; if none is, somebody else has changed it since.
    pub names: Vec<String>,
}

/// Makes `name` the default of this network namespace.
pub(crate) fn set_default(name: &str) -> Result<(), Error> {
    fs::write(DEFAULT, name).map_err(Error::file("write to", DEFAULT))
}

/// Returns the default of this network namespace.
///
/// # Errors
/// When the kernel does not report it.
pub fn current_default() -> Result<String, Error> {
    let text = fs::read_to_string(DEFAULT).map_err(Error::file("read", DEFAULT))?;
    Ok(text.trim().to_owned())
}

/// Returns the names of all registered controllers.
///
/// # Errors
/// When the kernel does not report them.
pub fn available() -> Result<Vec<String>, Error> {
    // The kernel writes the list anew for each `read`: what is read in parts lacks a name when another
    // controller goes in between.
    let mut list = [0; AVAILABLE_BYTES];
    let length = fs::File::open(AVAILABLE)
        .and_then(|mut file| file.read(&mut list))
        .map_err(Error::file("read", AVAILABLE))?;
    Ok(String::from_utf8_lossy(&list[..length]).split_whitespace().map(str::to_owned).collect())
}

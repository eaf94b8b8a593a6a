//! What is known about the labs of this user, in one folder each.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::process::Process;
use crate::spec::Spec;

/// One end of the path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// `client` or `server`.
    pub name: String,
    /// IPv4 address, in a /24 that both ends share.
    pub v4: Ipv4Addr,
    /// IPv6 address, in a /64 that both ends share.
    pub v6: Ipv6Addr,
    /// Ethernet address.
    pub mac: String,
}

impl Node {
    /// The two ends; every lab uses the same addresses since no lab sees another.
    pub(crate) fn pair() -> [Node; 2] {
        ["client", "server"].map(|name| {
            let host = if name == "client" { 1 } else { 2 };
            Node {
                name: name.to_owned(),
                v4: Ipv4Addr::new(10, 77, 0, host),
                v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, u16::from(host)),
                // 02: locally administered.
                mac: format!("02:00:00:00:77:{host:02x}"),
            }
        })
    }
}

/// A lab that was brought up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Its name.
    pub name: String,
    /// The process of the emulator.
    pub daemon: Process,
    /// The nodes and the processes that hold them.
    pub nodes: Vec<(Node, Process)>,
    /// Whether a user namespace had to be made.
    pub rootless: bool,
    /// The scenario.
    pub spec: Spec,
}

impl State {
    /// The files of the lab in `folder`; `None` when there are none or they cannot be understood.
    pub(crate) fn read(folder: &Path) -> Option<State> {
        let text = fs::read_to_string(folder.join(STATE)).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes the state so that a reader sees all or nothing.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), Error> {
        let (new, path) = (folder.join("state.json.new"), folder.join(STATE));
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        fs::write(&new, text).map_err(|e| Error::file("write", &new, e))?;
        fs::rename(&new, &path).map_err(|e| Error::file("write", &path, e))
    }
}

pub(crate) const STATE: &str = "state.json";
pub(crate) const TRUTH: &str = "truth.csv";
pub(crate) const OLD_TRUTH: &str = "truth.old.csv";
pub(crate) const LOG: &str = "daemon.log";
pub(crate) const CONTROL: &str = "control";

/// The folder that holds one folder per lab of this user.
pub(crate) fn base() -> PathBuf {
    let uid = nix::unistd::geteuid();
    if uid.is_root() {
        return PathBuf::from("/run/headway/lab");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => PathBuf::from(dir).join("headway/lab"),
        None => PathBuf::from(format!("/tmp/headway-{uid}/lab")),
    }
}

/// The folder of the lab `name`.
pub(crate) fn folder(name: &str) -> Result<PathBuf, Error> {
    let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if name.is_empty() || name.len() > 32 || name.starts_with('.') || !letters {
        return Err(Error::Name(name.to_owned()));
    }
    Ok(base().join(name))
}

/// Keeps other processes from bringing labs up or down until dropped.
pub(crate) struct Lock {
    _file: fs::File,
}

/// Makes the base folder, for this user only, and locks it.
pub(crate) fn lock() -> Result<Lock, Error> {
    let base = base();
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&base)
        .map_err(|e| Error::file("make", &base, e))?;
    // In /tmp anybody could have made the folder before us.
    let owner = fs::metadata(&base).map_err(|e| Error::file("read", &base, e))?.uid();
    if owner != nix::unistd::geteuid().as_raw() {
        let source = io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user");
        return Err(Error::file("use", &base, source));
    }
    let path = base.join(".lock");
    let file = fs::File::create(&path).map_err(|e| Error::file("make", &path, e))?;
    file.lock().map_err(|e| Error::file("lock", &path, e))?;
    Ok(Lock { _file: file })
}

/// Names of all folders of labs, dead or alive, in order.
pub(crate) fn names() -> Vec<String> {
    let Ok(entries) = fs::read_dir(base()) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().is_dir())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Removes the folder of a lab; it is no error when it is gone.
pub(crate) fn remove(folder: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", folder, e)),
        _ => Ok(()),
    }
}

//! The two sides of a middlebox, and who is one already.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use headway_arithmetic::flow::Framing;
use nix::fcntl::Flock;
use serde::{Deserialize, Serialize};

use super::framing;
use crate::default::Namespace;
use crate::error::Error;
use crate::features::about;
use crate::folder::{Folder, read, remove};
use crate::support::check_privileges;

/// Writable by root only, because only root can attach programs to interfaces.
const FOLDER: Folder = Folder::new("/run/headway/edge");

/// An interface of this thread's network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeInterface {
    /// The name of the interface.
    pub name: String,
    /// Its number.
    pub index: u32,
    pub(super) framing: Framing,
}

impl EdgeInterface {
    /// Finds an interface.
    ///
    /// # Errors
    /// When there is none of this name, or its packets begin with something else than Ethernet or IP.
    pub fn find(name: &str) -> Result<EdgeInterface, Error> {
        let failed = |reason: String| Error::Device { interface: name.to_owned(), reason };
        let index = nix::net::if_::if_nametoindex(name).map_err(|_| {
            failed("there is none of this name; `ip link` lists those that there are".to_owned())
        })?;
        let kind = kind(name).map_err(|reason| failed(reason.to_string()))?;
        let framing = framing(kind).ok_or_else(|| {
            failed(format!(
                "its packets begin neither with Ethernet nor with IP (type {kind} of linux/if_arp.h)"
            ))
        })?;
        Ok(EdgeInterface { name: name.to_owned(), index, framing })
    }
}

/// Returns the kind of an interface of this thread's network namespace, as linux/if_arp.h numbers them.
fn kind(name: &str) -> io::Result<u16> {
    let socket = UnixDatagram::unbound()?;
    let mut request = about(name);
    // SAFETY: the kernel reads the name and writes an address into the union, which is as large.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFHWADDR, &mut request) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the request has just written this member.
    Ok(unsafe { request.ifr_ifru.ifru_hwaddr }.sa_family)
}

/// What an instance tells other processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Note {
    pid: u32,
    lan: String,
    wan: String,
}

/// The only process that is a middlebox in this network namespace, until this is dropped. Two would count
/// each connection twice.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Instance {
    /// Becomes the one of this thread's network namespace.
    ///
    /// # Errors
    /// When the user lacks the privileges, there is another one, or the folder for notes cannot be used.
    pub fn begin(lan: &EdgeInterface, wan: &EdgeInterface) -> Result<Instance, Error> {
        check_privileges()?;
        let _lock = FOLDER.lock()?;
        let path = FOLDER.file(&Namespace::here()?.cookie.to_string());
        if let Ok(Some((Note { pid, lan, wan }, true))) = read(&path) {
            return Err(Error::EdgeTaken { pid, lan, wan });
        }
        // What others left that gave up the right to remove it.
        for left in FOLDER.files(|_| true) {
            if !matches!(read::<Note>(&left), Ok(Some((_, true)))) {
                remove(&left)?;
            }
        }
        let note = Note { pid: std::process::id(), lan: lan.name.clone(), wan: wan.name.clone() };
        Ok(Instance { _lock: FOLDER.replace(&path, &note)?, path })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // What stays is not locked any more, so it does not matter, and the next one removes it.
        let _ = remove(&self.path);
    }
}

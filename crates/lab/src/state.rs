//! The published state of a lab, a file in its directory.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

use crate::base::Folder;
use crate::error::Error;
use crate::process::{Process, boot};
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
    /// Returns the two ends; every lab uses the same addresses, since labs cannot see each other.
    pub(crate) fn pair() -> [Node; 2] {
        ["client", "server"].map(|name| {
            let host = if name == "client" { 1 } else { 2 };
            Node {
                name: name.to_owned(),
                v4: Ipv4Addr::new(10, 77, 0, host),
                v6: Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, u16::from(host)),
                // 02: locally administered address.
                mac: format!("02:00:00:00:77:{host:02x}"),
            }
        })
    }
}

/// A network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Inode number, as in `/proc/PID/ns/net`; the kernel may reuse it for another namespace.
    pub number: u64,
    /// Cookie (`SO_NETNS_COOKIE`), unique until the host reboots.
    pub cookie: u64,
}

/// The state of a lab that is up or ending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Identifies the host's boot: processes and namespaces of an earlier boot are gone.
    pub boot: String,
    /// The process of the emulator.
    pub daemon: Process,
    /// The process whose exit ends the lab; `None` if the lab stays until somebody takes it down.
    pub owner: Option<Process>,
    /// The nodes and their holder processes.
    pub nodes: Vec<(Node, Process)>,
    /// Their network namespaces.
    pub networks: Vec<Network>,
    /// Whether the lab uses a user namespace.
    pub rootless: bool,
    /// Whether it is ending: programs can no longer enter.
    #[serde(skip)]
    pub ending: bool,
    /// The scenario.
    pub spec: Spec,
}

impl State {
    /// Reads the state of the lab in `folder`; `None` before it is up and after it has ended.
    pub(crate) fn read(folder: &Folder) -> Result<Option<State>, Error> {
        for (file, ending) in [(STATE, false), (ENDING, true)] {
            let mut text = String::new();
            match folder.file(file, OFlag::O_RDONLY) {
                Err(Error::File { reason, .. }) if reason.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?.read_to_string(&mut text),
            }
            .map_err(|e| Error::file("read", &folder.path().join(file), e))?;
            let read = serde_json::from_str::<State>(&text).ok().filter(|state| state.boot == boot());
            return Ok(read.map(|state| State { ending, ..state }));
        }
        Ok(None)
    }

    /// Writes the state atomically: a reader sees all of it or nothing.
    pub(crate) fn write(&self, folder: &Folder) -> Result<(), Error> {
        let failed = |e| Error::file("write", &folder.path().join(NEW), e);
        let mut file = folder.file(NEW, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC)?;
        file.write_all(&serde_json::to_vec_pretty(self).map_err(|e| failed(e.into()))?).map_err(failed)?;
        folder.rename(NEW, STATE)
    }

    /// Prevents programs from entering the lab.
    pub(crate) fn close(folder: &Folder) -> Result<(), Error> {
        folder.rename(STATE, ENDING)
    }
}

/// Exists while programs can enter the lab.
pub(crate) const STATE: &str = "state.json";
const ENDING: &str = "ending.json";
const NEW: &str = "state.json.new";
pub(crate) const TRUTH: &str = "truth.csv";
pub(crate) const OLD_TRUTH: &str = "truth.old.csv";
pub(crate) const LOG: &str = "daemon.log";
pub(crate) const CONTROL: &str = "control";

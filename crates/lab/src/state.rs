//! The published state of a lab, a file in its directory.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};

use crate::base::Folder;
use crate::error::Error;
use crate::process::{Process, boot};
use crate::spec::Spec;

/// A node: a host, or a router if it has several interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its name in the scenario, such as `client`.
    pub name: String,
    /// Its main IPv4 address: that of its first interface.
    pub v4: Ipv4Addr,
    /// Its main IPv6 address: that of its first interface.
    pub v6: Ipv6Addr,
    /// Ethernet address of its first interface.
    pub mac: String,
    /// Its interfaces, in the order of the links in the scenario.
    pub interfaces: Vec<Interface>,
}

/// The end of a link at a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name in the node: `eth0` and so on.
    pub name: String,
    /// The name of the link.
    pub link: String,
    /// IPv4 address, in a /24 that both ends share.
    pub v4: Ipv4Addr,
    /// IPv6 address, in a /64 that both ends share.
    pub v6: Ipv6Addr,
    /// Ethernet address.
    pub mac: String,
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
    /// The scenario with which it was brought up.
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
pub(crate) const ROUTERS: &str = "control.jsonl";
pub(crate) const OLD_ROUTERS: &str = "control.old.jsonl";
pub(crate) const LOG: &str = "daemon.log";
pub(crate) const CONTROL: &str = "control";

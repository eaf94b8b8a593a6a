//! What is known about the labs of this user, in one folder each.

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

/// A network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// Its number, as in `/proc/PID/ns/net`; the kernel gives it to another one later.
    pub number: u64,
    /// Its cookie (`SO_NETNS_COOKIE`), which no other one gets before the host restarts.
    pub cookie: u64,
}

/// A lab that was brought up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Its name.
    pub name: String,
    /// Since when the host runs: processes and networks of an earlier time are gone.
    pub boot: String,
    /// The process of the emulator.
    pub daemon: Process,
    /// Whose end ends the lab; `None` when it stays until somebody takes it down.
    pub owner: Option<Process>,
    /// The nodes and the processes that hold them.
    pub nodes: Vec<(Node, Process)>,
    /// Their networks.
    pub networks: Vec<Network>,
    /// Whether a user namespace had to be made.
    pub rootless: bool,
    /// Whether it is ending: then nobody can enter any more.
    #[serde(skip)]
    pub ending: bool,
    /// The scenario.
    pub spec: Spec,
}

impl State {
    /// The state of the lab in `folder`; `None` before it is up and after it has ended.
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

    /// Writes the state so that a reader sees all or nothing.
    pub(crate) fn write(&self, folder: &Folder) -> Result<(), Error> {
        let failed = |e| Error::file("write", &folder.path().join(NEW), e);
        let mut file = folder.file(NEW, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_TRUNC)?;
        file.write_all(&serde_json::to_vec_pretty(self).map_err(|e| failed(e.into()))?).map_err(failed)?;
        folder.rename(NEW, STATE)
    }

    /// Lets nobody enter the lab any more.
    pub(crate) fn close(folder: &Folder) -> Result<(), Error> {
        folder.rename(STATE, ENDING)
    }
}

/// There while programs can enter the lab.
pub(crate) const STATE: &str = "state.json";
const ENDING: &str = "ending.json";
const NEW: &str = "state.json.new";
pub(crate) const TRUTH: &str = "truth.csv";
pub(crate) const OLD_TRUTH: &str = "truth.old.csv";
pub(crate) const LOG: &str = "daemon.log";
pub(crate) const CONTROL: &str = "control";

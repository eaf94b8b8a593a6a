//! Interfaces that exist already and belong to the user: what they are like, and the settings that a router
//! changes while it runs.

use std::io::{self, Read as _};
use std::os::unix::net::UnixStream;

use headway_privileges::{Capability, Deputy};
use headway_telemetry::ethtool;
use serde::Deserialize;

use crate::error::Error;
use crate::interface;

/// `ETHTOOL` requests that read and write generic receive offload, and flags.
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
/// The flag of large receive offload.
const LRO: u32 = 1 << 15;

/// What `ip -json link show` prints about an interface.
#[derive(Deserialize)]
struct Shown {
    #[serde(default)]
    flags: Vec<String>,
    mtu: u32,
    master: Option<String>,
    link_type: String,
}

/// Checks that a router can use the interface `name`, and returns its MTU.
pub(crate) fn check(name: &str) -> Result<u32, Error> {
    let refuse = |reason: String| Error::Interface { name: name.to_owned(), reason };
    // With its own check, the error does not depend on the language and version of `ip`.
    if nix::net::if_::if_nametoindex(name).is_err() {
        return Err(refuse("does not exist; `ip link` lists those that do".to_owned()));
    }
    let text = interface::ip_output(&["-json", "link", "show", "dev", name])?;
    let shown: Vec<Shown> =
        serde_json::from_str(&text).map_err(|e| refuse(format!("cannot be read: `ip` prints {e}")))?;
    let Some(Shown { flags, mtu, master, link_type }) = shown.into_iter().next() else {
        return Err(refuse("has gone".to_owned()));
    };
    if link_type != "ether" {
        return Err(refuse(format!("is no Ethernet but `{link_type}`; choose another one")));
    }
    if let Some(master) = master {
        let text = format!(
            "belongs to `{master}`, which would forward its packets a second time; take it out with \
             `ip link set {name} nomaster`"
        );
        return Err(refuse(text));
    }
    if !flags.iter().any(|flag| flag == "UP") {
        return Err(refuse(format!("is down; start it with `ip link set {name} up`")));
    }
    Ok(mtu)
}

/// The settings of an interface that a router changes: received packets must not be merged.
struct Settings {
    name: String,
    /// The number of the interface: another one may have the name at the end.
    index: u32,
    /// Of generic receive offload.
    gro: u32,
    /// Large receive offload is one of them.
    flags: u32,
}

impl Settings {
    /// Reads them; what an interface cannot do counts as off.
    fn read(name: &str) -> io::Result<Settings> {
        Ok(Settings {
            name: name.to_owned(),
            index: nix::net::if_::if_nametoindex(name)?,
            gro: ethtool::value(name, GET_GRO, 0)?,
            flags: ethtool::value(name, GET_FLAGS, 0)?,
        })
    }

    /// Turns merging off.
    fn change(&self) -> io::Result<()> {
        if self.gro != 0 {
            ethtool::value(&self.name, SET_GRO, 0)?;
        }
        if self.flags & LRO != 0 {
            ethtool::value(&self.name, SET_FLAGS, self.flags & !LRO)?;
        }
        Ok(())
    }

    /// Turns on again what was on, and leaves other flags alone. The interface may have another name by now.
    fn restore(&self) -> io::Result<()> {
        let name = interface::name_of(self.index)?;
        if self.gro != 0 {
            ethtool::value(&name, SET_GRO, self.gro)?;
        }
        if self.flags & LRO != 0 {
            let now = ethtool::value(&name, GET_FLAGS, 0)?;
            ethtool::value(&name, SET_FLAGS, now | LRO)?;
        }
        Ok(())
    }
}

/// Restores the settings of interfaces when it is dropped, or when this process ends in any way: that is the
/// work of a deputy, which keeps the right to change interfaces.
pub(crate) struct Guard {
    _deputy: Deputy,
}

impl Guard {
    /// Turns the merging of received packets off. This process must have one thread.
    pub(crate) fn start(names: &[&str]) -> Result<Guard, Error> {
        let failed = "read the offloads of an interface";
        let settings: Vec<Settings> = names
            .iter()
            .map(|name| Settings::read(name))
            .collect::<Result<_, _>>()
            .map_err(Error::system(failed))?;
        let restore = |socket| restore_later(socket, &settings);
        let deputy =
            Deputy::start(&[Capability::CAP_NET_ADMIN], restore).map_err(Error::system("start a process"))?;
        settings
            .iter()
            .try_for_each(Settings::change)
            .map_err(Error::system("turn receive offloads off; run as root or with CAP_NET_ADMIN"))?;
        Ok(Guard { _deputy: deputy })
    }
}

/// Waits until the other end of the socket is closed, and restores the settings.
fn restore_later(mut socket: UnixStream, settings: &[Settings]) {
    while matches!(socket.read(&mut [0]), Ok(1..)) {}
    for settings in settings {
        // An interface that has gone has nothing to restore.
        let _ = settings.restore();
    }
}

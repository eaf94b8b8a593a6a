//! Network interfaces and the settings of them that XCP, RCP and TCP Rapid depend on.

use std::io;
use std::process::{Command, Output};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::default::Namespace;
use crate::error::Error;
use crate::features;

/// An Ethernet interface of a network namespace, with the settings that XCP, RCP and TCP Rapid change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number in its network namespace.
    pub index: u32,
    /// The most segments that the kernel hands to it at once (`gso_max_segs`).
    pub segments: u32,
    /// The features by which its NIC computes checksums for packets whose IP header announces TCP only; they
    /// are off while packets carry the congestion header. Named as the kernel names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checksums: Vec<String>,
    /// The offloads that TCP Rapid is to do without. Named as the kernel names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offloads: Vec<String>,
    /// Its network namespace.
    pub namespace: Namespace,
}

impl Interface {
    /// Inspects an interface of this thread's network namespace.
    ///
    /// # Errors
    /// When there is none of this name, or it is not Ethernet.
    pub fn here(name: &str) -> Result<Interface, Error> {
        let found = describe(name, &["dev", name])?.into_iter().next();
        let device = found.ok_or_else(|| error(name, "`ip` does not describe it"))?;
        if !device.is_ethernet() {
            return Err(error(name, "it is not Ethernet"));
        }
        let active = features::active(name).map_err(|reason| error(name, &reason.to_string()))?;
        Ok(Interface {
            name: device.name,
            index: device.index,
            segments: device.segments,
            checksums: features::disturbed(&active),
            offloads: Vec::new(),
            namespace: Namespace::here()?,
        })
    }

    /// Returns the offloads of the interface, which is in this thread's network namespace, that
    /// make one packet of several segments, or several segments of one, and are on: TSO, GSO, GRO
    /// and LRO (`rapid F29`).
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn merging(&self) -> Result<Vec<String>, Error> {
        let active = features::active(&self.name).map_err(|reason| error(&self.name, &reason.to_string()))?;
        Ok(active.into_iter().filter(|name| features::merges(name)).collect())
    }

    /// Refuses an interface that may make its peer stop, as PAUSE frames of time 0 would let it go on.
    pub(crate) fn check_flow_control(&self) -> Result<(), Error> {
        match headway_telemetry::ethtool::holding(&self.name) {
            Ok(found) if found.pauses == [false; 2] => Ok(()),
            Ok(_) => Err(self.error(&format!(
                "its flow control is on, and so may be that of its peer, which PAUSE frames would disturb; \
                 `ethtool -A {} autoneg off rx off tx off` turns it off",
                self.name
            ))),
            Err(reason) => Err(self.error(&reason.to_string())),
        }
    }

    pub(crate) fn error(&self, reason: &str) -> Error {
        error(&self.name, reason)
    }

    /// Returns the names of all Ethernet interfaces of this thread's network namespace that are up.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn all() -> Result<Vec<String>, Error> {
        let devices = describe("", &["up"])?;
        Ok(devices.into_iter().filter(Device::is_ethernet).map(|device| device.name).collect())
    }

    /// Prepares the interface, which is in this thread's network namespace: for packets with the congestion
    /// header single segments, with checksums that the kernel computes unless the NIC finds them there; for
    /// TCP Rapid single segments.
    pub(crate) fn change(&self) -> Result<(), Error> {
        set_segments(&self.name, 1)?;
        let failed = |reason: io::Error| error(&self.name, &format!("cannot turn offloads off ({reason})"));
        features::set(&self.name, &self.offloads, false).map_err(failed)?;
        features::set(&self.name, &self.checksums, false).map_err(failed)?;
        let active = features::active(&self.name).map_err(failed)?;
        let stays_on = |features: &[String]| features.iter().find(|name| active.contains(name)).cloned();
        if let Some(feature) = stays_on(&self.offloads) {
            return Err(error(&self.name, &format!("{feature} stays on; the driver does not turn it off")));
        }
        match stays_on(&self.checksums) {
            None => Ok(()),
            Some(feature) => Err(error(
                &self.name,
                &format!(
                    "its NIC can checksum TCP only behind the IP header, and {feature} stays on; try `ethtool -K {} tx \
                     off`, or take another interface",
                    self.name
                ),
            )),
        }
    }

    /// Sets the interface as it was; it is in this thread's network namespace.
    pub(crate) fn restore(&self) -> Result<(), Error> {
        let features = [&self.checksums[..], &self.offloads[..]].concat();
        let restored = features::set(&self.name, &features, true);
        set_segments(&self.name, self.segments)?;
        restored.map_err(|reason| error(&self.name, &format!("cannot turn offloads on ({reason})")))
    }
}

/// An interface as `ip -json` describes it.
#[derive(Clone, Debug, Deserialize)]
struct Device {
    #[serde(rename = "ifindex")]
    index: u32,
    #[serde(rename = "ifname")]
    name: String,
    #[serde(rename = "link_type")]
    kind: String,
    #[serde(rename = "gso_max_segs")]
    segments: u32,
}

impl Device {
    fn is_ethernet(&self) -> bool {
        self.kind == "ether"
    }
}

fn describe(name: &str, which: &[&str]) -> Result<Vec<Device>, Error> {
    let arguments = [&["-details", "-json", "link", "show"], which].concat();
    let text = ip(name, &arguments)?;
    let all: Result<Vec<Value>, _> = serde_json::from_str(&text);
    let all = all.map_err(|reason| error(name, &format!("`ip` does not describe it ({reason})")))?;
    // `ip` prints empty objects for interfaces that it was not asked for.
    Ok(all.into_iter().filter_map(|device| serde_json::from_value(device).ok()).collect())
}

/// Sets the most segments that the kernel hands to an interface of this thread's network namespace at once.
fn set_segments(interface: &str, segments: u32) -> Result<(), Error> {
    ip(interface, &["link", "set", "dev", interface, "gso_max_segs", &segments.to_string()]).map(|_| ())
}

/// Runs `ip` and returns what it prints.
pub(crate) fn ip(interface: &str, arguments: &[&str]) -> Result<String, Error> {
    // An ordinary user's PATH may lack the folders of system programs.
    for program in ["ip", "/usr/sbin/ip", "/sbin/ip"] {
        match Command::new(program).args(arguments).output() {
            Err(reason) if reason.kind() == io::ErrorKind::NotFound => {}
            Err(reason) => return Err(error(interface, &format!("cannot run `ip` ({reason})"))),
            Ok(Output { status, stdout, .. }) if status.success() => {
                return Ok(String::from_utf8_lossy(&stdout).into_owned());
            }
            Ok(output) => return Err(error(interface, String::from_utf8_lossy(&output.stderr).trim())),
        }
    }
    Err(error(interface, "`ip` is missing; install iproute2"))
}

fn error(interface: &str, reason: &str) -> Error {
    Error::Device { interface: interface.to_owned(), reason: reason.to_owned() }
}

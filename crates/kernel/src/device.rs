//! Network interfaces and the setting of them that XCP and RCP depend on, by `ip` of iproute2.

use std::io;
use std::process::{Command, Output};

use serde::Deserialize;

use crate::error::Error;

/// An interface of this thread's network namespace, as `ip -json` describes it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Device {
    /// Its number.
    #[serde(rename = "ifindex")]
    pub(crate) index: u32,
    /// `ether` for Ethernet.
    #[serde(rename = "link_type")]
    kind: String,
    /// The most segments that the kernel hands to it at once.
    #[serde(rename = "gso_max_segs")]
    pub(crate) segments: u32,
}

impl Device {
    /// Inspects an interface, which must be Ethernet.
    pub(crate) fn of(interface: &str) -> Result<Device, Error> {
        let text = ip(interface, &["-details", "-json", "link", "show", "dev", interface])?;
        let devices: Result<Vec<Device>, _> = serde_json::from_str(&text);
        let unknown = |reason: serde_json::Error| error(interface, &format!("`ip` does not describe it ({reason})"));
        let device = devices.map_err(unknown)?.into_iter().next();
        let device = device.ok_or_else(|| error(interface, "`ip` does not describe it"))?;
        if device.kind != "ether" {
            return Err(error(interface, "it is not Ethernet, and only there the header is inserted"));
        }
        Ok(device)
    }
}

/// Sets the most segments that the kernel hands to an interface of this thread's network namespace at once.
pub(crate) fn set_segments(interface: &str, segments: u32) -> Result<(), Error> {
    ip(interface, &["link", "set", "dev", interface, "gso_max_segs", &segments.to_string()]).map(|_| ())
}

/// Runs `ip` and returns what it prints.
fn ip(interface: &str, arguments: &[&str]) -> Result<String, Error> {
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

//! Where frames to a peer leave this host: the interface, its line, and the next station.

use crate::error::NetError;
use headway_units::{Bytes, Rate, WIRE_OVERHEAD};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use super::packet::Macs;

/// Precedes the rate of a line, in bits per second, in the alias of an interface of a lab
/// (`crates/lab/src/layout.rs`).
const LINE_ALIAS: &str = "headway-line=";

/// The way to the next station.
#[derive(Clone, Debug)]
pub(crate) struct Station {
    pub(crate) interface: u32,
    pub(crate) macs: Macs,
    pub(crate) line: Rate,
    /// Largest frame on the wire.
    pub(crate) largest: Bytes,
}

#[derive(Debug, Deserialize)]
struct Route {
    dev: String,
    gateway: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Link {
    ifindex: u32,
    ifname: String,
    address: Option<String>,
    #[serde(default)]
    link_type: String,
    mtu: u64,
    ifalias: Option<String>,
    linkinfo: Option<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    info_kind: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Neighbour {
    lladdr: Option<String>,
}

impl Station {
    /// Finds the way to `peer`, with which there is a connection.
    ///
    /// # Errors
    /// [`NetError::Frames`] if it leads over no line whose rate is known, or the next station is unknown.
    pub(crate) fn towards(peer: SocketAddr) -> Result<Station, NetError> {
        let unknown = |why: &str| NetError::Frames(format!("to {}: {why}", peer.ip()));
        let route: Route =
            first(&["route", "get", &peer.ip().to_string()])?.ok_or_else(|| unknown("no route"))?;
        let (link, mut station) = Station::describe(&route.dev)?;
        let next = route.gateway.unwrap_or_else(|| peer.ip().to_string());
        let family = if next.parse().is_ok_and(|next: IpAddr| next.is_ipv6()) { "-6" } else { "-4" };
        let neighbour: Option<Neighbour> =
            first(&[family, "neigh", "show", "to", &next, "dev", &link.ifname])?;
        let target = neighbour.and_then(|neighbour| mac(neighbour.lladdr.as_deref()?));
        let refused = |why: &str| NetError::Frames(format!("at {}: {why}", link.ifname));
        station.macs[1] =
            target.ok_or_else(|| refused("the hardware address of the next station is unknown"))?;
        Ok(station)
    }

    /// Finds an interface; the address of the next station is left zero.
    ///
    /// # Errors
    /// [`NetError::Frames`] if it has no line whose rate is known.
    pub(crate) fn at(interface: &str) -> Result<Station, NetError> {
        Ok(Station::describe(interface)?.1)
    }

    fn describe(interface: &str) -> Result<(Link, Station), NetError> {
        let refused = |why: &str| NetError::Frames(format!("at {interface}: {why}"));
        let link: Link =
            first(&["-details", "link", "show", "dev", interface])?.ok_or_else(|| refused("no interface"))?;
        if link.link_type != "ether" {
            return Err(refused("it is not Ethernet"));
        }
        let line = link.line().map_err(|why| refused(&why))?;
        let source = mac(link.address.as_deref().unwrap_or_default());
        let source = source.ok_or_else(|| refused("it has no hardware address"))?;
        let largest = Bytes::new(link.mtu) + WIRE_OVERHEAD;
        let station = Station { interface: link.ifindex, macs: [source, [0; 6]], line, largest };
        Ok((link, station))
    }
}

impl Link {
    /// Returns the rate of the line, or why frames must not be sent into it.
    fn line(&self) -> Result<Rate, String> {
        let alias = self.ifalias.as_deref().and_then(|alias| alias.strip_prefix(LINE_ALIAS));
        if let Some(line) = alias.and_then(|rate| rate.parse().ok()).filter(|bps| *bps > 0) {
            return Ok(Rate::from_bps(line));
        }
        let kind = self.linkinfo.as_ref().and_then(|kind| kind.info_kind.as_deref());
        if let Some(kind) = kind {
            return Err(format!(
                "it is a {kind}, which has no line of its own; in a lab, give the first link `line = \"100 Mb/s\"`"
            ));
        }
        let folder = format!("/sys/class/net/{}", self.ifname);
        let queues = std::fs::read_dir(format!("{folder}/queues")).into_iter().flatten().flatten();
        let queues = queues.filter(|queue| queue.file_name().to_string_lossy().starts_with("tx-")).count();
        if queues > 1 {
            return Err(format!(
                "its {queues} transmit queues may change the order of frames; `ethtool -L {} combined 1` leaves one",
                self.ifname
            ));
        }
        let speed = std::fs::read_to_string(format!("{folder}/speed")).unwrap_or_default();
        let megabits = speed.trim().parse::<u32>().ok().filter(|megabits| (1..=800_000).contains(megabits));
        let rate = megabits.map(|megabits| Rate::from_bps(u64::from(megabits) * 1_000_000));
        rate.ok_or_else(|| "the rate of its line is unknown".to_owned())
    }
}

/// Returns the first thing that `ip` describes.
fn first<T: DeserializeOwned>(arguments: &[&str]) -> Result<Option<T>, NetError> {
    // An ordinary user's PATH may lack the folders of system programs.
    for program in ["ip", "/usr/sbin/ip", "/sbin/ip"] {
        match Command::new(program).arg("-json").args(arguments).output() {
            Err(reason) if reason.kind() == std::io::ErrorKind::NotFound => {}
            Err(reason) => return Err(reason.into()),
            // It prints empty objects for what it was not asked for.
            Ok(output) => {
                let all: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
                return Ok(all.into_iter().find_map(|one| serde_json::from_value(one).ok()));
            }
        }
    }
    Err(NetError::Frames("`ip` is missing; install iproute2".to_owned()))
}

/// Parses a hardware address of Ethernet.
fn mac(text: &str) -> Option<[u8; 6]> {
    let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(kind: Option<&str>, alias: Option<&str>) -> Link {
        Link {
            ifindex: 1,
            ifname: "none0".to_owned(),
            address: None,
            link_type: "ether".to_owned(),
            mtu: 1500,
            ifalias: alias.map(str::to_owned),
            linkinfo: kind.map(|kind| Kind { info_kind: Some(kind.to_owned()) }),
        }
    }

    #[test]
    fn frames_go_only_where_a_line_is_known() {
        assert_eq!(link(Some("veth"), Some("headway-line=100000000")).line(), Ok(Rate::from_mbps(100.0)));
        let refusal = |kind, alias| link(kind, alias).line().expect_err("no line");
        assert!(refusal(Some("veth"), None).contains("a veth, which has no line"));
        assert!(refusal(Some("veth"), Some("headway-line=0")).contains("no line"));
        assert!(refusal(None, Some("uplink")).contains("the rate of its line is unknown"));
    }

    #[test]
    fn hardware_addresses_have_six_bytes() {
        assert_eq!(mac("02:00:00:00:77:fe"), Some([2, 0, 0, 0, 0x77, 0xfe]));
        assert_eq!((mac("02:00:00:00:77"), mac("x"), mac("")), (None, None, None));
    }
}

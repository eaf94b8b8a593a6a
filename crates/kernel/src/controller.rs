//! The available controllers and their options.

use serde::{Deserialize, Serialize};

use crate::default::Namespace;
use headway_arithmetic::rapid::Config;
use headway_units::Prefix;

/// A congestion controller of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    /// LS-AIMD Reno.
    LsReno,
    /// LS-AIMD DCTCP.
    LsDctcp,
    /// Reno with a floor of two segments, as a baseline.
    HwReno,
    /// DCTCP with a floor of two segments, as a baseline.
    HwDctcp,
    /// XCP, with a header in packets.
    Xcp,
    /// RCP, with a header in packets.
    Rcp,
    /// TCP Rapid, whose every packet is a probe.
    Rapid,
}

impl Controller {
    /// All controllers.
    pub const ALL: [Controller; 7] = [
        Controller::LsReno,
        Controller::LsDctcp,
        Controller::HwReno,
        Controller::HwDctcp,
        Controller::Xcp,
        Controller::Rcp,
        Controller::Rapid,
    ];

    /// Returns whether routers tell it how fast to send, so that it also needs programs at interfaces.
    pub fn is_explicit(self) -> bool {
        matches!(self, Controller::Xcp | Controller::Rcp)
    }

    /// Returns its name in the kernel.
    pub fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Returns its name on the command line.
    pub fn command(self) -> &'static str {
        self.names()[1]
    }

    fn names(self) -> [&'static str; 2] {
        match self {
            Controller::LsReno => ["ls_reno", "ls-reno"],
            Controller::LsDctcp => ["ls_dctcp", "ls-dctcp"],
            Controller::HwReno => ["hw_reno", "hw-reno"],
            Controller::HwDctcp => ["hw_dctcp", "hw-dctcp"],
            Controller::Xcp => ["xcp"; 2],
            Controller::Rcp => ["rcp"; 2],
            Controller::Rapid => ["rapid"; 2],
        }
    }

    /// Returns a one-line description.
    pub fn summary(self) -> &'static str {
        match self {
            Controller::LsReno => "LS-AIMD Reno: halves at marks, windows down to a few bytes",
            Controller::LsDctcp => {
                "LS-AIMD DCTCP: reduces by the fraction of marks, windows down to a few bytes"
            }
            Controller::HwReno => "Reno with ECN and a floor of two segments, to compare with",
            Controller::HwDctcp => "DCTCP with a floor of two segments, to compare with",
            Controller::Xcp => "XCP: routers say how much faster or slower to become",
            Controller::Rcp => "RCP: routers say how fast to send",
            Controller::Rapid => "TCP Rapid: sends at the available bandwidth, which every packet probes",
        }
    }

    /// Returns the compiled programs.
    #[cfg(feature = "bpf")]
    pub(crate) fn object(self) -> &'static [u8] {
        match self {
            Controller::LsReno => include_bytes!(concat!(env!("OUT_DIR"), "/ls_reno.bpf.o")),
            Controller::LsDctcp => include_bytes!(concat!(env!("OUT_DIR"), "/ls_dctcp.bpf.o")),
            Controller::HwReno => include_bytes!(concat!(env!("OUT_DIR"), "/hw_reno.bpf.o")),
            Controller::HwDctcp => include_bytes!(concat!(env!("OUT_DIR"), "/hw_dctcp.bpf.o")),
            Controller::Xcp => include_bytes!(concat!(env!("OUT_DIR"), "/xcp.bpf.o")),
            Controller::Rcp => include_bytes!(concat!(env!("OUT_DIR"), "/rcp.bpf.o")),
            Controller::Rapid => include_bytes!(concat!(env!("OUT_DIR"), "/rapid.bpf.o")),
        }
    }
}

/// The options of LS-AIMD (`struct ls_options` in `bpf/ls.bpf.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LsOptions {
    /// The most segments that the receiver acknowledges with one ACK, 1 to 16: below this window segments are
    /// paced one by one.
    pub delta: u32,
    /// Scale C of the increase in units of 2^-16, 1 to 65536; 0 makes it follow the fraction of marks.
    pub scale: u32,
    /// Minimum window in bytes, 1 to 65536.
    pub floor: u32,
}

impl LsOptions {
    /// C = 1.
    pub const SCALE_ONE: u32 = 1 << 16;

    pub(crate) fn to_bytes(self) -> Vec<u8> {
        [self.delta, self.scale, self.floor].iter().flat_map(|value| value.to_ne_bytes()).collect()
    }
}

impl Default for LsOptions {
    fn default() -> LsOptions {
        LsOptions { delta: 2, scale: 0, floor: 2 }
    }
}

/// What carries the congestion header (xcp-rcp 1.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Carrier {
    /// An IP protocol between IP and TCP, which programs at interfaces insert and remove.
    #[default]
    Protocol,
    /// An experimental option of TCP (RFC 6994), which TCP inserts and removes.
    TcpOption,
}

/// The options of XCP and RCP (`struct end_options` in `bpf/end.bpf.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOptions {
    /// The rate that senders ask for in b/s; any if absent.
    pub demand: Option<u64>,
    /// The namespace whose connections may have the header as a TCP option; none if absent.
    pub namespace: Option<Namespace>,
    /// Number of the congestion header as an IP protocol.
    pub protocol: u8,
    /// Whether losses make a sender of XCP Reno for good (xcp-rcp 2.2).
    pub yields: bool,
    /// What carries the header of senders; receivers answer in that of their peer.
    pub carrier: Carrier,
    /// Kind of the header as a TCP option: 253 or 254 (RFC 4727).
    pub kind: u8,
}

impl EndOptions {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let namespace = self.namespace.map_or(0, |namespace| namespace.cookie);
        let carrier = u32::from(self.carrier == Carrier::TcpOption);
        let long = [self.demand.unwrap_or(u64::MAX), namespace];
        let short = [u32::from(self.protocol), u32::from(self.yields), carrier, u32::from(self.kind)];
        let long = long.iter().flat_map(|value| value.to_ne_bytes());
        long.chain(short.iter().flat_map(|value| value.to_ne_bytes())).collect()
    }
}

impl Default for EndOptions {
    /// Any rate, and the numbers for experiments (RFC 3692, RFC 4727).
    fn default() -> EndOptions {
        EndOptions {
            demand: None,
            namespace: None,
            protocol: 253,
            yields: false,
            carrier: Carrier::Protocol,
            kind: 253,
        }
    }
}

/// The options of TCP Rapid (`struct rapid_options` in `bpf/rapid.bpf.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RapidOptions {
    /// For all connections; the unit of stamps must be a microsecond.
    pub config: Config,
    /// Whether a p-stream with lost packets yields an estimate.
    pub bridges_holes: bool,
}

impl RapidOptions {
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.config.to_bytes();
        bytes.extend(u64::from(self.bridges_holes).to_ne_bytes());
        bytes
    }
}

/// Whose ACKs tell when segments have arrived (`struct stamp_options`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StampOptions {
    /// The network namespace.
    pub namespace: Namespace,
    /// The port at this end; any if absent.
    pub port: Option<u16>,
    /// The peers; any if absent.
    pub to: Option<Prefix>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_is_registered_under_the_name_of_its_command() {
        for controller in Controller::ALL {
            assert_eq!(controller.name(), controller.command().replace('-', "_"));
        }
    }
}

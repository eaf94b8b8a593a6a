//! What an instance tells other processes about itself.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::controller::{Controller, EndOptions, LsOptions, StampOptions};
use crate::default::{FormerDefault, Namespace};
use crate::device::Interface;

/// The public data of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// Its process.
    pub pid: u32,
    /// The controller it has loaded.
    pub controller: Controller,
    /// The name under which the controller is registered.
    pub name: String,
    /// The options of LS-AIMD.
    pub options: LsOptions,
    /// What only XCP and RCP have.
    pub ends: Option<Ends>,
    /// What only TCP Rapid has.
    pub rapid: Option<RapidNote>,
    /// Whose ACKs a receiver for TCP Rapid stamps; it has no controller.
    pub stamps: Option<StampOptions>,
    /// The former default, if the instance has changed it.
    pub default: Option<FormerDefault>,
    /// The network namespace in which it was started, noted when it is announced; older notes do not have it.
    pub namespace: Option<Namespace>,
    /// The BPF ID of the map with its counters.
    pub counters_map: u32,
    /// The BPF IDs of its programs.
    pub programs: Vec<u32>,
    /// The BPF ID of the map by which its controller stays registered after the process, as before Linux 6.4.
    #[serde(default)]
    pub registered: Option<u32>,
}

impl Note {
    /// Returns the interfaces that the instance has changed, as they were before.
    pub fn interfaces(&self) -> &[Interface] {
        let of_ends = self.ends.as_ref().map(|ends| &ends.interfaces);
        of_ends.or(self.rapid.as_ref().map(|rapid| &rapid.interfaces)).map_or(&[], Vec::as_slice)
    }
}

/// What an instance of TCP Rapid tells other processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RapidNote {
    /// Its parameters and the rate of the sender's link, as text.
    pub parameters: String,
    /// The interfaces that get single segments, as they were before.
    pub interfaces: Vec<Interface>,
    /// What still merges segments there, by the names of interface and offloads.
    #[serde(default)]
    pub merging: BTreeMap<String, Vec<String>>,
}

/// What an instance of XCP or RCP tells other processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ends {
    /// The options.
    pub options: EndOptions,
    /// Whether it only answers senders, without a controller.
    pub receives_only: bool,
    /// The interfaces whose packets carry the header, as they were before.
    pub interfaces: Vec<Interface>,
}

//! What an instance tells other processes about itself.

use serde::{Deserialize, Serialize};

use crate::controller::{Controller, LsOptions};
use crate::default::FormerDefault;

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
    /// The former default, if the instance has changed it.
    pub default: Option<FormerDefault>,
    /// The BPF ID of the map with its counters.
    pub counters_map: u32,
    /// The BPF IDs of its programs.
    pub programs: Vec<u32>,
}

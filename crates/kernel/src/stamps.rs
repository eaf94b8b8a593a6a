//! Whose ACKs tell a sender of TCP Rapid when segments have arrived.

use headway_units::Prefix;
use serde::{Deserialize, Serialize};

use crate::default::Namespace;

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

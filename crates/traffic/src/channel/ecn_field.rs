//! What a link does to the ECN field of packets.

use serde::{Deserialize, Serialize};

/// What a link does to the ECN field of packets that leave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EcnField {
    /// It stays as it is.
    #[default]
    Keep,
    /// It becomes zero (not ECN-capable), as behind routers that overwrite the whole traffic
    /// class: marks are lost.
    Clear,
}

//! Which controller connections of a network namespace get that ask for none.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use serde::{Deserialize, Serialize};

use crate::error::Error;

const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";
const AVAILABLE: &str = "/proc/sys/net/ipv4/tcp_available_congestion_control";
/// Of the thread, as threads of one process may be in different namespaces.
const NAMESPACE: &str = "/proc/thread-self/ns/net";

/// What the default of a network namespace was before it was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormerDefault {
    /// The controller that was the default.
    pub former: String,
    /// The number of the network namespace, as in `/proc/PID/ns/net`.
    pub namespace: u64,
}

impl FormerDefault {
    /// What is the default here and now, before it is changed.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn here() -> Result<FormerDefault, Error> {
        Ok(FormerDefault { former: current_default()?, namespace: namespace()? })
    }

    /// Makes the former controller the default again, unless it is not `name` any more: then somebody else has decided.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn restore(&self, name: &str) -> Result<(), Error> {
        if self.holds(name)? { set_default(&self.former) } else { Ok(()) }
    }

    /// Whether `name` is the default in the namespace that this is about, and that is the one we are in.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn holds(&self, name: &str) -> Result<bool, Error> {
        Ok(self.namespace == namespace()? && current_default()? == name)
    }
}

/// Makes `name` the default of this network namespace.
///
/// # Errors
/// When the kernel refuses.
pub fn set_default(name: &str) -> Result<(), Error> {
    fs::write(DEFAULT, name).map_err(Error::file("write to", DEFAULT))
}

/// The default of this network namespace.
///
/// # Errors
/// When the kernel does not tell.
pub fn current_default() -> Result<String, Error> {
    let text = fs::read_to_string(DEFAULT).map_err(Error::file("read", DEFAULT))?;
    Ok(text.trim().to_owned())
}

/// The names of all registered controllers.
///
/// # Errors
/// When the kernel does not tell.
pub fn available() -> Result<Vec<String>, Error> {
    let text = fs::read_to_string(AVAILABLE).map_err(Error::file("read", AVAILABLE))?;
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

/// The number of this network namespace.
pub(crate) fn namespace() -> Result<u64, Error> {
    let metadata = fs::metadata(NAMESPACE).map_err(Error::file("look at", NAMESPACE))?;
    Ok(metadata.ino())
}

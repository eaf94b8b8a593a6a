//! Network namespaces with a name (`ip netns`), in which paths may begin.

use std::fs::File;
use std::io;
use std::path::Path;

use nix::sched::{CloneFlags, setns};
use serde::Deserialize;

/// Where `ip netns` keeps them.
const FOLDER: &str = "/run/netns";

/// The name of a network namespace. It may go, and another come in its place.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(super) struct Namespace(String);

impl Namespace {
    /// Whether a name can be one.
    pub(super) fn is_valid(&self) -> bool {
        !matches!(self.0.as_str(), "" | "." | "..") && !self.0.contains(['/', '\0']) && self.0.len() < 256
    }

    /// Enters it with this thread, and the threads that it will start.
    ///
    /// # Errors
    /// When there is none of the name, or this process may not enter it.
    pub(super) fn enter(&self) -> io::Result<()> {
        setns(File::open(Path::new(FOLDER).join(&self.0))?, CloneFlags::CLONE_NEWNET)?;
        Ok(())
    }

    /// Says that it cannot be entered.
    pub(super) fn failed(&self, error: &io::Error) -> String {
        format!("the network namespace {} cannot be entered ({error})", self.0)
    }
}

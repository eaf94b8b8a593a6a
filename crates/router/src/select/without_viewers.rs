//! What stands for the server of programs in a build without it.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;
use headway_select::DecisionState;

use super::Options;
use super::state::{State, Timed};

/// Nowhere.
pub(super) struct Doors;

impl Doors {
    #[allow(clippy::unnecessary_wraps, reason = "as with a server")]
    pub(super) fn open(_options: &Options) -> Result<Doors> {
        Ok(Doors)
    }

    #[allow(clippy::unused_self, reason = "as with a server")]
    pub(super) fn path(&self) -> Option<&Path> {
        None
    }
}

/// No server.
pub(super) struct Viewers;

impl Viewers {
    #[allow(clippy::unnecessary_wraps, reason = "as with a server")]
    pub(super) fn start(_doors: Doors, _state: &State) -> Result<Viewers> {
        Ok(Viewers)
    }

    #[allow(clippy::unused_self, reason = "as with a server")]
    pub(super) fn address(&self) -> Option<SocketAddr> {
        None
    }

    #[allow(clippy::unused_self, reason = "as with a server")]
    pub(super) fn refresh(&self, _state: impl FnOnce() -> State) {}

    #[allow(clippy::unused_self, reason = "as with a server")]
    pub(super) fn publish(&self, _state: &State, _decisions: &[Timed<DecisionState>]) {}
}

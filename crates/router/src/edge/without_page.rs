//! What stands for the page in a build without it.

use std::net::SocketAddr;

use anyhow::Result;
use headway_edge::snapshot::Snapshot;

use super::Options;

/// No page.
pub(super) struct Plan;

impl Plan {
    #[allow(clippy::unnecessary_wraps, reason = "as with a page")]
    pub(super) fn new(_options: &Options) -> Result<Plan> {
        Ok(Plan)
    }

    #[allow(clippy::unnecessary_wraps, clippy::unused_self, reason = "as with a page")]
    pub(super) fn start(self) -> Result<Page> {
        Ok(Page)
    }
}

/// No page.
pub(super) struct Page;

impl Page {
    #[allow(clippy::unused_self, reason = "as with a page")]
    pub(super) fn address(&self) -> Option<SocketAddr> {
        None
    }

    #[allow(clippy::unused_self, reason = "as with a page")]
    pub(super) fn publish(&self, _snapshot: &Snapshot) {}
}

//! The page of an edge.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use headway_edge::snapshot::Snapshot;
use headway_history::Reader;
use headway_web::{Server, Token};

use super::Options;

/// What is needed to start a page, opened while the privileges are there: the history may be a file of root.
pub(super) struct Plan {
    listen: Option<(SocketAddr, Option<Token>)>,
    history: Option<Reader>,
}

impl Plan {
    /// With the history to show, if there is one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn new(options: &Options) -> Result<Plan> {
        let history = options.page.as_ref().and(options.history.as_deref()).map(Reader::open).transpose()?;
        Ok(Plan { listen: options.page.clone(), history })
    }

    /// Starts the page, if there is to be one, with the privileges that this thread has now.
    ///
    /// # Errors
    /// When others can reach the address and there is no token, or it cannot be had.
    pub(super) fn start(self) -> Result<Page> {
        let Some((address, token)) = self.listen else { return Ok(Page(None)) };
        let server = Server::start(address, token, self.history);
        let server = server.with_context(|| match address.port() {
            1..1024 => {
                format!("no page at {address}: ports below 1024 need root, which the edge has given up")
            }
            _ => format!(
                "no page at {address}: `--page-token-file` names a token for it alone, `--page ADDRESS` another address"
            ),
        })?;
        Ok(Page(Some(server)))
    }
}

/// A page, or none.
pub(super) struct Page(Option<Server>);

impl Page {
    /// Returns its address.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.0.as_ref().map(Server::address)
    }

    /// Shows a snapshot.
    pub(super) fn publish(&self, snapshot: &Snapshot) {
        if let Some(server) = &self.0 {
            server.publish(snapshot);
        }
    }
}

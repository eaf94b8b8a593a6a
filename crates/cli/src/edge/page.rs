//! The page of an edge.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use headway_edge::snapshot::Snapshot;
use headway_web::{Server, Token};

use super::EdgeArgs;

/// What is needed to start a page, read while the privileges are there: the token may be in a file of root.
pub(super) struct Plan(Option<(SocketAddr, Option<Token>)>);

impl Plan {
    /// # Errors
    /// When the token cannot be read, or is that of measurements.
    pub(super) fn new(args: &EdgeArgs) -> Result<Plan> {
        let Some(address) = args.page else { return Ok(Plan(None)) };
        let file = args.page_token_file.as_deref();
        let token = file.map(|file| crate::token::in_plain_text(file, None)).transpose()?;
        Ok(Plan(Some((address, token.as_deref().map(Token::new)))))
    }

    /// Starts the page, if there is to be one, with the privileges that this thread has now.
    ///
    /// # Errors
    /// When others can reach the address and there is no token, or it cannot be had.
    pub(super) fn start(self) -> Result<Page> {
        let Some((address, token)) = self.0 else { return Ok(Page(None)) };
        let server = Server::start(address, token);
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

//! The page of an edge.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context as _, Result};
use headway_edge::snapshot::Snapshot;
use headway_history::Reader;
use headway_web::{Server, Token};

use super::EdgeArgs;

/// What is needed to start a page, read while the privileges are there: the token and the history may be in files of root.
pub(super) struct Plan {
    listen: Option<(SocketAddr, Option<Token>)>,
    history: Option<Reader>,
}

impl Plan {
    /// # Errors
    /// When the token cannot be read, or is that of measurements.
    pub(super) fn new(args: &EdgeArgs) -> Result<Plan> {
        let Some(address) = args.page else { return Ok(Plan { listen: None, history: None }) };
        let file = args.page_token_file.as_deref();
        let token = file.map(|file| crate::token::in_plain_text(file, None)).transpose()?;
        Ok(Plan { listen: Some((address, token.as_deref().map(Token::new))), history: None })
    }

    /// Takes a history to show, if there is to be a page.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn with_history(self, history: &Path) -> Result<Plan> {
        let history = self.listen.as_ref().map(|_| Reader::open(history)).transpose()?;
        Ok(Plan { history, ..self })
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

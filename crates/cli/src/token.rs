//! The shared token of server and clients.

use std::path::Path;

use anyhow::{Context, Result, bail};
use headway_net::Token;

/// The environment variable that may hold the token.
const TOKEN_VARIABLE: &str = "HEADWAY_TOKEN";

/// The shortest token accepted, in bytes: a listener can try tokens against a proof, so short ones would be found.
const SHORTEST_TOKEN: usize = 16;

/// The token from a file or the environment; a file's trailing white space does not count.
pub(crate) fn read(file: Option<&Path>) -> Result<Option<Token>> {
    let text = match file {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the token from {}", path.display()))?,
        None => match std::env::var(TOKEN_VARIABLE) {
            Ok(text) => text,
            Err(_) => return Ok(None),
        },
    };
    let text = text.trim();
    if text.len() < SHORTEST_TOKEN {
        bail!("the token has {} characters; take at least {SHORTEST_TOKEN} random ones", text.len());
    }
    Ok(Some(Token::new(text)))
}

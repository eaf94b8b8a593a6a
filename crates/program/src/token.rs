//! The token shared by server and clients.

use std::env::VarError;
use std::path::Path;

use anyhow::{Context, Result, bail};
use headway_net::Token;

/// The environment variable that may hold the token.
const TOKEN_VARIABLE: &str = "HEADWAY_TOKEN";

/// Minimum token length, in bytes: short tokens could be found by trying them against a captured proof.
const MIN_TOKEN_LENGTH: usize = 16;

/// Maximum size of the token file, in bytes: plenty for a token, and safe for endless devices.
const MAX_FILE_SIZE: u64 = 4096;

/// Reads the token from a file or the environment, and trims white space around it.
///
/// # Errors
/// If it cannot be read, or is too short.
pub fn read(file: Option<&Path>) -> Result<Option<Token>> {
    let text = match file {
        Some(path) => return from_file(path).map(|text| Some(Token::new(text))),
        None => match std::env::var(TOKEN_VARIABLE) {
            Ok(text) => text,
            Err(VarError::NotPresent) => return Ok(None),
            // Treating this as no token would open the server to everybody.
            Err(VarError::NotUnicode(_)) => bail!("the variable {TOKEN_VARIABLE} is not valid UTF-8"),
        },
    };
    parse(&text).map(Some)
}

/// Reads the token of a page or of metrics, which browsers send in plain text; so it must not be that of
/// measurements, which never crosses the network, in `measurements` or the environment.
///
/// # Errors
/// If it is that one, cannot be read, or is too short.
pub fn in_plain_text(file: &Path, measurements: Option<&Path>) -> Result<String> {
    let token = from_file(file)?;
    let other = match measurements {
        // It has been read before; a pipe that is empty now has nothing to say.
        Some(path) => from_file(path).ok(),
        None => std::env::var(TOKEN_VARIABLE).ok(),
    };
    if other.is_some_and(|other| other.trim() == token) {
        bail!(
            "{} has the token of measurements, and viewers would send it in plain text; put another token there",
            file.display()
        );
    }
    Ok(token)
}

fn from_file(path: &Path) -> Result<String> {
    let text = read_file(path).with_context(|| format!("cannot read the token from {}", path.display()))?;
    trim(&text).map(str::to_owned)
}

/// Makes a token of a text, of which enough must be left without white space around it.
///
/// # Errors
/// If too little is left.
pub fn parse(text: &str) -> Result<Token> {
    trim(text).map(Token::new)
}

/// Trims white space and checks that enough is left.
fn trim(text: &str) -> Result<&str> {
    let text = text.trim();
    if text.len() < MIN_TOKEN_LENGTH {
        bail!("the token has {} characters; use at least {MIN_TOKEN_LENGTH} random ones", text.len());
    }
    Ok(text)
}

fn read_file(path: &Path) -> Result<String> {
    let bytes = headway_input::secret(path, MAX_FILE_SIZE)?;
    String::from_utf8(bytes).context("it is not UTF-8 text")
}

//! Which build of the program this is.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

/// The version and the commit, such as `0.1.0 (1f2e3d4c5b6a)`, with `-dirty` behind a commit from which files differ; only
/// the version if the source was no checkout.
pub(crate) const BUILD: &str = env!("HEADWAY_BUILD");

/// A result with the build that made it.
#[derive(Serialize)]
pub(crate) struct Stamped<T> {
    build: &'static str,
    #[serde(flatten)]
    result: T,
}

/// Adds the build to a result, which must be an object.
pub(crate) fn stamped<T: Serialize>(result: T) -> Stamped<T> {
    Stamped { build: BUILD, result }
}

/// Returns a text that no other build shares. Where the commit does not tell, that takes a hash of the program.
///
/// # Errors
/// If the program's own file cannot be read.
pub(crate) fn identity() -> Result<String> {
    if is_exact(BUILD) {
        return Ok(BUILD.to_owned());
    }
    let program = std::fs::read("/proc/self/exe").context("cannot read this program's file")?;
    let mut text = format!("{BUILD}, program ");
    for byte in Sha256::digest(program).iter().take(8) {
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

/// Whether the text names a commit from which nothing differs.
fn is_exact(build: &str) -> bool {
    build.ends_with(')') && !build.ends_with("-dirty)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unchanged_commit_says_which_build_it_is() {
        assert!(is_exact("0.1.0 (1f2e3d4c5b6a)") && is_exact("0.1.0 (v0.1.0-3-g1f2e3d4c5b6a)"));
        assert!(!is_exact("0.1.0 (1f2e3d4c5b6a-dirty)") && !is_exact("0.1.0"));
        assert!(BUILD.starts_with(env!("CARGO_PKG_VERSION")));
        assert_eq!(identity().expect("readable"), identity().expect("readable"));
    }

    #[test]
    fn a_result_keeps_its_keys_beside_the_build() {
        let value = serde_json::to_value(stamped(serde_json::json!({ "rate_bps": 7 }))).expect("an object");
        assert_eq!(value, serde_json::json!({ "build": BUILD, "rate_bps": 7 }));
    }
}

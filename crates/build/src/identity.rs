//! What tells the results of one build from those of another.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

use crate::BUILD;

/// Returns a text that no other build of this program shares. Where the commit does not tell,
/// that takes a hash of it.
///
/// # Errors
/// If the program's own file cannot be read.
pub fn identity() -> Result<String> {
    identity_of(Path::new("/proc/self/exe"))
}

/// Returns a text that no other build of the program or library in this file shares, of which
/// this crate is a part.
///
/// # Errors
/// If the file cannot be read.
pub fn identity_of(file: &Path) -> Result<String> {
    if is_exact(BUILD) {
        return Ok(BUILD.to_owned());
    }
    let program = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
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
        assert_eq!(identity().expect("readable"), identity().expect("readable"));
    }
}

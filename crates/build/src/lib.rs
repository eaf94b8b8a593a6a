//! Which build of the program this is.

mod identity;

pub use identity::{identity, identity_of};

use serde::Serialize;

/// The version and the commit, such as `0.1.0 (1f2e3d4c5b6a)`, with `-dirty` behind a commit from which files
/// differ; only the version if the source was no checkout.
pub const BUILD: &str = env!("HEADWAY_BUILD");

/// A result with the build that made it.
#[derive(Serialize)]
pub struct Stamped<T> {
    build: &'static str,
    #[serde(flatten)]
    result: T,
}

/// Adds the build to a result, which must be an object.
pub fn stamped<T: Serialize>(result: T) -> Stamped<T> {
    Stamped { build: BUILD, result }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_begins_with_the_version() {
        assert!(BUILD.starts_with(env!("CARGO_PKG_VERSION")));
    }

    #[test]
    fn a_result_keeps_its_keys_beside_the_build() {
        let value = serde_json::to_value(stamped(serde_json::json!({ "rate_bps": 7 }))).expect("an object");
        assert_eq!(value, serde_json::json!({ "build": BUILD, "rate_bps": 7 }));
    }
}

//! Feeds the parsers of all crates with the corpora of `make fuzz`: inputs that reach much of them, and those
//! that once made one fail.

#![allow(clippy::unwrap_used, reason = "a failed assumption is a failed test, also in helpers")]

#[path = "../../../fuzz/src/parsers.rs"]
#[allow(unreachable_pub, reason = "the targets of `cargo fuzz` are another crate")]
mod parsers;

use std::panic::catch_unwind;
use std::path::Path;

use headway_program::token;

#[test]
fn no_input_of_the_corpora_makes_a_parser_panic() {
    for (name, parse) in parsers::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
        let files = folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut inputs = 0;
        for file in files {
            let path = file.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            assert!(catch_unwind(|| parse(&bytes)).is_ok(), "{}", path.display());
            inputs += 1;
        }
        assert!(inputs > 0, "{name} has no corpus");
    }
}

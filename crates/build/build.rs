//! Tells the program which build it is: the version, and what `git describe` says where the
//! source is a checkout.
//!
//! Only this crate is built again when that changes. Without Git, or in an archive of the
//! source, the version is all.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of the commit, as many wherever it is built.
const DIGITS: &str = "--abbrev=12";

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let build = match describe(&root) {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=HEADWAY_BUILD={build}");
}

/// Describes the commit, with `-dirty` behind it if files differ from it, and asks to be run again
/// when that may change.
fn describe(root: &Path) -> Option<String> {
    // An archive may have been unpacked within the checkout of something else.
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if Path::new(&top).canonicalize().ok()? != root.canonicalize().ok()? {
        return None;
    }
    let branch = git(root, &["rev-parse", "--symbolic-full-name", "HEAD"]).unwrap_or_default();
    for file in ["HEAD", "logs/HEAD", "packed-refs", &branch] {
        let path = git(root, &["rev-parse", "--git-path", file]).map(|path| root.join(path));
        path.iter().for_each(|path| watch(path));
    }
    let crates = std::fs::read_dir(root.join("crates")).ok()?.flatten();
    let parts = ["src", "build.rs", "bpf", "c", "linux"];
    let sources = crates.flat_map(|one| parts.map(|part| one.path().join(part)));
    let others = ["papers", "Cargo.toml", "Cargo.lock"].map(|name| root.join(name));
    sources.chain(others).for_each(|path: PathBuf| watch(&path));
    git(root, &["describe", "--always", "--dirty", DIGITS])
}

/// Asks to be run again when this file, or a file in this folder, changes. One that does not
/// exist would always have.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

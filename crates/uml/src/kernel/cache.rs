//! The cache of kernels and the names in it.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::{BuildError, Kernel, Options};
use crate::own_lock;

/// Our patch of the kernel.
pub(super) const PATCH: &str = include_str!("../../linux/headway.patch");
/// The configuration fragment of every kernel.
pub(super) const CONFIG: &str = include_str!("../../linux/headway.config");
/// The additional configuration fragment of debug kernels.
pub(super) const DEBUG: &str = include_str!("../../linux/debug.config");

/// The kernel binary, in the kernel's directory.
pub(super) const BINARY: &str = "linux";
/// The source tree for building modules, in the kernel's directory.
pub(super) const TREE: &str = "tree";
/// Prefix of directories that are not complete yet or are to be removed.
pub(super) const UNFINISHED: &str = "unfinished-";
/// The lock file in the directory of kernels, held while building or removing.
const LOCK: &str = "lock";
/// How often a waiting build retries the lock.
const LOCK_RETRY: Duration = Duration::from_millis(200);

/// What [`clean`] removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// Number of finished kernels.
    pub kernels: usize,
    /// Disk space of everything removed, in bytes.
    pub bytes: u64,
}

/// `$HEADWAY_CACHE`, else `$XDG_CACHE_HOME/headway`, else `~/.cache/headway`; `None`
/// without a home directory.
pub fn default_cache() -> Option<PathBuf> {
    default_in(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

fn default_in(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let own = variable("HEADWAY_CACHE").map(PathBuf::from);
    own.or_else(|| variable("XDG_CACHE_HOME").map(|folder| Path::new(&folder).join("headway")))
        .or_else(|| variable("HOME").map(|home| Path::new(&home).join(".cache/headway")))
}

/// The directory of all kernels.
pub(super) fn folder(cache: &Path) -> PathBuf {
    cache.join("kernel")
}

/// The log of the last build's output.
pub(super) fn log(cache: &Path) -> PathBuf {
    folder(cache).join("build.log")
}

/// The suffix of a kernel's name: a hash of our patch and configuration.
pub(super) fn suffix(debug: bool) -> String {
    suffix_of(PATCH, if debug { &[CONFIG, DEBUG] } else { &[CONFIG] }, debug)
}

fn suffix_of(patch: &str, fragments: &[&str], debug: bool) -> String {
    let mut hash = Sha256::new();
    for text in std::iter::once(&patch).chain(fragments) {
        // Hashing the length makes a text that moves from one file to the next change the hash.
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    format!("-{}{}", hex(&hash.finalize(), 6), if debug { "-debug" } else { "" })
}

/// Returns the first `bytes` bytes of a hash in hexadecimal.
pub(super) fn hex(hash: &[u8], bytes: usize) -> String {
    hash.iter().take(bytes).map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the newest finished kernel with our patch and configuration.
pub(super) fn newest(options: &Options) -> Option<Kernel> {
    let suffix = suffix(options.debug);
    let entries = std::fs::read_dir(folder(&options.cache)).ok()?;
    entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.strip_suffix(&suffix)?.to_owned();
            let kernel = Kernel { version, folder: entry.path() };
            (!kernel.version.starts_with(UNFINISHED) && kernel.binary().is_file()).then_some(kernel)
        })
        .max_by_key(|kernel| (order(&kernel.version), kernel.version.clone()))
}

/// The numbers in a version, which sort the versions of one package.
fn order(version: &str) -> Vec<u64> {
    version.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}

/// Takes the lock, held until dropped; calls `waiting` once if somebody else holds it.
pub(super) fn lock(
    folder: &Path,
    interrupted: &AtomicBool,
    waiting: &mut dyn FnMut(),
) -> Result<File, BuildError> {
    if let Some(lock) = try_lock(folder)? {
        return Ok(lock);
    }
    waiting();
    while !interrupted.load(Ordering::Relaxed) {
        std::thread::sleep(LOCK_RETRY);
        if let Some(lock) = try_lock(folder)? {
            return Ok(lock);
        }
    }
    Err(BuildError::Interrupted)
}

/// Takes the lock; `None` if somebody else holds it.
fn try_lock(folder: &Path) -> Result<Option<File>, BuildError> {
    std::fs::create_dir_all(folder).map_err(BuildError::file("make the folder", folder))?;
    let path = folder.join(LOCK);
    let file = own_lock::open(&path).map_err(BuildError::file("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(reason)) => Err(BuildError::File { what: "lock", path, reason }),
    }
}

/// Removes what killed builds left behind; call with the lock held.
pub(super) fn sweep(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            // A leftover that cannot be removed now is harmless; the next build tries again.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes all kernels and everything else kept for building them.
pub fn clean(cache: &Path) -> Result<Cleaned, BuildError> {
    let folder = folder(cache);
    let mut cleaned = Cleaned { kernels: 0, bytes: 0 };
    if !folder.is_dir() {
        return Ok(cleaned);
    }
    let Some(_lock) = try_lock(&folder)? else { return Err(BuildError::Busy { path: folder }) };
    for entry in std::fs::read_dir(&folder).map_err(BuildError::file("read", &folder))?.flatten() {
        let path = entry.path();
        if entry.file_name() == LOCK {
            continue;
        }
        cleaned.bytes += size(&path);
        let finished =
            !entry.file_name().to_string_lossy().starts_with(UNFINISHED) && path.join(BINARY).is_file();
        cleaned.kernels += usize::from(finished);
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.map_err(BuildError::file("remove", &path))?;
    }
    Ok(cleaned)
}

/// Returns the disk space of a file or directory, in bytes.
fn size(path: &Path) -> u64 {
    let Ok(data) = std::fs::symlink_metadata(path) else { return 0 };
    let own = data.blocks() * 512;
    if !data.is_dir() {
        return own;
    }
    let inside = std::fs::read_dir(path).into_iter().flatten().flatten();
    own + inside.map(|entry| size(&entry.path())).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(cache: &Path) -> Options {
        Options { debug: false, cache: cache.to_owned() }
    }

    fn keep(cache: &Path, name: &str) {
        let kernel = folder(cache).join(name);
        std::fs::create_dir_all(&kernel).expect("a folder");
        std::fs::write(kernel.join(BINARY), "").expect("a file");
    }

    #[test]
    fn another_patch_configuration_or_debug_is_another_kernel() {
        let one = suffix_of("patch", &["config"], false);
        assert_eq!(one, suffix_of("patch", &["config"], false));
        for other in [
            suffix_of("patch2", &["config"], false),
            suffix_of("patch", &["config2"], false),
            suffix_of("patchc", &["onfig"], false),
            suffix_of("patch", &["config", "debug"], true),
        ] {
            assert_ne!(one, other);
        }
    }

    #[test]
    fn the_newest_version_with_our_hash_is_found() {
        let cache = tempfile::tempdir().expect("a folder");
        assert_eq!(Kernel::cached(&options(cache.path())), None);
        let suffix = suffix(false);
        for version in ["6.12.9-1", "6.12.117-1~deb12u1", "6.12.48-1"] {
            keep(cache.path(), &format!("{version}{suffix}"));
        }
        keep(cache.path(), "6.13.1-1-0123456789ab");
        keep(cache.path(), &format!("6.12.200-1{}", super::suffix(true)));
        let kernel = Kernel::cached(&options(cache.path())).expect("three are kept");
        assert_eq!(kernel.version, "6.12.117-1~deb12u1");
        assert!(kernel.binary().is_file());
    }

    #[test]
    fn an_unfinished_build_is_not_taken_for_a_kernel_and_is_swept_away() {
        let cache = tempfile::tempdir().expect("a folder");
        let folder = folder(cache.path());
        keep(cache.path(), &format!("{UNFINISHED}6.12.1-1{}", suffix(false)));
        std::fs::create_dir_all(folder.join(format!("6.12.1-1{}", suffix(false)))).expect("a folder");
        assert_eq!(Kernel::cached(&options(cache.path())), None);
        sweep(&folder);
        assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 1);
    }

    #[test]
    fn cleaning_tells_what_it_removed_and_leaves_a_running_build_alone() {
        let cache = tempfile::tempdir().expect("a folder");
        assert_eq!(clean(cache.path()).expect("nothing to do"), Cleaned { kernels: 0, bytes: 0 });
        keep(cache.path(), "6.12.1-1-abc");
        std::fs::write(folder(cache.path()).join("6.12.1-1-abc").join("x"), [1; 10_000]).expect("a file");
        let held = try_lock(&folder(cache.path())).expect("a folder").expect("nobody has it");
        assert!(matches!(clean(cache.path()), Err(BuildError::Busy { .. })));
        drop(held);
        let cleaned = clean(cache.path()).expect("the lock is free");
        assert_eq!(cleaned.kernels, 1);
        assert!(cleaned.bytes >= 10_000);
        assert!(!folder(cache.path()).join("6.12.1-1-abc").exists());
    }

    #[test]
    fn the_cache_lies_where_the_user_says_or_where_caches_lie() {
        let with = |set: &'static [(&str, &str)]| {
            default_in(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        assert_eq!(with(&[("HEADWAY_CACHE", "/a"), ("HOME", "/h")]), Some("/a".into()));
        assert_eq!(with(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]), Some("/x/headway".into()));
        assert_eq!(with(&[("HOME", "/h")]), Some("/h/.cache/headway".into()));
        assert_eq!(with(&[]), None);
    }
}

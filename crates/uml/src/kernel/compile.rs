//! Compiles the kernel and prunes the tree.

use std::path::Path;
use std::process::Command;

use super::command::{Runner, program};
use super::{BuildError, Options, Phase, Progress, cache, tools};

/// Lines that a whole compilation prints, without and with debugging; only for the progress display.
const OBJECTS: [u64; 2] = [1_438, 1_560];

/// Returns a `make` command for a kernel tree, with everything fixed that would make two builds differ.
pub(super) fn make(tree: &Path) -> Command {
    let mut command = program("make", tree);
    command.args(["ARCH=um", "KBUILD_BUILD_USER=headway", "KBUILD_BUILD_HOST=headway"]);
    command.args([
        "KBUILD_BUILD_VERSION=1",
        "LOCALVERSION=",
        "KBUILD_BUILD_TIMESTAMP=Thu Jan  1 00:00:00 UTC 2026",
    ]);
    // Whatever compilers happen to be installed would be recorded in the configuration, and so in the kernel.
    command.args(["RUSTC=none", "PAHOLE=none"]);
    command
}

/// Compiles the configured tree; the kernel is then `folder`/linux.
pub(super) fn compile(
    runner: &mut Runner<'_>,
    options: &Options,
    version: &str,
    folder: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), BuildError> {
    let tree = folder.join(cache::TREE);
    let mut command = make(&tree);
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    command.arg(format!("-j{jobs}"));
    if tools::has(&std::env::var_os("PATH").unwrap_or_default(), "ccache") {
        command.args(["CC=ccache gcc", "HOSTCC=ccache gcc"]);
        if std::env::var_os("CCACHE_DIR").is_none() {
            // The default is in the home directory, which a service's user may not have.
            command.env("CCACHE_DIR", cache::folder(&options.cache).join("ccache"));
        }
    }
    let mut tell = |done: u64| {
        progress(Progress {
            phase: Phase::Compile,
            done,
            total: OBJECTS[usize::from(options.debug)].max(done),
        });
    };
    let mut done = 0;
    tell(done);
    let ended = runner.run(command, &mut |line| {
        if line.is_some_and(object) {
            done += 1;
            tell(done);
        }
    })?;
    let (built, kept) = (tree.join("linux"), folder.join(cache::BINARY));
    if !ended.success || !built.is_file() {
        let log = cache::log(&options.cache);
        return Err(BuildError::Compile { version: version.to_owned(), said: ended.errors(), log });
    }
    std::fs::rename(&built, &kept).map_err(BuildError::file("write", &kept))?;
    prune(&tree)
}

/// Whether a line of `make` output reports one more file, like `  CC      net/core/dev.o`.
fn object(line: &str) -> bool {
    line.strip_prefix("  ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Directories of the tree that are needed to build modules.
const KEPT: [&str; 3] = ["arch", "include", "scripts"];
/// Files of the tree that are needed to build modules.
const FILES: [&str; 6] = [".config", "COPYING", "Kbuild", "Kconfig", "Makefile", "Module.symvers"];
/// Architectures whose headers and rules User Mode Linux uses.
const ARCHITECTURES: [&str; 2] = ["um", "x86"];

/// Removes everything that modules do not need: nine tenths of the tree.
fn prune(tree: &Path) -> Result<(), BuildError> {
    for entry in std::fs::read_dir(tree).map_err(BuildError::file("read", tree))?.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() {
            if KEPT.iter().all(|kept| name != *kept) {
                std::fs::remove_dir_all(&path).map_err(BuildError::file("remove", &path))?;
            }
        } else if FILES.iter().all(|kept| name != *kept) {
            std::fs::remove_file(&path).map_err(BuildError::file("remove", &path))?;
        }
    }
    let arch = tree.join("arch");
    for entry in std::fs::read_dir(&arch).map_err(BuildError::file("read", &arch))?.flatten() {
        let path = entry.path();
        if path.is_dir() && ARCHITECTURES.iter().all(|kept| entry.file_name() != *kept) {
            std::fs::remove_dir_all(&path).map_err(BuildError::file("remove", &path))?;
        }
    }
    strip(&arch)
}

/// Removes sources and objects below `folder`; headers and rules remain.
fn strip(folder: &Path) -> Result<(), BuildError> {
    for entry in std::fs::read_dir(folder).map_err(BuildError::file("read", folder))?.flatten() {
        let path = entry.path();
        let kind = entry.file_type().map_err(BuildError::file("read", &path))?;
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if kind.is_dir() {
            strip(&path)?;
        } else if ["c", "S", "o", "a", "cmd", "dts", "dtsi"].contains(&ending) {
            std::fs::remove_file(&path).map_err(BuildError::file("remove", &path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_tell_of_a_file_are_counted() {
        assert!(object("  CC      net/core/dev.o"));
        assert!(object("  HOSTCC  scripts/basic/fixdep"));
        for other in ["make[1]: Entering directory", "net/core/dev.c:1:2: warning: x", "      | ^~~", ""] {
            assert!(!object(other), "{other}");
        }
    }
}

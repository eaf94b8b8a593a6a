//! A complete build: the lock, all phases, and the rename that publishes the result.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::command::Runner;
use super::{BuildError, Kernel, Options, Phase, Progress, cache, compile, configure, fetch, source, tools};

/// Of the architectures that Headway is built for, User Mode Linux has only this one.
const ARCHITECTURE: &str = "x86_64";

/// Builds a kernel from Debian's newest package. Returns the cached kernel if there is one by the time the
/// lock is free, unless `force` is set.
pub(super) fn build(
    options: &Options,
    force: bool,
    progress: &mut dyn FnMut(Progress),
    interrupted: &AtomicBool,
) -> Result<Kernel, BuildError> {
    if std::env::consts::ARCH != ARCHITECTURE {
        return Err(BuildError::Architecture);
    }
    tools::check()?;
    let options = &Options { cache: usable(&options.cache)?, ..*options };
    let folder = cache::folder(&options.cache);
    let _lock = cache::lock(&folder, interrupted, &mut || {
        progress(Progress { phase: Phase::Wait, done: 0, total: 0 });
    })?;
    cache::sweep(&folder);
    if let Some(kernel) = Kernel::cached(options).filter(|_| !force) {
        return Ok(kernel);
    }
    // Dropped unless the build succeeds, which removes everything built so far.
    let work = tempfile::Builder::new()
        .prefix(cache::UNFINISHED)
        .tempdir_in(&folder)
        .map_err(BuildError::file("make a folder in", &folder))?;
    let mut runner = Runner::new(&cache::log(&options.cache), interrupted)?;
    let package = fetch::fetch(&mut runner, work.path(), progress)?;
    let version = &package.version;
    let done = work.path().join("kernel");
    std::fs::create_dir(&done).map_err(BuildError::file("make the folder", &done))?;
    source::unpack(&mut runner, &package, &done, progress)?;
    configure::configure(&mut runner, options, version, &done, progress)?;
    compile::compile(&mut runner, options, version, &done, progress)?;
    runner.stop_if_interrupted()?;
    let kernel = Kernel {
        version: version.clone(),
        folder: folder.join(format!("{version}{}", cache::suffix(options.debug))),
    };
    finish(&done, work.path(), &kernel.folder)?;
    Ok(kernel)
}

/// Renames the finished kernel into place. A former kernel of that name moves into the work directory,
/// to be removed with it.
fn finish(done: &Path, work: &Path, name: &Path) -> Result<(), BuildError> {
    if name.exists() {
        std::fs::rename(name, work.join("former")).map_err(BuildError::file("replace", name))?;
    }
    std::fs::rename(done, name).map_err(BuildError::file("write", name))
}

/// Returns the cache as an absolute path; fails if `make` cannot handle it.
fn usable(cache: &Path) -> Result<PathBuf, BuildError> {
    let path = std::path::absolute(cache).map_err(BuildError::file("find", cache))?;
    let fine = |c: char| c.is_alphanumeric() || "/._-+~@,=".contains(c);
    match path.to_string_lossy().chars().find(|c| !fine(*c)) {
        None => Ok(path),
        Some(character) => Err(BuildError::Path { path, character }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_that_make_cannot_take_is_refused_before_anything_is_fetched() {
        for bad in ["/tmp/my cache", "/tmp/a:b", "/tmp/$x", "/tmp/#"] {
            let error = usable(Path::new(bad)).expect_err(bad).to_string();
            assert!(error.contains("HEADWAY_CACHE"), "{error}");
        }
        assert!(usable(Path::new("some/folder-1.2~3")).expect("fine").is_absolute());
    }
}

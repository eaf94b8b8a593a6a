//! Debian's source package of the kernel, downloaded but not installed.

use std::path::{Path, PathBuf};

use super::command::{Runner, program};
use super::{BuildError, Phase, Progress};

/// The package: the kernel of Debian 13, which is also in the security archive of Debian 12.
pub(super) const PACKAGE: &str = "linux-source-6.12";

/// apt configuration with package lists of our own, which can be refreshed without root and leave
/// the system's apt alone.
const PRIVATE: &str = r#"Dir::State::lists "@lists/";
Dir::Cache "@cache/";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
APT::Sandbox::User "root";
Acquire::Languages "none";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::Contents-deb;
"#;

/// A downloaded package.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Package {
    pub(super) version: String,
    pub(super) file: PathBuf,
}

/// Downloads the package into `folder`: with the system's package lists, or with fresh ones if
/// those are not enough.
pub(super) fn fetch(
    runner: &mut Runner<'_>,
    folder: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Package, BuildError> {
    if let Ok(package) = download(runner, folder, &[], progress)? {
        return Ok(package);
    }
    let config = refresh(runner, folder, progress)?;
    let options = ["-c".to_owned(), config.display().to_string()];
    download(runner, folder, &options, progress)?.map_err(|said| BuildError::Fetch { package: PACKAGE, said })
}

/// Returns the package, or apt's error message.
fn download(
    runner: &mut Runner<'_>,
    folder: &Path,
    options: &[String],
    progress: &mut dyn FnMut(Progress),
) -> Result<Result<Package, String>, BuildError> {
    let apt = |more: &[&str]| {
        let mut command = program("apt-get", folder);
        command.args(options).args(["-q", "-o", "APT::Sandbox::User=root"]).args(more).arg(PACKAGE);
        command
    };
    let ended = runner.run(apt(&["download", "--print-uris"]), &mut |_| ())?;
    let Some((name, size)) = ended.lines().iter().find_map(|line| named(line)) else {
        return Ok(Err(ended.last()));
    };
    let file = folder.join(name);
    let ended = runner.run(apt(&["download"]), &mut |_| {
        let done = std::fs::metadata(&file).map_or(0, |data| data.len());
        progress(Progress { phase: Phase::Fetch, done: done >> 20, total: size.max(done) >> 20 });
    })?;
    match version(name) {
        Some(version) if ended.success && file.is_file() => Ok(Ok(Package { version, file })),
        _ => Ok(Err(ended.last())),
    }
}

/// Fetches package lists into a private directory and returns the apt configuration that uses them.
fn refresh(
    runner: &mut Runner<'_>,
    folder: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<PathBuf, BuildError> {
    progress(Progress { phase: Phase::Fetch, done: 0, total: 0 });
    let own = folder.join("apt");
    for part in ["lists/partial", "cache/archives/partial"] {
        let path = own.join(part);
        std::fs::create_dir_all(&path).map_err(BuildError::file("make the folder", &path))?;
    }
    let config = own.join("apt.conf");
    let text = PRIVATE.replace('@', &format!("{}/", own.display()));
    std::fs::write(&config, text).map_err(BuildError::file("write", &config))?;
    let mut command = program("apt-get", folder);
    command.arg("-q").arg("-c").arg(&config).arg("update");
    // An archive that does not answer need not be the one with the kernel: the download will tell.
    runner.run(command, &mut |_| progress(Progress { phase: Phase::Fetch, done: 0, total: 0 }))?;
    Ok(config)
}

/// Parses name and size of the file from a line `'URI' NAME SIZE HASH`.
fn named(line: &str) -> Option<(&str, u64)> {
    let mut words = line.strip_prefix('\'')?.split(' ').skip(1);
    let name = words.next().filter(|name| name.ends_with(".deb") && !name.contains('/'))?;
    Some((name, words.next()?.parse().ok()?))
}

/// Parses the version from a name `PACKAGE_VERSION_ARCHITECTURE.deb`.
fn version(name: &str) -> Option<String> {
    let version = name.split('_').nth(1)?;
    // An epoch, as in `1%3a6.12`, would put a colon into paths that `make` reads.
    Some(version.rsplit("%3a").next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_names_the_file_its_size_and_so_its_version() {
        let line = "'http://archive/linux-source-6.12_6.12.117-1%7edeb12u1_all.deb' \
                    linux-source-6.12_6.12.117-1~deb12u1_all.deb 153088696 SHA256:00";
        let (name, size) = named(line).expect("a line of apt");
        assert_eq!(size, 153_088_696);
        assert_eq!(version(name).as_deref(), Some("6.12.117-1~deb12u1"));
        assert_eq!(version("linux-source-6.12_1%3a6.12.1-1_all.deb").as_deref(), Some("6.12.1-1"));
        for other in ["", "E: Unable to locate package", "Get:1 http://x y 1"] {
            assert_eq!(named(other), None);
        }
    }
}

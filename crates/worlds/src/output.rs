//! Files below a folder that the user named.
//!
//! Others may be able to write to that folder. So symbolic links in it are not followed, and existing files
//! are replaced, not written to: neither can lead outside of the folder.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use crate::error::{Error, bail};
use anyhow::Context as _;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// A folder of results.
#[derive(Debug)]
pub struct Output {
    fd: OwnedFd,
    path: PathBuf,
}

/// How names of files begin that are being written, or were when their process was killed.
const UNFINISHED: &str = ".unfinished-";

const FOLDER: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_RDONLY).union(OFlag::O_CLOEXEC);

impl Output {
    /// Opens the folder, creating it if necessary.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn make(path: &Path) -> Result<Output, Error> {
        let failed = || format!("cannot make {}", path.display());
        std::fs::create_dir_all(path).with_context(failed)?;
        let fd = open(path, FOLDER, Mode::empty()).with_context(failed)?;
        Ok(Output { fd, path: path.to_owned() })
    }

    /// Writes a file, creating its parent folders if necessary. At any time the file is what it was
    /// before, or is complete.
    ///
    /// # Errors
    /// When that fails, or a symbolic link is in the way.
    pub fn write(&self, file: impl AsRef<Path>, text: &str) -> Result<(), Error> {
        self.replace(file.as_ref(), |new| new.write_all(text.as_bytes()))
    }

    /// Copies a file into the folder.
    ///
    /// # Errors
    /// As for [`Output::write`].
    pub(crate) fn copy(&self, from: &Path, file: &Path) -> Result<(), Error> {
        let mut source = File::open(from).with_context(|| format!("cannot read {}", from.display()))?;
        self.replace(file, |new| io::copy(&mut source, new).map(drop))
    }

    /// Removes a file if it exists.
    pub(crate) fn remove(&self, file: &Path) {
        if let Ok((folder, name)) = self.folder(file, false) {
            // A file that cannot be removed will be replaced, or will be reported as in the way.
            let _ = unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir);
        }
    }

    /// Replaces a file by a new one, which `fill` writes under another name first.
    fn replace(&self, file: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<(), Error> {
        let (folder, name) = self.folder(file, true)?;
        let new = unfinished(name);
        match unlinkat(&folder, &*new, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(reason) => Err(reason).with_context(|| self.failed("replace", file))?,
        }
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(0o666);
        let written = openat(&folder, &*new, flags, mode)
            .map_err(io::Error::from)
            .and_then(|opened| fill(&mut File::from(opened)))
            .with_context(|| self.failed("write", file));
        let renamed = written.and_then(|()| {
            renameat(&folder, &*new, &folder, name).with_context(|| self.failed("replace", file))
        });
        if renamed.is_err() {
            // A full disk leaves a part; nothing more can be done if it stays.
            let _ = unlinkat(&folder, &*new, UnlinkatFlags::NoRemoveDir);
        }
        Ok(renamed?)
    }

    /// Opens the parent folder of a file, and returns it with the file's name.
    fn folder<'a>(&self, file: &'a Path, make: bool) -> Result<(OwnedFd, &'a Path), Error> {
        let Some(name) = file.file_name() else { bail!("{} is no name of a file", file.display()) };
        let mut fd = self.fd.as_fd().try_clone_to_owned()?;
        for part in file.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(part) = part else { bail!("{} leads elsewhere", file.display()) };
            if make
                && let Err(reason) = mkdirat(&fd, part, Mode::from_bits_truncate(0o777))
                && reason != Errno::EEXIST
            {
                Err(reason).with_context(|| self.failed("make the folder of", file))?;
            }
            fd = match openat(&fd, part, FOLDER | OFlag::O_NOFOLLOW, Mode::empty()) {
                Err(Errno::ELOOP | Errno::ENOTDIR) => {
                    let part = part.to_string_lossy();
                    bail!("{}: {part} is a symbolic link or a file; remove it", self.path.display())
                }
                opened => opened.with_context(|| self.failed("open the folder of", file))?,
            };
        }
        Ok((fd, Path::new(name)))
    }

    fn failed(&self, action: &str, file: &Path) -> String {
        format!("cannot {action} {}", self.path.join(file).display())
    }
}

/// Whether a file of this name is being written, or was when its process was killed.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.starts_with(UNFINISHED)
}

/// Returns the name of a file while this process writes it.
fn unfinished(name: &Path) -> String {
    format!("{UNFINISHED}{}-{}", std::process::id(), name.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_is_written_or_removed_outside_of_the_folder() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let secret = outside.path().join("secret");
        std::fs::write(&secret, "before").unwrap();
        let output = Output::make(inside.path()).unwrap();
        symlink(&secret, inside.path().join("link")).unwrap();
        std::fs::hard_link(&secret, inside.path().join("hard")).unwrap();
        symlink(outside.path(), inside.path().join("seed-1")).unwrap();
        output.write("link", "x").unwrap();
        output.write("hard", "x").unwrap();
        symlink(&secret, inside.path().join("copy")).unwrap();
        output.copy(&inside.path().join("link"), Path::new("copy")).unwrap();
        assert_eq!(std::fs::read_to_string(inside.path().join("copy")).unwrap(), "x");
        let refused = output.write("seed-1/secret", "x").unwrap_err().to_string();
        assert!(refused.contains("seed-1 is a symbolic link or a file"), "{refused}");
        output.remove(Path::new("seed-1/secret"));
        assert!(output.write("../secret", "x").is_err());
        assert_eq!(std::fs::read_to_string(&secret).unwrap(), "before");
        output.write("deep/er/file", "x").unwrap();
        output.remove(Path::new("deep/er/file"));
        assert!(!inside.path().join("deep/er/file").exists());
    }
}

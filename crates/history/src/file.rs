//! The file on its disk: whose it is, and whether it is still there.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::Error;

/// A file that this process alone adds to, until this is dropped.
///
/// The lock is not one of those by which SQLite tells its processes apart. But closing a file gives up all of
/// these that its process has, so this must live longer than what SQLite has opened.
#[derive(Debug)]
pub(crate) struct Own(File);

impl Own {
    /// Opens the file, or creates it, and its folder, if there is none. What is in it stays as it is.
    pub(crate) fn open(path: &Path) -> Result<Own, Error> {
        let failed = |reason: io::Error| Error::unusable(path, reason.to_string());
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.exists()) {
            DirBuilder::new().mode(0o755).create(folder).map_err(failed)?;
        }
        let created = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(path);
        let file = match created {
            Err(reason) if reason.kind() == io::ErrorKind::AlreadyExists => {
                check_kind(path)?;
                open(path).map_err(|_| Error::unusable(path, why_not(path)))?
            }
            created => created.map_err(failed)?,
        };
        match file.try_lock() {
            Ok(()) => Ok(Own(file)),
            Err(TryLockError::WouldBlock) => Err(Error::unusable(
                path,
                "another edge writes to it; name another file for this one".to_owned(),
            )),
            Err(TryLockError::Error(reason)) => Err(failed(reason)),
        }
    }

    /// Whether there is nothing in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.metadata().is_ok_and(|found| found.len() == 0)
    }

    /// Lets only its user read it, and what SQLite has written beside it: who talks to whom is
    /// of no concern to others.
    pub(crate) fn make_private(&self, path: &Path) -> Result<(), Error> {
        let make = || {
            make_private(&self.0)?;
            for end in ["-wal", "-shm"] {
                let mut beside = path.as_os_str().to_owned();
                beside.push(end);
                match open(beside.as_ref()) {
                    Err(reason) if reason.kind() == io::ErrorKind::NotFound => {}
                    beside => make_private(&beside?)?,
                }
            }
            Ok(())
        };
        make().map_err(|reason: io::Error| {
            Error::unusable(path, format!("others may read it, which cannot be changed ({reason})"))
        })
    }

    /// Whether somebody has deleted it, or put another one in its place.
    pub(crate) fn is_deleted(&self) -> bool {
        self.0.metadata().is_ok_and(|found| found.nlink() == 0)
    }
}

/// The mode of a file that only its user may read and write.
const PRIVATE: u32 = 0o600;

/// Opens a file, but no link, which may have been put there by somebody else, and no pipe, which would wait.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)
}

fn make_private(file: &File) -> io::Result<()> {
    match file.metadata()?.mode() & 0o077 {
        0 => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(PRIVATE)),
    }
}

/// Checks that it is a file: reading a pipe would wait for ever, and a link may have been put
/// there by somebody else.
pub(crate) fn check_kind(path: &Path) -> Result<(), Error> {
    match path.symlink_metadata() {
        Ok(found) if !found.is_file() => Err(Error::unusable(path, why_not(path))),
        _ => Ok(()),
    }
}

/// SQLite does not say why a file cannot be opened.
pub(crate) fn why_not(path: &Path) -> String {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => "it is a link, which is not followed".to_owned(),
        Ok(found) if found.is_dir() => "it is a folder".to_owned(),
        Ok(found) if !found.is_file() => "it is a device or a pipe".to_owned(),
        Ok(_) => "this user may not open it".to_owned(),
        Err(reason) if path.parent().is_some_and(Path::is_dir) => reason.to_string(),
        Err(_) => "its folder does not exist".to_owned(),
    }
}

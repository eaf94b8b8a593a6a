//! Lock files that no other user can hold: a process that can open a file can lock it, and make
//! others wait for ever.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Opens a file that only this user can open, to be locked, and makes it if it does not exist.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    let file = options.open(path)?;
    let is = file.metadata()?;
    if is.uid() != nix::unistd::geteuid().as_raw() {
        let text = format!("it belongs to another user (number {}), who could hold it for ever", is.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    if is.mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_can_open_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mode = |file: &File| file.metadata().unwrap().mode() & 0o777;
        assert_eq!(mode(&open(&path).unwrap()), 0o600);
        // Such as one from before.
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(mode(&open(&path).unwrap()), 0o600);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(open(&link).is_err());
    }

    #[test]
    fn a_lock_of_another_user_is_refused() {
        if !nix::unistd::geteuid().is_root() {
            println!("SKIPPED: only root can give files away");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        std::os::unix::fs::chown(open(&path).map(|_| &path).unwrap(), Some(4_321), None).unwrap();
        assert!(open(&path).unwrap_err().to_string().contains("belongs to another user (number 4321)"));
    }
}

//! A file that appears when it is complete, and whose bytes are hashed.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};
use tempfile::{Builder, NamedTempFile};

/// A file that is written beside its place; without [`HashedFile::keep`] nothing is left of it.
pub(super) struct HashedFile {
    path: PathBuf,
    file: BufWriter<NamedTempFile>,
    hash: Sha256,
}

impl HashedFile {
    /// Begins a file, and makes its folder if there is none.
    pub(super) fn create(path: &Path) -> Result<HashedFile> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let begin = || {
            std::fs::create_dir_all(folder)?;
            // As other files of this process, not for its owner only.
            Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(folder)
        };
        let file = begin().with_context(|| format!("cannot write into {}", folder.display()))?;
        Ok(HashedFile { path: path.to_owned(), file: BufWriter::new(file), hash: Sha256::new() })
    }

    /// Puts the file in its place, and returns the SHA-256 of its bytes in hexadecimal digits.
    pub(super) fn keep(self) -> Result<String> {
        let HashedFile { path, file, hash } = self;
        let put = || {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            headway_privileges::give_to_caller(file.as_file())?;
            file.persist(&path).map_err(|error| error.error)
        };
        put().with_context(|| format!("cannot write {}", path.display()))?;
        let mut digits = String::new();
        for byte in hash.finalize() {
            let _ = write!(digits, "{byte:02x}");
        }
        Ok(digits)
    }
}

impl Write for HashedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_appears_when_it_is_complete() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new/table.csv");
        let mut file = HashedFile::create(&path).expect("it can be written");
        file.write_all(b"abc").expect("it can be written");
        assert!(!path.exists());
        // FIPS 180-2, appendix B.1.
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(file.keep().expect("it can be moved"), hash);
        assert_eq!(std::fs::read(&path).expect("it is there"), b"abc");
    }

    #[test]
    fn a_file_that_is_given_up_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a folder");
        drop(HashedFile::create(&folder.path().join("table.csv")));
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}

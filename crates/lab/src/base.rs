//! The directory that holds a user's labs: one subdirectory per lab, in a place that
//! nobody else can write to.
//!
//! All files and directories are opened relative to their parent and never through symbolic links: the place
//! may be one where anybody can create files (`/tmp`), and its contents decide which files are removed and
//! which processes are killed.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::stat::{FileStat, Mode, fstat, mkdirat};
use nix::unistd::geteuid;

use headway_scenario::is_lab_name;

use crate::error::Error;

/// Held by whoever brings labs up or removes what is left of them.
const LOCK: &str = ".lock";
/// Lock file in a lab's directory. All processes of the lab hold it, so a free lock means that
/// none of them is alive.
const USE: &str = "use";

/// The directory of all labs of this user.
#[derive(Debug)]
pub(crate) struct Base {
    fd: OwnedFd,
    path: PathBuf,
}

/// The directory of one lab.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    fd: Arc<OwnedFd>,
    path: PathBuf,
}

/// An exclusive lock, held until this descriptor and its copies in other processes are closed.
pub(crate) struct Lock(pub(crate) File);

/// Returns the directory that contains ours, whether it must belong to this user, and the path
/// components below it.
fn place() -> (PathBuf, bool, [String; 2]) {
    let names = |first: &str| [first.to_owned(), "lab".to_owned()];
    let uid = geteuid();
    if uid.is_root() {
        return ("/run".into(), false, names("headway"));
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => (dir.into(), true, names("headway")),
        None => ("/tmp".into(), false, names(&format!("headway-{uid}"))),
    }
}

impl Base {
    /// Opens the directory; `None` if it does not exist.
    ///
    /// # Errors
    /// If somebody else can write to it.
    pub(crate) fn open() -> Result<Option<Base>, Error> {
        let (top, own, names) = place();
        Base::walk(&top, own, &names, false)
    }

    /// Opens the directory and creates it if it does not exist.
    ///
    /// # Errors
    /// If it cannot be created, or somebody else can write to it.
    pub(crate) fn make() -> Result<Base, Error> {
        let (top, own, names) = place();
        let gone = || Error::file("make", &top, io::ErrorKind::NotFound.into());
        Base::walk(&top, own, &names, true)?.ok_or_else(gone)
    }

    /// Opens `names` one below the other, starting at `top`. `own` says that `top` must belong to this user;
    /// otherwise it must be a place where nobody can remove files of others.
    fn walk(top: &Path, own: bool, names: &[String], make: bool) -> Result<Option<Base>, Error> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let mut fd = match open(top, flags, Mode::empty()) {
            Err(Errno::ENOENT) if !make => return Ok(None),
            other => other.map_err(|e| Error::file("open", top, e.into()))?,
        };
        check_top(top, &stat(&fd, top)?, own)?;
        let mut path = top.to_owned();
        for name in names {
            path.push(name);
            if make {
                make_at(&fd, name, &path)?;
            }
            match open_at(&fd, name, &path)? {
                Some(next) => fd = next,
                None => return Ok(None),
            }
        }
        Ok(Some(Base { fd, path }))
    }

    /// Waits for the lock that allows bringing labs up and removing what is left of them.
    pub(crate) fn lock(&self) -> Result<Lock, Error> {
        let path = self.path.join(LOCK);
        let file = file_at(&self.fd, LOCK, OFlag::O_RDWR | OFlag::O_CREAT, &path)?;
        file.lock().map_err(|e| Error::file("lock", &path, e))?;
        Ok(Lock(file))
    }

    /// Returns the names of all lab directories, of live and dead labs, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.path) else { return Vec::new() };
        let names = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut names: Vec<String> = names.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.retain(|name| check_name(name).is_ok());
        names.sort();
        names
    }

    /// Opens the directory of a lab; `None` if there is none.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Folder>, Error> {
        check_name(name)?;
        let path = self.path.join(name);
        Ok(open_at(&self.fd, name, &path)?.map(|fd| Folder { fd: Arc::new(fd), path }))
    }

    /// Creates the directory of a lab and locks it for this process.
    pub(crate) fn create(&self, name: &str) -> Result<(Folder, Lock), Error> {
        check_name(name)?;
        let path = self.path.join(name);
        make_at(&self.fd, name, &path)?;
        let gone = || Error::file("make", &path, io::ErrorKind::NotFound.into());
        let folder = self.find(name)?.ok_or_else(gone)?;
        let file = folder.file(USE, OFlag::O_RDWR | OFlag::O_CREAT)?;
        file.lock().map_err(|e| Error::file("lock", &folder.path.join(USE), e))?;
        Ok((folder, Lock(file)))
    }
}

impl Folder {
    /// The path of the directory. Nobody else can replace it: every component was checked when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a file in the directory.
    pub(crate) fn file(&self, name: &str, flags: OFlag) -> Result<File, Error> {
        file_at(&*self.fd, name, flags, &self.path.join(name))
    }

    /// Renames a file, replacing `to`.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), Error> {
        let failed = |e: Errno| Error::file("write", &self.path.join(to), e.into());
        renameat(&*self.fd, from, &*self.fd, to).map_err(failed)
    }

    /// Whether any process of the lab is alive.
    pub(crate) fn is_used(&self) -> Result<bool, Error> {
        let file = match self.file(USE, OFlag::O_RDONLY) {
            Err(Error::File { reason, .. }) if reason.kind() == io::ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        // A shared lock, so that two concurrent checks do not mistake each other for the lab.
        match file.try_lock_shared() {
            Ok(()) => Ok(false),
            Err(fs::TryLockError::WouldBlock) => Ok(true),
            Err(fs::TryLockError::Error(e)) => Err(Error::file("lock", &self.path.join(USE), e)),
        }
    }

    /// Whether `lock` is the one that the processes of this lab hold.
    pub(crate) fn is_lock(&self, lock: &impl AsFd) -> bool {
        let own = self.file(USE, OFlag::O_RDONLY).ok().and_then(|file| fstat(&file).ok());
        let theirs = fstat(lock).ok();
        matches!((own, theirs), (Some(own), Some(theirs)) if is_same(&own, &theirs))
    }

    /// The directory's descriptor.
    pub(crate) fn fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.fd)
    }

    /// Removes the directory; succeeds if it no longer exists.
    pub(crate) fn remove(&self) -> Result<(), Error> {
        match fs::remove_dir_all(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", &self.path, e)),
            _ => Ok(()),
        }
    }
}

impl PartialEq for Folder {
    fn eq(&self, other: &Folder) -> bool {
        matches!((fstat(&*self.fd), fstat(&*other.fd)), (Ok(own), Ok(others)) if is_same(&own, &others))
    }
}

fn is_same(one: &FileStat, other: &FileStat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Rejects names that a lab cannot have.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    is_lab_name(name).then_some(()).ok_or_else(|| Error::Name(name.to_owned()))
}

fn unsafe_place(path: &Path, why: &str) -> Error {
    Error::Unsafe { path: path.to_owned(), why: why.to_owned() }
}

fn stat(fd: &impl AsFd, path: &Path) -> Result<FileStat, Error> {
    fstat(fd).map_err(|e| Error::file("stat", path, e.into()))
}

/// Mode bits that let group or others write.
const OTHERS_WRITE: libc::mode_t = 0o022;
/// Sticky bit: others may create files here, but cannot remove files they do not own.
const STICKY: libc::mode_t = 0o1000;

fn check_top(path: &Path, is: &FileStat, own: bool) -> Result<(), Error> {
    if own {
        return check_own(path, is);
    }
    let trusted = is.st_uid == 0 || is.st_uid == geteuid().as_raw();
    if trusted && (is.st_mode & OTHERS_WRITE == 0 || is.st_mode & STICKY != 0) {
        return Ok(());
    }
    Err(unsafe_place(path, "lets others remove your files"))
}

fn check_own(path: &Path, is: &FileStat) -> Result<(), Error> {
    let refuse = |why: String| Err(unsafe_place(path, &why));
    if is.st_uid != geteuid().as_raw() {
        return refuse(format!("belongs to another user (number {})", is.st_uid));
    }
    if is.st_mode & OTHERS_WRITE != 0 {
        return refuse(format!("can be written to by others (mode {:o})", is.st_mode & 0o7777));
    }
    Ok(())
}

fn make_at(fd: &impl AsFd, name: &str, path: &Path) -> Result<(), Error> {
    match mkdirat(fd, name, Mode::S_IRWXU) {
        Err(Errno::EEXIST) => Ok(()),
        made => made.map_err(|e| Error::file("make", path, e.into())),
    }
}

/// Opens a directory and checks that it belongs to this user; `None` if it does not exist.
fn open_at(fd: &impl AsFd, name: &str, path: &Path) -> Result<Option<OwnedFd>, Error> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let opened = match openat(fd, name, flags, Mode::empty()) {
        Err(Errno::ENOENT) => return Ok(None),
        // Kernels differ in the error for a symbolic link.
        Err(Errno::ELOOP | Errno::ENOTDIR) => {
            return Err(unsafe_place(path, "is a link or a file, not a folder"));
        }
        other => other.map_err(|e| Error::file("open", path, e.into()))?,
    };
    check_own(path, &stat(&opened, path)?)?;
    Ok(Some(opened))
}

fn file_at(fd: &impl AsFd, name: &str, flags: OFlag, path: &Path) -> Result<File, Error> {
    // Without O_NONBLOCK, opening a pipe would block.
    let flags = flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let opened = openat(fd, name, flags, mode).map_err(|e| Error::file("open", path, e.into()))?;
    let is = stat(&opened, path)?;
    if is.st_mode & libc::S_IFMT != libc::S_IFREG {
        return Err(unsafe_place(path, "is not a regular file"));
    }
    check_own(path, &is)?;
    Ok(File::from(opened))
}

#[cfg(test)]
#[path = "base_tests.rs"]
mod tests;

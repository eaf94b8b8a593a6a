//! Programs that follow the connections of all processes: they are attached to the root of cgroup v2.

use std::fs::{self, File};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::PathBuf;

use libbpf_rs::Object;

use crate::error::Error;

/// What is mounted for this process: a line each with source, folder, type and more.
const MOUNTS: &str = "/proc/self/mounts";

/// Attaches a program for events of sockets (`sock_ops`). The kernel detaches it when the returned descriptor is closed,
/// so however the process ends.
///
/// # Errors
/// When cgroup v2 is not mounted, or the kernel refuses.
pub(crate) fn attach(object: &Object, program: &str) -> Result<OwnedFd, Error> {
    let found = object.progs().find(|found| found.name() == program);
    let found = found.ok_or_else(|| Error::Internal(format!("there is no program {program}")))?;
    let folder = root()?;
    let root = File::open(&folder).map_err(Error::file("open", folder))?;
    // SAFETY: a system call with valid descriptors and no options.
    let raw = unsafe {
        libbpf_sys::bpf_link_create(
            found.as_fd().as_raw_fd(),
            root.as_raw_fd(),
            libbpf_sys::BPF_CGROUP_SOCK_OPS,
            std::ptr::null(),
        )
    };
    if raw < 0 {
        let reason = libbpf_rs::Error::from_raw_os_error(-raw);
        return Err(Error::Bpf { action: "attach a program to the connections of this host", reason });
    }
    // SAFETY: `raw` is an open descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Returns the folder where cgroup v2 is mounted; there may be one of version 1, too.
fn root() -> Result<PathBuf, Error> {
    let mounts = fs::read_to_string(MOUNTS).map_err(Error::file("read", MOUNTS))?;
    find(&mounts).ok_or(Error::NoCgroup)
}

fn find(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let folder = words.nth(1)?;
        (words.next()? == "cgroup2").then(|| PathBuf::from(folder))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_found_beside_version_1() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(find(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(find("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\n"), None);
    }
}

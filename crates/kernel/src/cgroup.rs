//! Programs that follow the connections of all processes: they are attached to the root of cgroup v2.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::path::PathBuf;

use libbpf_rs::Object;

use crate::error::Error;
use crate::{query, tcx};

/// What is mounted for this process: a line each with source, folder, type and more.
const MOUNTS: &str = "/proc/self/mounts";

/// Where programs for events of sockets are attached (`sock_ops`), and those for packets
/// that arrive at sockets.
pub(crate) const EVENTS: libbpf_sys::bpf_attach_type = libbpf_sys::BPF_CGROUP_SOCK_OPS;
pub(crate) const PACKETS: libbpf_sys::bpf_attach_type = libbpf_sys::BPF_CGROUP_INET_INGRESS;

/// Attaches a program. The kernel detaches it when the returned descriptor is closed, so
/// however the process ends.
///
/// # Errors
/// When cgroup v2 is not mounted, or the kernel refuses.
pub(crate) fn attach(
    object: &Object,
    program: &str,
    place: libbpf_sys::bpf_attach_type,
) -> Result<OwnedFd, Error> {
    let (program, root) = (tcx::find(object, program)?.as_raw_fd(), root()?);
    // SAFETY: a system call with valid descriptors and no options.
    let raw = unsafe { libbpf_sys::bpf_link_create(program, root.as_raw_fd(), place, std::ptr::null()) };
    query::owned(raw, "attach a program to the connections of this host")
}

/// Opens the root of cgroup v2. Where it is not mounted, as in a shell of `ip netns exec`, it is
/// mounted without a folder.
fn root() -> Result<OwnedFd, Error> {
    let mounts = fs::read_to_string(MOUNTS).map_err(Error::file("read", MOUNTS))?;
    match find(&mounts) {
        Some(folder) => Ok(File::open(&folder).map_err(Error::file("open", folder))?.into()),
        None => mount().map_err(Error::NoCgroup),
    }
}

/// Mounts cgroup v2 where no other process sees it, until the returned descriptor is closed.
fn mount() -> io::Result<OwnedFd> {
    /// `FSCONFIG_CMD_CREATE` of linux/mount.h.
    const CREATE: libc::c_long = 6;
    let null = std::ptr::null::<libc::c_char>();
    // SAFETY: system calls with a string that lives on, valid descriptors, and null where nothing is given.
    unsafe {
        let context = owned(libc::syscall(libc::SYS_fsopen, c"cgroup2".as_ptr(), 0))?;
        let done = libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), CREATE, null, null, 0);
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        owned(libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), 0, 0))
    }
}

/// Returns what a system call has opened.
fn owned(result: libc::c_long) -> io::Result<OwnedFd> {
    let Ok(raw @ 0..) = i32::try_from(result) else { return Err(io::Error::last_os_error()) };
    // SAFETY: `raw` was opened for this process just now.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
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
    fn without_a_folder_it_is_the_same_root_or_root_is_needed() {
        match mount() {
            Ok(root) => {
                let inside = format!("/proc/self/fd/{}/cgroup.procs", root.as_raw_fd());
                assert!(fs::exists(inside).unwrap());
            }
            Err(reason) => println!("SKIPPED: {reason}"),
        }
    }

    #[test]
    fn the_root_is_found_beside_version_1() {
        let mounts = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(find(mounts), Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(find("cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\n"), None);
    }
}

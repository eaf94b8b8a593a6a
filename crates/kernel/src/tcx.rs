//! Programs at interfaces: tcx links, which end with the process that holds them.

use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};

use libbpf_rs::Object;

use crate::error::Error;

/// Returns the descriptor of a program.
pub(crate) fn find(object: &Object, name: &str) -> Result<i32, Error> {
    let found = object.progs().find(|found| found.name() == name);
    let found = found.ok_or_else(|| Error::Internal(format!("there is no program {name}")))?;
    Ok(found.as_fd().as_raw_fd())
}

/// Attaches a program to an interface of this thread's network namespace.
pub(crate) fn link(
    program: i32,
    interface: u32,
    place: libbpf_sys::bpf_attach_type,
) -> Result<OwnedFd, Error> {
    // SAFETY: a system call with a valid descriptor and no options.
    let raw = unsafe { libbpf_sys::bpf_link_create(program, interface as i32, place, std::ptr::null()) };
    if raw < 0 {
        let reason = libbpf_rs::Error::from_raw_os_error(-raw);
        return Err(Error::Bpf { action: "attach a program to the interface", reason });
    }
    // SAFETY: `raw` is an open descriptor that nothing else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

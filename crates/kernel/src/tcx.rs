//! Programs at interfaces: tcx links, which end with the process that holds them.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};

use libbpf_rs::Object;

use crate::error::Error;
use crate::query::owned;

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
    owned(raw, "attach a program to the interface")
}

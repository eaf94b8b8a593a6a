//! Programs at interfaces: links of TCX, which end with the process that holds them, or filters of `clsact`
//! where the kernel has no TCX, before Linux 6.6.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use headway_telemetry::qdisc::{Direction, Filters};
use libbpf_rs::Object;
use nix::errno::Errno;

use crate::error::Error;
use crate::query::owned;

/// Who has programs at interfaces: the first half of the handles of their filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// An edge.
    Edge = 0x7ed9,
    /// A controller of `headway cc`.
    Controller = 0x7eda,
}

/// Programs at an interface of this thread's network namespace, until this is dropped: then in the namespace
/// of the thread that drops it, and if that has the privileges. Links end with the process, too.
#[derive(Debug)]
pub(crate) struct AtInterface {
    owner: Owner,
    interface: u32,
    /// Empty where there are filters.
    links: Vec<OwnedFd>,
}

impl AtInterface {
    /// Attaches programs of an object by their names.
    pub(crate) fn attach(
        owner: Owner,
        interface: u32,
        object: &Object,
        programs: &[(&str, Direction)],
    ) -> Result<AtInterface, Error> {
        let mut attached = AtInterface { owner, interface, links: Vec::new() };
        if !has_tcx() {
            attached.filter(object, programs)?;
            return Ok(attached);
        }
        for (program, direction) in programs {
            let program = find(object, program)?.as_raw_fd();
            let place = place(*direction);
            // SAFETY: a system call with a valid descriptor and no options.
            let raw =
                unsafe { libbpf_sys::bpf_link_create(program, interface as i32, place, std::ptr::null()) };
            attached.links.push(owned(raw, "attach a program to the interface")?);
        }
        Ok(attached)
    }

    /// Replaces the programs by those of another object with the same names. Every packet meets one or the
    /// other.
    pub(crate) fn replace(&self, object: &Object, programs: &[(&str, Direction)]) -> Result<(), Error> {
        if self.links.is_empty() {
            return self.filter(object, programs);
        }
        for (link, (program, _)) in self.links.iter().zip(programs) {
            let program = find(object, program)?.as_raw_fd();
            // SAFETY: a system call with valid descriptors and no options.
            let result = unsafe { libbpf_sys::bpf_link_update(link.as_raw_fd(), program, std::ptr::null()) };
            if result < 0 {
                let reason = libbpf_rs::Error::from_raw_os_error(-result);
                return Err(Error::Bpf { action: "replace a program at the interface", reason });
            }
        }
        Ok(())
    }

    fn filter(&self, object: &Object, programs: &[(&str, Direction)]) -> Result<(), Error> {
        let failed = |reason| self.failed(reason);
        let mut filters = Filters::open(self.owner as u16).map_err(failed)?;
        for (program, direction) in programs {
            filters.set(self.interface, *direction, find(object, program)?).map_err(failed)?;
        }
        Ok(())
    }

    fn failed(&self, reason: std::io::Error) -> Error {
        let name = nix::net::if_::if_indextoname(self.interface).unwrap_or_default();
        Error::Device { interface: name.to_string_lossy().into_owned(), reason: reason.to_string() }
    }
}

impl Drop for AtInterface {
    fn drop(&mut self) {
        if self.links.is_empty() {
            // It fails after the privileges were given up, or when the interface is gone.
            let _ = remove_filters(self.owner, self.interface);
        }
    }
}

/// Whether programs at interfaces end with their process here, as they do since Linux 6.6. Also true if the
/// user may not ask.
pub fn has_tcx() -> bool {
    /// `lo`, which every network namespace has.
    const LOOPBACK: i32 = 1;
    let (none, mut count) = (std::ptr::null_mut(), 0);
    let place = place(Direction::Ingress);
    // SAFETY: there is room for no numbers, and for how many there are.
    let done = unsafe { libbpf_sys::bpf_prog_query(LOOPBACK, place, 0, none, none.cast(), &raw mut count) };
    done != -(Errno::EINVAL as i32)
}

/// Removes the programs that a process has left at an interface of this thread's network namespace, which
/// happens only without TCX; returns whether there were any.
///
/// # Errors
/// The system's error.
pub fn remove_filters(owner: Owner, interface: u32) -> std::io::Result<bool> {
    Filters::open(owner as u16)?.remove(interface)
}

fn place(direction: Direction) -> libbpf_sys::bpf_attach_type {
    match direction {
        Direction::Ingress => libbpf_sys::BPF_TCX_INGRESS,
        Direction::Egress => libbpf_sys::BPF_TCX_EGRESS,
    }
}

/// Returns the descriptor of a program.
pub(crate) fn find<'a>(object: &'a Object, name: &str) -> Result<BorrowedFd<'a>, Error> {
    let found = object.progs().find(|found| found.name() == name);
    let found = found.ok_or_else(|| Error::Internal(format!("there is no program {name}")))?;
    // SAFETY: the object keeps the descriptor open.
    Ok(unsafe { BorrowedFd::borrow_raw(found.as_fd().as_raw_fd()) })
}

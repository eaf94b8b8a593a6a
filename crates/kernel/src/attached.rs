//! Interfaces as a controller needs them: with the programs of XCP or RCP, or, for TCP Rapid, with
//! single segments only.

use std::fs::File;

use headway_telemetry::qdisc::Direction;
use libbpf_rs::Object;
use nix::sched::{CloneFlags, setns};

use crate::default::NAMESPACE;
use crate::device::Interface;
use crate::error::Error;
use crate::loader::Loaded;
use crate::tcx::{AtInterface, Owner};

/// The programs of `bpf/end_wire.bpf.h`, and where they are attached.
const PROGRAMS: [(&str, Direction); 2] = [("hw_arrive", Direction::Ingress), ("hw_leave", Direction::Egress)];

/// An interface that a controller has changed, until this is dropped: TCP hands it single segments.
///
/// With XCP and RCP its packets carry the congestion header; a buffer of several segments would need a header
/// for each. They have complete checksums if its NIC would not find them. The kernel detaches the programs
/// however the process ends, where it has TCX.
#[derive(Debug)]
pub struct Attached {
    /// As it was before.
    interface: Interface,
    namespace: File,
    /// None for TCP Rapid.
    programs: Option<AtInterface>,
}

impl Attached {
    /// Has an interface of this thread's network namespace take single segments.
    ///
    /// # Errors
    /// When there is no such interface, it is not Ethernet, or the kernel refuses.
    pub fn single_segments(interface: &str) -> Result<Attached, Error> {
        Attached::for_rapid(Interface { checksums: Vec::new(), ..Interface::here(interface)? })
    }

    /// Changes an interface for TCP Rapid. With longer buffers TCP would wait until a window has room for one
    /// (tcp_tso_should_defer).
    pub(crate) fn for_rapid(interface: Interface) -> Result<Attached, Error> {
        let namespace = File::open(NAMESPACE).map_err(Error::file("open", NAMESPACE))?;
        let attached = Attached { interface, namespace, programs: None };
        attached.interface.change()?;
        Ok(attached)
    }

    pub(crate) fn new(object: &Object, interface: Interface) -> Result<Attached, Error> {
        let namespace = File::open(NAMESPACE).map_err(Error::file("open", NAMESPACE))?;
        let mut attached = Attached { interface, namespace, programs: None };
        let index = attached.interface.index;
        attached.interface.change()?;
        attached.programs = Some(AtInterface::attach(Owner::Controller, index, object, &PROGRAMS)?);
        Ok(attached)
    }

    /// Replaces the programs by those of another controller, XCP or RCP. Every packet meets one or the other.
    /// The other knows nothing of the connections so far: they carry no header until their senders have
    /// chosen its controller.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn switch(&mut self, loaded: &Loaded) -> Result<(), Error> {
        self.programs.as_ref().map_or(Ok(()), |programs| programs.replace(loaded.object(), &PROGRAMS))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let (programs, interface) = (self.programs.take(), self.interface.clone());
        let Ok(namespace) = self.namespace.try_clone() else { return };
        // A separate thread enters the namespace, so that this one stays in its own.
        let restore = move || {
            setns(&namespace, CloneFlags::CLONE_NEWNET)?;
            drop(programs);
            // It fails if the interface is gone.
            let _ = interface.restore();
            nix::Result::Ok(())
        };
        let _ = std::thread::spawn(restore).join();
    }
}

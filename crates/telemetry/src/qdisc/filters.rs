//! Programs of BPF as filters of `clsact`, where the kernel has no other place for them at an interface: before
//! Linux 6.6.
//!
//! A filter outlives the process that set it. So it has a handle by which its owner knows it again, and which
//! says whether that owner has made the `clsact` it is in.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use libc::{
    RTM_DELQDISC, RTM_DELTFILTER, RTM_GETQDISC, RTM_GETTFILTER, RTM_NEWQDISC, RTM_NEWTFILTER, TCA_KIND,
    TCA_OPTIONS,
};

use super::{ETH_P_ALL, HEAD, head, lacks, word};
use crate::netlink::{CREATE_NEW, Netlink, REPLACE, SockProtocol, attribute, attributes};

/// The place of `clsact` and its handle, as in `include/uapi/linux/pkt_sched.h`.
const TC_H_CLSACT: u32 = 0xffff_fff1;
const CLSACT: u32 = 0xffff_0000;
/// Attributes and a flag of `include/uapi/linux/pkt_cls.h`.
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
/// Before filters that the kernel numbers (from 49152 on), and most that people number. Range 1 to 65535.
const PRIORITY: u32 = 7;
/// In a handle: its owner has made the `clsact`, too.
const MADE: u32 = 1;

/// Which packets of an interface a program sees; the values are places in `clsact`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Direction {
    /// Those that arrive.
    Ingress = 0xffff_fff2,
    /// Those that leave.
    Egress = 0xffff_fff3,
}

/// The filters of an owner at interfaces of this thread's network namespace.
#[derive(Debug)]
pub struct Filters {
    netlink: Netlink,
    owner: u16,
}

/// A filter that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Filter {
    handle: u32,
    /// The place in `clsact`.
    parent: u32,
    /// Priority and protocol.
    info: u32,
}

impl Filters {
    /// Opens the way to them. The owner's number is the first half of their handles.
    ///
    /// # Errors
    /// The system's error.
    pub fn open(owner: u16) -> io::Result<Filters> {
        Ok(Filters { netlink: Netlink::open(SockProtocol::NetlinkRoute)?, owner })
    }

    /// Has a program see packets of an interface, in place of the one that this owner has there, if any. Where
    /// it returns `TC_ACT_UNSPEC`, they go on to other filters.
    ///
    /// # Errors
    /// The system's error, or what stands in the way.
    pub fn set(&mut self, interface: u32, direction: Direction, program: BorrowedFd<'_>) -> io::Result<()> {
        let parent = direction as u32;
        let there = self.list(interface, parent)?.into_iter().find(|filter| self.owns(filter));
        let handle = match there {
            Some(filter) => filter.handle,
            None => u32::from(self.owner) << 16 | u32::from(self.make(interface)?),
        };
        let options = [
            attribute(TCA_BPF_FD, &program.as_raw_fd().to_ne_bytes()),
            attribute(TCA_BPF_NAME, b"headway\0"),
            attribute(TCA_BPF_FLAGS, &TCA_BPF_FLAG_ACT_DIRECT.to_ne_bytes()),
        ];
        let info = PRIORITY << 16 | u32::from(ETH_P_ALL.to_be());
        let kind = [attribute(TCA_KIND, b"bpf\0"), attribute(TCA_OPTIONS, &options.concat())];
        let filter = [head(interface, handle, parent, info), kind.concat()].concat();
        self.netlink
            .ask(RTM_NEWTFILTER, if there.is_some() { REPLACE } else { CREATE_NEW }, &filter)
            .map_err(|error| lacks(error, "filters of BPF (cls_bpf)"))
    }

    /// Removes the filters of this owner from an interface, and `clsact`, if the owner has made it and nobody
    /// else has filters there; returns whether there were any.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&mut self, interface: u32) -> io::Result<bool> {
        let mut all = self.list(interface, Direction::Ingress as u32)?;
        all.extend(self.list(interface, Direction::Egress as u32)?);
        let (own, others): (Vec<Filter>, Vec<Filter>) = all.into_iter().partition(|filter| self.owns(filter));
        for Filter { handle, parent, info } in &own {
            let filter = [head(interface, *handle, *parent, *info), attribute(TCA_KIND, b"bpf\0")].concat();
            self.netlink.ask(RTM_DELTFILTER, 0, &filter)?;
        }
        if others.is_empty() && own.iter().any(|filter| filter.handle & MADE != 0) {
            self.netlink.ask(RTM_DELQDISC, 0, &head(interface, CLSACT, TC_H_CLSACT, 0))?;
        }
        Ok(!own.is_empty())
    }

    fn owns(&self, filter: &Filter) -> bool {
        filter.handle >> 16 == self.owner.into() && filter.info >> 16 == PRIORITY
    }

    /// Makes `clsact` where there is none; returns whether it did.
    fn make(&mut self, interface: u32) -> io::Result<bool> {
        let mut kind = None;
        self.netlink.dump(RTM_GETQDISC, &head(interface, 0, 0, 0), |message| {
            let Some((head, rest)) = message.body.split_at_checked(HEAD) else { return };
            if word(head, 1) == Some(interface) && word(head, 3) == Some(TC_H_CLSACT) {
                kind = attributes(rest).find(|(kind, _)| *kind == TCA_KIND).map(|(_, name)| name.to_vec());
            }
        })?;
        match kind.as_deref() {
            Some(b"clsact\0") => Ok(false),
            Some(_) => Err(io::Error::other(
                "it has the qdisc `ingress`, where programs have no place for what leaves; \
                 `clsact` does all that `ingress` does: `tc qdisc del dev IF ingress`, `tc qdisc add dev IF clsact`",
            )),
            None => {
                let body = [head(interface, CLSACT, TC_H_CLSACT, 0), attribute(TCA_KIND, b"clsact\0")];
                let made = self.netlink.ask(RTM_NEWQDISC, CREATE_NEW, &body.concat());
                made.map(|()| true).map_err(|error| lacks(error, "clsact (sch_ingress)"))
            }
        }
    }

    /// Returns all filters in a place of `clsact`.
    fn list(&mut self, interface: u32, parent: u32) -> io::Result<Vec<Filter>> {
        let mut filters = Vec::new();
        self.netlink.dump(RTM_GETTFILTER, &head(interface, 0, parent, 0), |message| {
            if let (Some(handle @ 1..), Some(info)) = (word(message.body, 2), word(message.body, 4)) {
                filters.push(Filter { handle, parent, info });
            }
        })?;
        Ok(filters)
    }
}

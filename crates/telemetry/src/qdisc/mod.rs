//! The queue through which an interface sends, and a token bucket with fair queues in its place
//! (`include/uapi/linux/pkt_sched.h`).

mod bucket;
mod discipline;
mod filters;

use std::io;

use libc::{RTM_DELQDISC, RTM_GETQDISC, RTM_NEWQDISC, RTM_NEWTCLASS, RTM_NEWTFILTER, TCA_KIND, TCA_OPTIONS};
use nix::net::if_::if_indextoname;

use crate::netlink::{Netlink, REPLACE, SockProtocol, attribute, attributes};
pub use bucket::TokenBucket;
use discipline::Discipline;
pub use filters::{Direction, Filters};

/// The root of the queues of an interface, as in `include/uapi/linux/pkt_sched.h`.
const TC_H_ROOT: u32 = 0xffff_ffff;
/// Attributes and a flag of `include/uapi/linux/pkt_cls.h`.
const TCA_U32_CLASSID: u16 = 1;
const TCA_U32_SEL: u16 = 5;
const TCA_U32_INDEV: u16 = 8;
const TC_U32_TERMINAL: u8 = 1;
/// Bytes of `struct tc_u32_sel` without keys.
const SELECTOR: usize = 16;
/// Priority of our only filter, and the number that stands for all protocols
/// (`include/uapi/linux/if_ether.h`).
const PRIORITY: u32 = 1;
const ETH_P_ALL: u16 = 3;
/// Bytes of `struct tcmsg`.
const HEAD: usize = 20;

/// The first of the queues through which an interface sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its kind, such as `fq_codel`.
    pub kind: String,
    /// Its handle; 0 for one that the kernel has made by itself.
    pub handle: u32,
}

/// Queues of the interfaces of this thread's network namespace.
#[derive(Debug)]
pub struct Queues {
    netlink: Netlink,
    /// Where packets wait behind a token bucket; none before one was set.
    discipline: Option<Discipline>,
}

impl Queues {
    /// Opens the way to them.
    ///
    /// # Errors
    /// The system's error.
    pub fn open() -> io::Result<Queues> {
        Ok(Queues { netlink: Netlink::open(SockProtocol::NetlinkRoute)?, discipline: None })
    }

    /// Returns the root of an interface; none where the kernel lists none, which is its own.
    ///
    /// # Errors
    /// The system's error.
    pub fn root(&mut self, interface: u32) -> io::Result<Option<Root>> {
        let mut root = None;
        self.netlink.dump(RTM_GETQDISC, &head(interface, 0, 0, 0), |message| {
            root = root.take().or_else(|| root_of(message.body, interface));
        })?;
        Ok(root)
    }

    /// Makes a token bucket the root of an interface, or changes the one that has this handle. With
    /// `only_from`, it holds what came by that interface, and all else passes at once.
    ///
    /// # Errors
    /// The system's error, or what the kernel lacks. Nothing of it is left then.
    pub fn set(
        &mut self,
        interface: u32,
        handle: u32,
        bucket: &TokenBucket,
        only_from: Option<u32>,
    ) -> io::Result<()> {
        let done = match only_from {
            None => self.set_root(interface, handle, bucket),
            Some(from) => self.set_branch(interface, handle, bucket, from),
        };
        if done.is_err() {
            // A failure is reported, whether there is something to remove or not.
            let _ = self.remove(interface, handle);
        }
        done
    }

    fn set_root(&mut self, interface: u32, handle: u32, bucket: &TokenBucket) -> io::Result<()> {
        self.make(&[head(interface, handle, TC_H_ROOT, 0), bucket.tbf()].concat(), "token buckets (tbf)")?;
        // The class of a token bucket is its only one.
        self.set_discipline(interface, handle | 1, bucket)
    }

    fn set_branch(&mut self, interface: u32, handle: u32, bucket: &TokenBucket, from: u32) -> io::Result<()> {
        let is_new = self.root(interface)?.is_none_or(|root| root.handle != handle);
        if is_new {
            self.make(
                &[head(interface, handle, TC_H_ROOT, 0), TokenBucket::htb()].concat(),
                "token buckets with branches (htb)",
            )?;
        }
        let class = handle | 1;
        self.put(RTM_NEWTCLASS, &[head(interface, class, handle, 0), bucket.htb_class()].concat())?;
        self.set_discipline(interface, class, bucket)?;
        if is_new {
            // Last, so that nothing comes before there is room for it.
            self.put(RTM_NEWTFILTER, &[filter_head(interface, handle), came_by(from, class)?].concat())
                .map_err(|error| lacks(error, "filters by interface (cls_u32)"))?;
        }
        Ok(())
    }

    /// Has packets of a class wait in the best discipline that the kernel has.
    fn set_discipline(&mut self, interface: u32, class: u32, bucket: &TokenBucket) -> io::Result<()> {
        let known = self.discipline;
        let set = |discipline: Discipline| {
            self.put(RTM_NEWQDISC, &[head(interface, 0, class, 0), discipline.options(bucket)].concat())
        };
        self.discipline = Some(Discipline::best(known, set)?);
        Ok(())
    }

    /// Whether flows behind a token bucket that was set wait in one row, because the kernel has neither CAKE nor
    /// FQ-CoDel.
    pub fn is_row(&self) -> bool {
        self.discipline == Some(Discipline::Row)
    }

    fn make(&mut self, body: &[u8], what: &str) -> io::Result<()> {
        self.put(RTM_NEWQDISC, body).map_err(|error| lacks(error, what))
    }

    fn put(&mut self, kind: u16, body: &[u8]) -> io::Result<()> {
        self.netlink.ask(kind, REPLACE, body)
    }

    /// Whether the kernel has queue disciplines of this kind, found out by making one the root of an interface,
    /// which then has none: only for the interfaces of a network namespace of one's own.
    ///
    /// # Errors
    /// The system's error.
    pub fn has(&mut self, interface: u32, kind: &str) -> io::Result<bool> {
        const TRIAL: u32 = 1 << 16;
        let name = attribute(TCA_KIND, &[kind.as_bytes(), b"\0"].concat());
        match self.put(RTM_NEWQDISC, &[head(interface, TRIAL, TC_H_ROOT, 0), name].concat()) {
            Ok(()) => self.remove(interface, TRIAL),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            // It misses its options, or has another place.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Removes the root of an interface if it has this handle, so that the kernel makes its own again;
    /// returns whether it was there.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&mut self, interface: u32, handle: u32) -> io::Result<bool> {
        if self.root(interface)?.is_none_or(|root| root.handle != handle) {
            return Ok(false);
        }
        let root = head(interface, handle, TC_H_ROOT, 0);
        self.netlink.ask(RTM_DELQDISC, 0, &root)?;
        Ok(true)
    }
}

/// `struct tcmsg`.
fn head(interface: u32, handle: u32, parent: u32, info: u32) -> Vec<u8> {
    [0, interface, handle, parent, info].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Returns the head of a filter for packets of all protocols.
fn filter_head(interface: u32, parent: u32) -> Vec<u8> {
    head(interface, 0, parent, PRIORITY << 16 | u32::from(ETH_P_ALL.to_be()))
}

/// Returns a filter that gives a class what came by an interface.
fn came_by(interface: u32, class: u32) -> io::Result<Vec<u8>> {
    let name = if_indextoname(interface)?;
    let mut selector = [0; SELECTOR];
    selector[0] = TC_U32_TERMINAL;
    let options = [
        attribute(TCA_U32_CLASSID, &class.to_ne_bytes()),
        attribute(TCA_U32_INDEV, name.to_bytes_with_nul()),
        attribute(TCA_U32_SEL, &selector),
    ];
    Ok([attribute(TCA_KIND, b"u32\0"), attribute(TCA_OPTIONS, &options.concat())].concat())
}

/// Says what the kernel lacks, where it does not find something.
fn lacks(error: io::Error, what: &str) -> io::Error {
    match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(error.kind(), format!("this kernel has no {what}")),
        _ => error,
    }
}

/// Returns the root of an interface if a message is about it.
fn root_of(body: &[u8], interface: u32) -> Option<Root> {
    let (head, rest) = body.split_at_checked(HEAD)?;
    (word(head, 1)? == interface && word(head, 3)? == TC_H_ROOT).then_some(())?;
    let (_, kind) = attributes(rest).find(|(kind, _)| *kind == TCA_KIND)?;
    let kind = String::from_utf8_lossy(kind).trim_end_matches('\0').to_owned();
    Some(Root { kind, handle: word(head, 2)? })
}

/// Returns a word of `struct tcmsg`, with which a message begins.
fn word(head: &[u8], index: usize) -> Option<u32> {
    head.get(4 * index..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

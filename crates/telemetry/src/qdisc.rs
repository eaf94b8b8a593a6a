//! The queue through which an interface sends, and a token bucket with fair queues in its place (`include/uapi/linux/pkt_sched.h`).

use std::io;

use headway_units::{Bytes, Duration, Rate};

use crate::netlink::{
    ACKNOWLEDGE, DONE, DUMP, ERROR, Netlink, REPLACE, REQUEST, SockProtocol, attribute, attributes, message,
    messages,
};

/// Message types, attributes and handles of `include/uapi/linux/rtnetlink.h` and `pkt_sched.h`.
const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_GETQDISC: u16 = 38;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const TCA_FQ_CODEL_TARGET: u16 = 1;
const TC_H_ROOT: u32 = 0xffff_ffff;
/// Rates are of packets on an Ethernet.
const LINK_LAYER: u8 = 1;
/// Bytes of `struct tcmsg`.
const HEAD: usize = 20;

/// Bytes on the wire of a packet beyond those that the kernel counts, which are those from the header of Ethernet on.
const OVERHEAD: u16 = 24;

/// The first of the queues through which an interface sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Its kind, such as `fq_codel`.
    pub kind: String,
    /// Its handle; 0 for one that the kernel has made by itself.
    pub handle: u32,
}

/// A token bucket, before which each flow waits in a queue of its own (FQ-CoDel, RFC 8290).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// The rate at which it lets packets pass, in bytes on an Ethernet wire.
    pub rate: Rate,
    /// What may pass at once.
    pub burst: Bytes,
    /// What may wait where the kernel has no fair queues.
    pub limit: Bytes,
    /// For how long packets of a flow may wait again and again before some are dropped or marked.
    pub target: Duration,
}

/// Queues of the interfaces of this thread's network namespace.
#[derive(Debug)]
pub struct Queues(Netlink);

impl Queues {
    /// Opens the way to them.
    ///
    /// # Errors
    /// The system's error.
    pub fn open() -> io::Result<Queues> {
        Netlink::open(SockProtocol::NetlinkRoute).map(Queues)
    }

    /// Returns the root of an interface; none where the kernel lists none, which is its own.
    ///
    /// # Errors
    /// The system's error.
    pub fn root(&mut self, interface: u32) -> io::Result<Option<Root>> {
        self.0.send(&message(RTM_GETQDISC, REQUEST | DUMP, 1, &head(interface, 0, 0)))?;
        let mut root = None;
        loop {
            for message in messages(self.0.receive()?) {
                match message.kind {
                    DONE => return Ok(root),
                    ERROR => message.error()?,
                    _ => root = root.or_else(|| root_of(message.body, interface)),
                }
            }
        }
    }

    /// Makes a token bucket the root of an interface, or changes the one that has this handle. Where the kernel has no FQ-CoDel, packets
    /// wait in the order in which they came.
    ///
    /// # Errors
    /// The system's error.
    pub fn set(&mut self, interface: u32, handle: u32, bucket: &TokenBucket) -> io::Result<()> {
        let bucket_of = [head(interface, handle, TC_H_ROOT), kind_and_options(bucket)].concat();
        self.replace(&bucket_of)?;
        // The class of a token bucket is its only one. A module that is missing is no reason to hold nothing.
        match self.replace(&[head(interface, 0, handle | 1), fair_queues(bucket.target)].concat()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    fn replace(&mut self, body: &[u8]) -> io::Result<()> {
        self.0.ask(&message(RTM_NEWQDISC, REQUEST | ACKNOWLEDGE | REPLACE, 2, body))
    }

    /// Removes the root of an interface if it has this handle, so that the kernel makes its own again; returns whether it was there.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(&mut self, interface: u32, handle: u32) -> io::Result<bool> {
        if self.root(interface)?.is_none_or(|root| root.handle != handle) {
            return Ok(false);
        }
        self.0.ask(&message(RTM_DELQDISC, REQUEST | ACKNOWLEDGE, 3, &head(interface, handle, TC_H_ROOT)))?;
        Ok(true)
    }
}

/// `struct tcmsg`.
fn head(interface: u32, handle: u32, parent: u32) -> Vec<u8> {
    [0, interface, handle, parent, 0].iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// Returns the root of an interface if a message is about it.
fn root_of(body: &[u8], interface: u32) -> Option<Root> {
    let (head, rest) = body.split_at_checked(HEAD)?;
    let word =
        |index: usize| head.get(4 * index..)?.first_chunk().map(|bytes: &[u8; 4]| u32::from_ne_bytes(*bytes));
    (word(1)? == interface && word(3)? == TC_H_ROOT).then_some(())?;
    let (_, kind) = attributes(rest).find(|(kind, _)| *kind == TCA_KIND)?;
    let kind = String::from_utf8_lossy(kind).trim_end_matches('\0').to_owned();
    Some(Root { kind, handle: word(2)? })
}

fn kind_and_options(bucket: &TokenBucket) -> Vec<u8> {
    let rate = bucket.rate.bps() / 8;
    let word = |value: u64| u32::try_from(value).unwrap_or(u32::MAX).to_ne_bytes();
    // `struct tc_tbf_qopt`: two of `struct tc_ratespec`, the limit, and two times that TCA_TBF_BURST replaces.
    let mut parameters = vec![0, LINK_LAYER];
    parameters.extend(OVERHEAD.to_ne_bytes());
    parameters.extend([0; 4]);
    parameters.extend(word(rate));
    parameters.extend([0; 12]);
    parameters.extend(word(bucket.limit.get()));
    parameters.extend([0; 8]);
    let mut options = attribute(TCA_TBF_PARMS, &parameters);
    if u32::try_from(rate).is_err() {
        options.extend(attribute(TCA_TBF_RATE64, &rate.to_ne_bytes()));
    }
    options.extend(attribute(TCA_TBF_BURST, &word(bucket.burst.get())));
    [attribute(TCA_KIND, b"tbf\0"), attribute(TCA_OPTIONS, &options)].concat()
}

fn fair_queues(target: Duration) -> Vec<u8> {
    let us = u32::try_from(target.ns() / 1_000).unwrap_or(u32::MAX);
    let options = attribute(TCA_FQ_CODEL_TARGET, &us.to_ne_bytes());
    [attribute(TCA_KIND, b"fq_codel\0"), attribute(TCA_OPTIONS, &options)].concat()
}

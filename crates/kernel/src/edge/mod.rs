//! The programs of a middlebox that holds connections at the receive window
//! (`bpf/edge.bpf.c`, wan 2.1 to 2.3).
//!
//! [`Edge`] has them at the interface towards the hosts for as long as it lives, one for each direction.
//! Both directions have the same addresses there, also behind NAT, unlike at an interface towards the
//! link. They follow handshakes and lower windows by themselves; the process tells them what a connection
//! of each class may have, at least once in [`PATIENCE`], and hears of connections that begin and end.
//! [`Session`] is such a process.

mod entries;
mod interface;
mod look;
mod programs;
mod session;
mod split;

use std::net::IpAddr;

use serde::Serialize;

use headway_arithmetic::flow::{Flow, Framing, Key, Meter};
use headway_edge::Policy;
pub use headway_edge::Treatment;

use crate::error::Error;

pub use interface::{EdgeInterface, Instance};
pub use programs::{Edge, Events};
pub use session::{Due, Session};

/// Most classes that the programs know (`EDGE_CLASSES`).
pub const MOST_CLASSES: usize = 32;
/// Seconds without a word of the process after which the programs let windows pass as they are: several times
/// the second after which it is due, so that a busy machine does not count as a dead process, and short
/// enough that nobody waits for long.
pub const PATIENCE: u64 = 5;

/// How the programs work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeOptions {
    /// Whether a sequence number that an end allowed stays allowed (wan 2.3).
    pub no_shrink: bool,
    /// Whether only to count what would be done.
    pub dry_run: bool,
    /// Whether to measure the RTT of connections again and again by their timestamps, and not
    /// only in their handshake.
    pub follow_rtt: bool,
    /// Whether connections may be split (wan F73), as [`Edge::split`] says. Then there are two programs at
    /// the other interface, too.
    pub splits: bool,
    /// Most connections, and as many handshakes, 1 to 2^20: the kernel keeps 520 and 170 bytes for each. Of
    /// UDP there are as many flows, but 16 384 at most.
    pub connections: u32,
}

impl Default for EdgeOptions {
    fn default() -> EdgeOptions {
        EdgeOptions { no_shrink: false, dry_run: false, follow_rtt: true, splits: false, connections: 65_536 }
    }
}

impl EdgeOptions {
    /// Returns what a policy asks for, and else the default.
    pub fn of(policy: &Policy) -> EdgeOptions {
        EdgeOptions {
            no_shrink: policy.no_shrink,
            follow_rtt: policy.follows_rtt(),
            splits: policy.splits(),
            ..EdgeOptions::default()
        }
    }
}

/// What a connection of each class may have towards each side, in bytes per ns with
/// [`SHARE_BITS`](headway_arithmetic::rwm::SHARE_BITS); 0 for any.
pub type Shares = [[u64; MOST_CLASSES]; 2];

/// A connection of TCP (`struct edge_connection`). Arrays have an entry for each end of its key.
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// What is known of its handshake, windows and RTT.
    pub flow: Flow,
    /// Its number, which no other flow has, of TCP or UDP, since the programs were loaded.
    pub number: u64,
    /// The packets with data that each end has sent.
    pub sent: [Meter; 2],
    rules: u32,
    ecn: u32,
    split: u32,
    unused: u32,
}

impl Connection {
    /// Whether it goes on from a relay of this router, in place of one of a host.
    pub const fn is_split(&self) -> bool {
        self.split != 0
    }

    /// Whether each end has sent packets that may be marked.
    pub const fn ecn(&self) -> [bool; 2] {
        ends(self.ecn)
    }
}

/// What bits of 0 and 1 say of each end.
const fn ends(bits: u32) -> [bool; 2] {
    [bits & 1 != 0, bits & 2 != 0]
}

/// Returns what the programs know a treatment by (`enum edge_treatment`); none if they do it by themselves.
const fn code(treatment: Treatment) -> Option<u32> {
    match treatment {
        Treatment::Window => None,
        Treatment::Passes => Some(1),
        Treatment::Marked(class) => Some(2 | class << 8),
        Treatment::Weighed(weight) => {
            let [one, other] = weight.units().0;
            Some(3 | (one as u32) << 8 | (other as u32) << 20)
        }
    }
}

/// Which packets to mark (`struct edge_marking`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// How many flows are to be marked.
    pub flows: u64,
    /// What a byte of them costs towards each side, by class, in ns with
    /// [`COST_BITS`](headway_arithmetic::virtual_queue::COST_BITS); 0 where none is marked.
    pub costs: [[u64; MOST_CLASSES]; 2],
}

/// The mark of packets that this router is to deliver to a relay although their destination is elsewhere, for
/// a rule of routing (`EDGE_TO_RELAY`). The programs set it.
pub const TO_RELAY: u32 = 0x7ed9_0001;
/// The mark that a relay gives to what it sends on, so that the programs know it (`EDGE_OF_RELAY`).
pub const OF_RELAY: u32 = 0x7ed9_0002;

/// Which connections to split, and where (`struct edge_splitting`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Splitting {
    /// The classes of which all connections of hosts are split, a bit each.
    pub all: u32,
    /// The classes of which those of [`SmallReceiver`]s are.
    pub held: u32,
    /// The ports of the loopback addresses of IPv4 and IPv6 where the relay listens; 0 for none.
    pub ports: [u16; 2],
    /// Nothing; so that there is no gap.
    pub unused: u32,
}

/// A host whose windows held a connection of a class below its share (`struct edge_host`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmallReceiver {
    address: [u8; 16],
    class: u32,
}

impl SmallReceiver {
    /// Creates one.
    pub fn new(address: IpAddr, class: u32) -> SmallReceiver {
        let mut bytes = [0; 16];
        match address {
            IpAddr::V4(address) => bytes[..4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes = address.octets(),
        }
        SmallReceiver { address: bytes, class }
    }
}

/// Datagrams of UDP between two ends (`struct edge_exchange`).
#[repr(C)]
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// Its number, as that of a connection.
    pub number: u64,
    /// The datagrams that each end has sent.
    pub sent: [Meter; 2],
    client: u8,
    dscp: u8,
    ecn: u8,
    unused: [u8; 5],
}

impl Exchange {
    /// Returns the end that sent the first datagram, 0 or 1; it is on the side of the hosts.
    pub const fn client(&self) -> usize {
        (self.client & 1) as usize
    }

    /// Returns the differentiated services code point of that.
    pub const fn dscp(&self) -> u8 {
        self.dscp
    }

    /// Whether each end has sent packets that may be marked.
    pub const fn ecn(&self) -> [bool; 2] {
        ends(self.ecn as u32)
    }

    /// Whether both ends have sent something. One that only sends may be asking the router itself.
    pub const fn is_answered(&self) -> bool {
        self.sent[0].packets > 0 && self.sent[1].packets > 0
    }

    /// Returns the time of the latest datagram in ns.
    pub fn seen(&self) -> u64 {
        self.sent.iter().filter(|sent| sent.packets > 0).map(|sent| sent.last).max().unwrap_or(0)
    }
}

/// A connection that began or ended.
#[derive(Clone, Debug)]
pub enum Event {
    /// Its handshake is complete.
    Begun(Key, Flow),
    /// It was closed or reset, or another one between the same ends began.
    Ended(Key, Flow),
}

/// Totals since the programs were loaded (`struct edge_counters`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EdgeCounters {
    /// Segments of TCP.
    pub segments: u64,
    /// Packets of something else.
    pub other: u64,
    /// Parts of packets.
    pub fragments: u64,
    /// Packets within others, or encrypted.
    pub tunnels: u64,
    /// Packets with headers that cannot be read.
    pub malformed: u64,
    /// Segments of connections that were seen from their beginning.
    pub tracked: u64,
    /// Segments whose window was lowered, or would have been without `dry_run`.
    pub lowered: u64,
    /// Segments whose window could not be lowered: the kernel had no memory.
    pub failed: u64,
    /// Segments that passed as they were because the process was silent.
    pub unattended: u64,
    /// Connections that began.
    pub begun: u64,
    /// Connections that ended, but for those that were silent for too long.
    pub ended: u64,
    /// Connections that began without a scale of both ends, or without an RTT: they pass as
    /// they are, but count.
    pub unlimited: u64,
    /// Connections of no class: they pass as they are.
    pub without_class: u64,
    /// Connections for which there was no room: they pass as they are.
    pub without_room: u64,
    /// Events that the process did not take in time.
    pub missed: u64,
    /// Datagrams of UDP, which are among `other`.
    pub datagrams: u64,
    /// Datagrams of flows for which there was no room in the table.
    pub datagrams_without_room: u64,
    /// Datagrams from the link that are of no flow which a host began.
    pub datagrams_unasked: u64,
    /// Segments that passed as they were, although their class has a limit, because their connection
    /// is not to be limited.
    pub exempt: u64,
    /// Packets that were marked, or would have been without `dry_run`.
    pub marked: u64,
    /// SYNs of connections that are to be split, which were given to the relay.
    pub split: u64,
    /// Those of them that got there: there was a socket for what came next.
    pub split_reached: u64,
    /// Those of them that came again, and there was none.
    pub split_repeated: u64,
}

/// Returns the time since the machine was started, in ns, as programs of BPF know it.
///
/// # Errors
/// When the machine has no such clock.
pub fn now() -> Result<u64, Error> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    let now = now.map_err(|reason| Error::Internal(format!("the machine has no clock ({reason})")))?;
    Ok(now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

/// What packets of an interface begin with; none if it is of a kind that is not known.
fn framing(kind: u16) -> Option<Framing> {
    match kind {
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Some(Framing::Ethernet),
        libc::ARPHRD_NONE | libc::ARPHRD_PPP | ARPHRD_RAWIP => Some(Framing::Ip),
        _ => None,
    }
}

/// Modems that carry IP alone (linux/if_arp.h).
const ARPHRD_RAWIP: u16 = 519;

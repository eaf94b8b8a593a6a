//! What arrives at the next hop, with the kernel's receive stamps.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use headway_units::Instant;
use nix::sys::socket::{setsockopt, sockopt};
use nix::{setsockopt_impl, sockopt_impl};

sockopt_impl!(IgnoreOutgoing, SetOnly, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, bool);

/// Bytes kept of a frame: Ethernet, IPv4 and ports are within.
const KEPT: usize = 64;
/// Frames read with one system call.
const BATCH: usize = 64;
/// Bytes for the control message with the stamp.
const CONTROL: usize = 32;
/// Receive buffer in bytes: 20 ms of 64-byte frames at 500 000 a second, as the kernel counts them.
const BUFFER: usize = 64 << 20;
/// Where the EtherType is, and where IPv4 and its protocol are.
const ETHERTYPE: usize = 12;
const IPV4: usize = 14;

/// A frame that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// When the kernel took it from the wire.
    pub(super) at: Instant,
    /// Length with the Ethernet header.
    pub(super) len: u32,
    pub(super) ethertype: u16,
    /// The source port of TCP or UDP; 0 for others.
    pub(super) port: u16,
}

/// A packet socket at the interface of a next hop.
pub(super) struct Arrivals {
    fd: OwnedFd,
    seen: Vec<Arrival>,
}

#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Control([u8; CONTROL]);

impl Arrivals {
    /// Listens at an interface of this thread's network namespace.
    pub(super) fn open(interface: &str) -> io::Result<Arrivals> {
        let index = nix::net::if_::if_nametoindex(interface)?;
        // SAFETY: plain system call; the result is checked before it is used.
        let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` is an open descriptor that nobody else owns.
        let arrivals = Arrivals { fd: unsafe { OwnedFd::from_raw_fd(raw) }, seen: Vec::new() };
        setsockopt(&arrivals.fd, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&arrivals.fd, IgnoreOutgoing, &true)?;
        setsockopt(&arrivals.fd, sockopt::RcvBufForce, &BUFFER)?;
        // SAFETY: all-zero is a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: the address is valid and has the length given.
        let result = unsafe { libc::bind(raw, (&raw const address).cast(), length) };
        if result == 0 { Ok(arrivals) } else { Err(io::Error::last_os_error()) }
    }

    /// Reads what has arrived.
    pub(super) fn read(&mut self) {
        while self.read_some() == BATCH {}
    }

    /// Returns what has arrived since the last call, and how many frames more the kernel dropped
    /// because nobody read them.
    pub(super) fn take(&mut self) -> (Vec<Arrival>, u64) {
        self.read();
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: `stats` and `length` are valid for writing and `length` is the size of `stats`.
        unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut length,
            )
        };
        (std::mem::take(&mut self.seen), u64::from(stats.tp_drops))
    }

    fn read_some(&mut self) -> usize {
        let mut bytes = [[0_u8; KEPT]; BATCH];
        let mut controls = [Control([0; CONTROL]); BATCH];
        // SAFETY: all-zero is a valid value of these plain C structures.
        let (mut vectors, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) = unsafe { zeroed() };
        for k in 0..BATCH {
            vectors[k] = libc::iovec { iov_base: bytes[k].as_mut_ptr().cast(), iov_len: KEPT };
            let header = &mut messages[k].msg_hdr;
            header.msg_iov = &raw mut vectors[k];
            header.msg_iovlen = 1;
            header.msg_control = controls[k].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
        }
        // SAFETY: the messages point to distinct buffers that are valid for the whole call,
        // with the right lengths.
        let count = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                // The length of a frame that its buffer cuts is then that of the whole frame.
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).unwrap_or(0);
        for (message, bytes) in messages[..count].iter().zip(&bytes) {
            if let Some(at) = stamp(&message.msg_hdr) {
                self.seen.push(arrival(at, message.msg_len, bytes));
            }
        }
        count
    }
}

/// Returns the kernel's stamp of a message.
fn stamp(header: &libc::msghdr) -> Option<Instant> {
    // SAFETY: the kernel filled the control buffer of `header`, which is still alive, and its length.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(header).as_ref()?;
        let is_stamp = (control.cmsg_level, control.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        let time = libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned();
        is_stamp.then(|| Instant::from_ns(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64))
    }
}

fn arrival(at: Instant, len: u32, bytes: &[u8; KEPT]) -> Arrival {
    let word = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let ethertype = word(ETHERTYPE);
    let header = usize::from(bytes[IPV4] & 0xf) * 4;
    let has_ports = ethertype == libc::ETH_P_IP as u16
        && matches!(i32::from(bytes[IPV4 + 9]), libc::IPPROTO_TCP | libc::IPPROTO_UDP)
        && IPV4 + header + 2 <= KEPT;
    Arrival { at, len, ethertype, port: if has_ports { word(IPV4 + header) } else { 0 } }
}

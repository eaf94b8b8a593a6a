//! A packet socket on one interface of the router.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use headway_core::Instant;

use crate::clock;
use crate::frame_pool::FramePool;

/// Most frames read by one call: enough to catch up after a stall, few enough not to delay a release.
pub(crate) const BATCH: usize = 32;
/// Receive buffer: 50 ms at 500 Mb/s with the kernel's bookkeeping (a 1500 B frame is charged about 2.3 kB).
const RECEIVE_BUFFER: libc::c_int = 16 << 20;
/// Space for a frame's timestamp: header 16 and timespec 16, rounded up.
const CONTROL: usize = 64;

/// A received frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Its buffer in the pool.
    pub(crate) frame: u32,
    /// Its length with the Ethernet header.
    pub(crate) len: usize,
    /// The kernel's receive timestamp.
    pub(crate) stamp: Instant,
}

/// Space for control messages, aligned as `cmsghdr` requires.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

pub(crate) struct Port {
    fd: OwnedFd,
    spare: Vec<u32>,
    control: Box<[Control; BATCH]>,
}

impl Port {
    /// Opens a packet socket on the interface `name` of this thread's network namespace.
    pub(crate) fn open(name: &str) -> io::Result<Port> {
        // SAFETY: plain system call; the result is checked before it is used.
        let raw = unsafe {
            libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
        };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `raw` is an open descriptor that nobody else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let index = nix::net::if_::if_nametoindex(name)?;
        // Otherwise our own packets would pass a queue discipline, and come back to us as outgoing copies.
        set(raw, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        set(raw, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // With the arrival time, reading late does not cause an error in the delay.
        set(raw, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        if set(raw, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER).is_err() {
            // Without privilege in the initial user namespace the system's limit applies.
            set(raw, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
        }
        bind(raw, index)?;
        Ok(Port { fd, spare: Vec::with_capacity(BATCH), control: Box::new([Control([0; CONTROL]); BATCH]) })
    }

    /// Reads at most `max` waiting frames into `out` and returns whether more may be waiting.
    pub(crate) fn receive(
        &mut self,
        frames: &mut FramePool,
        max: usize,
        out: &mut Vec<Received>,
    ) -> io::Result<bool> {
        let max = max.clamp(1, BATCH);
        while self.spare.len() < max {
            self.spare.push(frames.alloc());
        }
        // SAFETY: all-zero is a valid value of these plain C structures.
        let (mut vectors, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) = unsafe { zeroed() };
        for k in 0..max {
            let buffer = frames.get_mut(self.spare[k]);
            vectors[k] = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
            let header = &mut messages[k].msg_hdr;
            header.msg_iov = &raw mut vectors[k];
            header.msg_iovlen = 1;
            header.msg_control = self.control[k].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
        }
        // SAFETY: the first `max` messages point to distinct buffers that are valid for the whole call, with the right
        // lengths.
        let count = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                max as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) };
        }
        let count = count as usize;
        for (message, frame) in messages[..count].iter().zip(self.spare.drain(..count)) {
            let stamp = stamp(&message.msg_hdr).unwrap_or_else(clock::now);
            out.push(Received { frame, len: message.msg_len as usize, stamp });
        }
        Ok(count == max)
    }

    /// Sends a frame immediately.
    pub(crate) fn send(&self, frame: &[u8]) -> io::Result<()> {
        // SAFETY: `frame` is valid for its length during the call.
        let sent = unsafe {
            libc::send(self.fd.as_raw_fd(), frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT)
        };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns how many frames have been dropped since the last call because the receive buffer was full.
    pub(crate) fn overflows(&self) -> u64 {
        let mut stats = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut len = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: `stats` and `len` are valid for writing and `len` is the size of `stats`.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        };
        if result == 0 { u64::from(stats.tp_drops) } else { 0 }
    }
}

impl AsRawFd for Port {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

fn set(fd: RawFd, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    // SAFETY: the pointer is to an int that outlives the call, with the length of an int.
    let result = unsafe {
        libc::setsockopt(
            fd,
            level,
            option,
            (&raw const value).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bind(fd: RawFd, index: libc::c_uint) -> io::Result<()> {
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: the address is valid and has the length given.
    let result = unsafe {
        libc::bind(fd, (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the kernel's receive timestamp of a message.
fn stamp(header: &libc::msghdr) -> Option<Instant> {
    // SAFETY: the kernel filled the control buffer of `header`, which is still alive, and its length.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(part) = control.as_ref() {
            if part.cmsg_level == libc::SOL_SOCKET && part.cmsg_type == libc::SCM_TIMESTAMPNS {
                let time = libc::CMSG_DATA(part).cast::<libc::timespec>().read_unaligned();
                return Some(clock::from_timespec(time));
            }
            control = libc::CMSG_NXTHDR(header, part);
        }
    }
    None
}

//! A packet socket on one interface of the router.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use headway_units::Instant;

use crate::clock;
use crate::frame_pool::FramePool;
use crate::interface;

/// Most frames read by one call: enough to catch up after a stall, few enough not to delay a release.
pub(crate) const BATCH: usize = 32;
/// Receive buffer: 50 ms at 500 Mb/s with the kernel's bookkeeping (a 1500 B frame is charged about 2.3 kB).
const RECEIVE_BUFFER: libc::c_int = 16 << 20;
/// Space for a frame's timestamp and what the kernel took out of the frame: header 16 and timespec 16, header
/// 16 and auxiliary data 20, each rounded up to 8.
const CONTROL: usize = 72;
/// Bytes of a VLAN tag, and where in the frame it lies.
const VLAN_TAG: usize = 4;
const VLAN_AT: usize = 12;

/// A received frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// Its buffer in the pool.
    pub(crate) frame: u32,
    /// Its length with the Ethernet header; longer than the buffer if the buffer cut it.
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
    /// The number of the interface.
    index: libc::c_uint,
    spare: Vec<u32>,
    control: Box<[Control; BATCH]>,
    /// Frames whose transport checksum their sender left to a device.
    unfinished: u64,
}

impl Port {
    /// Opens a packet socket on the interface `name` of this thread's network namespace.
    pub(crate) fn open(name: &str) -> io::Result<Port> {
        let fd = packet_socket()?;
        let raw = fd.as_raw_fd();
        let index = nix::net::if_::if_nametoindex(name)?;
        // Otherwise our own packets would pass a queue discipline, and come back to us as outgoing copies.
        set(raw, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        set(raw, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // With the arrival time, reading late does not cause an error in the delay.
        set(raw, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        // The kernel takes VLAN tags out of frames.
        set(raw, libc::SOL_PACKET, libc::PACKET_AUXDATA, 1)?;
        if set(raw, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BUFFER).is_err() {
            // Without privilege in the initial user namespace the system's limit applies.
            set(raw, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BUFFER)?;
        }
        bind(raw, libc::ETH_P_ALL as u16, index)?;
        let control = Box::new([Control([0; CONTROL]); BATCH]);
        Ok(Port { fd, index, spare: Vec::with_capacity(BATCH), control, unfinished: 0 })
    }

    /// Whether the interface has been removed or moved to another network namespace. One that was made again
    /// under the same name has another number.
    pub(crate) fn has_gone(&self) -> bool {
        interface::name_of(self.index).is_err()
    }

    /// Receives the frames to all destinations from now on, until the socket is closed.
    pub(crate) fn hear_all(&self) -> io::Result<()> {
        let request = libc::packet_mreq {
            mr_ifindex: self.index as libc::c_int,
            mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        set(self.fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, request)
    }

    /// Returns how many frames since the last call had no valid transport checksum because their sender
    /// left it to a device.
    pub(crate) fn take_unfinished(&mut self) -> u64 {
        std::mem::take(&mut self.unfinished)
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
        // SAFETY: the first `max` messages point to distinct buffers that are valid for the whole call,
        // with the right lengths.
        let count = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                messages.as_mut_ptr(),
                max as libc::c_uint,
                // The length of a frame that its buffer cuts is then that of the whole frame.
                (libc::MSG_DONTWAIT | libc::MSG_TRUNC) as _,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) };
        }
        let count = count as usize;
        for (message, frame) in messages[..count].iter().zip(self.spare.drain(..count)) {
            let Attached { stamp, tag, unfinished } = attached(&message.msg_hdr);
            self.unfinished += u64::from(unfinished);
            let mut len = message.msg_len as usize;
            if let Some(tag) = tag {
                len = insert(frames.get_mut(frame), len, tag);
            }
            out.push(Received { frame, len, stamp: stamp.unwrap_or_else(clock::now) });
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

/// Opens a packet socket that receives nothing yet.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    // SAFETY: plain system call; the result is checked before it is used.
    let raw = unsafe {
        libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
    };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `raw` is an open descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// Sets a socket option to a value of a plain type.
pub(crate) fn set<T: Copy>(fd: RawFd, level: libc::c_int, option: libc::c_int, value: T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to a value of this length that outlives the call.
    let result = unsafe { libc::setsockopt(fd, level, option, (&raw const value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Binds a packet socket to the packets of an Ethernet protocol at an interface.
pub(crate) fn bind(fd: RawFd, protocol: u16, index: libc::c_uint) -> io::Result<()> {
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: the address is valid and has the length given.
    let result = unsafe {
        libc::bind(fd, (&raw const address).cast(), size_of::<libc::sockaddr_ll>() as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What the kernel says about a frame.
#[derive(Default)]
struct Attached {
    stamp: Option<Instant>,
    /// The VLAN tag that it took out of the frame: protocol and value.
    tag: Option<[u8; VLAN_TAG]>,
    /// Whether the frame has no valid transport checksum.
    unfinished: bool,
}

/// Reads the control messages of a frame.
fn attached(header: &libc::msghdr) -> Attached {
    let mut found = Attached::default();
    // SAFETY: the kernel filled the control buffer of `header`, which is still alive, and its length.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while let Some(part) = control.as_ref() {
            match (part.cmsg_level, part.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time = libc::CMSG_DATA(part).cast::<libc::timespec>().read_unaligned();
                    found.stamp = Some(clock::from_timespec(time));
                }
                (libc::SOL_PACKET, libc::PACKET_AUXDATA) => {
                    let data = libc::CMSG_DATA(part).cast::<libc::tpacket_auxdata>().read_unaligned();
                    found.unfinished = data.tp_status & libc::TP_STATUS_CSUMNOTREADY != 0;
                    found.tag = tag(&data);
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(header, part);
        }
    }
    found
}

/// Returns the VLAN tag that the kernel took out of a frame.
fn tag(data: &libc::tpacket_auxdata) -> Option<[u8; VLAN_TAG]> {
    if data.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let [a, b] = data.tp_vlan_tpid.to_be_bytes();
    let [c, d] = data.tp_vlan_tci.to_be_bytes();
    Some([a, b, c, d])
}

/// Puts a VLAN tag back into the frame of `len` bytes at the beginning of `buffer` and
/// returns the new length.
fn insert(buffer: &mut [u8], len: usize, tag: [u8; VLAN_TAG]) -> usize {
    let new = len + VLAN_TAG;
    // A frame that does not fit is dropped later, because its length says so.
    if len >= VLAN_AT && new <= buffer.len() {
        buffer.copy_within(VLAN_AT..len, VLAN_AT + VLAN_TAG);
        buffer[VLAN_AT..VLAN_AT + VLAN_TAG].copy_from_slice(&tag);
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vlan_tag_goes_back_to_where_it_was() {
        let mut buffer: Vec<u8> = (0..24).collect();
        assert_eq!(insert(&mut buffer, 18, [0x81, 0, 0, 5]), 22);
        let expected: Vec<u8> = (0..12).chain([0x81, 0, 0, 5]).chain(12..18).collect();
        assert_eq!(buffer[..22], expected);
        // A frame for which the buffer is too short is longer than its buffer afterwards.
        assert_eq!(insert(&mut buffer, 22, [0; 4]), 26);
    }
}

//! Receives many datagrams with one system call, each with the kernel's timestamps.
//!
//! The wrapper in `nix` reuses the control buffer length of the previous call, so one datagram without a
//! timestamp would lose those of later datagrams. Hence the raw system call.

use headway_units::Instant;
use std::io;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Datagrams per system call: enough to drain 10 Gb/s of full-size packets in about a
/// thousand calls per second.
pub(crate) const BATCH: usize = 64;

/// Bytes kept of each datagram: a probe header after those of IPv4 and ICMP, or before a cookie.
/// Payloads need not be copied.
pub(crate) const KEPT: usize = 64;

/// Bytes for the control messages of one datagram: timestamps (48 bytes), error report
/// (48) and their headers.
const CONTROL: usize = 256;

/// A buffer for control messages, aligned as the kernel's headers require.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Control([u8; CONTROL]);

/// Buffers for one call, reused by every call.
pub(crate) struct Batch {
    data: Box<[[u8; KEPT]; BATCH]>,
    control: Box<[Control; BATCH]>,
    /// For each datagram of the last call: its full length and its timestamps.
    received: Vec<(usize, Stamps)>,
}

/// The kernel's metadata for one datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// Software timestamp on CLOCK_REALTIME.
    pub kernel: Option<Instant>,
    /// Raw timestamp of the NIC, on its own clock.
    pub hardware: Option<Instant>,
    /// For a transmit timestamp: the number of the packet since timestamping was switched on.
    pub transmit: Option<u32>,
    /// For a quoted datagram whose TTL or hop limit ended on the way: the router that reports it.
    pub expired_at: Option<IpAddr>,
}

/// One received datagram.
pub(crate) struct Datagram<'a> {
    /// The first bytes, at most 64; in the queue of errors, those that the router quoted.
    pub start: &'a [u8],
    /// Length of the whole payload in bytes.
    pub length: usize,
    /// Its timestamps.
    pub stamps: Stamps,
}

impl<'a> Datagram<'a> {
    /// Returns the datagram without its first `length` bytes; nothing is left of a shorter one.
    pub(crate) fn skip(self, length: usize) -> Datagram<'a> {
        Datagram {
            start: self.start.get(length..).unwrap_or_default(),
            length: self.length.saturating_sub(length),
            ..self
        }
    }
}

/// A queue of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Received datagrams.
    Data,
    /// Errors and transmit timestamps.
    Errors,
}

impl Batch {
    /// Allocates the buffers, about 20 kB.
    pub(crate) fn new() -> Batch {
        Batch {
            data: Box::new([[0; KEPT]; BATCH]),
            control: Box::new([Control([0; CONTROL]); BATCH]),
            received: Vec::with_capacity(BATCH),
        }
    }

    /// Reads up to 64 datagrams without blocking and returns their number.
    ///
    /// # Errors
    /// Same as `recvmmsg`; an empty queue is [`io::ErrorKind::WouldBlock`].
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, queue: Queue) -> io::Result<usize> {
        self.received.clear();
        // MSG_TRUNC makes the kernel report the full length although only the start is copied.
        let flags = match queue {
            Queue::Data => libc::MSG_DONTWAIT | libc::MSG_TRUNC,
            Queue::Errors => libc::MSG_DONTWAIT | libc::MSG_TRUNC | libc::MSG_ERRQUEUE,
        };
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: mmsghdr consists of integers and pointers, for which all zeroes is a valid value.
        let mut headers: [libc::mmsghdr; BATCH] = unsafe { zeroed() };
        for i in 0..BATCH {
            vectors[i].iov_base = self.data[i].as_mut_ptr().cast();
            vectors[i].iov_len = KEPT;
            let header = &mut headers[i].msg_hdr;
            header.msg_iov = &raw mut vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = self.control[i].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
        }
        // SAFETY: each of the BATCH headers points to one vector and one control buffer of the given lengths,
        // all of which outlive the call, and the socket stays open while it is borrowed.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                BATCH as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for header in &headers[..count] {
            self.received.push((header.msg_len as usize, read_stamps(&header.msg_hdr)));
        }
        Ok(count)
    }

    /// Returns the datagrams of the last [`Batch::receive`].
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.received.iter().zip(self.data.iter()).map(|((length, stamps), data)| Datagram {
            start: &data[..KEPT.min(*length)],
            length: *length,
            stamps: *stamps,
        })
    }
}

/// Reads the timestamps from the control messages of one datagram.
fn read_stamps(header: &libc::msghdr) -> Stamps {
    let mut stamps = Stamps::default();
    // SAFETY: the kernel filled the header and its control buffer is alive; the macros stay within
    // msg_controllen, which the kernel set to the length it wrote.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: a non-null pointer from CMSG_FIRSTHDR or CMSG_NXTHDR points to a complete control header.
        let (level, kind, length) =
            unsafe { ((*message).cmsg_level, (*message).cmsg_type, (*message).cmsg_len as usize) };
        // SAFETY: as above; the data follows its header.
        let data = unsafe { libc::CMSG_DATA(message) };
        // SAFETY: CMSG_LEN only computes.
        let fits = |size: usize| length >= unsafe { libc::CMSG_LEN(size as libc::c_uint) } as usize;
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) if fits(size_of::<[libc::timespec; 3]>()) => {
                // SAFETY: the length was checked; read_unaligned has no alignment requirement.
                let times: [libc::timespec; 3] =
                    unsafe { data.cast::<[libc::timespec; 3]>().read_unaligned() };
                stamps.kernel = instant(&times[0]);
                stamps.hardware = instant(&times[2]);
            }
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
                if fits(size_of::<libc::sock_extended_err>()) =>
            {
                // SAFETY: the length was checked; read_unaligned has no alignment requirement.
                let error = unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() };
                if error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING {
                    stamps.transmit = Some(error.ee_data);
                }
                // SAFETY: the pointer stays within the message, or is one past its end.
                let offender = unsafe { data.add(size_of::<libc::sock_extended_err>()) };
                let rest = length.saturating_sub(
                    // SAFETY: CMSG_LEN only computes.
                    unsafe { libc::CMSG_LEN(size_of::<libc::sock_extended_err>() as libc::c_uint) } as usize,
                );
                stamps.expired_at = expired_at(&error, offender, rest);
            }
            _ => {}
        }
        // SAFETY: header and message are as above.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    stamps
}

/// Type and code of "TTL exceeded in transit" (RFC 792) and of "hop limit exceeded in transit" (RFC 4443).
const TTL_EXCEEDED: (u8, u8) = (11, 0);
const HOP_LIMIT_EXCEEDED: (u8, u8) = (3, 0);

/// Returns the address of the router that reports an expired datagram; `None` for other errors. `offender`
/// points to `length` bytes that follow the report.
fn expired_at(error: &libc::sock_extended_err, offender: *const u8, length: usize) -> Option<IpAddr> {
    match (error.ee_origin, (error.ee_type, error.ee_code)) {
        (libc::SO_EE_ORIGIN_ICMP, TTL_EXCEEDED) if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the caller passes `length` valid bytes, which were checked;
            // read_unaligned needs no alignment.
            let address = unsafe { offender.cast::<libc::sockaddr_in>().read_unaligned() };
            let is_address = i32::from(address.sin_family) == libc::AF_INET;
            is_address.then(|| Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        (libc::SO_EE_ORIGIN_ICMP6, HOP_LIMIT_EXCEEDED) if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as above.
            let address = unsafe { offender.cast::<libc::sockaddr_in6>().read_unaligned() };
            let is_address = i32::from(address.sin6_family) == libc::AF_INET6;
            is_address.then(|| Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Converts a timestamp to nanoseconds; all zeroes means that there is none.
fn instant(time: &libc::timespec) -> Option<Instant> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let ns = seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec).ok()?)?;
    (ns != 0).then(|| Instant::from_ns(ns))
}

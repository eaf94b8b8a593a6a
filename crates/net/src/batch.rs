//! Receiving many datagrams with one system call, each with the kernel's time stamps.
//!
//! The wrapper in `nix` keeps the control buffer length of the previous call, so a datagram without a stamp would
//! cost its successors theirs. Hence the system call itself.

use headway_core::Instant;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Datagrams taken per system call: enough to drain 10 Gb/s of full packets in about a thousand calls a second.
pub(crate) const BATCH: usize = 64;

/// Bytes kept of each datagram: the longest header with a cookie, so that payloads need not be copied.
const KEPT: usize = 64;

/// Room for the control messages of one datagram: stamps (48 bytes), error report (48) and their headers.
const CONTROL: usize = 256;

/// Memory for control messages, aligned as the kernel's headers want it.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Control([u8; CONTROL]);

/// Buffers for one call, used again and again.
pub(crate) struct Batch {
    data: Box<[[u8; KEPT]; BATCH]>,
    control: Box<[Control; BATCH]>,
    /// Per datagram received by the last call: its whole length and its stamps.
    received: Vec<(usize, Stamps)>,
}

/// What the kernel said about one datagram beside its bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stamps {
    /// Software stamp on CLOCK_REALTIME.
    pub kernel: Option<Instant>,
    /// Raw stamp of the network card on its own clock.
    pub hardware: Option<Instant>,
    /// For a transmit stamp: which packet since stamping was switched on.
    pub transmit: Option<u32>,
}

/// One received datagram.
pub(crate) struct Datagram<'a> {
    /// The first bytes, at most 64.
    pub start: &'a [u8],
    /// Length of the whole payload in bytes.
    pub length: usize,
    /// Its stamps.
    pub stamps: Stamps,
}

/// Which of a socket's queues to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Datagrams that arrived.
    Data,
    /// Errors and transmit stamps.
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

    /// Takes up to 64 datagrams without waiting and returns how many came.
    ///
    /// # Errors
    /// As `recvmmsg`; an empty queue is [`io::ErrorKind::WouldBlock`].
    pub(crate) fn receive(&mut self, socket: BorrowedFd<'_>, queue: Queue) -> io::Result<usize> {
        self.received.clear();
        // MSG_TRUNC makes the kernel report the whole length although only the start is copied.
        let flags = match queue {
            Queue::Data => libc::MSG_DONTWAIT | libc::MSG_TRUNC,
            Queue::Errors => libc::MSG_DONTWAIT | libc::MSG_TRUNC | libc::MSG_ERRQUEUE,
        };
        let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BATCH];
        // SAFETY: mmsghdr is plain old data of integers and pointers, for which all zeroes is a valid value.
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
        // SAFETY: each of the BATCH headers points to one vector and one control buffer of the stated lengths, all
        // of which outlive the call, and the socket is open as long as it is borrowed.
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

    /// The datagrams of the last [`Batch::receive`].
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.received.iter().zip(self.data.iter()).map(|((length, stamps), data)| Datagram {
            start: &data[..KEPT.min(*length)],
            length: *length,
            stamps: *stamps,
        })
    }
}

/// Reads the stamps from the control messages that the kernel attached to one message.
fn read_stamps(header: &libc::msghdr) -> Stamps {
    let mut stamps = Stamps::default();
    // SAFETY: the header was filled by the kernel and its control buffer is alive; the macros stay within
    // msg_controllen, which the kernel set to what it wrote.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !message.is_null() {
        // SAFETY: a pointer from CMSG_FIRSTHDR or CMSG_NXTHDR that is not null points to a whole control header.
        let (level, kind, length) =
            unsafe { ((*message).cmsg_level, (*message).cmsg_type, (*message).cmsg_len as usize) };
        // SAFETY: as above; the data follows its header.
        let data = unsafe { libc::CMSG_DATA(message) };
        // SAFETY: CMSG_LEN only computes.
        let fits = |size: usize| length >= unsafe { libc::CMSG_LEN(size as libc::c_uint) } as usize;
        match (level, kind) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPING) if fits(size_of::<[libc::timespec; 3]>()) => {
                // SAFETY: the length was checked; read_unaligned makes no demand on alignment.
                let times: [libc::timespec; 3] =
                    unsafe { data.cast::<[libc::timespec; 3]>().read_unaligned() };
                stamps.kernel = instant(&times[0]);
                stamps.hardware = instant(&times[2]);
            }
            (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
                if fits(size_of::<libc::sock_extended_err>()) =>
            {
                // SAFETY: the length was checked; read_unaligned makes no demand on alignment.
                let error = unsafe { data.cast::<libc::sock_extended_err>().read_unaligned() };
                if error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING {
                    stamps.transmit = Some(error.ee_data);
                }
            }
            _ => {}
        }
        // SAFETY: header and message are as above.
        message = unsafe { libc::CMSG_NXTHDR(header, message) };
    }
    stamps
}

/// A stamp as nanoseconds; all zeroes mean that there is none.
fn instant(time: &libc::timespec) -> Option<Instant> {
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let ns = seconds.checked_mul(1_000_000_000)?.checked_add(u64::try_from(time.tv_nsec).ok()?)?;
    (ns != 0).then(|| Instant::from_ns(ns))
}

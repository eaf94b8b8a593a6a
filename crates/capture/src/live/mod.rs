//! Captures TCP packets on an interface, with an `AF_PACKET` socket.

mod filter;
mod ring;

use std::ffi::CString;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use headway_units::{Instant, Rate};

use crate::{Link, Packet};
use ring::Ring;

/// The name that stands for all interfaces.
pub(crate) const ANY: &str = "any";

/// Why an interface cannot be captured on.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// There is no interface of this name.
    #[error("there is no interface {name}; there are {others}")]
    NoInterface {
        /// The name.
        name: String,
        /// The names of those that exist.
        others: String,
    },
    /// This process may not capture.
    #[error(
        "capturing on an interface needs the right CAP_NET_RAW: run it as root, which it gives up once the interface is \
         open, or read from another program: `sudo tcpdump -i {name} -U -s 128 -w - tcp | headway passive -`; \
         docs/passive.md says how to let the users of one group do it"
    )]
    NotPermitted {
        /// The interface.
        name: String,
    },
    /// The interface went down or away, or another error.
    #[error("cannot capture on {name}: {source}")]
    Io {
        /// The interface.
        name: String,
        /// The system's error.
        source: io::Error,
    },
}

/// A capture on an interface.
#[derive(Debug)]
pub struct Live {
    // Before the socket, so that it is unmapped first.
    ring: Ring,
    fd: OwnedFd,
    name: String,
    drops: u64,
}

impl Live {
    /// Starts to capture TCP packets on an interface of this thread's network namespace, or on
    /// all of them ([`ANY`]).
    ///
    /// # Errors
    /// [`LiveError`] if the interface does not exist or this process may not capture.
    pub fn open(name: &str) -> Result<Live, LiveError> {
        let failed = |source: io::Error| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => LiveError::NotPermitted { name: name.to_owned() },
            _ => LiveError::Io { name: name.to_owned(), source },
        };
        let index = if name == ANY { 0 } else { index(name)? };
        // Without a protocol nothing is received before the filter is in place.
        // SAFETY: plain system call; the result is checked before it is used.
        let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
        if raw < 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        // SAFETY: `raw` is an open descriptor that nothing else owns.
        let fd = unsafe { OwnedFd::from_raw_fd(raw) };
        let loopback = is_loopback(&fd, name);
        let ring = prepare(fd.as_fd(), index, loopback).map_err(failed)?;
        Ok(Live { ring, fd, name: name.to_owned(), drops: 0 })
    }

    /// Returns the next packet, with whether it is outgoing; `None` if there is none now.
    pub fn packet(&mut self) -> Option<(Packet<'_>, Option<bool>)> {
        // On the loopback interface every packet comes twice.
        let frame = loop {
            let frame = self.ring.next()?;
            if frame.hardware != libc::ARPHRD_LOOPBACK || frame.kind != libc::PACKET_OUTGOING {
                break frame;
            }
        };
        let at = Instant::from_ns(u64::from(frame.seconds) * 1_000_000_000 + u64::from(frame.nanoseconds));
        let outgoing = match frame.kind {
            _ if frame.hardware == libc::ARPHRD_LOOPBACK => None,
            libc::PACKET_OUTGOING => Some(true),
            libc::PACKET_HOST => Some(false),
            // For another host, or for all.
            _ => None,
        };
        let packet = Packet {
            at,
            data: self.ring.bytes(&frame),
            length: frame.length,
            interface: frame.interface,
            link: Link::Raw,
            check_sequence: false,
            declared: 0,
        };
        Some((packet, outgoing))
    }

    /// Waits for packets, at most for `timeout`; a signal ends it early.
    ///
    /// # Errors
    /// [`LiveError`] if the interface went down or away.
    pub fn wait(&self, timeout: Duration) -> Result<(), LiveError> {
        let mut poll = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let timeout = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: one valid pollfd that outlives the call.
        let ready = unsafe { libc::poll(&raw mut poll, 1, timeout) };
        let failed = |source| LiveError::Io { name: self.name.clone(), source };
        if ready < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(failed(error)) };
        }
        if poll.revents & libc::POLLERR != 0 {
            let mut error: libc::c_int = 0;
            get(self.fd.as_fd(), libc::SOL_SOCKET, libc::SO_ERROR, &mut error).map_err(failed)?;
            if error != 0 {
                return Err(failed(io::Error::from_raw_os_error(error)));
            }
        }
        Ok(())
    }

    /// Returns the number of packets that the kernel has dropped because the ring was full.
    pub fn drops(&mut self) -> u64 {
        let mut counts = libc::tpacket_stats_v3 { tp_packets: 0, tp_drops: 0, tp_freeze_q_cnt: 0 };
        // The kernel sets its counts to zero when they are read.
        if get(self.fd.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut counts).is_ok() {
            self.drops += u64::from(counts.tp_drops);
        }
        self.drops
    }

    /// Returns the rate of the NIC, of all of them that of the fastest; `None` if it does not tell.
    pub fn speed(&self) -> Option<Rate> {
        match self.name.as_str() {
            ANY => interfaces().iter().filter_map(|name| self.speed_of(name)).max(),
            name => self.speed_of(name),
        }
    }

    fn speed_of(&self, name: &str) -> Option<Rate> {
        /// `ETHTOOL_GSET`, and the length and fields of `struct ethtool_cmd`.
        const GET_SETTINGS: u32 = 1;
        let mut command = [0u32; 11];
        command[0] = GET_SETTINGS;
        let mut request = request(name);
        request.ifr_ifru.ifru_data = command.as_mut_ptr().cast();
        // SAFETY: the request names an interface and points to a structure of the right length
        // that outlives the call.
        let result = unsafe { libc::ioctl(self.fd.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut request) };
        let low = command[3].to_ne_bytes();
        let low = u16::from_ne_bytes([low[0], low[1]]);
        let high = command[7].to_ne_bytes();
        let high = u16::from_ne_bytes([high[0], high[1]]);
        let megabits = u64::from(high) << 16 | u64::from(low);
        let known = result == 0 && megabits > 0 && megabits < u64::from(u32::MAX) && low != u16::MAX;
        known.then(|| Rate::from_bps(megabits * 1_000_000))
    }
}

/// Sets up filter, ring and binding of a packet socket.
fn prepare(fd: BorrowedFd<'_>, index: u32, loopback: bool) -> io::Result<Ring> {
    let mut program = filter::tcp();
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    option(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)?;
    // Stamps are taken when the driver hands over a packet and not when it reaches the ring.
    option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1)?;
    if loopback {
        // Every packet would come twice.
        option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1)?;
    }
    let ring = Ring::new(fd)?;
    // SAFETY: all-zero is a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the address is valid and has the length given.
    let result = unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), length) };
    if result == 0 { Ok(ring) } else { Err(io::Error::last_os_error()) }
}

/// Returns the index of an interface.
fn index(name: &str) -> Result<u32, LiveError> {
    let index = CString::new(name).map_or(0, |name| {
        // SAFETY: a string that ends with zero and outlives the call.
        unsafe { libc::if_nametoindex(name.as_ptr()) }
    });
    if index > 0 {
        return Ok(index);
    }
    let others = [interfaces(), vec![format!("{ANY}, which is all of them")]].concat().join(", ");
    Err(LiveError::NoInterface { name: name.to_owned(), others })
}

/// Returns the names of all interfaces.
fn interfaces() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: the list ends with an index of 0, its names end with zero, and it is freed after its last use.
    unsafe {
        let list = libc::if_nameindex();
        let mut entry = list;
        while !entry.is_null() && (*entry).if_index != 0 {
            names.push(std::ffi::CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
            entry = entry.add(1);
        }
        if !list.is_null() {
            libc::if_freenameindex(list);
        }
    }
    names
}

fn is_loopback(fd: &OwnedFd, name: &str) -> bool {
    let mut request = request(name);
    // SAFETY: the request names an interface, and the kernel writes the flags into it.
    unsafe {
        libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFFLAGS as _, &raw mut request) == 0
            && i32::from(request.ifr_ifru.ifru_flags) & libc::IFF_LOOPBACK != 0
    }
}

/// Returns a request about an interface, whose name has less than 16 bytes.
fn request(name: &str) -> libc::ifreq {
    // SAFETY: all-zero is a valid ifreq.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    request
}

/// Types of socket options of this module: the kernel reads and writes their bytes.
///
/// # Safety
/// All bytes must be valid for the type, and writing them must not change memory elsewhere.
unsafe trait Plain: Copy {}

// SAFETY: an integer.
unsafe impl Plain for libc::c_int {}
// SAFETY: integers.
unsafe impl Plain for libc::tpacket_req3 {}
// SAFETY: integers.
unsafe impl Plain for libc::tpacket_stats_v3 {}
// SAFETY: a length and a pointer that only the kernel follows, which checks it.
unsafe impl Plain for libc::sock_fprog {}

/// Sets a socket option.
fn option<T: Plain>(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer is to a value of this length that outlives the call.
    let result =
        unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, std::ptr::from_ref(value).cast(), length) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads a socket option.
fn get<T: Plain>(fd: BorrowedFd<'_>, level: libc::c_int, name: libc::c_int, value: &mut T) -> io::Result<()> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: value and length are valid for writing, and the length is that of the value.
    let result = unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, std::ptr::from_mut(value).cast(), &raw mut length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

//! Settings of interfaces by `ETHTOOL` requests (`include/uapi/linux/ethtool.h`).

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;

/// Requests for what an interface merges and splits, with the flag of one that shares its request.
const GET_TSO: u32 = 0x1e;
const GET_GSO: u32 = 0x23;
const GET_GRO: u32 = 0x2b;
const GET_FLAGS: u32 = 0x25;
const LRO: u32 = 1 << 15;
/// The requests for `struct ethtool_coalesce` and `struct ethtool_pauseparam`, and their lengths in words.
const GET_COALESCE: u32 = 0x0e;
const COALESCE: usize = 23;
const GET_PAUSE: u32 = 0x12;
const PAUSE: usize = 4;
/// The request for `struct ethtool_ts_info`, and its length in words.
const GET_TIMESTAMPS: u32 = 0x41;
const TIMESTAMPS: usize = 11;

/// Makes a request with a value to an interface of this thread's network namespace and returns the value
/// afterwards; 0 if the device does not have the feature.
///
/// # Errors
/// The system's error.
pub fn value(name: &str, request: u32, data: u32) -> io::Result<u32> {
    let mut words = [request, data];
    match ask(name, &mut words) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(0),
        result => result.map(|()| words[1]),
    }
}

/// Returns the names of what an interface merges before this host sees it, or splits after it was sent.
///
/// # Errors
/// The system's error.
pub fn offloads(name: &str) -> io::Result<Vec<&'static str>> {
    let all = [("TSO", GET_TSO, 1), ("GSO", GET_GSO, 1), ("GRO", GET_GRO, 1), ("LRO", GET_FLAGS, LRO)];
    let mut on = Vec::new();
    for (what, request, flag) in all {
        if value(name, request, 0)? & flag != 0 {
            on.push(what);
        }
    }
    Ok(on)
}

/// Which timestamps an interface can give, of packets that it sends and receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamps {
    /// By the driver, when it gets or hands over a packet.
    pub software: [bool; 2],
    /// By the NIC.
    pub hardware: [bool; 2],
}

/// Asks for them.
///
/// # Errors
/// The system's error.
pub fn timestamps(name: &str) -> io::Result<Timestamps> {
    let mut words = [0; TIMESTAMPS];
    words[0] = GET_TIMESTAMPS;
    ask(name, &mut words)?;
    let has = |flag: u32| words[1] & flag != 0;
    Ok(Timestamps {
        software: [libc::SOF_TIMESTAMPING_TX_SOFTWARE, libc::SOF_TIMESTAMPING_RX_SOFTWARE].map(has),
        hardware: [libc::SOF_TIMESTAMPING_TX_HARDWARE, libc::SOF_TIMESTAMPING_RX_HARDWARE].map(has),
    })
}

/// What an interface does that delays or holds packets beside its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holding {
    /// Whether it stops sending when the other end asks (pause frames), and asks itself.
    pub pauses: [bool; 2],
    /// Longest time that received packets wait for an interrupt, in us.
    pub coalescing: u32,
}

/// Asks for it; what a driver does not know it does not do.
///
/// # Errors
/// The system's error.
pub fn holding(name: &str) -> io::Result<Holding> {
    let mut pause = [0; PAUSE];
    pause[0] = GET_PAUSE;
    let mut coalesce = [0; COALESCE];
    coalesce[0] = GET_COALESCE;
    for words in [&mut pause[..], &mut coalesce] {
        match ask(name, words) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => words.fill(0),
            result => result?,
        }
    }
    Ok(Holding { pauses: [pause[2], pause[3]].map(|on| on != 0), coalescing: coalesce[1] })
}

/// Makes a request whose structure has these words, which the kernel changes.
fn ask(name: &str, words: &mut [u32]) -> io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0").or_else(|_| UdpSocket::bind("[::1]:0"))?;
    // SAFETY: all-zero is a valid ifreq.
    let mut ifreq: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in ifreq.ifr_name.iter_mut().zip(name.bytes().take(libc::IFNAMSIZ - 1)) {
        *to = from as libc::c_char;
    }
    ifreq.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: the request reads and writes an ifreq whose data points to the structure of the
    // request; both outlive the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut ifreq) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_stamps_packets_but_has_no_clock() {
        let timestamps = timestamps("lo").unwrap();
        assert_eq!(timestamps.hardware, [false, false]);
        assert!(timestamps.software[1]);
        assert!(offloads("lo").is_ok() && holding("lo").is_ok_and(|lo| lo == Holding::default()));
        assert!(offloads("no-such-one").is_err());
    }
}

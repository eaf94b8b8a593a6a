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
/// The request for `struct ethtool_pauseparam`.
const GET_PAUSE: u32 = 0x12;
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

/// Returns whether the flow control of an interface (PAUSE frames, 802.3x) is on in a direction, or may be
/// agreed on with the peer; a device that has none has it off.
///
/// # Errors
/// The system's error.
pub fn flow_control(name: &str) -> io::Result<bool> {
    let mut words = [GET_PAUSE, 0, 0, 0];
    match ask(name, &mut words) {
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(false),
        // Whether it is negotiated, and whether to send and to heed PAUSE frames.
        result => result.map(|()| words[2] != 0 || words[3] != 0),
    }
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
        assert!(offloads("lo").is_ok());
        assert!(offloads("no-such-one").is_err());
        assert!(!flow_control("lo").unwrap());
        assert!(flow_control("no-such-one").is_err());
    }
}

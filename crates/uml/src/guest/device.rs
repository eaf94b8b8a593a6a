//! Settings of network devices that need an ioctl.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use super::Failure;

/// Commands of `SIOCETHTOOL` (`include/uapi/linux/ethtool.h`): TSO, GSO and GRO.
const OFFLOADS: [u32; 3] = [0x1f, 0x24, 0x2c];
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// Turns off the offloads of a device in this namespace, so that it sends and receives no
/// packets above its MTU.
pub(super) fn disable_offloads(device: &str) -> Result<(), Failure> {
    let failed =
        || Failure::of(format!("cannot turn the offloads of {device} off"), io::Error::last_os_error());
    // SAFETY: takes no pointers.
    let socket = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(failed());
    }
    // SAFETY: the socket has just been opened, and nothing else knows it.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    for command in OFFLOADS {
        let mut value = Value { command, data: 0 };
        // SAFETY: all bit patterns of this plain structure are valid.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (place, byte) in request.ifr_name.iter_mut().zip(device.bytes().take(libc::IFNAMSIZ - 1)) {
            *place = byte as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: request and value outlive the call, which writes into no more than the value.
        if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) } < 0 {
            return Err(failed());
        }
    }
    Ok(())
}

//! Queue disciplines installed by netlink, for options that `tc` does not have.

use std::io;
use std::os::fd::AsRawFd as _;

use nix::sys::socket::{
    AddressFamily, MsgFlags, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, recv, sendto, socket,
};

use super::Failure;

/// Message type, flags and attributes of `include/uapi/linux/rtnetlink.h`.
const RTM_NEWQDISC: u16 = 36;
const REQUEST_ACK_CREATE_EXCLUSIVE: u16 = 0x1 | 0x4 | 0x400 | 0x200;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;

/// Installs a discipline with these attributes as its options on a device of this namespace.
pub(super) fn install(
    kind: &str,
    device: &str,
    parent: u32,
    handle: u32,
    options: &[u8],
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::of(format!("cannot put `{kind}` on {device}"), error);
    let index = nix::net::if_::if_nametoindex(device).map_err(|error| failed(error.into()))?;
    let mut body = vec![0; 4];
    for value in [index, handle, parent, 0] {
        body.extend(value.to_ne_bytes());
    }
    body.extend(attribute(TCA_KIND, format!("{kind}\0").as_bytes()));
    body.extend(attribute(TCA_OPTIONS, options));
    let mut message = ((body.len() + 16) as u32).to_ne_bytes().to_vec();
    message.extend(RTM_NEWQDISC.to_ne_bytes());
    message.extend(REQUEST_ACK_CREATE_EXCLUSIVE.to_ne_bytes());
    message.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    message.extend(body);
    let answer = ask(&message).map_err(|error| failed(error.into()))?;
    // An ACK is an error message with code zero.
    let number =
        answer.get(16..20).and_then(|bytes| bytes.try_into().ok()).map_or(-libc::EIO, i32::from_ne_bytes);
    if number == 0 { Ok(()) } else { Err(failed(io::Error::from_raw_os_error(-number))) }
}

/// Sends a message to the kernel and returns its answer.
fn ask(message: &[u8]) -> nix::Result<Vec<u8>> {
    let netlink =
        socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::NetlinkRoute)?;
    bind(netlink.as_raw_fd(), &NetlinkAddr::new(0, 0))?;
    sendto(netlink.as_raw_fd(), message, &NetlinkAddr::new(0, 0), MsgFlags::empty())?;
    let mut answer = vec![0; 4096];
    let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(length);
    Ok(answer)
}

/// Returns an attribute, padded to whole words.
pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

//! Sends a few datagrams with one system call, each with a TTL of its own.
//!
//! The packets of a train must leave at once: between two system calls another program may run.

use crate::protocol::Family;
use headway_estimate::Train;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Most datagrams in one call: the longest train.
pub(crate) const MAX_TRAIN: usize = Train::MAX_HIDDEN as usize + 2;

/// Bytes for the control message of one datagram: a header of 16 bytes and an int, aligned to 8.
const CONTROL: usize = 24;

/// Failed calls in a row before a train is given up. Each ICMP error that has arrived makes one call fail.
const RETRIES: u32 = 32;

/// A buffer for one control message, aligned as the kernel's headers require.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Control([u8; CONTROL]);

/// Sends all datagrams, at most [`MAX_TRAIN`], without blocking. A datagram whose entry in `hops` is not 0
/// gets this TTL or hop limit, the others that of the system.
///
/// # Errors
/// Same as `sendmmsg`; some of the datagrams may have been sent.
pub(crate) fn send_batch(
    socket: BorrowedFd<'_>,
    family: Family,
    datagrams: &mut [Vec<u8>],
    hops: &[u8],
) -> io::Result<()> {
    let mut vectors = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MAX_TRAIN];
    let mut controls = [Control([0; CONTROL]); MAX_TRAIN];
    // SAFETY: mmsghdr consists of integers and pointers, for which all zeroes is a valid value.
    let mut headers: [libc::mmsghdr; MAX_TRAIN] = unsafe { zeroed() };
    let count = datagrams.len().min(MAX_TRAIN);
    for (i, datagram) in datagrams.iter_mut().take(count).enumerate() {
        vectors[i].iov_base = datagram.as_mut_ptr().cast();
        vectors[i].iov_len = datagram.len();
        let header = &mut headers[i].msg_hdr;
        header.msg_iov = &raw mut vectors[i];
        header.msg_iovlen = 1;
        if let Some(hops) = hops.get(i).filter(|hops| **hops != 0) {
            header.msg_control = controls[i].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
            write_hops(header, family, *hops);
        }
    }
    let mut sent = 0;
    let mut failures = 0;
    while sent < count {
        // SAFETY: each of the headers from `sent` to `count` points to one vector and, if its length
        // is not 0, one control buffer, all of which outlive the call, and the socket stays open
        // while it is borrowed.
        let result = unsafe {
            libc::sendmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr().add(sent),
                (count - sent) as libc::c_uint,
                libc::MSG_DONTWAIT as _,
            )
        };
        match usize::try_from(result) {
            Ok(more) => sent += more,
            Err(_) => {
                let error = io::Error::last_os_error();
                failures += 1;
                if !reports_earlier(&error) || failures > RETRIES {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Whether the error may stem from an ICMP message about an earlier datagram.
fn reports_earlier(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
}

/// Writes the control message that sets the TTL or hop limit of a datagram. The header must have a control
/// buffer of [`CONTROL`] bytes.
fn write_hops(header: &libc::msghdr, family: Family, hops: u8) {
    let (level, kind) = match family {
        Family::V4 => (libc::IPPROTO_IP, libc::IP_TTL),
        Family::V6 => (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT),
    };
    // SAFETY: the control buffer holds one header and one int, so the first header exists and its data fit.
    unsafe {
        let message = libc::CMSG_FIRSTHDR(header);
        (*message).cmsg_level = level;
        (*message).cmsg_type = kind;
        (*message).cmsg_len = libc::CMSG_LEN(size_of::<libc::c_int>() as libc::c_uint) as _;
        libc::CMSG_DATA(message).cast::<libc::c_int>().write_unaligned(libc::c_int::from(hops));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    /// Returns a connected pair of sockets whose receiving one reports TTLs.
    fn pair() -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        nix::sys::socket::setsockopt(&receiver, nix::sys::socket::sockopt::Ipv4RecvTtl, &true).unwrap();
        (sender, receiver)
    }

    /// Receives one datagram with its TTL.
    fn receive(socket: &UdpSocket) -> (u8, i32) {
        use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
        let mut data = [0; 8];
        let mut vectors = [io::IoSliceMut::new(&mut data)];
        let mut control = nix::cmsg_space!(libc::c_int);
        let message =
            recvmsg::<()>(socket.as_raw_fd(), &mut vectors, Some(&mut control), MsgFlags::empty()).unwrap();
        let ttl = message.cmsgs().unwrap().find_map(|control| match control {
            ControlMessageOwned::Ipv4Ttl(ttl) => Some(ttl),
            _ => None,
        });
        (data[0], ttl.unwrap())
    }

    #[test]
    fn datagrams_of_one_call_have_different_ttls() {
        let (sender, receiver) = pair();
        let mut datagrams: Vec<Vec<u8>> = (0..4).map(|i| vec![i; 8]).collect();
        send_batch(sender.as_fd(), Family::V4, &mut datagrams, &[0, 3, 7, 0]).unwrap();
        let system = sender.ttl().unwrap() as i32;
        let got: Vec<(u8, i32)> = (0..4).map(|_| receive(&receiver)).collect();
        assert_eq!(got, [(0, system), (1, 3), (2, 7), (3, system)]);
    }

    #[test]
    fn one_control_message_fits_its_buffer() {
        // SAFETY: CMSG_SPACE only computes.
        let space = unsafe { libc::CMSG_SPACE(size_of::<libc::c_int>() as libc::c_uint) };
        assert!(space as usize <= CONTROL);
    }
}

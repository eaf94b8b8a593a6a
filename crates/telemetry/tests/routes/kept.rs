//! Connections that pass this host keep their next hops.

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::num::NonZeroU8;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use headway_telemetry::kept::Kept;
use headway_telemetry::preferred::NextHop;
use nix::net::if_::if_nametoindex;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv, send};

use crate::{ip, is_alone, without_link_local};

/// Connections that pass.
const ALL: u16 = 200;
/// Two ticks of the kernel, of which there are at least a hundred a second.
const TICKS: Duration = Duration::from_millis(20);
const KEPT: Kept = Kept { number: 0x4877_0100, protocol: 126 };

/// A socket for whole frames of IPv4 at an interface.
fn frames(interface: &str) -> OwnedFd {
    let protocol = (libc::ETH_P_IP as u16).to_be();
    // SAFETY: plain system calls; the address is valid for its size, and the descriptor is new.
    unsafe {
        let socket = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(protocol));
        assert!(socket >= 0);
        let mut address: libc::sockaddr_ll = std::mem::zeroed();
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = if_nametoindex(interface).unwrap() as i32;
        let size = size_of_val(&address) as u32;
        assert_eq!(libc::bind(socket, (&raw const address).cast(), size), 0);
        OwnedFd::from_raw_fd(socket)
    }
}

/// A datagram of a connection of this number, to the router.
fn frame(number: u16) -> Vec<u8> {
    let mut head = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 9, 0, 1, 198, 51, 100, 9];
    let sum: u32 = head.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    head[10..12].copy_from_slice(&sum.to_be_bytes());
    let udp = [&(10_000 + number).to_be_bytes()[..], &[0, 9, 0, 8, 0, 0]].concat();
    [&[2, 0, 0, 0, 9, 0, 2, 0, 0, 0, 9, 1, 8, 0][..], &head, &udp].concat()
}

struct Stage {
    from: OwnedFd,
    far: [OwnedFd; 2],
}

impl Stage {
    fn up() -> Stage {
        without_link_local();
        ip("link add in0 address 02:00:00:00:09:00 type veth peer name in1");
        ip("link set in1 up");
        ip("link set in0 up");
        ip("addr add 10.9.0.2/24 dev in0");
        for number in [0, 1] {
            ip(&format!("link add eth{number} type veth peer name far{number}"));
            ip(&format!("link set far{number} up"));
            ip(&format!("link set eth{number} up"));
            ip(&format!("addr add 10.1.{number}.3/24 dev eth{number}"));
            ip(&format!("addr add fd00:{number}::3/64 dev eth{number} nodad"));
            ip(&format!("neigh add 10.1.{number}.7 lladdr 02:00:00:00:00:07 dev eth{number}"));
        }
        ip("route add default via 10.1.0.7");
        for (file, value) in
            [("ip_forward", "1"), ("fib_multipath_hash_policy", "1"), ("conf/in0/rp_filter", "0")]
        {
            std::fs::write(format!("/proc/sys/net/ipv4/{file}"), value).unwrap();
        }
        Stage { from: frames("in1"), far: ["far0", "far1"].map(frames) }
    }

    /// Sends packets of each of these connections, and returns which path each took.
    fn paths(&self, numbers: std::ops::Range<u16>) -> BTreeMap<u16, usize> {
        self.arrived();
        let (mut found, begun) = (BTreeMap::new(), Instant::now());
        // To the kernel a bucket is unused until it was used in a later tick than that in which it changed.
        while begun.elapsed() < TICKS {
            for number in numbers.clone() {
                send(self.from.as_raw_fd(), &frame(number), MsgFlags::empty()).unwrap();
                found.extend(self.arrived());
            }
        }
        while found.len() < numbers.len() {
            let mut files = self.far.each_ref().map(|far| PollFd::new(far.as_fd(), PollFlags::POLLIN));
            assert_ne!(poll(&mut files, PollTimeout::from(5_000_u16)).unwrap(), 0, "only {found:?} came");
            found.extend(self.arrived());
        }
        found
    }

    /// Returns which packets have arrived at the far ends of paths.
    fn arrived(&self) -> Vec<(u16, usize)> {
        let mut found = Vec::new();
        for (path, far) in self.far.iter().enumerate() {
            let mut bytes = [0; 64];
            while recv(far.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT).is_ok() {
                found.push((u16::from_be_bytes([bytes[34], bytes[35]]) - 10_000, path));
            }
        }
        found
    }
}

fn share(paths: &BTreeMap<u16, usize>) -> f64 {
    paths.values().filter(|path| **path == 1).count() as f64 / paths.len() as f64
}

#[test]
fn connections_that_pass_keep_their_path_when_shares_change_and_paths_come_back() {
    if !is_alone() {
        return;
    }
    if let Err(reason) = KEPT.check() {
        println!("SKIPPED: this kernel has no resilient next hops ({reason})");
        return;
    }
    let stage = Stage::up();
    let listed = || ["-4 route show table all", "rule", "nexthop", "-6 rule", "-6 route"].map(ip);
    let before = listed();
    let over = |number: u32, gateway: String, weight| {
        let gateway: IpAddr = gateway.parse().unwrap();
        (number, NextHop { gateway: Some(gateway), interface: None }, NonZeroU8::new(weight).unwrap())
    };
    let hop = |number: u32, weight| over(number, format!("10.1.{number}.7"), weight);
    KEPT.spread(&[hop(0, 50), hop(1, 50)]).unwrap();
    let old = stage.paths(0..ALL);
    KEPT.spread(&[hop(0, 10), hop(1, 90)]).unwrap();
    assert_eq!(stage.paths(0..ALL), old, "other shares");
    let new = stage.paths(ALL..2 * ALL);
    assert!((0.35..0.65).contains(&share(&old)) && (0.8..0.98).contains(&share(&new)), "{old:?} {new:?}");
    // All take the only one that is left, and stay there when the other is back.
    KEPT.spread(&[hop(0, 100)]).unwrap();
    let one = stage.paths(0..2 * ALL);
    assert_eq!(share(&one), 0.0);
    KEPT.spread(&[hop(0, 10), hop(1, 90)]).unwrap();
    assert_eq!(stage.paths(0..2 * ALL), one, "a path is back");
    assert!((0.8..0.98).contains(&share(&stage.paths(2 * ALL..3 * ALL))));
    // What this host sends itself, and what the main table knows better, is as before.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("203.0.113.1:9").unwrap();
    assert_eq!(socket.local_addr().unwrap().ip().to_string(), "10.1.0.3");
    ip("route add 198.51.100.0/24 via 10.1.1.7");
    assert_eq!(share(&stage.paths(0..ALL)), 1.0);
    ip("route del 198.51.100.0/24");
    assert!(KEPT.remove(2).unwrap() && !KEPT.remove(2).unwrap());
    assert_eq!(listed(), before);
    // The other version of IP.
    let six = [0, 1].map(|number| over(number, format!("fd00:{number}::7"), 50));
    KEPT.spread(&six).unwrap();
    let passes = ip("-6 route get 2001:db8::1 iif in0");
    assert!(
        passes.contains("via fd00:0::7 ")
            || passes.contains("via fd00::7 ")
            || passes.contains("via fd00:1::7 "),
        "{passes}"
    );
    assert!(KEPT.remove(2).unwrap());
    assert_eq!(listed(), before);
}

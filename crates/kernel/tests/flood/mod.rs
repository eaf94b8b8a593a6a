//! Connections that always have data to send, and programs that mark or drop their packets.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::thread;

use libbpf_rs::{ObjectBuilder, TC_INGRESS, TcAttachPoint, TcHookBuilder, Xdp, XdpFlags};
use socket2::Socket;

/// Writes and reads as much as the connections carry while `work` runs; calls `arrived` with the index of the
/// connection and the bytes read.
pub(crate) fn flood(
    ends: &[(Socket, TcpStream)],
    arrived: impl Fn(usize, usize) + Sync,
    work: impl FnOnce(),
) {
    thread::scope(|scope| {
        let arrived = &arrived;
        for (index, (socket, peer)) in ends.iter().enumerate() {
            scope.spawn(move || while (&*socket).write(&[0; 16 << 10]).is_ok() {});
            scope.spawn(move || {
                let mut block = [0; 16 << 10];
                while let Ok(read @ 1..) = (&*peer).read(&mut block) {
                    arrived(index, read);
                }
            });
        }
        work();
        // Ends the threads without waiting for unsent data.
        for (socket, peer) in ends {
            socket.shutdown(Shutdown::Both).unwrap();
            peer.shutdown(Shutdown::Both).unwrap();
        }
    });
}

/// The rate of `grant_rate` in `bpf/link.bpf.c`, in B/s.
pub(crate) const RATE: u64 = 1_000_000;

/// Attaches the program `how` of `bpf/link.bpf.c` to the ingress of this host's interface.
pub(crate) fn treat(how: &str) {
    treat_at(how, TC_INGRESS);
}

/// Attaches a program of `bpf/link.bpf.c` to one side of this host's interface.
pub(crate) fn treat_at(how: &str, side: TcAttachPoint) {
    with_program(how, |program, interface| {
        let mut hook = TcHookBuilder::new(program).ifindex(interface).hook(side);
        hook.create().unwrap().attach().unwrap();
    });
}

/// Drops packets with a congestion header that reach this host, as a box on the path would: before any
/// other program sees them.
pub(crate) fn drop_headers() {
    with_program("drop_headers", |program, interface| {
        Xdp::new(program).attach(interface, XdpFlags::SKB_MODE).unwrap();
    });
}

/// Loads a program of `bpf/link.bpf.c` for this host's interface.
fn with_program(name: &str, attach: impl FnOnce(BorrowedFd<'_>, i32)) {
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/link.bpf.o"));
    let object = ObjectBuilder::default().open_memory(object).unwrap().load().unwrap();
    let program = object.progs().find(|program| program.name() == name).unwrap();
    let interface = nix::net::if_::if_nametoindex("eth0").unwrap();
    attach(program.as_fd(), interface as i32);
}

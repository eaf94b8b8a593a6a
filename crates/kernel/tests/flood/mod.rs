//! Connections that always have something to send, and what a link does to their packets.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::thread;

use libbpf_rs::{ObjectBuilder, TC_INGRESS, TcHookBuilder};
use socket2::Socket;

/// Writes and reads as much as the connections carry while `work` lasts; `arrived` is told of which connection how many bytes.
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
        // Ends the threads, without waiting for what was written.
        for (socket, peer) in ends {
            socket.shutdown(Shutdown::Both).unwrap();
            peer.shutdown(Shutdown::Both).unwrap();
        }
    });
}

/// Has a program of `bpf/link.bpf.c` treat what arrives at the interface of this host.
pub(crate) fn treat(how: &str) {
    let object = include_bytes!(concat!(env!("OUT_DIR"), "/link.bpf.o"));
    let object = ObjectBuilder::default().open_memory(object).unwrap().load().unwrap();
    let program = object.progs().find(|program| program.name() == how).unwrap();
    let interface = nix::net::if_::if_nametoindex("eth0").unwrap();
    let mut hook = TcHookBuilder::new(program.as_fd()).ifindex(interface as i32).hook(TC_INGRESS);
    hook.create().unwrap().attach().unwrap();
}

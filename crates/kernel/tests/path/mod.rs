//! Two hosts on a wire or with a router between them, each a thread in its own network namespace.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use headway_kernel::{Attached, Error, Loaded, Loader};
use nix::sched::{CloneFlags, unshare};
use socket2::{Domain, SockAddr, Socket, Type};

/// The client's addresses end in 1, the server's in 2.
pub(crate) const V4: [&str; 2] = ["10.78.0.1", "10.78.0.2"];
pub(crate) const V6: [&str; 2] = ["fd78::1", "fd78::2"];
/// No operation here takes longer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) const MEGABYTE: usize = 1 << 20;
/// What a full segment takes on the wire.
pub(crate) const WIRE: u64 = 1538;

type Job = Box<dyn FnOnce() + Send>;

/// A host: its jobs run in its own network namespace.
pub(crate) struct Host {
    jobs: Sender<Job>,
    thread: i32,
}

impl Host {
    fn new() -> Result<Host, nix::Error> {
        let (jobs, inbox) = channel::<Job>();
        let (ready, is_ready) = channel();
        thread::spawn(move || {
            let made = unshare(CloneFlags::CLONE_NEWNET).map(|()| nix::unistd::gettid().as_raw());
            ready.send(made).unwrap();
            inbox.iter().for_each(|job| job());
        });
        is_ready.recv().unwrap().map(|thread| Host { jobs, thread })
    }

    /// Runs `work` on this host and waits for the result.
    pub(crate) fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (done, result) = channel();
        let job = Box::new(move || done.send(work()).unwrap());
        self.jobs.send(job).unwrap();
        result.recv().expect("the work panicked on its host")
    }

    /// Sets net.ipv4.tcp_ecn: 0 never, 1 request and accept, 2 accept only.
    pub(crate) fn set_ecn(&self, value: &'static str) {
        self.run(move || std::fs::write("/proc/sys/net/ipv4/tcp_ecn", value).unwrap());
    }

    /// Runs `ip` on this host.
    pub(crate) fn ip(&self, arguments: String) {
        self.run(move || {
            let status = Command::new("ip").args(arguments.split(' ')).status().unwrap();
            assert!(status.success(), "ip {arguments}");
        });
    }
}

/// Two hosts and the wire between them.
pub(crate) struct Path {
    pub(crate) client: Host,
    pub(crate) server: Host,
}

impl Path {
    /// Creates a path whose hosts request ECN; prints the reason and returns `None` if this machine allows no
    /// namespaces or controllers.
    pub(crate) fn new() -> Option<Path> {
        if let Err(error) = headway_kernel::check() {
            println!("SKIPPED: {error}");
            return None;
        }
        let [client, server] = hosts()?;
        client.ip(format!("link add eth0 type veth peer name eth0 netns {}", server.thread));
        for (host, last) in [(&client, 0), (&server, 1)] {
            // Without duplicate address detection, which would take a second.
            host.ip(format!("addr add {}/24 dev eth0", V4[last]));
            host.ip(format!("addr add {}/64 dev eth0 nodad", V6[last]));
            host.ip("link set lo up".to_owned());
            host.ip("link set eth0 up".to_owned());
            host.set_ecn("1");
        }
        Some(Path { client, server })
    }

    /// Connects client and server, both with `controller`.
    pub(crate) fn connect(&self, to: &str, controller: &str) -> (Socket, TcpStream) {
        self.connect_to(to, controller, controller)
    }

    /// Connects a client with `controller` to a server with `other`.
    pub(crate) fn connect_to(&self, to: &str, controller: &str, other: &str) -> (Socket, TcpStream) {
        connect(&self.client, &self.server, to, controller, other)
    }
}

/// Creates hosts without links; prints the reason and returns `None` if this machine allows no namespaces.
fn hosts<const N: usize>() -> Option<[Host; N]> {
    let hosts: Result<Vec<Host>, _> = (0..N).map(|_| Host::new()).collect();
    match hosts {
        Ok(hosts) => hosts.try_into().ok(),
        Err(error) => {
            println!("SKIPPED: this host does not allow network namespaces ({error}); run as root");
            None
        }
    }
}

/// A client and a server with a router between them, whose interfaces are `lan`, to the client, and `wan`.
pub(crate) struct Routed {
    pub(crate) client: Host,
    pub(crate) router: Host,
    pub(crate) server: Host,
}

/// Of the client and the server beside a router.
pub(crate) const ROUTED_V4: [&str; 2] = ["10.78.1.1", "10.78.2.1"];
pub(crate) const ROUTED_V6: [&str; 2] = ["fd78:1::1", "fd78:2::1"];

impl Routed {
    /// Creates the network; prints the reason and returns `None` if this machine does not allow it.
    pub(crate) fn new() -> Option<Routed> {
        if let Err(error) = headway_kernel::check() {
            println!("SKIPPED: {error}");
            return None;
        }
        let [client, router, server] = hosts()?;
        for (number, (host, side)) in [(1, (&client, "lan")), (2, (&server, "wan"))] {
            router.ip(format!("link add {side} type veth peer name eth0 netns {}", host.thread));
            router.ip(format!("addr add 10.78.{number}.254/24 dev {side}"));
            router.ip(format!("addr add fd78:{number}::ff/64 dev {side} nodad"));
            router.ip(format!("link set {side} up"));
            host.ip(format!("addr add 10.78.{number}.1/24 dev eth0"));
            host.ip(format!("addr add fd78:{number}::1/64 dev eth0 nodad"));
            host.ip("link set eth0 up".to_owned());
            host.ip(format!("route add default via 10.78.{number}.254"));
            host.ip(format!("-6 route add default via fd78:{number}::ff"));
        }
        router.run(|| {
            for version in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                std::fs::write(format!("/proc/sys/net/{version}"), "1").unwrap();
            }
        });
        Some(Routed { client, router, server })
    }

    /// Connects a client to a server at an address, both with CUBIC.
    pub(crate) fn connect(&self, to: &str) -> (Socket, TcpStream) {
        connect(&self.client, &self.server, to, "cubic", "cubic")
    }
}

/// Connects a client with `controller` to a server with `other`.
fn connect(client: &Host, server: &Host, to: &str, controller: &str, other: &str) -> (Socket, TcpStream) {
    let address = SocketAddr::new(to.parse::<IpAddr>().unwrap(), 0);
    let domain = Domain::for_address(address);
    let (controller, other) = (controller.to_owned(), other.to_owned());
    let listener = server.run(move || {
        let listener = Socket::new(domain, Type::STREAM, None).unwrap();
        listener.set_tcp_congestion(other.as_bytes()).unwrap();
        listener.bind(&SockAddr::from(address)).unwrap();
        listener.listen(1).unwrap();
        listener
    });
    let address = listener.local_addr().unwrap();
    let socket = client.run(move || {
        let socket = Socket::new(domain, Type::STREAM, None).unwrap();
        socket.set_tcp_congestion(controller.as_bytes()).unwrap();
        socket.set_write_timeout(Some(TIMEOUT)).unwrap();
        socket.connect(&address).unwrap();
        socket
    });
    let (accepted, _) = listener.accept().unwrap();
    accepted.set_read_timeout(Some(TIMEOUT)).unwrap();
    (socket, accepted.into())
}

/// Sets a flag at the end of its scope, so that a failed test ends the thread that waits for it too.
pub(crate) struct Set<'a>(pub(crate) &'a AtomicBool);

impl Drop for Set<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends `bytes` and waits until they have been read.
pub(crate) fn transfer(from: &Socket, to: &mut TcpStream, bytes: usize) {
    thread::scope(|scope| {
        scope.spawn(|| {
            let block = vec![0; 64 << 10];
            let mut left = bytes;
            while left > 0 {
                left -= (&*from).write(&block[..left.min(block.len())]).unwrap();
            }
        });
        let mut block = vec![0; 64 << 10];
        let mut left = bytes;
        while left > 0 {
            match to.read(&mut block) {
                Ok(read) => {
                    assert!(read > 0, "the connection ended {left} bytes early");
                    left -= read;
                }
                // A read with a timeout is not started again by itself when the process was stopped
                // meanwhile (signal(7)).
                Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted, "{error}"),
            }
        }
    });
}

/// Limits the pacing rate of a socket, in B/s.
pub(crate) fn limit_pace(socket: &Socket, limit: u64) {
    let length = size_of::<u64>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
    // SAFETY: the kernel reads the eight bytes of `limit`.
    let result =
        unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const limit).cast(), length) };
    assert_eq!(result, 0);
}

/// Closes a connection gracefully.
pub(crate) fn close(socket: &Socket, mut peer: TcpStream) {
    socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(peer.read(&mut [0]).unwrap(), 0);
}

/// Loads a controller under a name that nothing else uses: tests of a process run at the same time.
pub(crate) fn load(loader: Loader) -> (Loaded, String) {
    static LOADED: AtomicU32 = AtomicU32::new(0);
    let name = format!("t{}_{}", std::process::id(), LOADED.fetch_add(1, Ordering::Relaxed));
    let loaded: Result<Loaded, Error> = loader.name(&name).load();
    (loaded.unwrap_or_else(|error| panic!("{error}: {error:?}")), name)
}

/// Attaches the programs of XCP or RCP to the interface of a host.
pub(crate) fn attach(loaded: &Arc<Loaded>, host: &Host) -> Attached {
    let loaded = loaded.clone();
    host.run(move || loaded.attach("eth0")).unwrap()
}

/// What `TCP_INFO` says of a sender.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) segment: u32,
    pub(crate) window: u32,
    pub(crate) pacing_rate: u64,
    /// The peer's receive window in bytes.
    pub(crate) receive_window: u32,
    /// The unit in which the peer tells it, in bytes.
    pub(crate) receive_unit: u32,
}

impl Info {
    pub(crate) fn of(socket: &Socket) -> Info {
        let mut bytes = [0_u8; 232];
        let mut length = bytes.len() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes.
        let result = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_TCP,
                libc::TCP_INFO,
                bytes.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        assert_eq!((result, length as usize), (0, bytes.len()));
        // The layout of `struct tcp_info` in linux/tcp.h.
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        Info {
            segment: word(16),
            window: word(80),
            pacing_rate: u64::from_ne_bytes(bytes[104..112].try_into().unwrap()),
            receive_window: word(228),
            receive_unit: 1 << (bytes[6] & 0xf),
        }
    }
}

/// The name of the controller that a connection has.
pub(crate) fn controller_of(socket: &Socket) -> String {
    let name = socket.tcp_congestion().unwrap();
    String::from_utf8(name).unwrap().trim_end_matches('\0').to_owned()
}

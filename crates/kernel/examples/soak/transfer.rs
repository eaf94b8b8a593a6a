//! A transfer between two nodes of a lab that always has data to send, and how long it was ever silent.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use headway_lab::Lab;
use socket2::{Domain, Socket, Type};

use crate::flows::pace;

/// A silence of this length is a stall. A sender whose peer has lost the header needs three timeouts in a row
/// until it goes on without: 1.6 s, and more on a machine that is too busy, where the RTT was longer.
pub(crate) const STALL: Duration = Duration::from_secs(8);

/// What has arrived, and when.
struct Arrivals {
    began: Instant,
    bytes: AtomicU64,
    /// Of the last arrival, in ms since the beginning.
    last: AtomicU64,
    /// The longest time between two arrivals, in ms.
    longest: AtomicU64,
}

impl Arrivals {
    fn new() -> Arrivals {
        let [bytes, last, longest] = [(); 3].map(|()| AtomicU64::new(0));
        Arrivals { began: Instant::now(), bytes, last, longest }
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn add(&self, bytes: usize) {
        let now = self.now();
        let silence = now - self.last.swap(now, Ordering::Relaxed);
        self.longest.fetch_max(silence, Ordering::Relaxed);
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

pub(crate) struct Transfer {
    socket: Socket,
    peer: TcpStream,
    arrivals: Arc<Arrivals>,
    threads: [JoinHandle<()>; 2],
}

impl Transfer {
    /// Connects the node `client` with `controller` to the node `server`, and sends at `rate`
    /// bytes per second at most.
    pub(crate) fn start(lab: &Lab, controller: &str, rate: u64) -> Transfer {
        let address = lab.v4("server").unwrap();
        let listener = lab.inside("server", || TcpListener::bind((address, 0)).unwrap()).unwrap();
        let to = listener.local_addr().unwrap();
        let connect = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_tcp_congestion(controller.as_bytes()).unwrap();
            socket.connect(&to.into()).unwrap();
            socket
        };
        let socket = lab.inside("client", connect).unwrap();
        pace(&socket, rate);
        let (peer, _) = listener.accept().unwrap();
        let arrivals = Arc::new(Arrivals::new());
        let sender = socket.try_clone().unwrap();
        let write = move || while (&sender).write(&[0; 16 << 10]).is_ok() {};
        let (mut receiver, heard) = (peer.try_clone().unwrap(), arrivals.clone());
        let read = move || {
            let mut block = [0; 16 << 10];
            while let Ok(read @ 1..) = receiver.read(&mut block) {
                heard.add(read);
            }
        };
        Transfer { socket, peer, arrivals, threads: [thread::spawn(write), thread::spawn(read)] }
    }

    /// Waits until this many more bytes have arrived; returns false at a stall.
    pub(crate) fn goes_on(&self, bytes: u64) -> bool {
        let until = self.arrivals.bytes.load(Ordering::Relaxed) + bytes;
        while self.arrivals.bytes.load(Ordering::Relaxed) < until {
            if self.silence() > STALL {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// The longest time without an arrival, to now.
    pub(crate) fn silence(&self) -> Duration {
        let now = self.arrivals.now().saturating_sub(self.arrivals.last.load(Ordering::Relaxed));
        Duration::from_millis(now.max(self.arrivals.longest.load(Ordering::Relaxed)))
    }

    /// The name of its controller.
    pub(crate) fn controller(&self) -> String {
        crate::path::controller_of(&self.socket)
    }

    /// Ends it without waiting for data that is on the way; returns the longest silence.
    pub(crate) fn end(self) -> Duration {
        let silence = self.silence();
        // Fails only if the other end was faster.
        let _ = (self.socket.shutdown(Shutdown::Both), self.peer.shutdown(Shutdown::Both));
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        silence
    }
}

//! A relay between client and server that counts, drops, duplicates and reorders.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the relay does with a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Pass,
    Drop,
    Twice,
    /// Is sent after the next one.
    Swap,
}

/// The direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToServer,
    ToClient,
}

/// A relay on its own port; ends on drop.
pub(crate) struct Relay {
    pub(crate) port: u16,
    /// Bytes of TCP and UDP payload, from client to server and back.
    pub(crate) to_server: Arc<AtomicU64>,
    pub(crate) to_client: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
}

type Decide = Arc<dyn Fn(Way, &[u8]) -> Fate + Send + Sync>;

impl Relay {
    /// Relays between its own port and the server's, on 127.0.0.1, for one client.
    pub(crate) fn start(server: u16, decide: impl Fn(Way, &[u8]) -> Fate + Send + Sync + 'static) -> Relay {
        let (tcp, udp) = loop {
            let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            let port = tcp.local_addr().expect("a bound address").port();
            if let Ok(udp) = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)) {
                break (tcp, udp);
            }
        };
        let port = tcp.local_addr().expect("a bound address").port();
        let relay =
            Relay { port, to_server: Arc::default(), to_client: Arc::default(), stop: Arc::default() };
        relay.relay_udp(udp, server, Arc::new(decide));
        relay.relay_tcp(tcp, server);
        relay
    }

    fn relay_udp(&self, outer: UdpSocket, server: u16, decide: Decide) {
        let inner = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        inner.connect((Ipv4Addr::LOCALHOST, server)).expect("an address");
        for socket in [&outer, &inner] {
            socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a time");
        }
        let client: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
        let pairs = [
            (outer.try_clone(), inner.try_clone(), Way::ToServer, Arc::clone(&self.to_server)),
            (Ok(inner), Ok(outer), Way::ToClient, Arc::clone(&self.to_client)),
        ];
        for (from, to, way, bytes) in pairs {
            let (from, to) = (from.expect("a socket"), to.expect("a socket"));
            let (stop, client, decide) = (Arc::clone(&self.stop), Arc::clone(&client), Arc::clone(&decide));
            std::thread::spawn(move || {
                let send = |datagram: &[u8]| {
                    bytes.fetch_add(datagram.len() as u64, Ordering::Relaxed);
                    let client = *client.lock().expect("no panic");
                    let _ = match (way, client) {
                        (Way::ToServer, _) => to.send(datagram),
                        (Way::ToClient, Some(client)) => to.send_to(datagram, client),
                        (Way::ToClient, None) => Ok(0),
                    };
                };
                let mut held: Option<Vec<u8>> = None;
                let mut buffer = [0; 65_536];
                while !stop.load(Ordering::Relaxed) {
                    let Ok((length, sender)) = from.recv_from(&mut buffer) else {
                        continue;
                    };
                    if way == Way::ToServer {
                        *client.lock().expect("no panic") = Some(sender);
                    }
                    let datagram = &buffer[..length];
                    match decide(way, datagram) {
                        Fate::Pass => send(datagram),
                        Fate::Drop => {}
                        Fate::Twice => (0..2).for_each(|_| send(datagram)),
                        Fate::Swap => {
                            held = Some(datagram.to_vec());
                            continue;
                        }
                    }
                    if let Some(datagram) = held.take() {
                        send(&datagram);
                    }
                }
            });
        }
    }

    fn relay_tcp(&self, listener: TcpListener, server: u16) {
        listener.set_nonblocking(true).expect("an option");
        let (up, down, stop) =
            (Arc::clone(&self.to_server), Arc::clone(&self.to_client), Arc::clone(&self.stop));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let Ok((client, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                };
                client.set_nonblocking(false).expect("an option");
                let Ok(upstream) = TcpStream::connect((Ipv4Addr::LOCALHOST, server)) else {
                    continue;
                };
                copy(&client, &upstream, &up);
                copy(&upstream, &client, &down);
            }
        });
    }
}

/// Copies one direction in its own thread until either side ends.
fn copy(from: &TcpStream, to: &TcpStream, bytes: &Arc<AtomicU64>) {
    let (mut from, mut to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
    let bytes = Arc::clone(bytes);
    std::thread::spawn(move || {
        let mut buffer = [0; 16_384];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            bytes.fetch_add(count as u64, Ordering::Relaxed);
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    });
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

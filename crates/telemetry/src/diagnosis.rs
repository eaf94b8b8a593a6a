//! All TCP connections of a network namespace, by sock_diag(7).

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::TcpInfo;
use crate::netlink::{
    DONE, DUMP, ERROR, INTERRUPTED, Message, Netlink, REQUEST, SockProtocol, attributes, message, messages,
};

/// Kind of a request and of what answers it (`include/uapi/linux/sock_diag.h`).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Attributes of an answer (`include/uapi/linux/inet_diag.h`); a request has a bit for each.
const INFO: u16 = 2;
const CONGESTION_CONTROL: u16 = 4;
const MEMORY: u16 = 7;
/// What answers tell root of a subflow of Multipath TCP, unasked, and in it the number by which this host
/// knows the whole connection.
const UPPER: u16 = 19;
const UPPER_MPTCP: u16 = 3;
const MPTCP_TOKEN: u16 = 2;
const WANTED: u8 = 1 << (INFO - 1) | 1 << (CONGESTION_CONTROL - 1) | 1 << (MEMORY - 1);
/// States of connections that have data to tell of: established, and until both ends have closed. A bit for
/// each of `include/net/tcp_states.h`.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
const ESTABLISHED: u8 = 1;
/// Bytes of `struct inet_diag_msg`.
const ENTRY: usize = 72;
/// How often a dump is repeated that the kernel calls interrupted; one that is interrupted
/// again is used as it is.
const REPEATED: u32 = 3;
/// Connections that are asked for at once: their answers, less than 1 kB each, fit the receive
/// buffer of any system.
const BATCH: usize = 32;
/// The longest name of a congestion controller: `TCP_CA_NAME_MAX`.
const NAME: usize = 16;

/// A connection at one moment, as one of its ends sees it.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The kernel's number of the socket, which no other one gets until the host restarts.
    pub cookie: u64,
    /// This end.
    pub local: SocketAddr,
    /// The other end.
    pub peer: SocketAddr,
    /// Bytes that have arrived in order and that the application has not read.
    pub unread: u32,
    /// Bytes that the application has written and that the peer has not acknowledged.
    pub unacknowledged: u32,
    /// Memory of both buffers.
    pub memory: Memory,
    /// The congestion controller.
    pub controller: String,
    /// The number of the connection of Multipath TCP of which it is an established subflow, if it is one and
    /// this process has CAP_NET_ADMIN.
    pub multipath: Option<u32>,
    /// The kernel's statistics.
    pub info: TcpInfo,
    /// What the kernel finds it by.
    pub key: Key,
}

/// What the kernel finds a socket by: its family and `struct inet_diag_sockid`. The default finds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    family: u8,
    id: [u8; 48],
}

impl Default for Key {
    fn default() -> Key {
        Key { family: libc::AF_INET as u8, id: [0; 48] }
    }
}

/// Memory of the buffers of a socket in bytes, which count the kernel's own structures too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What received packets take.
    pub received: u32,
    /// What they may take (`SO_RCVBUF`).
    pub receive_buffer: u32,
    /// What packets to be sent or acknowledged take.
    pub queued: u32,
    /// What they may take (`SO_SNDBUF`).
    pub send_buffer: u32,
}

/// Everything that there is at one moment.
#[derive(Debug)]
pub struct Dump {
    /// Every connection once.
    pub connections: Vec<Connection>,
    /// Whether the kernel says that connections may be missing, because others began or ended meanwhile.
    pub is_interrupted: bool,
}

/// A socket by which the kernel is asked about connections.
#[derive(Debug)]
pub struct Diagnosis {
    netlink: Netlink,
    sequence: u32,
}

impl Diagnosis {
    /// Opens a socket, which needs no privileges: everybody may see the connections of his network namespace.
    ///
    /// # Errors
    /// The system's error.
    pub fn open() -> io::Result<Diagnosis> {
        Ok(Diagnosis { netlink: Netlink::open(SockProtocol::NetlinkSockDiag)?, sequence: 0 })
    }

    /// Asks for all connections of IPv4 and IPv6.
    ///
    /// # Errors
    /// The system's error; `NotFound` where the kernel has no `tcp_diag`.
    pub fn dump(&mut self) -> io::Result<Dump> {
        let mut found = HashMap::new();
        let mut is_interrupted = false;
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut repeated = 0;
            while self.dump_family(family as u8, &mut found)? {
                repeated += 1;
                if repeated > REPEATED {
                    is_interrupted = true;
                    break;
                }
            }
        }
        Ok(Dump { connections: found.into_values().collect(), is_interrupted })
    }

    /// Asks for connections that are known again, and returns those that are still there. That takes
    /// some us for each, and a list of all takes ms: the kernel goes through its table of all
    /// namespaces, full or empty.
    ///
    /// # Errors
    /// The system's error.
    pub fn again<'a>(&mut self, known: impl IntoIterator<Item = &'a Connection>) -> io::Result<Dump> {
        let mut known = known.into_iter().peekable();
        let mut dump = Dump { connections: Vec::new(), is_interrupted: false };
        while known.peek().is_some() {
            self.sequence = self.sequence.wrapping_add(1);
            let (mut asked, mut requests) = (0, Vec::new());
            for connection in known.by_ref().take(BATCH) {
                let request = request(&connection.key);
                requests.extend(message(SOCK_DIAG_BY_FAMILY, REQUEST, self.sequence, &request));
                asked += 1;
            }
            self.netlink.send(&requests)?;
            while asked > 0 {
                let answers = messages(self.netlink.receive()?).filter(|it| it.sequence == self.sequence);
                for answer in answers {
                    // An error says that there is no such connection.
                    asked -= 1;
                    dump.connections.extend(connection(&answer));
                }
            }
        }
        Ok(dump)
    }

    /// Adds the connections of a family; returns whether the dump was interrupted.
    fn dump_family(&mut self, family: u8, found: &mut HashMap<u64, Connection>) -> io::Result<bool> {
        // A number for each request, because one that failed may leave answers behind.
        self.sequence = self.sequence.wrapping_add(1);
        // Ports, addresses and interface: any.
        let all = Key { family, id: [0; 48] };
        self.netlink.send(&message(SOCK_DIAG_BY_FAMILY, REQUEST | DUMP, self.sequence, &request(&all)))?;
        let mut is_interrupted = false;
        loop {
            let datagram = match self.netlink.receive() {
                // There was no room for an answer.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => return Ok(true),
                result => result?,
            };
            for message in messages(datagram) {
                if message.sequence != self.sequence {
                    continue;
                }
                is_interrupted |= message.flags & INTERRUPTED != 0;
                match message.kind {
                    ERROR => message.error()?,
                    DONE => return message.error().map(|()| is_interrupted),
                    // A socket may move while the kernel lists them, and be there twice.
                    _ => found.extend(connection(&message).map(|it| (it.cookie, it))),
                }
            }
        }
    }
}

/// `struct inet_diag_req_v2`.
fn request(key: &Key) -> Vec<u8> {
    let mut body = vec![key.family, libc::IPPROTO_TCP as u8, WANTED, 0];
    body.extend(STATES.to_ne_bytes());
    body.extend(key.id);
    body
}

/// Reads `struct inet_diag_msg` and what follows it; `None` if there are no statistics.
fn connection(message: &Message<'_>) -> Option<Connection> {
    if message.kind != SOCK_DIAG_BY_FAMILY {
        return None;
    }
    let (head, rest) = message.body.split_at_checked(ENTRY)?;
    let word = |at: usize| head.get(at..)?.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes));
    let [local, peer] = [(4, 8), (6, 24)].map(|(port, address)| end(head, port, address));
    let mut connection = Connection {
        cookie: u64::from(word(44)?) | u64::from(word(48)?) << 32,
        local: local?,
        peer: peer?,
        unread: word(56)?,
        unacknowledged: word(60)?,
        memory: Memory::default(),
        controller: String::new(),
        multipath: None,
        info: TcpInfo::from_bytes(&[]),
        key: Key { family: *head.first()?, id: *head.get(4..)?.first_chunk()? },
    };
    let mut is_told = false;
    for (kind, value) in attributes(rest) {
        match kind {
            INFO => (connection.info, is_told) = (TcpInfo::from_bytes(value), true),
            CONGESTION_CONTROL => connection.controller = name(value),
            MEMORY => connection.memory = memory(value),
            UPPER if head.get(1) == Some(&ESTABLISHED) => connection.multipath = multipath(value),
            _ => {}
        }
    }
    is_told.then_some(connection)
}

/// Reads a port and an address of `struct inet_diag_sockid`; one of IPv4 in IPv6 is one of IPv4.
fn end(head: &[u8], port: usize, address: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*head.get(port..)?.first_chunk()?);
    let bytes: [u8; 16] = *head.get(address..)?.first_chunk()?;
    let address = if i32::from(*head.first()?) == libc::AF_INET {
        IpAddr::V4(Ipv4Addr::from(*bytes.first_chunk()?))
    } else {
        Ipv6Addr::from(bytes).to_canonical()
    };
    Some(SocketAddr::new(address, port))
}

fn multipath(value: &[u8]) -> Option<u32> {
    let (_, subflow) = attributes(value).find(|(kind, _)| *kind == UPPER_MPTCP)?;
    let (_, token) = attributes(subflow).find(|(kind, _)| *kind == MPTCP_TOKEN)?;
    token.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

fn name(value: &[u8]) -> String {
    let bytes = value.iter().copied().take(NAME).take_while(|byte| *byte != 0);
    String::from_utf8_lossy(&bytes.collect::<Vec<u8>>()).into_owned()
}

/// Reads the array of `SK_MEMINFO_` (`include/uapi/linux/sock_diag.h`).
fn memory(value: &[u8]) -> Memory {
    let (words, _) = value.as_chunks::<4>();
    let word = |index: usize| words.get(index).map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    Memory { received: word(0), receive_buffer: word(1), send_buffer: word(3), queued: word(5) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::netlink::attribute;

    /// For what takes microseconds.
    const PATIENCE: Duration = Duration::from_secs(10);

    /// A connection to an address of this host; `None` where it has none.
    fn pair(address: &str) -> Option<[TcpStream; 2]> {
        let listener = TcpListener::bind(address).ok()?;
        let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        Some([there, listener.accept().unwrap().0])
    }

    #[test]
    fn both_ends_are_there_with_what_is_unread() {
        let mut diagnosis = Diagnosis::open().unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Some([mut sender, receiver]) = pair(address) else { continue };
            sender.write_all(&[1; 5000]).unwrap();
            // On loopback what is written has arrived when the call returns.
            let dump = match diagnosis.dump() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    println!("SKIPPED: this kernel has no tcp_diag");
                    return;
                }
                result => result.unwrap(),
            };
            let of = |socket: &TcpStream| {
                let [local, peer] = [socket.local_addr().unwrap(), socket.peer_addr().unwrap()];
                let is = |it: &&Connection| (it.local, it.peer) == (local, peer);
                let mut found = dump.connections.iter().filter(is);
                (found.next().unwrap().clone(), found.count())
            };
            let ((sent, doubles), (received, _)) = (of(&sender), of(&receiver));
            assert_eq!((doubles, received.unread), (0, 5000));
            assert_ne!(sent.cookie, received.cookie);
            assert!(received.memory.received >= 5000 && received.memory.receive_buffer > 5000);
            assert!(sent.memory.send_buffer > 0 && !sent.controller.is_empty());
            let own = TcpInfo::of(&receiver);
            assert_eq!(received.info.bytes_received(), 5000);
            assert_eq!(received.info.window_told(), own.window_told());
            // Asked for again, each is there once, until it has ended.
            sender.write_all(&[1; 100]).unwrap();
            let known: Vec<Connection> = std::iter::repeat_n([sent, received], 50).flatten().collect();
            let again = diagnosis.again(&known).unwrap().connections;
            assert_eq!(again.len(), 100);
            assert_eq!((again[1].cookie, again[1].unread), (known[1].cookie, 5100));
            drop((sender, receiver));
            // The kernel may put off the last packets.
            let deadline = Instant::now() + PATIENCE;
            while !diagnosis.again(&known).unwrap().connections.is_empty() {
                assert!(Instant::now() < deadline, "the connection does not end");
                std::thread::yield_now();
            }
            assert!(diagnosis.again([]).unwrap().connections.is_empty());
        }
    }

    #[test]
    fn a_connection_that_has_ended_is_gone() {
        let mut diagnosis = Diagnosis::open().unwrap();
        let [there, here] = pair("127.0.0.1:0").unwrap();
        let local = there.local_addr().unwrap();
        drop((there, here));
        let Ok(dump) = diagnosis.dump() else { return };
        // What is left of it at most waits for late packets.
        assert!(dump.connections.iter().all(|it| it.local != local));
    }

    /// A message about a connection of IPv4.
    fn told(more: &[u8]) -> Vec<u8> {
        let mut body = vec![libc::AF_INET as u8, 1, 0, 0, 0x01, 0xbb, 0x9c, 0x40, 192, 0, 2, 7];
        body.resize(24, 0);
        body.extend([192, 0, 2, 9]);
        body.resize(44, 0);
        for word in [1_u32, 2, 0, 300, 400, 1000, 77] {
            body.extend(word.to_ne_bytes());
        }
        assert_eq!(body.len(), ENTRY);
        body.extend(more);
        message(SOCK_DIAG_BY_FAMILY, 0, 1, &body)
    }

    #[test]
    fn a_message_is_read_as_the_kernel_lays_it_out() {
        let words: Vec<u8> = (1..=9_u32).flat_map(u32::to_ne_bytes).collect();
        let more =
            [attribute(INFO, &[1; 100]), attribute(CONGESTION_CONTROL, b"reno\0"), attribute(MEMORY, &words)];
        let datagram = told(&more.concat());
        let read = connection(&messages(&datagram).next().unwrap()).unwrap();
        assert_eq!((read.cookie, read.unread, read.unacknowledged), (2 << 32 | 1, 300, 400));
        assert_eq!(read.local.to_string(), "192.0.2.7:443");
        assert_eq!(read.peer.to_string(), "192.0.2.9:40000");
        assert_eq!(read.controller, "reno");
        let memory = Memory { received: 1, receive_buffer: 2, send_buffer: 4, queued: 6 };
        assert_eq!(read.memory, memory);
        // An old kernel: statistics end before the windows.
        assert_eq!((read.info.rtt(), read.info.window_seen()), (0x0101_0101, None));
        assert!(connection(&messages(&told(&[])).next().unwrap()).is_none());
    }

    #[test]
    fn no_message_makes_reading_fail() {
        let datagram = told(&[attribute(INFO, &[1; 248]), attribute(MEMORY, &[1; 36])].concat());
        for length in 0..datagram.len() {
            let mut cut = datagram[..length].to_vec();
            messages(&cut).for_each(|message| drop(connection(&message)));
            if let Some(head) = cut.first_chunk_mut() {
                *head = (length as u32).to_ne_bytes();
            }
            messages(&cut).for_each(|message| drop(connection(&message)));
        }
    }
}

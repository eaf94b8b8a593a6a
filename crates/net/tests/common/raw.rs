//! A client made of bare sockets, which can break every rule.

use headway_core::{Duration, Instant};
use headway_net::protocol::preamble::PREAMBLE_LEN;
use headway_net::protocol::probe::{HEADER_LEN, HELLO_LEN, cookie, hello};
use headway_net::protocol::{
    Announce, Decoder, Direction, GapRuns, Header, Kind, Message, PacketSize, Preamble, encode,
};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};

/// A control connection and a UDP socket.
pub(crate) struct Raw {
    pub(crate) tcp: TcpStream,
    pub(crate) udp: UdpSocket,
    pub(crate) session: u64,
    decoder: Decoder,
    /// Bytes sent and received on both sockets.
    pub(crate) sent: usize,
    pub(crate) received: usize,
}

impl Raw {
    /// Connects and does nothing else.
    pub(crate) fn connect(port: u16) -> Raw {
        let tcp = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).expect("a server");
        let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        udp.connect((Ipv4Addr::LOCALHOST, port)).expect("an address");
        let wait = Some(std::time::Duration::from_secs(5));
        tcp.set_read_timeout(wait).expect("a time");
        udp.set_read_timeout(wait).expect("a time");
        Raw { tcp, udp, session: 0, decoder: Decoder::default(), sent: 0, received: 0 }
    }

    /// Opens a session whose UDP address is not proved.
    pub(crate) fn enter(port: u16) -> Raw {
        let mut raw = Raw::connect(port);
        raw.greet();
        raw.say(&Message::ClientHello { nonce: [1; 32], padding: vec![0; 64] });
        assert!(matches!(raw.hear(), Some(Message::ServerHello { .. })));
        raw.say(&Message::ClientProof { proof: None });
        let Some(Message::Welcome { session, .. }) = raw.hear() else {
            panic!("no welcome");
        };
        raw.session = session;
        raw
    }

    /// Opens a session and proves the UDP address.
    pub(crate) fn open(port: u16) -> Raw {
        let mut raw = Raw::enter(port);
        raw.datagram(&hello(Kind::Hello, raw.session, &[0; 16]));
        let mut answer = [0; 100];
        let length = raw.udp.recv(&mut answer).expect("a cookie");
        raw.received += length;
        assert_eq!(length, HELLO_LEN);
        let cookie = cookie(&answer[..length]).expect("a cookie");
        assert_eq!(raw.ask(&Message::Cookie(cookie)), Message::AddressProved);
        raw
    }

    /// Exchanges preambles.
    pub(crate) fn greet(&mut self) {
        self.bytes(&Preamble::new(0).to_bytes());
        let mut theirs = [0; PREAMBLE_LEN];
        self.tcp.read_exact(&mut theirs).expect("a preamble");
        self.received += theirs.len();
        Preamble::parse(&theirs).expect("the same version");
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        // The server may have closed the connection, which the test sees when it reads.
        let _ = self.tcp.write_all(bytes);
        self.sent += bytes.len();
    }

    pub(crate) fn say(&mut self, message: &Message) {
        self.bytes(&encode(message).expect("a short message"));
    }

    /// The server's next message; `None` when it closes the connection.
    pub(crate) fn hear(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.decoder.take().expect("well-formed messages") {
                return Some(message);
            }
            let mut buffer = [0; 4096];
            let count = match self.tcp.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("the server neither answers nor closes: {error}"),
            };
            self.received += count;
            self.decoder.push(&buffer[..count]);
        }
    }

    pub(crate) fn ask(&mut self, message: &Message) -> Message {
        self.say(message);
        self.hear().expect("an answer")
    }

    pub(crate) fn datagram(&mut self, datagram: &[u8]) {
        let _ = self.udp.send(datagram);
        self.sent += datagram.len();
    }

    /// Announces a forward stream of `count` packets of 200 bytes.
    pub(crate) fn announce(&mut self, stream: u32, count: usize) {
        let gaps = GapRuns::encode(&vec![Duration::from_us(50); count - 1]);
        let announce = Announce { stream, direction: Direction::Forward, ip_size: 200, gaps };
        assert_eq!(self.ask(&Message::Announce(announce)), Message::Ready { stream });
    }

    /// Sends one packet of such a stream.
    pub(crate) fn probe(&mut self, stream: u32, index: u32, count: u32) {
        let header =
            Header { kind: Kind::Probe, session: self.session, stream, index, count, sent: Instant::ZERO };
        self.probe_with(&header);
    }

    /// Sends a packet of 200 bytes with any header.
    pub(crate) fn probe_with(&mut self, header: &Header) {
        let size = PacketSize::from_ip(200).expect("a size");
        let mut datagram = vec![0; size.payload(headway_net::protocol::Family::V4)];
        header.write(datagram.first_chunk_mut::<HEADER_LEN>().expect("room for a header"));
        self.datagram(&datagram);
    }
}

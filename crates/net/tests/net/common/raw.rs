//! A client made of bare sockets, which can violate the protocol at will.

use headway_net::protocol::preamble::PREAMBLE_LEN;
use headway_net::protocol::probe::{HEADER_LEN, HELLO_LEN, cookie, hello};
use headway_net::protocol::{
    Announce, Carrier, Decoder, Direction, GapRuns, Header, HopRuns, Kind, Message, PacketSize, Preamble,
    Role, encode,
};
use headway_units::{Duration, Instant};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;

/// Opens a TCP connection to a server on 127.0.0.1 from an address of this host.
///
/// # Errors
/// Same as the underlying system calls.
pub(crate) fn connection(source: Ipv4Addr, port: u16) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into())?;
    Ok(socket.into())
}

/// Returns the first message of a TLS client; a server processes it no matter how often it gets the same one.
pub(crate) fn client_hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions of TLS")
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").expect("a name");
    let mut bytes = Vec::new();
    let mut connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    connection.write_tls(&mut bytes).expect("room for a hello");
    bytes
}

/// Makes a server perform the expensive part of a TLS handshake, its signature.
///
/// # Errors
/// When the server does not answer.
pub(crate) fn signature(source: Ipv4Addr, port: u16, hello: &[u8]) -> std::io::Result<()> {
    let mut tcp = connection(source, port)?;
    tcp.set_read_timeout(Some(std::time::Duration::from_secs(5)))?;
    tcp.write_all(&Preamble::new(1).to_bytes())?;
    let mut theirs = [0; PREAMBLE_LEN];
    tcp.read_exact(&mut theirs)?;
    let padding = Preamble::parse(&theirs).map_err(std::io::Error::other)?.tls;
    tcp.write_all(&vec![0; usize::from(padding)])?;
    tcp.write_all(hello)?;
    // The start of the server's reply: hello, certificate and signature arrive together.
    tcp.read_exact(&mut [0; 500])
}

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
    /// Connects without sending anything.
    pub(crate) fn connect(port: u16) -> Raw {
        Raw::connect_from(Ipv4Addr::LOCALHOST, port)
    }

    /// Connects from an address of 127.0.0.0/8, which determines the network the server
    /// assigns this client to.
    pub(crate) fn connect_from(source: Ipv4Addr, port: u16) -> Raw {
        let tcp = connection(source, port).expect("a server");
        let udp = UdpSocket::bind((source, 0)).expect("a free port");
        udp.connect((Ipv4Addr::LOCALHOST, port)).expect("an address");
        let wait = Some(std::time::Duration::from_secs(20));
        tcp.set_read_timeout(wait).expect("a time");
        udp.set_read_timeout(Some(std::time::Duration::from_secs(1))).expect("a time");
        Raw { tcp, udp, session: 0, decoder: Decoder::default(), sent: 0, received: 0 }
    }

    /// Opens a session without proving its UDP address.
    pub(crate) fn enter(port: u16) -> Raw {
        Raw::enter_from(Ipv4Addr::LOCALHOST, port)
    }

    /// The same from another address.
    pub(crate) fn enter_from(source: Ipv4Addr, port: u16) -> Raw {
        let mut raw = Raw::connect_from(source, port);
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
        Raw::open_from(Ipv4Addr::LOCALHOST, port)
    }

    /// The same from another address.
    pub(crate) fn open_from(source: Ipv4Addr, port: u16) -> Raw {
        let mut raw = Raw::enter_from(source, port);
        assert_eq!(raw.prove(), Message::AddressProved);
        raw
    }

    /// Proves the UDP address; returns the server's answer to the cookie.
    pub(crate) fn prove(&mut self) -> Message {
        let mut answer = [0; 100];
        // A hello may end up at another session's socket that is just being created, so clients repeat it.
        let length = (0..5)
            .find_map(|_| {
                self.datagram(&hello(Kind::Hello, self.session, &[0; 16]));
                self.udp.recv(&mut answer).ok()
            })
            .expect("a cookie");
        self.received += length;
        assert_eq!(length, HELLO_LEN);
        let cookie = cookie(&answer[..length]).expect("a cookie");
        self.ask(&Message::Cookie(cookie))
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
        // The server may have closed the connection, which the test notices when it reads.
        let _ = self.tcp.write_all(bytes);
        self.sent += bytes.len();
    }

    pub(crate) fn say(&mut self, message: &Message) {
        self.bytes(&encode(message).expect("a short message"));
    }

    /// Returns the server's next message; `None` if it closes the connection.
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

    /// Requests a reverse stream of `count` packets of 200 bytes; returns the server's answer.
    pub(crate) fn ask_reverse(&mut self, stream: u32, count: usize, gap: Duration) -> Message {
        let gaps = GapRuns::encode(&vec![gap; count - 1]);
        self.ask(&Message::Announce(stream_of_200(stream, Direction::Reverse, gaps, HopRuns::default())))
    }

    /// Announces a forward stream of `count` packets of 200 bytes.
    pub(crate) fn announce(&mut self, stream: u32, count: usize) {
        let gaps = GapRuns::encode(&vec![Duration::from_us(50); count - 1]);
        let announce = stream_of_200(stream, Direction::Forward, gaps, HopRuns::default());
        assert_eq!(self.ask(&Message::Announce(announce)), Message::Ready { stream });
    }

    /// Sends one packet of such a stream.
    pub(crate) fn probe(&mut self, stream: u32, index: u32, count: u32) {
        self.probe_with(&self.header(stream, index, count, Role::First));
    }

    /// Returns the header of one packet of a stream.
    pub(crate) fn header(&self, stream: u32, index: u32, count: u32, role: Role) -> Header {
        Header { kind: Kind::Probe, role, session: self.session, stream, index, count, sent: Instant::ZERO }
    }

    /// Sends a packet of 200 bytes with any header.
    pub(crate) fn probe_with(&mut self, header: &Header) {
        let size = PacketSize::from_ip(200).expect("a size");
        let mut datagram = vec![0; size.payload(headway_net::protocol::Family::V4)];
        header.write(datagram.first_chunk_mut::<HEADER_LEN>().expect("room for a header"));
        self.datagram(&datagram);
    }
}

/// Returns the announcement of a stream of packets of 200 bytes.
pub(crate) fn stream_of_200(stream: u32, direction: Direction, gaps: GapRuns, hops: HopRuns) -> Announce {
    Announce { stream, direction, carrier: Carrier::Udp, ip_size: 200, gaps, hops }
}

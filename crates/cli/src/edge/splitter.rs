//! A relay for connections that are split, in a child process, and the rule of routing that brings their packets to it.
//!
//! Only that process keeps CAP_NET_RAW, which sockets with addresses of others need. It ends with this process, however that ends,
//! and its connections end with resets then.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use headway_edge::evaluate::RELAY_BUFFER;
use headway_kernel::{OF_RELAY, TO_RELAY};
use headway_privileges::{Capability, Deputy};
use headway_relay::{Leg, Options, Relay, Target};
use headway_telemetry::rule::LocalDelivery;

/// Has packets of split connections delivered to this router. The table has a number that nobody is likely to use.
pub(super) const DELIVERY: LocalDelivery = LocalDelivery { mark: TO_RELAY, table: 0x7ed9 };
/// Connections that are split at a time: each takes two sockets with their buffers in the kernel, and 128 kB here at most. As many as
/// the usual limit of 1024 open files allows. Further ones pass.
const CONNECTIONS: usize = 480;
/// Looks, one a second, after which SYNs that were given to a relay that got no connection are taken for lost.
const LOOKS: u32 = 3;
/// A silent connection gives up its place. Hosts that are gone are found out earlier.
const IDLE: Duration = Duration::from_secs(2 * 3600);
/// Longest time until the relay sees that this process has ended.
const ROUND: Duration = Duration::from_millis(100);
/// The relay listens within milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// The process with the relay, until this is dropped.
#[derive(Debug)]
pub(super) struct Splitter {
    relay: Deputy,
    ports: [u16; 2],
    /// Whether it has got a connection.
    has_accepted: bool,
    /// Looks at which SYNs had been given to it, and it had got no connection.
    waited: u32,
    /// Whether it is of no use any more, which was told.
    is_over: bool,
}

impl Splitter {
    /// Starts the process. It has what this process has open, and this must have one thread.
    pub(super) fn start() -> Result<Splitter> {
        let failed = "cannot start the process that splits connections";
        let relay = Deputy::start(&[Capability::CAP_NET_RAW], work).context(failed)?;
        let Some(mut socket) = relay.socket() else { bail!("{failed}") };
        socket.set_read_timeout(Some(PATIENCE)).context(failed)?;
        let ports = [read_port(&mut socket), read_port(&mut socket)];
        socket.set_nonblocking(true).context(failed)?;
        let [Ok(v4), Ok(v6)] = ports else {
            bail!("{failed}: sockets with addresses of others need CAP_NET_RAW, and Linux 5.17 or later")
        };
        Ok(Splitter { relay, ports: [v4, v6], has_accepted: false, waited: 0, is_over: false })
    }

    /// Returns the ports of the loopback addresses of IPv4 and IPv6 where the relay listens; 0 for none.
    pub(super) const fn ports(&self) -> [u16; 2] {
        self.ports
    }

    /// Returns whether SYNs are to pass from now on, `split` of which were given to the relay, and tells why: the process has ended, or
    /// something keeps them from it, such as a firewall. To be called every second.
    pub(super) fn is_to_stop(&mut self, split: u64) -> bool {
        if self.is_over {
            return false;
        }
        match self.relay.socket().map_or(Heard::End, hear) {
            Heard::End => {
                tracing::warn!(
                    "the process that splits connections has ended; connections pass until the edge starts again"
                );
                self.is_over = true;
            }
            Heard::Something => self.has_accepted = true,
            Heard::Nothing => {}
        }
        self.waited += u32::from(split > 0 && !self.has_accepted);
        if self.waited >= LOOKS && !self.has_accepted && !self.is_over {
            tracing::warn!(
                "no connection reaches the process that splits them, so all pass until the edge starts again; let packets of the \
                 hosts into this router's firewall (INPUT), and in a service set IPAddressAllow=any"
            );
            self.is_over = true;
        }
        self.is_over
    }

    /// Removes what an earlier edge has left, if it and its processes were killed.
    pub(super) fn remove_left() -> Result<()> {
        if DELIVERY.remove().context("cannot see the rules of routing")? {
            tracing::warn!("there was a rule of routing of an edge that was killed; it is removed");
        }
        Ok(())
    }
}

fn read_port(socket: &mut &UnixStream) -> io::Result<u16> {
    let mut port = [0; 2];
    socket.read_exact(&mut port)?;
    Ok(u16::from_ne_bytes(port))
}

/// Relays connections until the other end of the socket is closed. Then the process ends, and the kernel resets those that are open.
fn work(mut socket: UnixStream) {
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    let relay = listen(vec![v4, v6]).or_else(|| listen(vec![v4]));
    let Some(mut relay) = relay else { return };
    let port = |place: usize| relay.addresses().get(place).map_or(0, SocketAddr::port).to_ne_bytes();
    let ports = [port(0), port(1)].concat();
    if socket.write_all(&ports).is_err() || socket.set_nonblocking(true).is_err() {
        return;
    }
    let mut has_told = false;
    while hear(&socket) != Heard::End && relay.work(ROUND).is_ok() {
        if !has_told && relay.counts().accepted > 0 {
            has_told = socket.write_all(&[0]).is_ok();
        }
    }
}

fn listen(addresses: Vec<SocketAddr>) -> Option<Relay> {
    let relay = Relay::listen(Options {
        listen: addresses,
        target: Target::Original { mark: OF_RELAY },
        legs: [Leg::default(), Leg::default()],
        buffer: RELAY_BUFFER.get() as usize,
        connections: CONNECTIONS,
        idle: IDLE,
    });
    relay.ok().filter(|relay| relay.check().is_ok())
}

/// What comes from the other end of a socket that does not block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Nothing,
    Something,
    End,
}

fn hear(mut socket: &UnixStream) -> Heard {
    match socket.read(&mut [0]) {
        Ok(0) => Heard::End,
        Ok(_) => Heard::Something,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Heard::Nothing
        }
        Err(_) => Heard::End,
    }
}

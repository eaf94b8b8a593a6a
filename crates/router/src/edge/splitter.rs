//! A relay for connections that are split, in a child process, and the rule of routing that brings
//! their packets to it.
//!
//! Only that process keeps CAP_NET_RAW, which sockets with addresses of others need. It ends with this
//! process, however that ends, and its connections end with resets then.
//!
//! The relay is a process of its own because it copies what strangers send. It uses another port than the
//! client, because to the kernel's connection tracking both halves would be one.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use headway_edge::evaluate::RELAY_BUFFER;
use headway_kernel::{EdgeCounters, OF_RELAY, TO_RELAY};
use headway_privileges::{Capability, Deputy};
use headway_relay::{Leg, Options, Relay, Target};
use headway_telemetry::rule::LocalDelivery;

/// Has packets of split connections delivered to this router. The table has a number that
/// nobody is likely to use.
pub(super) const DELIVERY: LocalDelivery = LocalDelivery { mark: TO_RELAY, table: 0x7ed9 };
/// Connections that are split at a time: each takes two sockets with their buffers in the kernel, and 128 kB
/// here at most. As many as the usual limit of 1024 open files allows. Further ones pass.
const CONNECTIONS: usize = 480;
/// SYNs that came again, while none got to the relay, after which something keeps them from it. Range 2 to 5:
/// hosts repeat one after 1 and 3 s.
const REPEATED: u64 = 2;
/// Looks, one a second, until it is tried again, at first. Each try delays connections by 3 s, if nothing has
/// changed. Range 10 to 600.
const PAUSE: u32 = 60;
/// The same at most: it is doubled each time. Range from [`PAUSE`].
const LONGEST_PAUSE: u32 = 3_600;
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
    reach: Reach,
    /// Whether it is of no use any more, which was reported.
    is_over: bool,
}

/// What is to be done with connections that begin from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// They pass as they are.
    Stop,
    /// They are split again.
    Resume,
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
        Ok(Splitter { relay, ports: [v4, v6], reach: Reach::default(), is_over: false })
    }

    /// Returns the ports of the loopback addresses of IPv4 and IPv6 where the relay listens; 0 for none.
    pub(super) const fn ports(&self) -> [u16; 2] {
        self.ports
    }

    /// Returns what is to change, and tells why: the process has ended, or something keeps SYNs from it, such
    /// as a firewall. To be called every second.
    pub(super) fn look(&mut self, counted: &EdgeCounters) -> Option<Change> {
        if self.is_over {
            return None;
        }
        if self.relay.has_ended() {
            tracing::warn!(
                "the process that splits connections has ended; connections pass until the edge starts again"
            );
            self.is_over = true;
            return Some(Change::Stop);
        }
        let change = self.reach.look(counted.split_reached, counted.split_repeated);
        match change {
            Some(Change::Stop) => tracing::warn!(
                "no connection reaches the process that splits them, so all pass for {}; let packets of the hosts into this \
                 router's firewall (INPUT), and in a service set IPAddressAllow=any",
                humantime::format_duration(Duration::from_secs(self.reach.left.into()))
            ),
            Some(Change::Resume) => tracing::info!("connections are split again"),
            None => {}
        }
        change
    }

    /// Removes what an earlier edge has left, if it and its processes were killed.
    pub(super) fn remove_left() -> Result<()> {
        if DELIVERY.remove().context("cannot see the rules of routing")? {
            tracing::warn!("there was a rule of routing of an edge that was killed; it is removed");
        }
        Ok(())
    }
}

/// Whether SYNs reach the relay.
///
/// A host need not complete a handshake, and a stranger among them may begin as many as it likes.
/// So what counts is whether there was a socket for what a host sends after its SYN, or, if it
/// repeats that, still none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reach {
    reached: u64,
    /// How many had been repeated when it was known last that SYNs reach it, or it was tried again.
    repeated: u64,
    /// Looks until it is tried again; 0 while connections are split.
    left: u32,
    /// That of the next pause.
    pause: u32,
}

impl Default for Reach {
    fn default() -> Reach {
        Reach { reached: 0, repeated: 0, left: 0, pause: PAUSE }
    }
}

impl Reach {
    /// Takes how many SYNs have reached the relay and how many were repeated until now.
    fn look(&mut self, reached: u64, repeated: u64) -> Option<Change> {
        if self.left > 0 {
            self.left -= 1;
            (self.reached, self.repeated) = (reached, repeated);
            return (self.left == 0).then_some(Change::Resume);
        }
        if reached > self.reached {
            *self = Reach { reached, repeated, ..Reach::default() };
        }
        if repeated - self.repeated < REPEATED {
            return None;
        }
        self.left = self.pause;
        self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        Some(Change::Stop)
    }
}

fn read_port(socket: &mut &UnixStream) -> io::Result<u16> {
    let mut port = [0; 2];
    socket.read_exact(&mut port)?;
    Ok(u16::from_ne_bytes(port))
}

/// Relays connections until the other end of the socket is closed. Then the process ends, and the kernel
/// resets those that are open.
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
    while !has_ended(&socket) && relay.work(ROUND).is_ok() {}
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

/// Whether the other end of a socket that does not block is closed.
fn has_ended(mut socket: &UnixStream) -> bool {
    match socket.read(&mut [0]) {
        Ok(bytes) => bytes == 0,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_that_nobody_completes_switch_nothing_off() {
        let mut reach = Reach::default();
        // Whoever sends SYNs and nothing else repeats none.
        (0..100).for_each(|_| assert_eq!(reach.look(0, 0), None));
        // Where some get there, others that are repeated say nothing.
        (1..100).for_each(|second| assert_eq!(reach.look(second, 5 * second), None));
    }

    #[test]
    fn what_gets_nowhere_passes_and_is_tried_again_ever_later() {
        let (mut reach, mut repeated) = (Reach::default(), 0);
        let mut stop = |reach: &mut Reach| {
            repeated += 1;
            assert_eq!(reach.look(7, repeated), None);
            repeated += 1;
            assert_eq!(reach.look(7, repeated), Some(Change::Stop));
            let looks = (1..).find(|_| reach.look(7, repeated) == Some(Change::Resume));
            looks.unwrap_or(0)
        };
        assert_eq!(reach.look(7, 0), None);
        let pauses: Vec<u32> = (0..8).map(|_| stop(&mut reach)).collect();
        assert_eq!(pauses, [60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
        // It got there, so the next pause is short.
        assert_eq!(reach.look(8, repeated), None);
        assert_eq!(reach.pause, PAUSE);
    }
}

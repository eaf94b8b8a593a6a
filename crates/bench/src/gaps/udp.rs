//! Gaps between UDP packets, made as `headway measure --gaps` makes them.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use anyhow::{Result, anyhow};
use headway_host::LineClock;
use headway_net::frames::FrameSender;
use headway_net::pacing::{self, Wait};
use headway_units::{Bytes, Duration, Instant, Rate};

use super::arrivals::Arrival;
use super::hosts::Wire;

/// Payload of a packet of 1500 bytes.
const PAYLOAD: usize = 1472;
/// The first source port, and the one of the next hop.
const PORTS: (u16, u16) = (50_000, 50_100);
/// EtherType of PAUSE frames.
const MAC_CONTROL: u16 = 0x8808;
/// What a frame takes on the wire beside its bytes.
const BESIDE: u64 = 24;

/// What sends, until this is stopped.
pub(super) struct Senders {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<bool>>>,
    /// Nobody reads it, but without it the next hop would answer every packet.
    _receiver: UdpSocket,
}

impl Senders {
    /// Starts `count` flows, a thread each, that send `packets` packets, one every `gap`.
    pub(super) fn threads(
        wire: &Wire,
        wait: Wait,
        count: u32,
        gap: Duration,
        packets: usize,
    ) -> Result<Senders> {
        let (stop, receiver) = (Arc::default(), receiver(wire)?);
        let mut threads = Vec::new();
        for flow in 0..count {
            let socket = wire.sender.run(move || {
                let socket = UdpSocket::bind(sender(flow))?;
                socket.connect(Wire::hop_address(PORTS.1))?;
                Ok(socket)
            })?;
            let stopped: Arc<AtomicBool> = Arc::clone(&stop);
            threads.push(std::thread::spawn(move || {
                let data = [0; PAYLOAD];
                let stop = |_| stopped.load(Ordering::Relaxed);
                Ok(pacing::run(&vec![gap; packets], wait, stop, |_| {
                    // A packet that the kernel refuses is a gap that is too long.
                    let _ = socket.send(&data);
                }))
            }));
        }
        Ok(Senders { stop, threads, _receiver: receiver })
    }

    /// Starts one thread that sends `packets` packets for each of `count` flows, with PAUSE
    /// frames between them.
    pub(super) fn frames(
        wire: &Wire,
        line: Rate,
        count: u32,
        gap: Duration,
        packets: usize,
    ) -> Result<Senders> {
        wire.set_line(line)?;
        let (stop, receiver) = (Arc::default(), receiver(wire)?);
        let to = SocketAddr::from(Wire::hop_address(PORTS.1));
        let sender = wire.sender.run(move || Ok(FrameSender::open(sender(0), to)?))?;
        let stopped: Arc<AtomicBool> = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut clock = sender.clock();
            for packet in 0..packets as i64 {
                for flow in 0..count {
                    let at = gap * packet + gap * i64::from(flow) / i64::from(count);
                    clock.schedule(flow, Instant::ZERO + at, super::PACKET);
                }
            }
            let stop = |_| stopped.load(Ordering::Relaxed);
            sender.run(&mut clock, stop, |_, _, data| data.resize(PAYLOAD, 0))
        });
        Ok(Senders { stop, threads: vec![thread], _receiver: receiver })
    }

    /// Ends the senders.
    ///
    /// # Errors
    /// If one could not send.
    pub(super) fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| anyhow!("a sender has ended"))??;
        }
        Ok(())
    }
}

fn sender(flow: u32) -> SocketAddr {
    SocketAddr::from(Wire::sender_address(PORTS.0 + flow as u16))
}

fn receiver(wire: &Wire) -> Result<UdpSocket> {
    wire.hop.run(|| Ok(UdpSocket::bind(Wire::hop_address(PORTS.1))?))
}

/// Passes frames over a line with a switch at its end, which drops those that are for itself. Returns what
/// goes on, with the times at which it begins to arrive.
pub(super) fn behind_line(line: Rate, arrivals: &[Arrival]) -> Vec<Arrival> {
    let mut clock = LineClock::new(line);
    let mut onward = Vec::new();
    for arrival in arrivals {
        let at = clock.depart(arrival.at, Bytes::new(u64::from(arrival.len) + BESIDE));
        if arrival.ethertype != MAC_CONTROL {
            onward.push(Arrival { at, ..*arrival });
        }
    }
    onward
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_makes_gaps_of_bytes_and_drops_what_filled_them() {
        let frame = |ethertype, len| Arrival { at: Instant::from_ns(1000), len, ethertype, port: 1 };
        // All handed over at once: two packets with two PAUSE frames between them.
        let arrivals =
            [frame(0x0800, 1514), frame(MAC_CONTROL, 1514), frame(MAC_CONTROL, 64), frame(0x0800, 1514)];
        let onward = behind_line(Rate::from_mbps(100.0), &arrivals);
        assert_eq!(onward.len(), 2);
        // 2 x 1538 + 88 bytes of 80 ns.
        assert_eq!(onward[1].at - onward[0].at, Duration::from_ns(253_120));
    }
}

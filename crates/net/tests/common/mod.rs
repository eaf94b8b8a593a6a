//! A server inside the test process, and streams to send through it.
#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod certificate;
pub(crate) mod raw;
pub(crate) mod relay;

use headway_core::{Bytes, Duration, Rate, Schedule};
use headway_net::{ConnectOptions, Counts, Limits, Server, ServerConfig, ServerHandle};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread::JoinHandle;

/// A running server, stopped when dropped.
pub(crate) struct Running {
    pub(crate) port: u16,
    pub(crate) handle: ServerHandle,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub(crate) fn start(mut config: ServerConfig) -> Running {
        config.port = 0;
        let server = Server::bind(config).expect("a free port on loopback");
        let (port, handle) = (server.port(), server.handle());
        let thread = std::thread::spawn(move || server.run().expect("the server waits for its sockets"));
        Running { port, handle, thread: Some(thread) }
    }

    pub(crate) fn options(&self) -> ConnectOptions {
        ConnectOptions { port: self.port, ..ConnectOptions::new("127.0.0.1") }
    }

    /// Waits until the counters are as wanted.
    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&Counts) -> bool) -> Counts {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            let counts = self.handle.counts();
            if wanted(&counts) {
                return counts;
            }
            assert!(std::time::Instant::now() < deadline, "never saw {what}: {counts:?}");
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.stop();
        let ended = self.thread.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            assert!(matches!(ended, Some(Ok(()))), "the server ends without a panic");
        }
    }
}

/// A server on loopback with enough room for a test's sessions.
pub(crate) fn config() -> ServerConfig {
    let mut bind = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    if has_v6() {
        bind.push(IpAddr::V6(Ipv6Addr::LOCALHOST));
    }
    ServerConfig {
        bind,
        limits: Limits { sessions_per_address: 32, ..Limits::default() },
        ..ServerConfig::default()
    }
}

pub(crate) fn has_v6() -> bool {
    std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// `packets` full Ethernet packets with equal gaps.
pub(crate) fn steady(packets: usize, gap_us: i64) -> Schedule {
    let packet = Bytes::new(1538);
    let gap = Duration::from_us(gap_us);
    let average = Rate::of(packet, gap).unwrap_or(Rate::ZERO);
    Schedule { packet, gaps: vec![gap; packets - 1], average }
}

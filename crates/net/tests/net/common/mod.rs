//! A server inside the test process, and streams to send through it.

pub(crate) mod certificate;
pub(crate) mod raw;
pub(crate) mod relay;

use headway_estimate::Schedule;
use headway_estimate::measure::{Answer, Config, Failure, Measurement, Method, Step};
use headway_net::{
    ConnectOptions, Counts, LONGEST_REVERSE_STREAM, Limits, NetError, Server, ServerConfig, ServerHandle,
    Session,
};
use headway_units::{Bytes, Duration, Instant, Rate};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread::JoinHandle;

/// A running server, stopped on drop.
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

    /// Waits until the counters satisfy `wanted`.
    pub(crate) fn wait_for(&self, what: &str, wanted: impl Fn(&Counts) -> bool) -> Counts {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
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

/// Returns the configuration of a server on loopback that allows enough sessions for a test.
pub(crate) fn config() -> ServerConfig {
    let mut bind = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    if has_v6() {
        bind.push(IpAddr::V6(Ipv6Addr::LOCALHOST));
    }
    ServerConfig {
        bind,
        limits: Limits { sessions_per_network: 32, ..Limits::default() },
        ..ServerConfig::default()
    }
}

pub(crate) fn has_v6() -> bool {
    std::net::UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)).is_ok()
}

/// Returns a schedule of `packets` full-size Ethernet packets with equal gaps.
pub(crate) fn steady(packets: usize, gap_us: i64) -> Schedule {
    let packet = Bytes::new(1538);
    let gap = Duration::from_us(gap_us);
    let average = Rate::of(packet, gap).unwrap_or(Rate::ZERO);
    Schedule { packet, gaps: vec![gap; packets - 1], average }
}

/// The highest rate that [`measure`] uses: low, so that a busy machine can pace it.
pub(crate) const MEASURED: Rate = Rate::from_bps(20_000_000);

/// Measures as `headway measure` does, up to [`MEASURED`], which loopback can carry.
///
/// # Errors
/// When a stream is refused or the session ends.
pub(crate) fn measure(session: &mut Session, reverse: bool) -> Result<Answer, NetError> {
    let config = Config {
        method: Method::default(),
        packet: Bytes::new(1538),
        budget: None,
        gentle: false,
        // Far more than needed, so that a busy machine does not run out of time.
        duration: Some(Duration::from_ms(60_000)),
        rtt: session.rtt(),
        top_rate: MEASURED,
        train_rate: MEASURED,
    };
    let start = std::time::Instant::now();
    let now = || Instant::ZERO + start.elapsed().into();
    let mut measurement = Measurement::new(config, now());
    if reverse {
        measurement = measurement.brief(LONGEST_REVERSE_STREAM);
    }
    loop {
        match measurement.next_step(now()) {
            Step::Send(schedule) => {
                let outcome = if reverse {
                    session.receive_stream(&schedule)?
                } else {
                    session.send_stream(&schedule)?
                };
                measurement.observe(now(), &outcome.record, outcome.refusal);
            }
            Step::Wait(time) => std::thread::sleep(time.to_std()),
            Step::Done => return Ok(measurement.answer()),
        }
    }
}

/// Measures in both directions over a new session, as an honest client does during an attack.
pub(crate) fn measure_undisturbed(options: &ConnectOptions) {
    let mut session = Session::connect(options).expect("a session for an honest client");
    for reverse in [false, true] {
        let answer = measure(&mut session, reverse).expect("streams for an honest client");
        match answer.available {
            Ok(_) if answer.is_limited_by_pacing() => {
                println!("INVALID: this machine is too busy to send evenly")
            }
            Ok(interval) => assert!(interval.rate >= MEASURED.scale(0.9), "{answer:?}"),
            Err(Failure::SenderGaps) => println!("INVALID: this machine is too busy to send evenly"),
            Err(failure) => panic!("{failure}: {answer:?}"),
        }
    }
}

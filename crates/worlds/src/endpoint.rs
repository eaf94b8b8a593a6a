//! The two ends of TCP flows in a lab: a hidden command that runs in a node, sends or receives, and reports.

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration as Span, SystemTime, UNIX_EPOCH};
use std::{iter, thread};

use crate::error::Error;
use anyhow::Context as _;
use headway_telemetry::TcpInfo;
use headway_traffic::distribution::{Lognormal, exponential};
use headway_traffic::random;
use headway_units::{Bytes, Duration, Instant};
use nix::sys::socket::{setsockopt, sockopt};
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

/// The only argument of a helper that runs as one of these ends; its plan is the first
/// line of standard input.
pub(crate) const COMMAND: &str = "endpoint";

/// The configuration of an end. Times are relative to time zero, which the ends learn when both are ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) role: Role,
    /// The lab node in which this end runs.
    pub(crate) node: String,
    /// Times at which to sample the counters, ascending; the last one ends the run.
    pub(crate) samples: Vec<Duration>,
    /// Whether connections request ECN regardless of their controller.
    pub(crate) ecn: bool,
    /// All flows of the run. This end has those that begin or end at its node.
    pub(crate) flows: Vec<PlannedFlow>,
}

impl Plan {
    /// Whether this end has a flow.
    fn has(&self, flow: &PlannedFlow) -> bool {
        self.node == *flow.node(self.role)
    }

    /// Returns the distinct controllers, in the order of their first flow.
    fn controllers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for flow in &self.flows {
            if !names.contains(&flow.controller.as_str()) {
                names.push(&flow.controller);
            }
        }
        names
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Role {
    Send,
    Receive,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PlannedFlow {
    pub(crate) controller: String,
    /// The lab nodes of the sender and the receiver.
    pub(crate) nodes: [String; 2],
    /// The sender's address; `None` lets the kernel choose it.
    pub(crate) source: Option<Ipv4Addr>,
    /// The receiver's address.
    pub(crate) destination: Ipv4Addr,
    pub(crate) start: Duration,
    pub(crate) stop: Option<Duration>,
    pub(crate) size: Option<u64>,
    pub(crate) demand: Demand,
    /// Whether its packets have the mark of [`MARK`].
    pub(crate) marked: bool,
}

/// What the application of a flow has to send, within its size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Demand {
    /// As much as TCP takes.
    Greedy,
    /// Chunks of payload, with a pause after each, from the time at which all of it is acknowledged.
    Chunks {
        /// Payload of each, at least a byte.
        chunk: Bytes,
        /// Time until the next one.
        pause: Duration,
    },
    /// In place of one flow, flows that arrive as a Poisson process, each with a connection of its own
    /// and a lognormal size.
    Arrivals {
        /// Mean number of arrivals per second, above 0.
        per_second: f64,
        /// Mean payload of a flow.
        mean: Bytes,
        /// Standard deviation of the logarithm of the payload, at least 0.
        spread: f64,
        /// Seed of times and sizes.
        seed: u64,
    },
}

impl PlannedFlow {
    /// Returns the node of its sender or receiver.
    pub(crate) fn node(&self, role: Role) -> &String {
        match role {
            Role::Send => &self.nodes[0],
            Role::Receive => &self.nodes[1],
        }
    }
}

/// Another controller for some flows, which their sender gets during the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Switch {
    pub(crate) controller: String,
    /// The numbers of the flows.
    pub(crate) flows: Vec<usize>,
}

/// The counters of all flows of a run, sampled at one time on `CLOCK_REALTIME`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) flows: Vec<Counters>,
}

/// Counters of a flow: the receiver fills in `received`, the sender the rest. Ends that do not
/// have it leave all zero.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Payload bytes received in order.
    pub(crate) received: u64,
    /// Data segments sent, retransmissions included.
    pub(crate) sent: u64,
    /// Segments retransmitted.
    pub(crate) retransmitted: u64,
    /// In segments.
    pub(crate) cwnd: u32,
    /// In segments; 2^31 - 1 before the first reduction.
    pub(crate) ssthresh: u32,
    /// Bytes per second; 2^64 - 1 before there is a rate.
    pub(crate) pacing: u64,
    pub(crate) srtt_us: u32,
    pub(crate) min_rtt_us: u32,
    pub(crate) timeouts: u64,
    /// Segments that the receiver reported as CE-marked.
    pub(crate) marks: u64,
    /// Time at which all data was acknowledged; zero before.
    pub(crate) finished: Instant,
}

/// The mark of packets between which PAUSE frames fill the line.
pub(crate) const MARK: u32 = 0x4857;
/// Port for flows with the first controller; those of further controllers follow.
const PORT: u16 = 5001;
/// Listen backlog: all flows, at most 100, connect at the same time.
const BACKLOG: i32 = 128;
/// How often an end checks for termination.
const TERMINATION_CHECK: Span = Span::from_millis(20);
/// Kernel limits on socket buffers: two bandwidth-delay products of 1 Gb/s and 250 ms.
const BUFFERS: [(&str, &str); 2] =
    [("tcp_rmem", "4096 1048576 67108864"), ("tcp_wmem", "4096 65536 67108864")];

/// By default the kernel accepts ECN but does not request it.
const REQUEST_ECN: (&str, &str) = ("tcp_ecn", "1");

/// How often a sender looks whether all of a chunk is acknowledged.
const ACKNOWLEDGED_CHECK: Span = Span::from_millis(1);
/// Flows of a group that are alive at the same time; later arrivals wait, so that an overloaded path does
/// not exhaust the host.
const MAX_ALIVE: usize = 100;

/// The line that an end prints when it is ready.
pub(crate) const READY: &str = "ready";

/// Executes the plan on standard input (JSON in one line) and prints the samples.
pub(crate) fn run() -> Result<(), Error> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("cannot read the plan")?;
    let plan: Plan =
        serde_json::from_str(&line).context("this command is only for `headway run --on lab`")?;
    for (key, value) in BUFFERS.into_iter().chain(plan.ecn.then_some(REQUEST_ECN)) {
        let path = format!("/proc/sys/net/ipv4/{key}");
        std::fs::write(&path, value).with_context(|| format!("cannot write {path}"))?;
    }
    let ended = termination()?;
    let samples = match plan.role {
        Role::Receive => receive(&plan, &ended)?,
        Role::Send => send(&plan, &ended)?,
    };
    print(&serde_json::to_string(&samples)?)
}

/// Returns a flag that SIGINT and SIGTERM set.
pub(crate) fn termination() -> Result<Arc<AtomicBool>, Error> {
    let ended = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ended))?;
    }
    Ok(ended)
}

/// Prints a line on standard output and flushes it.
pub(crate) fn print(line: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

/// Reports that this end is ready, and waits for time zero.
fn ready() -> Result<Instant, Error> {
    print(READY)?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).context("cannot read the start time")?;
    Ok(serde_json::from_str(&line)?)
}

/// Samples the counters at all planned times; on termination, takes a last sample at once and returns.
fn watch(
    plan: &Plan,
    begin: Instant,
    ended: &AtomicBool,
    counters: impl Fn() -> Vec<Counters>,
) -> Vec<Sample> {
    let mut samples = Vec::new();
    for at in plan.samples.iter().map(|at| begin + *at) {
        while now() < at && !ended.load(Ordering::Relaxed) {
            thread::sleep((at - now()).to_std().min(TERMINATION_CHECK));
        }
        samples.push(Sample { at: now().min(at), flows: counters() });
        if ended.load(Ordering::Relaxed) {
            break;
        }
    }
    samples
}

fn receive(plan: &Plan, ended: &AtomicBool) -> Result<Vec<Sample>, Error> {
    let listeners: Vec<TcpListener> = plan
        .controllers()
        .iter()
        .zip(PORT..)
        .map(|(name, port)| listen(name, port))
        .collect::<Result<_, _>>()?;
    let received: Arc<[AtomicU64]> = plan.flows.iter().map(|_| AtomicU64::new(0)).collect();
    for listener in listeners {
        let counts = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = Arc::clone(&counts);
                thread::spawn(move || drain(stream, &counts));
            }
        });
    }
    let counters = || {
        let count = |received: &AtomicU64| Counters {
            received: received.load(Ordering::Relaxed),
            ..Counters::default()
        };
        received.iter().map(count).collect()
    };
    let begin = ready()?;
    Ok(watch(plan, begin, ended, counters))
}

/// Accepted connections inherit the controller of the listening socket, and with it the way they echo marks.
fn listen(controller: &str, port: u16) -> Result<TcpListener, Error> {
    let socket = socket(controller)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into()).context("cannot listen")?;
    socket.listen(BACKLOG).context("cannot listen")?;
    Ok(TcpListener::from(socket))
}

/// Creates a socket with a congestion controller.
pub(crate) fn socket(controller: &str) -> Result<Socket, Error> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    choose(&socket, controller)?;
    Ok(socket)
}

/// Chooses the congestion controller of a socket.
fn choose(socket: &impl AsFd, controller: &str) -> Result<(), Error> {
    Ok(setsockopt(socket, sockopt::TcpCongestion, &OsString::from(controller))
        .with_context(|| format!("this kernel does not have the congestion controller `{controller}`"))?)
}

/// Reads until the sender closes; the first four bytes hold the index of the flow.
fn drain(mut stream: TcpStream, counts: &[AtomicU64]) {
    let mut number = [0; 4];
    let mut buffer = vec![0; 1 << 18];
    if stream.read_exact(&mut number).is_err() {
        return;
    }
    let Some(count) = counts.get(u32::from_be_bytes(number) as usize) else { return };
    // An error means that the sender is gone, as does end of file.
    while let Ok(size) = stream.read(&mut buffer)
        && size > 0
    {
        count.fetch_add(size as u64, Ordering::Relaxed);
    }
}

/// A flow at its sender.
struct Sending {
    stream: TcpStream,
    finished: AtomicU64,
}

fn send(plan: &Plan, ended: &Arc<AtomicBool>) -> Result<Vec<Sample>, Error> {
    let streams = connect_all(plan)?;
    let begin = ready()?;
    for (index, flow) in plan.flows.iter().enumerate().filter(|(_, flow)| plan.has(flow)) {
        if let Some(draws) = draws(&flow.demand, index as u64) {
            let (plan, flow) = (plan.clone(), flow.clone());
            thread::spawn(move || arrive(&plan, index, &flow, begin, draws));
        }
    }
    let mut flows = Vec::new();
    for (flow, stream) in plan.flows.iter().zip(streams) {
        let sending = stream.map(|stream| Arc::new(Sending::new(stream)));
        flows.push(sending.clone());
        let (Some(sending), flow) = (sending, flow.clone()) else { continue };
        thread::spawn(move || {
            // An error means that the receiver is gone, so the run is over.
            let _ = sending.fill(&flow, begin);
        });
    }
    let (failed, failure) = channel();
    let (switched, end) = (flows.clone(), Arc::clone(ended));
    thread::spawn(move || {
        if let Err(error) = switch_when_told(&switched) {
            // Fails if the run is over, when the flows are as well.
            let _ = failed.send(error);
            end.store(true, Ordering::Relaxed);
        }
    });
    let counters =
        |flow: &Option<Arc<Sending>>| flow.as_ref().map(|flow| flow.counters()).unwrap_or_default();
    let samples = watch(plan, begin, ended, || flows.iter().map(counters).collect());
    failure.try_recv().map_or(Ok(samples), Err)
}

/// Gives flows other controllers, as lines of standard input say, until it ends.
fn switch_when_told(flows: &[Option<Arc<Sending>>]) -> Result<(), Error> {
    for line in std::io::stdin().lines() {
        let Switch { controller, flows: numbers } = serde_json::from_str(&line?)?;
        for sending in numbers.into_iter().filter_map(|number| flows.get(number)?.as_ref()) {
            choose(&sending.stream, &controller)?;
        }
    }
    Ok(())
}

/// Returns the gaps before the flows of group `index` and their payloads, if they come and go.
fn draws(demand: &Demand, index: u64) -> Option<impl Iterator<Item = (Duration, u64)> + Send + use<>> {
    let Demand::Arrivals { per_second, mean, spread, seed } = *demand else { return None };
    let mut rng = random::generator(seed, "arrivals", index);
    let sizes = Lognormal::with_mean(mean.get() as f64, spread);
    Some(iter::from_fn(move || {
        let gap = Duration::from_secs_f64(exponential(&mut rng) / per_second);
        Some((gap, sizes.sample(&mut rng).max(1.0) as u64))
    }))
}

/// Starts flows in place of `flow`, as long as the process lives.
fn arrive(
    plan: &Plan,
    index: usize,
    flow: &PlannedFlow,
    begin: Instant,
    draws: impl Iterator<Item = (Duration, u64)>,
) {
    let alive = Arc::new(());
    let mut next = flow.start;
    for (gap, size) in draws {
        next += gap;
        thread::sleep((begin + next - now()).to_std());
        while Arc::strong_count(&alive) > MAX_ALIVE {
            thread::sleep(ACKNOWLEDGED_CHECK);
        }
        let one = PlannedFlow { start: next, size: Some(size), demand: Demand::Greedy, ..flow.clone() };
        let (plan, alive) = (plan.clone(), Arc::clone(&alive));
        thread::spawn(move || {
            // A flow that cannot connect is one less.
            if let Ok(stream) = connect(&plan, index, &one) {
                let _ = Sending::new(stream).fill(&one, begin);
            }
            drop(alive);
        });
    }
}

/// Opens all connections at once, ahead of the flows' start times, so that handshakes do not delay the first
/// segments. Flows of other ends have no connection, and those that come and go open theirs when they come.
fn connect_all(plan: &Plan) -> Result<Vec<Option<TcpStream>>, Error> {
    thread::scope(|scope| {
        let flows = plan.flows.iter().enumerate();
        let threads: Vec<_> = flows
            .map(|(index, flow)| {
                let stays = !matches!(flow.demand, Demand::Arrivals { .. });
                (plan.has(flow) && stays).then(|| scope.spawn(move || connect(plan, index, flow)))
            })
            .collect();
        let failed = |_| anyhow::anyhow!("a thread failed");
        let join = |thread: thread::ScopedJoinHandle<'_, _>| thread.join().map_err(failed)?;
        threads.into_iter().map(|thread| thread.map(join).transpose()).collect()
    })
}

fn connect(plan: &Plan, index: usize, flow: &PlannedFlow) -> Result<TcpStream, Error> {
    let socket = socket(&flow.controller)?;
    if flow.marked {
        socket.set_mark(MARK).context("cannot mark packets")?;
    }
    let listener = plan.controllers().into_iter().zip(PORT..).find(|(name, _)| *name == flow.controller);
    let port = listener.map_or(PORT, |(_, port)| port);
    if let Some(source) = flow.source {
        socket.bind(&SocketAddrV4::new(source, 0).into()).context("cannot bind")?;
    }
    socket.connect(&SocketAddrV4::new(flow.destination, port).into()).context("cannot connect")?;
    let mut stream = TcpStream::from(socket);
    stream.write_all(&u32::try_from(index)?.to_be_bytes())?;
    Ok(stream)
}

impl Sending {
    fn new(stream: TcpStream) -> Sending {
        Sending { stream, finished: AtomicU64::new(0) }
    }

    /// Writes from start to stop, or until the size is reached, and waits until the receiver has everything.
    fn fill(&self, flow: &PlannedFlow, begin: Instant) -> std::io::Result<()> {
        thread::sleep((begin + flow.start - now()).to_std());
        let (chunk, pause) = match flow.demand {
            Demand::Chunks { chunk, pause } => (chunk.get(), pause),
            _ => (u64::MAX, Duration::ZERO),
        };
        let buffer = vec![0; 1 << 16];
        let (mut left, mut of_chunk) = (flow.size.unwrap_or(u64::MAX), chunk);
        while left > 0 && flow.stop.is_none_or(|stop| now() < begin + stop) {
            let part = buffer.len().min(usize::try_from(left.min(of_chunk)).unwrap_or(usize::MAX));
            let written = (&self.stream).write(&buffer[..part])? as u64;
            (left, of_chunk) = (left - written, of_chunk - written);
            if of_chunk == 0 {
                self.wait_until_acknowledged()?;
                thread::sleep(pause.to_std());
                of_chunk = chunk;
            }
        }
        self.stream.shutdown(std::net::Shutdown::Write)?;
        (&self.stream).read_to_end(&mut Vec::new())?;
        self.finished.store((now() - begin).ns().unsigned_abs(), Ordering::Relaxed);
        Ok(())
    }

    /// Waits until the receiver has acknowledged all that was written.
    fn wait_until_acknowledged(&self) -> std::io::Result<()> {
        loop {
            let mut waiting: libc::c_int = 0;
            // SAFETY: the request writes one integer, which is valid.
            if unsafe { libc::ioctl(self.stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut waiting) } < 0 {
                return Err(std::io::Error::last_os_error());
            }
            if waiting == 0 {
                return Ok(());
            }
            thread::sleep(ACKNOWLEDGED_CHECK);
        }
    }

    fn counters(&self) -> Counters {
        let info = TcpInfo::of(&self.stream);
        Counters {
            received: 0,
            sent: info.data_segments_out().into(),
            retransmitted: info.retransmitted().into(),
            cwnd: info.cwnd(),
            ssthresh: info.ssthresh(),
            pacing: info.pacing_rate(),
            srtt_us: info.rtt(),
            min_rtt_us: info.min_rtt(),
            timeouts: info.timeouts().into(),
            marks: info.delivered_marked().into(),
            finished: Instant::from_ns(self.finished.load(Ordering::Relaxed)),
        }
    }
}

/// Returns the current time on `CLOCK_REALTIME`.
pub(crate) fn now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Instant::ZERO + Duration::from(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_that_come_and_go_offer_their_load() {
        let demand = Demand::Arrivals { per_second: 50.0, mean: Bytes::new(100_000), spread: 1.0, seed: 3 };
        let drawn: Vec<(Duration, u64)> = draws(&demand, 0).unwrap().take(20_000).collect();
        let time: Duration = drawn.iter().map(|(gap, _)| *gap).sum();
        let bytes: u64 = drawn.iter().map(|(_, size)| size).sum();
        // 400 s on average, with a standard deviation of 1 / sqrt(20 000); sizes vary by 1.3 of their mean.
        assert!((time.secs_f64() / 400.0 - 1.0).abs() < 4.0 * 0.0071, "{time}");
        assert!((bytes as f64 / 2e9 - 1.0).abs() < 4.0 * 1.31 * 0.0071, "{bytes}");
        assert_eq!(drawn[..9], draws(&demand, 0).unwrap().take(9).collect::<Vec<_>>());
        assert_ne!(drawn[0], draws(&demand, 1).unwrap().next().unwrap());
        assert!(draws(&Demand::Greedy, 0).is_none());
    }
}

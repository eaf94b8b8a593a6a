//! Measures how accurately the emulator keeps rate and delay on this machine.
//!
//! `cargo build -p headway-cli-lab && cargo run -p headway-lab --example accuracy --
//! target/debug/headway-lab [KIND...]`
//!
//! For several rates, with and without cross traffic, and each KIND of queue (drop-tail), sends trains
//! of 64 back-to-back packets (gap at the receiver minus serialisation time) and lone packets (one-way
//! delay minus the ideal delay of the path). All timestamps are the kernel's except the send time,
//! which the program takes.

use std::error::Error;
use std::io::{BufRead, BufReader, IoSliceMut, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration as Pause;

use headway_lab::{Direction, Lab, Life};
use headway_queue::explicit::{ANY_RATE, Format, HEADER_BYTES, Header, VERSION_RCP, encode};
use headway_scenario::{Buffer, BufferSize, LinkSpec, Scenario, TrafficSpec};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, setsockopt, sockopt};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The port of the receiver. Its packets carry a congestion header, which only a queue
/// that is a router reads.
const PORT: u16 = 9000;
/// UDP payload of a full packet of 1500 bytes.
const PAYLOAD: usize = 1472;
const TRAIN: usize = 64;
const DELAY: Duration = Duration::from_ms(10);

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    match args.get(1).map(String::as_str) {
        Some("receive") => receive(args[2].parse()?),
        Some("send") => send(&args[2], args[3].parse()?, args[4].parse()?, args[5].parse()?),
        Some(program) => measure(Path::new(program), &args[2..]),
        None => Err("name the headway binary".into()),
    }
}

fn measure(program: &Path, kinds: &[String]) -> Outcome<()> {
    let drop_tail = ["drop-tail".to_owned()];
    let kinds = if kinds.is_empty() { &drop_tail } else { kinds };
    let network = network(Rate::from_mbps(10.0), &kinds[0])?;
    let lab = Lab::up_with(program, &network, "accuracy", Life::Owned)?;
    println!(
        "{:>9} {:>9} {:>9} {:>6} | {:^46} | {:>9} | lateness",
        "queue", "rate", "cross", "test", "error us p1 / p50 / p90 / p99 / mean", "CPU %"
    );
    for mbps in [10.0, 100.0, 500.0] {
        for kind in kinds {
            let rate = Rate::from_mbps(mbps);
            let idle = self::network(rate, kind)?;
            lab.set_links(&idle)?;
            lab.set_traffic(&idle)?;
            row(&lab, kind, rate, Rate::ZERO, Test::Train)?;
            row(&lab, kind, rate, Rate::ZERO, Test::Lone)?;
            let cross = rate.scale(0.8);
            let traffic = vec![TrafficSpec::new("client", "server", Traffic::poisson(cross))];
            lab.set_traffic(&Scenario { traffic, ..idle })?;
            row(&lab, kind, rate, cross, Test::Idle)?;
            row(&lab, kind, rate, cross, Test::Load)?;
        }
    }
    let headers = lab.status()?.links[0].forward_router.as_ref().map(|router| router.headers);
    if let Some(headers) = headers {
        println!(
            "{} headers, {} rewritten, {} dropped",
            headers.headers,
            headers.rewritten,
            headers.dropped()
        );
    }
    lab.down()?;
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Test {
    /// Trains on an empty path.
    Train,
    /// Lone packets on an empty path.
    Lone,
    /// Cross traffic but no packets.
    Idle,
    /// Trains among cross traffic: only CPU use and lateness can be judged.
    Load,
}

fn row(lab: &Lab, kind: &str, rate: Rate, cross: Rate, test: Test) -> Outcome<()> {
    let train_time = rate.time_for(Bytes::new(1538 * TRAIN as u64));
    let (trains, packets, period) = match test {
        Test::Train => (60, TRAIN, (train_time.scale(1.5)).to_std()),
        Test::Lone => (2000, 1, Pause::from_millis(2)),
        Test::Load => (60, TRAIN, (train_time.scale(6.0)).to_std()),
        Test::Idle => (0, 0, Pause::ZERO),
    };
    let (from, cpu) = (now(), cpu_time(lab)?);
    let mut errors = Vec::new();
    if test == Test::Idle {
        std::thread::sleep(Pause::from_secs(2));
    } else {
        let stamps = run(lab, trains, packets, period)?;
        errors = match test {
            Test::Lone => delay_errors(&stamps, rate),
            Test::Train => gap_errors(&stamps, rate),
            _ => Vec::new(),
        };
    }
    let (to, spent) = (now(), cpu_time(lab)? - cpu);
    let truth = lab.truth_until(to)?;
    let lateness = truth.lateness_between(Direction::Forward, from, to);
    println!(
        "{kind:>9} {rate:>9} {cross:>9} {:>6} | {} | {:>9.2} | max {} >250us {:.2}% >1ms {:.2}% of {}",
        format!("{test:?}"),
        summary(&mut errors),
        100.0 * spent / (to - from).secs_f64(),
        lateness.max,
        100.0 * lateness.late_share,
        100.0 * lateness.very_late_share,
        lateness.released,
    );
    Ok(())
}

/// Number, send time and receive time of every packet that arrived.
type Stamps = Vec<(usize, Instant, Instant)>;

fn run(lab: &Lab, trains: usize, packets: usize, period: Pause) -> Outcome<Stamps> {
    let me = std::env::current_exe()?;
    let mut receiver = lab
        .command("server", &me, ["receive", &(trains * packets).to_string()])?
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(receiver.stdout.take().ok_or("no pipe")?).lines();
    lines.next().ok_or("the receiver ended")??;
    let to = format!("{}:{PORT}", lab.v4("server")?);
    let args = ["send".into(), to, trains.to_string(), packets.to_string(), period.as_nanos().to_string()];
    let sender: Child = lab.command("client", &me, args)?.spawn()?;
    let stamps = lines
        .map(|line| {
            let numbers: Vec<u64> = line?.split(' ').map(str::parse).collect::<Result<_, _>>()?;
            Ok((numbers[0] as usize, Instant::from_ns(numbers[1]), Instant::from_ns(numbers[2])))
        })
        .collect();
    for mut child in [sender, receiver] {
        child.wait()?;
    }
    stamps
}

fn gap_errors(stamps: &Stamps, rate: Rate) -> Vec<f64> {
    let ideal = rate.time_for(Bytes::new(1538));
    // Only packets that certainly found the queue occupied, because the sender may have been preempted.
    let queued = |w: &&[(usize, Instant, Instant)]| w[1].1 + DELAY + ideal.scale(2.0) < w[1].2;
    stamps
        .windows(2)
        .filter(|w| w[1].0 == w[0].0 + 1 && w[1].0 % TRAIN != 0)
        .filter(queued)
        .map(|w| (w[1].2 - w[0].2 - ideal).us())
        .collect()
}

fn delay_errors(stamps: &Stamps, rate: Rate) -> Vec<f64> {
    let ideal = DELAY + rate.time_for(Bytes::new(1538));
    stamps.iter().map(|(_, sent, received)| (*received - *sent - ideal).us()).collect()
}

fn summary(errors: &mut [f64]) -> String {
    errors.sort_by(f64::total_cmp);
    if errors.is_empty() {
        return format!("{:46}", "");
    }
    let at = |share: f64| errors[((errors.len() - 1) as f64 * share) as usize];
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    format!("{:8.2} {:8.2} {:8.2} {:8.2} {mean:10.3}", at(0.01), at(0.5), at(0.9), at(0.99))
}

fn network(rate: Rate, kind: &str) -> Outcome<Scenario> {
    let buffer = Some(BufferSize::Limit(Buffer::Bytes(Bytes::new(1_000_000))));
    let queue = Some(serde_json::from_value(serde_json::json!({ "kind": kind }))?);
    let link = LinkSpec { buffer, ..LinkSpec::at("client", "server", rate, DELAY) };
    let links = [LinkSpec { queue, ..link.one_way(false) }, link.one_way(true)];
    Ok(Scenario { header_port: Some(PORT), ..Scenario::of(links.into()) })
}

fn now() -> Instant {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_REALTIME);
    time.map_or(Instant::ZERO, |t| Instant::from_ns(t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64))
}

/// CPU time in seconds that the emulator's process has used.
fn cpu_time(lab: &Lab) -> Outcome<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", lab.daemon().pid))?;
    let (_, rest) = stat.rsplit_once(") ").ok_or("no stat")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / 100.0)
}

fn send(to: &str, trains: usize, packets: usize, period_ns: u64) -> Outcome<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(to)?;
    let mut payload = [0u8; PAYLOAD];
    let header = Header { rtt: 5_368_709, x: 536_870, ..Header::new(VERSION_RCP, Format::Standard) };
    for train in 0..trains {
        let start = std::time::Instant::now();
        for packet in 0..packets {
            payload[..HEADER_BYTES].copy_from_slice(&encode(&Header { feedback: ANY_RATE, ..header }));
            payload[HEADER_BYTES..][..8].copy_from_slice(&((train * packets + packet) as u64).to_le_bytes());
            payload[HEADER_BYTES + 8..][..8].copy_from_slice(&now().ns().to_le_bytes());
            socket.send(&payload)?;
        }
        std::thread::sleep(Pause::from_nanos(period_ns).saturating_sub(start.elapsed()));
    }
    Ok(())
}

fn receive(count: usize) -> Outcome<()> {
    let socket = UdpSocket::bind(("0.0.0.0", PORT))?;
    socket.set_read_timeout(Some(Pause::from_secs(2)))?;
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
    setsockopt(&socket, sockopt::RcvBufForce, &(8 << 20))
        .or_else(|_| setsockopt(&socket, sockopt::RcvBuf, &(8 << 20)))?;
    println!("ready");
    let mut stamps: Stamps = Vec::with_capacity(count);
    let (mut payload, mut control) = ([0u8; 2048], nix::cmsg_space!(nix::sys::time::TimeSpec));
    while stamps.len() < count {
        let mut parts = [IoSliceMut::new(&mut payload)];
        let fd = socket.as_raw_fd();
        let Ok(message) = recvmsg::<SockaddrStorage>(fd, &mut parts, Some(&mut control), MsgFlags::empty())
        else {
            break;
        };
        let Some(ControlMessageOwned::ScmTimestampns(stamp)) = message.cmsgs()?.next() else { continue };
        let received = Instant::from_ns(stamp.tv_sec() as u64 * 1_000_000_000 + stamp.tv_nsec() as u64);
        let number = |at: usize| payload[HEADER_BYTES + at..][..8].try_into().map(u64::from_le_bytes);
        stamps.push((number(0)? as usize, Instant::from_ns(number(8)?), received));
    }
    let mut out = std::io::stdout().lock();
    for (number, sent, received) in stamps {
        writeln!(out, "{number} {} {}", sent.ns(), received.ns())?;
    }
    Ok(())
}

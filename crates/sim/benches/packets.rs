//! Delivered packets per CPU-second of whole simulations: `cargo bench -p headway-sim --bench packets`.
//!
//! A delivered packet is a TCP segment or datagram that arrived at the far end of a bottleneck.
//! Retransmissions count, ACKs do not, and each bottleneck on a path counts separately. The time is
//! the CPU time of the thread for building the network and running it from the first packet on, the
//! median of three runs.
//!
//! `-- --cell NETWORK FLOWS` runs one cell once and prints its packets, for scripts that
//! time the whole process.

use std::path::Path;

use headway_control::{FixedWindow, Kind};
use headway_queue::{DropTailConfig, QueueSpec};
use headway_sim::config::{AckPolicy, Burst, Service};
use headway_sim::{FlowId, LinkConfig, LinkId, Network, SourceConfig, TcpConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};
use nix::time::{ClockId, clock_gettime};
use serde_json::json;

const RUNS: usize = 3;
const RATE: Rate = Rate::from_bps(10_000_000_000);
/// Rate times an RTT of 10 ms.
const BDP: Bytes = Bytes::new(12_500_000);
const FULL_PACKET: Bytes = Bytes::new(1538);
/// Time between the starts of flows.
const STAGGER_NS: u64 = 100_000;

/// A network ready to run.
struct Scene {
    network: Network,
    flows: Vec<FlowId>,
    bottlenecks: Vec<LinkId>,
}

impl Scene {
    fn new() -> Scene {
        Scene { network: Network::new(1), flows: Vec::new(), bottlenecks: Vec::new() }
    }

    /// Adds both directions of a link.
    fn link(&mut self, delay: Duration) -> (LinkId, LinkId) {
        self.link_with(delay, BDP)
    }

    fn link_with(&mut self, delay: Duration, buffer: Bytes) -> (LinkId, LinkId) {
        let queue = QueueSpec::DropTail(DropTailConfig { limit: Some(buffer), packets: None });
        let config = LinkConfig::new(Service::Constant(RATE), delay, queue.build(Some(RATE), 1));
        (self.network.add_link(&config), self.network.add_link(&config))
    }

    fn bottleneck(&mut self, delay: Duration) -> (LinkId, LinkId) {
        let (forward, reverse) = self.link(delay);
        self.bottlenecks.push(forward);
        (forward, reverse)
    }

    /// Adds a CUBIC flow that always has data to send.
    fn flow(&mut self, links: &[(LinkId, LinkId)]) {
        let start = Instant::from_ns(self.flows.len() as u64 * STAGGER_NS);
        let forward = links.iter().map(|link| link.0).collect();
        let reverse = links.iter().rev().map(|link| link.1).collect();
        let config = TcpConfig { start, ..TcpConfig::new(Kind::Cubic, forward, reverse) };
        self.flows.push(self.network.add_tcp(&config));
    }

    /// All flows share one link.
    fn shared(flows: u32) -> Scene {
        let mut scene = Scene::new();
        let link = scene.bottleneck(Duration::from_ms(5));
        (0..flows).for_each(|_| scene.flow(&[link]));
        scene
    }

    /// All flows share one link. Their windows are fixed at equal shares of 1.5 bandwidth-delay products, and
    /// every segment is sent as soon as possible and acknowledged at once: a model simple enough that other
    /// simulators have it, too.
    fn fixed_window(flows: u32) -> Scene {
        let mut scene = Scene::new();
        let link = scene.link_with(Duration::from_ms(5), BDP * 4);
        scene.bottlenecks.push(link.0);
        let segments = (BDP.get() * 3 / 2 / FULL_PACKET.get()) as u32 / flows;
        for flow in 0..flows {
            scene.flows.push(scene.network.add_tcp(&TcpConfig {
                start: Instant::from_ns(u64::from(flow) * STAGGER_NS),
                ack: AckPolicy { every: 1, timeout: Duration::from_ms(40) },
                burst: Burst::Single,
                ..TcpConfig::new(Kind::FixedWindow(FixedWindow::new(segments)), vec![link.0], vec![link.1])
            }));
        }
        scene
    }

    /// All flows share one link, and each has access links of the same rate before and behind it.
    fn own_access(flows: u32) -> Scene {
        let mut scene = Scene::new();
        let link = scene.bottleneck(Duration::from_ms(3));
        for _ in 0..flows {
            let (sender, receiver) = (scene.link(Duration::from_ms(1)), scene.link(Duration::from_ms(1)));
            scene.flow(&[sender, link, receiver]);
        }
        scene
    }

    /// Three links, each with 1 Gb/s of single datagrams and 1 Gb/s of batches. A quarter of the flows
    /// crosses all links, the others one each.
    fn three_hops(flows: u32) -> Scene {
        let mut scene = Scene::new();
        let links = [2, 2, 1].map(|ms| scene.bottleneck(Duration::from_ms(ms)));
        let rate = Rate::from_mbps(1000.0);
        let cross = [
            Traffic::Poisson { rate, size: FULL_PACKET },
            Traffic::Batches { rate, size: FULL_PACKET, batch: 12.4 },
        ];
        for link in &links {
            for traffic in &cross {
                scene.network.add_source(&SourceConfig {
                    path: vec![link.0],
                    traffic: traffic.clone(),
                    start: Instant::ZERO,
                    stop: None,
                });
            }
        }
        for i in 0..flows {
            match i % 4 {
                0 => scene.flow(&links),
                hop => scene.flow(&links[hop as usize - 1..hop as usize]),
            }
        }
        scene
    }
}

/// A network and the virtual time it is run for.
struct Cell {
    name: &'static str,
    build: fn(u32) -> Scene,
    flows: u32,
    ms: u64,
}

/// Results of a run.
struct Outcome {
    cpu: f64,
    packets: u64,
    events: u64,
    goodput: f64,
    retransmitted: u64,
    timeouts: u64,
    memory: u64,
}

impl Outcome {
    fn packets_per_second(&self) -> f64 {
        self.packets as f64 / self.cpu
    }
}

/// Returns the CPU time of this thread in seconds.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9
}

fn run(cell: &Cell) -> Outcome {
    let before = cpu();
    let mut scene = (cell.build)(cell.flows);
    scene.network.run_until(Instant::from_ns(cell.ms * 1_000_000));
    let cpu = cpu() - before;
    let network = &scene.network;
    let flows: Vec<_> = scene.flows.iter().map(|id| network.flow(*id)).collect();
    let goodput: u64 = flows.iter().map(|flow| flow.goodput.get() * 8).sum();
    Outcome {
        cpu,
        packets: scene.bottlenecks.iter().map(|id| network.link(*id).statistics().delivered.packets).sum(),
        events: network.events(),
        goodput: goodput as f64 / (cell.ms as f64 / 1e3),
        retransmitted: flows.iter().map(|flow| flow.retransmitted).sum(),
        timeouts: flows.iter().map(|flow| flow.timeouts).sum(),
        memory: network.memory().get() / u64::from(cell.flows),
    }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for flows in [1, 10, 100, 1000] {
        cells.push(Cell { name: "one link", build: Scene::shared, flows, ms: 10_000 });
    }
    for flows in [1, 10, 100, 1000] {
        cells.push(Cell { name: "fixed window", build: Scene::fixed_window, flows, ms: 10_000 });
    }
    // As long as ns-3 can run the same cell.
    for (flows, ms) in [(1, 150), (10, 120), (100, 120)] {
        cells.push(Cell { name: "one link, start", build: Scene::shared, flows, ms });
    }
    for flows in [1, 10, 100, 1000] {
        cells.push(Cell { name: "access links", build: Scene::own_access, flows, ms: 5_000 });
    }
    for flows in [4, 40, 400] {
        cells.push(Cell { name: "three hops", build: Scene::three_hops, flows, ms: 3_000 });
    }
    cells
}

fn main() {
    let cells = cells();
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(place) = arguments.iter().position(|argument| argument == "--cell") {
        let is_wanted =
            |cell: &&Cell| arguments[place + 1..].starts_with(&[cell.name.into(), cell.flows.to_string()]);
        let cell = cells.iter().find(is_wanted).expect("a network and a number of flows from the table");
        let outcome = run(cell);
        println!("{}", json!({ "packets": outcome.packets, "goodput_bps": outcome.goodput }));
        return;
    }
    let mut outcomes: Vec<Vec<Outcome>> = cells.iter().map(|_| Vec::new()).collect();
    // In rounds, so that a busy moment of the machine does not hit all runs of one cell.
    for _ in 0..RUNS {
        for (cell, outcomes) in cells.iter().zip(&mut outcomes) {
            outcomes.push(run(cell));
        }
    }
    println!(
        "CUBIC flows over 10 Gb/s and 10 ms, buffers of one bandwidth-delay product, an acknowledgement for two segments"
    );
    println!(
        "{:17} {:>5} {:>9} {:>6} {:>10} {:>9} {:>12} {:>13} {:>8} {:>12}",
        "network",
        "flows",
        "virtual s",
        "CPU s",
        "Mpackets/s",
        "Mevents/s",
        "goodput Gb/s",
        "retransmitted",
        "timeouts",
        "bytes a flow"
    );
    let mut rows = Vec::new();
    for (cell, outcomes) in cells.iter().zip(&mut outcomes) {
        outcomes.sort_by(|a, b| a.cpu.total_cmp(&b.cpu));
        let outcome = &outcomes[RUNS / 2];
        println!(
            "{:17} {:5} {:9.2} {:6.3} {:10.2} {:9.2} {:12.3} {:13} {:8} {:12}",
            cell.name,
            cell.flows,
            cell.ms as f64 / 1e3,
            outcome.cpu,
            outcome.packets_per_second() / 1e6,
            outcome.events as f64 / outcome.cpu / 1e6,
            outcome.goodput / 1e9,
            outcome.retransmitted,
            outcome.timeouts,
            outcome.memory
        );
        rows.push(json!({
            "network": cell.name,
            "flows": cell.flows,
            "virtual_s": cell.ms as f64 / 1e3,
            "cpu_s": outcome.cpu,
            "packets": outcome.packets,
            "goodput_bps": outcome.goodput,
            "retransmitted": outcome.retransmitted,
        }));
    }
    for name in ["one link", "access links"] {
        let speed = |flows| {
            let of = |(cell, _): &(&Cell, _)| cell.name == name && cell.flows == flows;
            let (_, outcomes) = cells.iter().zip(&outcomes).find(of).expect("the cell is in the table");
            outcomes[RUNS / 2].packets_per_second()
        };
        println!(
            "{name}: a packet of 1000 flows costs {:.2} times one of a single flow",
            speed(1) / speed(1000)
        );
    }
    write(&rows);
}

/// Writes the results to where `bench/ns3_dumbbell.py` reads them.
fn write(rows: &[serde_json::Value]) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    let text = serde_json::to_string_pretty(rows).expect("numbers and names");
    std::fs::create_dir_all(&directory).expect("target can be written");
    std::fs::write(directory.join("packets.json"), text + "\n").expect("target can be written");
}

//! A million flows of 30 kB over 10 Gb/s: `cargo run --release -p headway-sim --example short_flows [FLOWS]`.

use headway_control::Kind;
use headway_queue::{DropTailConfig, QueueSpec};
use headway_sim::config::Service;
use headway_sim::{LinkConfig, Network, TcpConfig};
use headway_units::{Bytes, Duration, Instant, Rate};

/// Time between the starts of two flows; at this rate they fill nine tenths of the link.
const GAP_NS: u64 = 28_000;
const SIZE: Bytes = Bytes::new(30_000);

fn main() {
    let flows: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let rate = Rate::from_bps(10_000_000_000);
    let queue = QueueSpec::DropTail(DropTailConfig { limit: Some(Bytes::new(12_500_000)), packets: None });
    let link = LinkConfig::new(Service::Constant(rate), Duration::from_ms(5), queue.build(Some(rate), 1));
    let mut network = Network::new(1);
    let (forward, reverse) = (network.add_link(&link), network.add_link(&link));
    let group = network.add_group(&TcpConfig::new(Kind::Cubic, vec![forward], vec![reverse]));
    let (mut ended, mut took, mut alive, mut memory) = (0_u64, Duration::ZERO, 0, Bytes::ZERO);
    for number in 0..flows {
        let start = Instant::from_ns(number * GAP_NS);
        network.run_until(start);
        if network.start_flow(group, start, SIZE).is_none() {
            eprintln!("the network has no room for flow {number}");
            return;
        }
        for flow in network.take_completions() {
            (ended, took) = (ended + 1, took + (flow.end - flow.start));
        }
        alive = alive.max(network.flows_alive());
        if number % 10_000 == 0 {
            memory = memory.max(network.memory());
        }
    }
    println!(
        "{ended} of {flows} flows have ended, after {:.2} ms in the mean; {alive} were alive at most, in {:.1} MB",
        took.ns() as f64 / 1e6 / ended.max(1) as f64,
        memory.get() as f64 / 1e6
    );
    println!("{} packets came over the link", network.link(forward).statistics().delivered.packets);
}

//! A user-defined congestion controller: Scalable TCP beside CUBIC.
//!
//! `cargo run --release -p headway-sim --example my_controller` runs both over one bottleneck and
//! prints their goodput.

use headway_control::{Ack, Congestion, Controller, Factory, Kind, Metrics, Start};
use headway_queue::{DropTailConfig, QueueSpec};
use headway_sim::config::Service;
use headway_sim::{LinkConfig, Network, TcpConfig};
use headway_units::{Bytes, Duration, Instant, Rate};

/// Scalable TCP (Kelly, 2003): adds 0.01 segments per segment acknowledged, and reduces the
/// window by an eighth.
#[derive(Debug)]
struct Scalable {
    window: f64,
    ssthresh: f64,
}

impl Scalable {
    const INCREASE: f64 = 0.01;
    const DECREASE: f64 = 0.125;

    fn new(start: &Start) -> Scalable {
        Scalable { window: f64::from(start.window), ssthresh: f64::INFINITY }
    }
}

impl Controller for Scalable {
    fn on_ack(&mut self, ack: &Ack) {
        if !ack.reducing && ack.window_limited {
            let slow_start = self.window < self.ssthresh;
            self.window += f64::from(ack.delivered) * if slow_start { 1.0 } else { Scalable::INCREASE };
        }
    }

    fn on_congestion(&mut self, _now: Instant, _in_flight: u32, _cause: Congestion) {
        self.window = (self.window * (1.0 - Scalable::DECREASE)).max(2.0);
        self.ssthresh = self.window;
    }

    fn on_timeout(&mut self, _now: Instant, _in_flight: u32, already_reduced: bool) {
        if !already_reduced {
            self.ssthresh = (self.window * (1.0 - Scalable::DECREASE)).max(2.0);
        }
        self.window = 1.0;
    }

    fn on_undo(&mut self, window: f64, ssthresh: f64) {
        self.window = self.window.max(window);
        self.ssthresh = self.ssthresh.max(ssthresh);
    }

    fn metrics(&self) -> Metrics {
        Metrics::new(self.window, self.ssthresh)
    }
}

/// Returns the goodput in Mb/s of two flows, one with each controller, from 10 s to 60 s over a 50 Mb/s
/// bottleneck with an RTT of 40 ms and a buffer of one bandwidth-delay product.
fn goodput(controllers: [Factory; 2]) -> [f64; 2] {
    let rate = Rate::from_bps(50_000_000);
    let queue = QueueSpec::DropTail(DropTailConfig { limit: Some(Bytes::new(250_000)), packets: None });
    let link = |service| LinkConfig::new(service, Duration::from_ms(20), queue.build(Some(rate), 1));
    let mut network = Network::new(1);
    let forward = network.add_link(&link(Service::Constant(rate)));
    let back = network.add_link(&link(Service::Unlimited));
    let flows =
        controllers.map(|controller| network.add_tcp(&TcpConfig::new(controller, vec![forward], vec![back])));
    let at = |seconds: i64| Instant::ZERO + Duration::from_ms(1000 * seconds);
    network.run_until(at(10));
    let before = flows.map(|flow| network.flow(flow).goodput);
    network.run_until(at(60));
    let bytes = [0, 1].map(|index| network.flow(flows[index]).goodput.get() - before[index].get());
    bytes.map(|bytes| bytes as f64 * 8.0 / 50.0 / 1e6)
}

fn main() {
    let [scalable, cubic] = goodput([Factory::new(Scalable::new), Kind::Cubic.into()]);
    println!("Scalable TCP: {scalable:.2} Mb/s");
    println!("CUBIC:        {cubic:.2} Mb/s");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_that_is_not_in_the_table_shares_a_link_with_one_that_is() {
        let [scalable, cubic] = goodput([Factory::new(Scalable::new), Kind::Cubic.into()]);
        // 1448 of 1538 bytes are payload.
        let capacity = 50.0 * 1448.0 / 1538.0;
        assert!((scalable + cubic) / capacity > 0.98, "{scalable} and {cubic} Mb/s");
        assert!(scalable > 2.0 && cubic > 2.0, "{scalable} and {cubic} Mb/s");
    }
}

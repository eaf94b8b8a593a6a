//! Behaviour of BBR on whole paths.

use crate::support::*;
use headway_control::Kind;
use headway_sim::TcpConfig;
use headway_sim::config::Burst;
use headway_units::{Bytes, Duration};

const MS: fn(i64) -> Duration = Duration::from_ms;

/// A host that sends in bursts, with a receiver that acknowledges every second segment.
fn host(flow: &mut TcpConfig) {
    flow.burst = Burst::Host;
    flow.ack.every = 2;
}

#[test]
fn bbr_fills_a_link_and_leaves_the_queue_nearly_empty() {
    for (rate, buffer) in [(10.0, 40), (50.0, 200), (200.0, 800)] {
        let config = link(mbps(rate), MS(20), drop_tail(Some(buffer * SEGMENT)));
        let mut pipe = Pipe::new(Kind::Bbr, &config, MS(20), host);
        pipe.run(5.0);
        pipe.network.reset_statistics();
        let flow = pipe.run(35.0);
        let statistics = pipe.network.link(pipe.forward).statistics();
        println!("{rate}: {flow:?} {}", statistics.delay.mean());
        // Three PROBE_RTT phases of 200 ms and a round trip each, and a pacing margin of 1 %.
        let goodput = flow.goodput.get() as f64 * 8.0 / 30.0;
        assert_near(&format!("goodput at {rate} Mb/s"), goodput, rate * 1e6 * 1448.0 / 1538.0, 0.035);
        // The window exceeds the bandwidth-delay product by three bursts of at least two segments.
        let bursts = mbps(rate).time_for(Bytes::new(6 * SEGMENT));
        assert!(statistics.delay.mean() < bursts + MS(4), "{}", statistics.delay.mean());
        assert_eq!((flow.retransmitted, flow.timeouts), (0, 0));
    }
}

#[test]
fn bbr_does_not_mind_random_losses() {
    let mut config = link(mbps(50.0), MS(20), drop_tail(None));
    config.loss = 0.02;
    let mut pipe = Pipe::new(Kind::Bbr, &config, MS(20), host);
    pipe.run(5.0);
    pipe.network.reset_statistics();
    let flow = pipe.run(35.0);
    assert_near("goodput", flow.goodput.get() as f64 * 8.0 / 30.0, 50e6 * 1448.0 / 1538.0 * 0.98, 0.06);
}

#[test]
fn bbr_keeps_to_the_rate_of_a_policer() {
    let mut config = link(mbps(100.0), MS(20), drop_tail(None));
    config.policer = Some((mbps(20.0), Bytes::new(200_000)));
    let mut pipe = Pipe::new(Kind::Bbr, &config, MS(20), host);
    pipe.run(10.0);
    pipe.network.reset_statistics();
    let flow = pipe.run(40.0);
    println!("{flow:?}");
    assert_near("goodput", flow.goodput.get() as f64 * 8.0 / 30.0, 20e6 * 1448.0 / 1538.0, 0.1);
    assert!(flow.retransmitted * 10 < flow.sent, "{flow:?}");
}

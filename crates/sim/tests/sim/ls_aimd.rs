//! LS-AIMD on whole paths: the packet conservation clock and its benefits.

use crate::support::*;
use headway_control::Kind;
use headway_queue::{QueueSpec, StepConfig};
use headway_sim::config::{AckPolicy, Burst, Ecn};
use headway_sim::{FlowId, LinkId, Network, TcpConfig};
use headway_units::{Bytes, Duration, Instant, Rate};

const MS: fn(i64) -> Duration = Duration::from_ms;
const US: fn(i64) -> Duration = Duration::from_us;

fn controller(text: &str) -> Kind {
    text.parse().expect("a controller")
}

/// Sixteen flows of jumbo segments at 600 Mb/s with an RTT of 250 us: a quarter of a segment for
/// each (ls-aimd 4.2, 4E).
struct Crowd {
    network: Network,
    bottleneck: LinkId,
    flows: Vec<FlowId>,
}

impl Crowd {
    fn new(text: &str, change: impl Fn(&mut TcpConfig)) -> Crowd {
        let mut network = Network::new(1);
        let rate = Rate::from_bps(601_330_000);
        let step = StepConfig { threshold: rate.bytes_in(US(250)).into(), limit: None, packets: None };
        let queue = QueueSpec::Step(step).build(Some(rate), 1);
        let bottleneck = network.add_link(&link(rate, US(125), queue));
        let back = network.add_link(&wire(US(125)));
        let flows = (0..16)
            .map(|index| {
                let access = network
                    .add_link(&headway_sim::LinkConfig { jitter: US(20).into(), ..wire(Duration::ZERO) });
                let mut config = TcpConfig {
                    start: Instant::ZERO + MS(20 * index),
                    mss: 8948,
                    ack: AckPolicy { every: 1, timeout: MS(40) },
                    ecn: Ecn::Dctcp,
                    burst: Burst::Single,
                    linux_rounding: false,
                    ..TcpConfig::new(controller(text), vec![access, bottleneck], vec![back])
                };
                change(&mut config);
                network.add_tcp(&config)
            })
            .collect();
        let mut crowd = Crowd { network, bottleneck, flows };
        crowd.network.run_until(Instant::ZERO + MS(2000));
        crowd.network.reset_statistics();
        crowd.network.run_until(Instant::ZERO + MS(8000));
        crowd
    }

    /// Mean queueing delay in us, utilisation, and Jain's index.
    fn seen(&self) -> (f64, f64, f64) {
        let link = self.network.link(self.bottleneck).statistics();
        let used = link.served_tcp.bytes.get() as f64 * 8.0 / 6.0 / 601_330_000.0;
        let shares: Vec<f64> =
            self.flows.iter().map(|flow| self.network.flow(*flow).delivered as f64).collect();
        let sum: f64 = shares.iter().sum();
        let squares: f64 = shares.iter().map(|share| share * share).sum();
        (link.delay.mean().us(), used, sum * sum / (16.0 * squares))
    }
}

/// Two segments per flow take 3.85 ms of queueing delay and RTT, whatever is marked; a
/// sixteenth of that is enough.
#[test]
fn the_queue_follows_the_target_where_dctcp_cannot() {
    let (standing, _, _) = Crowd::new("dctcp", |_| {}).seen();
    assert_near("DCTCP's queue", standing, 3600.0, 0.05);
    let (delay, utilisation, fairness) = Crowd::new("ls-dctcp", |_| {}).seen();
    assert!(delay < 1.25 * 250.0, "{delay} us");
    assert!(utilisation > 0.97, "{utilisation}");
    assert!(fairness > 0.95, "{fairness}");
}

/// ls-aimd F44: other proposals shorten the queue, too, but at different costs.
#[test]
fn other_ways_below_two_segments_have_a_short_queue() {
    for text in ["rfc3168", "sdc", "subtcp", "nice"] {
        let (delay, utilisation, _) = Crowd::new(text, |_| {}).seen();
        assert!(delay < 0.15 * 3600.0, "{text}: {delay} us");
        assert!(utilisation > 0.6, "{text}: {utilisation}");
    }
}

/// ls-aimd F10 and F48.
#[test]
fn at_most_two_segments_are_in_flight_and_none_is_lost() {
    let crowd = Crowd::new("ls-dctcp:c=1/128", |_| {});
    for flow in &crowd.flows {
        let flow = crowd.network.flow(*flow);
        assert!(flow.window < 2.0 && flow.cwnd == 2, "{flow:?}");
        assert_eq!((flow.retransmitted, flow.timeouts), (0, 0));
    }
}

/// ls-aimd F12: a receiver that waits for a second segment does not stall a slow sender.
#[test]
fn acknowledgements_of_two_segments_do_not_hold_the_clock_up() {
    let (_, utilisation, fairness) = Crowd::new("ls-dctcp", |flow| flow.ack.every = 2).seen();
    assert!(utilisation > 0.95, "{utilisation}");
    assert!(fairness > 0.95, "{fairness}");
}

/// ls-aimd 2.19: if every packet is marked, the window converges to sqrt(2 C add s), whatever C.
#[test]
fn windows_under_marks_alone_rest_at_their_floor() {
    for (text, floor) in [("ls-reno:c=1", 0.49), ("ls-reno:c=1/128", 0.006)] {
        let step = StepConfig { threshold: Bytes::ZERO.into(), limit: None, packets: None };
        let queue = QueueSpec::Step(step).build(Some(mbps(10_000.0)), 1);
        let mut pipe = Pipe::new(controller(text), &link(mbps(10_000.0), MS(1), queue), MS(1), |flow| {
            flow.mss = 8948;
            flow.ecn = Ecn::Dctcp;
        });
        // Packets are marked while the queue is not empty: a separate source keeps it occupied.
        pipe.network.add_source(&source(pipe.forward, crowding()));
        let flow = pipe.run(60.0);
        assert!((floor / 2.0..floor * 2.0).contains(&flow.window), "{text}: {flow:?}");
    }
}

/// Packets back to back at the rate of the link.
fn crowding() -> headway_traffic::Traffic {
    headway_traffic::Traffic::Cbr { rate: mbps(9_999.0), size: Bytes::new(9038) }
}

/// ls-aimd F64: a lost segment is detected by a probe or the next segment, not only by the RTO.
#[test]
fn random_losses_do_not_end_in_timeouts_only() {
    let mut config = link(mbps(50.0), MS(1), drop_tail(None));
    config.loss = 0.01;
    let mut pipe = Pipe::new(controller("ls-dctcp"), &config, MS(1), |flow| flow.ecn = Ecn::Dctcp);
    let flow = pipe.run(20.0);
    assert!(flow.delivered > 1000, "{flow:?}");
    assert!(flow.timeouts * 10 < flow.retransmitted, "{flow:?}");
}

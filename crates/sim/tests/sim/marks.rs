//! What TCP flows do about congestion marks, and how receivers echo them.

use crate::support::*;
use headway_control::Kind;
use headway_sim::config::{AckPolicy, Ecn};
use headway_sim::{Network, TcpConfig};
use headway_units::Duration;

const MS: fn(i64) -> Duration = Duration::from_ms;

#[test]
fn marks_within_a_round_trip_cost_one_reduction_and_are_echoed_until_then() {
    for ecn in [Ecn::Classic, Ecn::Dctcp] {
        // The flow uses a quarter of the link and never fills the queue, but other packets keep the queue
        // above the threshold for 28 ms.
        let mut pipe =
            Pipe::new(Kind::Reno, &link(mbps(100.0), MS(20), step(200 * SEGMENT)), MS(20), |flow| {
                flow.ecn = ecn;
                flow.application_rate = Some(mbps(25.0));
            });
        let others = TcpConfig {
            start: at(5.0),
            size: Some(segments(370)),
            ecn: Ecn::Dctcp,
            ..flow(window(370), pipe.forward, pipe.reverse)
        };
        pipe.network.add_tcp(&others);
        let before = pipe.run(4.9);
        let flow = pipe.run(5.4);
        println!("{flow:?}");
        assert_eq!((before.marked, before.reductions), (0, 0));
        assert!(flow.marked > 20, "{}", flow.marked);
        assert_eq!((flow.reductions, flow.recoveries, flow.timeouts), (1, 0, 0));
        match ecn {
            Ecn::Classic => assert!(flow.echoed > flow.marked, "{} of {}", flow.echoed, flow.marked),
            _ => assert_eq!(flow.echoed, flow.marked),
        }
        let later = pipe.run(10.0);
        assert_eq!((later.echoed, later.reductions), (flow.echoed, 1));
    }
}

#[test]
fn marks_that_never_end_cost_one_reduction_a_round_trip() {
    // Everything is marked: the queue is never empty, because no window can go below two segments.
    for ecn in [Ecn::Classic, Ecn::Dctcp] {
        let mut network = Network::new(1);
        let queue = step(0);
        let forward = network.add_link(&link(mbps(10.0), MS(20), queue));
        let reverse = network.add_link(&wire(MS(20)));
        let config = TcpConfig { ecn, ..flow(Kind::Reno, forward, reverse) };
        let ids: Vec<_> = (0..30).map(|_| network.add_tcp(&config)).collect();
        network.run_until(at(5.0));
        network.reset_statistics();
        network.run_until(at(25.0));
        for id in ids {
            let flow = network.flow(id);
            let rounds = 20.0 / flow.srtt.expect("measured").secs_f64();
            let per_round = flow.reductions as f64 / rounds;
            assert!((0.5..=1.05).contains(&per_round), "{ecn:?}: {per_round} a round trip");
        }
    }
}

#[test]
fn the_dctcp_echo_tells_exactly_which_segments_were_marked() {
    for every in [1, 2, 4, 8] {
        let mut network = Network::new(1);
        let forward = network.add_link(&link(mbps(200.0), MS(2), step(30 * SEGMENT)));
        let reverse = network.add_link(&wire(MS(2)));
        let config = TcpConfig {
            ecn: Ecn::Dctcp,
            ack: AckPolicy { every, timeout: MS(40) },
            size: Some(segments(40_000)),
            ..flow(Kind::Dctcp, forward, reverse)
        };
        let ids = [network.add_tcp(&config), network.add_tcp(&config)];
        network.run_until(at(60.0));
        let flows = ids.map(|id| network.flow(id));
        assert!(flows.iter().all(|flow| flow.finished.is_some() && flow.marked > 500), "{flows:?}");
        for flow in flows {
            assert_eq!(flow.echoed, flow.marked, "every {every}");
        }
        let marked: u64 = flows.iter().map(|flow| flow.marked).sum();
        assert_eq!(marked, network.link(forward).statistics().marked);
    }
}

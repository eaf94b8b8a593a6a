//! The rate of a link that nobody has told.

use headway_edge::{Connections, LinkRate, Load, Policy, Widening};
use headway_units::{Duration, Rate};

const LEAST: Duration = Duration::from_ms(30);

/// A link with a download and an upload: windows for what the two share make a queue where that is more than it carries.
struct Link {
    found: LinkRate,
    /// What it carries each way, in Mb/s.
    carries: [f64; 2],
    /// What the ends would send at most, in Mb/s.
    wants: [f64; 2],
}

impl Link {
    fn new(carries: [f64; 2], wants: [f64; 2]) -> Link {
        Link { found: LinkRate::default(), carries, wants }
    }

    /// Lets a second pass; returns the RTT in it, in ms.
    fn second(&mut self) -> f64 {
        // Without a limit, four times what the link has in flight.
        let window = |side: usize| {
            let limit = self.found.available(side).map_or(4.0 * self.carries[side], |rate| rate.mbps());
            limit.min(self.wants[side])
        };
        // Both directions have the same RTT, in which both queues are. A window is a rate at the least RTT.
        let excess = |side: usize| (window(side) / self.carries[side] - 1.0).max(0.0) * 30.0;
        let rtt = 30.0 + excess(0) + excess(1);
        let load = |side: usize| Load {
            side,
            rate: Rate::from_mbps((window(side) * 30.0 / rtt).min(self.carries[side])),
            step: Rate::from_mbps(0.4),
            rtts: Some([Duration::from_us((rtt * 1e3) as i64), LEAST]),
        };
        let loads = [0, 1].map(load);
        self.found.look(&loads, [Rate::ZERO; 2]);
        rtt
    }

    fn pass(&mut self, seconds: usize) {
        for _ in 0..seconds {
            self.second();
        }
    }

    /// Returns what flows share towards a side, in Mb/s.
    fn share(&self, side: usize) -> f64 {
        self.found.available(side).map_or(0.0, |rate| rate.mbps())
    }
}

#[test]
fn nothing_is_known_before_a_queue_stands() {
    let mut link = Link::new([50.0, 10.0], [20.0, 1.0]);
    (0..60).for_each(|_| assert_eq!(link.second(), 30.0));
    assert_eq!([link.found.available(0), link.found.available(1)], [None, None]);
    assert!(link.found.state(0).is_none() && link.found.capacity(0).is_none());
}

#[test]
fn what_passes_while_a_queue_stands_is_what_the_link_has() {
    let mut link = Link::new([50.0, 10.0], [1e3, 0.0]);
    assert_eq!(link.second(), 120.0);
    assert!((link.share(0) - 50.0).abs() < 0.1, "{}", link.share(0));
    // Then it tries a little more now and then.
    let rtts: Vec<f64> = (0..120).map(|_| link.second()).collect();
    let worst = rtts.iter().copied().fold(0.0, f64::max);
    assert!(worst < 42.0 && (50.0..68.0).contains(&link.share(0)), "{worst} {}", link.share(0));
    let state = link.found.state(0).unwrap();
    assert!(state.low_bps <= 50_000_001 && 50_000_000 <= state.high_bps, "{state:?}");
}

#[test]
fn a_rate_that_falls_is_found_in_a_second_and_one_that_rises_in_half_a_minute() {
    let mut link = Link::new([50.0, 10.0], [1e3, 0.0]);
    link.pass(30);
    link.carries[0] = 20.0;
    assert!(link.second() > 70.0 && link.second() < 42.0);
    link.pass(30);
    link.carries[0] = 50.0;
    let seconds = (1..60).find(|_| {
        link.second();
        link.share(0) >= 50.0
    });
    assert!(seconds.is_some_and(|seconds| seconds <= 30), "{seconds:?}");
}

#[test]
fn the_direction_with_the_queue_is_found_by_trying() {
    for (carries, wants) in
        [([50.0, 10.0], [1e3, 1e3]), ([50.0, 10.0], [1e3, 9.0]), ([50.0, 10.0], [30.0, 1e3])]
    {
        let mut link = Link::new(carries, wants);
        link.pass(60);
        let rtts: Vec<f64> = (0..60).map(|_| link.second()).collect();
        let long = rtts.iter().filter(|rtt| **rtt > 60.0).count();
        assert!(long <= 2, "{wants:?} {rtts:?}");
        // The other direction keeps what it wants, most of the time.
        for side in [0, 1] {
            let wanted = wants[side].min(carries[side]);
            let share = link.found.available(side).map_or(wanted, |rate| rate.mbps());
            assert!(share > 0.7 * wanted, "{wants:?} {side} {share}");
        }
    }
}

#[test]
fn a_deep_queue_lasts_for_two_seconds_whichever_direction_it_is_in() {
    for side in [0, 1] {
        let mut link = Link::new([50.0, 20.0], [1e3, 1e3]);
        link.pass(60);
        let before = link.share(1 - side);
        link.carries[side] *= 0.3;
        let rtts: Vec<f64> = (0..20).map(|_| link.second()).collect();
        assert!(rtts.iter().filter(|rtt| **rtt > 60.0).count() <= 3, "{side} {rtts:?}");
        assert!(rtts[6..].iter().all(|rtt| *rtt < 60.0), "{side} {rtts:?}");
        let (shares, other) = (link.share(side) / link.carries[side], link.share(1 - side) / before);
        assert!((0.6..1.4).contains(&shares) && other > 0.8, "{side} {shares} {other}");
    }
}

#[test]
fn a_capacity_that_makes_a_queue_far_below_it_is_tried_once() {
    // The upload is held, and a token bucket lets a pair of packets pass at the rate of its wire.
    let mut link = Link::new([50.0, 10.0], [1e3, 1e3]);
    link.pass(60);
    for round in 0..3 {
        link.found.raise(0, Rate::from_mbps(1_000.0));
        let rtts: Vec<f64> = (0..20).map(|_| link.second()).collect();
        let long = rtts.iter().filter(|rtt| **rtt > 60.0).count();
        assert!(long <= if round == 0 { 4 } else { 1 }, "{round} {rtts:?}");
        assert!(link.share(0) < 68.0, "{}", link.share(0));
    }
}

#[test]
fn where_uploads_are_smoothed_both_directions_are_found_in_fifteen_seconds() {
    let mut link = Link::new([20.0, 4.0], [1e3, 1e3]);
    link.found.set_smoothed(true);
    link.pass(30);
    link.carries = [50.0, 10.0];
    let rtts: Vec<f64> = (0..15).map(|_| link.second()).collect();
    assert!(link.share(0) >= 47.5 && link.share(1) >= 9.5, "{} {}", link.share(0), link.share(1));
    assert!(rtts.iter().all(|rtt| *rtt < 60.0), "{rtts:?}");
}

#[test]
fn what_has_passed_is_all_that_did_when_a_queue_stood_or_the_most_since() {
    let mut found = LinkRate::default();
    let load = |rate: f64, rtt| Load {
        side: 1,
        rate: Rate::from_mbps(rate),
        step: Rate::ZERO,
        rtts: Some([Duration::from_ms(rtt), LEAST]),
    };
    let others = [Rate::ZERO, Rate::from_mbps(1.0)];
    found.look(&[load(9.0, 30)], others);
    assert_eq!(found.carried(1), None);
    found.look(&[load(9.0, 60)], others);
    assert_eq!(found.carried(1), Some(Rate::from_mbps(10.0)));
    [8.0, 11.0, 7.0].into_iter().for_each(|rate| found.look(&[load(rate, 30)], others));
    assert_eq!((found.carried(1), found.carried(0)), (Some(Rate::from_mbps(12.0)), None));
    found.raise(1, Rate::from_mbps(100.0));
    assert_eq!(found.carried(1), Some(Rate::from_mbps(100.0)));
}

#[test]
fn a_flow_whose_own_server_is_slow_makes_no_queue() {
    let mut found = LinkRate::default();
    let load = |rate: f64, rtt| Load {
        side: 0,
        rate: Rate::from_mbps(rate),
        step: Rate::ZERO,
        rtts: Some([Duration::from_ms(rtt), LEAST]),
    };
    found.look(&[load(10.0, 300), load(15.0, 31), load(1.0, 30)], [Rate::ZERO; 2]);
    assert_eq!(found.available(0), None);
    found.look(&[load(10.0, 300), load(9.0, 31)], [Rate::ZERO; 2]);
    assert_eq!(found.available(0), Some(Rate::from_mbps(19.0)));
}

#[test]
fn windows_become_wider_while_packets_wait_in_bursts_only() {
    let mut widening = Widening::default();
    let shared = [Some(Rate::from_mbps(40.0)), None];
    // Flows have what their windows let them have at the usual RTT, 34 ms; the least one of each second is 30 or 31 ms.
    let load = |factor: f64, recent| Load {
        side: 0,
        rate: Rate::from_mbps((40.0 * factor * 30.0 / 34.0).min(47.0)),
        step: Rate::from_mbps(0.4),
        rtts: Some([Duration::from_ms(recent), LEAST]),
    };
    for second in 0..60 {
        widening.look(&[load(widening.factors()[0], 30 + second % 2)], shared);
    }
    let [down, up] = widening.factors();
    assert!((1.09..1.13).contains(&down) && up == 1.0, "{down} {up}");
    // A queue that is always there takes it back, and so does a rate that is found by the queue.
    (0..4).for_each(|_| widening.look(&[load(widening.factors()[0], 34)], shared));
    assert_eq!(widening.factors(), [1.0; 2]);
    // Flows that have what they want do not make windows wider.
    let idle = Load { rate: Rate::from_mbps(10.0), ..load(1.0, 30) };
    (0..60).for_each(|_| widening.look(&[idle], shared));
    assert_eq!(widening.factors(), [1.0; 2]);
}

#[test]
fn one_connection_never_has_more_than_all_of_them() {
    let key = |port| {
        let host = |last| std::net::IpAddr::from([10, 0, 0, last]);
        *headway_arithmetic::flow::Packet::between((host(1), port), (host(2), 80)).key()
    };
    let mut connections = Connections::new(&Policy::default(), [Rate::from_mbps(80.0); 2]);
    let mut begin = |port| {
        connections.begin(key(port), 0);
        connections.set_sharing(&key(port), true, [0.0; 2]);
        connections.set_factors([1.0; 2]);
        let plain = connections.shares()[0][0] as f64;
        connections.set_factors([1.2, 1.0]);
        connections.shares()[0][0] as f64 / plain
    };
    assert!(begin(1) == 1.0 && (begin(2) - 1.2).abs() < 1e-6);
}

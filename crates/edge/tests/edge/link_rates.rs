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
    /// Whether timestamps tell which direction has the queue.
    tells: bool,
}

impl Link {
    fn new(carries: [f64; 2], wants: [f64; 2]) -> Link {
        Link { found: LinkRate::default(), carries, wants, tells: false }
    }

    /// A link with connections whose timestamps tell which direction has the queue.
    fn that_tells(carries: [f64; 2]) -> Link {
        Link { tells: true, ..Link::new(carries, [1e3, 1e3]) }
    }

    /// Lets a second pass; returns the RTT in it, in ms.
    fn second(&mut self) -> f64 {
        // Without a limit, four times what the link has in flight.
        let window = |side: usize| {
            let limit = self.found.available(side).map_or(4.0 * self.carries[side], |rate| rate.mbps());
            limit.min(self.wants[side])
        };
        // Both directions have the same RTT. A window is a rate at the least one, and makes a queue if it is larger for its direction than
        // the other one is: with that, the other one does not fill its direction.
        let full = [0, 1].map(|side| window(side) / self.carries[side]);
        let excess = |side: usize| {
            let part =
                if full[0] == full[1] { 0.5 } else { f64::from(u8::from(full[side] > full[1 - side])) };
            part * (full[side] - 1.0).max(0.0) * 30.0
        };
        let us = |ms: f64| Duration::from_us((ms * 1e3) as i64);
        let rtt = 30.0 + excess(0) + excess(1);
        let load = |side: usize| Load {
            side,
            rate: Rate::from_mbps((window(side) * 30.0 / rtt).min(self.carries[side])),
            step: Rate::from_mbps(0.4),
            rtts: Some([us(rtt), LEAST]),
            queues: self.tells.then(|| [0, 1].map(|side| us(excess(side)))),
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
fn where_it_is_known_which_direction_has_the_queue_the_other_one_keeps_what_it_has() {
    for (carries, is_smoothed) in [([43.0, 43.0], false), ([43.0, 43.0], true), ([100.0, 5.0], true)] {
        let mut link = Link::that_tells(carries);
        link.found.set_smoothed(is_smoothed);
        link.pass(10);
        let found = [0, 1].map(|side| link.share(side));
        assert!((0..2).all(|side| found[side] > 0.8 * carries[side]), "{carries:?} {found:?}");
        for side in 0..2 {
            link.carries[side] /= 4.0;
            let rtts: Vec<f64> = (0..8).map(|_| link.second()).collect();
            assert!(rtts[3..].iter().all(|rtt| *rtt < 50.0), "{carries:?} {side} {rtts:?}");
            let shares = [0, 1].map(|side| link.share(side) / link.carries[side]);
            assert!(shares.iter().all(|part| (0.95..1.4).contains(part)), "{carries:?} {side} {shares:?}");
        }
    }
}

/// A download and an upload with these rates in Mb/s, RTT and queues of both directions in ms.
fn both(rates: [f64; 2], rtt: i64, queues: [i64; 2]) -> [Load; 2] {
    [0, 1].map(|side| Load {
        side,
        rate: Rate::from_mbps(rates[side]),
        step: Rate::ZERO,
        rtts: Some([Duration::from_ms(rtt), LEAST]),
        queues: Some(queues.map(Duration::from_ms)),
    })
}

#[test]
fn a_queue_of_the_other_direction_that_nothing_else_fills_is_that_of_acks() {
    let mut found = LinkRate::default();
    let acks = |rate| both([rate, 0.0], 90, [0, 60]);
    found.look(&acks(40.0)[..1], [Rate::ZERO; 2]);
    assert_eq!(found.available(0), Some(Rate::from_mbps(40.0)));
    found.look(&acks(40.0)[..1], [Rate::ZERO; 2]);
    found.look(&acks(20.0)[..1], [Rate::ZERO; 2]);
    assert_eq!([found.available(0), found.available(1)], [Some(Rate::from_mbps(20.0)), None]);
}

#[test]
fn a_queue_that_is_now_here_and_now_there_is_one() {
    let mut found = LinkRate::default();
    let look = |found: &mut LinkRate| {
        found.look(&both([40.0, 9.0], 45, [0, 0]), [Rate::ZERO; 2]);
        [found.available(0).is_some(), found.available(1).is_some()]
    };
    // In the first second it may only have moved.
    assert_eq!(look(&mut found), [false; 2]);
    assert_eq!(look(&mut found), [true, false]);
    // That did not help, so it is the other direction, too.
    look(&mut found);
    assert_eq!(look(&mut found), [true, true]);
}

#[test]
fn flows_may_have_little_more_than_they_have() {
    let mut found = LinkRate::default();
    found.set_smoothed(true);
    found.look(&both([40.0, 9.0], 60, [30, 0]), [Rate::ZERO; 2]);
    for _ in 0..30 {
        found.look(&both([40.0, 9.0], 30, [0, 0]), [Rate::ZERO; 2]);
    }
    let most = found.available(0).unwrap().mbps();
    assert!((48.0..52.1).contains(&most), "{most}");
}

#[test]
fn what_has_passed_is_all_that_did_when_a_queue_stood_or_the_most_since() {
    let mut found = LinkRate::default();
    let load = |rate: f64, rtt| Load {
        side: 1,
        rate: Rate::from_mbps(rate),
        step: Rate::ZERO,
        rtts: Some([Duration::from_ms(rtt), LEAST]),
        queues: None,
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
        queues: None,
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
        queues: None,
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

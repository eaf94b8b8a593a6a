//! The rate of a modelled link, found by what flows do in it.

use headway_edge::{LOOKS, LinkRate, Load};
use headway_units::{Bytes, Duration, Instant, PerSide, Rate, Side};

/// A link, and a flow that fills what it may have: what is in flight beyond rate x RTT waits.
struct Path {
    found: LinkRate,
    now: Instant,
    /// In Mb/s and ms.
    carries: f64,
    rtt: f64,
    /// The RTT that the flow has been seen to have without a queue.
    least: f64,
    period: u32,
    /// What a sender has in flight at most, in Mb/s x ms.
    most: f64,
}

impl Path {
    fn new(carries: f64, rtt: f64) -> Path {
        let (found, now) = (LinkRate::default(), Instant::ZERO);
        Path { found, now, carries, rtt, least: rtt, period: 0, most: 3.0 * carries * rtt }
    }

    /// Looks again and again for so many seconds; returns the mean rate in Mb/s and the mean queue in ms.
    fn pass(&mut self, seconds: f64, goal: Option<f64>) -> [f64; 2] {
        let looks = (seconds * 1e9 / LOOKS.ns() as f64) as u32;
        let mut sums = [0.0; 2];
        for _ in 0..looks {
            let tried = self.found.available(Side::Lan).map_or(f64::INFINITY, |rate| rate.bps_f64() / 1e6);
            let factor = self.found.factors()[Side::Lan];
            let window = goal.map_or(tried, |goal| goal * factor) * self.least;
            let flight = window.min(self.most);
            let rate = (flight / self.rtt).min(self.carries);
            let queue = (flight / rate - self.rtt).max(0.0);
            self.now += LOOKS;
            let ms = |ms: f64| Duration::from_us((1e3 * ms) as i64);
            if std::mem::replace(&mut self.period, self.found.period()) != self.period {
                self.least = self.rtt + queue;
            }
            self.least = self.least.min(self.rtt + queue);
            let load = Load {
                side: Side::Lan,
                rate: Rate::from_mbps(rate),
                segment: Bytes::new(1448),
                rtts: Some([self.rtt + queue, self.least].map(ms)),
                longer: Duration::ZERO,
                queues: None,
            };
            self.found.look(
                self.now,
                &[load],
                PerSide::default(),
                PerSide([goal.map(Rate::from_mbps), None]),
            );
            sums = [sums[0] + rate, sums[1] + queue];
        }
        sums.map(|sum| sum / f64::from(looks))
    }
}

#[test]
fn a_rate_is_found_and_leaves_a_short_queue() {
    for (carries, rtt) in [(2.0, 30.0), (20.0, 100.0), (100.0, 10.0), (500.0, 40.0)] {
        let mut path = Path::new(carries, rtt);
        path.pass(6.0, None);
        let [rate, queue] = path.pass(30.0, None);
        assert!(rate > 0.97 * carries && queue < 0.2 * rtt + 5.0, "{carries} {rtt}: {rate} {queue}");
    }
}

#[test]
fn a_link_that_becomes_slower_or_faster_is_followed() {
    let mut path = Path::new(100.0, 30.0);
    path.pass(20.0, None);
    path.carries = 20.0;
    path.pass(2.5, None);
    let [rate, queue] = path.pass(20.0, None);
    assert!(rate > 19.0 && queue < 12.0, "{rate} {queue}");
    path.carries = 100.0;
    path.most = 9000.0;
    path.pass(6.0, None);
    let [rate, _] = path.pass(10.0, None);
    assert!(rate > 90.0, "{rate}");
}

#[test]
fn a_path_that_becomes_longer_is_no_queue() {
    for goal in [None, Some(100.0)] {
        let mut path = Path::new(100.0, 30.0);
        path.pass(20.0, goal);
        path.rtt = 60.0;
        path.pass(3.0, goal);
        let [rate, queue] = path.pass(20.0, goal);
        assert!(rate > 90.0 && queue < 15.0, "{goal:?}: {rate} {queue}");
    }
}

#[test]
fn a_rate_that_is_told_is_reached_and_no_more_is_tried() {
    let mut path = Path::new(100.0, 30.0);
    let [rate, queue] = path.pass(30.0, Some(100.0));
    assert!(rate > 96.0 && queue < 4.0, "{rate} {queue}");
    // A link that has less than the rate given is found as if none were given.
    let mut path = Path::new(50.0, 30.0);
    path.pass(5.0, Some(100.0));
    let [rate, queue] = path.pass(30.0, Some(100.0));
    assert!(rate > 47.0 && queue < 10.0, "{rate} {queue}");
}

#[test]
fn a_silent_link_says_nothing() {
    let mut path = Path::new(50.0, 30.0);
    path.pass(20.0, None);
    let before = path.found.available(Side::Lan);
    for _ in 0..4 {
        path.now += LOOKS;
        path.found.look(path.now, &[], PerSide::default(), PerSide::default());
    }
    let (before, after) = (before.unwrap().bps_f64(), path.found.available(Side::Lan).unwrap().bps_f64());
    assert!((0.85..1.15).contains(&(after / before)), "{before} {after}");
}

/// Returns the rates of two flows in parts of what their directions of a path carry, and the RTT in parts of
/// that without a queue, in the last ten seconds of `seconds`. The RTT is such that neither direction
/// carries more than it can.
fn two_ways(carries: impl Into<PerSide<f64>>, rtt: f64, are_told: bool, seconds: f64) -> [f64; 3] {
    let carries = carries.into();
    let mut found = LinkRate::default();
    let looks = (seconds * 1e9 / LOOKS.ns() as f64) as u64;
    let (begin, mut sums) = (looks - (10.0 * 1e9 / LOOKS.ns() as f64) as u64, [0.0; 3]);
    for look in 0..looks {
        let tried = |side: Side| match are_told {
            true => carries[side] * found.factors()[side],
            false => found
                .available(side)
                .map_or(4.0 * carries[side], |rate| rate.bps_f64() / 1e6 * found.factors()[side]),
        };
        let windows = PerSide::of(|side| tried(side) * rtt);
        let longest = Side::BOTH.map(|side| windows[side] / carries[side]).into_iter().fold(rtt, f64::max);
        let load = |side: Side| {
            let queue = if windows[side] / carries[side] >= longest { longest - rtt } else { 0.0 };
            let ms = |ms: f64| Duration::from_us((1e3 * ms) as i64);
            Load {
                side,
                rate: Rate::from_mbps(windows[side] / longest),
                segment: Bytes::new(1448),
                rtts: Some([longest, rtt].map(ms)),
                longer: Duration::ZERO,
                queues: Some(
                    PerSide::of(|other| if other == side { queue } else { longest - rtt - queue }).map(ms),
                ),
            }
        };
        let goals = carries.map(|rate| are_told.then(|| Rate::from_mbps(rate)));
        let now = Instant::from_ns((look + 1) * LOOKS.ns() as u64);
        found.look(now, &Side::BOTH.map(load), PerSide::default(), goals);
        if look >= begin {
            sums[0] += windows[Side::Lan] / longest / carries[Side::Lan];
            sums[1] += windows[Side::Wan] / longest / carries[Side::Wan];
            sums[2] += longest / rtt;
        }
    }
    sums.map(|sum| sum / (looks - begin) as f64)
}

#[test]
fn both_directions_of_a_path_carry_what_they_can_with_a_short_queue() {
    for (carries, rtt) in [([50.0, 10.0], 30.0), ([100.0, 100.0], 10.0), ([200.0, 9.0], 60.0)] {
        for are_told in [true, false] {
            let [down, up, longer] = two_ways(carries, rtt, are_told, 30.0);
            let case = format!("{carries:?} Mb/s, {rtt} ms, told {are_told}: {down} {up} {longer}");
            // Where nobody tells the rates, a direction tries more as long as the RTT is not twice as long.
            let longest = if are_told { 1.5 } else { 2.3 };
            assert!(down > 0.9 && up > 0.9 && longer < longest, "{case}");
        }
    }
}

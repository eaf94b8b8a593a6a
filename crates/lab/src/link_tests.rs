use super::*;
use crate::packet::HostFrame;
use crate::queue::wire_size;
use crate::testing;
use headway_queue::{CodelConfig, Policer, QueueSpec, StepConfig};
use headway_traffic::Traffic;
use headway_traffic::channel::{LossBursts, Outages};
use headway_units::{Bytes, Rate};

const START: Instant = Instant::from_ns(1_000_000_000);
const MS10: Duration = Duration::from_ms(10);

/// A frame that carries no TCP.
const UDP: HostFrame = HostFrame { number: 0, is_tcp: false };

fn spec() -> LinkSpec {
    LinkSpec { buffer: Some(Bytes::new(250_000)), ..LinkSpec::new(Rate::from_mbps(100.0), MS10) }
}

fn cross(model: fn(Rate) -> Traffic, mbps: f64) -> Cross {
    testing::cross(model(Rate::from_mbps(mbps)))
}

fn delivered(at: Instant) -> Option<Fate> {
    Some(Fate::Arrives { at, marked: false })
}

/// Offers a packet of a host, and returns what becomes of it by then.
fn offer(link: &mut Link, at: Instant, ip: u64, ect: bool, frame: HostFrame) -> Option<Fate> {
    link.offer(Packet { ect, frame: Some(frame), ..Packet::new(at, wire_size(ip)) });
    link.take(at).map(|decided| decided.fate)
}

fn link(spec: &LinkSpec, cross: &[Cross]) -> Link {
    Link::new(Direction::Forward, spec, cross, (7, 1500), START, MS10)
}

#[test]
fn a_lone_packet_takes_serialisation_plus_delay() {
    let verdict = offer(&mut link(&spec(), &[]), START, 1500, false, UDP);
    assert_eq!(verdict, delivered(START + MS10 + Duration::from_ns(123_040)));
}

#[test]
fn the_log_knows_how_long_packets_waited() {
    let mut link = link(&spec(), &[]);
    // Two packets at once every millisecond: the second waits for the 123.04 us of the first.
    for k in 0..10 {
        offer(&mut link, START + Duration::from_ms(k), 1500, false, UDP);
        offer(&mut link, START + Duration::from_ms(k), 1500, false, UDP);
    }
    link.advance(START + MS10);
    let interval = link.take_finished().unwrap();
    assert_eq!(interval.queued, 20);
    assert_eq!(interval.queued_time, Duration::from_ns(1_230_400));
    assert_eq!(interval.max_queued_time, Duration::from_ns(123_040));
}

#[test]
fn loss_stays_within_three_sigma() {
    let mut link = link(&LinkSpec { loss: 0.01, ..spec() }, &[]);
    let n = 100_000;
    let lost = (0..n)
        .filter(|k| {
            offer(&mut link, START + Duration::from_us(200) * *k, 1500, false, UDP) == Some(Fate::Lost)
        })
        .count();
    let (mean, sigma) = (n as f64 * 0.01, (n as f64 * 0.01 * 0.99).sqrt());
    assert!((lost as f64 - mean).abs() < 3.0 * sigma, "{lost}");
}

#[test]
fn packets_wait_for_the_end_of_an_outage() {
    let outages = Some(Outages::Listed(vec![(MS10, Duration::from_ms(30))]));
    let mut link = link(&LinkSpec { outages, ..spec() }, &[]);
    let finish = |at, end| delivered(START + end + MS10 + Duration::from_ns(at));
    assert_eq!(offer(&mut link, START, 1500, false, UDP), finish(123_040, Duration::ZERO));
    assert_eq!(offer(&mut link, START + MS10, 1500, false, UDP), finish(123_040, Duration::from_ms(40)));
    assert_eq!(offer(&mut link, START + MS10 * 2, 1500, false, UDP), finish(246_080, Duration::from_ms(40)));
    link.advance(START + MS10 * 2);
    assert!(link.take_finished().unwrap().capacity > link.take_finished().unwrap().capacity);
}

#[test]
fn bursts_lose_the_share_of_bad_times_in_which_they_lose() {
    let bursts = LossBursts { good: MS10 * 9, bad: MS10, loss: 0.5 };
    let mut link = link(&LinkSpec { loss_bursts: Some(bursts), ..spec() }, &[]);
    let n = 500_000;
    let lost = (0..n)
        .filter(|k| {
            offer(&mut link, START + Duration::from_us(200) * *k, 1500, false, UDP) == Some(Fate::Lost)
        })
        .count();
    // 1000 bad times, whose lengths vary.
    assert!((lost as f64 / (n as f64 * 0.05) - 1.0).abs() < 0.15, "{lost}");
}

#[test]
fn what_cross_traffic_leaves_is_what_the_log_says() {
    for model in [Traffic::cbr, Traffic::poisson, Traffic::batches] {
        let mut link = link(&spec(), &[cross(model, 30.0), cross(model, 10.0)]);
        let end = START + Duration::from_ms(20_000);
        let mut at = START;
        let mut delivered = 0u64;
        // Hosts send 20 Mb/s of their own.
        while at < end {
            delivered +=
                u64::from(matches!(offer(&mut link, at, 1500, false, UDP), Some(Fate::Arrives { .. })));
            at += Duration::from_ns(615_200);
        }
        link.advance(end + Duration::from_ms(1000));
        let mut log = Vec::new();
        while let Some(interval) = link.take_finished() {
            log.push(interval);
        }
        let host: u64 = log.iter().map(|i| i.host_bits).sum();
        assert_eq!(host, delivered * 1538 * 8);
        let cross: u64 = log[..2000].iter().map(|i| i.cross_bits).sum();
        let mbps = cross as f64 / 20.0 / 1e6;
        assert!((mbps - 40.0).abs() < 3.0, "{model:?}: {mbps}");
        for interval in &log {
            assert!(interval.cross_bits + interval.host_bits <= 1_000_000 + 1, "{interval:?}");
        }
    }
}

#[test]
fn drops_are_blamed_on_the_one_who_filled_the_queue() {
    let mut link = link(&spec(), &[cross(Traffic::cbr, 90.0)]);
    // 49 Mb/s of host traffic on top of 90 overflows a link of 100.
    for k in 0..20_000 {
        offer(&mut link, START + Duration::from_ns(251_000) * k, 1500, false, UDP);
    }
    let mut sums = (0, 0, 0);
    while let Some(interval) = link.take_finished() {
        sums.0 += interval.cross_drops;
        sums.1 += interval.cross_drops_due_to_hosts;
        sums.2 += interval.host_drops;
    }
    assert!(sums.0 > 1000 && sums.2 > 500, "{sums:?}");
    assert_eq!(sums.0, sums.1);
    // Alone, 130 Mb/s overflows without any host.
    let mut link = super::tests::link(&spec(), &[cross(Traffic::cbr, 130.0)]);
    link.advance(START + Duration::from_ms(2000));
    let mut sums = (0, 0);
    while let Some(interval) = link.take_finished() {
        sums.0 += interval.cross_drops;
        sums.1 += interval.cross_drops_due_to_hosts;
    }
    assert!(sums.0 > 1000, "{sums:?}");
    assert_eq!(sums.1, 0);
}

#[test]
fn a_shorter_delay_does_not_reorder() {
    let mut link = link(&spec(), &[]);
    let Some(Fate::Arrives { at: first, .. }) = offer(&mut link, START, 1500, false, UDP) else {
        panic!("dropped")
    };
    link.set_link(START, &LinkSpec { delay: Duration::from_ms(1), ..spec() });
    let Some(Fate::Arrives { at: second, .. }) = offer(&mut link, START, 1500, false, UDP) else {
        panic!("dropped")
    };
    assert!(second >= first);
}

#[test]
fn traffic_can_be_replaced_under_way() {
    let mut link = link(&spec(), &[cross(Traffic::poisson, 80.0)]);
    let change = START + Duration::from_ms(1000);
    link.advance(change);
    link.set_cross(change, &[cross(Traffic::cbr, 10.0)]);
    link.advance(change + Duration::from_ms(1000));
    let mut log = Vec::new();
    while let Some(interval) = link.take_finished() {
        log.push(interval.cross_offered_bits as f64);
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64 * 100.0 / 1e6;
    assert!((mean(&log[..100]) - 80.0).abs() < 5.0);
    assert!((mean(&log[100..200]) - 10.0).abs() < 0.1);
}

#[test]
fn a_discipline_marks_what_may_be_marked() {
    let step =
        QueueSpec::Step(StepConfig { threshold: Bytes::new(3_000).into(), limit: None, packets: None });
    let mut link = link(&LinkSpec { queue: Some(step), ..spec() }, &[]);
    let mut offer = |ect| self::offer(&mut link, START, 1500, ect, UDP);
    let marks: Vec<bool> =
        (0..4).map(|_| matches!(offer(true), Some(Fate::Arrives { marked: true, .. }))).collect();
    assert_eq!(marks, [false, false, true, true]);
    assert_eq!(offer(false), Some(Fate::Dropped));
    link.advance(START + MS10);
    let interval = link.take_finished().unwrap();
    assert_eq!((interval.host_marks, interval.host_drops), (2, 1));
}

#[test]
fn packets_that_wait_for_their_turn_leave_in_order_and_are_all_counted() {
    let codel = QueueSpec::Codel(CodelConfig::default());
    let spec = LinkSpec { queue: Some(codel), buffer: Some(Bytes::new(10_000_000)), ..spec() };
    // 120 Mb/s on a link of 100: soon packets wait too long.
    let mut link = link(&spec, &[cross(Traffic::cbr, 60.0)]);
    let (mut waiting, mut deliveries, mut dropped, mut marked) = (0u64, Vec::new(), 0u64, 0u64);
    for k in 0..20_000 {
        let at = START + Duration::from_ns(205_067) * k;
        waiting += 1;
        let mut fate = offer(&mut link, at, 1500, k % 2 == 0, UDP);
        while let Some(decided) = fate {
            waiting -= 1;
            match decided {
                Fate::Arrives { at, marked: mark } => {
                    deliveries.push(at);
                    marked += u64::from(mark);
                }
                Fate::Dropped => dropped += 1,
                Fate::Lost => panic!("the wire loses nothing"),
            }
            fate = link.take(at).map(|decided| decided.fate);
        }
    }
    assert!(deliveries.is_sorted() && dropped > 20 && marked > 20, "{dropped} {marked}");
    link.advance(START + Duration::from_ms(60_000));
    assert_eq!(std::iter::from_fn(|| link.take(START)).count() as u64, waiting);
    let log: Vec<Interval> = std::iter::from_fn(|| link.take_finished()).collect();
    let sum = |value: fn(&Interval) -> u64| log.iter().map(value).sum::<u64>();
    assert_eq!(sum(|i| i.host_bits), (20_000 - sum(|i| i.host_drops)) * 1538 * 8);
    assert!(sum(|i| i.host_drops) >= dropped && sum(|i| i.host_marks) >= marked);
    for interval in &log {
        assert!(interval.cross_bits + interval.host_bits <= 1_000_000 + 1, "{interval:?}");
    }
}

#[test]
fn packets_and_log_follow_rates_that_change() {
    let rates = serde_json::from_str(r#"[["0 s", "100 Mb/s"], ["15 ms", "10 Mb/s"]]"#).unwrap();
    let spec = LinkSpec { rate: Rate::ZERO, rates: Some(rates), ..spec() };
    let mut link = link(&spec, &[]);
    // Half of the packet is left when the rate falls to a tenth.
    let begin = START + Duration::from_ms(15) - Duration::from_ns(61_520);
    assert_eq!(
        offer(&mut link, begin, 1500, false, UDP),
        delivered(begin + MS10 + Duration::from_ns(61_520 * 11))
    );
    link.advance(START + Duration::from_ms(40));
    let capacities: Vec<f64> = (0..3).map(|_| link.take_finished().unwrap().capacity.mbps()).collect();
    assert_eq!(capacities, [100.0, 55.0, 10.0]);
    // Set again, the times count from then.
    link.set_link(START + Duration::from_ms(40), &spec);
    let later = START + Duration::from_ms(50);
    assert_eq!(
        offer(&mut link, later, 1500, false, UDP),
        delivered(later + MS10 + Duration::from_ns(123_040))
    );
}

#[test]
fn the_delay_follows_its_trace() {
    let trace = serde_json::from_str(r#"[["0 s", "10 ms"], ["1 s", "30 ms"]]"#).unwrap();
    let mut link = link(&LinkSpec { delay_trace: Some(trace), ..spec() }, &[]);
    let sent = Duration::from_ns(123_040);
    assert_eq!(offer(&mut link, START, 1500, false, UDP), delivered(START + sent + MS10));
    let later = START + Duration::from_ms(1_000);
    assert_eq!(offer(&mut link, later, 1500, false, UDP), delivered(later + sent + MS10 * 3));
}

/// Returns the intervals of `link` that have ended.
fn finished(link: &mut Link) -> Vec<Interval> {
    std::iter::from_fn(|| link.take_finished()).collect()
}

#[test]
fn a_policer_lets_a_burst_pass_and_then_its_rate() {
    let policer = Policer { rate: Rate::from_mbps(12.304), burst: Bytes::new(10 * 1538) };
    let mut link = link(&LinkSpec { police: Some(policer), ..spec() }, &[]);
    let mut passed = |ms: u64| {
        let at = START + Duration::from_ms(ms as i64);
        (0..100).filter(|_| offer(&mut link, at, 1500, false, UDP) != Some(Fate::Dropped)).count()
    };
    // 12.304 Mb/s are a packet of 1538 bytes each millisecond; the bucket holds ten.
    assert_eq!([passed(0), passed(1), passed(8), passed(100)], [10, 1, 7, 10]);
    link.advance(START + Duration::from_ms(120));
    let log = finished(&mut link);
    assert_eq!(log.iter().map(|i| i.host_drops).sum::<u64>(), 400 - 28);
    // What can pass in the long run is the policer's rate.
    assert!(log.iter().all(|i| i.capacity == policer.rate), "{log:?}");
    // A bucket that stays the same keeps its tokens, and another one is full.
    let begin = START + Duration::from_ms(120);
    let left = |link: &mut Link| {
        (0..100).filter(|_| offer(link, begin, 1500, false, UDP) != Some(Fate::Dropped)).count()
    };
    assert_eq!(left(&mut link), 10);
    link.set_link(begin, &LinkSpec { loss: 0.1, police: Some(policer), ..spec() });
    assert_eq!(left(&mut link), 0);
    link.set_link(
        begin,
        &LinkSpec { police: Some(Policer { burst: Bytes::new(3 * 1538), ..policer }), ..spec() },
    );
    assert_eq!(left(&mut link), 3);
}

#[test]
fn cross_traffic_takes_tokens_of_the_policer_too() {
    let policer = Policer { rate: Rate::from_mbps(10.0), burst: Bytes::new(30_000) };
    let mut link = link(&LinkSpec { police: Some(policer), ..spec() }, &[cross(Traffic::cbr, 30.0)]);
    link.advance(START + Duration::from_ms(10_000));
    let log = finished(&mut link);
    let sent: u64 = log.iter().map(|i| i.cross_bits).sum();
    // 10 s at 10 Mb/s and the bucket, to a packet.
    let expected = 100_000_000 + 30_000 * 8;
    assert!(sent.abs_diff(expected) <= 2 * 1538 * 8, "{sent}");
    // Nobody else was there, so no drop is the hosts' fault.
    assert_eq!(log.iter().map(|i| i.cross_drops_due_to_hosts).sum::<u64>(), 0);
}

#[test]
fn tcp_of_the_hosts_is_counted_apart() {
    for queue in [None, Some(QueueSpec::Codel(CodelConfig::default()))] {
        let mut link = link(&LinkSpec { queue, ..spec() }, &[]);
        for k in 0..90 {
            let frame = HostFrame { number: k, is_tcp: k % 3 == 0 };
            offer(&mut link, START + Duration::from_us(200) * i64::from(k), 1500, false, frame);
        }
        link.advance(START + Duration::from_ms(100));
        let log = finished(&mut link);
        let sum = |bits: fn(&Interval) -> u64| log.iter().map(bits).sum::<u64>();
        assert_eq!(sum(|i| i.host_bits), 90 * 1538 * 8);
        assert_eq!(sum(|i| i.host_tcp_bits), 30 * 1538 * 8);
    }
}

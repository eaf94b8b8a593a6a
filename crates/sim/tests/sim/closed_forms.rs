//! The simulator compared with closed-form results.

use crate::support::*;
use headway_control::{FixedWindow, Kind};
use headway_queue::{ADAPTATION, DropTailConfig, QueueSpec, RampConfig, RedConfig};
use headway_sim::config::{Ecn, Service};
use headway_sim::{FlowId, FlowStatistics, LinkConfig, LinkId, Network, TcpConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant, Rate};

const MS: fn(i64) -> Duration = Duration::from_ms;

/// Mean waiting time, in units of the mean service time, in a queue at `load`. Packet sizes occur
/// with the given weights.
///
/// Poisson sources of one size each add up to one Poisson source with all sizes.
fn mean_wait(load: f64, sizes: &[(u64, f64)], packets: f64) -> f64 {
    let rate = 1e9;
    let weights: f64 = sizes.iter().map(|(_, weight)| weight).sum();
    let mean = sizes.iter().map(|(size, weight)| *size as f64 * weight).sum::<f64>() / weights;
    let mut network = Network::new(7);
    let link = network.add_link(&link(Rate::from_bps_f64(rate), Duration::ZERO, drop_tail(None)));
    for (size, weight) in sizes {
        let part = *size as f64 * weight / (mean * weights);
        let rate = Rate::from_bps_f64(rate * load * part);
        network.add_source(&source(link, Traffic::Poisson { rate, size: Bytes::new(*size) }));
    }
    let service = mean * 8.0 / rate;
    let seconds = packets * service / load;
    network.run_until(at(seconds * 0.05));
    network.reset_statistics();
    network.run_until(at(seconds));
    network.link(link).statistics().delay.mean().secs_f64() / service
}

#[test]
fn equal_packets_wait_as_in_m_d_1() {
    for (load, packets) in [(0.3, 1e6), (0.5, 1e6), (0.7, 2e6), (0.9, 6e6)] {
        let wait = mean_wait(load, &[(1_000, 1.0)], packets);
        assert_near(&format!("wait at load {load}"), wait, load / (2.0 * (1.0 - load)), 0.02);
    }
}

#[test]
fn exponential_packets_wait_as_in_m_m_1() {
    // Forty bins of an exponential distribution, each represented by its mean: the second moment
    // is accurate to 0.6 %.
    let width = 0.25_f64;
    let sizes: Vec<(u64, f64)> = (0..40)
        .map(|bin| {
            let low = width * f64::from(bin);
            let within = 1.0 - width / (width.exp() - 1.0);
            ((1_000.0 * (low + within)).round() as u64, (-low).exp() - (-low - width).exp())
        })
        .collect();
    for (load, packets) in [(0.3, 2e6), (0.5, 2e6), (0.7, 3e6), (0.9, 8e6)] {
        let wait = mean_wait(load, &sizes, packets);
        assert_near(&format!("wait at load {load}"), wait, load / (1.0 - load), 0.02);
    }
}

/// Runs until `to` and returns the flow's statistics from `from` on, in seconds.
fn steady(pipe: &mut Pipe, from: f64, to: f64) -> FlowStatistics {
    pipe.run(from);
    pipe.network.reset_statistics();
    pipe.run(to)
}

#[test]
fn reno_meets_the_square_root_law_with_random_losses() {
    // Ott, Kemperman and Mathis: 1.3098 / sqrt(p) segments per round trip. Windows grow by the bytes
    // acknowledged (RFC 3465), so delayed ACKs do not slow them down: b is 1 for all receivers.
    for (p, rtt, every) in
        [(1e-3, 20, 1), (1e-3, 100, 2), (3e-4, 20, 2), (3e-4, 100, 1), (1e-4, 20, 1), (1e-4, 100, 2)]
    {
        let mut config = wire(MS(rtt / 2));
        config.loss = p;
        let mut pipe = Pipe::new(Kind::Reno, &config, MS(rtt / 2), |flow| flow.ack.every = every);
        // About 1000 losses.
        let rounds = 1000.0 / p / (1.31 / p.sqrt());
        let seconds = rounds * rtt as f64 / 1e3;
        let flow = steady(&mut pipe, seconds * 0.05, seconds * 1.05);
        let window = flow.delivered as f64 / rounds;
        assert_near(&format!("Reno, p {p}, {rtt} ms, every {every}"), window * p.sqrt(), 1.3098, 0.1);
    }
}

/// A single flow that fills a link with a small buffer. Returns segments per round trip, and the share of
/// segments whose loss starts a recovery.
fn sawtooth(controller: Kind, rate: f64, rtt: i64, every: u32, seconds: f64) -> (f64, f64) {
    let queue = QueueSpec::DropTail(DropTailConfig { limit: None, packets: Some(16) }).build(None, 1);
    let config = LinkConfig::new(Service::Constant(mbps(rate)), MS(rtt / 2), queue);
    let mut pipe = Pipe::new(controller, &config, MS(rtt / 2), |flow| flow.ack.every = every);
    let flow = steady(&mut pipe, seconds * 0.2, seconds);
    println!("{flow:?}");
    let rounds = seconds * 0.8 / (rtt as f64 / 1e3);
    (flow.delivered as f64 / rounds, flow.recoveries as f64 / flow.sent as f64)
}

#[test]
fn reno_meets_the_square_root_law_with_periodic_losses() {
    for (rate, rtt, every, seconds) in [(50.0, 40, 1, 300.0), (100.0, 40, 2, 600.0), (20.0, 100, 1, 900.0)] {
        let (window, p) = sawtooth(Kind::Reno, rate, rtt, every, seconds);
        assert_near(&format!("{rate} Mb/s"), window * p.sqrt(), 1.5_f64.sqrt(), 0.1);
    }
}

#[test]
fn cubic_meets_its_response_function() {
    // RFC 9438 5.1 with beta 0.7: 1.054 (rtt / p)^(3/4).
    let (window, p) = sawtooth(Kind::Cubic, 200.0, 100, 1, 400.0);
    assert_near("CUBIC", window / (0.1 / p).powf(0.75), 1.054, 0.15);
}

/// DCTCP flows on a link of 200 Mb/s with a step at `threshold` segments and 10 ms of delay.
fn dctcp(flows: u32, threshold: u64) -> (Network, LinkId, Vec<FlowId>) {
    let mut network = Network::new(1);
    let forward = network.add_link(&link(mbps(200.0), MS(5), step(threshold * SEGMENT)));
    let reverse = network.add_link(&wire(MS(5)));
    let ids = (0..flows)
        .map(|i| {
            let start = us(i64::from(i) * 1_700);
            let config = TcpConfig { ecn: Ecn::Dctcp, start, ..flow(Kind::Dctcp, forward, reverse) };
            network.add_tcp(&config)
        })
        .collect();
    (network, forward, ids)
}

#[test]
fn one_dctcp_flow_swings_as_its_analysis_says() {
    // Alizadeh et al. 2010, section 3.3, for one flow.
    for threshold in [30, 60, 120] {
        let (mut network, link, ids) = dctcp(1, threshold);
        network.run_until(at(5.0));
        network.reset_statistics();
        let (mut most, mut mean, mut square, mut cwnd) = (0, 0.0, 0.0, 0.0);
        let samples = 400_000;
        for sample in 1..=samples {
            network.run_until(at(5.0 + f64::from(sample) * 100e-6));
            let queue = network.link(link).queued().packets;
            most = most.max(queue);
            let part = queue as f64 / f64::from(samples);
            (mean, square) = (mean + part, square + part * queue as f64);
            cwnd += f64::from(network.flow(ids[0]).cwnd) / f64::from(samples);
        }
        let path = 200e6 * 0.010 / (8.0 * SEGMENT as f64) + 1.0;
        let full = path + threshold as f64;
        // In that analysis alpha is sqrt(2 / W) and the swing alpha W / 2. With PRR, however, the queue
        // stays above the threshold for a while: it shrinks by alpha / 2 segments per segment sent, so
        // while it is up to 1.5 segments too long, 3 / alpha segments sent after the reduction are marked.
        // They cause a second reduction, so the swing is alpha W, and a cycle of alpha W^2 segments has
        // W + 3 / alpha marks.
        let alpha = (0..50).fold(0.1, |alpha: f64, _| ((1.0 + 3.0 / (alpha * full)) / full).sqrt());
        let swing = full * alpha;
        let flow = network.flow(ids[0]);
        let statistics = network.link(link).statistics();
        let marked = statistics.marked as f64 / statistics.arrived.packets as f64;
        // A sawtooth spends equal time at all values between its ends; its variance is a twelfth
        // of its height squared.
        let height = (12.0 * (square - mean * mean)).sqrt();
        println!(
            "K {threshold}: at most {most}, height {height:.1} of {swing:.1}, mean window {cwnd:.1}, {flow:?}"
        );
        assert_near("marked, against the analysis", marked, (2.0 / full).sqrt(), 0.25);
        assert_near("marked", marked, alpha, 0.1);
        // The teeth are slightly rounded: a decrease takes a round trip, and the window is
        // truncated to whole segments.
        assert_near("swing of the queue", height, swing, 0.12);
        assert!(most <= threshold + 2, "{most}");
        let rtt = 0.010 + (full - path) * 8.0 * SEGMENT as f64 / 200e6;
        assert_near("reductions", flow.reductions as f64, 2.0 * 40.0 / (swing * rtt), 0.1);
    }
}

#[test]
fn equal_dctcp_flows_share_fairly() {
    for flows in [8, 12, 16] {
        let (mut network, link, ids) = dctcp(flows, 60);
        network.run_until(at(5.0));
        network.reset_statistics();
        let (mut most, mut least) = (0, u64::MAX);
        for sample in 1..=30_000 {
            network.run_until(at(5.0 + f64::from(sample) * 1e-3));
            let queue = network.link(link).queued().packets;
            (most, least) = (most.max(queue), least.min(queue));
        }
        let (sum, jain) = shares(&network, &ids);
        let use_of_link = sum * 8.0 / 30.0 / (200e6 * 1448.0 / 1538.0);
        let wait = network.link(link).statistics().delay.mean();
        println!(
            "{flows} flows: Jain {jain:.5}, {use_of_link:.4} of the link, queue {least}..{most}, mean wait {wait}"
        );
        // Alizadeh et al.: at most the threshold plus one segment per flow, and each flow adds one more while
        // it reduces. The queue never runs empty.
        assert!(least > 0 && most <= 60 + 3 * u64::from(flows), "{least}..{most}");
        assert!(jain >= 0.99 && use_of_link > 0.995, "{jain}, {use_of_link}");
    }
}

/// Total goodput of the flows in bytes, and Jain's index of their shares.
fn shares(network: &Network, ids: &[FlowId]) -> (f64, f64) {
    let goodputs = ids.iter().map(|id| network.flow(*id).goodput.get() as f64);
    let (sum, squares) =
        goodputs.fold((0.0, 0.0), |(sum, squares), goodput| (sum + goodput, squares + goodput * goodput));
    (sum, sum * sum / (ids.len() as f64 * squares))
}

/// Adjacent bursts of a flow are marked together or not at all, so shares drift. They converge nevertheless
/// if every flow's window leaves in one piece, as from a host. An event that makes a host send before a burst
/// is complete would scatter the pieces.
#[test]
fn four_dctcp_flows_that_leave_in_bursts_come_to_share_fairly() {
    let mut network = Network::new(1);
    let forward = network.add_link(&link(mbps(1_000.0), MS(5), step(116 * SEGMENT)));
    let reverse = network.add_link(&wire(MS(5)));
    let config = |i: i64| TcpConfig {
        ecn: Ecn::Dctcp,
        start: us(i * 300),
        ..TcpConfig::new(Kind::Dctcp, vec![forward], vec![reverse])
    };
    let ids: Vec<FlowId> = (0..4).map(|i| network.add_tcp(&config(i))).collect();
    // The first marks leave the flows with windows from 20 to 260 segments.
    network.run_until(at(10.0));
    network.reset_statistics();
    network.run_until(at(30.0));
    let (sum, jain) = shares(&network, &ids);
    println!("Jain {jain:.4}");
    assert!(jain > 0.95, "{jain}");
    assert_near("goodput", sum * 8.0 / 20.0, 1e9 * 1448.0 / 1538.0, 0.005);
}

#[test]
fn dctcp_windows_are_inverse_to_the_mark_probability() {
    // A mark starts a reduction of the window W by alpha / 2 = p / 2, during which the window does not grow.
    // After it the window grows by one per W segments until the next mark: by 1 / (exp(p W) - 1) on average,
    // since incomplete rounds do not count. In equilibrium x = p W solves x (exp(x) - 1) = 2. A large fixed
    // window keeps the queue, and with it the probability, nearly constant.
    for (fixed, slope) in [(800, 60_000), (800, 30_000), (400, 30_000)] {
        let mut network = Network::new(1);
        let ramp = RampConfig {
            min: Bytes::ZERO,
            max: Bytes::new(slope * SEGMENT),
            probability: 1.0,
            limit: None,
            packets: None,
        };
        let forward = network.add_link(&link(mbps(1_000.0), MS(1), QueueSpec::Ramp(ramp).build(None, 3)));
        let reverse = network.add_link(&wire(MS(1)));
        let holder = Kind::FixedWindow(FixedWindow::new(fixed));
        network.add_tcp(&TcpConfig { ecn: Ecn::Dctcp, ..flow(holder, forward, reverse) });
        let config = TcpConfig { ecn: Ecn::Dctcp, ..flow(Kind::Dctcp, forward, reverse) };
        let ids: Vec<_> = (0..8).map(|_| network.add_tcp(&config)).collect();
        network.run_until(at(5.0));
        network.reset_statistics();
        let (samples, mut window) = (2_000, 0.0);
        for sample in 1..=samples {
            network.run_until(at(5.0 + f64::from(sample) * 0.01));
            window += ids.iter().map(|id| f64::from(network.flow(*id).cwnd)).sum::<f64>();
        }
        window /= f64::from(samples) * ids.len() as f64;
        let statistics = network.link(forward).statistics();
        let p = statistics.marked as f64 / statistics.arrived.packets as f64;
        assert_near(&format!("window times p at p {p:.5}"), window * p, 1.0602, 0.1);
    }
}

/// The share of packets marked in a queue of constant length, and the bytes that arriving packets find there.
fn marks(window: u32, queue: &QueueSpec) -> (f64, f64) {
    let rate = Rate::from_bps(SEGMENT * 8 * 10_000);
    let mut pipe = Pipe::new(
        Kind::FixedWindow(FixedWindow::new(window)),
        &link(rate, MS(5), queue.build(Some(rate), 5)),
        MS(5),
        |flow| flow.ecn = Ecn::Dctcp,
    );
    pipe.run(1.0);
    pipe.network.reset_statistics();
    pipe.run(61.00005);
    // The backlog between two arrivals includes the packet that arrived last.
    let found = pipe.network.link(pipe.forward).queued().bytes.get() - SEGMENT;
    let statistics = pipe.network.link(pipe.forward).statistics();
    (statistics.marked as f64 / statistics.arrived.packets as f64, found as f64)
}

#[test]
fn red_marks_along_its_ramp() {
    let config = RedConfig {
        min: Bytes::new(20 * SEGMENT),
        max: Bytes::new(100 * SEGMENT),
        probability: 0.2,
        adaptive: false,
        adaptation: ADAPTATION,
        ecn: true,
        burst: None,
        packet: Bytes::new(SEGMENT),
        limit: None,
        packets: None,
    };
    for window in [130, 150, 170, 190] {
        let (fraction, found) = marks(window, &QueueSpec::Red(config.clone()));
        let along = (found / SEGMENT as f64 - 20.0) / 80.0;
        // Gaps between marks are uniform from one packet to 1/p, so their mean is (1 + 1/p) / 2.
        let p = 0.2 * along;
        assert_near(&format!("{along:.3} along the ramp"), fraction, 2.0 * p / (1.0 + p), 0.01);
    }
    assert_eq!(marks(115, &QueueSpec::Red(config.clone())).0, 0.0);
    assert_eq!(marks(210, &QueueSpec::Red(config)).0, 1.0);
}

#[test]
fn the_instantaneous_ramp_marks_along_it() {
    let config = RampConfig {
        min: Bytes::new(20 * SEGMENT),
        max: Bytes::new(40 * SEGMENT),
        probability: 1.0,
        limit: None,
        packets: None,
    };
    for window in [125, 130, 135] {
        let (fraction, found) = marks(window, &QueueSpec::Ramp(config.clone()));
        assert_near("ramp", fraction, (found / SEGMENT as f64 - 20.0) / 20.0, 0.01);
    }
    assert_eq!(marks(115, &QueueSpec::Ramp(config.clone())).0, 0.0);
    assert_eq!(marks(150, &QueueSpec::Ramp(config)).0, 1.0);
}

/// Arrival times (ns) of probes over a link, given their send times (ns) and sizes.
fn arrivals(config: &LinkConfig, probes: impl IntoIterator<Item = (u64, u64)>) -> Vec<u64> {
    let mut network = Network::new(3);
    let link = network.add_link(config);
    let prober = network.add_prober(&[link], None);
    for (time, size) in probes {
        network.send_probe(prober, Instant::from_ns(time), Bytes::new(size));
    }
    while let Some(next) = network.next_event() {
        network.run_until(next);
    }
    network.take_probe_log(prober).iter().map(|log| log.arrived.map_or(u64::MAX, Instant::ns)).collect()
}

#[test]
fn a_link_keeps_its_rate_to_the_nanosecond() {
    for rate in [9_999_991, 1_000_000_007, 9_876_543_211] {
        let config = link(Rate::from_bps(rate), Duration::from_ns(5_000_003), drop_tail(None));
        let sizes = [1538, 90, 9038, 640];
        let times = arrivals(&config, (0..50_000).map(|i| (0, sizes[i % 4])));
        let mut bits = 0;
        for (i, time) in times.iter().enumerate() {
            bits += u128::from(sizes[i % 4]) * 8;
            assert_eq!(u128::from(*time) - 5_000_003, bits * 1_000_000_000 / u128::from(rate));
        }
    }
}

#[test]
fn a_saturated_link_serves_its_capacity_to_the_packet() {
    let rate = Rate::from_bps(123_456_789);
    let mut network = Network::new(1);
    let link = network.add_link(&link(rate, MS(1), drop_tail(Some(100_000))));
    network.add_source(&source(link, Traffic::Cbr { rate: rate.scale(1.3), size: Bytes::new(1_000) }));
    network.run_until(at(1.0));
    network.reset_statistics();
    network.run_until(at(61.0));
    let capacity = network.link(link).capacity(at(1.0), at(61.0)).expect("limited").get();
    let served = network.link(link).statistics().served_other.bytes.get();
    assert!(served.abs_diff(capacity) <= 1_000, "{served} of {capacity}");
}

#[test]
fn a_token_bucket_passes_its_burst_and_then_its_rate() {
    let service = Service::TokenBucket { rate: mbps(8.0), burst: Bytes::new(10_000), peak: None };
    let config = LinkConfig::new(service, MS(2), drop_tail(None));
    // Forty packets at once, and twenty more when the bucket is full again.
    let times =
        arrivals(&config, (0..60).map(|i| (if i < 40 { 1_000_000_000 } else { 3_000_000_000 }, 1_000)));
    for (i, time) in times.iter().enumerate() {
        let (start, i) = if i < 40 { (1_000_000_000, i) } else { (3_000_000_000, i - 40) };
        let expected = start + 2_000_000 + (i as u64 + 1).saturating_sub(10) * 1_000_000;
        assert_eq!(*time, expected, "packet {i}");
    }
}

#[test]
fn a_token_bucket_with_a_peak_rate_spreads_its_burst() {
    let peak = Some((mbps(40.0), Bytes::new(1_000)));
    let service = Service::TokenBucket { rate: mbps(8.0), burst: Bytes::new(10_000), peak };
    let config = LinkConfig::new(service, MS(2), drop_tail(None));
    let times = arrivals(&config, (0..40).map(|_| (1_000_000_000, 1_000)));
    for (i, time) in times.iter().enumerate() {
        // 0.2 ms per packet at the peak rate, as long as the bucket of ten packets, filled by one every
        // millisecond, lasts.
        let wait = (i as u64 * 200_000).max((i as u64 + 1).saturating_sub(10) * 1_000_000);
        assert_eq!(*time, 1_002_000_000 + wait, "packet {i}");
    }
}

#[test]
fn a_shaper_whose_queue_holds_one_packet_polices() {
    let service = Service::TokenBucket { rate: mbps(10.0), burst: Bytes::new(30_000), peak: None };
    let mut network = Network::new(1);
    let link = network.add_link(&LinkConfig::new(service, MS(1), drop_tail(Some(1_500))));
    network.add_source(&source(link, Traffic::Cbr { rate: mbps(30.0), size: Bytes::new(1_500) }));
    network.run_until(at(40.0));
    let statistics = network.link(link).statistics();
    let allowed = 10_000_000 * 40 / 8 + 30_000;
    let served = statistics.served_other.bytes.get();
    assert!(served.abs_diff(allowed) <= 1_500, "{served} of {allowed}");
    let lost = statistics.arrived.bytes.get() - served;
    assert!(statistics.dropped.bytes.get().abs_diff(lost) <= 1_500, "{lost}");
    // No packet waits longer than it takes to fill the bucket for one.
    let longest = statistics.delay.max();
    assert!(longest <= Duration::from_us(1_210), "{longest}");
}

#[test]
fn a_policer_admits_burst_and_rate() {
    let mut config = wire(MS(1));
    config.policer = Some((mbps(10.0), Bytes::new(30_000)));
    let mut network = Network::new(1);
    let link = network.add_link(&config);
    let traffic = Traffic::Batches { rate: mbps(30.0), size: Bytes::new(500), batch: 5.0 };
    network.add_source(&source(link, traffic));
    network.run_until(at(40.0));
    let statistics = network.link(link).statistics();
    let admitted = statistics.served_other.bytes.get();
    let allowed = 10_000_000 * 40 / 8 + 30_000;
    assert!(admitted <= allowed && admitted > allowed - 30_000, "{admitted} of {allowed}");
    assert_eq!(statistics.policed.bytes.get() + admitted, statistics.arrived.bytes.get());
}

#[test]
fn jitter_is_even_between_its_bounds() {
    let mut config = wire(MS(10));
    config.jitter = MS(2).into();
    for reordering in [false, true] {
        config.reordering = reordering;
        let count = 100_000;
        let times = arrivals(&config, (0..count).map(|i| (i * 3_000_000, 100)));
        let mut delays: Vec<f64> =
            times.iter().enumerate().map(|(i, time)| (*time as f64 - i as f64 * 3e6 - 10e6) / 2e6).collect();
        delays.sort_by(f64::total_cmp);
        let off = delays
            .iter()
            .enumerate()
            .map(|(i, delay)| (delay - i as f64 / count as f64).abs())
            .fold(0.0, f64::max);
        // Kolmogorov-Smirnov test at 1 %.
        println!("largest deviation {off:.5}");
        assert!(off < 1.63 / (count as f64).sqrt(), "{off}");
    }
}

#[test]
fn packets_overtake_only_where_they_may() {
    let mut config = wire(MS(10));
    config.jitter = MS(2).into();
    let gap = 500_000;
    let overtaken = |config: &LinkConfig| {
        let times = arrivals(config, (0..200_000).map(|i| (i * gap, 100)));
        assert!(
            times
                .iter()
                .enumerate()
                .all(|(i, time)| { (10_000_000..=12_000_000).contains(&(time - i as u64 * gap)) })
        );
        times.windows(2).filter(|pair| pair[1] < pair[0]).count() as f64 / 199_999.0
    };
    assert_eq!(overtaken(&config), 0.0);
    config.reordering = true;
    // Probability that of two uniform delays the first is longer by more than a quarter of
    // the range: (3/4)^2 / 2.
    assert_near("overtaken", overtaken(&config), 9.0 / 32.0, 0.01);
}

#[test]
fn losses_are_independent_and_as_frequent_as_told() {
    for (loss, jitter) in [(0.01, 0), (0.2, 0), (0.2, 1)] {
        let mut config = wire(MS(10));
        (config.loss, config.jitter) = (loss, MS(jitter).into());
        let lost: Vec<bool> = arrivals(&config, (0..500_000).map(|i| (i * 1_000, 100)))
            .iter()
            .map(|time| *time == u64::MAX)
            .collect();
        let rate = lost.iter().filter(|lost| **lost).count() as f64 / 5e5;
        let pairs = lost.windows(2).filter(|pair| pair[0] && pair[1]).count() as f64 / 5e5;
        assert_near("lost", rate, loss, 0.04);
        assert_near("lost twice", pairs, loss * loss, 0.3);
    }
}

#[test]
fn a_trace_serves_one_packet_an_opportunity() {
    let opportunities = vec![MS(1), MS(4), MS(4), MS(5), MS(9), MS(10)];
    let service = Service::Trace { opportunities, period: MS(10) };
    let mut network = Network::new(1);
    let link = network.add_link(&LinkConfig::new(service, MS(3), drop_tail(Some(200_000))));
    let traffic = Traffic::Poisson { rate: mbps(20.0), size: Bytes::new(SEGMENT) };
    network.add_source(&source(link, traffic));
    network.run_until(at(0.9995));
    network.reset_statistics();
    for (end, packets) in [(1.0, 1), (1.0015, 2), (1.0045, 4), (1.01, 7), (10.9995, 6_000)] {
        network.run_until(at(end));
        let link = network.link(link);
        assert_eq!(link.statistics().served_other.packets, packets, "until {end} s");
        // Count the opportunities before an instant; the one at the instant itself has already been used.
        let end = at(end) + Duration::from_ns(1);
        assert_eq!(link.capacity(at(0.9995), end), Some(Bytes::new(packets * SEGMENT)));
    }
}

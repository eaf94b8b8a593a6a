//! Taps: what they see, and that they change nothing.

use crate::support::*;
use headway_control::Kind;
use headway_estimate::sabes::{PairCapacity, PairRefusal, Settings, Transfer, Way};
use headway_host::nic::Coalescing;
use headway_sim::LinkConfig;
use headway_sim::config::{Burst, Service};
use headway_sim::tap::Conversion;
use headway_sim::{FlowStatistics, Network, TapEvent, TapPlace, TapRecord, TcpConfig};
use headway_traffic::Traffic;
use headway_units::{Bytes, Duration, Instant};

/// A flow that begins after its handshake, over 50 Mb/s and an RTT of 20 ms.
fn tapped(taps: &[TapPlace], coalescing: Option<Coalescing>) -> (Network, TcpConfig, FlowStatistics) {
    let mut network = Network::new(1);
    let forward = network.add_link(&link(mbps(50.0), Duration::from_ms(10), drop_tail(Some(60_000))));
    let reverse = network.add_link(&wire(Duration::from_ms(10)));
    network.add_source(&source(forward, Traffic::Poisson { rate: mbps(10.0), size: Bytes::new(1000) }));
    let mut config = TcpConfig::new(Kind::Reno, vec![forward], vec![reverse]);
    config.start = at(0.1);
    config.size = Some(Bytes::new(5_000_000));
    config.ack_nic = coalescing.map(|coalescing| network.add_nic(coalescing));
    config.taps = taps.iter().map(|place| (network.add_tap(), *place)).collect();
    let flow = network.add_tcp(&config);
    network.run_until(at(3.0));
    let statistics = network.flow(flow);
    (network, config, statistics)
}

fn records(network: &mut Network, config: &TcpConfig, tap: usize) -> Vec<TapRecord> {
    let mut records = Vec::new();
    network.take_tap_records(config.taps[tap].0, &mut records);
    records
}

#[test]
fn a_tap_changes_nothing_but_the_number_of_events() {
    let bare = tapped(&[], None).2;
    assert!(bare.finished.is_some() && bare.retransmitted > 0, "{bare:?}");
    let middle = TapPlace::Node { forward: 1, reverse: 0 };
    assert_eq!(tapped(&[TapPlace::Sender, TapPlace::SenderNic, middle], None).2, bare);
}

#[test]
fn taps_at_both_ends_see_the_same_packets_a_delay_apart() {
    let places = [TapPlace::Sender, TapPlace::Receiver];
    let (mut network, config, flow) = tapped(&places, None);
    let (near, far) = (records(&mut network, &config, 0), records(&mut network, &config, 1));
    let acks = |records: &[TapRecord]| -> Vec<TapRecord> {
        records.iter().filter(|record| matches!(record.event, TapEvent::Ack { .. })).copied().collect()
    };
    let (arrived, left) = (acks(&near), acks(&far));
    assert!(left.len() > 1000 && left.len() == arrived.len());
    for (arrived, left) in arrived.iter().zip(&left) {
        assert_eq!((arrived.event, arrived.at), (left.event, left.at + Duration::from_ms(10)));
    }
    let segments = |records: &[TapRecord]| {
        records.iter().filter(|record| matches!(record.event, TapEvent::Segment { .. })).count() as u64
    };
    assert_eq!((segments(&near), segments(&far)), (flow.sent, flow.received));
    assert!(near.is_sorted_by_key(|record| record.at) && far.is_sorted_by_key(|record| record.at));
    let handshake: Vec<TapEvent> = far[..3].iter().map(|record| record.event).collect();
    assert_eq!(handshake, [TapEvent::Syn, TapEvent::SynAck, TapEvent::HandshakeAck]);
}

#[test]
fn a_nic_holds_acks_and_a_tap_in_it_does_not() {
    let coalescing = Coalescing::Fixed { interval: Duration::from_ms(1), jitter: 0.0, frames: None };
    let (mut network, config, _) = tapped(&[TapPlace::SenderNic, TapPlace::Sender], Some(coalescing));
    let gaps = |records: &[TapRecord]| {
        let acks: Vec<Instant> = records
            .iter()
            .filter(|record| matches!(record.event, TapEvent::Ack { .. }))
            .map(|record| record.at)
            .collect();
        let short = acks.windows(2).filter(|pair| pair[1] - pair[0] < Duration::from_us(2)).count();
        (acks.len(), short as f64 / acks.len() as f64)
    };
    let (hard, soft) = (records(&mut network, &config, 0), records(&mut network, &config, 1));
    let ((arrived, tight), (passed_up, batched)) = (gaps(&hard), gaps(&soft));
    assert_eq!(arrived, passed_up);
    // Two segments of 50 Mb/s take half a millisecond, so that about every second ACK waits for another.
    assert!(tight < 0.02 && batched > 0.3, "{tight} {batched}");
}

#[test]
fn records_become_segments_that_wrap() {
    let (mut network, config, _) = tapped(&[TapPlace::Sender], None);
    let records = records(&mut network, &config, 0);
    let conversion = Conversion::new(&config, u32::MAX - 100_000);
    let mut transfer = Transfer::new(&Settings::default());
    let mut sent = 0;
    for record in &records {
        let segment = conversion.segment(record);
        let is_new = matches!(record.event, TapEvent::Segment { retransmitted: false, .. });
        sent += if is_new && segment.way == Way::Data { u64::from(segment.payload) } else { 0 };
        transfer.observe(&segment);
    }
    assert_eq!(sent, 5_000_000);
    assert_eq!(transfer.acknowledged(), Bytes::new(5_000_000));
}

#[test]
fn bursts_pass_a_tap_like_single_segments() {
    for burst in [Burst::Host, Burst::Single] {
        let run = |taps: &[TapPlace]| {
            let config = link(mbps(50.0), Duration::from_ms(10), drop_tail(Some(60_000)));
            let mut pipe = Pipe::new(Kind::Cubic, &config, Duration::from_ms(10), |flow| flow.burst = burst);
            let (forward, reverse) = (pipe.forward, pipe.reverse);
            let mut other = TcpConfig { burst, ..TcpConfig::new(Kind::Cubic, vec![forward], vec![reverse]) };
            other.taps = taps.iter().map(|place| (pipe.network.add_tap(), *place)).collect();
            let other = pipe.network.add_tcp(&other);
            pipe.run(5.0);
            (pipe.network.flow(pipe.flow), pipe.network.flow(other))
        };
        assert_eq!(run(&[]), run(&[TapPlace::Sender]));
    }
}

/// What a tap beside the sender tells of the capacity after an application has written 60 kB every 100 ms or
/// so for 20 s over this link, whose load by others is a share of 50 Mb/s.
fn by_pairs(service: Service, load: f64, seed: u64) -> Result<PairCapacity, PairRefusal> {
    let mut network = Network::new(seed);
    let forward = LinkConfig { service, ..link(mbps(50.0), Duration::from_ms(10), drop_tail(Some(100_000))) };
    let (line, forward) =
        (network.add_link(&link(mbps(1000.0), Duration::ZERO, drop_tail(None))), network.add_link(&forward));
    let reverse = network.add_link(&wire(Duration::from_ms(10)));
    network
        .add_source(&source(forward, Traffic::Poisson { rate: mbps(50.0 * load), size: Bytes::new(1538) }));
    let mut config = TcpConfig::new(Kind::Cubic, vec![line, forward], vec![reverse]);
    config.chunks = Some((Bytes::new(60_000), Duration::from_ms(70)));
    config.taps = vec![(network.add_tap(), TapPlace::Sender)];
    network.add_tcp(&config);
    network.run_until(at(20.0));
    let conversion = Conversion::new(&config, 1);
    let mut transfer = Transfer::new(&Settings::default());
    for record in &records(&mut network, &config, 0) {
        transfer.observe(&conversion.segment(record));
    }
    transfer.look_at_pairs();
    transfer.pair_capacity()
}

#[test]
fn packets_that_leave_together_tell_the_narrow_link_without_a_standing_queue() {
    for load in [0.0, 0.1, 0.2, 0.3, 0.5, 0.8] {
        let mut found = 0;
        for seed in 1..=10 {
            if let Ok(capacity) = by_pairs(Service::Constant(mbps(50.0)), load, seed) {
                let PairCapacity { rate, low, high, .. } = capacity;
                assert!((rate.mbps() - 50.0).abs() < 1.0, "{load} {seed} {capacity:?}");
                assert!(low <= mbps(50.0) && mbps(50.0) <= high, "{load} {seed} {capacity:?}");
                found += 1;
            }
        }
        assert!(found == 10 || load > 0.2, "{load} {found}");
    }
}

#[test]
fn a_bucket_is_no_narrow_link_for_packets_that_leave_together() {
    for burst in [5_000, 15_000, 50_000] {
        let service = Service::TokenBucket { rate: mbps(50.0), burst: Bytes::new(burst), peak: None };
        for seed in 1..=5 {
            let found = by_pairs(service.clone(), 0.1, seed);
            let right = |found: PairCapacity| (found.rate.mbps() / 50.0 - 1.0).abs() < 0.02;
            assert!(found.is_ok_and(right) || found.is_err(), "{burst} {found:?}");
        }
    }
}

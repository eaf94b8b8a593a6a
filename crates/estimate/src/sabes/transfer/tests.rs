use super::super::segment::tests::{ack, data};
use super::super::{Flags, Form, Limit, WindowRefusal};
use super::*;

const MSS: u32 = 1_448;

fn rate(transfer: &Transfer) -> f64 {
    transfer.capacity().map_or(0.0, Rate::mbps)
}

fn feed(transfer: &mut Transfer, segments: &[Segment]) {
    for segment in segments {
        transfer.observe(segment);
    }
}

/// SYN, SYN-ACK and ACK, `rtt` microseconds after each other at a tap beside the sender of data.
fn handshake(first: u32, rtt: u64, scale: u8) -> [Segment; 3] {
    let flags = Flags { syn: true, ..Flags::default() };
    let syn = Segment {
        flags,
        acknowledgement: None,
        window_scale: Some(7),
        mss: Some(1_460),
        ..data(0, first.wrapping_sub(1), 0)
    };
    let answer =
        Segment { flags, sequence: 0, window_scale: Some(scale), mss: Some(1_460), ..ack(rtt, first) };
    [syn, answer, data(rtt, first, 0)]
}

/// A sender with a fixed window over a link that takes `service` microseconds a segment,
/// acknowledged in pairs.
fn windowed(transfer: &mut Transfer, window: u32, service: u64, rtt: u64, pairs: u64) -> Vec<Estimate> {
    let mut events: Vec<Segment> = Vec::new();
    let first = u32::MAX - 200_000;
    let number = |segment: u64| first.wrapping_add((segment * u64::from(MSS)) as u32);
    let mut free = 0;
    let mut acked = Vec::new();
    for segment in 0..2 * pairs {
        let sent = match segment.checked_sub(u64::from(window)) {
            None => 200_000 + segment,
            Some(before) => acked[before as usize / 2],
        };
        free = (free.max(sent) + service).max(sent + service);
        events.push(data(sent, number(segment), MSS));
        if segment % 2 == 1 {
            acked.push(free + rtt - service);
            events.push(ack(free + rtt - service, number(segment + 1)));
        }
    }
    events.sort_by_key(|segment| segment.at);
    handshake(first, rtt, 7).iter().for_each(|segment| assert!(transfer.observe(segment).is_none()));
    events.iter().filter_map(|segment| transfer.observe(segment)).collect()
}

#[test]
fn a_full_queue_shows_the_whole_link_without_cross_traffic() {
    // 1538 B in 123 us are 100 Mb/s; 60 segments are more than an RTT of 5 ms holds.
    let mut transfer = Transfer::new(&Settings::default());
    let estimates = windowed(&mut transfer, 60, 123, 5_000, 4_000);
    assert!(estimates.len() >= 4, "{}", estimates.len());
    for estimate in &estimates {
        assert!((estimate.rate.mbps() - 100.0).abs() < 1.5, "{estimate:?}");
        assert!(estimate.low <= estimate.rate && estimate.rate <= estimate.high);
        assert_eq!(estimate.window, Duration::from_ms(200));
    }
    assert!((rate(&transfer) - 100.0).abs() < 1.5, "{}", rate(&transfer));
    assert!((transfer.throughput().map_or(0.0, Rate::mbps) - 100.0).abs() < 2.0);
    assert_eq!(transfer.acknowledged(), Bytes::new(8_000 * u64::from(MSS)));
    assert_eq!(transfer.windows().used(), estimates.len() as u64);
}

#[test]
fn an_empty_queue_gives_no_estimate_and_the_reason() {
    // 20 segments of 41 that an RTT holds, within a receive window of 20.
    let mut transfer = Transfer::new(&Settings::default());
    let estimates = windowed(&mut transfer, 20, 123, 5_000, 4_000);
    assert!(estimates.is_empty(), "{estimates:?}");
    let counts = transfer.windows();
    assert_eq!(counts.total(), WindowRefusal::ALL.iter().map(|reason| counts.refused(*reason)).sum::<u64>());
    assert!(
        counts.refused(WindowRefusal::QueueEmpty) + counts.refused(WindowRefusal::ApplicationLimited) > 4
    );
}

#[test]
fn a_full_receive_window_is_the_limit() {
    let mut transfer = Transfer::new(&Settings::default());
    // The window of 20 segments is advertised in units of 128 bytes.
    let mut segments: Vec<Segment> = handshake(1_000, 10_000, 7).to_vec();
    let raw = (20 * MSS).div_ceil(128) as u16;
    segments.iter_mut().for_each(|segment| segment.window = raw);
    for round in 0..100_u64 {
        for i in 0..20_u32 {
            let sequence = 1_000 + (round as u32 * 20 + i) * MSS;
            segments.push(Segment {
                window: raw,
                ..data(20_000 + round * 10_000 + u64::from(i) * 10, sequence, MSS)
            });
        }
        for i in 0..10_u32 {
            let number = 1_000 + (round as u32 * 20 + 2 * i + 2) * MSS;
            segments
                .push(Segment { window: raw, ..ack(30_000 + round * 10_000 + u64::from(i) * 20, number) });
        }
    }
    segments.sort_by_key(|segment| segment.at);
    feed(&mut transfer, &segments);
    assert_eq!(transfer.limits().main(), Limit::ReceiveWindow, "{:?}", transfer.limits());
    assert!(transfer.limits().share(Limit::ReceiveWindow) > 0.9);
    // Where the capture cut the options of the SYNs, the same numbers may mean a window of any size.
    let mut transfer = Transfer::new(&Settings::default());
    for segment in &mut segments {
        (segment.cut, segment.window_scale) = (true, None);
    }
    feed(&mut transfer, &segments);
    assert_eq!(transfer.limits().share(Limit::ReceiveWindow), 0.0, "{:?}", transfer.limits());
}

#[test]
fn an_application_that_pauses_is_the_limit() {
    let mut transfer = Transfer::new(&Settings::default());
    feed(&mut transfer, &handshake(1_000, 10_000, 7));
    for write in 0..50_u64 {
        let sequence = 1_000 + write as u32 * 2 * MSS;
        let at = 50_000 + write * 50_000;
        transfer.observe(&data(at, sequence, MSS));
        transfer.observe(&data(at + 10, sequence + MSS, MSS));
        transfer.observe(&ack(at + 10_000, sequence + 2 * MSS));
    }
    assert_eq!(transfer.limits().main(), Limit::Application, "{:?}", transfer.limits());
    assert_eq!(transfer.windows().used(), 0);
}

/// Writes of `segments`, `period` microseconds after each other, over a link that takes `service`
/// microseconds a segment, with a congestion window of `window` segments, each acknowledged by itself.
fn write(transfer: &mut Transfer, segments: u64, period: u64, window: u64, service: u64) {
    const RTT: u64 = 6_000;
    let mut events = handshake(1_000, RTT, 7).to_vec();
    let number = |segment: u64| 1_000 + segment as u32 * MSS;
    let (mut free, mut acked) = (0, Vec::new());
    for segment in 0..20 * segments {
        let written = 100_000 + segment / segments * period;
        let sent = segment.checked_sub(window).map_or(written, |before| written.max(acked[before as usize]));
        free = sent.max(free) + service;
        acked.push(free + RTT - service);
        events.push(data(sent, number(segment), MSS));
        events.push(ack(free + RTT - service, number(segment + 1)));
    }
    events.sort_by_key(|segment| segment.at);
    feed(transfer, &events);
}

#[test]
fn bursts_that_fill_the_path_between_pauses_are_limited_by_the_application() {
    // 177 segments, 256 kB, take 130 ms at 16.7 Mb/s; there is one every 206 ms.
    let mut transfer = Transfer::new(&Settings::default());
    write(&mut transfer, 177, 206_000, 20, 737);
    assert_eq!(transfer.limits().main(), Limit::Application, "{:?}", transfer.limits());
    // As many as the path carries in that time.
    let mut transfer = Transfer::new(&Settings::default());
    write(&mut transfer, 280, 206_000, 20, 737);
    assert_eq!(transfer.limits().main(), Limit::Path, "{:?}", transfer.limits());
}

#[test]
fn the_pace_of_small_writes_is_no_capacity() {
    // 892 bytes every 13 ms, with an RTT of 60 ms; once all wait for 40 ms.
    let mut transfer = Transfer::new(&Settings::default());
    let mut events = handshake(1_000, 60_000, 7).to_vec();
    let mut number = 1_000;
    for write in 0..400_u64 {
        let payload = if write == 100 { MSS } else { 892 };
        let at = 100_000 + write * 13_000;
        events.push(data(at, number, payload));
        number += payload;
        let waits = (100..104).contains(&write);
        events.push(ack(if waits { 100_000 + 104 * 13_000 + 60_000 } else { at + 60_000 }, number));
    }
    events.sort_by_key(|segment| segment.at);
    // (892 + 90) bytes in 13 ms.
    transfer.share_capacity(Rate::from_mbps(0.604));
    feed(&mut transfer, &events);
    assert_eq!(transfer.limits().main(), Limit::Application, "{:?}", transfer.limits());
}

#[test]
fn the_rtt_is_that_of_segments_at_the_sender_and_of_the_handshake_at_the_receiver() {
    for (side, expected) in [(Side::Sender, 10), (Side::Receiver, 60)] {
        let mut transfer = Transfer::new(&Settings { side, ..Settings::default() });
        let mut segments = handshake(1_000, 60_000, 7);
        if side == Side::Receiver {
            segments[1].at = segments[0].at;
        }
        feed(&mut transfer, &segments);
        transfer.observe(&data(100_000, 1_000, MSS));
        transfer.observe(&ack(110_000, 1_000 + MSS));
        assert_eq!(transfer.rtt(), Some(Duration::from_ms(expected)));
    }
}

/// Data and ACKs of a link of 100 Mb/s whose gaps alternate, so that Eq. 6.5 accepts them.
fn spread(form: Form, windows: Windows) -> (Transfer, u64) {
    let mut transfer = Transfer::new(&Settings { form, windows, ..Settings::default() });
    transfer.share_capacity(Rate::from_mbps(100.0));
    let (mut at, mut number, mut count) = (20_000, 1_000, 0);
    feed(&mut transfer, &handshake(1_000, 20_000, 7));
    transfer.observe(&ack(at, number));
    let mut events = Vec::new();
    for i in 0..20_000_u64 {
        at += [250, 400, 600, 800][i as usize % 4];
        number += 2 * MSS;
        events.push(data(at - 20_000, number - 2 * MSS, 2 * MSS));
        events.push(ack(at, number));
    }
    events.sort_by_key(|segment| segment.at);
    for segment in &events {
        count += u64::from(transfer.observe(segment).is_some());
    }
    (transfer, count)
}

#[test]
fn tumbling_windows_are_disjoint_and_far_fewer_than_sliding_ones() {
    let (sliding, used) = spread(Form::Literal, Windows::Sliding);
    let (tumbling, _) = spread(Form::Literal, Windows::Tumbling(Duration::from_ms(200)));
    // 20 000 ACKs 512 us apart.
    assert!(sliding.windows().total() > 19_990 && used > 5_000, "{used}");
    assert_eq!(tumbling.windows().total(), 10_250 / 200);
}

#[test]
fn memory_stays_within_its_bound() {
    let settings = Settings {
        samples: 256,
        windows: Windows::Tumbling(Duration::from_ms(60_000)),
        ..Settings::default()
    };
    let mut transfer = Transfer::new(&settings);
    windowed(&mut transfer, 60, 123, 5_000, 4_000);
    assert!(transfer.memory() < 64 * 1_024, "{}", transfer.memory());
}

#[test]
fn forged_jumps_of_numbers_are_survived() {
    let jumps = [0, 1, 1 << 30, (1 << 31) - 1, 1 << 31, (1 << 31) + 1, u32::MAX];
    for sent in jumps {
        for acknowledged in jumps {
            let mut transfer = Transfer::new(&Settings::default());
            feed(&mut transfer, &handshake(1_000, 10_000, 14));
            for (round, jump) in [0, sent, acknowledged, sent].into_iter().enumerate() {
                let at = 30_000 * (round as u64 + 1);
                feed(&mut transfer, &[data(at, 1_000_u32.wrapping_add(jump), MSS)]);
                feed(
                    &mut transfer,
                    &[ack(at + 9_000, 1_000_u32.wrapping_add(acknowledged).wrapping_add(jump))],
                );
            }
        }
    }
}

#[test]
fn of_a_window_with_more_samples_than_memory_the_last_part_counts() {
    let settings = Settings { samples: 100, ..Settings::default() };
    let estimates = windowed(&mut Transfer::new(&settings), 60, 123, 5_000, 4_000);
    assert!(estimates.len() >= 4, "{}", estimates.len());
    for estimate in &estimates {
        // 100 ACKs of two segments each.
        assert!((estimate.window.ms() - 24.6).abs() < 1.0, "{}", estimate.window);
        let width = estimate.high.mbps() - estimate.low.mbps();
        assert!((estimate.rate.mbps() - 100.0).abs() < 2.0 && width < 12.0, "{estimate:?}");
    }
}

#[test]
fn what_the_published_rules_judged_can_be_seen() {
    let settings = Settings { form: Form::Literal, ..Settings::default() };
    let mut transfer = Transfer::new(&settings);
    assert_eq!(transfer.judgement(), None, "no window yet");
    let estimates = windowed(&mut transfer, 60, 123, 5_000, 4_000);
    // Even samples have no spread: no window gives an estimate, but each is judged.
    assert!(estimates.is_empty() && transfer.windows().total() > 0);
    let judged = transfer.judgement().expect("a window with many samples");
    assert!(!judged.passed && judged.window <= Duration::from_ms(200));
    assert!(judged.rates.len() <= judged.samples.len() && judged.rates.is_sorted());
    assert_eq!(Some(judged.capacity), transfer.capacity());
    // The guarded rules use no such window.
    let mut guarded = Transfer::new(&Settings::default());
    windowed(&mut guarded, 60, 123, 5_000, 400);
    assert_eq!(guarded.judgement(), None);
}

#[test]
fn data_that_are_acknowledged_far_sooner_than_the_syn_take_back_the_rtt_of_the_handshake() {
    // The SYN was answered after 60 ms, from behind a proxy that acknowledges data itself after 300 us.
    let mut transfer = Transfer::new(&Settings::default());
    feed(&mut transfer, &handshake(1_000, 60_000, 7));
    assert_eq!(transfer.handshake_rtt(), Some(Duration::from_ms(60)));
    feed(&mut transfer, &[data(100_000, 1_000, MSS), ack(100_300, 1_000 + MSS)]);
    assert_eq!(transfer.handshake.rtt(), Some(Duration::from_us(300)));
    assert_eq!(transfer.handshake_rtt(), Some(Duration::from_ms(60)), "as it was seen");
    // A host that takes three times as long to accept a connection is no proxy.
    let mut transfer = Transfer::new(&Settings::default());
    feed(&mut transfer, &handshake(1_000, 60_000, 7));
    feed(&mut transfer, &[data(100_000, 1_000, MSS), ack(120_000, 1_000 + MSS)]);
    assert_eq!(transfer.handshake.rtt(), Some(Duration::from_ms(60)));
}

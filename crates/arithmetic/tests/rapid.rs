//! TCP Rapid's arithmetic: p-streams, ACKs, smoothing, the search, and the published settings (rapid 2, F1 to
//! F4, F15, F22 to F25).

use headway_arithmetic::rapid::{
    Acks, Bound, Config, Estimate, Gaps, LineClock, Packet, Preset, Refusal, Shape, Stream, Thresholds, flags,
};

const LINE: u64 = 10_000_000_000;
const PACKET: u32 = 9038;
const USUAL: Shape = Shape { rates: 4, packets: 16, ratio: Shape::RATIO };

fn config(preset: Preset) -> Config {
    Config::new(preset, LINE, PACKET, LINE)
}

fn total(stream: &Stream) -> u64 {
    (0..stream.shape.len()).map(|index| stream.gap(index)).sum()
}

fn gbps(gap: u64) -> f64 {
    f64::from(PACKET) * 8.0 / gap as f64
}

/// rapid F1: the worked example of the thesis. Its integers step by 1.148, which shifts rates
/// by up to 0.3 % (F4).
#[test]
fn an_average_of_7_gbps_is_probed_with_the_published_four_rates() {
    for (ratio, most) in [(56_988, 0.02), (Shape::RATIO, 0.03)] {
        let stream = Stream::new(Shape { ratio, ..USUAL }, PACKET, 7_000_000_000);
        for (k, rate) in (0..).zip([5.75, 6.61, 7.60, 8.74]) {
            for index in 16 * k..16 * (k + 1) {
                let found = gbps(stream.gap(index));
                assert!((found - rate).abs() < most, "{found} {rate}");
            }
        }
        // 64 packets of 72304 bits at 7 bits per ns.
        assert_eq!(total(&stream), 661_065);
    }
}

#[test]
fn gaps_sum_to_the_time_of_the_stream_at_any_rate() {
    for shape in
        [USUAL, Shape::with_range(5, 38, 0.3), Shape { packets: 48, ..USUAL }, Shape::with_range(1, 1, 0.5)]
    {
        for rate in [100_000, 999_999, 123_456_789, 9_999_999_999, 399_999_999_999] {
            for packet in [84, 1538, 9038, 65_573] {
                let stream = Stream::new(shape, packet, rate);
                let exact = f64::from(shape.len() * packet) * 8e9 / rate as f64;
                assert!(
                    (total(&stream) as f64 - exact).abs() <= 0.5 + exact * 1e-15,
                    "{shape:?} {rate} {packet}"
                );
            }
        }
    }
}

/// rapid F2.
#[test]
fn a_range_of_30_percent_over_five_rates_steps_by_1_0678() {
    let shape = Shape::with_range(5, 16, 0.3);
    assert_eq!((shape.ratio, shape.len()), ((65_536.0_f64 / 1.067_79).round() as u32, 80));
    let stream = Stream::new(shape, PACKET, 6_000_000_000);
    assert!((gbps(stream.gap(79)) / gbps(stream.gap(0)) - 1.3).abs() < 1e-3);
}

/// rapid F3.
#[test]
fn near_the_line_rate_gaps_stay_possible_and_the_average_is_kept() {
    let (stream, mut line) = (Stream::new(USUAL, PACKET, 9_500_000_000), LineClock::new(LINE));
    let (mut scheduled, mut shortest) = (0, u64::MAX);
    let first = line.depart(scheduled, PACKET);
    let mut last = first;
    for index in (0..64).cycle().take(6400) {
        scheduled += stream.gap(index);
        let departure = line.depart(scheduled, PACKET);
        shortest = shortest.min(departure - last);
        last = departure;
    }
    assert_eq!(shortest, 7230);
    let sent = f64::from(PACKET) * 8.0 * 6400.0 / (last - first) as f64;
    assert!((sent / 9.5 - 1.0).abs() < 0.005, "{sent}");
}

/// A connection's packets as ACKs report them: one stamp in `every` packets, `us` after each other.
fn packets(streams: u32, length: u32, every: u32, us: u32) -> impl Iterator<Item = Packet> {
    (0..streams * length).map(move |i| Packet {
        gap: 10_000,
        stream: i / length,
        index: i % length,
        stamp: if i % every == every - 1 { 1_000 + (i + 1) * us } else { 0 },
        ..Packet::default()
    })
}

fn complete(acks: &mut Acks, packets: impl IntoIterator<Item = Packet>) -> Vec<Gaps> {
    let mut found = Vec::new();
    for packet in packets {
        acks.push(&packet, |gaps| found.push(gaps.clone()));
    }
    found
}

/// rapid F24 and F25: intervals of 2, 3 and 5 packets end inside streams of 16 in every way.
#[test]
fn acks_across_boundaries_lose_no_stream() {
    for every in [1, 2, 3, 5] {
        let found = complete(&mut Acks::new(16, 1000), packets(30, 16, every, 12));
        assert!(found.len() >= 29, "{every}");
        for (i, gaps) in found.iter().enumerate() {
            // The first stream lacks the packets up to the first stamp.
            let samples = if i == 0 { 16 - every as usize } else { 16 };
            assert_eq!(
                (gaps.send(), gaps.receive()),
                (&vec![10_000; samples][..], &vec![12_000; samples][..])
            );
        }
    }
}

/// rapid F24.
#[test]
fn thirty_two_acks_give_sixty_four_gaps_with_the_same_sums() {
    let found = complete(&mut Acks::new(64, 1000), packets(2, 64, 2, 7));
    assert_eq!(found.len(), 2);
    assert_eq!(found[1].receive().iter().sum::<u64>(), 64 * 7000);
    assert_eq!(found[1].send().len(), 64);
}

/// rapid F22, and the milliseconds of variant V2.
#[test]
fn stamps_that_wrap_around_give_the_true_gap() {
    for (unit, elapsed) in [(1000, 30_000), (1_000_000, 30_000_000)] {
        let stamps = [u32::MAX - 9, 20, 50];
        let packet = |(index, stamp)| Packet { gap: 10_000, index, stamp, ..Packet::default() };
        let found = complete(&mut Acks::new(3, unit), (0..).zip(stamps).map(packet));
        assert_eq!(found[0].receive(), [elapsed; 2]);
    }
}

/// rapid F23.
#[test]
fn a_stamp_of_zero_or_from_the_past_is_no_sample() {
    let packet = |(index, stamp)| Packet { gap: 10_000, index, stamp, ..Packet::default() };
    let found = complete(&mut Acks::new(4, 1000), (0..).zip([100, 0, 90, 130]).map(packet));
    assert_eq!(found[0].receive(), [10_000; 3]);
}

/// rapid F52: a hole costs its own stream and no other, whatever makes it.
#[test]
fn a_stream_with_a_hole_yields_nothing_and_the_next_one_does() {
    let whole: Vec<Packet> = packets(10, 16, 1, 12).collect();
    let mut lost = whole.clone();
    lost[5 * 16 + 7].unusable = 1;
    let mut absent = whole.clone();
    absent.remove(5 * 16 + 7);
    let mut cut_short = whole.clone();
    cut_short.drain(5 * 16 + 9..6 * 16);
    for (name, packets) in [("lost", lost), ("absent", absent), ("cut short", cut_short)] {
        let found = complete(&mut Acks::new(16, 1000), packets);
        assert_eq!(found.len(), 9, "{name}");
        assert!(found.iter().skip(1).all(|gaps| gaps.send().len() >= 15), "{name}");
        assert!(found.iter().all(|gaps| gaps.receive().iter().all(|gap| *gap == 12_000)), "{name}");
    }
}

/// rapid F15: a short tail after an idle time is no probe, and the stream after it does
/// not see the idle time.
#[test]
fn packets_outside_of_streams_do_not_disturb_the_next_stream() {
    let mut connection: Vec<Packet> = packets(4, 16, 2, 12).collect();
    let idle = Packet { gap: 5_000_000_000, unusable: 1, ..Packet::default() };
    connection.splice(32..32, [idle, idle, idle]);
    let found = complete(&mut Acks::new(16, 1000), connection);
    assert_eq!(found.len(), 4);
    assert!(found[2].send().iter().all(|gap| *gap == 10_000));
    assert_eq!(found[2].send().len(), 14);
}

#[test]
fn one_wild_stamp_does_not_silence_a_connection() {
    let mut connection: Vec<Packet> = packets(20, 64, 2, 12).collect();
    connection[101].stamp = connection[101].stamp.wrapping_add(1 << 30);
    assert!(complete(&mut Acks::new(64, 1000), connection).len() >= 14);
}

fn smoothed(receive: &[u64], pass: impl FnOnce(&mut Gaps)) -> (Vec<u64>, Vec<u64>) {
    let mut gaps = Gaps::default();
    gaps.fill((10_000..).step_by(1000).zip(receive.iter().map(|us| us * 1000)));
    pass(&mut gaps);
    (gaps.send().to_vec(), gaps.receive().iter().map(|ns| ns / 1000).collect())
}

/// rapid F30: dips, an event of four gaps, one of three, and the start of another.
#[test]
fn each_complete_event_becomes_flat_and_its_ends_are_reported() {
    let coarse = Thresholds { up: 20_000, down: 10_000 };
    let (send, receive) = smoothed(&[1, 1, 37, 1, 1, 1, 28, 1, 1, 50], |gaps| {
        let pass = gaps.bass_pass(coarse);
        assert_eq!((pass.changed(), pass.head(), pass.tail()), (true, 2, 9));
    });
    assert_eq!(receive, [1, 1, 10, 10, 10, 10, 10, 10, 10, 50]);
    assert_eq!(send, [10_500, 10_500, 13_500, 13_500, 13_500, 13_500, 17_000, 17_000, 17_000, 19_000]);
    for (receive, head, tail) in [
        (&[40, 1, 1, 31, 1, 1][..], 0, 3),
        (&[40, 1, 1], 0, 0),
        (&[10, 12, 9, 11, 10], 0, 5),
        (&[1, 30, 60, 90, 120], 1, 1),
        (&[1, 21, 1, 1], 0, 4),
        (&[], 0, 0),
        (&[9], 0, 1),
    ] {
        smoothed(receive, |gaps| {
            let pass = gaps.bass_pass(coarse);
            assert_eq!((pass.head(), pass.tail()), (head, tail), "{receive:?}");
        });
    }
}

/// rapid F33.
#[test]
fn an_even_window_takes_one_more_gap_before_than_after() {
    let mean =
        |receive: &[u64], window| smoothed(receive, |gaps| gaps.smooth(window, &mut Gaps::default())).1;
    assert_eq!(mean(&[0, 0, 0, 40, 0, 0], 4), [0, 0, 10, 10, 10, 13]);
    assert_eq!(mean(&[0, 0, 30, 0, 0], 3), [0, 10, 10, 10, 0]);
    assert_eq!(mean(&[5, 9, 1], 1), [5, 9, 1]);
    assert_eq!(mean(&[5, 9, 1], 1000), [5, 5, 5]);
}

/// The gaps of a p-stream after a link of 10 Gb/s without noise, with 7.55 Gb/s available.
fn fluid(rate: u64) -> Gaps {
    let (stream, mut gaps) = (Stream::new(USUAL, PACKET, rate), Gaps::default());
    gaps.fill(
        (0..64)
            .map(|index| (stream.gap(index), stream.gap(index).max(7230 + stream.gap(index) * 245 / 1000))),
    );
    gaps
}

/// rapid F34: separation from packet 33 on gives the rate of packet 32; no excursion the top rate;
/// overload the bottom.
#[test]
fn the_search_finds_the_rate_before_the_excursion() {
    let literal = Config::new(Preset::Default, LINE, PACKET, LINE).excursion;
    let literal = headway_arithmetic::rapid::Excursion { relative: 0, ..literal };
    for (rate, index, bound) in [
        (7_200_000_000, 31, Bound::Within),
        (5_000_000_000, 63, Bound::AtLeast),
        (9_900_000_000, 0, Bound::AtMost),
    ] {
        let mut gaps = fluid(rate);
        let expected = u64::from(PACKET) * 8_000_000_000 / gaps.send()[index];
        let estimate = gaps.search(&literal, PACKET).expect("64 samples");
        assert!(
            estimate.rate.abs_diff(expected) < 2_000_000 && estimate.bound == bound,
            "{estimate:?} {expected}"
        );
    }
}

#[test]
fn short_streams_and_impossible_send_gaps_are_refused() {
    let excursion = config(Preset::Default).excursion;
    let mut gaps = Gaps::default();
    gaps.fill([(10, 10); 7]);
    assert_eq!(gaps.search(&excursion, PACKET), Err(Refusal::TooShort));
    gaps.fill([(0, 10); 8]);
    assert_eq!(gaps.search(&excursion, PACKET), Err(Refusal::SenderGaps));
}

#[test]
fn no_estimate_is_above_the_line_rate() {
    let config = config(Preset::Default);
    let mut gaps = Gaps::default();
    gaps.fill([(7_230, 7_230); 64]);
    // 9038 B in 7230 ns are 10.0006 Gb/s.
    assert_eq!(gaps.clone().search(&config.excursion, PACKET).expect("64 samples").rate, 10_000_553_250);
    let estimate = gaps.estimate(&config, 16, &mut Gaps::default());
    assert_eq!(estimate, Ok(Estimate { rate: LINE, bound: Bound::AtLeast }));
}

/// rapid 2.12 and F54.
#[test]
fn presets_are_the_published_ones() {
    let usual = config(Preset::Default);
    assert_eq!((usual.tau, usual.kd, usual.gamma, usual.window), (50_000_000, 1 << 14, 3, 16));
    assert_eq!(usual.shape, USUAL);
    let us = |up: u32, down: u32| Thresholds { up: up * 1000, down: down * 1000 };
    assert_eq!((usual.coarse, usual.medium, usual.fine), (us(20, 10), us(5, 4), us(2, 1)));
    assert_eq!((usual.excursion.margin, usual.excursion.min_length), (100, 4));
    let fast = config(Preset::Aggressive);
    assert_eq!((fast.tau, fast.kd), (10_000_000, 21_845));
    // kappa of 1.70 (rapid 2.10).
    let gigabit = Config::new(Preset::Default, 1_000_000_000, 1538, 1_000_000_000);
    assert_eq!((gigabit.coarse.up, gigabit.excursion.margin), (34_034, 170));
}

/// Behind a receiver that coalesces, the raw gaps seem uncongested up to the top rate (rapid 2.15); BASS sees
/// that the stream was stretched.
#[test]
fn without_bass_coalescing_hides_congestion() {
    let config = config(Preset::Default);
    let estimate = |config: &Config| {
        let mut gaps = Gaps::default();
        // 11 us between packets that left every 10 us, in events of 12 from the fourth on.
        gaps.fill((0..64).map(|i| (10_000, if i % 12 == 3 { 121_000 } else { 1_000 })));
        gaps.estimate(config, 1, &mut Gaps::default()).expect("64 samples").bound
    };
    assert_eq!(estimate(&config), Bound::AtMost);
    assert_eq!(estimate(&Config { flags: flags::WINDOW_ONLY, ..config }), Bound::AtLeast);
}

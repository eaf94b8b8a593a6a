//! How TCP Rapid's rate follows estimates, losses and timeouts, and how it starts (rapid 2.12
//! to 2.14, F49 to F55).

use headway_arithmetic::rapid::{
    Bound, Config, Estimate, MIN_RATE, Packet, Preset, Rapid, Shape, Stream, flags,
};

const LINE: u64 = 10_000_000_000;
const PACKET: u32 = 9038;
const USUAL: Shape = Shape { rates: 4, packets: 16, ratio: Shape::RATIO };

fn config(preset: Preset) -> Config {
    Config::new(preset, LINE, PACKET, LINE)
}

/// A connection in steady state at `rate`.
fn steady(config: Config, rate: u64) -> Rapid {
    let rtt = 20 * u64::from(config.packet) * 8_000_000_000 / rate;
    let mut rapid = Rapid::new(config, rtt);
    // A timeout ends start-up, and a spurious one changes nothing else.
    rapid.on_timeout();
    rapid.on_undo();
    rapid
}

fn total(stream: &Stream) -> u64 {
    (0..stream.shape.len()).map(|index| stream.gap(index)).sum()
}

/// The number of updates in which the rate goes 63 % of the way from 4 to 8 Gb/s, with streams of 1 ms.
fn updates_to_63_percent(config: Config) -> u32 {
    let mut rapid = steady(config, 4_000_000_000);
    let estimate = Estimate { rate: 8_000_000_000, bound: Bound::AtLeast };
    let mut updates = 0;
    while rapid.rate() < 6_528_000_000 {
        updates += u32::from(rapid.on_estimate(&estimate, 1_000_000));
    }
    updates
}

/// rapid F49. With l of one stream and gamma of 3, an update comes every 3 l, so the rate
/// takes 3 tau of time.
#[test]
fn the_rate_rises_in_tau_and_falls_by_a_share_per_update() {
    let usual = config(Preset::Default);
    assert_eq!(updates_to_63_percent(Config { gamma: 1, ..usual }), 50);
    assert_eq!(updates_to_63_percent(usual), 50);
    assert_eq!(updates_to_63_percent(Config { flags: flags::TOTAL_LENGTH, ..usual }), 17);
    assert_eq!(updates_to_63_percent(config(Preset::Aggressive)), 10);
    let mut rapid = steady(Config { gamma: 1, ..usual }, 8_000_000_000);
    for expected in [7_000_000_000, 6_250_000_000, 5_687_500_000] {
        rapid.on_estimate(&Estimate { rate: 4_000_000_000, bound: Bound::Within }, 1_000_000);
        assert!(rapid.rate().abs_diff(expected) <= 10, "{}", rapid.rate());
    }
}

/// rapid F4: against double precision, from 1 Mb/s to 400 Gb/s.
#[test]
fn the_rate_filter_differs_from_floats_by_less_than_a_hundredth_percent() {
    for rate in [1e6, 1e8, 1e10, 4e11] {
        let config = Config { gamma: 1, line: 400_000_000_000, ..config(Preset::Default) };
        let mut rapid = steady(config, (rate * 0.5) as u64);
        let mut exact = rapid.rate() as f64;
        for step in 0..10_000_u32 {
            let estimate = exact * [1.2, 0.95, 1.1, 0.9][(step / 100 % 4) as usize];
            let length = 64.0 * f64::from(PACKET) * 8e9 / exact;
            let estimate = estimate.clamp(1e5, 4e11).round();
            rapid.on_estimate(&Estimate { rate: estimate as u64, bound: Bound::Within }, length as u64);
            exact += if estimate >= exact { (length / 50e6).min(1.0) } else { 0.25 } * (estimate - exact);
            assert!((rapid.rate() as f64 / exact - 1.0).abs() < 1e-4, "{rate} {step}");
        }
    }
}

/// rapid F50.
#[test]
fn the_rate_is_updated_once_per_gamma_estimates_with_their_mean() {
    let mut rapid = steady(config(Preset::Default), 4_000_000_000);
    let mut updates = 0;
    for rate in [5, 6, 7].map(|gbps| gbps * 1_000_000_000).into_iter().cycle().take(30) {
        updates += u32::from(rapid.on_estimate(&Estimate { rate, bound: Bound::AtLeast }, u64::MAX));
    }
    assert_eq!((updates, rapid.rate()), (10, 6_000_000_000));
}

#[test]
fn estimates_without_an_excursion_lower_the_rate_unless_told_otherwise() {
    for (flags, expected) in [(0, 7_500_000_000), (flags::NO_CENSORED_FALL, 8_000_000_000)] {
        let mut rapid = steady(Config { flags, ..config(Preset::Default) }, 8_000_000_000);
        for _ in 0..3 {
            rapid.on_estimate(&Estimate { rate: 6_000_000_000, bound: Bound::AtLeast }, 1_000_000);
        }
        assert!(rapid.rate().abs_diff(expected) <= 10);
    }
}

/// rapid F51.
#[test]
fn a_loss_episode_cuts_the_rate_by_a_quarter_when_it_ends() {
    let mut rapid = steady(config(Preset::Default), 8_000_000_000);
    let before = rapid.rate();
    rapid.on_loss();
    rapid.on_loss();
    // The timer expires in the same episode.
    rapid.on_timeout();
    assert_eq!(rapid.rate(), before);
    assert!(rapid.on_recovered() && !rapid.on_recovered());
    assert_eq!(rapid.rate(), before - before / 4);
    rapid.on_loss();
    rapid.on_undo();
    assert!(!rapid.on_recovered());
    assert_eq!(rapid.rate(), before - before / 4);
    for _ in 0..100 {
        rapid.on_loss();
        rapid.on_recovered();
    }
    assert_eq!(rapid.rate(), MIN_RATE);
}

/// A path without noise: a link of 10 Gb/s with constant cross traffic, and ACKs one RTT later.
struct Fluid {
    available: f64,
    rtt: u64,
    /// Bits in the queue, and the time.
    backlog: f64,
    now: u64,
    /// Packets whose ACKs are under way, with the times at which they arrive.
    acks: std::collections::VecDeque<(u64, Packet)>,
}

impl Fluid {
    fn new(available: f64, rtt: u64) -> Fluid {
        Fluid { available, rtt, backlog: 0.0, now: 1_000_000_000, acks: Default::default() }
    }

    /// Sends p-streams until `end` and returns the rate then.
    fn run(&mut self, rapid: &mut Rapid, end: u64) -> u64 {
        let bits = f64::from(PACKET) * 8.0;
        while self.now < end {
            let stream = rapid.next_stream();
            for index in 0..stream.shape.len() {
                let gap = stream.gap(index).max(7230);
                self.now += gap;
                let arriving = (10.0 - self.available) * gap as f64;
                self.backlog = (self.backlog + arriving - 10.0 * gap as f64).max(0.0) + bits;
                let received = self.now + (self.backlog / 10.0) as u64;
                let stamp = (received / 1000) as u32;
                let packets = stream.shape.len();
                let packet = Packet { gap, stream: stream.id, index, stamp, packets, ..Packet::default() };
                self.acks.push_back((received + self.rtt, packet));
                while self.acks.front().is_some_and(|(due, _)| *due <= self.now) {
                    let (_, packet) = self.acks.pop_front().expect("just seen");
                    rapid.on_packet(&packet);
                }
            }
        }
        rapid.rate()
    }
}

/// rapid 2.14, F53: four fifths of what is available in eight round trips, one of them for the handshake.
/// Cross traffic that fills the link hides excesses below an eighth of the capacity, so where little is free
/// the rate may be a fifth of the capacity too high.
#[test]
fn start_up_finds_the_available_bandwidth_within_seven_rtts() {
    for rtt in [5_000_000, 30_000_000, 100_000_000] {
        for available in (1..=48).map(|i| 0.2 * f64::from(i)) {
            let mut rapid = Rapid::new(Config { coalescing: 0, ..config(Preset::Default) }, rtt);
            assert!(rapid.is_starting());
            let mut path = Fluid::new(available, rtt);
            let rate = path.run(&mut rapid, path.now + 7 * rtt) as f64 / 1e9;
            let band = 0.8 * available..1.1 * available + 2.0;
            assert!(band.contains(&rate), "{rate} of {available}, RTT {rtt} ns");
        }
    }
}

/// A connection at 100 packets per round trip in start-up, which has sent the first `sent` streams.
fn starting(sent: u32) -> (Rapid, Vec<Stream>) {
    let mut rapid = Rapid::new(Config { coalescing: 0, ..config(Preset::Default) }, 30_000_000);
    let streams = (0..sent).map(|_| rapid.next_stream()).collect();
    (rapid, streams)
}

/// Settles the packets of a stream, which arrive no closer than at `free` bit/s.
fn answer(rapid: &mut Rapid, stream: &Stream, at: &mut u64, free: u64) {
    for index in 0..stream.shape.len() {
        let gap = stream.gap(index);
        *at += gap.max(u64::from(PACKET) * 8_000_000_000 / free);
        let packet = Packet {
            gap,
            stream: stream.id,
            index,
            stamp: (*at / 1000) as u32,
            packets: stream.shape.len(),
            ..Packet::default()
        };
        rapid.on_packet(&packet);
    }
}

/// Only the first stream is twice as fast as ten packets per round trip: nothing is known until its answer is
/// there.
#[test]
fn the_second_stream_of_a_connection_waits_for_the_answer_to_the_first() {
    let (rapid, streams) = starting(3);
    let packet = u64::from(PACKET) * 8_000_000_000 / 30_000_000;
    let rates: Vec<u64> = streams.iter().map(|stream| stream.rate / packet).collect();
    assert_eq!((rates, rapid.rate() / packet), (vec![20, 10, 10], 10));
}

/// The rates in flight are the mean of what their streams showed; one burst does not end start-up, two round
/// trips without a rise do.
#[test]
fn start_up_ends_with_the_second_round_trip_without_a_rise() {
    let (mut rapid, streams) = starting(2);
    let (idle, burst) = (LINE, 20_000_000);
    let mut at = 1_000_000_000;
    answer(&mut rapid, &streams[0], &mut at, burst);
    answer(&mut rapid, &streams[1], &mut at, burst);
    let low = rapid.rate();
    assert!(rapid.is_starting() && low <= 25_000_000, "{low}");
    let next = rapid.next_stream();
    answer(&mut rapid, &next, &mut at, idle);
    assert!(rapid.is_starting() && rapid.rate() > 3 * low, "{}", rapid.rate());
    let next = rapid.next_stream();
    answer(&mut rapid, &next, &mut at, burst);
    let next = rapid.next_stream();
    answer(&mut rapid, &next, &mut at, burst);
    assert!(!rapid.is_starting());
}

/// rapid 2.14: the published start has no start-up, and its first stream alone takes 46 s.
#[test]
fn the_literal_start_is_at_100_kbps_with_whole_streams() {
    let flags = flags::LITERAL_START;
    let mut rapid = Rapid::new(Config { flags, ..config(Preset::Default) }, 30_000_000);
    let stream = rapid.next_stream();
    assert_eq!((rapid.rate(), rapid.is_starting(), stream.shape), (MIN_RATE, false, USUAL));
    assert_eq!(total(&stream), 46_274_560_000);
}

#[test]
fn a_start_at_the_line_rate_is_no_start_up() {
    let flags = flags::LINE_START;
    let rapid = Rapid::new(Config { flags, ..config(Preset::Default) }, 30_000_000);
    assert_eq!((rapid.rate(), rapid.is_starting()), (LINE, false));
}

#[test]
fn start_up_ends_at_a_loss_and_at_a_timeout() {
    let starting_after = |flags, end: fn(&mut Rapid)| {
        let mut rapid = Rapid::new(Config { flags, ..config(Preset::Default) }, 30_000_000);
        assert!(rapid.is_starting());
        end(&mut rapid);
        rapid.is_starting()
    };
    assert!(!starting_after(0, Rapid::on_loss) && !starting_after(0, Rapid::on_timeout));
    // A single loss may be random.
    assert!(starting_after(flags::WATCH_QUEUE, Rapid::on_loss));
    assert!(!starting_after(flags::WATCH_QUEUE, Rapid::on_timeout));
}

/// The highest rate of a stream lasts for three interrupts of the receiver, as far as the
/// longest stream allows.
#[test]
fn streams_of_start_up_are_as_long_as_coalescing_needs() {
    for (mbps, packets) in [(10, 4), (300, 5), (1000, 18), (2000, 37), (8000, 48)] {
        let rtt = 20 * u64::from(PACKET) * 8_000 / mbps;
        let stream = Rapid::new(config(Preset::Default), rtt).next_stream();
        assert_eq!(stream.shape, Shape { rates: 4, packets, ratio: 1 << 15 }, "{mbps} Mb/s");
    }
}

/// rapid B.4, B.5: the rate stays near what is available, whatever the RTT.
#[test]
fn the_loop_holds_the_available_bandwidth_and_follows_it() {
    for (preset, rtt) in
        [(Preset::Default, 5), (Preset::Default, 30), (Preset::Aggressive, 5), (Preset::Aggressive, 100)]
    {
        let mut rapid = steady(config(preset), 4_000_000_000);
        let mut path = Fluid::new(7.5, rtt * 1_000_000);
        for available in [7.5, 3.0, 7.5] {
            path.available = available;
            path.run(&mut rapid, path.now + 3_000_000_000);
            let mut sum = 0;
            for _ in 0..100 {
                sum += path.run(&mut rapid, path.now + 10_000_000);
            }
            let mean = sum as f64 / 100e9;
            // An excess of 2 % of the send gap is 2 % of the capacity.
            let band = 0.8 * available..available + 0.25;
            assert!(band.contains(&mean), "{preset:?} {rtt} ms: {mean} of {available}");
        }
        assert!(rapid.estimated() > 1000 && rapid.latest().is_some());
    }
}

/// A connection in steady state at 4 Gb/s with all repairs, on a path with an RTT of `rtt` ms.
fn repaired(rtt: u64) -> Rapid {
    let flags =
        flags::NO_CENSORED_FALL | flags::WATCH_QUEUE | flags::REOPEN | flags::RELATIVE | flags::SLOW_FALL;
    let mut rapid = steady(Config { flags, ..config(Preset::Default) }, 4_000_000_000);
    rapid.on_rtt(rtt * 1_000_000);
    rapid
}

/// Packets of one gap each 18 us, which wait for `queue(i)` us; every fiftieth is lost where `lost` says so.
fn packets(rapid: &mut Rapid, range: std::ops::Range<u32>, queue: impl Fn(u32) -> u32, lost: bool) {
    for i in range {
        let lost = lost && i % 50 == 49;
        let stamp = if lost { 0 } else { 1 + 18 * i + queue(i) };
        let (stream, index) = (i / 64, i % 64);
        rapid.on_packet(&Packet {
            gap: 18_000,
            stream,
            index,
            stamp,
            lost: lost.into(),
            ..Packet::default()
        });
    }
}

#[test]
fn random_losses_cut_nothing_and_losses_behind_a_queue_do_once_per_rtt() {
    // By a quarter at the usual RTT of 30 ms or more, and in proportion to shorter ones.
    for (rtt, cut) in [(10, 12), (30, 4), (100, 4)] {
        let mut rapid = repaired(rtt);
        packets(&mut rapid, 0..6_400, |_| 0, true);
        rapid.on_loss();
        rapid.on_recovered();
        assert!(rapid.rate() >= 4_000_000_000, "{}", rapid.rate());
        let before = rapid.rate();
        // 10 ms are 556 packets. Nothing but the losses lowers the rate: no stream is whole.
        packets(&mut rapid, 6_400..6_900, |_| 500, true);
        assert!(rapid.rate().abs_diff(before - before / cut) <= 1, "{} {before}", rapid.rate());
    }
}

#[test]
fn many_losses_cut_also_without_a_queue() {
    // Where only ACKs are lost, nothing is sent again.
    for (sent_again, expected) in [(true, 3_000_000_000), (false, 4_000_000_000)] {
        let mut rapid = repaired(10);
        for i in 0..1_000 {
            let lost = u32::from(i % 8 == 7);
            let stamp = if lost > 0 { 0 } else { 1 + 18 * i };
            rapid.on_packet(&Packet { gap: 18_000, index: 1, stamp, lost, ..Packet::default() });
            if sent_again && lost > 0 {
                rapid.on_retransmission();
            }
        }
        assert_eq!(rapid.rate(), expected);
    }
}

#[test]
fn losses_that_leave_less_than_the_first_rate_end_in_start_up_at_two_packets_per_rtt() {
    let mut rapid = repaired(10);
    assert!(!rapid.is_starting());
    let per_rtt = u64::from(PACKET) * 800;
    for _ in 0..50 {
        rapid.on_timeout();
        rapid.on_recovered();
        assert_eq!(rapid.is_starting(), rapid.rate() < 10 * per_rtt, "{}", rapid.rate());
    }
    assert_eq!(rapid.rate(), 2 * per_rtt);
    // The published sender falls to its lowest rate, and its streams then last for minutes.
    let mut published = steady(config(Preset::Default), 4_000_000_000);
    for _ in 0..50 {
        published.on_timeout();
        published.on_recovered();
    }
    assert_eq!((published.rate(), published.is_starting()), (MIN_RATE, false));
}

#[test]
fn a_standing_queue_is_drained_and_a_passing_one_is_not() {
    // A quarter of all packets wait, never those of three whole streams.
    let mut passing = repaired(30);
    packets(&mut passing, 0..6_400, |i| if i % 256 < 64 { 0 } else { 400 }, false);
    assert!(passing.rate() >= 3_500_000_000, "{}", passing.rate());
    // By 400 of 3000 us at the usual RTT of 30 ms and in proportion to the RTT, at most by a quarter, and
    // once: 500 packets take less than 10 ms.
    for (rtt, cut) in [(10, 1.0 / 21.0), (30, 1.0 / 7.0), (90, 0.25)] {
        let mut standing = repaired(rtt);
        packets(&mut standing, 0..6_400, |_| 0, false);
        let before = standing.rate() as f64;
        packets(&mut standing, 6_400..6_900, |_| 400, false);
        let fallen = 1.0 - standing.rate() as f64 / before;
        // Estimates between lower or raise the rate a little.
        assert!((fallen - cut).abs() < 0.02, "{rtt} ms: {fallen} instead of {cut}");
    }
}

#[test]
fn without_a_queue_the_rate_falls_as_slowly_as_it_rises() {
    let low = Estimate { rate: 3_000_000_000, bound: Bound::Within };
    // 1 of 50 ms, and kd.
    for (queue, expected) in [(5, 3_980_000_000), (20, 3_750_000_000)] {
        let mut rapid =
            steady(Config { flags: flags::SLOW_FALL, gamma: 1, ..config(Preset::Default) }, 4_000_000_000);
        // Fewer packets than a stream, so that none yields an estimate.
        packets(&mut rapid, 0..16, |_| 0, false);
        packets(&mut rapid, 16..63, |_| queue, false);
        assert!(rapid.on_estimate(&low, 1_000_000));
        assert!(rapid.rate().abs_diff(expected) <= 50, "{queue} us: {}", rapid.rate());
    }
}

/// Stamps of milliseconds do not show a short queue.
#[test]
fn with_coarse_stamps_the_rate_falls_as_published() {
    let coarse = Config { flags: flags::SLOW_FALL, unit: 1_000_000, gamma: 1, ..config(Preset::Default) };
    let mut rapid = steady(coarse, 4_000_000_000);
    rapid.on_estimate(&Estimate { rate: 3_000_000_000, bound: Bound::Within }, 1_000_000);
    assert!(rapid.rate().abs_diff(3_750_000_000) <= 10, "{}", rapid.rate());
}

#[test]
fn clocks_that_wrap_or_jump_leave_the_rate_between_its_limits() {
    let mut rapid = repaired(10);
    for (i, stamp) in
        (0..).zip([u32::MAX - 5, 7, 1 << 31, 5, 3, u32::MAX, 1, 0, 9].into_iter().cycle().take(5_000))
    {
        rapid.on_packet(&Packet { gap: 18_000, stream: i / 64, index: i % 64, stamp, ..Packet::default() });
        assert!((MIN_RATE..=LINE).contains(&rapid.rate()));
    }
}

#[test]
fn the_rate_rises_at_once_where_much_more_is_free_for_tau() {
    let updates_to_90_percent = |flags| {
        let mut rapid = steady(Config { flags, ..config(Preset::Default) }, 1_000_000_000);
        rapid.on_rtt(10_000_000);
        let mut path = Fluid::new(7.5, 10_000_000);
        let begin = path.now;
        while rapid.rate() < 6_750_000_000 && path.now - begin < 20_000_000_000 {
            path.run(&mut rapid, path.now + 10_000_000);
        }
        path.now - begin
    };
    let (published, repaired) = (updates_to_90_percent(0), updates_to_90_percent(flags::REOPEN));
    assert!(2 * repaired < published, "{repaired} {published} ns");
}

/// rapid 2.13: after a timeout, streams sent before it are ignored, and the next ones count.
#[test]
fn a_timeout_discards_the_streams_in_flight() {
    let mut rapid = steady(config(Preset::Default), 4_000_000_000);
    let mut path = Fluid::new(7.5, 30_000_000);
    path.run(&mut rapid, path.now + 100_000_000);
    let estimated = rapid.estimated();
    rapid.on_timeout();
    path.run(&mut rapid, path.now + 29_000_000);
    assert_eq!(rapid.estimated(), estimated);
    rapid.on_recovered();
    path.run(&mut rapid, path.now + 30_000_000);
    assert!(rapid.estimated() > estimated + 10);
}

/// rapid F54.
#[test]
fn parameters_change_at_run_time() {
    let mut rapid = steady(config(Preset::Default), 4_000_000_000);
    let mut path = Fluid::new(7.5, 10_000_000);
    for shape in
        [Shape { packets: 8, ..USUAL }, Shape { packets: 48, ..USUAL }, Shape::with_range(3, 16, 0.5)]
    {
        let before = rapid.estimated();
        rapid.set_config(Config { shape, gamma: 2, line: 5_000_000_000, ..*rapid.config() });
        let rate = path.run(&mut rapid, path.now + 200_000_000);
        assert!(rapid.estimated() > before + 10);
        assert!(rate <= 5_000_000_000);
    }
}

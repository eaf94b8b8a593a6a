//! TCP Rapid's arithmetic: what holds whatever a receiver stamps and a caller reports.

use headway_arithmetic::rapid::{
    Config, MAX_RATE, MIN_RATE, Packet, Preset, Rapid, Shape, Stream, Thresholds,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    /// A whole stream: how stamps move on, in how many packets there is one, and how long the
    /// packets wait to leave.
    Stream {
        stamps: Stamps,
        every: u32,
        stretch: u64,
    },
    /// Any packet at all.
    Packet(Packet),
    Loss,
    Timeout,
    Recovered,
    Undo,
    Retransmission,
    Rtt(u64),
    Configure(Config),
}

#[derive(Clone, Copy, Debug)]
enum Stamps {
    Zero,
    Equal,
    Random(u32),
    Backwards,
    Forwards(u32),
    Leaping(u32),
}

fn stamps() -> impl Strategy<Value = Stamps> {
    prop_oneof![
        1 => Just(Stamps::Zero),
        1 => Just(Stamps::Equal),
        1 => any::<u32>().prop_map(Stamps::Random),
        1 => Just(Stamps::Backwards),
        8 => (0_u32..200).prop_map(Stamps::Forwards),
        1 => (0_u32..31).prop_map(|shift| Stamps::Leaping(1 << shift)),
    ]
}

/// Any configuration at all; half of them almost sensible.
fn config() -> impl Strategy<Value = Config> {
    let sensible = (any::<bool>(), any::<u64>(), any::<u32>(), any::<u64>(), any::<bool>(), 0_u32..256)
        .prop_map(|(aggressive, line, packet, narrow, long, flags)| {
            let preset = if aggressive { Preset::Aggressive } else { Preset::Default };
            let (line, narrow) = (line >> (line % 40), narrow >> (narrow % 40));
            let mut config = Config::new(preset, line, packet % 70_000, narrow);
            if long {
                (config.gamma, config.shape.packets, config.window) = (1, 48, 48);
            }
            Config { flags, ..config }
        });
    let wild =
        (sensible.clone(), any::<[u64; 2]>(), any::<[u32; 15]>()).prop_map(|(sensible, long, short)| {
            Config {
                tau: long[0],
                coalescing: long[1],
                shape: Shape { rates: short[0], packets: short[1], ratio: short[2] },
                gamma: short[3],
                kd: short[4],
                coarse: Thresholds { up: short[5], down: short[6] },
                medium: Thresholds { up: short[7], down: short[8] },
                fine: Thresholds { up: short[9], down: short[10] },
                window: short[11],
                unit: short[12],
                excursion: headway_arithmetic::rapid::Excursion {
                    margin: short[13],
                    relative: short[14],
                    min_length: short[0],
                },
                ..sensible
            }
        });
    prop_oneof![sensible, wild]
}

fn event() -> impl Strategy<Value = Event> {
    let packet = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>()).prop_map(
        |(gap, stream, index, stamp, unusable)| Packet {
            gap: gap >> (gap % 64),
            stream,
            index: index >> (index % 32),
            stamp,
            unusable: unusable.into(),
            packets: if gap % 3 == 0 { index % 200 } else { 0 },
            lost: u32::from(stream % 5 == 0),
        },
    );
    prop_oneof![
        20 => (stamps(), 1_u32..5, 0_u64..3)
            .prop_map(|(stamps, every, stretch)| Event::Stream { stamps, every, stretch }),
        2 => packet.prop_map(Event::Packet),
        1 => Just(Event::Loss),
        1 => Just(Event::Timeout),
        1 => Just(Event::Recovered),
        1 => Just(Event::Undo),
        1 => Just(Event::Retransmission),
        1 => (any::<u64>(), 0_u32..64).prop_map(|(rtt, shift)| Event::Rtt(rtt >> shift)),
        1 => config().prop_map(Event::Configure),
    ]
}

/// Advances a stamp.
fn next_stamp(stamps: Stamps, now: u32) -> u32 {
    match stamps {
        Stamps::Zero => 0,
        Stamps::Equal => now,
        Stamps::Random(seed) => now.wrapping_mul(1_664_525).wrapping_add(seed | 1),
        Stamps::Backwards => now.wrapping_sub(10),
        Stamps::Forwards(step) => now.wrapping_add(step),
        Stamps::Leaping(step) => now.wrapping_add(step),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn no_rate_and_no_estimate_is_above_the_line_rate(
        config in config(),
        rtt in any::<u64>(),
        start in any::<u32>(),
        events in proptest::collection::vec(event(), 1..40),
    ) {
        let mut rapid = Rapid::new(config, rtt >> (rtt % 64));
        let mut stamp = start;
        for event in events {
            match event {
                Event::Stream { stamps, every, stretch } => {
                    let stream = rapid.next_stream();
                    for index in 0..stream.shape.len() {
                        stamp = next_stamp(stamps, stamp);
                        let stamp = if index % every == 0 { stamp } else { 0 };
                        let gap = stream.gap(index) * stretch;
                        rapid.on_packet(&Packet { gap, stream: stream.id, index, stamp, ..Packet::default() });
                        let latest = rapid.latest().map_or(0, |estimate| estimate.rate);
                        prop_assert!(latest <= rapid.config().line.max(config.bounded().line));
                    }
                }
                Event::Packet(packet) => {
                    rapid.on_packet(&packet);
                }
                Event::Loss => rapid.on_loss(),
                Event::Timeout => rapid.on_timeout(),
                Event::Recovered => {
                    rapid.on_recovered();
                }
                Event::Undo => rapid.on_undo(),
                Event::Retransmission => rapid.on_retransmission(),
                Event::Rtt(rtt) => rapid.on_rtt(rtt),
                // One line rate, so that the latest estimate has one to be compared with.
                Event::Configure(config) => rapid.set_config(Config { line: rapid.config().line, ..config }),
            }
            prop_assert!((MIN_RATE..=rapid.config().line).contains(&rapid.rate()));
            prop_assert!(rapid.config().line <= MAX_RATE);
        }
    }

    #[test]
    fn the_gaps_of_a_stream_sum_to_its_time_and_never_rise(
        rates in 1_u32..9, packets in 1_u32..192, ratio in 1_u32 << 15..=1 << 16,
        packet in 64_u32..65_574, rate in MIN_RATE..400_000_000_000,
    ) {
        let stream = Stream::new(Shape { rates, packets, ratio }, packet, rate >> (rate % 20));
        let gaps: Vec<u64> = (0..stream.shape.len()).map(|index| stream.gap(index)).collect();
        let bits = u128::from(stream.shape.len()) * u128::from(packet) * 8_000_000_000;
        let time = (bits + u128::from(stream.rate / 2)) / u128::from(stream.rate);
        prop_assert_eq!(u128::from(gaps.iter().sum::<u64>()), time);
        // Rates may be equal, and their times differ by 1 ns.
        prop_assert!(gaps.windows(2).all(|pair| pair[0] + 1 >= pair[1]));
    }
}

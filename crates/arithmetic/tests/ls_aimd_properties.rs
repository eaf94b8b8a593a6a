//! LS-AIMD: what holds in a million random states and for every threshold.

use headway_arithmetic::{
    Ack, Algorithm, Config, LARGEST_WINDOW, LsAimd, MAX_STRETCH, Q9, SCALE_ONE, UNLIMITED, add,
};
use proptest::prelude::*;

/// The increase in double precision.
fn exact_add(ssthresh: f64, exponent: u32) -> f64 {
    let k0 = f64::from(1_u32 << exponent);
    k0 * (ssthresh / (2.0 * k0) + 1.0).log2()
}

/// An event in the life of a connection.
#[derive(Clone, Debug)]
enum Event {
    Ack { acked: u32, marked: bool, cwnd_limited: bool, rtt: u64 },
    Loss,
    Timeout,
    Undo,
    Mss(u32),
}

fn event() -> impl Strategy<Value = Event> {
    let rtt = prop_oneof![Just(0), 1_u64..8_000_000_000];
    prop_oneof![
        12 => (0_u32..40, any::<bool>(), any::<bool>(), rtt)
            .prop_map(|(acked, marked, cwnd_limited, rtt)| Event::Ack { acked, marked, cwnd_limited, rtt }),
        1 => Just(Event::Loss),
        1 => Just(Event::Timeout),
        1 => Just(Event::Undo),
        1 => (1_u32..=65_535).prop_map(Event::Mss),
    ]
}

fn config() -> impl Strategy<Value = Config> {
    (any::<bool>(), 1_u32..=16, 0_u32..=SCALE_ONE, 1_u32..3000, 0_u32..2, 0_u32..2, 0_u32..2).prop_map(
        |(reno, delta, scale, floor, after_cut, linear, fixed_departures)| Config {
            algorithm: if reno { Algorithm::Reno } else { Algorithm::Dctcp },
            delta,
            scale,
            floor,
            after_cut,
            linear,
            fixed_departures,
        },
    )
}

proptest! {
    // With up to 100 events per case, a million states.
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn no_state_is_out_of_range(
        config in config(),
        window in 1_u32..100_000,
        mss in 1_u32..=65_535,
        start in any::<u32>(),
        events in proptest::collection::vec(event(), 1..100),
    ) {
        let mut ls = LsAimd::new(config, window, mss, start);
        let (mut una, mut next) = (start, start);
        for event in events {
            let before = ls.window();
            next = next.max(una.wrapping_add(ls.cwnd().min(1000)));
            match event {
                Event::Ack { acked, marked, cwnd_limited, rtt } => {
                    let acked = acked.min(next.wrapping_sub(una));
                    let in_flight = next.wrapping_sub(una);
                    una = una.wrapping_add(acked);
                    let marked = if marked { acked } else { 0 };
                    ls.on_ack(&Ack { una, next, acked, marked, in_flight, cwnd_limited: cwnd_limited.into(), rtt, ..Ack::default() });
                    if marked == 0 && acked <= MAX_STRETCH {
                        prop_assert!(ls.window() >= before.min(LARGEST_WINDOW << Q9), "unmarked windows do not shrink");
                    }
                }
                Event::Loss => {
                    ls.on_loss(next.wrapping_sub(una), una, next);
                }
                Event::Timeout => {
                    ls.on_timeout(una, next);
                    prop_assert!(ls.window() <= before.min(u64::from(ls.mss()) << Q9).max(u64::from(config.floor) << Q9));
                }
                Event::Undo => ls.undo(),
                Event::Mss(mss) => ls.set_mss(mss),
            }
            let clocked = ls.window() < u64::from(config.delta * ls.mss()) << Q9;
            prop_assert!(ls.window() >= u64::from(config.floor) << Q9);
            prop_assert!(ls.window() <= LARGEST_WINDOW << Q9);
            prop_assert_eq!(ls.is_clocked(), clocked);
            prop_assert!(ls.cwnd() >= 1);
            prop_assert!((0.0..=1.0).contains(&ls.alpha()) && (0.0..=1.0).contains(&ls.marks()));
            prop_assert!((1..=SCALE_ONE).contains(&ls.scale()));
            if ls.ssthresh() != UNLIMITED && config.linear == 0 {
                prop_assert!(u64::from(ls.add()) <= ls.ssthresh());
            }
        }
    }

    #[test]
    fn the_increase_is_exact_to_a_thousandth_and_monotone(ssthresh in 1_u64..1 << 30, more in 0_u64..1 << 20, exponent in 8_u32..=10) {
        let increase = add(ssthresh << Q9, exponent);
        let exact = exact_add(ssthresh as f64, exponent);
        // The last bit of the logarithm is worth 2^-16 k0.
        prop_assert!((f64::from(increase) / f64::from(1_u32 << Q9) - exact).abs() <= exact * 1e-3 + f64::from(1_u32 << exponent) / 2048.0);
        prop_assert!(add((ssthresh + more) << Q9, exponent) >= increase);
        prop_assert!(u64::from(increase) <= ssthresh << Q9);
    }
}

proptest! {
    /// ls-aimd F06: into the other regime and back with nothing else happening, the window stays, with what
    /// it has earned towards the next whole segment; so does ssthresh.
    #[test]
    fn a_switch_of_the_regime_and_back_loses_nothing(
        segments in 2_u32..14,
        mss in 1_000_u32..9_000,
        acked in 0_u32..14,
        way in 0_u32..3,
    ) {
        let config = Config { linear: 1, ..Config::new(Algorithm::Reno) };
        let mut ls = LsAimd::new(config, 2 * segments, mss, 0);
        // Out of slow start.
        ls.on_loss(2 * segments, 0, 1);
        let (acked, segment) = (acked % segments, u64::from(mss) << Q9);
        ls.on_ack(&Ack { una: 1, next: 1, acked, cwnd_limited: 1, ..Ack::default() });
        let ssthresh = u64::from(segments) * segment;
        prop_assert_eq!((ls.window(), ls.ssthresh(), ls.is_clocked()), (ssthresh, ssthresh, false));
        // A timeout or a loss that was spurious, or another size of segments for a while.
        match way {
            0 => { ls.on_timeout(2, 3); }
            1 => { ls.on_loss(1, 2, 3); }
            _ => ls.set_mss(65_000),
        }
        prop_assert!(ls.is_clocked());
        if way < 2 { ls.undo() } else { ls.set_mss(mss) }
        prop_assert_eq!((ls.ssthresh(), ls.is_clocked()), (ssthresh, false));
        let earned = u64::from(acked) * segment / u64::from(segments);
        prop_assert_eq!(ls.window(), ssthresh + earned);
    }
}

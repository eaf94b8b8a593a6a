//! LS-AIMD: the specification's vectors and single events.

use headway_arithmetic::{
    Ack, Algorithm, Config, LsAimd, Q9, SCALE_ONE, UNLIMITED, add, automatic_scale, growth_exponent, log2,
};

const JUMBO: u32 = 8948;
const ETHERNET: u32 = 1448;
const RENO: Config = Config::new(Algorithm::Reno);
const DCTCP: Config = Config::new(Algorithm::Dctcp);

/// A connection and its position in the sequence space, in segments.
struct Connection {
    ls: LsAimd,
    una: u32,
    next: u32,
}

impl Connection {
    fn new(config: Config, window: u32, mss: u32) -> Connection {
        Connection { ls: LsAimd::new(config, window, mss, 0), una: 0, next: 0 }
    }

    /// Returns a connection that losses have taken out of slow start, with a window of
    /// `segments` or slightly less.
    fn at(config: Config, mss: u32, segments: f64) -> Connection {
        let halvings = (256.0 / segments).log2().floor();
        let mut connection = Connection::new(config, (segments * 2.0_f64.powf(halvings)) as u32, mss);
        connection.ls.on_ack(&Ack { rtt: 1_000_000, ..Ack::default() });
        // Everything in flight is acknowledged in between, so each loss starts a new episode.
        for _ in 0..halvings as u32 {
            assert!(connection.ls.on_loss(u32::MAX, connection.una, connection.una));
        }
        connection
    }

    /// Sends a window (one segment while the clock is on) and acknowledges `acked`
    /// segments, all marked or none.
    fn ack(&mut self, acked: u32, marked: bool) {
        self.next = self.next.max(self.una + self.ls.cwnd().max(acked));
        if self.ls.is_clocked() {
            self.next = self.una + acked;
        }
        self.acknowledge(acked, marked);
    }

    fn acknowledge(&mut self, acked: u32, marked: bool) {
        let in_flight = self.next - self.una;
        self.una += acked;
        let marked = if marked { acked.max(1) } else { 0 };
        let (una, next) = (self.una, self.next);
        self.ls.on_ack(&Ack {
            una,
            next,
            acked,
            marked,
            in_flight,
            cwnd_limited: 1,
            rtt: 1_000_000,
            ..Ack::default()
        });
    }

    fn bytes(&self) -> f64 {
        bytes(self.ls.window())
    }

    fn segments(&self) -> f64 {
        self.bytes() / f64::from(self.ls.mss())
    }
}

fn bytes(q9: u64) -> f64 {
    q9 as f64 / f64::from(1_u32 << Q9)
}

/// ls-aimd 2.7.
#[test]
fn the_increase_has_the_published_values() {
    let vectors = [
        (1, 368, 368),
        (2, 736, 736),
        (16, 5818, 5880),
        (100, 33_736, 36_048),
        (512, 131_072, 168_776),
        (724, 166_652, 228_952),
        (1448, 253_838, 404_472),
        (2236, 317_738, 558_224),
        (2896, 358_442, 666_608),
        (8948, 551_500, 1_271_232),
        (10_000, 571_440, 1_340_336),
        (28_960, 766_384, 2_055_392),
        (89_480, 977_468, 2_874_104),
        (1_448_000, 1_502_888, 4_963_776),
    ];
    for (ssthresh, ethernet, jumbo) in vectors {
        assert_eq!((add(ssthresh << Q9, 8), add(ssthresh << Q9, 10)), (ethernet, jumbo), "S = {ssthresh} B");
    }
}

/// ls-aimd F21: with nine bits a window of 2 B of jumbo segments would never grow again.
#[test]
fn nine_bits_of_logarithm_would_not_do() {
    let with = |bits: u32| (log2((2 + 2048) << bits, bits) - (11 << bits)) << 10;
    assert_eq!(with(9), 0);
    assert!(with(16) > 0);
}

#[test]
fn constants_follow_the_segment_size_and_keep_the_increase_below_the_threshold() {
    assert_eq!([536, ETHERNET, 4000, JUMBO, 65_495].map(|mss| growth_exponent(mss)), [8, 8, 9, 10, 10]);
    // The increase is steepest at S = 1 B, where it is 0.72 B.
    for exponent in [8, 9, 10] {
        assert!(add(1 << Q9, exponent) < 1 << Q9);
    }
}

/// ls-aimd F05: the clock is on exactly below two segments.
#[test]
fn the_clock_decides_below_two_segments() {
    let mut connection = Connection::at(RENO, ETHERNET, 0.5);
    let mut crossed = false;
    for _ in 0..2000 {
        connection.ack(1, false);
        let below = connection.ls.window() < u64::from(2 * ETHERNET) << Q9;
        assert_eq!(connection.ls.is_clocked(), below);
        assert_eq!(connection.ls.cwnd(), if below { 2 } else { connection.segments() as u32 });
        crossed |= !below;
    }
    assert!(crossed);
}

/// ls-aimd F07.
#[test]
fn the_gap_is_a_segment_at_the_rate_of_the_window() {
    let connection = Connection::at(RENO, ETHERNET, 0.5);
    let gap = connection.ls.gap(ETHERNET) as f64;
    let expected = 1e6 * f64::from(ETHERNET) / connection.bytes();
    assert!((gap / expected - 1.0).abs() < 1e-6, "{gap} of {expected}");
    assert_eq!(LsAimd::new(RENO, 1, ETHERNET, 0).gap(ETHERNET), 0, "before the first round-trip time");
}

/// ls-aimd F04.
#[test]
fn marks_never_take_a_window_below_its_floor() {
    for mss in [ETHERNET, JUMBO] {
        let mut connection = Connection::new(Config { scale: 512, ..RENO }, 10, mss);
        for _ in 0..100 {
            connection.ack(1, true);
            assert!(connection.ls.window() >= 2 << Q9);
        }
    }
    let mut high = Connection::new(Config { floor: 700, scale: 2, ..RENO }, 10, ETHERNET);
    (0..100).for_each(|_| high.ack(1, true));
    assert!((700.0..710.0).contains(&high.bytes()), "{}", high.bytes());
}

/// ls-aimd F29, F30 and F31.
#[test]
fn the_first_mark_of_a_round_cuts_at_once_and_the_others_do_not() {
    let mut reno = Connection::new(RENO, 40, ETHERNET);
    reno.next = 40;
    (0..10).for_each(|_| reno.acknowledge(1, true));
    assert_eq!(reno.ls.cwnd(), 20);
    assert_eq!(bytes(reno.ls.ssthresh()), f64::from(20 * ETHERNET));

    let mut dctcp = Connection::new(DCTCP, 40, ETHERNET);
    dctcp.next = 40;
    dctcp.acknowledge(40, false);
    let alpha = dctcp.ls.alpha();
    assert_eq!(alpha, 15.0 / 16.0);
    let before = dctcp.bytes();
    dctcp.next = 40 + dctcp.ls.cwnd();
    dctcp.acknowledge(1, true);
    assert!((dctcp.bytes() / (before * (1.0 - dctcp.ls.alpha() / 2.0)) - 1.0).abs() < 1e-4);
}

/// ls-aimd F32: with one segment in flight every ACK ends a round.
#[test]
fn every_mark_cuts_while_one_segment_is_in_flight() {
    let mut connection = Connection::at(Config { scale: 1, ..RENO }, JUMBO, 1.5);
    for _ in 0..8 {
        let before = connection.bytes();
        connection.ack(1, true);
        assert!((connection.bytes() / before - 0.5).abs() < 0.01);
    }
}

/// ls-aimd F25 and F26: the growth per round trip does not depend on the regime.
#[test]
fn the_increase_of_a_round_trip_is_the_same_in_both_regimes() {
    for (mss, segments) in [(ETHERNET, 0.3), (JUMBO, 0.3), (JUMBO, 1.0), (ETHERNET, 1.8), (JUMBO, 20.0)] {
        let config = Config { scale: 256, ..RENO };
        let mut connection = Connection::at(config, mss, segments);
        let increase = f64::from(connection.ls.add()) / 512.0 / 256.0;
        let (before, mut round_trips) = (connection.bytes(), 0.0);
        while round_trips < 40.0 {
            round_trips += 1.0 / connection.segments();
            connection.ack(1, false);
        }
        let mut grown = connection.bytes() - before;
        if !connection.ls.is_clocked() {
            // Less than a segment is left over as credit.
            grown = grown.max((increase * round_trips / f64::from(mss)).floor() * f64::from(mss));
            assert!(increase * round_trips - grown < f64::from(mss));
        } else {
            assert!((grown / (increase * round_trips) - 1.0).abs() < 0.02, "{mss} {segments}: {grown}");
        }
    }
}

/// ls-aimd F27.
#[test]
fn a_marked_round_grows_too() {
    let mut connection = Connection::at(RENO, ETHERNET, 0.9);
    let before = connection.bytes();
    connection.ack(1, true);
    let increase = f64::from(connection.ls.add()) / 512.0;
    let expected = before / 2.0 + increase * f64::from(ETHERNET) / before;
    assert!((connection.bytes() / expected - 1.0).abs() < 1e-3);
    let mut after = Connection::at(Config { after_cut: 1, ..RENO }, ETHERNET, 0.9);
    let before = after.bytes();
    after.ack(1, true);
    let expected = before / 2.0 + f64::from(after.ls.add()) / 512.0 * f64::from(ETHERNET) / (before / 2.0);
    assert!((after.bytes() / expected - 1.0).abs() < 1e-3);
}

/// ls-aimd F34.
#[test]
fn slow_start_doubles_until_the_first_mark_and_does_not_below_two_segments() {
    let mut connection = Connection::new(DCTCP, 10, ETHERNET);
    for round in 1..6 {
        connection.ack(connection.ls.cwnd(), false);
        assert_eq!(connection.ls.cwnd(), 10 << round);
    }
    connection.ls.on_timeout(connection.una, connection.next);
    let before = connection.bytes();
    assert_eq!(before, f64::from(ETHERNET));
    connection.ack(1, false);
    assert!(connection.ls.is_clocked() || connection.bytes() <= 2.0 * before);
}

/// ls-aimd F35: ACKs for less than a segment do not count.
#[test]
fn divided_acknowledgements_do_not_grow_a_window() {
    let mut connection = Connection::at(RENO, ETHERNET, 0.7);
    let before = connection.ls.window();
    for _ in 0..10 {
        connection.ack(0, false);
    }
    assert_eq!(connection.ls.window(), before);
}

/// ls-aimd F36.
#[test]
fn a_timeout_restarts_from_one_segment_with_the_clock_on() {
    let mut connection = Connection::new(RENO, 20, JUMBO);
    assert!(connection.ls.on_timeout(0, 20));
    assert_eq!(connection.ls.window(), u64::from(JUMBO) << Q9);
    assert!(connection.ls.is_clocked());
    let ssthresh = connection.ls.ssthresh();
    assert!(!connection.ls.on_timeout(0, 20), "the same flight");
    assert_eq!(connection.ls.ssthresh(), ssthresh);
    connection.ls.undo();
    assert_eq!((connection.ls.window(), connection.ls.ssthresh()), (u64::from(20 * JUMBO) << Q9, UNLIMITED));
}

#[test]
fn a_window_does_not_grow_while_losses_are_recovered() {
    for segments in [0.5, 20.0] {
        let mut connection = Connection::at(RENO, ETHERNET, segments);
        let before = connection.ls.window();
        for in_recovery in [1, 0] {
            for una in 1..100 {
                connection.ls.on_ack(&Ack {
                    una,
                    next: una,
                    acked: 1,
                    cwnd_limited: 1,
                    in_recovery,
                    ..Ack::default()
                });
            }
            assert_eq!(connection.ls.window() == before, in_recovery == 1);
        }
    }
}

/// RFC 5681 3.1 allows at most one segment after a timeout; a window below that stays as small as it is.
#[test]
fn a_timeout_does_not_raise_a_small_window() {
    for segments in [0.036, 0.7, 3.0] {
        let mut connection = Connection::at(RENO, JUMBO, segments);
        let expected = (connection.ls.window() / 2).min(u64::from(JUMBO) << Q9);
        connection.next = connection.una + 2;
        assert!(connection.ls.on_timeout(connection.una, connection.next));
        assert_eq!(connection.ls.window(), expected);
        // The timer expires again for the same segments.
        assert!(!connection.ls.on_timeout(connection.una, connection.next));
        assert_eq!(connection.ls.window(), expected);
    }
}

/// RFC 8257 3.5.
#[test]
fn a_loss_halves_a_window_that_a_mark_of_the_same_flight_has_cut() {
    let mut connection = Connection::new(DCTCP, 40, ETHERNET);
    connection.ack(40, false);
    connection.next = connection.una + 80;
    connection.acknowledge(1, true);
    let cut = connection.bytes();
    let (una, next) = (connection.una, connection.next);
    // The mark has already reduced ssthresh for this flight, so a timeout does not reduce it again.
    let mut expired = connection.ls.clone();
    assert!(!expired.on_timeout(una, next));
    assert_eq!(expired.ssthresh(), connection.ls.ssthresh());
    assert!(connection.ls.on_loss(80, una, next));
    assert_eq!(connection.bytes(), cut / 2.0);
    // Further marks and losses of the same flight cause no further cut.
    connection.acknowledge(1, true);
    assert!(!connection.ls.on_loss(80, connection.una, next));
    assert!(!connection.ls.on_timeout(connection.una, next));
    assert!(connection.ls.on_loss(80, next, next + 80), "another episode");
}

/// Byte sequence numbers wrap after 4 GiB; after 2 GiB without a reduction the last one seemed
/// to lie in the future.
#[test]
fn marks_and_losses_are_heard_however_long_ago_the_last_reduction_was() {
    const STEP: u32 = 1 << 20;
    for start in [0, u32::MAX - STEP / 2, 1 << 31] {
        let mut ls = LsAimd::new(DCTCP, 100, ETHERNET, start);
        let mut una = start;
        let mut advance = |ls: &mut LsAimd, marked| {
            una = una.wrapping_add(STEP);
            let acked = STEP / ETHERNET;
            let next = una.wrapping_add(STEP);
            (ls.on_ack(&Ack { una, next, acked, marked, in_flight: acked, ..Ack::default() }), una, next)
        };
        assert!(advance(&mut ls, 1).0);
        for _ in 0..5 << (32 - STEP.ilog2()) {
            let (_, una, next) = advance(&mut ls, 0);
            assert!(ls.clone().on_loss(9, una, next) && ls.clone().on_timeout(una, next), "at {una}");
            let (una, next) = (una.wrapping_add(1), next.wrapping_add(1));
            assert!(
                ls.clone().on_ack(&Ack { una, next, acked: 1, marked: 1, in_flight: 9, ..Ack::default() }),
                "at {una}"
            );
        }
    }
}

/// ls-aimd 2.1: the window is kept in bytes.
#[test]
fn another_segment_size_leaves_the_window_alone() {
    let mut connection = Connection::at(RENO, ETHERNET, 3.5);
    let before = connection.ls.window();
    connection.ls.set_mss(JUMBO);
    assert_eq!(connection.ls.window(), before);
    assert!(connection.ls.is_clocked());
    assert_eq!(connection.ls.add(), add(connection.ls.ssthresh(), 10));
}

/// ls-aimd F37 and F39.
#[test]
fn without_the_logarithm_it_is_additive_increase_with_a_small_window() {
    let mut connection = Connection::at(Config { linear: 1, ..RENO }, ETHERNET, 0.8);
    let before = connection.bytes();
    connection.ack(1, false);
    let expected = before + f64::from(ETHERNET) * f64::from(ETHERNET) / before;
    assert!((connection.bytes() / expected - 1.0).abs() < 1e-3);
}

#[test]
fn an_automatic_scale_falls_with_the_fraction_of_marks() {
    let scale =
        |algorithm, marks: f64| automatic_scale(algorithm, (marks * f64::from(1 << 20)) as u32, false);
    assert_eq!([0.0, 0.2, 0.5].map(|marks| scale(Algorithm::Dctcp, marks)), [SCALE_ONE; 3]);
    assert_eq!([0.0, 0.0199].map(|marks| scale(Algorithm::Reno, marks)), [SCALE_ONE; 2]);
    let halvings = [
        (Algorithm::Dctcp, 0.5625, 1),
        (Algorithm::Dctcp, 0.75, 4),
        (Algorithm::Dctcp, 1.0, 8),
        (Algorithm::Reno, 0.05, 6),
    ];
    for (algorithm, marks, halvings) in halvings {
        let (found, expected) = (scale(algorithm, marks), SCALE_ONE >> halvings);
        assert!(found.abs_diff(expected) <= expected / 100 + 1, "{algorithm:?} {marks}: {found}");
    }
}

/// Where departures cannot be moved, marks cut the window by a quarter as much, but only
/// while segments are paced.
#[test]
fn late_departures_are_answered_gently_below_two_segments() {
    let cut = |config: Config, segments: f64| {
        let mut connection = Connection::at(config, JUMBO, segments);
        let before = connection.bytes();
        connection.ls.on_ack(&Ack { una: 1, next: 1, acked: 1, marked: 1, in_flight: 1, ..Ack::default() });
        (before - connection.bytes()) / before
    };
    let automatic = Config { scale: 0, ..DCTCP };
    let fixed = Config { fixed_departures: 1, ..automatic };
    assert!((cut(fixed, 0.5) / cut(automatic, 0.5) - 0.25).abs() < 1e-3);
    assert!((cut(fixed, 5.0) / cut(automatic, 5.0) - 1.0).abs() < 1e-9);
    // With a fixed C the published algorithm applies.
    let published = Config { fixed_departures: 1, ..DCTCP };
    assert!((cut(published, 0.5) / cut(DCTCP, 0.5) - 1.0).abs() < 1e-9);
}

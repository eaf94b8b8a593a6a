//! Whether a receiver's timestamps tell when segments arrived (rapid 2.6, 2.14, F21, F22).

use headway_arithmetic::rapid::{Clock, Stamps};

const MS: u64 = 1_000_000;
const RTT: u64 = 20 * MS;

/// Feeds an ACK every millisecond from `from` ms to `to` ms, with timestamps by `stamp` of microseconds;
/// returns the times, in ms, at which all that was known became void.
fn feed(clock: &mut Clock, from: u64, to: u64, stamp: impl Fn(u64) -> u32) -> Vec<u64> {
    (from..to).filter(|&ms| clock.on_ack(stamp(ms * 1000), ms * MS + RTT / 2, RTT)).collect()
}

/// A receiver's clock of microseconds that began at any number.
fn microseconds(at: u64) -> u32 {
    (at as u32).wrapping_add(0xffff_0000)
}

#[test]
fn microseconds_are_known_after_a_window_and_stay_known_over_a_wrap() {
    let mut clock = Clock::default();
    assert_eq!(feed(&mut clock, 0, 1000, microseconds), [50]);
    assert_eq!(clock.stamps(), Stamps::Microseconds);
    // 0x10000 us after the begin.
    assert!(microseconds(65_536) < microseconds(65_535));
}

#[test]
fn milliseconds_and_frozen_timestamps_are_none() {
    let of: [fn(u64) -> u32; 3] = [|at| (at / 1000) as u32, |_| 7, |at| (at * 1000) as u32];
    for stamp in of {
        let mut clock = Clock::default();
        assert_eq!(feed(&mut clock, 0, 1000, stamp), [0; 0]);
        assert_eq!(clock.stamps(), Stamps::None);
    }
}

#[test]
fn timestamps_that_freeze_later_become_none() {
    let mut clock = Clock::default();
    feed(&mut clock, 0, 500, microseconds);
    let void = feed(&mut clock, 500, 1500, |_| microseconds(500_000));
    assert_eq!(void.len(), 1, "{void:?}");
    assert!((600..=700).contains(&void[0]), "{void:?}");
    assert_eq!(clock.stamps(), Stamps::None);
}

#[test]
fn a_clock_that_is_moved_forward_voids_what_was_known() {
    let mut clock = Clock::default();
    feed(&mut clock, 0, 500, microseconds);
    // Less than the RTT may be a fast ACK.
    assert_eq!(feed(&mut clock, 500, 600, |at| microseconds(at + 10_000)), [0; 0]);
    assert_eq!(feed(&mut clock, 600, 700, |at| microseconds(at + 40_000)), [600]);
    assert_eq!(clock.stamps(), Stamps::Microseconds);
    assert_eq!(feed(&mut clock, 700, 800, |at| microseconds(at + 3_000_000)), [700]);
    // One that jumps again and again is none.
    assert_eq!(feed(&mut clock, 800, 900, |at| microseconds(at + 4_000_000)), [800]);
    assert_eq!(clock.stamps(), Stamps::None);
}

#[test]
fn a_path_that_stands_still_does_not_disprove_timestamps() {
    let mut clock = Clock::default();
    feed(&mut clock, 0, 500, microseconds);
    // ACKs of a second arrive at once, and others follow.
    for at in 500..1500 {
        assert!(!clock.on_ack(microseconds(at * 1000), 1500 * MS, RTT));
    }
    assert_eq!(feed(&mut clock, 1500, 3000, microseconds), [0; 0]);
    assert_eq!(clock.stamps(), Stamps::Microseconds);
}

#[test]
fn clocks_that_drift_are_followed() {
    for ppm in [-200_i64, 200] {
        let mut clock = Clock::default();
        let drifting = |at: u64| microseconds((at as i64 + at as i64 * ppm / 1_000_000) as u64);
        assert_eq!(feed(&mut clock, 0, 600_000, drifting).len(), 1);
        assert_eq!(clock.stamps(), Stamps::Microseconds);
    }
}

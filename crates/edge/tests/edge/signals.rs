//! What others say of the link, and what it does to shares.

use headway_edge::{Monitor, Policy, Shares, Signals};
use headway_units::{Duration, Instant, Rate, Side};

const SECOND: u64 = 1_000_000_000;

fn at(seconds: u64) -> Instant {
    Instant::from_ns(seconds * SECOND)
}

#[test]
fn a_line_is_an_estimate_with_its_interval_and_age() {
    let mut signals = Signals::default();
    let line = r#"{"path":"down","available_bps":20000000,"low_bps":18000000,"high_bps":22000000,"age_ms":1500,"source":"modem"}"#;
    signals.take(at(10), line).unwrap();
    signals.take(at(10), r#"{"path":"up","available_bps":5000000}"#).unwrap();
    let [down, up] = Side::BOTH.map(|side| signals.states(at(11), side).collect::<Vec<_>>());
    assert_eq!((down[0].rate_bps, down[0].low_bps, down[0].high_bps), (20_000_000, 18_000_000, 22_000_000));
    assert_eq!((down[0].age_ms, down[0].source.as_str()), (2_500, "modem"));
    assert_eq!((up[0].low_bps, up[0].high_bps, up[0].source.as_str()), (5_000_000, 5_000_000, "signal"));
    // A minute later nothing of it is shown.
    assert_eq!(signals.states(at(71), Side::Lan).count(), 0);
}

#[test]
fn wrong_lines_change_nothing_and_say_why() {
    let mut signals = Signals::default();
    for (line, words) in [
        ("", "EOF"),
        ("[]", "invalid"),
        (r#"{"path":"left","available_bps":1}"#, "unknown variant `left`"),
        (r#"{"path":"down"}"#, "missing field `available_bps`"),
        (r#"{"path":"down","available_bps":-1}"#, "invalid value"),
        (r#"{"path":"down","available_bps":0}"#, "must be above 0"),
        (r#"{"path":"down","available_bps":5,"low_bps":6}"#, "must be from `low_bps` to `high_bps`"),
        (r#"{"path":"down","available_bps":5,"high_bps":4}"#, "must be from `low_bps` to `high_bps`"),
        (r#"{"path":"down","available_bps":5,"speed":6}"#, "unknown field `speed`"),
        (r#"{"path":"down","available_bps":5,"source":"\u001b[2J"}"#, "no control characters"),
    ] {
        let error = signals.take(at(10), line).unwrap_err();
        assert!(error.contains(words), "{line}: {error}");
    }
    assert_eq!(signals.states(at(10), Side::Lan).count(), 0);
}

#[test]
fn many_sources_take_no_more_room_and_the_oldest_goes() {
    let mut signals = Signals::default();
    for number in 0..1000 {
        let line = format!(r#"{{"path":"down","available_bps":{},"source":"{number}"}}"#, number + 1);
        signals.take(at(10) + Duration::from_ms(number), &line).unwrap();
    }
    let names: Vec<String> = signals.states(at(11), Side::Lan).map(|state| state.source).collect();
    assert_eq!(names, (992..1000).map(|number| number.to_string()).collect::<Vec<_>>());
    // An age beyond all clocks is only old.
    let old = format!(r#"{{"path":"down","available_bps":1,"age_ms":{}}}"#, u64::MAX);
    signals.take(at(100), &old).unwrap();
    assert_eq!(signals.states(at(100), Side::Lan).count(), 0);
}

#[test]
fn shares_are_of_what_a_fresh_signal_says_and_of_a_tenth_of_the_link_at_least() {
    let mut monitor = Monitor::new(&Policy::default(), Some([Rate::from_mbps(50.0), Rate::from_mbps(10.0)]));
    let mut available = |now: u64, line: &str| {
        monitor.signals().take(at(now), line).unwrap();
        let treatments = monitor.look(at(now), Vec::new(), &Shares::default());
        let available = treatments.rates.available;
        assert_eq!(
            monitor.link(at(now), Side::Lan).followed,
            available[Side::Lan].map(|_| "signal".to_owned())
        );
        available
    };
    // Of the rate given, this is data.
    let down = |mbps: f64| [Some(Rate::from_mbps(mbps).scale(Policy::default().payload())), None];
    assert_eq!(available(10, r#"{"path":"down","available_bps":20000000}"#), down(20.0));
    // More than the link carries is no limit.
    assert_eq!(available(11, r#"{"path":"down","available_bps":900000000}"#), [None, None]);
    assert_eq!(available(12, r#"{"path":"down","available_bps":1}"#), down(5.0));
    // What is five seconds old does not count.
    let old = r#"{"path":"down","available_bps":20000000,"age_ms":5000}"#;
    assert_eq!(available(13, old), [None, None]);
}

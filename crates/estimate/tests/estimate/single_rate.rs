//! Single-rate estimators, evaluated on the path model.

use crate::support::{CAPACITY, PACKET, Path, gbps, same_rate, send};
use headway_estimate::Gaps;
use headway_estimate::{Decision, LengthTuning, Scratch, Settings, SingleRate, prc_mt};
use headway_units::{Duration, Rate};

/// The rates of the study (rapid 4.2, B2), in Gb/s.
const RATES: [f64; 9] = [5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 8.5, 9.0];

/// Wrong, ambiguous and refused streams, in percent.
struct Score {
    wrong: f64,
    ambiguous: f64,
    refused: f64,
}

fn score(method: SingleRate, settings: &Settings, path: Path, rate: f64, gaps: usize) -> Score {
    let streams = 300;
    let observed = send(path, &same_rate(streams, rate, gaps), None);
    let mut scratch = Scratch::default();
    let (mut wrong, mut ambiguous, mut refused) = (0, 0, 0);
    for stream in &observed {
        let truth = if gbps(rate) > stream.available { Decision::Above } else { Decision::NotAbove };
        match method.decide(&stream.record, settings, &mut scratch) {
            Ok(Decision::Ambiguous) => ambiguous += 1,
            Ok(decision) => wrong += usize::from(decision != truth),
            Err(_) => refused += 1,
        }
    }
    let percent = |count: usize| 100.0 * count as f64 / streams as f64;
    Score { wrong: percent(wrong), ambiguous: percent(ambiguous), refused: percent(refused) }
}

/// Returns the scores at each of the rates.
fn score_all(method: SingleRate, settings: &Settings, path: Path, gaps: usize) -> [Score; 9] {
    let scores = RATES.map(|rate| score(method, settings, path, rate, gaps));
    println!(
        "{} N {gaps}: wrong {:.0?} ambiguous {:.0?} refused {:.0?}",
        method.name(),
        scores.each_ref().map(|score| score.wrong),
        scores.each_ref().map(|score| score.ambiguous),
        scores.each_ref().map(|score| score.refused)
    );
    scores
}

/// Returns the percentage of wrong decisions at each rate.
fn wrong(scores: &[Score; 9]) -> [f64; 9] {
    scores.each_ref().map(|score| score.wrong)
}

/// Returns the worst percentage at rates more than 0.75 Gb/s away from the available 7.53 Gb/s.
fn worst_away(wrong: [f64; 9]) -> f64 {
    RATES
        .iter()
        .zip(wrong)
        .filter(|(rate, _)| (**rate - 7.53).abs() > 0.75)
        .map(|(_, wrong)| wrong)
        .fold(0.0, f64::max)
}

#[test]
fn raw_prc_mt_needs_long_streams_and_bass_does_not() {
    let (settings, path) = (Settings::default(), Path::usual(40));
    let long = worst_away(wrong(&score_all(SingleRate::PrcMt, &settings, path, 320)));
    let short = worst_away(wrong(&score_all(SingleRate::PrcMt, &settings, path, 64)));
    let bass = worst_away(wrong(&score_all(SingleRate::BassPrcMt, &settings, path, 64)));
    let bass_32 = worst_away(wrong(&score_all(SingleRate::BassPrcMt, &settings, path, 32)));
    assert!(long <= 10.0);
    assert!(short >= 30.0);
    assert!(bass <= 10.0);
    assert!(bass_32 > bass);
}

#[test]
fn with_zero_tolerance_half_of_the_streams_below_are_misjudged() {
    let settings = Settings { tolerance: 0.0, ..Settings::default() };
    let wrong = wrong(&score_all(SingleRate::BassPrcMt, &settings, Path::usual(40), 64));
    assert!(wrong[..4].iter().all(|wrong| (30.0..70.0).contains(wrong)));
}

#[test]
fn imr_is_often_ambiguous_and_bass_lowers_its_error() {
    let (settings, path) = (Settings::default(), Path { batch: 12.4, ..Path::usual(41) });
    let raw =
        [SingleRate::ImrAvg, SingleRate::ImrWavelet].map(|method| score_all(method, &settings, path, 320));
    let bass = [SingleRate::BassImrAvg, SingleRate::BassImrWavelet]
        .map(|method| score_all(method, &settings, path, 320));
    let above = |scores: &[Score; 9]| scores[6..].iter().map(|score| score.wrong).fold(0.0, f64::max);
    for (raw, bass) in raw.iter().zip(&bass) {
        let ambiguous = raw.iter().map(|score| score.ambiguous).sum::<f64>() / 9.0;
        println!(
            "ambiguous {ambiguous:.0} %; wrong above 7.5 Gb/s: {:.0} %, with BASS {:.0} %",
            above(raw),
            above(bass)
        );
        assert!(ambiguous > 30.0);
        assert!(above(bass) < above(raw));
        assert!(worst_away(wrong(bass)) <= 15.0);
    }
    // rapid A1: from more than 30 % wrong to less than 10 %.
    assert!(above(&raw[1]) > 25.0 && above(&bass[1]) < 12.0);
}

/// Returns the received rates of `streams` streams of `length` packets sent at `rate`.
fn received(path: Path, rate: Rate, length: u32, streams: usize) -> Vec<Rate> {
    let schedules = same_rate(streams, rate.mbps() / 1e3, length as usize);
    let mut gaps = Gaps::default();
    send(path, &schedules, Some(Duration::from_ms(10)))
        .iter()
        .map(|stream| {
            stream.record.gaps(&mut gaps).expect("nothing is lost");
            Rate::of(PACKET * gaps.len() as u64, gaps.receive.iter().copied().sum()).expect("time passes")
        })
        .collect()
}

#[test]
fn length_tuning_asks_for_hundreds_of_packets_under_bursty_cross_traffic() {
    let mut lengths: Vec<u32> = (0..41u64)
        .map(|seed| {
            let path = |turn| Path { batch: 12.4, ..Path::usual(1_000 * seed + turn) };
            let adr = received(path(0), CAPACITY, 3_000, 1)[0];
            let mut tuning = LengthTuning::new();
            let mut turn = 1;
            while let Some(length) = tuning.next_length() {
                let pair = received(path(turn), adr, length, 2);
                tuning.observe(pair[0], pair[1], adr);
                turn += 1;
            }
            tuning.length()
        })
        .collect();
    lengths.sort_unstable();
    let median = lengths[lengths.len() / 2];
    println!("lengths {lengths:?}, median {median}");
    assert!((200..=600).contains(&median));
}

#[test]
fn prc_mt_on_a_path_without_noise_is_right_at_every_rate() {
    for rate in RATES {
        let path = Path { coalescing: Duration::ZERO, ..Path::usual(1) };
        let observed = send(path, &same_rate(20, rate, 320), None);
        let mut gaps = Gaps::default();
        for stream in observed.iter().filter(|stream| (stream.available.mbps() - rate * 1e3).abs() > 700.0) {
            stream.record.gaps(&mut gaps).expect("nothing is lost");
            let above = gbps(rate) > stream.available;
            let expected = if above { Decision::Above } else { Decision::NotAbove };
            assert_eq!(prc_mt::decide(&gaps.send, &gaps.receive, prc_mt::TOLERANCE), Ok(expected));
        }
    }
}

//! Models that judge the rate of a stream.

use std::collections::BTreeMap;

use headway_estimate::{Decision, SingleRate};
use headway_figures::{Curve, Figure, Panel};
use headway_learned::Model;

use super::{LearnedStreams, Numbers, Others, Seen, answers};
use crate::outcome::Findings;
use crate::statistics::{largest, mean};

/// Rates farther than this from what is available on average count as easy (rapid 4.6, H5), Gb/s.
const AWAY: f64 = 0.75;
/// Names of the numbers for each tenth of a Gb/s, which a figure shows.
const AT: [&str; 9] =
    ["at-5.0", "at-5.5", "at-6.0", "at-6.5", "at-7.0", "at-7.5", "at-8.0", "at-8.5", "at-9.0"];

/// Verdicts: the rate, Gb/s, what was available, and whether the verdict was wrong.
type Verdicts = Vec<(f64, f64, bool)>;

pub(super) fn score(numbers: &mut Numbers, who: &str, model: &Model, streams: &[Seen]) {
    let verdict = |(stream, above): (&headway_dataset::streams::Stream, f64)| {
        (
            stream.record.average.mbps() / 1e3,
            stream.available.mbps() / 1e3,
            (above > 0.5) != stream.is_above(),
        )
    };
    add(numbers, who, &answers(model, streams).map(verdict).collect());
}

/// Scores PRC-MT after BASS, and whoever knows the more frequent verdict at each rate and looks at no stream.
pub(super) fn score_others(
    numbers: &mut Numbers,
    who: &dyn Fn(&str) -> String,
    streams: &[Seen],
    others: &mut Others,
) {
    let judge = |verdict: &mut dyn FnMut(&Seen) -> Option<bool>| -> Verdicts {
        let verdict = |seen: &Seen| {
            let stream = &seen.stream;
            let wrong = verdict(seen)? != stream.is_above();
            Some((stream.record.average.mbps() / 1e3, stream.available.mbps() / 1e3, wrong))
        };
        streams.iter().filter_map(verdict).collect()
    };
    let bass = judge(&mut |seen| {
        let decided =
            SingleRate::BassPrcMt.decide(&seen.stream.record, &others.settings, &mut others.scratch);
        decided.ok().map(|decision| decision == Decision::Above)
    });
    add(numbers, &who("bass-prc-mt"), &bass);
    let mut above: BTreeMap<i64, (usize, usize)> = BTreeMap::new();
    let rate = |seen: &Seen| (seen.stream.record.average.mbps() / 10.0).round() as i64;
    for seen in streams {
        let (yes, all) = above.entry(rate(seen)).or_default();
        *yes += usize::from(seen.stream.is_above());
        *all += 1;
    }
    let usual = judge(&mut |seen| above.get(&rate(seen)).map(|(yes, all)| 2 * yes > *all));
    add(numbers, &who("null"), &usual);
}

fn add(numbers: &mut Numbers, who: &str, verdicts: &Verdicts) {
    let wrong = |chosen: &dyn Fn(f64) -> bool| {
        let some = verdicts.iter().filter(|(rate, ..)| chosen(*rate));
        let some: Vec<f64> = some.map(|(_, _, wrong)| f64::from(u8::from(*wrong))).collect();
        100.0 * mean(&some)
    };
    let free = mean(&verdicts.iter().map(|(_, free, _)| *free).collect::<Vec<_>>());
    let mut insert = |what, value| numbers.insert((who.to_owned(), what), value);
    insert("wrong", wrong(&|_| true));
    insert("wrong-away", wrong(&|rate| (rate - free).abs() > AWAY));
    insert("wrong-near", wrong(&|rate| (rate - free).abs() <= AWAY));
    let each = AT.map(|what| {
        let at: f64 = what.trim_start_matches("at-").parse().unwrap_or(f64::NAN);
        (what, wrong(&|rate| (rate - at).abs() < 0.05))
    });
    each.into_iter().filter(|(_, value)| !value.is_nan()).for_each(|(what, value)| {
        insert(what, value);
    });
    insert("wrong-worst", largest(each.into_iter().map(|(_, value)| value).filter(|value| !value.is_nan())));
}

/// Draws the share of wrong verdicts over the rate, a panel for each length.
pub(super) fn figure(study: &LearnedStreams, findings: &Findings) -> Figure {
    let names: Vec<&str> =
        findings.measures.keys().filter_map(|key| key.strip_suffix("/wrong-worst")).collect();
    let panel = |length: &u32| {
        let mut panel = Panel::new(&format!("{length} packets"), "rate sent, Gb/s", "wrong, %");
        for name in names.iter().filter(|name| name.contains(&format!(" {length} "))) {
            let points = AT.iter().filter_map(|what| {
                let at = what.trim_start_matches("at-").parse().ok()?;
                Some((at, *findings.measures.get(&format!("{name}/{what}"))?))
            });
            let curve = if name.starts_with("null") { Curve::reference } else { Curve::line };
            panel = panel.with(curve(name.split(' ').next().unwrap_or(name), points.collect()));
        }
        panel
    };
    Figure::curves(study.lengths.iter().map(panel).collect::<Vec<Panel>>())
}

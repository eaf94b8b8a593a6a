//! The picture of the evidence: delays of pairs over their rates, and rates of trains over hops.

use headway_estimate::locate::{Answer, Locator};
use headway_estimate::ppdd::Capacity;
use headway_figures::{Curve, Figure, Panel};
use headway_units::{Duration, Rate};

use super::report::Context;

/// Returns the picture as the text of an SVG file.
pub(crate) fn draw(context: &Context, locator: &Locator, answer: &Answer) -> anyhow::Result<String> {
    let panels = [pairs(context, locator, answer), trains(context, answer)];
    Ok(Figure::curves(panels.into_iter().flatten()).svg()?)
}

/// One-way delays of both packets of pairs over the pairs' rates; their lowest values meet at the capacity.
fn pairs(context: &Context, locator: &Locator, answer: &Answer) -> Option<Panel> {
    let pairs = locator.pairs().triplets();
    let least = pairs.iter().map(|pair| pair.first).min()?;
    let skew = locator.pairs().skew();
    let highest = answer.capacity.map_or(f64::INFINITY, |capacity| 3.0 * capacity.rate.mbps());
    let point = |rate: Rate, delay: Duration| (rate.mbps(), (delay - least).ms());
    let points = |second: bool| {
        let delays = pairs.iter().filter_map(|pair| {
            let delay = if second {
                skew.corrected(pair.sent + pair.gap, pair.second)
            } else {
                skew.corrected(pair.sent, pair.first)
            };
            let rate = Rate::of(locator.pairs().packet(), pair.dispersion)?;
            (rate.mbps() <= highest).then(|| point(rate, delay))
        });
        delays.collect::<Vec<_>>()
    };
    let title = format!("Pairs to {}", context.host);
    let mut panel = Panel::new(&title, "rate of the pair, Mb/s", "one-way delay above the least, ms")
        .with(Curve::dots("first packet", points(false)))
        .with(Curve::dots("second packet", points(true)));
    if let Some(capacity) = answer.capacity.filter(Capacity::is_clear) {
        let highest = pairs.iter().map(|pair| (pair.second.max(pair.first) - least).ms());
        let top = highest.fold(0.0, f64::max);
        let mbps = capacity.rate.mbps();
        panel = panel.with(Curve::reference("capacity", vec![(mbps, 0.0), (mbps, top)]));
    }
    Some(panel)
}

/// Mean rates of trains over the hop at which their hidden packets died; a step marks the narrow link.
fn trains(context: &Context, answer: &Answer) -> Option<Panel> {
    let groups = &answer.groups;
    let (first, last) = (groups.last()?, groups.first()?);
    let points = |rate: fn(&headway_estimate::locate::Group) -> f64| -> Vec<(f64, f64)> {
        groups.iter().map(|group| (f64::from(group.hop), rate(group))).collect()
    };
    let errors = groups.iter().map(|group| {
        let error = group.deviation.mbps() / (group.trains as f64).sqrt();
        (group.rate.mbps() - error, group.rate.mbps() + error)
    });
    let title = format!("Trains to {}", context.host);
    let axis = "mean rate of trains, Mb/s";
    let mut panel = Panel::new(&title, "hop at which hidden packets end", axis).with(Curve::intervals(
        "trains",
        points(|group| group.rate.mbps()),
        errors.collect(),
    ));
    if let Some(capacity) = answer.capacity.filter(Capacity::is_clear) {
        let mbps = capacity.rate.mbps();
        let ends = vec![(f64::from(first.hop), mbps), (f64::from(last.hop), mbps)];
        panel = panel.with(Curve::reference("capacity", ends));
    }
    Some(panel)
}

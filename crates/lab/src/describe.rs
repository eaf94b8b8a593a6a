//! Networks in words: warnings about a file, links, and their state.

use std::path::Path;

use headway_scenario::Scenario;
use headway_traffic::channel::{Delays, EcnField};
use headway_units::Duration;

use crate::{Coalescing, Direction, Error, Interval, LinkSpec, LinkStatus, RouterStatus, check_network};

/// Reads the network of a scenario file; also returns warnings about it, one sentence each.
///
/// # Errors
/// If the file cannot be read, or is no network that a lab can emulate.
pub fn load(file: &Path) -> Result<(Scenario, Vec<String>), Error> {
    let network = Scenario::load_network(file)?;
    let found = check_network(&network)?;
    let warnings = network.warnings.iter().cloned().chain(found).collect();
    Ok((network, warnings))
}

/// Describes one direction of a link.
pub fn describe_link(link: &LinkSpec) -> String {
    // Outages may be many.
    let steady = LinkSpec { outages: None, ..link.clone() };
    let rates: Vec<String> = steady.rate_steps().list().map(|(_, rate)| rate.to_string()).collect();
    let rates = match (&link.trace, link.burst) {
        (Some(_), _) => format!("{} as its trace says", rates.join("")),
        (None, Some(burst)) => format!("{} behind a bucket of {burst}", rates.join("")),
        (None, None) => rates.join(" then "),
    };
    let delay = match &link.delay_trace {
        Some(trace) => format!("{} to {} as its trace says", trace.least(), trace.most()),
        None => link.delay.to_string(),
    };
    let mut text = format!("{rates}, delay {delay}, buffer {}", link.buffer_size());
    match link.jitter.distribution {
        Delays::Uniform { max } if max > Duration::ZERO => {
            text += &format!(", jitter up to {max}");
        }
        Delays::Uniform { .. } => {}
        Delays::Normal { mean, .. } | Delays::Pareto { mean, .. } => text += &format!(", jitter of {mean}"),
    }
    if let Some(policer) = link.police {
        text += &format!(", policed at {} with a bucket of {}", policer.rate, policer.burst);
    }
    if link.loss_bursts.is_some() {
        text += ", loss in bursts";
    }
    if link.loss > 0.0 {
        text += &format!(", loss {}", link.loss);
    }
    for (what, share) in [("duplicated", link.duplicate), ("damaged", link.corrupt)] {
        if share > 0.0 {
            text += &format!(", {what} {share}");
        }
    }
    if link.ecn == EcnField::Clear {
        text += ", ECN cleared";
    }
    if link.outages.is_some() {
        text += ", with outages";
    }
    match link.coalesce {
        None => {}
        Some(Coalescing::Fixed { interval, .. }) => text += &format!(", coalescing {interval}"),
        Some(Coalescing::Adaptive { frames, .. }) => text += &format!(", coalescing {frames} frames"),
    }
    text
}

/// Describes both directions of a link, of several or the only one.
pub fn lanes(link: &LinkStatus, several: bool) -> Vec<String> {
    let LinkStatus { name, forward, reverse, forward_router, reverse_router, .. } = link;
    let mut lines = Vec::new();
    for (direction, now, router) in
        [(Direction::Forward, forward, forward_router), (Direction::Reverse, reverse, reverse_router)]
    {
        let lane = if several { format!("{name} {direction}") } else { direction.to_string() };
        let text = now.as_ref().map_or("nothing logged yet".to_owned(), describe_interval);
        lines.push(format!("{lane} now: {text}"));
        lines.extend(router.as_ref().map(|router| format!("{lane} router: {}", describe_router(router))));
    }
    lines
}

fn describe_router(router: &RouterStatus) -> String {
    let RouterStatus { headers, latest } = router;
    let mut text =
        format!("{} headers, {} lowered, {} rejected", headers.headers, headers.rewritten, headers.dropped());
    if let Some(latest) = latest {
        let rate = |bps: f64| format!("{:.3} Mb/s", bps / 1e6);
        let name = &latest.law;
        text += &format!(", {name}: input {}, queue {} B", rate(latest.input_bps), latest.queue_bytes);
        text += &match latest.rate_bps {
            0.0 => format!(", feedback {}", rate(latest.feedback_bps)),
            bps => format!(", rate {}", rate(bps)),
        };
    }
    text
}

fn describe_interval(now: &Interval) -> String {
    format!(
        "free {} of {}, hosts send {}, queue up to {}",
        now.free(),
        now.capacity,
        now.host(),
        now.max_queue
    )
}

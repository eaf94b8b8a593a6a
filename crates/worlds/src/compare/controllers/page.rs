//! The report of a comparison of controllers.

use headway_figures::{CannotDraw, Curve, Figure, Panel, Points, page};
use headway_record::{Interval, Results};
use headway_units::{Bytes, Duration, Instant, Rate};
use maud::html;

use super::super::page::counted;
use super::{ControllerComparison, Entry};
use crate::page::curve;

/// Returns the picture of throughput, queueing delay and loss over time, as SVG text.
///
/// # Errors
/// When it cannot be drawn.
pub fn picture(comparison: &ControllerComparison) -> Result<String, CannotDraw> {
    let panel = |title: &str, y: &str, values: &dyn Fn(&Entry) -> Points| {
        let panel = Panel::new(title, "time, s", y).with_y_range(0.0, 0.0);
        let curve = |one: &Entry| Curve::line(&one.controller, values(one));
        comparison.controllers.iter().map(curve).fold(panel, Panel::with)
    };
    let link = comparison.link.as_str();
    let mut throughput = if follows_flows(comparison) {
        let title = format!("Goodput of {}", comparison.flow_names());
        panel(&title, "goodput, Mb/s", &goodput)
    } else {
        let rate = |one: &Entry| of_link(&one.first, link, |values, time| mbps(values.measured, time));
        panel(&format!("TCP at {link}"), "throughput on the wire, Mb/s", &rate)
    };
    if let Some(one) = comparison.controllers.first() {
        throughput = throughput.with(Curve::reference("capacity", capacity(&one.first, link)));
    }
    let queue = panel(&format!("Queue of {link}"), "queueing delay, ms", &|one| delay(&one.first, link));
    let drops = panel(&format!("Losses at {link}"), "drops, packets/s", &|one| drops(&one.first, link));
    Figure::curves([throughput, queue, drops]).svg()
}

/// Returns the report, with the picture in it.
///
/// # Errors
/// When the picture cannot be drawn.
pub fn report(comparison: &ControllerComparison) -> Result<String, CannotDraw> {
    let [measured, warmup] = [comparison.measured_ns, comparison.warmup_ns].map(Duration::from_ns);
    let queue = if comparison.world == "lab" { "the longest queue of" } else { "the queue at the end of" };
    let body = html! {
        p { (counted(measured, warmup, &comparison.set)) }
        (page::table(comparison.columns(), &comparison.rows()))
        @for line in comparison.remarks() { p.note { (line) } }
        h2 { "Over time" }
        (page::figure(&picture(comparison)?))
        p.note {
            "Seed " (comparison.seeds.first().copied().unwrap_or_default()) ", warm-up included. Capacity counts bytes on \
             the wire, goodput payload that arrived in order. Queueing delay is the time that " (queue) " every interval \
             takes at the rate of that time."
        }
    };
    Ok(page::document(&format!("{} on {}: controllers", comparison.scenario, comparison.world), body)
        .into_string())
}

/// Whether only some flows have the controllers, and the time series of all runs include them.
fn follows_flows(comparison: &ControllerComparison) -> bool {
    let follows =
        |one: &Entry| one.replaced.last().is_some_and(|last| *last < one.first.series.goodput.len());
    !comparison.flows.is_empty() && comparison.controllers.iter().all(follows)
}

/// Returns the goodput of the flows that have the controller.
fn goodput(one: &Entry) -> Points {
    let series = &one.first.series;
    curve(series, |index, begin, end| {
        let bytes: Bytes = one.replaced.iter().map(|flow| series.goodput[*flow][index]).sum();
        mbps(bytes, end - begin)
    })
}

fn capacity(run: &Results, link: &str) -> Points {
    of_link(run, link, |values, time| mbps(values.capacity.unwrap_or_default(), time))
}

/// Returns the time that the queue at the end of every interval takes at the mean rate of the interval (ms).
fn delay(run: &Results, link: &str) -> Points {
    of_link(run, link, |values, time| {
        let capacity = values.capacity.unwrap_or_default().get();
        if capacity == 0 { 0.0 } else { values.queue.get() as f64 / capacity as f64 * time.ms() }
    })
}

fn drops(run: &Results, link: &str) -> Points {
    of_link(run, link, |values, time| values.dropped as f64 / time.secs_f64())
}

/// Returns a value of a link over time.
fn of_link(run: &Results, link: &str, value: impl Fn(&Interval, Duration) -> f64) -> Points {
    let Some(index) = run.series.names.iter().position(|name| name == link) else { return Vec::new() };
    let values = &run.series.links[index];
    curve(&run.series, |index, begin: Instant, end| value(&values[index], end - begin))
}

fn mbps(bytes: Bytes, time: Duration) -> f64 {
    Rate::of(bytes, time).unwrap_or_default().mbps()
}

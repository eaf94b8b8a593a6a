//! The figure of the fluid: queue, rate and growth over time.

use headway_figures::{Curve, Figure, Panel};
use headway_formulas::explicit::{Flows, Fluid, Point, Surge, Trajectory};

use super::Link;

/// Points of a curve; more would not be distinguished.
const POINTS: usize = 1000;

/// Returns the figure as the text of an SVG file.
pub(super) fn draw(link: Link, fluid: &Fluid, trajectory: &Trajectory) -> anyhow::Result<String> {
    let apart = trajectory.points().count().div_ceil(POINTS).max(1);
    let points: Vec<Point> = trajectory.points().step_by(apart).collect();
    let over_time = |value: &dyn Fn(&Point) -> f64| -> Vec<(f64, f64)> {
        points.iter().map(|point| (point.time.secs_f64(), value(point))).collect()
    };
    let kilobytes = |queue: f64| link.bytes(queue).get() as f64 / 1e3;
    let surge = Surge { beta: fluid.beta };
    let mut queue = Panel::new("", "time, s", "queue, kB")
        .with(Curve::line("queue", over_time(&|point| kilobytes(point.queue))));
    if let Flows::Growing(growth) = fluid.flows
        && let Some(expected) = surge.compensation_queue(growth)
    {
        let line = over_time(&|_| kilobytes(expected));
        queue = queue.with(Curve::reference("closed form", line));
    }
    let rate = Panel::new("", "time, s", "rate of all flows, Mb/s")
        .with(Curve::line("rate", over_time(&|point| link.rate.mbps() * point.rate)))
        .with(Curve::reference("capacity", over_time(&|_| link.rate.mbps())));
    let growth = Panel::new("", "time, s", "growth of flows per RTT")
        .with(Curve::line("growth", over_time(&|point| fluid.growth(point.time))))
        .with(Curve::reference("limit of RCP", over_time(&|_| surge.limit().growth)));
    Ok(Figure::curves([queue, rate, growth]).svg()?)
}

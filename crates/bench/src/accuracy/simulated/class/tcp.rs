//! Paths whose cross traffic is TCP: what people have most often.

use headway_worlds::draw::Draw;

use super::{USUAL_TCP, bare};
use crate::accuracy::simulated::path::{Path, digits};
use crate::accuracy::simulated::traffic::{SMOOTH, controller, datagrams, greedy_flows, sessions, videos};

/// Returns a path of one link with a few datagrams besides the TCP that is added later.
fn one_link(draw: &mut Draw) -> Path {
    let mbps = draw.log_uniform(USUAL_TCP.0, USUAL_TCP.1);
    let mut path = bare(draw, mbps);
    add_link(draw, &mut path, mbps);
    path
}

fn add_link(draw: &mut Draw, path: &mut Path, mbps: f64) {
    let (model, load) = (draw.choose(&SMOOTH), draw.between(0.0, 0.1));
    let traffic = datagrams(draw, path, model, mbps * load);
    let products = draw.log_uniform(0.3, 4.0);
    path.add_link(mbps, products).traffic.push(traffic);
}

/// Short flows that arrive at random.
pub(super) fn short_flows(draw: &mut Draw) -> Path {
    let mut path = one_link(draw);
    let load = draw.between(0.1, 0.7);
    let mean = draw.log_uniform(20e3, 300e3);
    let flows = sessions(draw, path.narrow() * load, mean);
    path.flows.push(flows);
    path
}

/// Players that fetch a chunk of a film, and the next one some time later.
pub(super) fn video(draw: &mut Draw) -> Path {
    let mut path = one_link(draw);
    let load = draw.between(0.2, 0.8);
    let flows = videos(draw, &path, path.narrow() * load);
    path.flows.push(flows);
    path
}

/// Eight to twenty greedy flows.
pub(super) fn many_greedy(draw: &mut Draw) -> Path {
    let mut path = one_link(draw);
    let (count, controller) = (draw.integer(8, 20), controller(draw));
    path.flows.push(greedy_flows(count, controller));
    path
}

/// Downloads of a few megabytes, each of which takes what it gets.
pub(super) fn downloads(draw: &mut Draw) -> Path {
    let mut path = one_link(draw);
    let load = draw.between(0.2, 0.7);
    let mean = path.narrow() * 1e6 / 8.0 * draw.log_uniform(0.2, 2.0);
    let flows = sessions(draw, path.narrow() * load, mean);
    path.flows.push(flows);
    path
}

/// A long flow, greedy or limited by its receive window, beside short ones.
pub(super) fn elephant(draw: &mut Draw) -> Path {
    let mut path = one_link(draw);
    let (controller, share) = (controller(draw), draw.between(0.2, 0.6));
    let window = path.narrow() * 1e6 / 8.0 * path.round_trip_ms / 1e3 * share;
    let limited = draw.choose(&[true, true, false]);
    let mut keys = greedy_flows(1, controller);
    if limited {
        keys += &format!("\nreceive-buffer = \"{} B\"", window.max(8.0 * path.packet()).round());
    }
    path.flows.push(keys);
    let mice = draw.between(0.05, 0.25);
    let flows = sessions(draw, path.narrow() * mice, 30e3);
    path.flows.push(flows);
    path
}

/// Short flows on each of two or three links, and some that cross all of them.
pub(super) fn several_links(draw: &mut Draw) -> Path {
    let slowest = draw.log_uniform(USUAL_TCP.0, 300.0);
    let mut path = bare(draw, slowest);
    for _ in 0..draw.integer(2, 3) {
        let mbps = digits(slowest * draw.log_uniform(1.0, 2.0));
        add_link(draw, &mut path, mbps);
        let (load, mean) = (draw.between(0.1, 0.5), draw.log_uniform(20e3, 300e3));
        let flows = sessions(draw, mbps * load, mean);
        if let Some(hop) = path.hops.last_mut() {
            hop.flows.push(flows);
        }
    }
    let across = draw.between(0.01, 0.15);
    let flows = sessions(draw, slowest * across, 50e3);
    path.flows.push(flows);
    path
}

/// Short flows whose ACKs come back over a loaded link.
pub(super) fn loaded_way_back(draw: &mut Draw) -> Path {
    let mut path = one_link(draw);
    let (load, back) = (draw.between(0.1, 0.6), draw.between(0.6, 1.1));
    let mean = draw.log_uniform(20e3, 300e3);
    let flows = sessions(draw, path.narrow() * load, mean);
    path.flows.push(flows);
    let traffic = datagrams(draw, &path, SMOOTH[1], path.narrow() * back);
    path.back.push(traffic);
    path
}

//! Paths with several loaded links.

use headway_worlds::draw::Draw;

use super::{add_loaded_link, bare};
use crate::accuracy::simulated::path::{Path, digits};
use crate::accuracy::simulated::traffic::{ALL, Model, datagrams};

/// Three to six links of similar rates, none of them loaded much.
pub(super) fn many_hops(draw: &mut Draw) -> Path {
    let slowest = draw.log_uniform(5.0, 1e3);
    let mut path = bare(draw, slowest);
    for _ in 0..draw.integer(3, 6) {
        let mbps = digits(slowest * draw.log_uniform(1.0, 1.5));
        add_loaded_link(draw, &mut path, mbps, &ALL[..3], (0.1, 0.45));
    }
    path
}

/// Two links, the second of which has up to 30 % more or less available.
pub(super) fn nearly_tight(draw: &mut Draw) -> Path {
    let mbps = draw.log_uniform(5.0, 1e3);
    let mut path = bare(draw, mbps);
    let (load, apart) = (draw.between(0.2, 0.8), draw.between(0.0, 0.3));
    let free = mbps * (1.0 - load);
    let mut hops = [free, (free * (1.0 + apart)).min(0.95 * mbps)];
    if draw.choose(&[false, true]) {
        hops.reverse();
    }
    for free in hops {
        let model = draw.choose(&ALL[..3]);
        let traffic = datagrams(draw, &path, model, mbps - free);
        let products = draw.log_uniform(0.5, 4.0);
        path.add_link(mbps, products).traffic.push(traffic);
    }
    path
}

/// Two to four links with self-similar traffic of their own.
pub(super) fn self_similar_hops(draw: &mut Draw) -> Path {
    let slowest = draw.log_uniform(5.0, 1e3);
    let mut path = bare(draw, slowest);
    for _ in 0..draw.integer(2, 4) {
        let mbps = digits(slowest * draw.log_uniform(1.0, 2.0));
        add_loaded_link(draw, &mut path, mbps, &[Model::LongRange], (0.1, 0.6));
    }
    path
}

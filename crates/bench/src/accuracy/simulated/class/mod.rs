//! The classes of paths and the ranges of their values.

mod chains;
mod links;
mod tcp;

use super::path::{Hop, Path, digits, fixed_interval};
use super::traffic::{ALL, BURSTY, Model, SMOOTH, applications, datagrams, greedy, on_off};
use headway_worlds::draw::Draw;

/// A class of paths with something in common.
pub(super) struct Class {
    pub(super) name: &'static str,
    /// Draws a path of the class.
    pub(super) path: fn(&mut Draw) -> Path,
}

pub(super) const CLASSES: [Class; 52] = [
    Class { name: "empty", path: empty },
    Class { name: "constant-rate", path: constant_rate },
    Class { name: "poisson", path: poisson },
    Class { name: "batches", path: batches },
    Class { name: "long-range", path: long_range },
    Class { name: "mixed-sources", path: mixed_sources },
    Class { name: "high-load", path: high_load },
    Class { name: "slow", path: slow },
    Class { name: "far-away", path: far_away },
    Class { name: "narrow-then-tight", path: narrow_then_tight },
    Class { name: "tight-then-narrow", path: tight_then_narrow },
    Class { name: "narrow-tight-bursty", path: narrow_tight_bursty },
    Class { name: "equally-tight", path: equally_tight },
    Class { name: "several-queues", path: several_queues },
    Class { name: "coalescing", path: coalescing },
    Class { name: "10g-coalescing", path: ten_gigabits },
    Class { name: "fast-jumbo", path: fast_jumbo },
    Class { name: "fast-1500", path: fast_small },
    Class { name: "few-packets", path: few_packets },
    Class { name: "shallow-bursty", path: shallow_bursty },
    Class { name: "jitter", path: jitter },
    Class { name: "reordering", path: reordering },
    Class { name: "random-loss", path: random_loss },
    Class { name: "token-bucket", path: token_bucket },
    Class { name: "tcp", path: tcp },
    Class { name: "load-steps", path: load_steps },
    Class { name: "anything", path: anything },
    // New classes come last, so that a seed draws the same paths of the others as before.
    Class { name: "policer", path: policer },
    Class { name: "tcp-short-flows", path: tcp::short_flows },
    Class { name: "tcp-video", path: tcp::video },
    Class { name: "tcp-many-greedy", path: tcp::many_greedy },
    Class { name: "tcp-downloads", path: tcp::downloads },
    Class { name: "tcp-elephant", path: tcp::elephant },
    Class { name: "tcp-several-links", path: tcp::several_links },
    Class { name: "tcp-loaded-way-back", path: tcp::loaded_way_back },
    Class { name: "loss-and-tcp", path: links::loss_and_tcp },
    Class { name: "many-hops", path: chains::many_hops },
    Class { name: "nearly-tight", path: chains::nearly_tight },
    Class { name: "self-similar-hops", path: chains::self_similar_hops },
    Class { name: "managed-queue", path: links::managed_queue },
    Class { name: "bursts-in-step", path: links::bursts_in_step },
    Class { name: "web", path: links::web_traffic },
    Class { name: "almost-full", path: links::almost_full },
    Class { name: "line-as-fast", path: links::line_as_fast },
    Class { name: "packet-sizes", path: links::packet_sizes },
    Class { name: "nearby", path: links::nearby },
    Class { name: "rate-step", path: links::rate_step },
    Class { name: "varying-rate", path: links::varying_rate },
    Class { name: "fast-coalescing", path: links::fast_coalescing },
    Class { name: "peak-rate", path: links::peak_rate },
    Class { name: "stalls", path: links::stalls },
    Class { name: "radio-jitter", path: links::radio_jitter },
];

/// Range of rates of one queue in most classes, Mb/s.
const USUAL: (f64, f64) = (5.0, 5e3);
/// The same where TCP crosses it: each of its packets is simulated for seconds before the first measurement.
const USUAL_TCP: (f64, f64) = (5.0, 1e3);
/// Rate of a host's line as a multiple of the narrow link's.
const LINES: [f64; 4] = [2.0, 4.0, 10.0, 40.0];

/// Returns a path without links, for links up to `mbps`.
fn bare(draw: &mut Draw, mbps: f64) -> Path {
    let mtu = if mbps >= 1e3 { draw.choose(&[1500, 1500, 1500, 9000]) } else { 1500 };
    Path::new(mtu, draw.log_uniform(2.0, 100.0), draw.choose(&LINES))
}

/// Returns a path of one queue, with traffic of one of `models` that takes a share `load` of its rate.
fn one_queue(draw: &mut Draw, (low, high): (f64, f64), models: &[Model], load: (f64, f64)) -> Path {
    let mbps = draw.log_uniform(low, high);
    let mut path = bare(draw, mbps);
    add_loaded_link(draw, &mut path, mbps, models, load);
    path
}

/// Adds a link with traffic of one of `models` that takes a share of its rate.
fn add_loaded_link(draw: &mut Draw, path: &mut Path, mbps: f64, models: &[Model], (low, high): (f64, f64)) {
    let (model, load) = (draw.choose(models), draw.between(low, high));
    let traffic = datagrams(draw, path, model, mbps * load);
    let products = draw.log_uniform(0.3, 4.0);
    path.add_link(mbps, products).traffic.push(traffic);
}

fn empty(draw: &mut Draw) -> Path {
    let mbps = draw.log_uniform(1.5, 10e3);
    let mut path = bare(draw, mbps);
    let products = draw.log_uniform(0.3, 4.0);
    path.add_link(mbps, products);
    path
}

fn constant_rate(draw: &mut Draw) -> Path {
    one_queue(draw, USUAL, &[Model::Constant], (0.1, 0.8))
}

fn poisson(draw: &mut Draw) -> Path {
    one_queue(draw, USUAL, &[Model::Poisson], (0.1, 0.8))
}

fn batches(draw: &mut Draw) -> Path {
    one_queue(draw, USUAL, &[Model::Batches], (0.1, 0.8))
}

fn long_range(draw: &mut Draw) -> Path {
    one_queue(draw, USUAL, &[Model::LongRange], (0.1, 0.7))
}

/// Two or three sources of any model and packet size.
fn mixed_sources(draw: &mut Draw) -> Path {
    let mbps = draw.log_uniform(USUAL.0, USUAL.1);
    let mut path = bare(draw, mbps);
    let (sources, load) = (draw.integer(2, 3), draw.between(0.2, 0.8));
    let products = draw.log_uniform(0.3, 4.0);
    let mut traffic = Vec::new();
    for _ in 0..sources {
        let model = draw.choose(&ALL);
        traffic.push(datagrams(draw, &path, model, mbps * load / sources as f64));
    }
    path.add_link(mbps, products).traffic = traffic;
    path
}

fn high_load(draw: &mut Draw) -> Path {
    one_queue(draw, USUAL, &ALL[..3], (0.8, 0.95))
}

fn slow(draw: &mut Draw) -> Path {
    one_queue(draw, (1.2, 8.0), &ALL[..3], (0.0, 0.7))
}

/// RTTs of 100 to 400 ms.
fn far_away(draw: &mut Draw) -> Path {
    let mbps = draw.log_uniform(5.0, 1e3);
    let mut path = Path::new(1500, draw.log_uniform(100.0, 400.0), draw.choose(&LINES));
    add_loaded_link(draw, &mut path, mbps, &ALL, (0.1, 0.7));
    path
}

/// A narrow link with little traffic, and a faster one with less available bandwidth.
fn narrow_and_tight(draw: &mut Draw, models: &[Model], tight_first: bool) -> Path {
    let narrow = draw.log_uniform(5.0, 2e3);
    let mut path = bare(draw, narrow);
    let load = draw.between(0.0, 0.3);
    let tight = narrow * draw.log_uniform(1.2, 10.0);
    let free = narrow * (1.0 - load) * draw.between(0.25, 0.85);
    let mut hops = [(narrow, narrow * load), (tight, tight - free)];
    if tight_first {
        hops.reverse();
    }
    for (mbps, cross) in hops {
        let model = draw.choose(models);
        let traffic = datagrams(draw, &path, model, cross);
        let products = draw.log_uniform(0.5, 4.0);
        path.add_link(digits(mbps), products).traffic.push(traffic);
    }
    path
}

fn narrow_then_tight(draw: &mut Draw) -> Path {
    narrow_and_tight(draw, &SMOOTH, false)
}

fn tight_then_narrow(draw: &mut Draw) -> Path {
    narrow_and_tight(draw, &SMOOTH, true)
}

fn narrow_tight_bursty(draw: &mut Draw) -> Path {
    let tight_first = draw.choose(&[false, true]);
    narrow_and_tight(draw, &BURSTY, tight_first)
}

/// Two or three links with the same available bandwidth.
fn equally_tight(draw: &mut Draw) -> Path {
    let mbps = draw.log_uniform(5.0, 2e3);
    let mut path = bare(draw, mbps);
    let (hops, load, model) = (draw.integer(2, 3), draw.between(0.2, 0.8), draw.choose(&ALL[..3]));
    for _ in 0..hops {
        let traffic = datagrams(draw, &path, model, mbps * load);
        let products = draw.log_uniform(0.5, 4.0);
        path.add_link(mbps, products).traffic.push(traffic);
    }
    path
}

/// Three to five loaded links of any rates; some of the traffic crosses all of them.
fn several_queues(draw: &mut Draw) -> Path {
    let slowest = draw.log_uniform(5.0, 1e3);
    let mut path = bare(draw, slowest);
    for _ in 0..draw.integer(3, 5) {
        let mbps = digits(slowest * draw.log_uniform(1.0, 10.0));
        add_loaded_link(draw, &mut path, mbps, &ALL, (0.1, 0.7));
    }
    let model = draw.choose(&ALL);
    let across = path.narrow() * draw.between(0.0, 0.2);
    let traffic = datagrams(draw, &path, model, across);
    path.across.push(traffic);
    path
}

fn coalescing(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, (50.0, 5e3), &ALL, (0.1, 0.7));
    path.coalescing = Some(fixed_interval(draw.log_uniform(20.0, 250.0)));
    path
}

fn ten_gigabits(draw: &mut Draw) -> Path {
    let mut path =
        Path::new(draw.choose(&[1500, 9000]), draw.log_uniform(2.0, 40.0), draw.choose(&[2.0, 4.0]));
    add_loaded_link(draw, &mut path, 10e3, &ALL, (0.1, 0.8));
    path.coalescing = Some(fixed_interval(draw.log_uniform(40.0, 200.0)));
    path
}

fn fast(draw: &mut Draw, mtu: u32, load: (f64, f64)) -> Path {
    let mbps = draw.choose(&[25e3, 40e3, 50e3, 100e3]);
    let mut path = Path::new(mtu, draw.log_uniform(1.0, 20.0), draw.choose(&[1.0, 2.0, 4.0]));
    add_loaded_link(draw, &mut path, mbps, &ALL, load);
    path.coalescing = draw.choose(&[None, Some(30.0), Some(120.0)]).map(fixed_interval);
    path
}

fn fast_jumbo(draw: &mut Draw) -> Path {
    fast(draw, 9000, (0.1, 0.8))
}

/// Faster than timestamps of whole microseconds can resolve.
fn fast_small(draw: &mut Draw) -> Path {
    fast(draw, 1500, (0.1, 0.6))
}

fn few_packets(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, USUAL, &SMOOTH, (0.2, 0.8));
    path.hops[0].packets = draw.log_uniform(5.0, 50.0).round();
    path
}

fn shallow_bursty(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, USUAL, &BURSTY, (0.4, 0.85));
    path.hops[0].packets = draw.log_uniform(20.0, 200.0).round();
    path
}

/// Adds a link without a queue that delays every packet by a random jitter of up to so many ms.
fn jittery(draw: &mut Draw, reordering: bool, (low, high): (f64, f64)) -> Path {
    let mut path = one_queue(draw, (5.0, 1e3), &ALL, (0.1, 0.7));
    let jitter = (draw.log_uniform(low, high) * 1e3).round();
    let keys = vec![format!("jitter = \"{jitter} us\"\nreordering = {reordering}")];
    let place = draw.choose(&[0, 1]);
    path.hops.insert(place, Hop { keys, ..Hop::default() });
    path
}

fn jitter(draw: &mut Draw) -> Path {
    jittery(draw, false, (0.05, 5.0))
}

fn reordering(draw: &mut Draw) -> Path {
    jittery(draw, true, (0.05, 2.0))
}

fn random_loss(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, (5.0, 1e3), &ALL, (0.1, 0.7));
    let loss = draw.log_uniform(1e-4, 3e-2);
    path.hops[0].keys.push(format!("loss = {loss}"));
    path
}

/// A shaper that lets bursts pass at the rate of the line before it.
fn token_bucket(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, (2.0, 1e3), &ALL[..3], (0.0, 0.6));
    let burst = (draw.log_uniform(3.0, 200.0) * 1e3).round();
    path.hops[0].keys.push(format!("burst = \"{burst} B\""));
    path
}

/// A policer in front of a queue, which drops what exceeds a part of the link's rate after a burst.
fn policer(draw: &mut Draw) -> Path {
    let mbps = draw.log_uniform(5.0, 1e3);
    let mut path = Path::new(1500, draw.log_uniform(2.0, 100.0), draw.choose(&LINES));
    let (rate, load) = (digits(mbps * draw.between(0.05, 0.9)), draw.choose(&[0.0, 0.3, 0.6]));
    let (model, burst) = (draw.choose(&SMOOTH), (draw.log_uniform(10.0, 300.0) * 1e3).round());
    let traffic = datagrams(draw, &path, model, rate * load);
    let products = draw.log_uniform(0.3, 4.0);
    let link = path.add_link(mbps, products);
    link.traffic.push(traffic);
    link.keys.push(format!("police = {{ rate = \"{rate} Mb/s\", burst = \"{burst} B\" }}"));
    path
}

/// TCP flows, application-limited or greedy, with a few datagrams.
fn tcp(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, (5.0, 1e3), &SMOOTH, (0.0, 0.2));
    let load = draw.between(0.1, 0.7);
    let flows = if draw.choose(&[true, true, false]) {
        applications(draw, &path, path.narrow() * load)
    } else {
        greedy(draw)
    };
    path.flows.push(flows);
    path
}

/// A source that switches on and off while measurements run.
fn steps(draw: &mut Draw, path: &Path, peak: f64) -> String {
    on_off(1, (peak, 0.5), draw.log_uniform(500.0, 3000.0), 1.9, path.packet())
}

fn load_steps(draw: &mut Draw) -> Path {
    let mut path = one_queue(draw, USUAL, &SMOOTH, (0.1, 0.4));
    let peak = path.narrow() * draw.between(0.15, 0.45);
    let traffic = steps(draw, &path, peak);
    path.across.push(traffic);
    path
}

/// One to five links with any kind of traffic and impairment.
fn anything(draw: &mut Draw) -> Path {
    let slowest = draw.log_uniform(1.2, 50e3);
    let mtu = draw.choose(&[576, 1500, 1500, 9000]);
    let mut path = Path::new(mtu, draw.log_uniform(1.0, 200.0), draw.choose(&[1.0, 2.0, 4.0, 10.0, 40.0]));
    for _ in 0..draw.integer(1, 5) {
        let mbps = digits((slowest * draw.log_uniform(1.0, 20.0)).min(100e3));
        let load = draw.choose(&[0.0, 0.3, 0.6, 0.9]);
        add_loaded_link(draw, &mut path, mbps, &ALL, (0.0, load));
        add_impairment(draw, &mut path);
    }
    if draw.choose(&[false, false, true]) {
        let peak = path.narrow() * draw.between(0.1, 0.4);
        let traffic = steps(draw, &path, peak);
        path.across.push(traffic);
    }
    path.coalescing = draw.choose(&[None, None, Some(40.0), Some(120.0)]).map(fixed_interval);
    if draw.choose(&[false, false, false, true]) {
        let (most, load) = (path.narrow(), draw.between(0.05, 0.4));
        let flows = applications(draw, &path, most * load);
        path.flows.push(flows);
    }
    path
}

/// Adds a random impairment, if any, to the last link.
fn add_impairment(draw: &mut Draw, path: &mut Path) {
    let (shallow, packets) = (draw.choose(&[false, false, true]), draw.log_uniform(5.0, 100.0).round());
    let (what, value) = (draw.integer(0, 11), draw.log_uniform(0.001, 1.0));
    let Some(hop) = path.hops.last_mut() else { return };
    if shallow {
        hop.packets = packets;
    }
    match what {
        0 => hop.keys.push(format!("jitter = \"{} us\"", (value * 1e3).round())),
        1 => hop.keys.push(format!("jitter = \"{} us\"\nreordering = true", (value * 300.0).ceil())),
        2 => hop.keys.push(format!("loss = {}", digits(value * 0.01))),
        3 => hop.keys.push(format!("burst = \"{} B\"", (value * 1e5).round() + 10e3)),
        _ => {}
    }
}
